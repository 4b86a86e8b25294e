# SPDX-License-Identifier: GPL-2.0
"""A group over time, in bounded memory: the states of one CPU, and the rows of wteo that learned.

Parts of a recording come CPU by CPU. Of each CPU the figures are kept until it is known whether
another one has more rows. Times are in ns.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

Array = npt.NDArray[Any]

# Slices of a group's time.
SLICES = 240
BUSY = -1

Weights = list[float | None]


@dataclass(frozen=True)
class Stays:
    """Idle periods of a group on one CPU, in the order of time.

    Attributes:
        cpu: its number.
        ts: begin of each.
        state: number of the idle state.
        residency: time in it.
    """

    cpu: int
    ts: Array
    state: Array
    residency: Array


@dataclass
class _OfCpu:
    """Figures of one CPU.

    Attributes:
        cpu: its number, -1: none.
        rows: periods, or events of weights.
        times: by state, idle time in each slice.
        waiting: idle periods that are not in `times` yet.
        learned: by row of wteo, its events.
        weights: by row of wteo, its columns at the end of each slice.
    """

    cpu: int = -1
    rows: int = 0
    times: dict[int, Array] = field(default_factory=dict)
    waiting: list[Stays] = field(default_factory=list)
    learned: Counter[int] = field(default_factory=Counter)
    weights: dict[int, list[list[float] | None]] = field(default_factory=dict)


class _Most:
    """The CPU that has most rows; of two, the first."""

    def __init__(self) -> None:
        self._best = self._now = _OfCpu()

    def of(self, cpu: int) -> _OfCpu:
        """Return the figures of a CPU, to be added to; CPUs come one after the other."""
        if self._now.cpu != cpu:
            self._best, self._now = self.best(), _OfCpu(cpu)
        return self._now

    def best(self) -> _OfCpu:
        """Return the figures of the CPU that has most rows so far."""
        return self._now if self._now.rows > self._best.rows else self._best


class Pictures:
    """The curves that a page draws of a group over time."""

    def __init__(self, start_ns: int, end_ns: int) -> None:
        self._span = end_ns - start_ns
        self._edges = start_ns + self._span * np.arange(SLICES + 1) / SLICES
        self._idle, self._learned = _Most(), _Most()

    def add_stays(self, stays: Stays) -> None:
        """Add idle periods of a CPU."""
        one = self._idle.of(stays.cpu)
        one.rows += len(stays.ts)
        one.waiting.append(stays)
        # Another CPU may have more, so few are not divided yet.
        if sum(len(few.ts) for few in one.waiting) > SLICES:
            self._divide(one)

    def _divide(self, one: _OfCpu) -> None:
        """Divide the periods that wait into slices."""
        for stays in one.waiting:
            ts = stays.ts.astype(np.float64)
            for number in np.unique(stays.state).tolist():
                mine = stays.state == number
                times = one.times.setdefault(number, np.zeros(SLICES))
                times += self._time_in_slices(ts[mine], stays.residency[mine])
        one.waiting.clear()

    def _time_in_slices(self, ts: Array, residency: Array) -> Array:
        """Return idle time in each slice, of periods in the order of time."""
        before = np.cumsum(residency) - residency
        last = np.searchsorted(ts, self._edges, "right") - 1
        inside = np.minimum(self._edges - ts[last], residency[last])
        found: Array = np.diff(np.where(last >= 0, before[last] + inside, 0.0))
        return found

    def add_weights(self, events: pl.DataFrame) -> None:
        """Add events of wteo's weights: ts, cpu, row, weights."""
        events = events.sort("cpu", "ts")
        for (cpu, row), part in events.group_by("cpu", "row", maintain_order=True):
            one, number = self._learned.of(int(str(cpu))), int(str(row))
            one.rows += part.height
            one.learned[number] += part.height
            last = (
                np.searchsorted(part["ts"].to_numpy().astype(float), self._edges[1:], "right") - 1
            )
            told, values = part["weights"], one.weights.setdefault(number, [None] * SLICES)
            for slot in np.flatnonzero(last >= 0).tolist():
                values[slot] = told[int(last[slot])].to_list()

    def main_states(self, states: int) -> tuple[int, list[int]]:
        """Return the CPU with most idle periods, and its main state in each slice.

        A slice is BUSY where the CPU was idle for less than half of it.

        Args:
            states: how many there are.
        """
        best = self._idle.best()
        self._divide(best)
        zero = np.zeros(SLICES)
        times = np.array([best.times.get(state, zero) for state in range(states)])
        enough = times.sum(axis=0) >= self._span / SLICES / 2
        return best.cpu, np.where(enough, times.argmax(axis=0), BUSY).tolist()

    def rows_over_time(self, states: int) -> tuple[int, list[int], list[list[Weights]]] | None:
        """Return how the rows of a CPU changed.

        The CPU is the one that learned most, the rows are those that learned most, as many as there
        are idle states.

        Returns:
            The CPU, the numbers of the rows, and for each row and column its slices; a weight is
            None until its row is first learned. None where the group has no rows.
        """
        best = self._learned.best()
        if best.cpu < 0:
            return None
        most = sorted(best.learned, key=lambda row: (-best.learned[row], row))[:states]
        numbers = sorted(most)
        rows = [
            [
                [None if value is None else value[column] for value in best.weights[row]]
                for column in range(states)
            ]
            for row in numbers
        ]
        return best.cpu, numbers, rows
