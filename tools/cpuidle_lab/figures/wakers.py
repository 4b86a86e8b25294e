# SPDX-License-Identifier: GPL-2.0
"""Wakers of the CPUs: the interrupt or timer that ended each idle period, where a trace names it.

Record with `-e irq -e timer -e irq_vectors` beside `-e cpuidle_lab`. A CPU that is idle handles
nothing until something wakes it, so the first such event on it after a decision, and before the
next one, is what did. An interrupt that has no event of its own stays unknown.
"""

import polars as pl

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


def counts(trace: Trace, periods: pl.DataFrame) -> dict[str, int]:
    """Return how many idle periods each waker ended, the most frequent first.

    Args:
        trace: where the events are.
        periods: of Trace.periods(); those without an idle period are left out.

    Returns:
        UNKNOWN alone if the trace names nothing that woke a CPU.
    """
    named = events(trace)
    idle = periods.filter(pl.col("entered")).select("cpu", "ts", "out_ts").sort("ts")
    if not named.height:
        return {UNKNOWN: idle.height} if idle.height else {}
    joined = idle.join_asof(
        named.with_columns(at="ts"),
        on="ts",
        by="cpu",
        strategy="forward",
        check_sortedness=False,
    )
    waker = pl.when(pl.col("at") <= pl.col("out_ts")).then(pl.col("waker"))
    total = joined.group_by(waker.fill_null(UNKNOWN).alias("waker")).agg(n=pl.len())
    return dict(total.sort(["n", "waker"], descending=[True, False]).rows())
