# SPDX-License-Identifier: GPL-2.0
"""An idle period is ended by the first thing that its CPU handles."""

from types import SimpleNamespace
from typing import Any, cast

import polars as pl

from cpuidle_lab.figures import wakers
from cpuidle_lab.figures.intervals import GROUP
from cpuidle_lab.recording.trace import Trace

_HEAD = {"ts": pl.UInt64, "cpu": pl.UInt16}
_FIELDS: dict[str, dict[str, Any]] = {
    "irq": {"irq": pl.Int32, "name": pl.String},
    "hrtimer": {"function": pl.String},
    "timer": {"function": pl.String},
    "reschedule": {"vector": pl.Int32},
    "call": {"vector": pl.Int32},
}


def trace(**rows: list[tuple[Any, ...]]) -> Trace:
    """Return a trace with these events: (ts, cpu, fields...)."""
    tables = {
        name: pl.DataFrame(rows.get(name, []), schema=_HEAD | fields, orient="row")
        for name, fields in _FIELDS.items()
    }
    return cast(Trace, SimpleNamespace(tables=tables))


def periods(*rows: tuple[int, int, int | None], group: int = 0) -> pl.DataFrame:
    """Return decisions: (ts, cpu, ts of the outcome, None if there was no idle period)."""
    return pl.DataFrame(
        [(ts, cpu, out, out is not None) for ts, cpu, out in rows],
        schema={"ts": pl.UInt64, "cpu": pl.UInt16, "out_ts": pl.UInt64, "entered": pl.Boolean},
        orient="row",
    ).with_columns(pl.lit(group).alias(GROUP))


def counts_of(found: Trace, decisions: pl.DataFrame) -> dict[str, int]:
    """Return the wakers of group 0."""
    rows = list(wakers.counts(found, decisions))
    assert all(group == 0 for group, _, _ in rows)
    return {waker: count for _, waker, count in rows}


def test_the_first_event_on_the_cpu_is_the_waker() -> None:
    found = trace(
        irq=[(150, 0, 24, "eth0"), (160, 1, 25, "nvme0")],
        hrtimer=[(155, 0, "hrtimer_wakeup")],
        timer=[(290, 1, "process_timeout")],
    )
    counts = counts_of(found, periods((100, 0, 200), (110, 1, 210), (250, 1, 300)))
    assert counts == {"IRQ 24 eth0": 1, "IRQ 25 nvme0": 1, "timer process_timeout": 1}


def test_what_comes_after_the_next_decision_is_not() -> None:
    found = trace(reschedule=[(250, 0, 253)])
    assert counts_of(found, periods((100, 0, 200))) == {wakers.UNKNOWN: 1}


def test_decisions_without_an_idle_period_have_no_waker() -> None:
    found = trace(call=[(150, 0, 251)])
    assert counts_of(found, periods((100, 0, None))) == {}
    assert counts_of(found, periods((100, 0, 200))) == {"IPI function call": 1}


def test_a_trace_that_names_nothing_says_nothing() -> None:
    assert not wakers.are_named(trace()) and wakers.are_named(trace(call=[(150, 0, 251)]))
    assert counts_of(trace(), periods((100, 0, 200))) == {wakers.UNKNOWN: 1}


def test_each_group_has_its_own_wakers() -> None:
    found = trace(
        hrtimer=[(150, 0, "tick_nohz_handler"), (250, 0, "tick_nohz_handler")],
        irq=[(350, 0, 9, "acpi")],
    )
    both = pl.concat([periods((100, 0, 200), (200, 0, 300)), periods((300, 0, 400), group=1)])
    assert sorted(wakers.counts(found, both)) == [
        (0, "timer tick_nohz_handler", 2), (1, "IRQ 9 acpi", 1),
    ]  # fmt: skip
    assert sorted(wakers.counts(trace(), both)) == [(0, wakers.UNKNOWN, 2), (1, wakers.UNKNOWN, 1)]
