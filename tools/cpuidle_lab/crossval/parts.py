# SPDX-License-Identifier: GPL-2.0
"""The phases of a recording, each with the governor that decided in it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.crossval.part_tables import PartCache, PartTable, between
from cpuidle_lab.recording.columns import (
    CUT,
    INTERVAL,
    OVERSLEPT,
    PERIOD,
    TRACE,
    Columns,
    Recording,
    in_memory,
    joined,
)
from cpuidle_lab.recording.columns.layout import Layout
from cpuidle_lab.recording.phases import Phase, phases_of
from cpuidle_lab.replay.candidates import Candidate, candidate
from cpuidle_lab.replay.library import own
from cpuidle_lab.replay.policies import is_program, policy_of
from cpuidle_lab.replay.tunables import settings_of
from cpuidle_lab.states.linux_source import series
from cpuidle_lab.states.table import StateTable

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

    intervals: PartTable
    start: int
    end: int
    state: bytes

    def chunks(self, start: int | None = None) -> Iterator[Columns]:
        """Yield them in memory: all, or those from a decision on."""
        first = self.start if start is None else start
        yield from self.intervals.between("first_seq", first, self.end)


@dataclass(frozen=True)
class _Rows:
    """The tables of a CPU, all of a recording; in the order of `seq`.

    Attributes:
        intervals, periods, config, state: as in a Parquet directory.
    """

    intervals: PartTable
    periods: PartTable
    config: pl.DataFrame
    state: pl.DataFrame


@dataclass(frozen=True)
class Span:
    """The intervals of a CPU in a phase, with their periods.

    Attributes:
        rows: where they are.
        first, last: numbers of the first decisions of the first and of the last interval.
        end: number of the first decision behind the last interval.
    """

    rows: _Rows
    first: int
    last: int
    end: int

    def intervals(self) -> Iterator[Columns]:
        """Yield the intervals in memory."""
        yield from self.rows.intervals.between("first_seq", self.first, self.end)

    def periods(self) -> Iterator[Columns]:
        """Yield the decisions that were made in them, with their outcomes."""
        for every in self.rows.periods.between("seq", self.first, self.end):
            mine = (every["interval"] >= self.first) & (every["interval"] <= self.last)
            yield {name: values[mine] for name, values in every.items()}


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
        kept: by CPU, its intervals and its periods in memory; none where they are streamed.
        before: by CPU, the intervals from the last recorded state to the phase; none without the
            module.
        request_us: latency request that the recorder held; None: none.
    """

    path: Path
    workload: str
    recorder: Candidate
    kernel: str
    state_tables: dict[int, StateTable]
    seconds: float
    kept: dict[int, tuple[Columns, Columns]]
    before: dict[int, Before]
    request_us: int | None = field(default=None, kw_only=True)

    @property
    def regime(self) -> str:
        """The governor's label, with the latency request under which it decided."""
        label = self.recorder.label
        return label if self.request_us is None else f"{label}, at most {self.request_us} us"

    def last_seq(self, cpu: int) -> int:
        """Return the number of the first decision of a CPU's last interval."""
        return int(self.kept[cpu][0]["first_seq"][-1])

    @property
    def cpus(self) -> list[int]:
        """The CPUs that have intervals."""
        return sorted(self.kept)

    @cached_property
    def count(self) -> int:
        """Number of intervals."""
        return sum(map(self._count, self.cpus))

    def _count(self, cpu: int) -> int:
        return sum(len(chunk["flags"]) for chunk in self.intervals(cpu, ["flags"]))

    @cached_property
    def judged(self) -> int:
        """Number of intervals that have a regret."""
        chunks = (one for cpu in self.cpus for one in self.intervals(cpu, ["length_ns", "flags"]))
        return sum(int(has_regret(one).sum()) for one in chunks)

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
        return self.count if cpu is None else self._count(cpu)


