# SPDX-License-Identifier: GPL-2.0
"""Recordings of a clone beside those of its workload, and the gates before a figure."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cpuidle_lab.crossval.moved import moved, shares
from cpuidle_lab.crossval.pairs import LEAST_INTERVALS, Figures
from cpuidle_lab.crossval.parts import Part

# Limits of a clone under a governor whose recording there is: docs/clone.md has their origin.
REGRET_MOST, MOVED_MOST = 5.0, 20.0
ENERGY_MOST, LENGTH_MOST = 0.05, 0.03
# Share of the idle time that the lab may oversleep (docs/lab.md).
OVERSLEPT_MOST = 0.001


@dataclass(frozen=True)
class Told:
    """Figures of a workload or its clone under a governor.

    Attributes:
        parts: its recordings; of a clone one for each shift against the tick.
    """

    parts: Sequence[Part]

    @property
    def figures(self) -> list[Figures]:
        """Figures of each recording."""
        return [Figures.recorded(part) for part in self.parts]

    @property
    def regret(self) -> float:
        """Mean regret, %."""
        return statistics.fmean(one.regret for one in self.figures)

    @property
    def spread(self) -> float:
        """Standard deviation of the regret, points; 0 of one recording."""
        values = [one.regret for one in self.figures]
        return statistics.stdev(values) if len(values) > 1 else 0.0

    @property
    def power_mw(self) -> float:
        """Mean modelled energy by idle time."""
        return statistics.fmean(one.power_mw for one in self.figures)

    @property
    def seconds(self) -> float:
        """Mean length."""
        return statistics.fmean(part.seconds for part in self.parts)

    @property
    def p99_us(self) -> float:
        """Greatest exit latency of the 99th percentile."""
        return max(one.p99_us for one in self.figures)

    @property
    def overslept(self) -> float:
        """Share of the idle time in overslept intervals."""
        idle = sum(one.idle_ns for one in self.figures)
        return sum(one.overslept_ns for one in self.figures) / idle if idle else 0.0

    @property
    def least_judged(self) -> int:
        """Fewest intervals with a regret."""
        return min(part.judged for part in self.parts)


@dataclass(frozen=True)
class Check:
    """A clone under a governor that recorded its workload, too.

    Attributes:
        governor: its label.
        real: the workload.
        clone: the clone.
        moved: intervals that would have to change their place, %.
        whole: the clone is of the whole workload, and must take its time.
    """

    governor: str
    real: Told
    clone: Told
    moved: float
    whole: bool = True

    @classmethod
    def of(cls, governor: str, real: Told, clone: Told, *, whole: bool) -> "Check":
        """Return the check of recordings."""
        places = [shares(real.parts[0])] * len(clone.parts)
        apart = moved([shares(part) for part in clone.parts], places).percent
        return cls(governor, real, clone, apart, whole)

    @property
    def error(self) -> float:
        """Regret of the clone less that of the workload, points."""
        return self.clone.regret - self.real.regret

    def faults(self) -> Iterator[str]:
        """Yield the limits that it misses, a clause each."""
        gates = (
            (abs(self.error), REGRET_MOST, "its regret differs by {:.1f} points"),
            (self.moved, MOVED_MOST, "{:.0f} % of its intervals lie elsewhere"),
            (abs(self.clone.power_mw / self.real.power_mw - 1) if self.real.power_mw else 0.0,
             ENERGY_MOST, "its idle power differs by {:.1%}"),
            (self.whole * abs(self.clone.seconds / self.real.seconds - 1), LENGTH_MOST,
             "it takes another time, by {:.1%}"),
            (self.clone.overslept, OVERSLEPT_MOST, "the lab overslept {:.2%} of the idle time"),
        )  # fmt: skip
        for value, most, text in gates:
            if value > most:
                yield f"under {self.governor} {text.format(value)} (limit {_shown(most)})"
        if self.clone.p99_us != self.real.p99_us:
            yield (f"under {self.governor} its p99 wake-up comes from a state of "
                   f"{self.clone.p99_us:g} us in place of {self.real.p99_us:g} us")  # fmt: skip
        if self.clone.least_judged < LEAST_INTERVALS:
            yield f"under {self.governor} it has fewer than {LEAST_INTERVALS} intervals"


def _shown(most: float) -> str:
    return f"{most:g}" if most >= 1 else f"{most:.1%}"


@dataclass(frozen=True)
class Verdict:
    """A clone, judged.

    Attributes:
        checks: under each governor with a recording of the workload; the source's own comes first.
        clones: by governor, in the order of the table.
    """

    checks: Sequence[Check]
    clones: Mapping[str, Told]

    @property
    def why(self) -> str:
        """Reason why there are no figures; "" if there are."""
        if found := [fault for check in self.checks for fault in check.faults()]:
            return f"this workload is not rebuilt well enough, because {'; '.join(found)}"
        if len(self.checks) < 2:
            return (
                f"only {self.checks[0].governor} recorded this workload, and no recording shows "
                "whether its clone answers another governor as it does itself; record it under a "
                "second governor, too, and give both recordings"
            )
        return ""

    def uncertainty(self, governor: str) -> float:
        """Return how far a clone's regret may be from the workload's, points.

        That is the largest error of a check, and the spread of the shifts beside it.
        """
        worst = max(abs(check.error) for check in self.checks)
        return worst + self.clones[governor].spread


def verdict(
    source: str,
    real: Mapping[str, Part],
    clones: Mapping[str, Sequence[Part]],
    *,
    whole: bool = True,
) -> Verdict:
    """Return the verdict on a clone.

    Args:
        source: label of the governor whose recording was rebuilt.
        real: the workload by label.
        clones: the clone by label.
        whole: the clone is of the whole workload.
    """
    told = {label: Told(parts) for label, parts in clones.items()}
    both = [source, *(label for label in real if label in told and label != source)]
    checks = [Check.of(one, Told([real[one]]), told[one], whole=whole) for one in both]
    return Verdict(checks, told)
