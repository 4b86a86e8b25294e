# SPDX-License-Identifier: GPL-2.0
"""Writing a Parquet directory, whole or not at all."""

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import polars as pl

from cpuidle_lab.base.files import check, whole
from cpuidle_lab.recording.columns.layout import (
    BY_CPU,
    FORMAT,
    INTERVAL,
    META,
    PART_BYTES,
    PART_ROWS,
    WRITTEN,
    with_answers,
)

# The files of a table.
_PART = re.compile(rf"({'|'.join(WRITTEN)})/\d{{5,}}\.parquet")


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
    """Writes a Parquet directory, in memory bounded by a part.

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
        check(target, foreign)
        self._target = target
        self._whole = ExitStack()
        self.meta = dict(meta)
        self.parts: dict[str, list[Part]] = {}
        self._waiting: dict[str, list[pl.DataFrame]] = {}

    def __enter__(self) -> Self:
        self._temporary = self._whole.enter_context(whole(self._target, foreign))
        self._temporary.mkdir()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        with self._whole:
            if error is not None:
                raise error
            self._finish()

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
            # polars takes no path that is not UTF-8.
            with path.open("wb") as stream:
                frame.write_parquet(
                    stream, compression="zstd", compression_level=1, statistics=False
                )
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

    def _finish(self) -> None:
        """Write what is left."""
        for table in self._waiting:
            self._flush(table)
        cpus = {part.cpu for table in BY_CPU for part in self.parts.get(table, [])}
        parts = {
            table: [[part.cpu, part.rows] for part in parts] for table, parts in self.parts.items()
        }
        meta = {**self.meta, "format": FORMAT, "cpus": sorted(cpus), "parts": parts}
        (self._temporary / META).write_text(json.dumps(meta, indent=1) + "\n")


def is_recording(path: Path) -> bool:
    """Tell whether a path is a Parquet directory."""
    return (path / META).is_file()


def foreign(target: Path) -> str:
    """Tell why a directory must not be replaced by columns; "" if it may be."""
    if not target.is_dir():
        return "exists and is not a Parquet directory"
    found = sorted(path.relative_to(target) for path in target.rglob("*") if not path.is_dir())
    other = [path for path in found if path != Path(META) and not _PART.fullmatch(str(path))]
    if other:
        return f"holds {other[0]}, which is no part of a recording"
    with suppress(OSError, ValueError):
        found = (
            [] if {"format", "parts"} <= json.loads((target / META).read_text()).keys() else found
        )
    return f"has no {META} of a recording" if found else ""
