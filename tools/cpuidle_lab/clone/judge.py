# SPDX-License-Identifier: GPL-2.0
"""Recordings of a clone beside those of its workload, and the gates before a figure."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from cpuidle_lab.crossval.moved import moved, shares
from cpuidle_lab.crossval.pairs import LEAST_INTERVALS, Figures
from cpuidle_lab.crossval.parts import Part
from cpuidle_lab.recording.columns import OVERSLEPT
from cpuidle_lab.replay import recorded
from cpuidle_lab.replay.engine import Outcome

# Limits of a clone under a governor whose recording there is: docs/clone.md has their origin.
REGRET_MOST, MOVED_MOST = 5.0, 20.0
ENERGY_MOST, LENGTH_MOST = 0.05, 0.03
# Parts of a step by which the steps of lengths are moved. Many intervals that are longer by 1 % may
# all pass the edge of a step: of a clone of cyclictest-10us 34 % in one grid, and 6 % in another.
SHIFTS = (0.0, 0.25, 0.5, 0.75)
# Standard errors within which the mean of a perfect clone is in 95 % of cases, if they are known.
ERRORS_MOST = 2.0
_P99 = 0.99
# Share of the intervals that may be overslept beyond that of the recordings, as the lab may
# oversleep so much of the idle time (docs/lab.md). It is known to its standard error.
OVERSLEPT_MOST = 0.001


@dataclass(frozen=True)
class Told:
    """Figures of a workload or its clone under a governor.

    Attributes:
        parts: its recordings; of a clone one for each shift against the tick.
    """

    parts: Sequence[Part]

    @cached_property
    def figures(self) -> list[Figures]:
        """Figures of each recording."""
        return [Figures.recorded(part) for part in self.parts]

    @property
    def regrets(self) -> list[float]:
        """Regret of each recording, %."""
        return [one.regret for one in self.figures]

    @property
    def powers_mw(self) -> list[float]:
        """Modelled energy by idle time, of each recording."""
        return [one.power_mw for one in self.figures]

    @property
    def lengths_s(self) -> list[float]:
        """Time that each recording took."""
        return [part.seconds for part in self.parts]

    @property
    def p99s_us(self) -> list[float]:
        """Exit latency of each recording's 99th percentile."""
        return [one.p99_us for one in self.figures]

    @cached_property
    def p99_ranges_us(self) -> list[tuple[float, float]]:
        """Least and greatest exit latency that may be each recording's 99th percentile.

        Of n wake-ups the share beyond a percentile is known by the standard error of a binomial
        distribution, sqrt(p (1 - p) / n).
        """
        return [_range_us(recorded.outcome(part), _P99) for part in self.parts]

    @cached_property
    def overslept(self) -> tuple[int, int]:
        """Intervals that were overslept, and all intervals."""
        flags = np.concatenate([
            chunk["flags"]
            for part in self.parts
            for cpu in part.cpus
            for chunk in part.intervals(cpu, ["flags"])
        ])  # fmt: skip
        return int(np.count_nonzero(flags & OVERSLEPT)), len(flags)

    @property
    def least_judged(self) -> int:
        """Fewest intervals with a regret."""
        return min(part.judged for part in self.parts)

    @property
    def regret(self) -> float:
        """Mean regret, %."""
        return statistics.fmean(self.regrets)

    @property
    def spread(self) -> float:
        """Standard deviation of the regret, points; 0 of one recording."""
        return _spread(self.regrets)


def _range_us(outcome: Outcome, share: float) -> tuple[float, float]:
    count = sum(outcome.latency_ns.values()) or 1
    off = ERRORS_MOST * math.sqrt(share * (1 - share) / count)
    low, high = (outcome.latency_us(one) or 0.0 for one in (share - off, min(1.0, share + off)))
    return low, high


def _late(real: Told, clone: Told) -> tuple[float, float]:
    """Return the share of a clone's intervals that were overslept, and its limit."""
    (late, count), (again, number) = real.overslept, clone.overslept
    share = OVERSLEPT_MOST + late / max(1, count)
    off = ERRORS_MOST * math.sqrt(share * (1 - share) / max(1, number))
    return again / max(1, number), share + off


