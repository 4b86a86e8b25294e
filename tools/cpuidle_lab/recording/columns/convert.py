# SPDX-License-Identifier: GPL-2.0
"""Parquet directories from traces."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path

import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import check, scratch
from cpuidle_lab.host.sysfs import cpu_list
from cpuidle_lab.recording import cause_events, reader
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.columns import caused
from cpuidle_lab.recording.columns.layout import (
    CPU_IDLE,
    INTERRUPTS,
    READ,
    TIMER_COUNTS,
    TRACE,
    describe,
)
from cpuidle_lab.recording.columns.recording import Recording
from cpuidle_lab.recording.columns.writer import Writer, foreign
from cpuidle_lab.recording.stock import Context, left_out, omissions, table_notes
from cpuidle_lab.recording.trace import Integrity
from cpuidle_lab.recording.unseen import Unseen
from cpuidle_lab.states.table import CpuTable, StateTable

# Counts of a reading that are of decisions.
_OF_DECISIONS = ("decisions_missing", "gaps", "without_outcome", "without_decision")


class _Collected:
    """Facts of a whole trace that its meta.json needs."""

    def __init__(self, trace: Path, context: Context | None) -> None:
        self.trace = trace
        self.told = context
        self.symbols: dict[tuple[str, str], dict[int, str]] = {}
        self.state_tables: dict[int, StateTable] = {}
        self.kernel = ""
        self.lost_known = 0
        self.lost_unknown = 0
        self.left_out: dict[str, int] = {}
        self.cpus: set[int] = set()
        self.causes: list[str] = []
        self.loop_ns = 0
        self._unseen, self._last_ns = Unseen(), 0

    def see(self, table: str, frame: pl.DataFrame) -> None:
        """Take rows of any table, for what is not told."""
        if table != "config":
            self._last_ns = max(self._last_ns, int(str(frame["ts"].max() or 0)))
        self._unseen.take(table, frame)

    def leaves_out(self, table: str, frame: pl.DataFrame) -> bool:
        """Tell whether rows are of a CPU whose idle states are not known, and count them."""
        if table != "idle" or not self.told:
            return False
        found = left_out(self.told, {int(frame["cpu"][0]): frame.height})
        for cpu, count in found.items():
            self.left_out[cpu] = self.left_out.get(cpu, 0) + count
        return bool(found)

    def note(self, table: str, frame: pl.DataFrame) -> None:
        if table == "config":
            self.state_tables = tr.state_tables_of(self.trace, frame, self.state_tables, self.told)
            self.kernel = self.kernel or str(frame["kernel"][0])
        elif table in ("idle", "interval"):
            self.cpus.add(int(frame["cpu"][0]))
        elif table == "lost":
            lost = frame["events"]
            self.lost_known += int(lost.filter(lost > 0).sum())
            self.lost_unknown += int((lost < 0).sum())

    def meta(self, kind: str, ending: reader.Ending) -> dict[str, object]:
        known = asdict(ending)
        if kind != TRACE:  # the reader's own decisions are not used
            known = {name: count for name, count in known.items() if name not in _OF_DECISIONS}
        integrity = {item.name: known.get(item.name, 0) for item in fields(Integrity)}
        integrity |= {"lost_known": self.lost_known, "lost_unknown": self.lost_unknown}
        symbols = {".".join(place): meanings for place, meanings in self.symbols.items()}
        return {
            "kind": kind,
            "source": str(self.trace),
            "kernel": self.kernel,
            "machines": {cpu: describe(table) for cpu, table in self.state_tables.items()},
            "integrity": integrity,
            "unseen_percent": self._unseen_percent(kind),
            "unplaced": ending.unplaced,
            "symbols": symbols,
        } | self._how(ending)

    def _unseen_percent(self, kind: str) -> float:
        if kind == TRACE:
            return 0.0
        return self._unseen.percent(self._last_ns, [int(cpu) for cpu in self.left_out])

    def _how(self, ending: reader.Ending) -> dict[str, object]:
        """Return how a recording without the module was made; nothing for one with it."""
        if not self.told:
            return {}
        known = {name: getattr(ending, name) for name in TIMER_COUNTS}
        notes = table_notes(self.told, sorted(self.cpus))
        rest = {"left_out": self.left_out, "unused": self.told.unused,
                "changed": self.told.changed, "notes": notes, "causes": self.causes,
                "loop_ns": self.loop_ns}  # fmt: skip
        return {"stock": {"way": self.told.way, **known, **rest}}


def write(
    trace: Path,
    target: Path,
    context: Context | None = None,
) -> None:
    """Turn a trace.dat into a Parquet directory.

    Args:
        trace: the trace.
        target: the directory, as for Writer.
        context: facts of a recording without the module; None: those that it tells itself.

    Raises:
        UserError: the trace cannot be read, is damaged, contradicts itself or holds no idle
            period, or `target` is something else. Nothing is left then.
    """
    check(target, foreign)
    try:
        _write(trace, target, context)
    except _Told as told:
        _write(trace, target, told.context)


class _Told(Exception):  # noqa: N818
    """A recording tells by itself that it was made without the module: it is read by that."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context


