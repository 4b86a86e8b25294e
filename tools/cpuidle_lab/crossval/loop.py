# SPDX-License-Identifier: GPL-2.0
"""Signs in a recording that its workload answers the governor, and the error to expect of replay.

Where another task or a device ends an idle period, and an exit latency is long beside the period,
the next governor meets other periods. Replay cannot know them; a clone can (docs/clone.md).
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpuidle_lab.crossval.parts import Part, has_regret
from cpuidle_lab.recording.columns import TICKED, TIMER, Recording

# From this weight on a clone is to be believed, where it passes its gates.
ANSWERS = 0.05

# Fewer workloads predict nothing.
_LEAST = 4


@dataclass(frozen=True)
class Loop:
    """A recording's answer to its governor.

    Attributes:
        others: share of the intervals that neither a timer nor the tick ended.
        weight: mean over all intervals of D / (D + length), D being the exit latency of the
            deepest state; 0 of one that a timer or the tick ended.
        deepest_us: that latency, the greatest of the CPUs'.
    """

    others: float
    weight: float
    deepest_us: float

    @classmethod
    def of(cls, recording: Recording | Part) -> "Loop":
        """Return that of a recording or a phase."""
        count = others = 0
        weight = deepest_ns = 0.0
        for cpu in recording.cpus:
            exit_ns = float(recording.state_tables[cpu].exit_latency_ns[-1])
            deepest_ns = max(deepest_ns, exit_ns)
            for chunk in recording.intervals(cpu, ["length_ns", "flags"]):
                judged = has_regret(chunk)
                length, flags = (chunk[name][judged] for name in ("length_ns", "flags"))
                by_other = flags & (TIMER | TICKED) == 0
                count += len(length)
                others += int(by_other.sum())
                if exit_ns:
                    weight += float(np.sum(exit_ns / (exit_ns + length[by_other])))
        return cls(others / (count or 1), weight / (count or 1), deepest_ns / 1000)

    def line(self, known: Iterable[dict[str, Any]]) -> str:
        """Return which of replay and clone is to be believed; "" if nothing is known.

        Args:
            known: what was measured of each workload.
        """
        rows = [(one["weight"], one["mean"]) for one in known if "weight" in one]
        if len(rows) < _LEAST:
            return ""
        text = (
            f"other tasks or devices ended {100 * self.others:.0f} % of the idle periods; beside "
            f"the exit latency of {self.deepest_us:g} us they weigh {self.weight:.2f} of 1"
        )
        points = f"by about {trend(rows) * self.weight:.1f} points (+- {off(rows):.1f})"
        if self.weight < ANSWERS:
            return f"{text}: replay is to be believed, and errs {points} for other governors"
        return (
            f"{text}: replay errs {points} for other governors, since such periods follow the "
            "governor; believe a clone that passes its gates (cpuidle-lab clone, of a recording by "
            "capture --clone)"
        )


def trend(rows: Sequence[tuple[float, float]]) -> float:
    """Return the mean error by the weight, points: a line through 0, by least squares."""
    return sum(x * y for x, y in rows) / (sum(x * x for x, _ in rows) or 1.0)


def off(rows: Sequence[tuple[float, float]]) -> float:
    """Return how far the trend of all other workloads is from one's error, points; the mean."""
    apart = [
        abs(trend([*rows[:place], *rows[place + 1 :]]) * x - y) for place, (x, y) in enumerate(rows)
    ]
    return statistics.fmean(apart)
