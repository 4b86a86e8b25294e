# SPDX-License-Identifier: GPL-2.0
"""Types, bounds and order of the values in a Parquet directory. Replay relies on them."""

from pathlib import Path

import numpy as np
import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.columns.layout import (
    ANSWERS,
    NO_STATE,
    TICK_MAX,
    TIMER_TICK,
    Columns,
    Layout,
)


def check_frame(path: Path, frame: pl.DataFrame, layout: Layout) -> None:
    """Refuse a table without one of the columns, of another type, or with gaps.

    Args:
        path: the file, for the message.
        frame: its rows.
        layout: the columns that it must have.

    Raises:
        UserError: it has not.
    """
    for name, kind in layout.items():
        if name not in frame.columns:
            raise UserError(f"{path}: has no column '{name}'")
        if frame.schema[name] != kind or frame[name].null_count():
            raise UserError(f"{path}: its column '{name}' is not of the type {kind}, or has gaps")


def check_answers(path: Path, frame: pl.DataFrame) -> None:
    """Refuse intervals whose lists of answers are not as long as `answers` says.

    Raises:
        UserError: one is not.
    """
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
    "timer_ns": (TIMER_TICK - TICK_MAX, 2**63),
    "answer_at_ns": (0, 2**62),
    "answer_timer_ns": (TIMER_TICK - TICK_MAX, 2**63),
    "answer_served_ns": (0, 2**52),
    "answer_back_ns": (0, 2**52),
    "answer_phase_ns": (-1, 2**62),
    "tick_phase_ns": (-1, 2**62),
    "least_ns": (1, 2**63),
    "drawn_ns": (1, 2**63),
}

# Columns that never decrease from row to row.
_SORTED = ("ts", "start_ns", "seq", "first_seq")

# Idle states, which the machine must have, and what stands for none.
_INDICES = ("index", "last_index", "out_index")
_ABSENT = {"last_index": NO_STATE}


def contradiction(columns: Columns, states: int | None, last: dict[str, int]) -> str | None:
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


def fill_phase(columns: Columns) -> None:
    """Let the grid of the tick be known before the kernel told of it: a CPU has one."""
    phase = columns.get("tick_phase_ns")
    if phase is None:
        return
    known = np.flatnonzero(phase >= 0)
    if len(known) and known[0]:
        columns["tick_phase_ns"] = np.where(phase < 0, phase[known[0]], phase)
