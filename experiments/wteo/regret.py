# SPDX-License-Identifier: GPL-2.0
"""Targets 1 and 2: mean regret and the gap that is closed; harm on any single stream."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.plots import Line, Plot
from cpuidle_lab.evidence.tables import Cell, Section, Table, verdict
from cpuidle_lab.replay.candidates import BAYES, MAINLINE, Candidate, parse
from experiments.memo import Memo
from experiments.wteo import worst as worst_decisions
from experiments.wteo.streams import (
    AS_TOLD,
    SYNTH,
    Figures,
    StudyIntervals,
    as_json,
    grouped,
    latency_of,
    play_all,
)

PART = "regret"
TITLE = "Mean regret, and harm on any stream"
UNSEEN = "unseen"
UNSEEN_TITLE = "The same on variations of the streams"

# The promises.
GAP_SHARE = 90.0
HARM_POINTS = 2.0

# Modelled latencies that differ by less are equal.
_SAME_US = 1e-6

# Below this, a gap is no measure of anything.
_LEAST_GAP = 0.5

_LISTED = 12

# Streams whose decisions are shown: those on which most is lost to mainline.
_EXPLAINED = 6

Of = Mapping[str, Figures]  # by label of the governor


@dataclass(frozen=True)
class Comparison:
    """All governors on one stream.

    Attributes:
        stream: the stream.
        of: figures by label.
    """

    stream: StudyIntervals
    of: Of

    def best(self, value: Callable[[Figures], float] = lambda f: f.regret) -> float:
        """Return the figure of the better mainline governor on this stream."""
        return min(value(self.of[label]) for label in MAINLINE)

    def harm(self, subject: str) -> float:
        """Return percentage points of regret above the better mainline governor's."""
        return self.of[subject].regret - self.best()

    def late_us(self, subject: str) -> float:
        """Return p99 of the wake-up latency above that of the worse mainline governor, us."""
        worse = max(self.of[label].latency_us(0.99) for label in MAINLINE)
        return self.of[subject].latency_us(0.99) - worse


def share_closed(best: float, mine: float, floor: float) -> float | None:
    """Return which part of the gap between the better and the floor is closed, %.

    Args:
        best: regret of who is to be beaten.
        mine: regret of the governor that is judged.
        floor: regret that can hardly be beaten.

    Returns:
        None where there is no gap to speak of.
    """
    return 100 * (best - mine) / (best - floor) if best - floor >= _LEAST_GAP else None


@dataclass(frozen=True)
class Row:
    """Means over the streams of a table.

    Attributes:
        group, table: as of streams.grouped().
        streams: how many there are.
        regret: mean regret by governor, %.
        warm: the same without the time of learning.
        better_each: mean of the better mainline governor on each stream.
        floor: mean of the floor: of the one-shot choice on synthetic streams, of `bayes` elsewhere.
        by_mean: share of the gap that is closed, from the governor of lesser mean.
        by_stream: the same, from the better governor of each stream.
        to_bayes: as by_mean, with `bayes` for the floor.
        worst: the stream with most regret above the better mainline governor, and how much.
        p99_us: by governor, over all wake-ups of the table, each stream counting the same.
    """

    group: str
    table: str
    streams: int
    regret: dict[str, float]
    warm: dict[str, float]
    better_each: float
    floor: float
    by_mean: float | None
    by_stream: float | None
    to_bayes: float | None
    worst: tuple[str, float]
    p99_us: dict[str, float]


def row_of(group: str, table: str, cases: Sequence[Comparison], subject: str) -> Row:
    """Return the means of some cases; of synthetic ones, only those whose floor is known."""
    known = [one for one in cases if one.stream.floor is not None] if group == SYNTH else cases
    mean = {g: fmean(one.of[g].regret for one in known) for g in known[0].of}
    warm = {g: fmean(one.of[g].warm_regret for one in known) for g in known[0].of}
    floors = [
        one.of[BAYES].regret if f is None else f for one in known for f in (one.stream.floor,)
    ]
    floor, better = fmean(floors), fmean(one.best() for one in known)
    worst = max(cases, key=lambda one: one.harm(subject))
    return Row(
        group,
        table,
        len(known),
        mean,
        warm,
        better,
        floor,
        share_closed(min(mean[g] for g in MAINLINE), mean[subject], floor),
        share_closed(better, mean[subject], floor),
        share_closed(min(mean[g] for g in MAINLINE), mean[subject], mean[BAYES]),
        (worst.stream.name, worst.harm(subject)),
        {g: latency_of([one.of[g] for one in known], 0.99) for g in known[0].of},
    )