@dataclass(frozen=True, eq=False)
class Streamed(Part):
    """A phase whose rows are read as they are asked for, as long as the recording is there.

    Attributes:
        spans: by CPU, its rows.
    """

    spans: dict[int, Span]

    def last_seq(self, cpu: int) -> int:
        """Return the number of the first decision of a CPU's last interval."""
        return self.spans[cpu].last

    @property
    def cpus(self) -> list[int]:
        """The CPUs that have intervals."""
        return sorted(self.spans)

    def intervals(self, cpu: int, columns: Sequence[str] | None = None) -> Iterator[Columns]:
        """Yield the intervals of a CPU."""
        for chunk in self.spans[cpu].intervals():
            yield {name: chunk[name] for name in columns or chunk}

    def periods(self, cpu: int, columns: Sequence[str] | None = None) -> Iterator[Columns]:
        """Yield the decisions of a CPU with their outcomes."""
        for chunk in self.spans[cpu].periods():
            yield {name: chunk[name] for name in columns or chunk}

    def held(self) -> Part:
        """Return the phase with its rows in memory."""
        known = {one.name: getattr(self, one.name) for one in fields(Part)}
        kept = {
            cpu: (_whole(INTERVAL, span.intervals()), _whole(PERIOD, span.periods()))
            for cpu, span in self.spans.items()
        }
        return Part(**(known | {"kept": kept}))


def _whole(layout: Layout, chunks: Iterator[Columns]) -> Columns:
    return joined([in_memory(pl.DataFrame(schema=layout)), *chunks])


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


def parts(
    recording: Recording,
    path: Path,
    *,
    hints: bool = False,
    named: Mapping[str, str] = MappingProxyType({}),
) -> list[Part]:
    """Return the phases of a recording in which one of the module's governors decided.

    Args:
        recording: what is read.
        path: as the user knows it.
        hints: take phases that ran with hints, too; replay has none.
        named: governors as replay takes them, by their name in the recording, where they differ.

    Raises:
        UserError: it has no phases, lost events, or used hints.
    """
    rows = _rows(recording, held=True)
    return [part.held() for part in _parts(recording, path, rows, hints, named)]


def whole(recording: Recording, path: Path) -> Iterator[Streamed]:
    """Yield the phases of a recording; without phases, all of it.

    Raises:
        UserError: as parts(), or several governors decided and nothing says when.
    """
    rows = _rows(recording, held=False)
    last = _last_ns(rows)
    if phases_of(recording.table("marker"), last + 1):
        yield from _parts(recording, path, rows, hints=False)
        return
    configs = recording.table("config").select("governor", "base", "tunables").n_unique()
    everything = (recording.periods(cpu, ["governor"]) for cpu in recording.cpus)
    governors = {n for every in everything for one in every for n in np.unique(one["governor"])}
    if configs != 1 or len(governors) > 1:
        raise UserError(f"{path}: has several governors, or tunables, and no phases")
    part = _part(recording, path, Phase(None, "", 0, last + 1), rows, hints=False)
    if part:
        yield part


def _parts(
    recording: Recording, path: Path, rows: dict[int, _Rows], hints: bool,
    named: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Streamed]:  # fmt: skip
    if recording.kind != TRACE:
        raise UserError(f"{path}: holds no decisions, only power:cpu_idle events")
    if not recording.integrity.complete:
        raise UserError(f"{path}: events were lost while it was recorded")
    found = False
    for phase in phases_of(recording.table("marker"), _last_ns(rows) + 1):
        if part := _part(recording, path, phase, rows, hints, named):
            found = True
            yield part
    if not found:
        raise UserError(
            f"{path}: has no phases (markers 'phase governor=NAME workload=NAME', as the "
            "lab and capture write them)"
        )


def _rows(recording: Recording, *, held: bool) -> dict[int, _Rows]:
    config, state = (recording.table(name).sort("seq") for name in ("config", "state"))
    cache = None if held else PartCache()
    return {
        cpu: _Rows(
            PartTable(recording, "interval", cpu, cache),
            PartTable(recording, "period", cpu, cache),
            config.filter(pl.col("cpu") == cpu),
            state.filter(pl.col("cpu") == cpu),
        )
        for cpu in recording.cpus
    }


def _last_ns(rows: dict[int, _Rows]) -> int:
    return max((one.periods.last_ns for one in rows.values()), default=0)


# Columns of a decision: its number, its governor and its CPU.
_FIRST = ("seq", "governor", "cpu")


