# SPDX-License-Identifier: GPL-2.0
"""The figures of counts, and of the runs of a side; a figure that cannot be is withheld.

A share is of the group's idle time or entries and lies within 0 to 100. A figure that is missing
has its reason.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cpuidle_lab.dump import groups
from cpuidle_lab.dump.periods import Counts, Period


class Withheld(Exception):  # noqa: N818 - no error
    """A figure that is not known; its text is the reason."""


@dataclass(frozen=True)
class Context:
    """The surroundings of the counts that figures are made of.

    Attributes:
        total: counts of the group.
        period: the period.
    """

    total: Counts
    period: Period


def _known(value: int | None, what: str) -> int:
    if value is None:
        raise Withheld(f"{what} is not told")
    return value


def _part(part: float, whole: float, of: str) -> float:
    if not whole:
        raise Withheld(f"there is no {of}")
    if part > whole:
        raise Withheld(f"more than all {of}: the counters contradict each other")
    return 100 * part / whole


def _misses(counts: Counts) -> int:
    return _known(counts.above, "above") + _known(counts.below, "below")


def _timed(value: float, context: Context) -> float:
    if not context.period.timed:
        raise Withheld("the length of the period is not told")
    return value


def _mean(counts: Counts, context: Context) -> float:
    if not counts.entries:
        raise Withheld("there is no entry")
    return _timed(counts.time_us / counts.entries, context)


def _rate(counts: Counts, context: Context) -> float:
    if context.period.seconds is None:
        raise Withheld("the dumps do not tell the time between them")
    return counts.entries / context.period.seconds


def _paid(counts: Counts, _: Context) -> float:
    return _known(counts.paid_us, "the exit latency") / 1e6


@dataclass(frozen=True)
class Metric:
    """A figure of counts.

    Attributes:
        key: in JSON and CSV, and the heading of mails and tables.
        unit: "" is a count.
        digits: after the point.
        up, down: meaning of a rise, of a fall.
        about: one sentence.
        of: makes it.
    """

    key: str
    unit: str
    digits: int
    up: str
    down: str
    about: str
    of: Callable[[Counts, Context], float]


METRICS: Mapping[str, Metric] = {
    metric.key: metric
    for metric in (
        Metric("idles", "", 0, "more wake-ups", "fewer wake-ups",
               "Entries into the state.", lambda c, _: c.entries),
        Metric("entries", "%", 1, "more often", "less often",
               "Share of the group's entries.",
               lambda c, x: _part(c.entries, x.total.entries, "entries")),
        Metric("time_s", "s", 3, "more idle", "less idle",
               "Time in the state, of all CPUs of the group together.",
               lambda c, x: _timed(c.time_us / 1e6, x)),
        Metric("time", "%", 2, "longer", "shorter",
               "Share of the group's idle time.",
               lambda c, x: _part(c.time_us, x.total.time_us, "idle time")),
        Metric("mean_us", "us", 1, "longer stays", "shorter stays",
               "Mean length of a stay.", _mean),
        Metric("aboves", "", 0, "more too deep", "fewer too deep",
               "Entries that a shallower state would have served, by the kernel's account.",
               lambda c, _: _known(c.above, "above")),
        Metric("belows", "", 0, "more too shallow", "fewer too shallow",
               "Entries that a deeper state would have served, likewise.",
               lambda c, _: _known(c.below, "below")),
        Metric("idle_miss", "", 0, "more misses", "fewer misses",
               "The sum of both.", lambda c, _: _misses(c)),
        Metric("ratio", "%", 1, "more misses", "fewer misses",
               "Misses in percent of the entries.",
               lambda c, _: _part(_misses(c), c.entries, "entries")),
        Metric("rejected", "", 0, "more refused", "fewer refused",
               "Entries that the driver or the firmware refused.",
               lambda c, _: _known(c.rejected, "the number of rejected entries")),
        Metric("per_s", "1/s", 1, "more wake-ups", "fewer wake-ups",
               "Entries a second, of all CPUs of the group together.", _rate),
        Metric("paid_s", "s", 3, "more latency", "less latency",
               "Entries times the table's exit latency: the worst case, not measured.", _paid),
    )
}  # fmt: skip

Figure = float | str
"""A value, or the reason why there is none."""


def figures_of(counts: Counts, context: Context) -> dict[str, Figure]:
    """Return all figures of counts, each a value or the reason why there is none."""
    found: dict[str, Figure] = {}
    for key, metric in METRICS.items():
        try:
            found[key] = float(metric.of(counts, context))
        except Withheld as why:
            found[key] = str(why)
    return found


# ---- Sides ----


@dataclass(frozen=True)
class Side:
    """The runs of one kernel.

    Attributes:
        name: of the kernel, or of the files.
        periods: one for each run.
    """

    name: str
    periods: tuple[Period, ...]


@dataclass(frozen=True)
class Value:
    """A figure over the runs of a side.

    Attributes:
        runs: its values.
        why: the reason why there is none.
    """

    runs: tuple[float, ...] = ()
    why: str = ""

    @property
    def mean(self) -> float | None:
        """Mean of the runs; None if withheld."""
        return statistics.fmean(self.runs) if self.runs else None

    @property
    def spread(self) -> float | None:
        """Standard deviation of the runs; None with fewer than two."""
        return statistics.stdev(self.runs) if len(self.runs) > 1 else None


@dataclass(frozen=True)
class Row:
    """A state of a group on all sides.

    Attributes:
        kind, group, title: of the group.
        state: name, EVERY for the sum.
        values: by metric, one for each side.
    """

    kind: str
    group: str
    title: str
    state: str
    values: dict[str, tuple[Value, ...]]


def _value(runs: Sequence[Figure | None]) -> Value:
    """Return a figure over runs: withheld where one run lacks it."""
    reasons = [each for each in runs if isinstance(each, str)]
    if reasons or not runs or any(each is None for each in runs):
        return Value(why=reasons[0] if reasons else "there is no such state or group")
    return Value(tuple(each for each in runs if isinstance(each, float)))


def rows(sides: Sequence[Side]) -> Iterator[Row]:
    """Yield the figures of all groups and states, group by group."""
    told: dict[tuple[str, str], dict[str, None]] = {}
    titles: dict[tuple[str, str], str] = {}
    figures: dict[tuple[int, int, str, str, str], dict[str, Figure]] = {}
    for at, side in enumerate(sides):
        for run, period in enumerate(side.periods):
            for group in groups.of(period):
                key = group.kind, group.name
                titles.setdefault(key, group.title)
                context = Context(group.states[groups.EVERY], period)
                for state, counts in group.states.items():
                    told.setdefault(key, {}).setdefault(state)
                    figures[at, run, *key, state] = figures_of(counts, context)
    for key in sorted(told, key=lambda key: groups.KINDS.index(key[0])):
        states = [state for state in told[key] if state != groups.EVERY]
        for state in (*states, groups.EVERY):
            mine = [
                [figures.get((at, run, *key, state), {}) for run in range(len(side.periods))]
                for at, side in enumerate(sides)
            ]
            values = {
                name: tuple(_value([each.get(name) for each in runs]) for runs in mine)
                for name in METRICS
            }
            yield Row(*key, titles[key], state, values)


# ---- Differences ----

# Two-sided 5 % of Student's t by degrees of freedom, 1 to 30; above, that of 30.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
      2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
      2.052, 2.048, 2.045, 2.042)  # fmt: skip

BEYOND, WITHIN, UNKNOWN = "beyond the spread", "within the spread", "spread unknown"


def verdict(one: Value, other: Value) -> str:
    """Tell whether two figures differ by more than their runs do (Welch's test, 5 %)."""
    if len(one.runs) < 2 or len(other.runs) < 2:
        return UNKNOWN
    parts = [statistics.variance(each.runs) / len(each.runs) for each in (one, other)]
    change = abs(statistics.fmean(other.runs) - statistics.fmean(one.runs))
    error = math.sqrt(sum(parts))
    if not error:
        return BEYOND if change else WITHIN
    counts = (len(one.runs), len(other.runs))
    freedom = sum(parts) ** 2 / sum(
        part**2 / (n - 1) for part, n in zip(parts, counts, strict=True)
    )
    return BEYOND if change > _T[min(30, max(1, int(freedom))) - 1] * error else WITHIN


@dataclass(frozen=True)
class Difference:
    """A figure of another side beside the first.

    Attributes:
        change: other less first, in the figure's unit.
        percent: of the first; None where that is 0.
        word: meaning of the change.
        verdict: BEYOND, WITHIN or UNKNOWN.
    """

    change: float
    percent: float | None
    word: str
    verdict: str


def difference(metric: Metric, one: Value, other: Value) -> Difference | None:
    """Return the difference of two figures; None where one is withheld."""
    if one.mean is None or other.mean is None:
        return None
    change = other.mean - one.mean
    percent = 100 * change / one.mean if one.mean else None
    told = verdict(one, other)
    word = metric.up if change > 0 else metric.down
    if told == WITHIN or round(change, metric.digits) == 0:
        word = "none"
    return Difference(change, percent, word, told)
