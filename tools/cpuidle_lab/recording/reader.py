# SPDX-License-Identifier: GPL-2.0
"""The stream of `trace-columns`: tables of a trace, piece by piece.

The work is done by `trace-columns` (tools/native), a C program on libtracecmd. It runs as a process
of its own and sends columns through a pipe: a file that makes the library crash, hang or eat
memory ends that process and becomes one sentence here.
"""

import contextlib
import os
import re
import select
import signal
import struct
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import TRACE
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.recording.formats import as_trace, refuse_other
from cpuidle_lab.recording.native import native_reader as native_reader
from cpuidle_lab.recording.stock import Context

TABLES = (
    "decision",
    "outcome",
    "weights",
    "config",
    "state",
    "tunable",
    "hint",
    "shadow",
    "irq",
    "hrtimer",
    "timer",
    "reschedule",
    "call",
    "cpu_idle",
    "marker",
    "lost",
)

# Tables that the reader makes of events: decisions with their outcomes, exogenous intervals, and
# intervals of which only power:cpu_idle tells (none once a decision was seen).
MADE = ("period", "interval", "idle")

# A latency request for a device, which may be a CPU, changes; one for all CPUs or for a device.
DEVICE_REQUESTS = ("cpu_request_added", "cpu_request_updated", "cpu_request_removed")
REQUESTS = ("request_added", "request_updated", "request_removed", *DEVICE_REQUESTS)

# Seconds without any output after which the reader is taken for hung.
READER_PATIENCE = 120
# Until a reader whose output has ended is gone.
_LAST_WAIT_S = 1

_MESSAGE = struct.Struct("=IIQQ")
_SCHEMA, _CHUNK, _END, _ERROR, _PLACE = 1, 2, 3, 4, 5
_LONGEST_MESSAGE = 1 << 30

# Name of a kind in the schema: types of its values.
_NUMBERS: dict[str, tuple[type[pl.DataType], type[np.generic]]] = {
    "u8": (pl.UInt8, np.uint8),
    "u16": (pl.UInt16, np.uint16),
    "u32": (pl.UInt32, np.uint32),
    "u64": (pl.UInt64, np.uint64),
    "s16": (pl.Int16, np.int16),
    "s32": (pl.Int32, np.int32),
    "s64": (pl.Int64, np.int64),
}


# Called with thousandths of a reading as they are done.
_done: ContextVar[Callable[[int], None] | None] = ContextVar("done", default=None)


@contextmanager
def watched(meter: Meter, title: str, readings: int) -> Iterator[None]:
    """Show how far the readings of traces are that follow; more than foreseen count no more."""
    left = 1000 * readings
    with meter(title, left) as done:

        def within(count: int) -> None:
            nonlocal left
            count = min(count, left)
            left -= count
            done(count)

        token = _done.set(within)
        try:
            yield
        finally:
            _done.reset(token)
            done(left)


