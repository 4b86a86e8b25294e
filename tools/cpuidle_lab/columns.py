# SPDX-License-Identifier: GPL-2.0
"""Recordings as directories of columns (Parquet), read and written piece by piece.

    DIR/meta.json               what was recorded, on what, and what is missing from it
    DIR/interval/00000.parquet  exogenous intervals: INTERVAL
    DIR/period/00000.parquet    decisions with their outcomes: PERIOD
    DIR/config/...              the smaller tables: SMALL

A part of `interval` and `period` holds rows of one CPU, in the order of time; the parts of a CPU
follow each other. A directory is there in full or not at all. docs/replay.md says what the columns
mean.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from cpuidle_lab import trace as tr
from cpuidle_lab import trace_stream
from cpuidle_lab.errors import UserError
from cpuidle_lab.replay.abi import constant
from cpuidle_lab.stock import Told, left_out, omissions
from cpuidle_lab.trace import Integrity, Machine

FORMAT = 3

# Kinds of recording: of our events, of power:cpu_idle alone, and of no machine at all.
TRACE = "trace"
CPU_IDLE = "cpu_idle"
SYNTH = "synth"

# Of a recording without the module: how its decisions' timers are known.
TIMER_COUNTS = ("asked", "inferred", "untold", "fateless")

# Flags of an interval.
TIMER = constant("RP_TIMER")
CUT = constant("RP_CUT")
CONTINUED = constant("RP_CONTINUED")
UNCERTAIN = constant("RP_UNCERTAIN")
GAP = constant("RP_GAP")
UNKNOWN = constant("RP_UNKNOWN")
TICKED = constant("RP_TICKED")
OVERSLEPT = constant("RP_OVERSLEPT")
NO_STATE = constant("RP_NO_STATE")

# In place of the time to a timer, from this down: the tick, which had to go on, in -2 less this.
# -1: unknown.
TIMER_TICK = constant("RP_TIMER_TICK")
_TICK_MAX = 2**40

# Rows of a part: what reader and writer have in memory at once, about 30 MB.
PART_ROWS = 1 << 18
_PART_BYTES = 32 << 20

_U8, _U16, _U32, _U64 = pl.UInt8(), pl.UInt16(), pl.UInt32(), pl.UInt64()
_S32, _S64 = pl.Int32(), pl.Int64()
_STATES = constant("CIL_STATE_MAX")

Layout = dict[str, pl.DataType]

INTERVAL: Layout = {
    "cpu": _U16, "first_seq": _U64, "periods": _U32, "start_ns": _U64, "length_ns": _S64,
    "timer_ns": _S64, "tick_phase_ns": _S64, "busy_ns": _S64, "latency_req_ns": _S64,
    "hint_ns": _S64, "disabled": _U32, "flags": _U8, "index": _U8, "last_index": _U8,
    "governor": _U8, "answers": _U32, "answer_at_ns": pl.List(_U64),
    "answer_timer_ns": pl.List(_S64), "answer_served_ns": pl.List(_S64),
    "answer_back_ns": pl.List(_S64), "answer_phase_ns": pl.List(_S64),
}  # fmt: skip

# Of INTERVAL: several values a row, `answers` of them; in memory one after the other.
ANSWERS = ("answer_at_ns", "answer_timer_ns", "answer_served_ns", "answer_back_ns",
           "answer_phase_ns")  # fmt: skip
_ANSWER = np.dtype([(name, "i8" if n else "u8") for n, name in enumerate(ANSWERS)])

PERIOD: Layout = {
    "cpu": _U16, "seq": _U64, "ts": _U64, "now_ns": _U64, "latency_req_ns": _S64, "hint_ns": _S64,
    "sleep_length_ns": _S64, "delta_tick_ns": _S64, "generation": _U32, "disabled": _U32,
    "governor": _U8, "flags": _U8, "index": _U8, "stop_tick": _U8, "reason": _U8, "row": _U8,
    "base_index": _U8, "left": _U8, "out_kind": _U8, "out_ts": _U64, "out_now_ns": _U64,
    "residency_ns": _U64,
    "out_index": _U8, "tick": _U8, "poll_time_limit": _U8, "lost": _U8, "by_tick": _U8,
    "overslept": _U8, "interval": _U64,
}  # fmt: skip

_HEAD: Layout = {"ts": _U64, "cpu": _U16}

SMALL: dict[str, Layout] = {
    "config": _HEAD | {
        "seq": _U64, "generation": _U32, "machine_cpu": _U32, "tick_ns": _S64, "governor": _U8,
        "states": _U8, "polling": _U16, "exit_latency_ns": pl.Array(_S64, _STATES),
        "target_residency_ns": pl.Array(_S64, _STATES), "power_mw": pl.Array(_U32, _STATES),
        "names": pl.String(), "base": pl.String(), "tunables": pl.String(), "kernel": pl.String(),
    },
    "state": _HEAD | {
        "seq": _U64, "offset": _U32, "total": _U32, "governor": _U8, "data": pl.Binary(),
    },
    "tunable": _HEAD | {
        "generation": _U32, "governor": _U8, "name": pl.String(), "value": pl.String(),
    },
    "hint": _HEAD | {
        "limit_ns": _S64, "pid": _S32, "hint_cpu": _S32, "what": _U8, "comm": pl.String(),
    },
    "shadow": _HEAD | {
        "seq": _U64, "generation": _U32, "governor": _U8, "flags": _U8, "index": _U8,
        "stop_tick": _U8, "reason": _U8, "row": _U8,
    },
    "marker": _HEAD | {"text": pl.String()},
    "lost": _HEAD | {"events": _S64},
}  # fmt: skip

LAYOUTS: dict[str, Layout] = {"interval": INTERVAL, "period": PERIOD, **SMALL}

# Tables on the way to a recording: intervals by power:cpu_idle, as long as nothing tells more.
_LAYOUTS = {**LAYOUTS, "idle": INTERVAL}

# Tables whose parts hold one CPU each.
_BY_CPU = ("interval", "period", "idle")

_META = "meta.json"

Columns = dict[str, np.ndarray[Any, Any]]


def sliced(columns: Mapping[str, np.ndarray[Any, Any]], first: int, end: int) -> Columns:
    """Return some rows of intervals in memory, with their answers.

    Args:
        columns: of INTERVAL, those of ANSWERS with `answers` only.
        first: number of the first row.
        end: number of the row after the last.
    """
    part = {name: values[first:end] for name, values in columns.items() if name not in ANSWERS}
    if "answers" in columns:
        before = int(columns["answers"][:first].sum())
        after = before + int(columns["answers"][first:end].sum())
        part |= {name: columns[name][before:after] for name in ANSWERS}
    return part


def joined(parts: Sequence[Mapping[str, np.ndarray[Any, Any]]]) -> Columns:
    """Return intervals in memory one after the other; there is at least one part."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def in_memory(frame: pl.DataFrame) -> Columns:
    """Return the columns of a table as arrays, the answers one after the other."""
    return {
        name: frame[name].explode().drop_nulls().to_numpy()
        if name in ANSWERS
        else frame[name].to_numpy()
        for name in frame.columns
    }


