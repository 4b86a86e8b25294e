# SPDX-License-Identifier: GPL-2.0
"""The tables of a Parquet directory, and rows in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl

from cpuidle_lab.base.abi import constant
from cpuidle_lab.states.table import StateTable

FORMAT = 3

# Kinds of recording: of our events, of power:cpu_idle alone, of that with interrupts, and of no
# machine at all.
TRACE = "trace"
CPU_IDLE = "cpu_idle"
INTERRUPTS = "interrupts"
SYNTH = "synth"

# Of a recording without the module: how its decisions' timers are known.
TIMER_COUNTS = ("asked", "inferred", "untold", "fateless")

# Flags of an interval.
TIMER = constant("CIL_INTERVAL_TIMER")
CUT = constant("CIL_INTERVAL_CUT")
CONTINUED = constant("CIL_INTERVAL_CONTINUED")
UNCERTAIN = constant("CIL_INTERVAL_UNCERTAIN")
GAP = constant("CIL_INTERVAL_GAP")
UNKNOWN = constant("CIL_INTERVAL_UNKNOWN")
TICKED = constant("CIL_INTERVAL_TICKED")
OVERSLEPT = constant("CIL_INTERVAL_OVERSLEPT")
NO_STATE = constant("CIL_STATE_NONE")

# In place of the time to a timer, from this down: the tick, which had to go on.
TIMER_TICK = constant("CIL_TIMER_TICK")
TICK_MAX = 2**40

# Rows of a part, about 8 MB. Replays, and processes beside them, have a few in memory each.
PART_ROWS = 1 << 16
PART_BYTES = 32 << 20

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

# Of a recording of the kind INTERRUPTS: a row for each interval, of its sleep length.
SLEEP: Layout = {
    "cpu": _U16, "start_ns": _U64, "known": _U8, "least_ns": _S64, "drawn_ns": _S64, "cause": _U8,
    "reason": _U8, "kick": _U8,
}  # fmt: skip

LAYOUTS: dict[str, Layout] = {"interval": INTERVAL, "period": PERIOD, "sleep": SLEEP, **SMALL}

# Tables on the way to a recording: intervals by power:cpu_idle, as long as nothing tells more.
WRITTEN = {**LAYOUTS, "idle": INTERVAL}

# Tables that are read of a trace: ours, and `idle` in place of intervals where it has none.
READ = tuple(name for name in WRITTEN if name != "sleep")

# Tables whose parts hold one CPU each.
BY_CPU = ("interval", "period", "idle", "sleep")

META = "meta.json"

Columns = dict[str, np.ndarray[Any, Any]]


def without_tick(flags: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return flags of intervals between which the tick stays stopped, as with nohz_full."""
    # Of the time before the first only the stopped tick is known.
    found: np.ndarray[Any, Any] = flags & ~GAP | CONTINUED
    found[:1] |= GAP
    return found


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
    told = [name for name in frame.columns if name in ANSWERS]
    # One query: each costs more than the work on some thousand rows.
    answers = frame.select(pl.col(told).explode().drop_nulls()) if told else frame
    return {name: (answers if name in told else frame)[name].to_numpy() for name in frame.columns}


def _unpacked(frame: pl.DataFrame) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return how many answers each interval has, and all answers."""
    packed = frame["answers"] if "answers" in frame.columns else pl.Series([b""] * frame.height)
    counts = packed.bin.size().to_numpy() // _ANSWER.itemsize
    return counts, np.frombuffer(b"".join(packed.to_list()), _ANSWER)


def intervals_in_memory(frame: pl.DataFrame) -> Columns:
    """Return in_memory() of with_answers(), without lists of answers in between."""
    if "answer_at_ns" in frame.columns:
        return in_memory(frame)
    counts, told = _unpacked(frame)
    plain = in_memory(frame.drop("answers", strict=False))
    return plain | {"answers": counts, **{name: told[name].copy() for name in ANSWERS}}


def with_answers(frame: pl.DataFrame) -> pl.DataFrame:
    """Return intervals with the answers in columns: as the reader packs them, or none."""
    if "answer_at_ns" in frame.columns:
        return frame
    counts, told = _unpacked(frame)
    if not len(told):
        none = {name: pl.lit([], INTERVAL[name]) for name in ANSWERS}
        return frame.with_columns(answers=pl.Series(counts), **none)
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


def describe(table: StateTable) -> dict[str, object]:
    """Return a state table as JSON has it: times in ns, powers in mW."""
    told = asdict(table)
    return told | {"power_mw": [uw / 1000 for uw in told.pop("power_uw")]}
