# SPDX-License-Identifier: GPL-2.0
"""The phases of a recording, each with the governor that decided in it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.columns import (
    CUT,
    INTERVAL,
    OVERSLEPT,
    PERIOD,
    TRACE,
    Columns,
    Recording,
    in_memory,
)
from cpuidle_lab.recording.phases import Phase, phases_of
from cpuidle_lab.replay.candidates import Candidate, candidate
from cpuidle_lab.replay.library import own
from cpuidle_lab.replay.policies import is_program, policy_of
from cpuidle_lab.replay.tunables import settings_of
from cpuidle_lab.states.linux_source import series
from cpuidle_lab.states.table import StateTable


def _between(frame: pl.DataFrame, column: str, first: int, end: int) -> pl.DataFrame:
    """Return the rows whose value is in [first, end): a view, since the column is sorted."""
    start, stop = (int(frame[column].search_sorted(value, "left")) for value in (first, end))
    return frame[start : max(start, stop)]


_SEQ_MAX = 2**63 - 1


@dataclass(frozen=True)
class Before:
    """The intervals of a CPU from a recorded state to a phase.

    Attributes:
        intervals: all of the CPU; its phases share them.
        start: number of the decision before which the state was recorded.
        end: number of the phase's first decision.
        state: that state, as its bytes; nothing where the governor is the kernel's.
    """

    intervals: pl.DataFrame
    start: int
    end: int
    state: bytes

    def columns(self, start: int | None = None) -> Columns:
        """Return them in memory: all, or those from a decision on."""
        first = self.start if start is None else start
        return in_memory(_between(self.intervals, "first_seq", first, self.end))


@dataclass(frozen=True)
class _Rows:
    """The tables of a CPU, all of a recording; in the order of `seq`.

    Attributes:
        intervals, periods, config, state: as in a Parquet directory.
    """

    intervals: pl.DataFrame
    periods: pl.DataFrame
    config: pl.DataFrame
    state: pl.DataFrame


@dataclass(frozen=True, eq=False)
class Part:
    """A phase of a recording, which replay takes for a recording.

    Attributes:
        path: the recording, for messages.
        workload: what ran.
        recorder: the governor that decided, with its tunables; under the gate, the base.
        kernel: release of the kernel.
        state_tables: idle states by CPU.
        seconds: length of the phase.
        kept: by CPU, its intervals and its periods in memory.
        before: by CPU, the intervals from the last recorded state to the phase; none without the
            module.
    """

    path: Path
    workload: str
    recorder: Candidate
    kernel: str
    state_tables: dict[int, StateTable]
    seconds: float
    kept: dict[int, tuple[Columns, Columns]]
    before: dict[int, Before]

    @property
    def cpus(self) -> list[int]:
        """The CPUs that have intervals."""
        return sorted(self.kept)

    @cached_property
    def count(self) -> int:
        """Number of intervals."""
        return sum(len(intervals["flags"]) for intervals, _ in self.kept.values())

    @cached_property
    def judged(self) -> int:
        """Number of intervals that have a regret."""
        return sum(int(has_regret(one).sum()) for one, _ in self.kept.values())

    def intervals(self, cpu: int, columns: Sequence[str] | None = None) -> Iterator[Columns]:
        """Yield the intervals of a CPU."""
        kept = self.kept[cpu][0]
        yield {name: kept[name] for name in columns or kept}

    def periods(self, cpu: int, columns: Sequence[str] | None = None) -> Iterator[Columns]:
        """Yield the decisions of a CPU with their outcomes."""
        kept = self.kept[cpu][1]
        yield {name: kept[name] for name in columns or kept}

    def rows(self, _table: str, cpu: int | None = None) -> int:
        """Return the number of intervals of one CPU or of all."""
        return self.count if cpu is None else len(self.kept[cpu][0]["flags"])


def has_regret(intervals: Columns) -> NDArray[np.bool_]:
    """Tell for each interval whether it is judged: it has a length and an end, and its timer came.

    Args:
        intervals: their `length_ns` and `flags`.
    """
    length, flags = intervals["length_ns"], intervals["flags"]
    judged: NDArray[np.bool_] = (length != 0) & (flags & (CUT | OVERSLEPT) == 0)
    return judged


def overslept(recording: Recording | Part) -> tuple[int, int]:
    """Return the idle time in overslept intervals, and all idle time, ns."""
    late = total = 0
    for cpu in recording.cpus:
        for chunk in recording.intervals(cpu, ["length_ns", "flags"]):
            total += int(chunk["length_ns"].sum())
            late += int(chunk["length_ns"][(chunk["flags"] & OVERSLEPT) != 0].sum())
    return late, total


def parts(recording: Recording, path: Path, *, hints: bool = False) -> list[Part]:
    """Return the phases of a recording in which one of the module's governors decided.

    Args:
        recording: what is read.
        path: as the user knows it.
        hints: take phases that ran with hints, too; replay has none.

    Raises:
        UserError: it has no phases, lost events, or used hints.
    """
    return list(_parts(recording, path, _rows(recording), hints))


def whole(recording: Recording, path: Path) -> Iterator[Part]:
    """Yield the phases of a recording; without phases, all of it.

    Raises:
        UserError: as parts(), or several governors decided and nothing says when.
    """
    rows = _rows(recording)
    last = _last_ns(rows)
    if phases_of(recording.table("marker"), last + 1):
        yield from _parts(recording, path, rows, hints=False)
        return
    configs = recording.table("config").select("governor", "base", "tunables").n_unique()
    governors = {n for one in rows.values() for n in one.periods["governor"].unique()}
    if configs != 1 or len(governors) > 1:
        raise UserError(f"{path}: has several governors, or tunables, and no phases")
    part = _part(recording, path, Phase(None, "", 0, last + 1), rows, hints=False)
    if part:
        yield part


def _parts(recording: Recording, path: Path, rows: dict[int, _Rows], hints: bool) -> Iterator[Part]:
    if recording.kind != TRACE:
        raise UserError(f"{path}: holds no decisions, only power:cpu_idle events")
    if not recording.integrity.complete:
        raise UserError(f"{path}: events were lost while it was recorded")
    found = False
    for phase in phases_of(recording.table("marker"), _last_ns(rows) + 1):
        if part := _part(recording, path, phase, rows, hints):
            found = True
            yield part
    if not found:
        raise UserError(
            f"{path}: has no phases (markers 'phase governor=NAME workload=NAME', as the "
            "lab and capture write them)"
        )


def _rows(recording: Recording) -> dict[int, _Rows]:
    config, state = (recording.table(name).sort("seq") for name in ("config", "state"))
    return {
        cpu: _Rows(
            _intervals(recording, cpu),
            pl.concat([pl.DataFrame(schema=PERIOD), *recording.checked_frames("period", cpu)]),
            config.filter(pl.col("cpu") == cpu),
            state.filter(pl.col("cpu") == cpu),
        )
        for cpu in recording.cpus
    }


def _last_ns(rows: dict[int, _Rows]) -> int:
    return max((int(str(one.periods["ts"].max() or 0)) for one in rows.values()), default=0)


def _intervals(recording: Recording, cpu: int) -> pl.DataFrame:
    intervals = pl.concat(
        [pl.DataFrame(schema=INTERVAL), *recording.checked_frames("interval", cpu)]
    )
    phase = pl.when(pl.col("tick_phase_ns") >= 0).then("tick_phase_ns")
    return intervals.with_columns(tick_phase_ns=phase.backward_fill().fill_null(-1))


def _part(
    recording: Recording, path: Path, phase: Phase, rows: dict[int, _Rows], hints: bool
) -> Part | None:
    kept: dict[int, tuple[Columns, Columns]] = {}
    before: dict[int, Before] = {}
    recorder: Candidate | None = None
    for cpu, one in rows.items():
        mine = _between(one.periods, "ts", phase.start_ns, phase.end_ns)
        if not mine.height:
            continue
        if not hints and (mine["hint_ns"] >= 0).any():
            raise UserError(f"{path}: {phase.workload} ran with latency hints")
        first, last = int(mine["seq"][0]), int(mine["seq"][-1])
        start = first if recording.stock is not None else _checkpoint(one, first)
        if _governors(recording, one, mine, start) > 1:
            raise UserError(f"{path}: the governor changed while {phase.workload} ran")
        inside = _between(one.intervals, "first_seq", first, last + 1)
        if not inside.height:
            continue
        kept[cpu] = in_memory(inside), in_memory(_placed(one, inside["first_seq"]))
        recorder = recorder or _recorder(recording, path, one, mine)
        pieces = _between(one.state, "seq", start, start + 1).sort("offset")
        before[cpu] = Before(one.intervals, start, first, b"".join(pieces["data"].to_list()))
    if recorder is None:
        return None
    return Part(
        path,
        phase.workload,
        recorder,
        recording.kernel,
        recording.state_tables,
        (phase.end_ns - phase.start_ns) / 1e9,
        kept,
        before,
    )


def _placed(rows: _Rows, intervals: pl.Series) -> pl.DataFrame:
    """Return the decisions that were made in some intervals, given by their first decisions."""
    later = rows.intervals["first_seq"].search_sorted(intervals[-1], "right")
    end = rows.intervals["first_seq"][later] if later < rows.intervals.height else _SEQ_MAX
    near = _between(rows.periods, "seq", intervals[0], end)
    return near.filter(pl.col("interval").is_in(intervals.implode()))


def _checkpoint(rows: _Rows, seq: int) -> int:
    """Return the number of the last decision, up to one, before which the state was recorded.

    Without the module no state is, and the configuration tells the first governor alone.
    """
    config = _between(rows.config, "seq", 0, seq + 1)
    return int(config["seq"][-1]) if config.height else seq


def _governors(recording: Recording, rows: _Rows, mine: pl.DataFrame, start: int) -> int:
    """Return how many governors, bases and programs made the decisions `mine` of a CPU."""
    if recording.stock is not None:
        return mine["governor"].n_unique()
    config = _between(rows.config, "seq", start, int(mine["seq"][-1]) + 1)
    return config.select("governor", "base").n_unique()


def _recorder(recording: Recording, path: Path, rows: _Rows, mine: pl.DataFrame) -> Candidate:
    """Return the governor, with its tunables, that made the decisions `mine` of a CPU."""
    seq, number, cpu = mine.select("seq", "governor", "cpu").row(0)
    config = _between(rows.config, "seq", 0, seq + 1)
    if not config.height:
        raise UserError(f"{path}: no config event tells which governor decided on CPU {cpu}")
    row = config.row(-1, named=True)
    base = str(row["base"])
    name = policy_of(recording.name_of("decision", "governor", number), base)
    # A governor of the kernel: under the gate, or recorded without the module. One that the lab
    # has built has its kernel in its name.
    if name not in own() and not is_program(base):
        return candidate(name if "@" in name else f"{name}@{series(recording.kernel)}")
    plain = candidate(name)
    told = settings_of(base, str(row["tunables"]), plain.governor)
    defaults = {one.name: one for one in plain.governor.tunables}
    changed = [
        f"{key}={value}"
        for key, value in told.items()
        if key in defaults and defaults[key].parse(str(value)) != defaults[key].default
    ]
    return candidate(":".join([name, *changed]))
