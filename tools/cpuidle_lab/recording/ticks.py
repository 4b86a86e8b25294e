# SPDX-License-Identifier: GPL-2.0
"""The grid of the tick, learnt from timer interrupts: docs/stock.md. Times in ns."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# An event so near to the grid is on it.
NEAR_NS = 10_000

# Ticks a second that kernels are configured with, the longest period first.
RATES = (100, 250, 300, 1000)

# A shorter period must have so much more of the ticks on its grid: each grid of 100 Hz is one of
# 1000 Hz, too.
_BETTER = 1.25

# Fewer ticks on a CPU tell no grid.
_FEW = 10

# The phase follows the ticks: one clock drifts against the other.
_BLOCK = 32


@dataclass
class Rates:
    """Numbers of ticks that are on the grid of each rate, CPU by CPU.

    Attributes:
        near: ticks in the densest two bins of a CPU, by rate.
        total: ticks that were looked at.
    """

    near: dict[int, int] = field(default_factory=lambda: dict.fromkeys(RATES, 0))
    total: int = 0

    def add(self, moments: Array) -> None:
        """Count the ticks of one CPU."""
        self.total += len(moments)
        for rate in RATES:
            if len(moments):
                self.near[rate] += _densest(moments % (10**9 // rate), 10**9 // rate)[1]

    def best(self) -> tuple[int, float]:
        """Return the period of the tick and the share of the ticks on its grid; 0, 0.0: unknown."""
        found, share = 0, 0.0
        for rate in RATES:
            mine = self.near[rate] / self.total if self.total else 0.0
            if mine > share * _BETTER:
                found, share = 10**9 // rate, mine
        return found, share


def _densest(phases: Array, period_ns: int) -> tuple[int, int]:
    """Return the first of the two neighbouring bins that hold most phases, and how many they do."""
    bins = np.bincount(phases // NEAR_NS, minlength=-(-period_ns // NEAR_NS))
    both = bins + np.roll(bins, -1)
    at = int(both.argmax())
    return at, int(both[at])


class Grid:
    """When the tick of a CPU is due.

    Args:
        moments: when ticks came, sorted.
        period_ns: from one to the next.
    """

    def __init__(self, moments: Array, period_ns: int) -> None:
        self.period_ns = period_ns
        self.known = len(moments) >= _FEW and period_ns > 0
        self._at = np.zeros(1, np.int64)
        self._phases = np.zeros(1, np.int64)
        if not self.known:
            return
        low, _ = _densest(moments % period_ns, period_ns)
        phase = low * NEAR_NS + NEAR_NS
        at, phases = [], []
        for first in range(0, len(moments), _BLOCK):
            part = moments[first : first + _BLOCK]
            off = self._wrapped(part - phase)
            near = off[np.abs(off) <= NEAR_NS]
            if len(near):
                phase += int(np.median(near))
                at.append(int(part[0]))
                phases.append(phase % period_ns)
        if at:
            self._at, self._phases = np.array(at), np.array(phases)

    def _wrapped(self, ns: Array) -> Array:
        half = self.period_ns // 2
        return (ns + half) % self.period_ns - half

    def phase(self, at: Array) -> Array:
        """Return the time of the tick modulo its period, around moments."""
        block = np.searchsorted(self._at, at, "right") - 1
        return np.asarray(self._phases[np.maximum(block, 0)])

    def off(self, at: Array) -> Array:
        """Return how much later than the nearest tick moments are."""
        return self._wrapped(at - self.phase(at))

    def next(self, at: Array) -> Array:
        """Return the first tick after moments."""
        return np.asarray(at + self.period_ns - (at - self.phase(at)) % self.period_ns)

    def number(self, at: Array) -> Array:
        """Return the number of the tick nearest to moments."""
        return np.asarray((at - self.phase(at) + self.period_ns // 2) // self.period_ns)


def mode(values: Array, width_ns: int = 4000) -> int | None:
    """Return the middle of the densest window of values; None where they lie anywhere.

    Args:
        values: how late wake-ups were; some are of timers off the grid.
        width_ns: of the window.
    """
    ordered = np.sort(values)
    if not len(ordered):
        return None
    counts = np.searchsorted(ordered, ordered + width_ns, "right") - np.arange(len(ordered))
    first = int(counts.argmax())
    count = int(counts[first])
    if count < max(5, len(ordered) // 5):
        return None
    return int(ordered[first + count // 2])
