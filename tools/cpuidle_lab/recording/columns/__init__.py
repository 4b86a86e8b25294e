# SPDX-License-Identifier: GPL-2.0
"""Recordings as Parquet directories, read and written piece by piece.

    DIR/meta.json               the source, its machines, and counts of missing events
    DIR/interval/00000.parquet  exogenous intervals: INTERVAL
    DIR/period/00000.parquet    decisions with their outcomes: PERIOD
    DIR/sleep/00000.parquet     sleep lengths of intervals, where interrupts tell them: SLEEP
    DIR/config/...              the smaller tables: SMALL

A part of `interval`, `period` and `sleep` holds rows of one CPU, in the order of time; the parts of
a CPU follow each other. A directory is there in full or not at all. docs/replay.md says what the
columns mean.

layout     the tables and their columns, and rows in memory
checks     types, bounds and order of their values
writer     writes a directory
recording  reads one
caused     rows from the causes of wake-ups
convert    makes one of a trace
summary    says what one holds
"""

from cpuidle_lab.recording.columns.convert import opened, write
from cpuidle_lab.recording.columns.layout import (
    ANSWERS,
    CONTINUED,
    CPU_IDLE,
    CUT,
    GAP,
    INTERRUPTS,
    INTERVAL,
    NO_STATE,
    OVERSLEPT,
    PART_ROWS,
    PERIOD,
    READ,
    SMALL,
    SYNTH,
    TICKED,
    TIMER,
    TIMER_TICK,
    TRACE,
    UNCERTAIN,
    UNKNOWN,
    Columns,
    describe,
    in_memory,
    intervals_in_memory,
    joined,
    sliced,
    with_answers,
    without_tick,
)
from cpuidle_lab.recording.columns.recording import Recording
from cpuidle_lab.recording.columns.writer import Writer, foreign, is_recording

__all__ = [
    "ANSWERS",
    "CONTINUED",
    "CPU_IDLE",
    "CUT",
    "GAP",
    "INTERRUPTS",
    "INTERVAL",
    "NO_STATE",
    "OVERSLEPT",
    "PART_ROWS",
    "PERIOD",
    "READ",
    "SMALL",
    "SYNTH",
    "TICKED",
    "TIMER",
    "TIMER_TICK",
    "TRACE",
    "UNCERTAIN",
    "UNKNOWN",
    "Columns",
    "Recording",
    "Writer",
    "describe",
    "foreign",
    "in_memory",
    "intervals_in_memory",
    "is_recording",
    "joined",
    "opened",
    "sliced",
    "with_answers",
    "without_tick",
    "write",
]
