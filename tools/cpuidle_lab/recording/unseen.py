# SPDX-License-Identifier: GPL-2.0
"""Time of the CPUs of which a recording of power:cpu_idle tells nothing.

It lies between two events with a loss between them, or after the last event of a CPU, if that is
the entry of an idle period, or if events were lost after it.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

# power:cpu_idle says with this state that the CPU is no longer idle.
IDLE_EXIT = 2**32 - 1

# Number of lost events of a CPU that goes offline or comes back.
_OFFLINE = 0

Array = npt.NDArray[Any]


@dataclass
class _Cpu:
    """Events of a CPU so far: time of the first and of the last, ns, and losses after it."""

    first_ns: int
    last_ns: int
    is_idle: bool = False
    hole_ns: int = 0
    lost: Array = field(default_factory=lambda: np.zeros(0, np.int64))


def _times(frame: pl.DataFrame | None) -> Array:
    return np.zeros(0, np.int64) if frame is None else frame["ts"].to_numpy().astype(np.int64)


def _by_cpu(frame: pl.DataFrame | None) -> dict[int, pl.DataFrame]:
    if frame is None or not frame.height:
        return {}
    return {int(rows["cpu"][0]): rows for rows in frame.partition_by("cpu", maintain_order=True)}


class Unseen:
    """Sums of the times of which nothing is told."""

    def __init__(self) -> None:
        self._cpus: dict[int, _Cpu] = {}
        self._events: pl.DataFrame | None = None
        self._lost: list[pl.DataFrame] = []

    def take(self, table: str, frame: pl.DataFrame) -> None:
        """Take rows of one CPU; of one time those of `cpu_idle` come before those of `lost`."""
        if table not in ("cpu_idle", "lost"):
            return
        before = self._events if self._events is not None else next(iter(self._lost), None)
        is_other = before is not None and before["cpu"][0] != frame["cpu"][0]
        if table == "cpu_idle" or is_other:
            self._flush()
        if table == "cpu_idle":
            self._events = frame
        else:
            self._lost.append(frame)

    def _flush(self) -> None:
        self.add(self._events, pl.concat(self._lost) if self._lost else None)
        self._events, self._lost = None, []

    def add(self, events: pl.DataFrame | None, lost: pl.DataFrame | None) -> None:
        """Add rows of the tables `cpu_idle` and `lost`, which follow those of their CPUs before."""
        told, gone = _by_cpu(events), _by_cpu(lost)
        for cpu in {**told, **gone}:
            self._add(cpu, told.get(cpu), gone.get(cpu))

    def _add(self, cpu: int, events: pl.DataFrame | None, lost: pl.DataFrame | None) -> None:
        at = _times(events)
        mine = self._cpus.get(cpu)
        if mine is None:
            if not len(at):
                return
            mine = self._cpus[cpu] = _Cpu(int(at[0]), int(at[0]))
        at = np.append(mine.last_ns, at)
        offline = None if lost is None else lost.filter(pl.col("events") == _OFFLINE)
        lost = None if lost is None else lost.filter(pl.col("events") != _OFFLINE)
        losses = np.concatenate([mine.lost, _times(lost)])
        # A loss comes before the event at its time.
        place = np.searchsorted(at, losses)
        gaps = np.unique(place[(place > 0) & (place < len(at))])
        mine.hole_ns += int((at[gaps] - at[gaps - 1]).sum())
        mine.lost, mine.last_ns = losses[place >= len(at)], int(at[-1])
        if events is not None:
            mine.is_idle = events["state"][-1] != IDLE_EXIT
        mine.is_idle &= not (_times(offline) >= mine.last_ns).any()

    def percent(self, end_ns: int, without: Collection[int] = ()) -> float:
        """Return the share of the time of the CPUs, %.

        Args:
            end_ns: time of the last event of the recording.
            without: CPUs that do not count.
        """
        self._flush()
        mine = [one for cpu, one in self._cpus.items() if cpu not in without]
        whole = sum(max(0, end_ns - one.first_ns) for one in mine)
        tails = (one for one in mine if one.is_idle or len(one.lost))
        untold = sum(max(0, end_ns - one.last_ns) for one in tails)
        return 100 * (untold + sum(one.hole_ns for one in mine)) / whole if whole else 0.0