def _place_in(size: int) -> Callable[[int], None]:
    """Return what to call with places in a file of some bytes, as they are reached."""
    done, last = _done.get(), 0

    def at(place: int) -> None:
        nonlocal last
        share = max(last, min(1000, 1000 * place // max(1, size)))
        if done and share > last:
            done(share - last)
        last = share

    return at


@dataclass(frozen=True)
class Column:
    """One column of the stream.

    Attributes:
        name: its name.
        kind: a key of _NUMBERS, "text" or "bytes".
        count: elements of a value where it is an array, else 0.
    """

    name: str
    kind: str
    count: int = 0


@dataclass
class Schema:
    """Tables and symbols of a trace.

    Attributes:
        cpus: number of CPUs.
        tables: number of a table: its name and columns.
        symbols: table and field: what its numbers mean, as the trace itself says.
    """

    cpus: int = 0
    tables: dict[int, tuple[str, list[Column]]] = field(default_factory=dict)
    symbols: dict[tuple[str, str], dict[int, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Ending:
    """Counts of a reading. All but `events` are known only if periods or intervals were read.

    Attributes:
        events: events read, those of tables not asked for included.
        decisions: decisions among them.
        decisions_missing, gaps, without_outcome, without_decision, implausible: see Integrity.
        unplaced: decisions before the idle states of their CPU were known: in no interval.
        asked, inferred, untold, fateless: of a recording without the module: decisions whose timer
            is as the kernel answered, follows from other events, is not known; decisions of which
            nothing tells whether the tick was kept.
        rebuilt: of such a recording, CPUs whose timers other events tell, those of the wheel
            included.
    """

    events: int
    decisions: int
    decisions_missing: int
    gaps: int
    without_outcome: int
    without_decision: int
    implausible: int
    unplaced: int
    asked: int = 0
    inferred: int = 0
    untold: int = 0
    fateless: int = 0
    rebuilt: int = 0


@dataclass(frozen=True)
class Chunk:
    """Some rows of one table, in the order of one CPU's recording."""

    table: str
    frame: pl.DataFrame


class _Messages:
    """The reader's output, message by message."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)

    def _fill(self, size: int) -> bytearray | None:
        data = bytearray(size)
        view, got = memoryview(data), 0
        while got < size:
            if not self._poll.poll(READER_PATIENCE * 1000):
                return None
            count = os.readv(self._pipe.fileno(), [view[got:]])
            if count == 0:
                return None
            got += count
        return data

    def message(self) -> tuple[int, int, int, bytearray] | None:
        """Return kind, table, rows and payload; None where the stream stops or stalls."""
        header = self._fill(_MESSAGE.size)
        if header is None:
            return None
        kind, table, rows, size = _MESSAGE.unpack(header)
        if size > _LONGEST_MESSAGE:
            return None
        payload = self._fill(size)
        return None if payload is None else (kind, table, rows, payload)


def _parse_schema(text: str) -> Schema:
    schema = Schema()
    columns: list[Column] = []
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "cpus":
            schema.cpus = int(rest)
        elif word == "table":
            number, name = rest.split()
            columns = []
            schema.tables[int(number)] = name, columns
        elif word == "column":
            name, kind = rest.split()
            match = re.fullmatch(r"(\w+)\[(\d+)\]", kind)
            columns.append(Column(name, match[1], int(match[2])) if match else Column(name, kind))
        elif word == "symbol":
            table, name, value, shown = (*rest.split(" ", 3), "")[:4]
            schema.symbols.setdefault((table, name), {})[int(value)] = shown
    return schema


def _contents(column: Column, data: memoryview, rows: int) -> tuple[pl.Series, int]:
    ends = np.cumsum(np.frombuffer(data, np.uint32, rows), dtype=np.int64)
    total = int(ends[-1]) if rows else 0
    at = 4 * rows + total
    every = bytes(data[4 * rows : at])
    if column.kind != "bytes" and every.isascii():
        text = every.decode("ascii")
        texts = [text[a:b] for a, b in pairwise([0, *ends.tolist()])] if total else [""] * rows
        return pl.Series(column.name, texts, dtype=pl.String), at
    values = [every[a:b] for a, b in pairwise([0, *ends.tolist()])] if total else [b""] * rows
    if column.kind == "bytes":
        return pl.Series(column.name, values, dtype=pl.Binary), at
    texts = [value.decode(errors="replace") for value in values]
    return pl.Series(column.name, texts, dtype=pl.String), at


def _frame(columns: list[Column], data: memoryview, rows: int) -> pl.DataFrame:
    series, at = [], 0
    for column in columns:
        if column.kind not in _NUMBERS:
            values, used = _contents(column, data[at:], rows)
        else:
            _, kind = _NUMBERS[column.kind]
            numbers = np.frombuffer(data, kind, rows * max(column.count, 1), at)
            used = numbers.nbytes
            values = pl.Series(column.name, numbers)
            if column.count:
                values = values.reshape((rows, column.count))
        series.append(values)
        at += used
    return pl.DataFrame(series)


def empty(columns: list[Column]) -> pl.DataFrame:
    """Return a table without rows."""
    types: dict[str, pl.DataType] = {}
    for column in columns:
        if column.kind in _NUMBERS:
            number = _NUMBERS[column.kind][0]()
            types[column.name] = pl.Array(number, column.count) if column.count else number
        else:
            types[column.name] = pl.Binary() if column.kind == "bytes" else pl.String()
    return pl.DataFrame(schema=types)


def read_chunks(
    path: Path, tables: Iterable[str] = TABLES, context: Context | None = None
) -> Iterator[Schema | Chunk | Ending]:
    """Read a trace piece by piece, in memory bounded by the size of a piece.

    A trace that was made without the module has no decisions; the reader makes them of the events
    that it has, where `context` has idle states.

    Args:
        path: a trace.dat, or a recording of one of the other formats.
        tables: names out of TABLES and MADE; others are skipped.
        context: what is known of a recording without the module; None: of one with it.

    Yields:
        First the schema, then chunks, CPU by CPU, each with rows of one CPU, at last the Ending.

    Raises:
        UserError: the file cannot be read, is no trace, or is damaged.
    """
    if path.is_dir():
        raise UserError(f"{path}: is a directory; give the trace.dat that it was made of")
    with as_trace(path) as trace:
        _refuse_dump(path, trace)
        refuse_other(trace, path)
        yield from _read(path, trace, tables, context)


def _refuse_dump(path: Path, trace: Path) -> None:
    """Refuse a file that is no trace.dat, but a dump.

    Raises:
        UserError: it is.
    """
    if trace.is_file():
        with trace.open("rb") as stream:
            if stream.read(len(TRACE)) == TRACE:
                return
    # Here, since most recordings need no reader of dumps.
    from cpuidle_lab.recording.dumps.reading import is_dump

    if is_dump(trace):
        raise UserError(
            f"{path}: is a dump of counters, no recording; cpuidle-lab diff compares two of them, "
            "and --machine takes one"
        )


def _read(
    path: Path, trace: Path, tables: Iterable[str], context: Context | None
) -> Iterator[Schema | Chunk | Ending]:
    """Read a trace.dat that stands for a recording."""
    debug = bool(os.environ.get("CPUIDLE_LAB_DEBUG"))
    process = subprocess.Popen(
        [str(native_reader()), str(trace), *(context.options() if context else []), *tables],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if debug else subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        size = trace.stat().st_size if trace.is_file() else 0
        yield from _messages(path, process, _Messages(process.stdout), _place_in(size))
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


# Signals by which a program ends itself at damaged data.
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL}


def _ended(path: Path, process: subprocess.Popen[bytes]) -> UserError:
    """Return the error of a reader whose stream stopped before its end, or stalled."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_LAST_WAIT_S)
    number = -(process.returncode or 0)
    if number > 0 and number not in _FAULTS:
        name = signal.Signals(number).name
        memory = "; is there enough memory?" if number == signal.SIGKILL else ""
        return UserError(f"{path}: its reader was ended by {name}{memory}")
    return UserError(f"{path}: is a trace.dat file, but damaged: it cannot be read")


def _messages(
    path: Path, process: subprocess.Popen[bytes], stream: _Messages, place: Callable[[int], None]
) -> Iterator[Schema | Chunk | Ending]:
    schema = Schema()
    while True:
        message = stream.message()
        if message is None:
            raise _ended(path, process)
        kind, table, rows, payload = message
        if kind == _PLACE:
            place(int(payload))
        if kind == _ERROR:
            raise UserError(f"{path}: {payload.decode(errors='replace')}")
        if kind == _SCHEMA:
            schema = _parse_schema(payload.decode(errors="replace"))
            yield schema
        elif kind == _CHUNK:
            name, columns = schema.tables[table]
            yield Chunk(name, _frame(columns, memoryview(payload), rows))
        elif kind == _END:
            words = payload.decode().split()
            yield Ending(**dict(zip(words[::2], map(int, words[1::2]), strict=True)))
            return
