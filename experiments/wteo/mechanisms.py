# SPDX-License-Identifier: GPL-2.0
"""Worth of each step of a governor: one removed at a time, all else as it is."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean

from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.tables import Cell, Section, Table, verdict
from cpuidle_lab.replay.candidates import Candidate, parse
from cpuidle_lab.states.table import StateTable
from experiments.memo import Memo
from experiments.wteo import cost, regimes, steps_lab
from experiments.wteo.steps import Step, listed, without
from experiments.wteo.streams import (
    AS_TOLD,
    SYNTH,
    Figures,
    StudyIntervals,
    grouped,
    play_all,
)

# Least worth of a step: points of mean regret, points on one stream, points after a change of
# regime, percent of the instructions.
MEAN_POINTS = 0.1
STREAM_POINTS = 2.0
LEARNING_POINTS = 0.1
COST_PERCENT = 1.0

# Regimes that leave each other soon enough to be tried many times.
_REGIMES = ("poisson-5ms", "periodic-3ms", "timer-1ms")
_MINUTES = regimes.Size(switches=20, before_s=60, away_s=120, regimes=_REGIMES)
_HOURS = regimes.Size(switches=20, before_s=3600, away_s=7200, regimes=_REGIMES)

# Intervals of each recording whose instructions are counted: fewer than for a promise.
_SAMPLE = 500


@dataclass(frozen=True)
class Worth:
    """Cost of the removal of a step; less than 0 is a gain.

    Attributes:
        step: its name.
        means: points of mean regret by state table, and of the corpus.
        worst: most points on one stream, and which.
        best: least points on one stream, and which.
        latency_us: mean modelled wake-up latency, each stream counting the same.
        minutes: points of regret after a change of regime, the old one having lasted a minute.
        hours: the same after an hour, and where the new one was left two hours ago.
        lab: points of mean regret of programs in the lab and their standard error, None where these
            were not booted.
        cost: percent of the instructions at four states, None where they cannot be counted.
        keeps: unit test of a promise that breaks, "" if none does.
        decided: it stays whatever it is worth.
    """

    step: str
    means: dict[str, float]
    worst: tuple[float, str]
    best: tuple[float, str]
    latency_us: float
    minutes: float
    hours: float
    lab: tuple[float, float | None] | None
    cost: float | None
    keeps: str
    decided: bool

    @property
    def pays(self) -> bool:
        """Tell whether the step is worth keeping."""
        return bool(
            fmean(self.means.values()) >= MEAN_POINTS
            or self.worst[0] >= STREAM_POINTS
            or max(self.minutes, self.hours) >= LEARNING_POINTS
            or (self.cost or 0) >= COST_PERCENT
            or self.keeps
        )


def _learned(
    machines: Mapping[str, StateTable], governors: Sequence[Candidate], memo: Memo, meter: Meter
) -> dict[str, tuple[float, float]]:
    """Return the regret in percent after minutes and hours of other regimes, by governor."""
    minutes = regimes.changes(machines, governors, _MINUTES, memo, meter)
    hours = regimes.changes(machines, governors, _HOURS, memo, meter)
    return {
        who.label: (
            fmean(c.regret for c in minutes["switch", who.label]),
            fmean(c.regret for k in ("switch", "stale") for c in hours[k, who.label]),
        )
        for who in governors
    }


def _instructions(
    streams: Sequence[StudyIntervals], governors: Sequence[Candidate], memo: Memo, meter: Meter
) -> dict[str, float | None]:
    table = next(iter(cost.tables()))
    found = cost.by_governor(table, streams, governors, memo, meter, _SAMPLE)
    return {who.label: found.get(who.label) for who in governors}


def _worth(
    step: Step, places: Sequence[tuple[str, Sequence[StudyIntervals]]],
    of: Mapping[StudyIntervals, Figures], base: Mapping[StudyIntervals, Figures],
    learned: tuple[float, float], before: tuple[float, float],
    lab: tuple[float, float | None] | None,
    count: float | None, usual: float | None,
) -> Worth:  # fmt: skip
    more = {s: of[s].regret - base[s].regret for s in base}
    ranked = sorted(more, key=lambda s: more[s])
    best, worst = ((more[s], f"{s.table} {s.name}") for s in (ranked[0], ranked[-1]))
    return Worth(
        step.name,
        {place: fmean(more[s] for s in members) for place, members in places},
        worst,
        best,
        fmean(of[s].mean_latency_us - base[s].mean_latency_us for s in base),
        learned[0] - before[0],
        learned[1] - before[1],
        lab,
        100 * (count / usual - 1) if count and usual else None,
        step.keeps,
        step.decided,
    )


def _lab(worth: Worth) -> Cell:
    if worth.lab is None:
        return None
    mean, error = worth.lab
    return f"{mean:+.2f}" if error is None else f"{mean:+.2f} +-{error:.2f}"


def _row(worth: Worth, verdict_of: str) -> list[Cell]:
    return [
        worth.step, *(f"{value:+.2f}" for value in worth.means.values()), _lab(worth),
        f"{worth.worst[0]:+.1f} {worth.worst[1]}", f"{worth.best[0]:+.1f} {worth.best[1]}",
        f"{worth.latency_us:+.1f}", f"{worth.minutes:+.2f}", f"{worth.hours:+.2f}",
        None if worth.cost is None else f"{worth.cost:+.1f}", verdict_of,
    ]  # fmt: skip


def _why(worth: Worth) -> str:
    if worth.pays:
        return worth.keeps or "yes"
    return "by decision" if worth.decided else "NO"


def measure(
    section: Section, subject: str, streams: Sequence[StudyIntervals],
    machines: Mapping[str, StateTable], memo: Memo, meter: Meter, in_lab: steps_lab.InLab,
) -> None:  # fmt: skip
    """Remove each listed step of a governor in turn, and judge what it is worth.

    Args:
        section: gets a table, a verdict and data; nothing where no steps are listed.
        subject: the governor that is judged, with its tunables.
        streams: the suite and the corpus.
        machines: the state tables, by name; changes of regime are tried on the first.
        memo: where figures are kept.
        meter: shows progress.
        in_lab: what runs there.
    """
    whole = parse(subject, False)[0]
    name = whole.governor.spec
    steps = listed(name)
    if not steps:
        return
    parts = [replace(without(name, step), settings=whole.settings) for step in steps]
    governors = [whole, *parts]
    jobs = [(s, who, AS_TOLD) for who in governors for s in streams]
    figures = iter(play_all(jobs, memo, meter, "Removing steps"))
    of = {who.label: {s: next(figures) for s in streams} for who in governors}
    first = dict(list(machines.items())[:1])
    learned = _learned(first, governors, memo, meter)
    recorded = [s for s in streams if s.group != SYNTH]
    counts = _instructions(recorded, governors, memo, meter)
    booted = steps_lab.measure(whole, steps, in_lab, memo, meter)
    places = [(t if group == SYNTH else "corpus", mine) for group, t, mine in grouped(streams)]
    found = [
        _worth(step, places, of[who.label], of[whole.label], learned[who.label],
               learned[whole.label], booted.get(step.name), counts[who.label], counts[whole.label])
        for step, who in zip(steps, parts, strict=True)
    ]  # fmt: skip
    heads = ("without", *(place for place, _ in places), "lab", "worst stream", "best stream",
             "latency us", "minutes", "hours", "instructions %", "pays")  # fmt: skip
    note = (
        "Points of mean regret above that of the whole governor; in brackets what takes the place "
        "of a step. Corpus: recorded programs, replayed. Lab: programs run under each governor, "
        "points of what was recorded, and their standard error. Minutes, hours: points of regret "
        "after a change of regime, the old one having lasted a minute or an hour, and after two "
        "hours elsewhere. Instructions of a decision at "
        f"four states. A step pays from {MEAN_POINTS} points of mean regret on, "
        f"{STREAM_POINTS:.0f} on one stream, {LEARNING_POINTS} after a change, or "
        f"{COST_PERCENT:.0f} % of the instructions, or if a promise breaks without it: the unit "
        "test that is named."
    )
    rows = [_row(worth, _why(worth)) for worth in found]
    section.tables.append(Table("One step removed at a time", heads, rows, 2, note))
    idle = [worth for worth in found if not worth.pays]
    unpaid = [worth.step for worth in idle if not worth.decided]
    said = f"{len(found) - len(idle)} of {len(found)} do"
    said += f", not {', '.join(unpaid)}" if unpaid else ""
    kept = [worth.step for worth in idle if worth.decided]
    said += f"; {', '.join(kept)} stays by decision" if kept else ""
    section.verdicts.append(verdict(not unpaid, "each step pays, or stays by decision", said))
    section.data["steps"] = [{**asdict(worth), "pays": worth.pays} for worth in found]