def _write(trace: Path, target: Path, context: Context | None) -> None:
    """Read a trace once.

    Raises:
        _Told: the trace must be read again, by what it tells.
        UserError: as write().
    """
    found = _Collected(trace, context)
    lines = tr.OwnLines(trace)
    wanted = (*READ, "cpu_idle", *(() if context else reader.REQUESTS))
    with Writer(target, {}) as writer:
        for piece in reader.read_chunks(trace, wanted, context):
            if isinstance(piece, reader.Schema):
                found.symbols = piece.symbols
            elif isinstance(piece, reader.Ending):
                ending = piece
            elif not context:
                lines.add(piece)
            if not isinstance(piece, reader.Chunk) or piece.table in reader.REQUESTS:
                continue
            found.see(piece.table, piece.frame)
            if piece.table == "cpu_idle":
                continue
            found.note(piece.table, piece.frame)
            if not found.leaves_out(piece.table, piece.frame):
                writer.add(piece.table, piece.frame)
        if not context and (told := lines.context()):
            raise _Told(told)
        kind = _kind(found, writer, ending)
        if context and cause_events.may_tell(context, ending) and _caused(found, writer, context):
            kind = INTERRUPTS
        writer.meta |= found.meta(kind, ending)


def _caused(found: _Collected, writer: Writer, context: Context) -> bool:
    """Make the rows of the causes of wake-ups instead; False of a recording without interrupts."""
    facts = cause_events.facts_of(found.trace)
    if facts is None:
        return False
    for name in ("interval", "period"):
        writer.drop(name)
    counts = caused.Counts(kickers=caused.kickers(facts))
    for rows in caused.by_cpu(found.trace, facts, context, counts):
        found.state_tables[rows.cpu] = rows.table
        for name in ("interval", "period", "sleep"):
            writer.add(name, getattr(rows, name))
    found.loop_ns = counts.loop_ns
    found.causes = [*caused.notes(facts, counts), *caused.kick_notes(counts)]
    return True


def _kind(found: _Collected, writer: Writer, ending: reader.Ending) -> str:
    """Choose what the intervals are made of, and drop the rest."""
    trace = found.trace
    if ending.decisions and not tr.is_timerless(found.told, ending):
        writer.drop("idle")
        if ending.unplaced == ending.decisions:
            raise UserError(
                f"{trace}: has decisions but no cpuidle_lab:cil_config event, so the idle states "
                "are unknown; record with -e cpuidle_lab (all of its events)"
            )
        return TRACE
    writer.drop("interval")
    writer.drop("period")
    writer.rename("idle", "interval")
    if "interval" not in writer.parts:
        if found.left_out:
            raise UserError(f"{trace}: {omissions({'left_out': found.left_out})[0]}")
        raise tr.no_idle_periods(trace)
    return CPU_IDLE


def _give(recording: Recording, given: Sequence[CpuTable]) -> None:
    """Give idle states to the CPUs of a Parquet directory.

    Raises:
        UserError: a CPU has none then.
    """
    own = [CpuTable(cpu, cpu, table) for cpu, table in recording.state_tables.items()]
    context = Context(own, given=given)
    found = {cpu: context.table(cpu) for cpu in recording.cpus}
    recording.state_tables = {cpu: table for cpu, table in found.items() if table}
    if bare := [cpu for cpu in recording.cpus if cpu not in recording.state_tables]:
        raise UserError(
            f"{recording.path}: no table has CPU {cpu_list(bare)}; --machine RANGE=MACHINE,... "
            "must name each CPU of a Parquet directory"
        )
    notes = table_notes(context, recording.cpus)
    recording.stock = {**(recording.stock or {}), "notes": notes}


@contextmanager
def opened(path: Path, given: Sequence[CpuTable] = ()) -> Iterator[Recording]:
    """Open a recording, be it a Parquet directory or a trace.dat.

    A trace.dat is turned into one in a temporary directory, for the time of the context.

    Args:
        path: the recording.
        given: idle states of a recording without the module, by range of CPUs, instead of those
            that it tells.

    Raises:
        UserError: as Recording and write(), or decisions were made with other idle states.
    """
    if path.is_dir():
        recording = Recording(path)
        if given and recording.kind != CPU_IDLE:
            raise UserError(f"{path}: has idle states of its own; leave out --machine")
        if given:
            _give(recording, given)
        yield recording
        return
    with scratch() as folder:
        target = folder / "columns"
        context = tr.context_with(path, given) if given else None
        write(path, target, context)
        try:
            yield Recording(target)
        except UserError as error:
            # The user knows the trace alone.
            message = error.message.replace(str(target), str(path))
            raise UserError(message, error.exit_code) from error
