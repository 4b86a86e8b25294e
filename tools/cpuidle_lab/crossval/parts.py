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


@dataclass(frozen=True, eq=False)
class Part:
    """A phase of a recording, which replay takes for a recording.

    Attributes:
        path: the recording, for messages.
        workload: what ran.
        recorder: the governor that decided, with its tunables; under the gate, the base.
        kernel: release of the kernel.
        machines: idle states by CPU.
        seconds: length of the phase.
        kept: by CPU, its intervals and its periods in memory.
        before: by CPU, the intervals from the last recorded state to the phase; none without the
            module.
        states: by CPU, that state, as its bytes; nothing where the governor is the kernel's.
    """

    path: Path
    workload: str
    recorder: Candidate
    kernel: str
    machines: dict[int, StateTable]
    seconds: float
    kept: dict[int, tuple[Columns, Columns]]
    before: dict[int, Columns]
    states: dict[int, bytes]

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
    if recording.kind != TRACE:
        raise UserError(f"{path}: holds no decisions, only power:cpu_idle events")
    if not recording.integrity.complete:
        raise UserError(f"{path}: events were lost while it was recorded")
    frames = {cpu: _frames(recording, cpu) for cpu in recording.cpus}
    last = max(int(str(periods["ts"].max())) for _, periods in frames.values())
    wanted = phases_of(recording.table("marker"), last + 1)
    found = [part for one in wanted if (part := _part(recording, path, one, frames, hints))]
    if not found:
        raise UserError(
            f"{path}: has no phases (markers 'phase governor=NAME workload=NAME', as the "
            "lab and capture write them)"
        )
    return found


def whole(recording: Recording, path: Path) -> list[Part]:
    """Return the phases of a recording; without phases, all of it.

    Raises:
        UserError: as parts(), or several governors decided and nothing says when.
    """
    frames = {cpu: _frames(recording, cpu) for cpu in recording.cpus}
    last = max((int(str(periods["ts"].max() or 0)) for _, periods in frames.values()), default=0)
    if phases_of(recording.table("marker"), last + 1):
        return parts(recording, path)
    configs = recording.table("config").select("governor", "base", "tunables").n_unique()
    governors = {n for _, periods in frames.values() for n in periods["governor"].unique()}
    if configs != 1 or len(governors) > 1:
        raise UserError(f"{path}: has several governors, or tunables, and no phases")
    part = _part(recording, path, Phase(None, "", 0, last + 1), frames, hints=False)
    return [part] if part else []


def _frames(recording: Recording, cpu: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    intervals = pl.concat(
        [pl.DataFrame(schema=INTERVAL), *recording.checked_frames("interval", cpu)]
    )
    phase = pl.when(pl.col("tick_phase_ns") >= 0).then("tick_phase_ns")
    intervals = intervals.with_columns(tick_phase_ns=phase.backward_fill().fill_null(-1))
    periods = pl.concat([pl.DataFrame(schema=PERIOD), *recording.checked_frames("period", cpu)])
    return intervals, periods


def _part(
    recording: Recording,
    path: Path,
    phase: Phase,
    frames: dict[int, tuple[pl.DataFrame, pl.DataFrame]],
    hints: bool,
) -> Part | None:
    kept: dict[int, tuple[Columns, Columns]] = {}
    before: dict[int, Columns] = {}
    states: dict[int, bytes] = {}
    recorder: Candidate | None = None
    for cpu, (intervals, periods) in frames.items():
        mine = periods.filter((pl.col("ts") >= phase.start_ns) & (pl.col("ts") < phase.end_ns))
        if not mine.height:
            continue
        if not hints and (mine["hint_ns"] >= 0).any():
            raise UserError(f"{path}: {phase.workload} ran with latency hints")
        first, end = (int(str(value)) for value in (mine["seq"].min(), mine["seq"].max()))
        if _governors(recording, cpu, mine) > 1:
            raise UserError(f"{path}: the governor changed while {phase.workload} ran")
        inside = intervals.filter(pl.col("first_seq").is_between(first, end))
        if not inside.height:
            continue
        placed = periods.filter(pl.col("interval").is_in(inside["first_seq"].implode()))
        columns = in_memory(inside)
        kept[cpu] = columns, in_memory(placed)
        recorder = recorder or _recorder(recording, cpu, mine)
        start = _checkpoint(recording, cpu, first)
        before[cpu] = in_memory(intervals.filter(pl.col("first_seq").is_between(start, first - 1)))
        states[cpu] = _state(recording, cpu, start)
    if recorder is None:
        return None
    return Part(
        path,
        phase.workload,
        recorder,
        recording.kernel,
        recording.machines,
        (phase.end_ns - phase.start_ns) / 1e9,
        kept,
        before,
        states,
    )


def _checkpoint(recording: Recording, cpu: int, seq: int) -> int:
    """Return the number of the last decision, up to one, before which the state was recorded.

    Without the module no state is, and the configuration tells the first governor alone.
    """
    if recording.stock is not None:
        return seq
    config = recording.table("config").filter((pl.col("cpu") == cpu) & (pl.col("seq") <= seq))
    return int(str(config["seq"].max())) if config.height else seq


def _governors(recording: Recording, cpu: int, mine: pl.DataFrame) -> int:
    """Return how many governors, bases and programs made the decisions `mine` of a CPU."""
    if recording.stock is not None:
        return mine["governor"].n_unique()
    first, end = (int(str(value)) for value in (mine["seq"].min(), mine["seq"].max()))
    start = _checkpoint(recording, cpu, first)
    config = recording.table("config").filter(
        (pl.col("cpu") == cpu) & pl.col("seq").is_between(start, end)
    )
    return config.select("governor", "base").n_unique()


def _state(recording: Recording, cpu: int, seq: int) -> bytes:
    pieces = recording.table("state").filter((pl.col("cpu") == cpu) & (pl.col("seq") == seq))
    return b"".join(pieces.sort("offset")["data"].to_list())


def _recorder(recording: Recording, cpu: int, mine: pl.DataFrame) -> Candidate:
    """Return the governor, with its tunables, that made the decisions `mine` of a CPU."""
    seq, number = mine.select("seq", "governor").row(0)
    config = recording.table("config").filter((pl.col("cpu") == cpu) & (pl.col("seq") <= seq))
    row = config.sort("seq").row(-1, named=True)
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
