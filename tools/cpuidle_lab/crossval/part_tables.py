# SPDX-License-Identifier: GPL-2.0
"""Tables of a recording, read part by part through a cache."""

from collections.abc import Callable, Iterator

import numpy as np
import polars as pl

from cpuidle_lab.recording.columns import (
    Recording,
)
from cpuidle_lab.replay import engine, recorded


def between(frame: pl.DataFrame, column: str, first: int, end: int) -> pl.DataFrame:
    """Return the rows whose value is in [first, end): a view, since the column is sorted."""
    values = frame[column].to_numpy()
    # Of one type, or numpy compares both as floating-point numbers.
    start, stop = np.searchsorted(values, np.array([first, end], values.dtype)).tolist()
    return frame[start : max(start, stop)]


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


class PartCache:
    """The parts that were read last, as far as they fit into CACHED_BYTES, and one at least."""

    def __init__(self) -> None:
        """Begin without a part."""
        self._frames: dict[tuple[str, int, int], pl.DataFrame] = {}

    def part(self, key: tuple[str, int, int], read: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """Return a part, by its table, CPU and place."""
        known = self._frames.pop(key, None)
        frame = read() if known is None else known
        self._frames[key] = frame
        if known is None:
            sizes = {one: part.estimated_size() for one, part in self._frames.items()}
            while len(sizes) > 1 and sum(sizes.values()) > CACHED_BYTES:
                oldest = next(iter(sizes))
                del sizes[oldest], self._frames[oldest]
        return frame


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
        frames: list[pl.DataFrame] = []
        needed = (*_SORTED[table], *_OTHERS[table]) if cache else None
        for frame in recording.checked_frames(table, cpu, needed):
            ends = {name: (int(frame[name][0]), int(frame[name][-1])) for name in _SORTED[table]}
            self._bounds.append(ends)
            if _PHASE in frame.columns:
                known = frame[_PHASE].filter(frame[_PHASE] >= 0)
                self._phases.append(int(known[0]) if known.len() else -1)
            frames += [] if cache else [frame]
        self._held = [self._filled(place, frame) for place, frame in enumerate(frames)]

    @property
    def last_ns(self) -> int:
        """Time of the last period; 0 if there is none."""
        return max((ends["ts"][1] for ends in self._bounds), default=0)

    def between(self, column: str, first: int, end: int) -> Iterator[pl.DataFrame]:
        """Yield the rows whose value of a sorted column is in [first, end)."""
        for place, ends in enumerate(self._bounds):
            low, high = ends[column]
            if low < end and high >= first:
                rows = between(self._frame(place), column, first, end)
                if rows.height:
                    yield rows

    def _frame(self, place: int) -> pl.DataFrame:
        if self._cache is None:
            return self._held[place]

        def read() -> pl.DataFrame:
            names = _READ[self._table]
            frame = self._recording.checked_part(self._table, self._cpu, place, names)
            return self._filled(place, frame)

        return self._cache.part((self._table, self._cpu, place), read)

    def _filled(self, place: int, frame: pl.DataFrame) -> pl.DataFrame:
        """Let the grid of the tick be known before the kernel told of it."""
        if _PHASE not in frame.columns:
            return frame
        later = next((phase for phase in self._phases[place + 1 :] if phase >= 0), -1)
        phase = pl.when(pl.col(_PHASE) >= 0).then(_PHASE)
        return frame.with_columns(phase.backward_fill().fill_null(later).alias(_PHASE))
