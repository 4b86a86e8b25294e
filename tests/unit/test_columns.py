# SPDX-License-Identifier: GPL-2.0
"""From traces to columns: periods, exogenous intervals, and what is refused."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cpuidle_lab import cli, metrics
from cpuidle_lab import columns as co
from cpuidle_lab import trace as tr
from cpuidle_lab.errors import UserError
from tests.proofs.throughput import reader
from tests.unit import synthetic
from tests.unit.intervals_model import (
    CONFIG,
    EXIT,
    MACHINE,
    NEAR,
    PHASE,
    TICK,
    TIME_MAX,
    Decided,
    Story,
    add,
    plainly,
    streams,
)
from tests.unit.tracedat import Trace


def made(trace: Trace, folder: Path) -> co.Recording:
    """Write a trace, turn it into columns and open them."""
    co.write(trace.write(folder / "t.dat"), folder / "columns")
    return co.Recording(folder / "columns")


def names_in(folder: Path) -> list[str]:
    """Return what is in a directory."""
    return sorted(path.name for path in folder.iterdir())


# The reader's intervals are those of the definition, in every column.
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
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
        ({"residency": 250_000}, 1),
        ({"residency": 249_999}, 2),
        ({"residency": 250_000, "stop_tick": 1}, 2),
        ({"residency": 250_000, "flags": tr.TICK_STOPPED}, 2),
        ({"residency": 250_000, "tick": 0}, 2),
        ({"residency": 100, "tick": 1}, 1),
        ({"residency": 250_000, "sleep": 270_000}, 2),
    ],
)
def test_hidden_tick(tmp_path: Path, changes: dict[str, Any], intervals: int) -> None:
    first = replace(Decided(seq=1, now=10**9, delta=270_000, tick=2), **changes)
    trace = Trace()
    add(trace, 0, [first, Decided(seq=2, now=10**9 + 300_000, residency=500, left=0)])
    assert made(trace, tmp_path).rows("interval") == intervals


# A period is a decision with its outcome; nothing stands in for what is missing.
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
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
    groups = [g for g in metrics.analyse(tr.load(path)) if g.source == metrics.DECISIONS]
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
    assert [(row["periods"], row["length_ns"]) for row in stayed] == [(2, 1_050_000 + 500 - 2_000)]
    gone = rows_of(tmp_path, first, again)
    assert [(row["periods"], row["length_ns"]) for row in gone] == [(1, 998_000), (1, 1)]
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
        (NEAR, 0, True),
        (-NEAR, 0, True),
        (NEAR + 1, 0, False),
        (-NEAR - 1, 0, False),
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
    # Under a kernel governor that hides the tick it follows from the time.
    hidden = rows_of(tmp_path, first, replace(second, tick=2))[1]
    assert hidden["flags"] & co.TICKED == (co.TICKED if held else 0)
    # Woken long before, it is neither.
    third = replace(second, residency=due - 30_000, tick=0)
    assert not rows_of(tmp_path, first, third)[1]["flags"] & (co.TIMER | co.TICKED)


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
@pytest.mark.parametrize(("off", "ticks"), [(0, 1), (20_000, 1), (20_001, 0), (2_000_000, 0)])
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


# A CPU has one grid of ticks: it was there before the kernel told of it.
def test_the_grid_is_known_backwards(tmp_path: Path) -> None:
    with co.Writer(tmp_path / "c", META) as writer:
        writer.add("interval", interval_rows(4, tick_phase_ns=np.array([-1, -1, 7, 8])))
    (chunk,) = co.Recording(tmp_path / "c").intervals(0)
    assert chunk["tick_phase_ns"].tolist() == [7, 7, 7, 8]


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


# ---- power:cpu_idle alone. ----


def test_cpu_idle_only(tmp_path: Path) -> None:
    trace = Trace(2)
    for ts, state in [(100, -1), (200, 2), (500, -1), (900, 1), (950, -1), (1000, 0), (1100, 1),
                      (1400, -1), (1500, 1)]:  # fmt: skip
        trace.add(1, ts, "cpu_idle", state=state % 2**32, cpu_id=1)
    recording = made(trace, tmp_path)
    assert (recording.kind, recording.cpus, recording.machines) == (co.CPU_IDLE, [1], {})
    rows = recording.table("interval")
    unknown, gap = co.UNKNOWN, co.UNKNOWN | co.GAP
    names = ["start_ns", "length_ns", "busy_ns", "index", "flags"]
    assert rows.select(names).rows() == [
        (200, 300, 400, 2, gap),
        (900, 50, 50, 1, unknown),
        (1100, 300, 100, 1, gap),
    ]
    for name in ("timer_ns", "tick_phase_ns", "latency_req_ns", "hint_ns"):
        assert set(rows[name]) == {-1}
    assert recording.table("period").height == 0


# Lost events in the middle of an idle period leave nothing to be said of it.
def test_cpu_idle_lost(tmp_path: Path) -> None:
    trace = Trace()
    trace.add(0, 100, "cpu_idle", state=1, cpu_id=0)
    trace.add(0, 200, "cpu_idle", state=2**32 - 1, cpu_id=0, lost=4)
    trace.add(0, 300, "cpu_idle", state=1, cpu_id=0)
    trace.add(0, 350, "cpu_idle", state=2**32 - 1, cpu_id=0)
    recording = made(trace, tmp_path)
    assert recording.table("interval").select("start_ns", "length_ns", "flags").rows() == [
        (300, 50, co.UNKNOWN | co.GAP)
    ]
    assert recording.integrity.lost_known == 4


# Where decisions tell more, power:cpu_idle is not used, whichever CPU has them.
def test_decisions_come_first(tmp_path: Path) -> None:
    trace = Trace(2)
    trace.add(0, 100, "cpu_idle", state=1, cpu_id=0)
    trace.add(0, 200, "cpu_idle", state=2**32 - 1, cpu_id=0)
    add(trace, 1, [Decided(seq=1, now=10**9, residency=500)])
    recording = made(trace, tmp_path)
    assert (recording.kind, recording.cpus) == (co.TRACE, [1])
    assert recording.rows("interval") == 1
    assert not (recording.path / "idle").exists()


# ---- What a recording carries besides. ----


def test_everything_else_arrives(tmp_path: Path) -> None:
    trace = Trace(2)
    for cpu in (0, 1):
        add(trace, cpu, [Decided(seq=1, now=10**9, residency=500)])
    shadow = {"seq": 1, "generation": 4, "governor": 1, "flags": 4, "index": 2, "stop_tick": 1,
              "reason": 33, "row": 255}  # fmt: skip
    trace.put(1, 10**9 + 9, "shadow", shadow)
    trace.put(0, 10**9 + 1, "state", {"seq": 1, "total": 3, "governor": 2, "data": b"\0\1\2"})
    trace.put(0, 10**9 + 2, "tunable", {"generation": 4, "name": "a", "value": "1"})
    trace.put(0, 10**9 + 3, "hint", {"limit_ns": 5, "pid": 6, "cpu": -1, "what": 2, "comm": "x"})
    trace.mark(0, 10**9 + 4, "phase end")
    recording = made(trace, tmp_path)
    loaded = tr.load(tmp_path / "t.dat", with_state=True)
    assert recording.kernel == "6.12.0-test"
    assert recording.machines == loaded.machines == {0: MACHINE, 1: MACHINE}
    assert recording.name_of("decision", "reason", 33) == loaded.name_of("decision", "reason", 33)
    read_too = {*co.SMALL, "decision", "outcome"}
    assert recording.symbols == {k: v for k, v in loaded.symbols.items() if k[0] in read_too}
    for name in co.SMALL:
        ours, theirs = recording.table(name), loaded.tables[name]
        assert ours.height == theirs.height
        assert not ours.height or ours.select(theirs.columns).equals(theirs), name
    assert recording.table("shadow").row(0, named=True) == {"ts": 10**9 + 9, "cpu": 1, **shadow}


# A decision before the idle states are known is a period, in no interval, and counted.
def test_before_the_configuration(tmp_path: Path) -> None:
    trace = Trace()
    early = [Decided(seq=s, now=s * 10_000, residency=500) for s in (1, 2)]
    late = [Decided(seq=s, now=s * 10_000 + 10**9, residency=500) for s in (3, 4)]
    add(trace, 0, late)
    config = trace._records[0].pop(0)
    add(trace, 0, early)
    trace._records[0] = [item for item in trace._records[0] if item[0] != 1_000]
    trace._records[0].append((10**9, *config[1:]))
    recording = made(trace, tmp_path)
    assert recording.unplaced == 2
    assert recording.rows("period") == 4
    rows = recording.table("interval")
    assert rows["first_seq"].to_list() == [3, 4]
    assert [flags & co.GAP for flags in rows["flags"]] == [co.GAP, 0]


# ---- Writer and Recording. ----


def interval_rows(count: int, cpu: int = 0, **changes: Any) -> pl.DataFrame:
    """Return intervals that can be."""
    columns: dict[str, Any] = {name: np.zeros(count, np.int64) for name in synthetic.PLAIN}
    columns |= {
        "answers": 0,
        **{name: [[]] * count for name in co.ANSWERS},
        "cpu": np.full(count, cpu),
        "start_ns": np.arange(count) * 1000,
        "length_ns": np.full(count, 500),
        **changes,
    }
    return pl.DataFrame(columns).cast(co.INTERVAL)  # type: ignore[arg-type]


META = {"kind": co.SYNTH, "source": "test", "machines": {0: co.describe(MACHINE)}, "law": {"a": 1}}


def test_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(co, "PART_ROWS", 1000)
    with co.Writer(tmp_path / "c", META) as writer:
        for cpu, count in ((0, 700), (0, 700), (3, 10), (3, 2990)):
            start = np.arange(count) * 1000 + int(str(writer.meta.get(f"end {cpu}", 0)))
            writer.meta[f"end {cpu}"] = int(start[-1])
            writer.add("interval", interval_rows(count, cpu, start_ns=start))
    recording = co.Recording(tmp_path / "c")
    assert recording.cpus == [0, 3]
    assert [(part.cpu, part.rows) for part in recording.parts["interval"]] == [
        (0, 1000), (0, 400), (3, 1000), (3, 1000), (3, 1000),
    ]  # fmt: skip
    assert recording.law == {"a": 1}
    assert (recording.rows("interval"), recording.rows("interval", 3)) == (4400, 3000)
    chunks = list(recording.intervals(3))
    assert [len(chunk["cpu"]) for chunk in chunks] == [1000, 1000, 1000]
    assert chunks[0]["start_ns"].dtype == np.uint64 and chunks[0]["length_ns"].dtype == np.int64
    assert list(next(recording.intervals(3, ["flags"]))) == ["flags"]
    assert recording.table("config").schema == pl.Schema(co.SMALL["config"])
    assert names_in(tmp_path) == ["c"]


# Whatever stops a writer, nothing of it stays, and what was there before does.
def test_writer_is_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "c"
    with pytest.raises(KeyboardInterrupt), co.Writer(target, META) as writer:
        writer.add("interval", interval_rows(10))
        raise KeyboardInterrupt
    assert not names_in(tmp_path)
    with co.Writer(target, META) as writer:
        writer.add("interval", interval_rows(10))
    with pytest.raises(ZeroDivisionError), co.Writer(target, META) as writer:
        writer.add("interval", interval_rows(20))
        raise ZeroDivisionError
    assert co.Recording(target).rows("interval") == 10
    with co.Writer(target, META) as writer:
        writer.add("interval", interval_rows(30))
    assert co.Recording(target).rows("interval") == 30
    assert names_in(tmp_path) == ["c"]


def test_a_full_disk_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = "parquet: underlying IO error: No space left on device (os error 28)"

    def write(*_: object, **__: object) -> None:
        raise pl.exceptions.ComputeError(full)

    monkeypatch.setattr(pl.DataFrame, "write_parquet", write)
    with pytest.raises(OSError) as caught, co.Writer(tmp_path / "c", {}) as writer:
        writer.add("interval", interval_rows(3))
    assert (caught.value.errno, caught.value.filename) == (28, str(tmp_path / "c"))
    assert names_in(tmp_path) == []


def refused(action: Callable[[], object], *words: str) -> None:
    """Demand a refusal in one sentence that holds the words."""
    with pytest.raises(UserError) as caught:
        action()
    assert caught.value.exit_code == 1
    assert "\n" not in caught.value.message
    for word in words:
        assert word in caught.value.message


def test_foreign_target(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("dear")
    (tmp_path / "file").write_text("dear")
    (tmp_path / "link").symlink_to(tmp_path / "full")
    for name in ("full", "file", "link"):
        refused(lambda: co.Writer(tmp_path / name, META), "exists and is not")  # noqa: B023
    refused(lambda: co.Writer(tmp_path / "no" / "c", META), "no such directory")
    assert names_in(tmp_path) == ["file", "full", "link"]
    assert (tmp_path / "full" / "thesis.tex").read_text() == "dear"


# ---- Bad traces. ----


def lie(folder: Path, *words: str, **changes: object) -> None:
    """Demand that a trace with a false config event is refused, and leaves nothing."""
    trace = Trace()
    add(trace, 0, [Decided(seq=1, now=10**9, residency=500)])
    trace._records[0].pop(0)
    trace.put(0, 1_000, "config", {**CONFIG, "cpu": 0, **changes})
    refuse_trace(trace.write(folder / "lie.dat"), *words)


def refuse_trace(path: Path, *words: str) -> None:
    """Demand that a trace is refused, and leaves nothing."""
    before = names_in(path.parent)
    refused(lambda: co.write(path, path.parent / "made"), str(path), *words)
    assert names_in(path.parent) == before


def test_lying_machines(tmp_path: Path) -> None:
    lie(tmp_path, "11 idle states", states=11)
    lie(tmp_path, "0 idle states", states=0)
    lie(tmp_path, "idle state 1", "does not have", states=1)
    lie(tmp_path, "impossible times", exit_latency_ns=[0, -2, 3])
    lie(tmp_path, "impossible times", target_residency_ns=[0, 3, 2**60])
    lie(tmp_path, "not sorted", target_residency_ns=[0, 5_000, 2_000])
    lie(tmp_path, "tick of 0 ns", tick_ns=0)
    lie(tmp_path, "one CPU that tells of another", cpu=5)
    trace = Trace()
    add(trace, 0, [Decided(seq=1, now=10**9, residency=500)])
    trace.put(0, 2_000, "config", {**CONFIG, "cpu": 0, "power_mw": [5, 5, 5]})
    refuse_trace(trace.write(tmp_path / "lie.dat"), "changed while it was recorded")


# Equal residencies, one state and ten are no lies.
@pytest.mark.parametrize("count", [1, 10])
def test_machines_that_can_be(tmp_path: Path, count: int) -> None:
    trace = Trace()
    add(trace, 0, [Decided(seq=1, now=10**9, residency=500, index=0, entered=0)])
    trace._records[0].pop(0)
    values = [7] * count
    trace.put(0, 1_000, "config", {**CONFIG, "cpu": 0, "states": count, "power_mw": values,
              "exit_latency_ns": values, "target_residency_ns": values})  # fmt: skip
    assert made(trace, tmp_path).machines[0].count == count


def test_lying_events(tmp_path: Path) -> None:
    def events(*decided: Decided) -> Path:
        trace = Trace()
        add(trace, 0, list(decided))
        return trace.write(tmp_path / "lie.dat")

    one = Decided(seq=5, now=10**9, residency=500)
    two = replace(one, now=2 * 10**9)
    refuse_trace(events(one, two), "decision 5 of CPU 0 comes after 5")
    refuse_trace(events(one, replace(two, seq=4)), "decision 4 of CPU 0 comes after 5")
    refuse_trace(events(one, replace(two, seq=6, index=3)), "decision 6", "idle state 3")
    refuse_trace(events(one, replace(two, seq=6, entered=9)), "outcome 6", "idle state 9")
    refuse_trace(events(replace(one, kind=7)), "unknown kind 7")

    trace = Trace()
    add(trace, 0, [one])
    trace.add(0, 10**9 + 600, "outcome", seq=5, index=1)
    refuse_trace(trace.write(tmp_path / "lie.dat"), "outcome 5 of CPU 0 occurs twice")
    trace = Trace()
    add(trace, 0, [one])
    trace.add(0, 3 * 10**9, "decision", seq=6, now_ns=2**63, index=1)
    refuse_trace(trace.write(tmp_path / "lie.dat"), "impossible time")
    trace = Trace()
    trace.add(0, 100, "cpu_idle", state=4000, cpu_id=0)
    refuse_trace(trace.write(tmp_path / "lie.dat"), "impossible idle state 4000")


# A residency that cannot have been stays in its period and is in no interval.
def test_implausible_residency(tmp_path: Path) -> None:
    trace = Trace()
    rows = [Decided(seq=s, now=s * 10**7, residency=500) for s in (1, 2, 3)]
    add(trace, 0, rows)
    ts, record, lost = trace._records[0][-3]
    at = trace.events["outcome"].fields[2].offset
    assert record[at : at + 8] == (500).to_bytes(8, "little")
    record = record[:at] + (2**63).to_bytes(8, "little") + record[at + 8 :]
    trace._records[0][-3] = ts, record, lost
    recording = made(trace, tmp_path)
    assert recording.integrity == tr.load(tmp_path / "t.dat").integrity
    assert recording.integrity.implausible == 1
    assert recording.table("period")["residency_ns"].to_list() == [500, 2**63, 500]
    rows_made = recording.table("interval")
    assert rows_made["first_seq"].to_list() == [1, 3]
    assert rows_made["flags"][1] & co.GAP and rows_made["busy_ns"][0] == 0


# The clock of the decisions jumps: what lies between is not counted as busy.
@pytest.mark.parametrize("jump", [-(10**8), 2**51])
def test_jumping_clock(tmp_path: Path, jump: int) -> None:
    trace = Trace()
    add(trace, 0, [Decided(seq=1, now=10**9, residency=500)])
    trace.add(0, 2 * 10**9, "decision", seq=2, now_ns=10**9 + jump, index=1, governor=2)
    trace.add(0, 2 * 10**9 + 900, "outcome", seq=2, residency_ns=800, index=1, governor=2)
    rows = made(trace, tmp_path).table("interval").sort("first_seq")
    assert rows["busy_ns"].to_list() == [0, 0]
    assert rows["flags"][1] & co.GAP


def test_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "x"
    refuse_trace(path, "No such file")
    path.write_bytes(b"")
    refuse_trace(path, "is empty")
    path.write_bytes(b"#!/bin/sh\n" * 1000)
    refuse_trace(path, "is not a trace.dat")
    trace = Trace()
    trace.mark(0, 1_000, "hello")
    refuse_trace(trace.write(path), "no idle periods", "trace-cmd record")
    trace = Trace()
    add(trace, 0, [Decided(seq=1, now=10**9, residency=500)])
    trace._records[0].pop(0)
    refuse_trace(trace.write(path), "cpuidle_lab:config")
    trace = Trace()
    add(trace, 0, [Decided(seq=1, now=10**9, residency=500)])
    data = trace.write(path).read_bytes()
    for size in (20, 1000, len(data) - 4096, len(data) - 1):
        path.write_bytes(data[:size])
        refuse_trace(path)


# ---- Bad columns. ----


@pytest.fixture
def columns(tmp_path: Path) -> Path:
    with co.Writer(tmp_path / "c", META) as writer:
        writer.add("interval", interval_rows(10))
    return tmp_path / "c"


def read(path: Path) -> None:
    """Read all there is."""
    recording = co.Recording(path)
    for cpu in recording.cpus:
        for _ in (*recording.intervals(cpu), *recording.periods(cpu)):
            pass


def test_damaged_columns(columns: Path) -> None:
    read(columns)
    part = columns / "interval" / "00000.parquet"
    data = part.read_bytes()
    for broken in (b"", b"PAR1", data[: len(data) // 2], data[:-1], b"x" * 500):
        part.write_bytes(broken)
        refused(lambda: read(columns), str(part), "damaged")
    part.unlink()
    refused(lambda: read(columns), str(part), "missing")
    interval_rows(9).write_parquet(part)
    refused(lambda: read(columns), "9 rows")
    interval_rows(10).drop("flags").write_parquet(part)
    refused(lambda: read(columns), "flags")
    interval_rows(10).cast({"flags": pl.Int64}).write_parquet(part)
    refused(lambda: read(columns), "flags")
    nothing = pl.Series("flags", [None] * 10, dtype=pl.UInt8)
    interval_rows(10).with_columns(nothing).write_parquet(part)
    refused(lambda: read(columns), "flags")


# Replay relies on these.
@pytest.mark.parametrize(
    ("name", "values", "word"),
    [
        ("length_ns", [-1] * 10, "impossible length_ns: -1"),
        ("length_ns", [2**52] * 10, "impossible length_ns"),
        ("start_ns", [*range(9), 2**62], "impossible start_ns"),
        ("start_ns", [*range(9), 0], "runs backwards in start_ns"),
        ("busy_ns", [-1] * 10, "impossible busy_ns: -1"),
        ("timer_ns", [-3 - 2**40] * 10, f"impossible timer_ns: {-3 - 2**40}"),
        ("index", [3] * 10, "idle state 3"),
        ("last_index", [0] * 9 + [255], "idle state 255"),
    ],
)
def test_lying_columns(columns: Path, name: str, values: list[int], word: str) -> None:
    rows = interval_rows(10, 0, **{name: np.array(values)})
    rows.write_parquet(columns / "interval" / "00000.parquet")
    refused(lambda: read(columns), str(columns), word)


def answered(counts: list[int], first: int = 0) -> dict[str, Any]:
    """Return answers, so many for each interval, all of them different."""
    numbers = iter(range(first, first + sum(counts)))
    lists = [[next(numbers) for _ in range(count)] for count in counts]
    return {
        "answers": counts,
        "answer_at_ns": lists,
        **{
            name: [[number - (name == "answer_timer_ns") * 2 for number in some] for some in lists]
            for name in co.ANSWERS
            if name != "answer_at_ns"
        },
    }


# What is played counts the answers of each interval: one too many would be another memory's.
@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"answers": [2, 0, 0]}, "number of answer_at_ns"),
        ({"answers": [0, 0, 0]}, "number of answer_at_ns"),
        ({"answer_timer_ns": [[], [], []]}, "number of answer_timer_ns"),
        ({"answer_timer_ns": [[1], [], [2]]}, "number of answer_timer_ns"),
        ({"answer_at_ns": [[None], [], []]}, "number of answer_at_ns"),
        ({"answer_at_ns": [None, [], []]}, "answer_at_ns"),
        ({"answer_at_ns": [[2**62], [], []]}, f"impossible answer_at_ns: {2**62}"),
        ({"answer_timer_ns": [[-3 - 2**40], [], []]}, "impossible answer_timer_ns"),
    ],
)
def test_lying_answers(tmp_path: Path, changes: dict[str, Any], word: str) -> None:
    with co.Writer(tmp_path / "c", META) as writer:
        writer.add("interval", interval_rows(3, **answered([1, 0, 0])))
    read(tmp_path / "c")
    rows = interval_rows(3, **{**answered([1, 0, 0]), **changes})
    rows.write_parquet(tmp_path / "c" / "interval" / "00000.parquet")
    refused(lambda: read(tmp_path / "c"), str(tmp_path / "c"), word)


# In memory the answers of all rows follow each other; parts of it are cut and joined with them.
@given(counts=st.lists(st.integers(0, 3), min_size=1, max_size=12), data=st.data())
def test_answers_in_memory(counts: list[int], data: st.DataObject) -> None:
    frame = interval_rows(len(counts), **answered(counts))
    whole = co.in_memory(frame)
    assert whole["answers"].tolist() == counts
    assert whole["answer_at_ns"].tolist() == list(range(sum(counts)))
    assert [whole[name].dtype for name in co.ANSWERS] == [np.uint64] + [np.int64] * 4
    first = data.draw(st.integers(0, len(counts)))
    end = data.draw(st.integers(first, len(counts)))
    part, same = co.sliced(whole, first, end), co.in_memory(frame[first:end])
    assert part.keys() == same.keys()
    assert all(np.array_equal(part[name], same[name]) for name in same)
    pieces = [co.sliced(whole, 0, first), part, co.sliced(whole, end, len(counts))]
    again = co.joined(pieces)
    assert all(np.array_equal(again[name], whole[name]) for name in whole)


# The reader packs them into bytes; a table without them has none.
@given(counts=st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_packed_answers(counts: list[int]) -> None:
    given = answered(counts)
    packed = [
        b"".join(
            number.to_bytes(8, "little", signed=True)
            for one in zip(*some, strict=True)
            for number in one
        )
        for some in zip(*(given[name] for name in co.ANSWERS), strict=True)
    ]
    plain = interval_rows(len(counts)).drop("answers", *co.ANSWERS)
    found = co.with_answers(plain.with_columns(answers=pl.Series(packed, dtype=pl.Binary)))
    for name, values in given.items():
        assert found[name].to_list() == values, name
    assert co.with_answers(plain)["answers"].to_list() == [0] * len(counts)
    assert co.with_answers(plain)["answer_at_ns"].to_list() == [[] for _ in counts]


# Parts are cut between rows, wherever their answers are.
def test_answers_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(co, "PART_ROWS", 4)
    counts = [0, 2, 1, 0, 3, 0, 0, 1, 5, 0]
    with co.Writer(tmp_path / "c", META) as writer:
        writer.add("interval", interval_rows(10, **answered(counts)))
    chunks = list(co.Recording(tmp_path / "c").intervals(0))
    assert [chunk["answers"].tolist() for chunk in chunks] == [counts[:4], counts[4:8], counts[8:]]
    assert [chunk["answer_at_ns"].tolist() for chunk in chunks] == [
        [0, 1, 2], [3, 4, 5, 6], [7, 8, 9, 10, 11],
    ]  # fmt: skip


def test_time_runs_backwards_between_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(co, "PART_ROWS", 10)
    with co.Writer(tmp_path / "c", META) as writer:
        writer.add("interval", interval_rows(10))
        writer.add("interval", interval_rows(10))
    refused(lambda: read(tmp_path / "c"), "runs backwards")


def test_bad_meta(columns: Path) -> None:
    meta = columns / "meta.json"
    text = meta.read_text()
    for broken in ("", "[]", "{", "{}", text[: len(text) // 2]):
        meta.write_text(broken)
        refused(lambda: co.Recording(columns), str(columns))
    good = json.loads(text)

    def lying(*words: str, **changes: object) -> None:
        meta.write_text(json.dumps({**good, **changes}))
        refused(lambda: co.Recording(columns), str(columns), *words)

    lying("format 99", format=99)
    lying("format 2", "reads 3", "make it again from the trace", format=2)
    lying("damaged", parts=None)
    lying("damaged", parts={"interval": [[0]]})
    lying("damaged", cpus="x")
    lying("damaged", integrity={"gaps": "many"})
    lying("machine", machines={"0": {"names": ["a"]}})
    lying("11 idle states", machines={"0": asdict(replace(MACHINE, names=("x",) * 11))})
    lying("0 idle states", machines={"0": {name: [] for name in asdict(MACHINE)} | {"tick_ns": 1}})
    lying("not sorted", machines={"0": {**asdict(MACHINE), "target_residency_ns": [0, 9, 3]}})
    meta.unlink()
    refused(lambda: co.Recording(columns), "no directory of columns")
    refused(lambda: co.Recording(columns / "absent"), "no directory of columns")


# A directory and a trace open alike; nothing of the second one's columns stays.
def test_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    trace = Trace()
    add(trace, 0, [Decided(seq=1, now=10**9, residency=500)])
    recording = made(trace, tmp_path)
    expected = recording.table("interval")
    for path in (tmp_path / "t.dat", tmp_path / "columns"):
        with co.opened(path) as found:
            assert found.table("interval").equals(expected)
    assert not names_in(tmp_path / "tmp")
    with pytest.raises(UserError), co.opened(tmp_path / "nothing"):
        pass
    assert not names_in(tmp_path / "tmp")


# ---- The command, memory, speed. ----


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = Trace()
    add(trace, 0, [Decided(seq=s, now=s * 10**6, residency=500) for s in (1, 2, 4)])
    path, out = trace.write(tmp_path / "t.dat"), tmp_path / "c"
    assert cli.main(["columns", str(path), "-o", str(out)]) == 0
    text = capsys.readouterr().out
    assert "1 decisions in 1 gaps" in text and "period" in text and str(out) in text
    assert cli.main(["columns", str(path), "-o", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"]["period"] == 3 and found["integrity"]["gaps"] == 1
    assert found["integrity"]["events"] == 7
    assert cli.main(["columns", str(path), "-o", str(tmp_path)]) == 1
    assert "exists and is not" in capsys.readouterr().err
    assert cli.main(["columns", str(tmp_path / "no"), "-o", str(tmp_path / "d")]) == 1
    assert not (tmp_path / "d").exists()


# Ten times as many events take no more memory.
@pytest.mark.full
def test_memory_is_bounded(tmp_path: Path) -> None:
    session = synthetic.Session(cpus=1)
    session.phase("menu_ng", "hackbench", 100_000_000)
    peaks = []
    for events in (300_000, 3_000_000):
        path = tmp_path / f"{events}.dat"
        written = session.trace.write_large(path, events)
        assert reader.events_of(path) == written >= events
        peaks.append(max(reader.measured(path)[3] for _ in range(3)))
        code = (
            "import resource, sys; from pathlib import Path; from cpuidle_lab import columns;"
            "columns.write(Path(sys.argv[1]), Path(sys.argv[2]));"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(path), str(tmp_path / "c")],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(Path(co.__file__).parents[1])},
        )
        peaks.append(int(done.stdout))
    reader_small, writer_small, reader_large, writer_large = peaks
    assert reader_large < reader_small + 4_000
    # A part, and what polars needs to write it.
    assert writer_large < writer_small + 150_000
    recording = co.Recording(tmp_path / "c")
    assert recording.integrity.events == written and recording.integrity.complete
    assert recording.rows("period") > 500_000
