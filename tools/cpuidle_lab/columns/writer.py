# SPDX-License-Identifier: GPL-2.0
"""Writing a directory of columns, whole or not at all."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import polars as pl

from cpuidle_lab.columns.layout import (
    BY_CPU,
    FORMAT,
    INTERVAL,
    META,
    PART_BYTES,
    PART_ROWS,
    WRITTEN,
    with_answers,
)
from cpuidle_lab.errors import UserError


@dataclass(frozen=True)
class Part:
    """One file of a table.

    Attributes:
        cpu: number of its CPU; -1 where the rows are of any.
        rows: how many.
    """

    cpu: int
    rows: int


class Writer:
    """Writes a directory of columns, in memory bounded by a part.

    Use it in a `with` statement: where that is left by an exception, nothing stays.

    Attributes:
        meta: contents of meta.json; "format", "cpus" and "parts" are filled in.
        parts: the files written so far, by table.
    """

    def __init__(self, target: Path, meta: Mapping[str, object]) -> None:
        """Begin.

        Args:
            target: the directory to be made. One that is there already is replaced if it is a
                recording.
            meta: "kind" (TRACE, CPU_IDLE or SYNTH), "source", "kernel", "machines" (CPU: what
                describe() returns), and other facts.

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
        layout = WRITTEN[table]
        if layout is INTERVAL:
            frame = with_answers(frame)
        frame = frame.select(*layout)
        if frame.schema != pl.Schema(layout):
            frame = frame.cast(layout)  # type: ignore[arg-type]
        waiting = self._waiting.setdefault(table, [])
        if table in BY_CPU and waiting and waiting[-1]["cpu"][0] != frame["cpu"][0]:
            self._flush(table)
        waiting.append(frame)
        if table not in BY_CPU and sum(piece.estimated_size() for piece in waiting) > PART_BYTES:
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
        parts.append(Part(int(frame["cpu"][0]) if table in BY_CPU else -1, frame.height))

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
            cpus = {part.cpu for table in BY_CPU for part in self.parts.get(table, [])}
            parts = {
                table: [[part.cpu, part.rows] for part in parts]
                for table, parts in self.parts.items()
            }
            meta = {**self.meta, "format": FORMAT, "cpus": sorted(cpus), "parts": parts}
            (self._temporary / META).write_text(json.dumps(meta, indent=1) + "\n")
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
    return (path / META).is_file()


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
