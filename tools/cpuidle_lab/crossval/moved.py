# SPDX-License-Identifier: GPL-2.0
"""Difference of the intervals themselves between two recordings of one workload.

Replay keeps the intervals of a recording. Where another governor's recording has other intervals,
the workload answered the governor, and no replay on the first recording can know it. Intervals are
counted by their length, in steps of a factor of 2^(1/8), and by what ended them. The distance of
two recordings is the share of the intervals that would have to change their place.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cpuidle_lab.crossval.parts import Part, has_regret
from cpuidle_lab.recording.columns import TICKED, TIMER

# Ends of an interval: the CPU's own timer, the tick, another CPU or a device.
ENDS = ("timer", "tick", "other")

# Step k: from 2^(k / 8) to 2^((k + 1) / 8) us. Step 0 takes shorter ones, too.
STEPS = 8 * 54  # a clock of 64 bits in ns has no longer intervals

# Shares of all intervals, %: float64[STEPS, len(ENDS)].
Shares = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Moved:
    """Difference of the intervals of A's recordings from those of B's.

    Attributes:
        percent: of the intervals; mean over the seeds.
        chance: the same between B's recordings of successive seeds; 0 of one seed.
        most: the place that differs most, with the share that A has less that of B.
    """

    percent: float = 0.0
    chance: float = 0.0
    most: str = ""


def shares(part: Part, shift: float = 0.0) -> Shares:
    """Return where the judged intervals of a phase lie.

    Args:
        part: the phase.
        shift: all steps begin at lengths that are shorter by so much of a step.
    """
    found = np.zeros((STEPS, len(ENDS)))
    for cpu in part.cpus:
        for chunk in part.intervals(cpu, ["length_ns", "flags"]):
            length, flags = chunk["length_ns"], chunk["flags"]
            judged = has_regret(chunk)
            step = np.floor(8 * np.log2(np.maximum(length / 1000, 1)) + shift).astype(int)
            end = np.select([flags & TIMER != 0, flags & TICKED != 0], [0, 1], 2)
            np.add.at(found, (step[judged], end[judged]), 1)
    return 100 * found / (found.sum() or 1)


def moved(a: Sequence[Shares], b: Sequence[Shares]) -> Moved:
    """Return how two governors' recordings differ.

    Args:
        a: of the one governor, by seed.
        b: of the other, of the same seeds.
    """
    differ = np.mean(a, axis=0) - np.mean(b, axis=0)
    step, end = np.unravel_index(np.abs(differ).argmax(), differ.shape)
    low, high = (2 ** ((step + more) / 8) for more in (0, 1))
    most = f"{differ[step, end]:+.0f} % {low:.0f}-{high:.0f} us, {ENDS[end]}"
    return Moved(_distance(a, b), _distance(b[:-1], b[1:]), most)


def _distance(a: Sequence[Shares], b: Sequence[Shares]) -> float:
    return float(np.mean([np.abs(x - y).sum() / 2 for x, y in zip(a, b, strict=True)] or [0.0]))