def cases_of(
    streams: Sequence[StudyIntervals], governors: Sequence[Candidate], memo: Memo, meter: Meter
) -> list[Comparison]:
    """Play every governor on every stream."""
    jobs = [(stream, who, AS_TOLD) for stream in streams for who in governors]
    figures = iter(play_all(jobs, memo, meter, "Replaying"))
    return [
        Comparison(stream, {who.label: next(figures) for who in governors}) for stream in streams
    ]


def candidates(subjects: Sequence[str]) -> list[Candidate]:
    """Return who is played: the subjects, menu_ng, mainline's two and bayes."""
    wanted = ",".join(dict.fromkeys((*subjects, "menu_ng")))
    return [one for one in parse(wanted, True) if one.governor.spec != "oracle"]


def _means(rows: Sequence[Row], labels: Sequence[str], subject: str) -> Table:
    heads = ("states", "streams", *labels, "better of each", "floor", f"{subject} warm",
             "gap closed, by mean %", "by stream %", "to bayes %")  # fmt: skip
    cells: list[list[Cell]] = []
    for row in rows:
        means: list[Cell] = [row.regret[label] for label in labels]
        cells.append([
            row.table if row.group == SYNTH else "corpus", row.streams, *means, row.better_each,
            row.floor, row.warm[subject], row.by_mean, row.by_stream, row.to_bayes,
        ])  # fmt: skip
    note = (
        "Regret in percent, whole runs, each stream counting the same; warm: without the first "
        "tenth of each. Synthetic streams whose law gives no floor are left out here. Floor: the "
        "best one-shot choice that knows the law, the hidden condition and the timer; for "
        "the corpus, where no law is known, the estimate of bayes. Gap closed: (best - mine) / "
        "(best - floor) of the means, with best = the mainline governor of lesser mean (by mean), "
        "or the better of the two on each stream, averaged (by stream); to bayes: the same with "
        "the mean of bayes, which is asked again, for the floor."
    )
    return Table("Mean regret", heads, cells, 1, note)


def _violations(cases: Sequence[Comparison], subject: str) -> list[list[Cell]]:
    found: list[tuple[float, list[Cell]]] = []
    for one in cases:
        mine = one.of[subject]
        if one.harm(subject) > HARM_POINTS or one.late_us(subject) > _SAME_US:
            menu, teo = (one.of[label] for label in MAINLINE)
            row: list[Cell] = [
                one.stream.table if one.stream.group == SYNTH else "corpus", one.stream.name,
                mine.regret, menu.regret, teo.regret, one.harm(subject),
                mine.latency_us(0.99), menu.latency_us(0.99), teo.latency_us(0.99),
            ]  # fmt: skip
            kind = ("regret " if one.harm(subject) > HARM_POINTS else "") + (
                "p99" if one.late_us(subject) > _SAME_US else ""
            )
            found.append((-one.harm(subject), [*row, kind.strip()]))
    return [row for _, row in sorted(found, key=lambda pair: (pair[0], str(pair[1])))]


def _harm(violations: Sequence[Sequence[Cell]], subject: str) -> Table:
    heads = ("states", "stream", f"{subject} %", "menu %", "teo %", "above better", "p99 us",
             "menu p99", "teo p99", "which")  # fmt: skip
    shown = violations[:_LISTED]
    left = len(violations) - len(shown)
    note = f"and {left} more, in --json" if left else ""
    title = f"Streams on which {subject} exceeds a limit"
    return Table(title, heads, shown, 1, note)


