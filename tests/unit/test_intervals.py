# SPDX-License-Identifier: GPL-2.0
"""Exogenous intervals: the rules that a trace becomes intervals by, and the definition of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpuidle_lab.figures import analysis
from cpuidle_lab.figures.cpu_idle import judge
from cpuidle_lab.figures.group import DECISIONS
from cpuidle_lab.recording import columns as co
from cpuidle_lab.recording import trace as tr
from tests.unit import synthetic
from tests.unit.intervals_model import (
    EXIT,
    GRID_NEAR,
    MACHINE,
    OLDER,
    PHASE,
    TICK,
    TIME_MAX,
    Decided,
    Story,
    add,
    made,
    plainly,
    streams,
)
from tests.unit.tracedat import Trace


# The reader's intervals are those of the definition, in every column.
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(decided=st.lists(streams(), min_size=1, max_size=6))
def test_intervals_by_definition(tmp_path: Path, decided: list[list[Decided]]) -> None:
    trace = Trace(len(decided) + 1)
    for cpu, stream in enumerate(decided):
        add(trace, cpu, stream)
    # One that is never empty.
    add(trace, len(decided), [Decided(seq=1, now=10**9)])
    recording = made(trace, tmp_path)
    for cpu, stream in enumerate(decided):
        expected = plainly(stream)
        got = [row for chunk in recording.frames("interval", cpu) for row in chunk.to_dicts()]
        assert [{name: row[name] for name in expected[0]} for row in got] == expected or (
            not got and not expected
        )
        periods = recording.table("period").filter(pl.col("cpu") == cpu)
        story = Story(stream)
        of = {i: stream[group[0]].seq for group in story.groups() for i in group}
        assert periods.select("left", "by_tick", "overslept", "interval").rows() == [
            (d.left, story.by_tick(i), d.overslept, of.get(i, 0)) for i, d in enumerate(stream)
        ]
        for row in got:
            assert row["latency_req_ns"] == row["first_seq"] * 7
            assert row["disabled"] == row["first_seq"] % 4
            assert (row["cpu"], row["hint_ns"]) == (cpu, -1)


# Where a kernel governor hides the tick, it follows from how long the period was.
@pytest.mark.parametrize(
    ("changes", "intervals"),
    [
        ({"residency": 265_000}, 1),
        ({"residency": 264_999}, 2),
        ({"residency": 265_000, "stop_tick": 1}, 2),
        ({"residency": 265_000, "flags": tr.TICK_STOPPED}, 2),
        ({"residency": 265_000, "tick": 0}, 2),
        ({"residency": 100, "tick": 1}, 1),
        ({"residency": 265_000, "sleep": 270_000}, 2),
    ],
)
def test_hidden_tick(tmp_path: Path, changes: dict[str, Any], intervals: int) -> None:
    first = replace(Decided(seq=1, now=10**9, delta=270_000, tick=2), **changes)
    trace = Trace()
    add(trace, 0, [first, Decided(seq=2, now=10**9 + 300_000, residency=500, left=0)])
    assert made(trace, tmp_path).rows("interval") == intervals


# A period is a decision with its outcome; nothing stands in for what is missing.
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stream=streams())
def test_periods(tmp_path: Path, stream: list[Decided]) -> None:
    trace = Trace()
    add(trace, 0, [*stream, Decided(seq=10_000, now=10**12)])
    rows = made(trace, tmp_path).table("period").to_dicts()
    loaded = tr.load(tmp_path / "t.dat")
    assert len(rows) == len(stream) + 1
    last = 0
    for row, d in zip(rows, stream, strict=False):
        assert (row["seq"], row["now_ns"], row["index"]) == (d.seq, d.now, d.index)
        assert row["out_kind"] == (255 if d.kind is None else d.kind)
        assert row["residency_ns"] == (0 if d.kind is None else d.residency)
        assert row["lost"] == (d.lost or (last > 0 and d.seq != last + 1))
        last = d.seq
    # Both ways to read a trace count the same.
    assert co.Recording(tmp_path / "columns").integrity == loaded.integrity


# The report counts the intervals of the recording, each under the governor that began it.
def test_intervals_as_in_the_report(tmp_path: Path) -> None:
    path = synthetic.demo(tmp_path / "t.dat", length=30_000_000)
    groups = [g for g in analysis.analyse(tr.load(path)) if g.source == DECISIONS]
    with co.opened(path) as recording:
        ours = recording.table("interval").filter(pl.col("length_ns") > 0)
    assert ours.height > 1000
    assert int(ours["periods"].sum()) > ours.height + 50
    for flag, name in ((0, "intervals"), (co.CUT, "cut_intervals")):
        count = ours.filter(pl.col("flags") & flag == flag).height
        assert count == sum(int(g.values[name] or 0) for g in groups), name
    assert sum(int(g.values["periods"] or 0) for g in groups) == int(ours["periods"].sum())


# ---- The rules one by one. ----


def rows_of(folder: Path, *decided: Decided) -> list[dict[str, Any]]:
    """Return the intervals that some decisions come to."""
    trace = Trace()
    add(trace, 0, list(decided))
    return made(trace, folder).table("interval").to_dicts()


def test_an_interval_ends_where_the_idle_loop_was_left(tmp_path: Path) -> None:
    # The tick comes after 1 ms, and nothing tells of a timer; 50 us later all begins again.
    first = Decided(seq=1, now=10**9, delta=10**6, residency=10**6, tick=1)
    again = Decided(seq=2, now=10**9 + 1_050_000, residency=500)
    stayed = rows_of(tmp_path, first, replace(again, left=0))
    assert [(row["periods"], row["length_ns"]) for row in stayed] == [(2, 1_050_000 + 250)]
    gone = rows_of(tmp_path, first, again)
    assert [(row["periods"], row["length_ns"]) for row in gone] == [(1, 998_000), (1, 250)]
    # The tick brought what ended it: the same for a governor, but no wake-up of its own.
    assert gone[0]["flags"] & co.TICKED and not gone[0]["flags"] & (co.TIMER | co.CUT)
    assert [bool(row["flags"] & co.CONTINUED) for row in gone] == [False, False]


# The tick stays as it was unless the idle loop was left; then it runs again.
@pytest.mark.parametrize(
    ("before", "changes", "continued"),
    [
        ({}, {"left": 0}, True),
        ({}, {"left": 1}, False),
        ({"stop_tick": 1}, {"left": 0}, False),
        ({"stop_tick": 1}, {"left": 0, "flags": tr.TICK_STOPPED}, True),
        ({"stop_tick": 1}, {"left": 1, "flags": tr.TICK_STOPPED}, True),
        # The tick had been stopped before, and runs again: the loop was left for nothing.
        ({"flags": tr.TICK_STOPPED}, {"left": 0}, False),
        ({}, {"left": 0, "seq": 3}, False),
        ({}, {"left": 0, "lost": True}, False),
    ],
)
def test_continued(
    tmp_path: Path, before: dict[str, Any], changes: dict[str, Any], continued: bool
) -> None:
    first = replace(Decided(seq=1, now=10**9, residency=300_000), **before)
    second = replace(Decided(seq=2, now=10**9 + 400_000, residency=500), **changes)
    rows = rows_of(tmp_path, first, second)
    assert len(rows) == 2
    assert bool(rows[1]["flags"] & co.CONTINUED) == continued


# A timer that was due while the CPU was awake ended the interval; one that had passed before was
# moved, and one that is still to come ended none.
@pytest.mark.parametrize(
    ("sleep", "left", "length"),
    [
        (1_020_000, 0, 1_020_000),
        (1_050_000, 0, 1_050_000),
        (1_050_001, 0, None),
        (1_050_000, 1, 1_050_000),
        (1_050_001, 1, 998_000),
        (978_000, 0, 998_000),
        (977_999, 0, None),
    ],
)
def test_a_timer_between_two_decisions(
    tmp_path: Path, sleep: int, left: int, length: int | None
) -> None:
    # The tick is due after 970 us; the CPU wakes at 998 us and decides again at 1050 us.
    first = Decided(seq=1, now=10**9, sleep=sleep, delta=970_000, residency=10**6, tick=1)
    rows = rows_of(tmp_path, first, Decided(seq=2, now=10**9 + 1_050_000, residency=500, left=left))
    assert len(rows) == (1 if length is None else 2)
    if length is not None:
        assert rows[0]["length_ns"] == length
        timer = sleep <= 1_050_000
        assert bool(rows[0]["flags"] & co.TIMER) == timer
        assert bool(rows[0]["flags"] & co.TICKED) == bool(left)


# The handler of the tick runs for timers of the wheel while the tick is stopped, too. Such a timer
# ends the interval, whether a task ran then or not, and the governor was told of a tick.
@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("stopped", [{"stop_tick": 1}, {"flags": tr.TICK_STOPPED}])
def test_a_timer_of_a_stopped_tick(tmp_path: Path, stopped: dict[str, int], left: int) -> None:
    first = Decided(seq=1, now=10**9, sleep=50_000_000, delta=970_000, residency=50_005_000, tick=1)
    second = Decided(seq=2, now=10**9 + 50_010_000, residency=500, left=left)
    rows = rows_of(tmp_path, replace(first, **stopped), second)  # type: ignore[arg-type]
    assert len(rows) == 2
    assert rows[0]["flags"] & (co.TIMER | co.TICKED) == co.TIMER | co.TICKED


# Interrupts do not end a poll: a timer that passed in it came all the same.
@pytest.mark.parametrize(("entered", "intervals"), [(0, 2), (1, 1)])
def test_a_timer_within_a_period(tmp_path: Path, entered: int, intervals: int) -> None:
    first = Decided(seq=1, now=10**9, sleep=300_000, residency=10**6, entered=entered, poll=1)
    second = Decided(seq=2, now=10**9 + 1_050_000, residency=500, left=0)
    rows = rows_of(tmp_path, first, second)
    assert len(rows) == intervals
    assert bool(rows[0]["flags"] & co.TIMER) == (intervals == 2)


def on_grid(now: int) -> int:
    """Return the time to the tick, as test_held_tick has it."""
    return (PHASE - now) % TICK


# The kernel answers with the tick where it cannot be stopped: that ends an interval as a timer
# would, but no timer is known. Nothing but the grid tells such an answer from a timer.
@pytest.mark.parametrize(
    ("off", "flags", "held"),
    [
        (0, 0, True),
        (OLDER, 0, True),
        (-GRID_NEAR, 0, True),
        (OLDER + 1, 0, False),
        (-GRID_NEAR - 1, 0, False),
        (0, tr.TICK_STOPPED, False),
    ],
)
def test_held_tick(tmp_path: Path, off: int, flags: int, held: bool) -> None:
    # The first decision tells where the ticks are.
    first = Decided(seq=1, now=10**9, delta=on_grid(10**9), residency=500)
    now = 10**9 + 100_000
    due = on_grid(now) + off
    second = Decided(
        seq=2, now=now, sleep=due, delta=due, flags=flags, residency=due + 2_000, tick=int(held)
    )  # fmt: skip
    row = rows_of(tmp_path, first, second)[1]
    assert row["timer_ns"] == (co.TIMER_TICK - due if held else due)
    assert row["length_ns"] == due
    assert row["flags"] & (co.TIMER | co.TICKED) == (co.TICKED if held else co.TIMER)
    # Under a kernel governor that hides the tick it follows from the time. The handler of a tick
    # that is stopped serves timers on its grid, too.
    hidden = replace(second, tick=2)
    served = rows_of(tmp_path, first, hidden)[1]["flags"] & co.TICKED
    assert bool(served) == (held or off == 0)
    early = replace(hidden, residency=due - 5_001, entered=0)
    assert not rows_of(tmp_path, first, early)[1]["flags"] & co.TICKED
    # Woken long before, it is neither.
    third = replace(second, residency=due - 30_000, tick=0)
    assert not rows_of(tmp_path, first, third)[1]["flags"] & (co.TIMER | co.TICKED)


# While the tick is running no event is later, so one that seems late is the tick: the kernel's
# present is older than the record's. An event after a tick that has come is another one.
@pytest.mark.parametrize(("after", "held"), [(-50_000, True), (10_000, False)])
def test_a_late_event_is_the_tick_that_is_to_come(tmp_path: Path, after: int, held: bool) -> None:
    first = Decided(seq=1, now=10**9, delta=on_grid(10**9), residency=500)
    now = 10**9 + on_grid(10**9) + after
    due = 80_000 if held else 30_000
    second = Decided(seq=2, now=now, sleep=due, delta=due, residency=2_000)
    assert rows_of(tmp_path, first, second)[1]["timer_ns"] == (co.TIMER_TICK - due if held else due)


def test_no_tick_is_held_where_no_tick_is_known(tmp_path: Path) -> None:
    due = Decided(seq=1, now=10**9, sleep=300_000, delta=300_000, residency=302_000)
    (row,) = rows_of(tmp_path, due)
    assert (row["timer_ns"], row["tick_phase_ns"]) == (300_000, -1)
    # A tick that came when the next event was due was that event, and tells where the ticks are.
    phase = (10**9 + 300_000) % TICK
    (row,) = rows_of(tmp_path, replace(due, tick=1))
    assert (row["timer_ns"], row["tick_phase_ns"]) == (co.TIMER_TICK - 300_000, phase)
    came = replace(due, tick=1)
    for other in (
        replace(came, stop_tick=1),
        replace(came, residency=299_999),
        replace(came, flags=tr.TICK_STOPPED),
    ):
        (row,) = rows_of(tmp_path, other)
        assert (row["timer_ns"], row["tick_phase_ns"]) == (300_000, -1)


# From 7.0 on the kernel tells of a cancelled timer that its clock is still programmed for. That is
# no tick, even if a period lasts until then under a governor that hides ticks.
@pytest.mark.parametrize(
    ("off", "ticks"), [(0, 1), (-10_001, 0), (OLDER, 1), (OLDER + 1, 0), (2_000_000, 0)]
)
def test_an_event_off_the_grid_is_no_tick(tmp_path: Path, off: int, ticks: int) -> None:
    first = Decided(seq=1, now=10**9, sleep=9_000_000, delta=500_000, residency=400_000)
    now = 10**9 + 4_200_000
    second = replace(first, seq=2, now=now, delta=300_000 + off, residency=302_000 + off, tick=2)
    trace = Trace()
    add(trace, 0, [first, second])
    recording = made(trace, tmp_path)
    assert recording.table("period")["by_tick"].to_list() == [0, ticks]
    phase = (10**9 + 500_000 + off) % TICK
    assert recording.table("interval")["tick_phase_ns"].to_list() == [
        (10**9 + 500_000) % TICK,
        phase,
    ]


# The CPU's own next event is the tick where that goes on, else the timer.
@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ({}, 270_000),
        ({"stop_tick": 1}, 900_000),
        ({"flags": tr.TICK_STOPPED}, 900_000),
        ({"sleep": 200_000, "delta": 200_000}, 200_000),
        ({"sleep": -5, "delta": -5}, 0),
        ({"stop_tick": 1, "sleep": TIME_MAX}, None),
        ({"entered": 0}, None),
    ],
)
def test_overslept(tmp_path: Path, changes: dict[str, Any], bound: int | None) -> None:
    one = replace(Decided(seq=1, now=10**9, sleep=900_000, delta=270_000), **changes)
    latest = (10**6 if bound is None else bound) + EXIT[one.entered] + 100_000
    for residency, overslept in ((latest, False), (latest + 1, bound is not None)):
        (row,) = rows_of(tmp_path, replace(one, residency=residency))
        assert bool(row["flags"] & co.OVERSLEPT) == overslept
        period = co.Recording(tmp_path / "columns").table("period")
        assert period["overslept"].to_list() == [overslept]


# The lab tells the domains of its machine, whose exit latencies a CPU waits for, too: the longest
# of each of them. A line that is no such tree changes nothing.
@pytest.mark.parametrize(
    ("line", "wait_ns"),
    [
        ("domains p@all:60000:demotes/PC2:1:20:50:900:C1/PC6:50:100:1000:250:C6~C1E", 100_000),
        ("domains m@every2:9/M:1:20:700:4:C6+p@0-3,8:60/P:5:2000:3000:25:M", 2_020_000),
        ("domains p@all:60000/PC6:50", 0),
        ("domains ", 0),
        ("domains", 0),
        ("phase governor=domains", 0),
    ],
)
def test_the_exit_latencies_of_domains_are_not_overslept(
    tmp_path: Path, line: str, wait_ns: int
) -> None:
    one = Decided(seq=1, now=10**9, delta=270_000)
    latest = 270_000 + EXIT[one.entered] + 100_000 + wait_ns
    for residency in (latest, latest + 1):
        trace = Trace(2)
        trace.mark(0, 500, line)
        for cpu in range(2):
            add(trace, cpu, [replace(one, residency=residency)])
        told = made(trace, tmp_path).table("period")["overslept"].to_list()
        assert told == [residency > latest] * 2


# Of an interval of several periods, one is enough.
def test_one_overslept_period_spoils_the_interval(tmp_path: Path) -> None:
    first = Decided(seq=1, now=10**9, delta=10**6, residency=1_200_000, tick=1)
    second = Decided(seq=2, now=10**9 + 1_210_000, residency=500, left=0)
    (row,) = rows_of(tmp_path, first, second)
    assert row["periods"] == 2 and row["flags"] & co.OVERSLEPT


# A later answer is kept as it would have been at the wake-up before it: a tick that is late, and
# what follows it, are no part of when a timer is due.
def test_answers(tmp_path: Path) -> None:
    start = 10**9
    first = Decided(seq=1, now=start, sleep=10**7, delta=10**6, residency=1_010_000, tick=1)
    # Woken by a tick that came on time: at 1 ms; asked again at 1.05 ms; the timer was moved.
    moved = Decided(
        seq=2, now=start + 1_050_000, sleep=7 * 10**6, delta=10**6, residency=60_000, poll=1,
        entered=0, left=0,
    )  # fmt: skip
    # The poll ended at 1.11 ms; no timer is left.
    none = Decided(seq=3, now=start + 1_115_000, sleep=TIME_MAX, residency=500, left=0)
    (row,) = rows_of(tmp_path, first, moved, none)
    assert (row["timer_ns"], row["answers"]) == (10**7, 2)
    assert row["answer_at_ns"] == [start + 10**6, start + 1_110_000]
    assert row["answer_timer_ns"] == [7 * 10**6 + 50_000, TIME_MAX]


# Answers that wait for the end of their interval belong to no other row.
def test_answers_are_not_those_of_power_cpu_idle(tmp_path: Path) -> None:
    trace = Trace()
    trace.add(0, 100, "cpu_idle", state=1, cpu_id=0)
    trace.add(0, 200, "cpu_idle", state=2**32 - 1, cpu_id=0)
    decided = [
        Decided(seq=s, now=10**9 + s * 100_000, delta=50_000, residency=50_000, tick=1, left=0)
        for s in range(1, 5)
    ]
    add(trace, 0, decided)
    # The kernel lost events here; no decision is missing.
    trace.add(0, decided[-1].now + 60_000, "tunable", lost=3, name="a", value="1")
    add(trace, 0, [replace(decided[-1], seq=5, now=decided[-1].now + 100_000)])
    (row,) = made(trace, tmp_path).table("interval").to_dicts()
    assert row["periods"] == 5
    assert len(row["answer_at_ns"]) == row["answers"] == 4


# A table has the worst case of an exit latency. A period that is no longer is halved, as the
# kernel's menu does, and marked.
@pytest.mark.parametrize(
    ("residency", "length", "uncertain"),
    [(2_001, 1, False), (2_000, 1_000, True), (1_300, 650, True), (0, 1, True)],
)
def test_short_of_the_exit_latency(
    tmp_path: Path, residency: int, length: int, uncertain: bool
) -> None:
    (row,) = rows_of(tmp_path, Decided(seq=1, now=10**9, residency=residency))
    assert row["length_ns"] == length
    assert bool(row["flags"] & co.UNCERTAIN) == uncertain
    index, lasted = np.array([1]), np.array([residency])
    found = judge(MACHINE, index, lasted)
    assert (found["length_ns"][0], found["short"][0]) == (length, uncertain)


def test_a_state_without_exit_latency_is_never_too_short(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, Decided(seq=1, now=10**9, index=0, entered=0, residency=0))
    assert not row["flags"] & co.UNCERTAIN
