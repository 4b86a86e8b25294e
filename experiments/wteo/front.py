# SPDX-License-Identifier: GPL-2.0
"""Target 2: energy against wake-up latency, as a tunable trades one for the other."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.plots import Line, Plot
from cpuidle_lab.evidence.tables import ABSENT, Cell, Section, Table, Verdict, verdict
from cpuidle_lab.replay.candidates import MAINLINE, Candidate, parse
from cpuidle_lab.replay.library import TunableInfo
from experiments.memo import Memo
from experiments.wteo.regret import share_closed
from experiments.wteo.streams import (
    AS_TOLD,
    SYNTH,
    Figures,
    StudyIntervals,
    grouped,
    latency_of,
    play_all,
)

PART = "front"
TITLE = "Energy against wake-up latency"

BIAS = "latency_bias"
TEO = MAINLINE[1]

# Number of values of the tunable that are tried, evenly by their logarithm.
_VALUES = 12

# Differences that mean nothing.
_SAME = 1e-6

# The promise: part of the gain in energy that the default keeps, %.
KEPT_SHARE = 60.0


def energy_alone(subject: str) -> str:
    """Return a governor with no regard to latency; the same one if it says or has none."""
    mine = parse(subject, False)[0]
    has = any(one.name == BIAS for one in mine.governor.tunables)
    return f"{subject}:{BIAS}=0" if has and BIAS not in dict(mine.settings) else subject


@dataclass(frozen=True)
class Point:
    """A governor on all streams of a table.

    Attributes:
        label: of the governor.
        regret: mean, %.
        mean_us, p99_us: of the modelled wake-up latency, each stream counting the same.
    """

    label: str
    regret: float
    mean_us: float
    p99_us: float

    def dominates(self, other: "Point") -> bool:
        """Tell whether nothing is worse than the other's, and something better."""
        mine = (self.regret, self.mean_us, self.p99_us)
        pairs = list(zip(mine, (other.regret, other.mean_us, other.p99_us), strict=True))
        return all(a <= b + _SAME for a, b in pairs) and any(a < b - _SAME for a, b in pairs)


def values_of(tunable: TunableInfo) -> list[int]:
    """Return what is tried of a tunable: its bounds, its default, and powers between them."""
    top = max(tunable.max, 1)
    steps = {round(top ** (n / (_VALUES - 1))) for n in range(_VALUES)}
    tried = {tunable.min, tunable.default, tunable.max, *steps}
    return sorted(value for value in tried if tunable.min <= value <= tunable.max)


def point(label: str, figures: Sequence[Figures]) -> Point:
    """Return the means of a governor over some streams."""
    return Point(
        label,
        fmean(one.regret for one in figures),
        fmean(one.mean_latency_us for one in figures),
        latency_of(figures, 0.99),
    )


def _candidates(subject: str) -> tuple[list[Candidate], bool]:
    mine = parse(subject, False)[0]
    tunable = next((one for one in mine.governor.tunables if one.name == BIAS), None)
    labels = [subject] if tunable is None else [f"{subject}:{BIAS}={n}" for n in values_of(tunable)]
    return [parse(label, False)[0] for label in (*labels, *MAINLINE)], tunable is not None


def _judge(section: Section, where: str, points: Sequence[Point]) -> None:
    by_label = {one.label: one for one in points}
    theirs = [by_label[label] for label in MAINLINE]
    mine = [one for one in points if one.label not in MAINLINE]
    for other in theirs:
        better = [one.label for one in mine if one.dominates(other)]
        beaten = [one.label for one in mine if other.dominates(one)]
        promise = f"{where}: a setting is better than {other.label} in energy and both latencies"
        figures = better[0] if better else "none is"
        section.verdicts.append(verdict(bool(better), promise, figures))
        promise = f"{where}: no setting is worse than {other.label} in energy and both latencies"
        figures = ", ".join(beaten) or "none is"
        section.verdicts.append(verdict(not beaten, promise, figures))


def _judge_default(section: Section, where: str, points: Sequence[Point], default: str) -> None:
    by_label = {one.label: one for one in points}
    mine, teo = by_label[default], by_label[TEO]
    promise = f"{where}: mean exit latency with the default at most that of {TEO}"
    figures = f"{mine.mean_us:.1f} us, {teo.mean_us:.1f}"
    section.verdicts.append(verdict(mine.mean_us <= teo.mean_us, promise, figures))
    least = min(one.regret for one in points)
    kept = share_closed(teo.regret, mine.regret, least)
    if kept is not None:
        promise = f"{where}: the default keeps {KEPT_SHARE:.0f} % of the gain in energy to {TEO}"
        section.verdicts.append(verdict(kept >= KEPT_SHARE, promise, f"{kept:.0f} %"))


def measure(subject: str, streams: Sequence[StudyIntervals], memo: Memo, meter: Meter) -> Section:
    """Measure the front.

    Args:
        subject: the governor that is judged.
        streams: the suite and the corpus.
        memo: where figures are kept.
        meter: shows progress.
    """
    section = Section(PART, TITLE)
    governors, available = _candidates(subject)
    if not available:
        section.verdicts.append(Verdict(ABSENT, f"{subject} has no tunable {BIAS}", ""))
    jobs = [(stream, who, AS_TOLD) for who in governors for stream in streams]
    figures = dict(
        zip(
            ((who.label, stream) for stream, who, _ in jobs),
            play_all(jobs, memo, meter, "Energy and latency"),
            strict=True,
        )
    )
    rows: list[list[Cell]] = []
    data = []
    for group, table, mine in grouped(streams):
        where = table if group == SYNTH else "corpus"
        points = [point(w.label, [figures[w.label, s] for s in mine]) for w in governors]
        rows += [[where, one.label, one.regret, one.mean_us, one.p99_us] for one in points]
        data += [{"table": where, **asdict(one)} for one in points]
        lines = [
            Line(subject, [(p.mean_us, p.regret) for p in points if p.label not in MAINLINE]),
            *(Line(p.label, [(p.mean_us, p.regret)]) for p in points if p.label in MAINLINE),
        ]
        title = f"Energy against mean wake-up latency, {where}"
        section.plots.append(
            Plot(f"front-{where}", title, "mean wake-up latency, us", "regret, %", lines)
        )
        if available:
            _judge(section, where, points)
            usual = next(one.default for one in governors[0].governor.tunables if one.name == BIAS)
            _judge_default(section, where, points, f"{subject}:{BIAS}={usual}")
    heads = ("states", "governor", "mean regret %", "mean latency us", "p99 latency us")
    note = (
        "Means over all streams of a table, each counting the same; latency is the exit latency of "
        f"the state that the CPU is woken from. {BIAS}: what entering and leaving a state counts "
        "beside its energy, per 1024."
    )
    section.tables.append(Table("Energy and wake-up latency", heads, rows, 1, note))
    section.data["points"] = data
    return section