def _plots(cases: Sequence[Comparison], subjects: Sequence[str]) -> list[Plot]:
    found = []
    for group, table, streams in grouped([one.stream for one in cases]):
        mine = [one for one in cases if one.stream in streams]
        lines = [
            Line(label, [(max(one.of[label].regret, 0.01), n) for n, one in enumerate(mine)], False)
            for label in (*subjects, *MAINLINE, BAYES)
        ]
        names = [one.stream.name for one in mine]
        title = f"Regret on each stream, {table if group == SYNTH else 'corpus'}"
        name = f"regret-{table}"
        found.append(Plot(name, title, "regret, %", "", lines, log_x=True, categories=names))
    return found


def _judge_gap(section: Section, rows: Sequence[Row]) -> None:
    for row in rows:
        for name, share in (("by mean", row.by_mean), ("by stream", row.by_stream)):
            if share is not None and row.group == SYNTH:
                promise = f"{row.table}: {GAP_SHARE:.0f} % of the gap closed, {name}"
                section.verdicts.append(verdict(share >= GAP_SHARE, promise, f"{share:.1f} %"))


def _judge_harm(section: Section, cases: Sequence[Comparison], subject: str) -> None:
    harmed = [one for one in cases if one.harm(subject) > HARM_POINTS]
    late = [one for one in cases if one.late_us(subject) > _SAME_US]
    worst = max(cases, key=lambda one: one.harm(subject))
    promise = (
        f"{subject}: at most {HARM_POINTS:.0f} points above the better mainline governor on each "
        "stream"
    )
    figures = (
        f"{len(harmed)} of {len(cases)} streams exceed it, worst {worst.harm(subject):+.1f} "
        f"({worst.stream.table}, {worst.stream.name})"
    )
    section.verdicts.append(verdict(not harmed, promise, figures))
    promise = f"{subject}: p99 of the exit latency at most that of the worse mainline governor"
    figures = f"{len(late)} of {len(cases)} streams exceed it"
    section.verdicts.append(verdict(not late, promise, figures))


def _section(
    part: str, title: str, subjects: Sequence[str], streams: Sequence[StudyIntervals], memo: Memo,
    meter: Meter,
) -> tuple[Section, list[Comparison]]:  # fmt: skip
    subject = subjects[0]
    governors = candidates(subjects)
    cases = cases_of(streams, governors, memo, meter)
    rows = []
    for group, table, mine in grouped(streams):
        rows.append(row_of(group, table, [one for one in cases if one.stream in mine], subject))
    violations = {one: _violations(cases, one) for one in subjects}
    section = Section(part, title)
    _judge_gap(section, rows)
    for one in subjects:
        _judge_harm(section, cases, one)
    labels = [one.label for one in governors]
    section.tables += [
        _means(rows, labels, subject),
        *(_harm(found, one) for one, found in violations.items()),
    ]
    lost = sorted(cases, key=lambda one: -one.harm(subject))[:_EXPLAINED]
    section.tables.append(worst_decisions.table([one.stream for one in lost], governors[0]))
    section.data = {
        "rows": [asdict(row) for row in rows],
        "violations": violations,
        "streams": [
            {
                "group": one.stream.group,
                "table": one.stream.table,
                "stream": one.stream.name,
                "floor": one.stream.floor,
                "harm": {label: one.harm(label) for label in subjects},
                "late_us": {label: one.late_us(label) for label in subjects},
                "governors": {label: as_json(figures) for label, figures in one.of.items()},
            }
            for one in cases
        ],
    }
    return section, cases


def measure(
    subjects: Sequence[str], streams: Sequence[StudyIntervals], memo: Memo, meter: Meter
) -> Section:
    """Measure targets 1 and 2.

    Args:
        subjects: the governor that is judged, with its tunables as of compare.spec; others that
            are to do no harm either.
        streams: the suite and the corpus.
        memo: where figures are kept.
        meter: shows progress.
    """
    section, cases = _section(PART, TITLE, subjects, streams, memo, meter)
    section.plots += _plots(cases, subjects)
    return section


def measure_unseen(
    subjects: Sequence[str], streams: Sequence[StudyIntervals], memo: Memo, meter: Meter
) -> Section:
    """Measure the same on variations of the streams; otherwise as measure()."""
    return _section(UNSEEN, UNSEEN_TITLE, subjects, streams, memo, meter)[0]
