# SPDX-License-Identifier: GPL-2.0
"""Reading a Parquet directory piece by piece."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.columns.checks import (
    check_answers,
    check_frame,
    contradiction,
    fill_phase,
)
from cpuidle_lab.recording.columns.layout import (
    CPU_IDLE,
    FORMAT,
    INTERRUPTS,
    LAYOUTS,
    META,
    SYNTH,
    TRACE,
    Columns,
    in_memory,
)
from cpuidle_lab.recording.columns.writer import Part
from cpuidle_lab.recording.trace import Integrity
from cpuidle_lab.states.table import StateTable, check_table


def _table(where: Path, text: Mapping[str, Any]) -> StateTable:
    try:
        table = StateTable(
            names=tuple(str(name) for name in text["names"]),
            exit_latency_ns=tuple(int(value) for value in text["exit_latency_ns"]),
            target_residency_ns=tuple(int(value) for value in text["target_residency_ns"]),
            power_uw=tuple(round(1000 * float(value)) for value in text["power_mw"]),
            polling=tuple(bool(value) for value in text["polling"]),
            tick_ns=int(text["tick_ns"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{where}: describes a machine that cannot be read: {error!r}") from None
    check_table(where, table)
    return table


class Recording:
    """A Parquet directory, read piece by piece.

    Attributes:
        path: the directory.
        kind: TRACE, CPU_IDLE, INTERRUPTS or SYNTH.
        source: the trace's path, or the law of a synthetic stream.
        kernel: release of the kernel that recorded it, "" if unknown.
        state_tables: idle states by CPU; empty where nothing tells of them.
        integrity: counts of missing events.
        unseen_percent: time of the CPUs of which nothing is told, of all, %; without decisions.
        unplaced: decisions in no interval, since the idle states were not known yet.
        symbols: meanings of numbers, by table and column.
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
            meta = json.loads((path / META).read_text())
        except (FileNotFoundError, NotADirectoryError):
            raise UserError(f"{path}: is no Parquet directory: it has no {META}") from None
        except ValueError:
            raise UserError(f"{path / META}: is damaged: it is not JSON") from None
        if not isinstance(meta, dict) or "format" not in meta:
            raise UserError(f"{path}: is no Parquet directory: {META} names no format")
        if meta["format"] != FORMAT:
            raise UserError(
                f"{path}: its tables have the format {meta['format']}, this program reads "
                f"{FORMAT}; make it again from the trace"
            )
        try:
            self._read(meta)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path / META}: is damaged: {error!r}") from None

    def _read(self, meta: dict[str, Any]) -> None:
        self.kind = str(meta["kind"])
        if self.kind not in (TRACE, CPU_IDLE, INTERRUPTS, SYNTH):
            raise ValueError(f"the kind {self.kind}")
        if wrong := [key for key in ("law", "stock") if not isinstance(meta.get(key), dict | None)]:
            raise TypeError(wrong[0])
        self.source = str(meta.get("source", ""))
        self.kernel = str(meta.get("kernel", ""))
        self.law: dict[str, Any] | None = meta.get("law")
        self.stock: dict[str, Any] | None = meta.get("stock")
        self.loop_ns = max(0, int((self.stock or {}).get("loop_ns", 0)))
        self.cpus = [int(cpu) for cpu in meta["cpus"]]
        self.state_tables = {
            int(cpu): _table(self.path, text) for cpu, text in meta.get("machines", {}).items()
        }
        given = meta.get("integrity") or {}
        self.integrity = Integrity(
            **{item.name: int(given.get(item.name, 0)) for item in fields(Integrity)}
        )
        self.unseen_percent = float(meta.get("unseen_percent", 0.0))
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
        for values in self.checked(table, cpu, columns):
            fill_phase(values)
            yield values

    def checked_part(self, table: str, cpu: int, place: int, columns: Sequence[str]) -> Columns:
        """Return one part of the intervals or periods of a CPU, by its place, as checked() does.

        Args:
            table: "interval" or "period".
            cpu: the CPU.
            place: number of the part among those of the CPU.
            columns: names of some.
        """
        number = self._numbers(table, cpu)[place]
        return self._check(table, cpu, self._frame(table, number, columns), {})

    def checked(
        self, table: str, cpu: int, columns: Sequence[str] | None = None
    ) -> Iterator[Columns]:
        """Yield rows of a CPU as they are in the files, otherwise as intervals() does.

        Args:
            table: "interval", "period" or "sleep".
            cpu: the CPU.
            columns: names of some; None is all of them.
        """
        last: dict[str, int] = {}
        for frame in self.frames(table, cpu, columns):
            yield self._check(table, cpu, frame, last)

    def _check(self, table: str, cpu: int, frame: pl.DataFrame, last: dict[str, int]) -> Columns:
        """Return a part in memory."""
        states = self.state_tables.get(cpu)
        check_answers(self.path, frame)
        values = in_memory(frame)
        wrong = contradiction(values, states.count if states else None, last)
        if wrong:
            raise UserError(f"{self.path}: its table '{table}' of CPU {cpu} {wrong}")
        return values

    def frames(
        self, table: str, cpu: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[pl.DataFrame]:
        """Yield a table part by part, of one CPU where its parts are by CPU, or of all."""
        for number in self._numbers(table, cpu):
            yield self._frame(table, number, columns)

    def _numbers(self, table: str, cpu: int | None) -> list[int]:
        """Return the numbers of a table's files, of one CPU or of all."""
        parts = enumerate(self.parts.get(table, []))
        return [number for number, part in parts if cpu is None or part.cpu == cpu]

    def _frame(self, table: str, number: int, columns: Sequence[str] | None) -> pl.DataFrame:
        layout = LAYOUTS[table]
        if columns is not None:
            layout = {name: layout[name] for name in columns}
        path = self.path / table / f"{number:05}.parquet"
        try:
            with path.open("rb") as stream:  # polars takes no path that is not UTF-8
                frame = pl.read_parquet(stream, columns=list(layout)).rechunk()
        except FileNotFoundError:
            raise UserError(f"{path}: is missing") from None
        except pl.exceptions.PolarsError as error:
            raise UserError(f"{path}: is damaged: {str(error).splitlines()[0]}") from None
        check_frame(path, frame, layout)
        rows = self.parts[table][number].rows
        if frame.height != rows:
            raise UserError(f"{path}: has {frame.height} rows, but {META} says {rows}")
        return frame

    def table(self, name: str) -> pl.DataFrame:
        """Return a whole table, empty where the recording has none of it; for small ones.

        Args:
            name: a key of LAYOUTS.
        """
        return pl.concat([pl.DataFrame(schema=LAYOUTS[name]), *self.frames(name)])
