# SPDX-License-Identifier: GPL-2.0
"""Removal of names from a Parquet directory, as of host/scrub.py from a trace."""

import json
from pathlib import Path

import polars as pl

from cpuidle_lab.host import scrub
from cpuidle_lab.recording.columns.layout import META


def _nameless(text: str) -> str:
    return scrub.nameless(text.encode()).decode()


def _line(text: str) -> str:
    return scrub.line(text.encode()).decode(errors="replace")


# Columns with names, and what may stay of a value.
_NAMED = (("hint", "comm", _nameless), ("marker", "text", _line))


def remove(path: Path) -> None:
    """Remove names of tasks and workloads, and the place of the source.

    Args:
        path: a directory that no other process uses.
    """
    for table, column, left in _NAMED:
        for part in sorted((path / table).glob("*.parquet")):
            frame = pl.read_parquet(part)
            values = [left(text) for text in frame[column].to_list()]
            frame.with_columns(pl.Series(column, values, pl.String)).write_parquet(part)
    meta = json.loads((path / META).read_text(encoding="utf-8"))
    meta["source"] = ""
    if isinstance(meta.get("stock"), dict):
        meta["stock"]["causes"] = []  # sentences that name tasks
    (path / META).write_text(json.dumps(meta, indent=1), encoding="utf-8")