def _spread(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def doubt(real: Sequence[float], clone: Sequence[float]) -> float:
    """Return the standard error of the difference of two means.

    A single recording has no scatter of its own, and is given that of the clone.
    """
    mine = _spread(real if len(real) > 1 else clone) / math.sqrt(len(real))
    return math.hypot(mine, _spread(clone) / math.sqrt(len(clone)))


def scatter(real: Sequence[float], clone: Sequence[float]) -> float:
    """Return by how much the mean of a clone may differ that scatters as its workload does.

    The clone's own scatter counts only beside a single recording, which has none.
    """
    alone = _spread(real if len(real) > 1 else clone)
    return ERRORS_MOST * alone * math.sqrt(1 / len(real) + 1 / len(clone))


def _differ(real: Sequence[float], clone: Sequence[float]) -> tuple[float, float]:
    """Return the difference of two means, and that of scatter(), both by the first mean."""
    mean = statistics.fmean(real)
    if not mean:
        return 0.0, 0.0
    return abs(statistics.fmean(clone) / mean - 1), scatter(real, clone) / mean


@dataclass(frozen=True)
class Check:
    """A clone under a regime in which its workload was recorded, too.

    Attributes:
        regime: its label.
        real: the workload.
        clone: the clone.
        moved: intervals that would have to change their place, %.
        chance: the same between the recordings of the workload; 0 of one.
        whole: the clone is of the whole workload, and must take its time.
    """

    regime: str
    real: Told
    clone: Told
    moved: float
    chance: float = 0.0
    whole: bool = True

    @classmethod
    def of(cls, regime: str, real: Told, clone: Told, *, whole: bool) -> "Check":
        """Return the check of recordings."""
        aparts, pairs = [], []
        for shift in SHIFTS:
            places, again = ([shares(part, shift) for part in one.parts] for one in (real, clone))
            aparts.append(moved([np.mean(again, axis=0)], [np.mean(places, axis=0)]).percent)
            pairs += [moved([a], [b]).percent for a, b in combinations(places, 2)]
        apart = statistics.fmean(aparts)
        return cls(regime, real, clone, apart, statistics.fmean(pairs or [0.0]), whole)

    @property
    def error(self) -> float:
        """Regret of the clone less that of the workload, points."""
        return self.clone.regret - self.real.regret

    @property
    def doubt(self) -> float:
        """Standard error of that difference."""
        return doubt(self.real.regrets, self.clone.regrets)

    def faults(self) -> Iterator[str]:
        """Yield the limits that it misses, a clause each.

        A limit is no less than what the workload's own scatter explains.
        """
        power, power_most = _differ(self.real.powers_mw, self.clone.powers_mw)
        length, length_most = _differ(self.real.lengths_s, self.clone.lengths_s)
        regret_most = scatter(self.real.regrets, self.clone.regrets)
        gates = (
            (abs(self.error), max(REGRET_MOST, regret_most),
             "its regret differs by {:.1f} points"),
            (self.moved, max(MOVED_MOST, self.chance), "{:.0f} % of its intervals lie elsewhere"),
            (power, max(ENERGY_MOST, power_most), "its idle power differs by {:.1%}"),
            (self.whole * length, max(LENGTH_MOST, length_most),
             "it takes another time, by {:.1%}"),
            (*_late(self.real, self.clone), "it overslept {:.2%} of its intervals"),
        )  # fmt: skip
        for value, most, text in gates:
            if value > most:
                yield f"under {self.regime} {text.format(value)} (limit {_shown(most)})"
        low, high = (
            each(one)
            for each, one in zip(
                (min, max), zip(*self.real.p99_ranges_us, strict=True), strict=True
            )
        )
        if any(least > high or most < low for least, most in self.clone.p99_ranges_us):
            real, clone = (max(one.p99s_us) for one in (self.real, self.clone))
            yield (f"under {self.regime} its p99 wake-up comes from a state of {clone:g} us "
                   f"in place of {real:g} us")  # fmt: skip
        if self.clone.least_judged < LEAST_INTERVALS:
            yield f"under {self.regime} it has fewer than {LEAST_INTERVALS} intervals"


def _shown(most: float) -> str:
    return f"{most:.3g}" if most >= 1 else f"{most:.1%}"


# Of a program whose clone is as its own recording, and as no other.
_ADAPTS = (
    "the clone is as the recording that it was made of, so the program changes its course with its "
    "own speed, or waits for what a clone has not"
)


@dataclass(frozen=True)
class Verdict:
    """A clone, judged.

    Attributes:
        checks: under each regime with a recording of the workload; the source's own comes first.
        clones: by label of the regime, in the order of the table.
    """

    checks: Sequence[Check]
    clones: Mapping[str, Told]

    @property
    def adapts(self) -> bool:
        """The clone is as its own recording, and not as another."""
        own, *others = ([*check.faults()] for check in self.checks)
        return not own and any(others)

    @property
    def why(self) -> str:
        """Reason why there are no figures; "" if there are."""
        if found := [fault for check in self.checks for fault in check.faults()]:
            found += [_ADAPTS] if self.adapts else []
            return f"this workload is not rebuilt well enough, because {'; '.join(found)}"
        if len(self.checks) < 2:
            return (
                f"only {self.checks[0].regime} recorded this workload, and no recording shows "
                "whether its clone answers another governor as it does itself; record it under a "
                "second governor or latency request, too, and give both recordings"
            )
        return ""

    def uncertainty(self, regime: str) -> float:
        """Return how far a clone's regret may be from the workload's, points.

        That is the largest error of a check, and the spread of the shifts beside it.
        """
        worst = max(abs(check.error) for check in self.checks)
        return worst + self.clones[regime].spread


def verdict(
    source: str,
    real: Mapping[str, Sequence[Part]],
    clones: Mapping[str, Sequence[Part]],
    *,
    whole: bool = True,
) -> Verdict:
    """Return the verdict on a clone.

    Args:
        source: label of the regime whose recording was rebuilt.
        real: the workload by label of its regime.
        clones: the clone, likewise.
        whole: the clone is of the whole workload.
    """
    told = {label: Told(parts) for label, parts in clones.items()}
    both = [source, *(label for label in real if label in told and label != source)]
    checks = [Check.of(one, Told(real[one]), told[one], whole=whole) for one in both]
    return Verdict(checks, told)