def with_answers(frame: pl.DataFrame) -> pl.DataFrame:
    """Return intervals with the answers in columns: as the reader packs them, or none."""
    if "answer_at_ns" in frame.columns:
        return frame
    packed = frame["answers"] if "answers" in frame.columns else pl.Series([b""] * frame.height)
    counts = packed.bin.size().to_numpy() // _ANSWER.itemsize
    told = np.frombuffer(b"".join(packed.to_list()), _ANSWER)
    rows = np.repeat(np.arange(frame.height, dtype=np.uint32), counts)
    flat = pl.DataFrame({"row": rows, **{name: told[name].copy() for name in ANSWERS}})
    lists = flat.group_by("row", maintain_order=True).agg(*ANSWERS)
    return (
        frame.with_columns(answers=pl.Series(counts))
        .with_row_index("row")
        .join(lists, on="row", how="left", maintain_order="left")
        .with_columns(pl.col(name).fill_null(pl.lit([], INTERVAL[name])) for name in ANSWERS)
        .drop("row")
    )


def describe(machine: Machine) -> dict[str, object]:
    """Return a machine as meta.json has it."""
    return asdict(machine)


def _machine(where: Path, text: Mapping[str, Any]) -> Machine:
    try:
        machine = Machine(
            names=tuple(str(name) for name in text["names"]),
            exit_latency_ns=tuple(int(value) for value in text["exit_latency_ns"]),
            target_residency_ns=tuple(int(value) for value in text["target_residency_ns"]),
            power_mw=tuple(int(value) for value in text["power_mw"]),
            polling=tuple(bool(value) for value in text["polling"]),
            tick_ns=int(text["tick_ns"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{where}: describes a machine that cannot be read: {error!r}") from None
    tr.check_machine(where, machine)
    return machine


@dataclass(frozen=True)
class Part:
    """One file of a table.

    Attributes:
        cpu: the CPU whose rows it holds; -1 where they are of any.
        rows: how many.
    """

    cpu: int
    rows: int


class Writer:
    """Writes a directory of columns, in memory bounded by a part.

    Use it in a `with` statement: where that is left by an exception, nothing stays.

    Attributes:
        meta: what meta.json will say; "format", "cpus" and "parts" are filled in.
        parts: the files written so far, by table.
    """

    def __init__(self, target: Path, meta: Mapping[str, object]) -> None:
        """Begin.

        Args:
            target: the directory to be made. One that is there already is replaced if it is a
                recording.
            meta: "kind" (TRACE, CPU_IDLE or SYNTH), "source", "kernel", "machines" (CPU: what
                describe() returns), and whatever else is known.

        Raises:
            UserError: `target` is there and is something else.
        """
        check_target(target)
        self._target = target
        self.meta = dict(meta)
        self.parts: dict[str, list[Part]] = {}
        self._waiting: dict[str, list[pl.DataFrame]] = {}
        self._temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Add rows to a table, those of `interval` and `period` CPU by CPU, sorted by time.

        Args:
            table: a key of LAYOUTS.
            frame: its columns, in any order; those of `interval` and `period` of one CPU.
        """
        if not frame.height:
            return
        layout = _LAYOUTS[table]
        if layout is INTERVAL:
            frame = with_answers(frame)
        frame = frame.select(*layout)
        if frame.schema != pl.Schema(layout):
            frame = frame.cast(layout)  # type: ignore[arg-type]
        waiting = self._waiting.setdefault(table, [])
        if table in _BY_CPU and waiting and waiting[-1]["cpu"][0] != frame["cpu"][0]:
            self._flush(table)
        waiting.append(frame)
        if table not in _BY_CPU and sum(piece.estimated_size() for piece in waiting) > _PART_BYTES:
            self._flush(table)
        while sum(piece.height for piece in waiting) >= PART_ROWS:
            whole = pl.concat(waiting)
            waiting[:] = [whole[:PART_ROWS]]
            self._flush(table)
            if whole.height > PART_ROWS:
                waiting.append(whole[PART_ROWS:])

    def _flush(self, table: str) -> None:
        waiting = self._waiting.get(table)
        if not waiting:
            return
        frame = pl.concat(waiting)
        waiting.clear()
        parts = self.parts.setdefault(table, [])
        path = self._temporary / table / f"{len(parts):05}.parquet"
        path.parent.mkdir(exist_ok=True)
        try:
            frame.write_parquet(path, compression="zstd", compression_level=1, statistics=False)
        except pl.exceptions.ComputeError as error:
            # polars passes on what the operating system said as a text.
            found = re.search(r"os error (\d+)", str(error))
            if not found:
                raise
            number = int(found[1])
            raise OSError(number, os.strerror(number), str(self._target)) from None
        parts.append(Part(int(frame["cpu"][0]) if table in _BY_CPU else -1, frame.height))

    def drop(self, table: str) -> None:
        """Forget a table."""
        self._waiting.pop(table, None)
        if self.parts.pop(table, None):
            shutil.rmtree(self._temporary / table)

    def rename(self, table: str, name: str) -> None:
        """Give a table another name; nothing if it has no rows."""
        self._flush(table)
        if table in self.parts:
            (self._temporary / table).rename(self._temporary / name)
            self.parts[name] = self.parts.pop(table)

    def close(self) -> None:
        """Write what is left and put the directory in its place."""
        try:
            for table in self._waiting:
                self._flush(table)
            cpus = {part.cpu for table in _BY_CPU for part in self.parts.get(table, [])}
            parts = {
                table: [[part.cpu, part.rows] for part in parts]
                for table, parts in self.parts.items()
            }
            meta = {**self.meta, "format": FORMAT, "cpus": sorted(cpus), "parts": parts}
            (self._temporary / _META).write_text(json.dumps(meta, indent=1) + "\n")
            self._temporary.chmod(0o755)
            self._replace()
        except BaseException:
            self.abandon()
            raise

    def _replace(self) -> None:
        check_target(self._target)
        if self._target.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{self._target.name}.", dir=self._target.parent))
            self._target.rename(old)
            self._temporary.rename(self._target)
            shutil.rmtree(old)
        else:
            self._temporary.rename(self._target)

    def abandon(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self._temporary, ignore_errors=True)


def is_recording(path: Path) -> bool:
    """Tell whether a path is a directory of columns."""
    return (path / _META).is_file()


def check_target(target: Path) -> None:
    """Refuse to replace what is not ours.

    Raises:
        UserError: `target` is there and is neither a recording nor an empty directory, or there is
            no directory to put it in.
    """
    if not target.parent.is_dir():
        raise UserError(f"{target.parent}: no such directory")
    if not target.exists() and not target.is_symlink():
        return
    empty = target.is_dir() and not target.is_symlink() and not any(target.iterdir())
    if not empty and not is_recording(target):
        raise UserError(f"{target} exists and is not a directory of columns; choose another name")


def _check_frame(path: Path, frame: pl.DataFrame, layout: Layout) -> None:
    for name, kind in layout.items():
        if name not in frame.columns:
            raise UserError(f"{path}: has no column '{name}'")
        if frame.schema[name] != kind or frame[name].null_count():
            raise UserError(f"{path}: its column '{name}' is not of the type {kind}, or has gaps")


def _check_answers(path: Path, frame: pl.DataFrame) -> None:
    for name in ANSWERS:
        if name not in frame.columns:
            continue
        other = (frame[name].list.len() != frame["answers"]).any()
        if other or frame[name].explode().drop_nulls().len() != frame["answers"].sum():
            raise UserError(f"{path}: has another number of {name} than of answers")


# Least possible value, and the first impossible one. Replay relies on them.
_BOUNDS = {
    "start_ns": (0, 2**62),
    "now_ns": (0, 2**62),
    "length_ns": (0, 2**52),
    "busy_ns": (0, 2**62),
    "timer_ns": (TIMER_TICK - _TICK_MAX, 2**63),
    "answer_at_ns": (0, 2**62),
    "answer_timer_ns": (TIMER_TICK - _TICK_MAX, 2**63),
    "answer_served_ns": (0, 2**52),
    "answer_back_ns": (0, 2**52),
    "answer_phase_ns": (-1, 2**62),
    "tick_phase_ns": (-1, 2**62),
}

# What never decreases from row to row.
_SORTED = ("start_ns", "seq", "first_seq")

# Idle states, which the machine must have, and what stands for none.
_INDICES = ("index", "last_index", "out_index")
_ABSENT = {"last_index": NO_STATE}


def _contradiction(columns: Columns, states: int | None, last: dict[str, int]) -> str | None:
    """Say what cannot be in some rows of a CPU, if anything.

    Args:
        columns: the rows; those columns that are missing are not looked at.
        states: number of idle states, None if unknown.
        last: where the rows before these ended; updated.
    """
    for name, values in columns.items():
        if not len(values):
            continue
        least, most = int(values.min()), int(values.max())
        if name in _BOUNDS and not _BOUNDS[name][0] <= least <= most < _BOUNDS[name][1]:
            return f"has an impossible {name}: {least if least < _BOUNDS[name][0] else most}"
        if name in _INDICES and states is not None and most >= states:
            unknown = values[(values >= states) & (values != _ABSENT.get(name, -1))]
            if len(unknown):
                return f"names idle state {int(unknown.max())}, which the machine does not have"
        if name in _SORTED:
            if int(values[0]) < last.get(name, 0) or bool((values[1:] < values[:-1]).any()):
                return f"runs backwards in {name}"
            last[name] = int(values[-1])
    return None


def _fill_phase(columns: Columns) -> None:
    """Let the grid of the tick be known before the kernel told of it: a CPU has one."""
    phase = columns.get("tick_phase_ns")
    if phase is None:
        return
    known = np.flatnonzero(phase >= 0)
    if len(known) and known[0]:
        columns["tick_phase_ns"] = np.where(phase < 0, phase[known[0]], phase)


class Recording:
    """A directory of columns, read piece by piece.

    Attributes:
        path: the directory.
        kind: TRACE, CPU_IDLE or SYNTH.
        source: what it was made from.
        kernel: release of the kernel that recorded it, "" if unknown.
        machines: idle states by CPU; empty where nothing tells of them.
        integrity: what is missing.
        unplaced: decisions in no interval, since the idle states were not known yet.
        symbols: table and column: what the numbers mean.
        law: of a synthetic stream: its law, parameters and seed; else None.
        stock: of a recording without the module: "way", TIMER_COUNTS, "left_out" and "unused";
            else None.
        cpus: the CPUs that have rows.
        parts: the files of each table.
    """

    def __init__(self, path: Path) -> None:
        """Open a directory.

        Raises:
            UserError: it is no recording, was written by another version, or contradicts itself.
        """
        self.path = path
        try:
            meta = json.loads((path / _META).read_text())
        except (FileNotFoundError, NotADirectoryError):
            raise UserError(f"{path}: is no directory of columns: it has no {_META}") from None
        except ValueError:
            raise UserError(f"{path / _META}: is damaged: it is not JSON") from None
        if not isinstance(meta, dict) or "format" not in meta:
            raise UserError(f"{path}: is no directory of columns: {_META} names no format")
        if meta["format"] != FORMAT:
            raise UserError(
                f"{path}: its columns have the format {meta['format']}, this program reads "
                f"{FORMAT}; make it again from the trace"
            )
        try:
            self._read(meta)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path / _META}: is damaged: {error!r}") from None

    def _read(self, meta: dict[str, Any]) -> None:
        self.kind = str(meta["kind"])
        self.source = str(meta.get("source", ""))
        self.kernel = str(meta.get("kernel", ""))
        self.law: dict[str, Any] | None = meta.get("law")
        self.stock: dict[str, Any] | None = meta.get("stock")
        self.cpus = [int(cpu) for cpu in meta["cpus"]]
        self.machines = {
            int(cpu): _machine(self.path, text) for cpu, text in meta.get("machines", {}).items()
        }
        given = meta.get("integrity") or {}
        self.integrity = Integrity(
            **{item.name: int(given.get(item.name, 0)) for item in fields(Integrity)}
        )
        self.unplaced = int(meta.get("unplaced", 0))
        self.symbols: dict[tuple[str, str], dict[int, str]] = {}
        for name, meanings in meta.get("symbols", {}).items():
            table, _, column = name.partition(".")
            self.symbols[table, column] = {int(n): str(text) for n, text in meanings.items()}
        self.parts = {
            table: [Part(int(cpu), int(rows)) for cpu, rows in parts]
            for table, parts in meta["parts"].items()
        }

    def name_of(self, table: str, column: str, value: int) -> str:
        """Return what a number means; the column's name and the number if nothing says it."""
        return self.symbols.get((table, column), {}).get(value) or f"{column} {value}"

    def rows(self, table: str, cpu: int | None = None) -> int:
        """Return the number of rows of a table, of one CPU or of all."""
        parts = self.parts.get(table, [])
        return sum(part.rows for part in parts if cpu is None or part.cpu == cpu)

    def intervals(self, cpu: int, columns: Sequence[str] | None = None) -> Iterator[Columns]:
        """Yield the exogenous intervals of a CPU, at most 2^20 at once.

        Args:
            cpu: the CPU.
            columns: names out of INTERVAL; None is all of them.

        Raises:
            UserError: a file is missing, damaged or contradicts itself.
        """
        return self._columns("interval", cpu, columns)

    def periods(self, cpu: int, columns: Sequence[str] | None = None) -> Iterator[Columns]:
        """Yield the decisions of a CPU with their outcomes; otherwise as intervals()."""
        return self._columns("period", cpu, columns)

    def _columns(self, table: str, cpu: int, columns: Sequence[str] | None) -> Iterator[Columns]:
        for _, values in self._checked(table, cpu, columns):
            _fill_phase(values)
            yield values

    def checked_frames(self, table: str, cpu: int) -> Iterator[pl.DataFrame]:
        """Yield the intervals or periods of a CPU as frames; they are checked as intervals() does.

        Args:
            table: "interval" or "period".
            cpu: the CPU.
        """
        for frame, _ in self._checked(table, cpu, None):
            yield frame

    def _checked(
        self, table: str, cpu: int, columns: Sequence[str] | None
    ) -> Iterator[tuple[pl.DataFrame, Columns]]:
        machine = self.machines.get(cpu)
        last: dict[str, int] = {}
        for frame in self.frames(table, cpu, columns):
            _check_answers(self.path, frame)
            values = in_memory(frame)
            wrong = _contradiction(values, machine.count if machine else None, last)
            if wrong:
                raise UserError(f"{self.path}: its table '{table}' of CPU {cpu} {wrong}")
            yield frame, values

    def frames(
        self, table: str, cpu: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pl.DataFrame]:
        """Yield a table part by part, of one CPU where its parts are by CPU, or of all."""
        layout = LAYOUTS[table]
        if columns is not None:
            layout = {name: layout[name] for name in columns}
        for number, part in enumerate(self.parts.get(table, [])):
            if cpu is not None and part.cpu != cpu:
                continue
            path = self.path / table / f"{number:05}.parquet"
            try:
                frame = pl.read_parquet(path, columns=list(layout)).rechunk()
            except FileNotFoundError:
                raise UserError(f"{path}: is missing") from None
            except pl.exceptions.PolarsError as error:
                raise UserError(f"{path}: is damaged: {str(error).splitlines()[0]}") from None
            _check_frame(path, frame, layout)
            if frame.height != part.rows:
                raise UserError(f"{path}: has {frame.height} rows, but {_META} says {part.rows}")
            yield frame

    def table(self, name: str) -> pl.DataFrame:
        """Return a whole table, empty where the recording has none of it; for small ones.

        Args:
            name: a key of LAYOUTS.
        """
        return pl.concat([pl.DataFrame(schema=LAYOUTS[name]), *self.frames(name)])


# What is read of a trace: our tables, and what stands in for intervals where it has none.
READ = tuple(_LAYOUTS)


class _Collected:
    """What must be known of a whole trace before its meta.json can be written."""

    def __init__(self, trace: Path, told: Told | None) -> None:
        self.trace = trace
        self.told = told
        self.symbols: dict[tuple[str, str], dict[int, str]] = {}
        self.machines: dict[int, Machine] = {}
        self.kernel = ""
        self.lost_known = 0
        self.lost_unknown = 0
        self.left_out: dict[str, int] = {}

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
            self.machines = tr.machines_of(self.trace, frame, self.machines)
            self.kernel = self.kernel or str(frame["kernel"][0])
        elif table == "lost":
            lost = frame["events"]
            self.lost_known += int(lost.filter(lost > 0).sum())
            self.lost_unknown += int((lost < 0).sum())

    def meta(self, kind: str, ending: trace_stream.Ending) -> dict[str, object]:
        known = asdict(ending)
        integrity = {item.name: known.get(item.name, 0) for item in fields(Integrity)}
        integrity |= {"lost_known": self.lost_known, "lost_unknown": self.lost_unknown}
        symbols = {".".join(place): meanings for place, meanings in self.symbols.items()}
        return {
            "kind": kind,
            "source": str(self.trace),
            "kernel": self.kernel,
            "machines": {cpu: describe(machine) for cpu, machine in self.machines.items()},
            "integrity": integrity,
            "unplaced": ending.unplaced,
            "symbols": symbols,
        } | self._how(ending)

    def _how(self, ending: trace_stream.Ending) -> dict[str, object]:
        """Return how a recording without the module was made; nothing for one with it."""
        if not self.told:
            return {}
        known = {name: getattr(ending, name) for name in TIMER_COUNTS}
        rest = {"left_out": self.left_out, "unused": self.told.unused}
        return {"stock": {"way": self.told.way, **known, **rest}}


def write(
    trace: Path,
    target: Path,
    progress: Callable[[int], None] | None = None,
    told: Told | None = None,
) -> None:
    """Turn a trace.dat into a directory of columns.

    Args:
        trace: the trace.
        target: the directory, as for Writer.
        progress: called from time to time with the number of rows written so far.
        told: what is known of a recording without the module; None: what it tells itself.

    Raises:
        UserError: the trace cannot be read, is damaged, contradicts itself or holds no idle
            period, or `target` is something else. Nothing is left then.
    """
    check_target(target)
    told = told or tr.told_by(trace)
    found = _Collected(trace, told)
    rows = 0
    with Writer(target, {}) as writer:
        for piece in trace_stream.read_chunks(trace, READ, told):
            if isinstance(piece, trace_stream.Schema):
                found.symbols = piece.symbols
            elif isinstance(piece, trace_stream.Chunk):
                found.note(piece.table, piece.frame)
                if found.leaves_out(piece.table, piece.frame):
                    continue
                writer.add(piece.table, piece.frame)
                rows += piece.frame.height
                if progress:
                    progress(rows)
            else:
                kind = _kind(found, writer, piece)
                writer.meta |= found.meta(kind, piece)


def _kind(found: _Collected, writer: Writer, ending: trace_stream.Ending) -> str:
    """Choose what the intervals are made of, and drop the rest."""
    trace = found.trace
    if ending.decisions and not tr.is_timerless(found.told, ending):
        writer.drop("idle")
        if ending.unplaced == ending.decisions:
            raise UserError(
                f"{trace}: has decisions but no cpuidle_lab:config event, so the idle states are "
                "unknown; record with -e cpuidle_lab (all of its events)"
            )
        return TRACE
    writer.drop("interval")
    writer.drop("period")
    writer.rename("idle", "interval")
    if "interval" not in writer.parts:
        if found.left_out:
            raise UserError(f"{trace}: {omissions({'left_out': found.left_out})[0]}")
        raise UserError(
            f"{trace}: holds no idle periods, neither cpuidle_lab:* nor power:cpu_idle events; "
            "record with trace-cmd record -e cpuidle_lab -e power:cpu_idle"
        )
    return CPU_IDLE


@contextmanager
def opened(path: Path, machine: Machine | None = None) -> Iterator[Recording]:
    """Open a recording, be it a directory of columns or a trace.dat.

    A trace.dat is turned into columns in a temporary directory, for the time of the context.

    Args:
        path: the recording.
        machine: idle states of a recording without the module, instead of those that it tells.

    Raises:
        UserError: as Recording and write(), or decisions were made with other idle states.
    """
    if path.is_dir():
        recording = Recording(path)
        if machine and recording.kind != CPU_IDLE:
            raise UserError(f"{path}: has idle states of its own; leave out --machine")
        if machine:
            recording.machines = dict.fromkeys(recording.cpus, machine)
        yield recording
        return
    with tempfile.TemporaryDirectory(prefix="cpuidle-lab-") as folder:
        target = Path(folder) / "columns"
        told = tr.told_with(path, machine) if machine else None
        write(path, target, told=told)
        yield Recording(target)
