# SPDX-License-Identifier: GPL-2.0
"""Wakers of the CPUs: the interrupt or timer that ended each idle period, where a trace names it.

Record with `-e irq -e timer -e irq_vectors` beside `-e cpuidle_lab`. A CPU that is idle handles
nothing until something wakes it, so the first such event on it after a decision, and before the
next one, is what did. An interrupt that has no event of its own stays unknown.
"""

from collections.abc import Iterator

import polars as pl

from cpuidle_lab.figures.intervals import GROUP
from cpuidle_lab.recording.trace import Trace

# Table of the reader: how its event is called, from the event's columns.
_NAMES = {
    "irq": pl.format("IRQ {} {}", pl.col("irq"), pl.col("name")),
    "hrtimer": pl.format("timer {}", pl.col("function")),
    "timer": pl.format("timer {}", pl.col("function")),
    "reschedule": pl.lit("IPI reschedule"),
    "call": pl.lit("IPI function call"),
}

UNKNOWN = "unknown"


def events(trace: Trace) -> pl.DataFrame:
    """Return every named interrupt and timer: cpu, ts, waker, sorted by time."""
    empty = pl.DataFrame(schema={"cpu": pl.UInt16, "ts": pl.UInt64, "waker": pl.String})
    found = [
        trace.tables[table].select("cpu", "ts", waker=name)
        for table, name in _NAMES.items()
        if trace.tables[table].height
    ]
    return pl.concat([empty, *found]).sort("ts")


def are_named(trace: Trace) -> bool:
    """Tell whether a trace names anything that wakes a CPU."""
    return any(trace.tables[table].height for table in _NAMES)


def counts(trace: Trace, periods: pl.DataFrame) -> Iterator[tuple[int, str, int]]:
    """Yield how many idle periods each waker ended in each group: group, waker, idle periods.

    Args:
        trace: where the events are.
        periods: of Trace.periods(), with `group`; those without an idle period are left out.

    The waker is UNKNOWN where the trace names nothing that woke the CPU.
    """
    named = events(trace)
    idle = periods.filter(pl.col("entered"))
    if not named.height:
        found = idle.group_by(GROUP).len().select(GROUP, pl.lit(UNKNOWN), "len")
        yield from found.iter_rows()
        return
    joined = (
        idle.select(GROUP, "cpu", "ts", "out_ts")
        .sort("ts")
        .join_asof(
            named.with_columns(at="ts"),
            on="ts",
            by="cpu",
            strategy="forward",
            check_sortedness=False,
        )
    )
    waker = pl.when(pl.col("at") <= pl.col("out_ts")).then(pl.col("waker"))
    yield from joined.group_by(GROUP, waker.fill_null(UNKNOWN).alias("waker")).len().iter_rows()