@dataclass
class _Decisions:
    """The decisions of a CPU in a phase.

    Attributes:
        first: columns _FIRST of the first.
        last: number of the last.
        hinted: one had a latency hint.
        governors: numbers of those that decided.
    """

    first: tuple[int, ...]
    last: int
    hinted: bool
    governors: set[int]


def _decisions(rows: _Rows, phase: Phase) -> _Decisions | None:
    """Return the facts of a CPU's decisions in a phase; None if there are none."""
    found: _Decisions | None = None
    for mine in rows.periods.between("ts", phase.start_ns, phase.end_ns):
        first = tuple(int(mine[name][0]) for name in _FIRST)
        found = found or _Decisions(first, 0, False, set())
        found.last = int(mine["seq"][-1])
        found.hinted |= bool((mine["hint_ns"] >= 0).any())
        found.governors |= set(np.unique(mine["governor"]).tolist())
    return found


def _part(
    recording: Recording, path: Path, phase: Phase, rows: dict[int, _Rows], hints: bool,
    named: Mapping[str, str] = MappingProxyType({}),
) -> Streamed | None:  # fmt: skip
    spans: dict[int, Span] = {}
    before: dict[int, Before] = {}
    recorder: Candidate | None = None
    for cpu, one in rows.items():
        mine = _decisions(one, phase)
        if mine is None:
            continue
        if mine.hinted and not hints:
            raise UserError(f"{path}: {phase.workload} ran with latency hints")
        first = mine.first[0]
        start = first if recording.stock is not None else _checkpoint(one, first)
        if _governors(recording, one, mine, start) > 1:
            raise UserError(f"{path}: the governor changed while {phase.workload} ran")
        span = _span(one, first, mine.last)
        if span is None:
            continue
        spans[cpu] = span
        recorder = recorder or _recorder(recording, path, one, mine, named)
        pieces = between(one.state, "seq", start, start + 1).sort("offset")
        before[cpu] = Before(one.intervals, start, first, b"".join(pieces["data"].to_list()))
    if recorder is None:
        return None
    return Streamed(
        path,
        phase.workload,
        recorder,
        recording.kernel,
        recording.state_tables,
        (phase.end_ns - phase.start_ns) / 1e9,
        {},
        before,
        spans,
        request_us=phase.request_us,
    )


def _span(rows: _Rows, first: int, last: int) -> Span | None:
    """Return the intervals that begin with one of the decisions from `first` to `last`, if any."""
    numbers = [
        (int(mine["first_seq"][0]), int(mine["first_seq"][-1]))
        for mine in rows.intervals.between("first_seq", first, last + 1)
    ]
    if not numbers:
        return None
    begin, end = numbers[0][0], numbers[-1][1]
    behind = next(rows.intervals.between("first_seq", end + 1, _SEQ_MAX), None)
    return Span(rows, begin, end, _SEQ_MAX if behind is None else int(behind["first_seq"][0]))


def _checkpoint(rows: _Rows, seq: int) -> int:
    """Return the number of the last decision, up to one, before which the state was recorded.

    Without the module no state is, and the configuration tells the first governor alone.
    """
    config = between(rows.config, "seq", 0, seq + 1)
    return int(config["seq"][-1]) if config.height else seq


def _governors(recording: Recording, rows: _Rows, mine: _Decisions, start: int) -> int:
    """Return how many governors, bases and programs made the decisions `mine` of a CPU."""
    if recording.stock is not None:
        return len(mine.governors)
    config = between(rows.config, "seq", start, mine.last + 1)
    return len(set(zip(config["governor"], config["base"], strict=True)))


def _recorder(
    recording: Recording, path: Path, rows: _Rows, mine: _Decisions, named: Mapping[str, str]
) -> Candidate:
    """Return the governor, with its tunables, that made the decisions `mine` of a CPU."""
    seq, number, cpu = mine.first
    config = between(rows.config, "seq", 0, seq + 1)
    if not config.height:
        raise UserError(f"{path}: no config event tells which governor decided on CPU {cpu}")
    row = config.row(-1, named=True)
    base = str(row["base"])
    name = policy_of(recording.name_of("decision", "governor", number), base)
    if name in named:
        return candidate(named[name])
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
