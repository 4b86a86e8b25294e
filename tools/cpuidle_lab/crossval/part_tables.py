# SPDX-License-Identifier: GPL-2.0
"""Tables of a recording, read part by part through a cache."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl

from cpuidle_lab.recording.columns import ANSWERS, Columns, Recording
from cpuidle_lab.replay import engine, recorded


def _places(values: np.ndarray[Any, Any], first: int, end: int) -> tuple[int, int]:
    """Return the first and the last row, and one more, of those in [first, end)."""
    # Of one type, or numpy compares both as floating-point numbers.
    start, stop = np.searchsorted(values, np.array([first, end], values.dtype)).tolist()
    return start, max(start, stop)


def between(frame: pl.DataFrame, column: str, first: int, end: int) -> pl.DataFrame:
    """Return the rows whose value is in [first, end): a view, since the column is sorted."""
    start, stop = _places(frame[column].to_numpy(), first, end)
    return frame[start:stop]


_PHASE = "tick_phase_ns"


# Sorted columns, by table, and others that are looked through with them.
_SORTED = {"interval": ("first_seq",), "period": ("ts", "seq")}


_OTHERS = {"interval": (_PHASE,), "period": ()}


# Columns that a replay of phases reads.
_READ = {
    "interval": ("first_seq", "periods", *engine.INTERVAL_TYPES),
    "period": ("cpu", "seq", "ts", "governor", "hint_ns", *recorded.PERIOD_COLUMNS),
}


# Parts of all CPUs that are kept in memory.
CACHED_BYTES = 256 << 20


class _Part:
    """Rows of a part in memory."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.bytes = sum(values.nbytes for values in columns.values())
        answers = columns.get("answers")
        # Answers of the rows before each, and of all.
        self._before = None if answers is None else np.append(0, np.cumsum(answers, dtype=np.int64))

    def between(self, column: str, first: int, end: int) -> Columns:
        """Return the rows whose value is in [first, end): views, since the column is sorted."""
        values = self.columns[column]
        start, stop = _places(values, first, end)
        found = {
            name: every[start:stop] for name, every in self.columns.items() if name not in ANSWERS
        }
        if self._before is not None:
            told = slice(int(self._before[start]), int(self._before[stop]))
            found |= {name: self.columns[name][told] for name in ANSWERS}
        return found


class PartCache:
    """The parts that were read last, as far as they fit into CACHED_BYTES, and one at least."""

    def __init__(self) -> None:
        """Begin without a part."""
        self._parts: dict[tuple[str, int, int], _Part] = {}

    def part(self, key: tuple[str, int, int], read: Callable[[], _Part]) -> _Part:
        """Return a part, by its table, CPU and place."""
        known = self._parts.pop(key, None)
        part = read() if known is None else known
        self._parts[key] = part
        if known is None:
            total = sum(one.bytes for one in self._parts.values())
            while len(self._parts) > 1 and total > CACHED_BYTES:
                total -= self._parts.pop(next(iter(self._parts))).bytes
        return part


class PartTable:
    """The intervals or periods of a CPU, in memory or read part by part as they are needed."""

    def __init__(
        self, recording: Recording, table: str, cpu: int, cache: PartCache | None = None
    ) -> None:
        """Find out what each part holds.

        Args:
            recording: where they are.
            table: "interval" or "period".
            cpu: the CPU.
            cache: keeps parts, with the columns that replay reads; None: all is held in memory.
        """
        self._recording, self._table, self._cpu = recording, table, cpu
        self._cache = cache
        self._bounds: list[dict[str, tuple[int, int]]] = []
        self._phases: list[int] = []
        parts: list[Columns] = []
        needed = (*_SORTED[table], *_OTHERS[table]) if cache else None
        for columns in recording.checked(table, cpu, needed):
            self._bounds.append(
                {name: (int(columns[name][0]), int(columns[name][-1])) for name in _SORTED[table]}
            )
            if _PHASE in columns:
                known = columns[_PHASE][columns[_PHASE] >= 0]
                self._phases.append(int(known[0]) if len(known) else -1)
            parts += [] if cache else [columns]
        self._held = [self._filled(place, columns) for place, columns in enumerate(parts)]

    @property
    def last_ns(self) -> int:
        """Time of the last period; 0 if there is none."""
        return max((ends["ts"][1] for ends in self._bounds), default=0)

    def between(self, column: str, first: int, end: int) -> Iterator[Columns]:
        """Yield the rows whose value of a sorted column is in [first, end)."""
        for place, ends in enumerate(self._bounds):
            low, high = ends[column]
            if low < end and high >= first:
                rows = self._part(place).between(column, first, end)
                if len(rows[column]):
                    yield rows

    def _part(self, place: int) -> _Part:
        if self._cache is None:
            return self._held[place]

        def read() -> _Part:
            names = _READ[self._table]
            columns = self._recording.checked_part(self._table, self._cpu, place, names)
            return self._filled(place, columns)

        return self._cache.part((self._table, self._cpu, place), read)

    def _filled(self, place: int, columns: Columns) -> _Part:
        """Let the grid of the tick be known before the kernel told of it."""
        if _PHASE in columns:
            later = next((phase for phase in self._phases[place + 1 :] if phase >= 0), -1)
            phase = columns[_PHASE]
            rows = np.where(phase >= 0, np.arange(len(phase)), len(phase))
            next_known = np.minimum.accumulate(rows[::-1])[::-1]
            columns = columns | {_PHASE: np.append(phase, later).astype(phase.dtype)[next_known]}
        return _Part(columns)
