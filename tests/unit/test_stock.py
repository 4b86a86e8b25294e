# SPDX-License-Identifier: GPL-2.0
"""Recordings without the module: decisions out of other events, machines, formats, probes."""

import gzip
import json
import os
import random
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from cpuidle_lab import by_hand as by_hand_script
from cpuidle_lab import columns, idle_tables, kernel_tables, machines
from cpuidle_lab import trace as tr
from cpuidle_lab.blind import Blind, facts, judge
from cpuidle_lab.cli import main
from cpuidle_lab.commands import doctor
from cpuidle_lab.errors import UserError
from cpuidle_lab.formats import as_trace, is_foreign, perfetto, text
from cpuidle_lab.formats.writer import EVENTS, Event, Writer
from cpuidle_lab.host import TRACEFS
from cpuidle_lab.host import Machine as Host
from cpuidle_lab.lab.session import emulated
from cpuidle_lab.probes import KPROBE_EVENTS, Probes, best_way
from cpuidle_lab.stock import told_of
from cpuidle_lab.sysfs import Tree
from tests.unit import recorded

MACHINE = "stock machine cpus=0-1 tick_ns=4000000 states=POLL:0:0:4000,C1:2:2:1500,C6:133:600:100"
KERNEL = "stock kernel=6.12.9 governor=menu way=probes"
EXIT = 0xFFFFFFFF
MS = 1_000_000


class Kernel:
    """Makes the events of idle periods, as an unmodified kernel with probes would."""

    def __init__(self, lines: tuple[str, ...] = (MACHINE, KERNEL)) -> None:
        self.events = [Event(0, 1000 + n, "print", text=line) for n, line in enumerate(lines)]
        self.now = 5 * MS

    def add(self, after: int, name: str, text: str = "", **values: int) -> None:
        """Add an event so many ns after the last."""
        self.now += after
        self.events.append(Event(0, self.now, name, values, text))

    def idle(
        self, state: int, stay: int, *, sleep: int | None = None, delta: int = 0, stop: bool = True,
        tick: bool = False, expiry: bool = False, left: bool = True,
    ) -> None:  # fmt: skip
        """Add one idle period; `sleep` is None where the governor did not ask."""
        if sleep is not None:
            self.add(100, "cil_sleep_length", ret=sleep, dn=delta)
        self.add(100, "cil_stop_tick" if stop else "cil_retain_tick")
        self.add(100, "cpu_idle", state=state, cpu_id=0)
        self.add(stay, "cpu_idle", state=EXIT, cpu_id=0)
        if tick or expiry:
            self.add(50, "hrtimer_expire_entry", "tick_nohz_handler" if tick else "hrtimer_wakeup")
        if left:
            self.add(100, "cil_idle_exit")
            self.add(100, "sched_switch", prev_pid=0, next_pid=5)
            self.add(3000, "sched_switch", prev_pid=5, next_pid=0)

    def write(self, path: Path) -> Path:
        """Write the trace."""
        with Writer(path) as writer:
            for event in self.events:
                writer.add(event)
        return path


def periods(path: Path) -> pl.DataFrame:
    """Return the idle periods that the reader makes."""
    with columns.opened(path) as recording:
        return recording.table("period")


# ---- Decisions out of events ----


def test_an_answer_a_fate_and_an_idle_period_make_a_decision(tmp_path: Path) -> None:
    kernel = Kernel()
    kernel.idle(2, 900_000, sleep=770_000, delta=400_000, expiry=True)
    kernel.idle(1, 50_000, sleep=9 * MS, delta=2 * MS, stop=False)
    kernel.idle(1, 60_000, sleep=8 * MS, delta=MS, stop=False)
    rows = periods(kernel.write(tmp_path / "a.dat")).to_dicts()
    assert [row["sleep_length_ns"] for row in rows] == [770_000, 9 * MS, 8 * MS]
    assert [row["delta_tick_ns"] for row in rows] == [400_000, 2 * MS, MS]
    assert [row["index"] for row in rows] == [2, 1, 1]
    assert [row["stop_tick"] for row in rows] == [1, 0, 0]
    # The kernel begins to measure after the event was recorded, which takes 100 ns here.
    assert [row["residency_ns"] for row in rows] == [899_900, 49_900, 59_900]
    assert [row["left"] for row in rows] == [1, 1, 1]
    assert all(row["flags"] & 4 for row in rows)


def test_a_tick_that_wakes_the_cpu_continues_the_interval(tmp_path: Path) -> None:
    kernel = Kernel()
    kernel.idle(1, 3 * MS, sleep=20 * MS, delta=3 * MS, stop=False, tick=True, left=False)
    kernel.idle(2, MS, sleep=17 * MS, delta=4 * MS)
    kernel.idle(2, MS, sleep=17 * MS, delta=4 * MS)
    with columns.opened(kernel.write(tmp_path / "a.dat")) as recording:
        intervals = recording.table("interval")
        assert recording.table("period")["by_tick"].to_list() == [1, 0, 0]
    assert intervals["periods"].to_list()[0] == 2
    assert intervals["length_ns"][0] > 3.8 * MS


def test_a_poll_that_ends_without_work_reached_its_limit(tmp_path: Path) -> None:
    kernel = Kernel()
    kernel.idle(0, 20_000, sleep=MS, delta=MS, stop=False, left=False)
    kernel.idle(0, 5_000, sleep=MS, delta=MS, stop=False, left=True)
    kernel.idle(1, 5_000, sleep=MS, delta=MS, stop=False)
    found = periods(kernel.write(tmp_path / "a.dat"))["poll_time_limit"].to_list()
    assert found == [1, 0, 0]


def test_a_selection_without_idle_period_was_aborted(tmp_path: Path) -> None:
    kernel = Kernel()
    kernel.add(100, "cil_sleep_length", ret=MS, dn=MS)
    kernel.add(100, "cil_retain_tick")
    kernel.add(100, "sched_switch", prev_pid=0, next_pid=5)
    kernel.idle(1, 5_000, sleep=MS, delta=MS)
    kernel.idle(1, 5_000, sleep=MS, delta=MS)
    assert periods(kernel.write(tmp_path / "a.dat"))["out_kind"].to_list() == [1, 0, 0]


def test_a_timer_not_asked_for_is_inferred_and_marked(tmp_path: Path) -> None:
    kernel = Kernel()
    kernel.idle(1, 20_000, sleep=5 * MS, delta=MS, stop=False)
    first = kernel.now
    kernel.idle(1, 20_000, stop=False)  # the timer that was told before still holds
    kernel.idle(1, 30_000, stop=False, expiry=True)  # a timer ended this one
    kernel.idle(1, 20_000, sleep=3 * MS, delta=MS, stop=False)
    path = kernel.write(tmp_path / "a.dat")
    rows = periods(path).to_dicts()
    assert [row["flags"] & 0x34 for row in rows] == [4, 0x10, 0x10, 4]
    due = rows[0]["ts"] + 5 * MS
    assert rows[1]["ts"] + rows[1]["sleep_length_ns"] == due > first
    assert 28_000 <= rows[2]["sleep_length_ns"] <= 31_000
    with columns.opened(path) as recording:
        assert recording.stock is not None
        assert (recording.stock["asked"], recording.stock["inferred"]) == (2, 2)


# ---- Timers that are rebuilt ----

TICK, JIFFY = 0x10, 1000  # address of the tick's timer; the jiffy at time 0


class Timers(Kernel):
    """A kernel whose timers are recorded; its tick meets multiples of 4 ms."""

    def until(self, ts: int) -> int:
        """Return the time from now."""
        return ts - self.now

    def tick(self, *, rcu: bool = False, stopped: bool = False) -> None:
        """Let the next tick come, 1 us late, and arm the one after it."""
        due = (self.now // (4 * MS) + 1) * 4 * MS
        self.add(self.until(due + 1000), "hrtimer_expire_entry", "tick_nohz_handler", hrtimer=TICK)
        if rcu:
            self.add(100, "softirq_raise", vec=9)
        if not stopped:
            self.arm_tick(due + 4 * MS)

    def arm_tick(self, due: int) -> None:
        """Arm the tick's own timer."""
        self.add(100, "hrtimer_start", "tick_nohz_handler", hrtimer=TICK, expires=due)

    def wheel(self, timer: int, jiffies: int, **values: int) -> None:
        """Arm a timer of the wheel so many jiffies from now."""
        jiffy = JIFFY + self.now // (4 * MS)
        told = {"timer": timer, "now": jiffy, "expires": jiffy + jiffies, **values}
        self.add(100, "timer_start", "", **told)

    def begin(self) -> None:
        """Let a tick come, so that the grid is known, and arm a timer far away."""
        self.arm_tick(8 * MS)
        self.tick()
        self.wheel(1, 60, bucket_expiry=JIFFY + 1000)
        self.switch()

    def switch(self) -> None:
        """Let the idle task run."""
        self.add(100, "sched_switch", prev_pid=5, next_pid=0)

    def choose(self, state: int, stay: int) -> None:
        """Add one idle period of which nothing is told but its state, then work."""
        self.add(100, "cpu_idle", state=state, cpu_id=0)
        self.add(stay, "cpu_idle", state=EXIT, cpu_id=0)
        self.add(100, "sched_switch", prev_pid=0, next_pid=5)


def told(kernel: Kernel, path: Path) -> list[tuple[int, int]]:
    """Return when the next timer was due at each decision of CPU 0, without and with the tick."""
    with columns.opened(kernel.write(path)) as recording:
        rows = recording.table("period").filter(pl.col("cpu") == 0).to_dicts()
        assert recording.stock is not None and recording.stock["asked"] == 0
        # Of the last, no later tick tells whether RCU held the tick.
        assert all(row["flags"] & 0x10 for row in rows)
    return [(row["sleep_length_ns"], row["delta_tick_ns"]) for row in rows]


def test_the_first_of_the_armed_timers_is_told(tmp_path: Path) -> None:
    kernel = Timers()
    kernel.begin()
    kernel.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=77, expires=10 * MS)
    kernel.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=78, expires=9 * MS)
    kernel.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=79, expires=11 * MS)
    kernel.switch()
    first = kernel.now
    kernel.choose(1, 20_000)
    kernel.add(100, "hrtimer_cancel", hrtimer=78)
    kernel.switch()
    second = kernel.now
    kernel.choose(1, 20_000)
    kernel.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=80, expires=kernel.now - 5)
    kernel.add(100, "hrtimer_start_expired", hrtimer=80)
    kernel.switch()
    kernel.choose(1, 20_000)
    found = told(kernel, tmp_path / "a.dat")
    # The kernel reads the clock after the switch was recorded: 100 ns.
    assert found[0] == (9 * MS - first - 100, 9 * MS - first - 100)
    assert found[1] == (10 * MS - second - 100, 10 * MS - second - 100)
    assert 9.8 * MS < found[2][0] + second < 10 * MS


@pytest.mark.parametrize(
    ("jiffies", "values", "due"),
    [
        (5, {"bucket_expiry": JIFFY + 8}, 8),  # the bucket is later than the timer
        (5, {}, 8),  # 6.1 does not tell it: one jiffy later on the first level
        (100, {}, 104),  # and up to eight later on the second
        (1, {"bucket_expiry": JIFFY + 3}, 3),  # within a tick: the tick must go on
        (5, {"bucket_expiry": JIFFY + 8, "flags": 0x80000}, 1000),  # deferrable
    ],
)
def test_a_timer_of_the_wheel_is_due_with_its_bucket(
    tmp_path: Path, jiffies: int, values: dict[str, int], due: int
) -> None:
    kernel = Timers()
    kernel.begin()
    kernel.wheel(2, jiffies, **values)
    kernel.switch()
    at = kernel.now + 100
    kernel.choose(1, 20_000)
    kernel.tick()
    (sleep, delta), *_ = told(kernel, tmp_path / "a.dat")
    assert (sleep + at, delta + at) == (due * 4 * MS, 12 * MS)


@pytest.mark.parametrize("rcu", [False, True])
def test_rcus_work_at_the_next_tick_says_that_it_held_the_tick(tmp_path: Path, rcu: bool) -> None:
    kernel = Timers()
    kernel.begin()
    kernel.choose(1, 20_000)
    kernel.switch()
    kernel.choose(1, 20_000)
    kernel.tick(rcu=rcu)
    kernel.switch()
    kernel.choose(1, 20_000)
    kernel.tick()
    found = told(kernel, tmp_path / "a.dat")
    held = [sleep == delta for sleep, delta in found]
    assert held == [rcu, rcu, False]


@pytest.mark.parametrize(
    ("other", "flags", "due"),
    [
        ("busy", 0, 4000),  # the busy CPU serves it
        ("busy", 0x100000, 32),  # pinned
        ("idle", 0, 32),
        ("idle with a timer", 0, 24),  # the last CPU whose tick runs serves all
    ],
)
def test_a_timer_that_is_not_pinned_is_served_by_a_busy_cpu(
    tmp_path: Path, other: str, flags: int, due: int
) -> None:
    kernel = Timers()
    kernel.begin()
    kernel.wheel(1, 60, bucket_expiry=JIFFY + 1000, flags=0x100000)
    kernel.wheel(2, 5, bucket_expiry=JIFFY + 8, flags=flags)
    if other == "idle with a timer":
        kernel.wheel(3, 5, bucket_expiry=JIFFY + 6, flags=1)
    switch = Event(1, kernel.now + 10, "sched_switch", {"prev_pid": 0, "next_pid": 7})
    kernel.events.append(switch)
    if other != "busy":
        kernel.events.append(Event(1, kernel.now + 50, "tick_stop", {"success": 1}))
    kernel.switch()
    at = kernel.now + 100
    kernel.choose(1, 20_000)
    kernel.tick()
    (sleep, delta), *_ = told(kernel, tmp_path / "a.dat")
    assert (sleep + at, delta + at) == (due * MS, 12 * MS)


@pytest.mark.parametrize("cpus", [1, 2])
def test_rcu_may_wait_for_other_cpus_over_some_ticks(tmp_path: Path, cpus: int) -> None:
    kernel = Timers()
    kernel.begin()
    if cpus == 2:
        kernel.events.append(Event(1, kernel.now, "tick_stop", {"success": 1}))
    for rcu in (False, True):
        kernel.add(100, "cpu_idle", state=1, cpu_id=0)
        kernel.add(20_000, "cpu_idle", state=EXIT, cpu_id=0)
        kernel.tick(rcu=rcu)
    kernel.switch()
    kernel.choose(1, 20_000)
    kernel.tick()
    held = [sleep == delta for sleep, delta in told(kernel, tmp_path / "a.dat")]
    assert held == [cpus == 2, True, False]


def test_a_stopped_tick_tells_the_next_timer_of_the_wheel(tmp_path: Path) -> None:
    kernel = Timers()
    kernel.begin()
    kernel.switch()
    at = kernel.now + 100
    kernel.add(900, "tick_stop", success=1)
    kernel.arm_tick(40 * MS)
    kernel.choose(2, 2 * MS)
    found = told(kernel, tmp_path / "a.dat")
    assert found == [(40 * MS - at, 12 * MS - at)]
    rows = periods(tmp_path / "a.dat")
    assert rows["stop_tick"].to_list() == [1]


def test_a_device_that_was_left_programmed_is_told(tmp_path: Path) -> None:
    kernel = Timers()
    kernel.begin()
    kernel.add(100, "hrtimer_rearm", next_event=9 * MS)
    kernel.switch()
    at = kernel.now + 100
    kernel.choose(1, 20_000)
    kernel.tick()
    assert told(kernel, tmp_path / "a.dat")[0] == (4000 * MS - at, 9 * MS - at)


def test_an_answer_tells_when_the_kernel_reads_the_clock(tmp_path: Path) -> None:
    kernel = Timers()
    kernel.begin()
    kernel.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=77, expires=9 * MS)
    kernel.switch()
    # The kernel reads the clock 450 ns after the switch, which costs an event 100 ns.
    kernel.add(700, "cil_sleep_length", ret=9 * MS - kernel.now - 450, dn=9 * MS - kernel.now - 450)
    kernel.add(100, "cil_retain_tick")
    kernel.choose(1, 20_000)
    kernel.switch()
    second = kernel.now
    kernel.add(700, "cil_retain_tick")
    kernel.choose(1, 20_000)
    row = periods(kernel.write(tmp_path / "a.dat")).to_dicts()[1]
    assert row["flags"] & 0x14 == 0x10
    assert row["sleep_length_ns"] == row["delta_tick_ns"] == 9 * MS - second - 450


def test_an_old_kernels_time_to_the_tick_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, number, fields = EVENTS["cil_sleep_length"]
    monkeypatch.setitem(EVENTS, "cil_sleep_length", (system, number, {"ret": fields["ret"]}))
    kernel = Timers()
    kernel.begin()
    # 1.5 us after the tick; the kernel means the tick, as RCU holds it.
    kernel.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=77, expires=12 * MS + 1500)
    kernel.switch()
    at = kernel.now + 120
    for sleep in (12 * MS - at, 4000 * MS):
        kernel.add(2000, "cil_sleep_length", ret=sleep)
        kernel.add(100, "cil_retain_tick")
        kernel.choose(1, 20_000)
        kernel.switch()
    rows = periods(kernel.write(tmp_path / "a.dat")).to_dicts()
    assert rows[0]["sleep_length_ns"] == rows[0]["delta_tick_ns"] == 12 * MS - at
    second = rows[1]["ts"] - 2000
    assert (rows[1]["sleep_length_ns"], rows[1]["delta_tick_ns"]) == (
        4000 * MS,
        12 * MS - second - 120,
    )


def test_the_last_event_before_the_decision_is_the_present(tmp_path: Path) -> None:
    kernel = Timers()
    kernel.begin()
    kernel.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=77, expires=9 * MS)
    kernel.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=78, expires=10 * MS)
    kernel.switch()
    kernel.add(900, "hrtimer_cancel", hrtimer=78)
    at = kernel.now + 100
    kernel.choose(1, 20_000)
    assert told(kernel, tmp_path / "a.dat") == [(9 * MS - at, 9 * MS - at)]


def test_a_timer_that_was_armed_before_the_recording_is_known(tmp_path: Path) -> None:
    kernel = Timers()
    kernel.begin()
    at = kernel.now + 100
    kernel.choose(1, 20_000)
    kernel.add(kernel.until(9 * MS), "hrtimer_expire_entry", "hrtimer_wakeup", hrtimer=99)
    kernel.tick()
    assert told(kernel, tmp_path / "a.dat")[0] == (9 * MS - at, 9 * MS - at)


def test_timers_of_another_clock_are_not_believed(tmp_path: Path) -> None:
    kernel = Timers()
    kernel.begin()
    kernel.choose(1, 20_000)
    kernel.tick()
    for event in kernel.events:
        if event.name == "hrtimer_start":
            event.values["expires"] += 10**12
    with columns.opened(kernel.write(tmp_path / "a.dat")) as recording:
        assert recording.stock is not None and recording.stock["untold"] == 1
        assert recording.kind == columns.CPU_IDLE


@pytest.mark.parametrize(("said", "kept"), [(49_321, 49_321), (9 * MS, 49_900)])
def test_the_kernels_own_measurement_counts_where_it_can_be(
    tmp_path: Path, said: int, kept: int
) -> None:
    kernel = Kernel()
    kernel.idle(1, 50_000, sleep=MS, delta=MS, left=False)
    kernel.add(100, "cil_reflect", res=said, bits=3)
    kernel.idle(1, 50_000, sleep=MS, delta=MS)
    assert periods(kernel.write(tmp_path / "a.dat"))["residency_ns"].to_list() == [kept, 49_900]


def test_the_kernels_word_on_the_limit_of_a_poll_counts(tmp_path: Path) -> None:
    kernel = Kernel()
    for bits in (3, 7):
        kernel.idle(0, 50_000, sleep=MS, delta=MS, left=False)
        kernel.add(100, "cil_reflect", res=49_900, bits=bits)
    kernel.idle(1, 50_000, sleep=MS, delta=MS)
    assert periods(kernel.write(tmp_path / "a.dat"))["poll_time_limit"].to_list() == [0, 1, 0]


# ---- What the kernel says, and what is missing ----


def test_the_kernels_word_on_the_tick_counts(tmp_path: Path) -> None:
    kernel = Kernel()
    kernel.idle(1, 20_000, sleep=MS, delta=MS, stop=False, left=False)
    kernel.add(50, "cil_got_tick", ret=0)
    kernel.add(50, "hrtimer_expire_entry", "tick_nohz_handler")
    kernel.idle(1, 20_000, sleep=MS, delta=MS, stop=False, left=False)
    kernel.add(50, "cil_got_tick", ret=1)
    kernel.idle(1, 20_000, sleep=MS, delta=MS, stop=False)
    assert periods(kernel.write(tmp_path / "a.dat"))["tick"].to_list() == [0, 1, 0]


def test_after_lost_events_no_interval_spans_the_loss(tmp_path: Path) -> None:
    kernel = Kernel()
    for _ in range(3):
        kernel.idle(1, 20_000, sleep=MS, delta=MS)
    kernel.events.append(
        Event(0, kernel.now + 10, "cil_retain_tick", lost=True),
    )
    kernel.now += 10
    for _ in range(3):
        kernel.idle(1, 20_000, sleep=MS, delta=MS)
    with columns.opened(kernel.write(tmp_path / "a.dat")) as recording:
        assert recording.integrity.lost_unknown == 1
        assert not recording.integrity.complete


def test_a_cpu_that_goes_and_comes_again_has_no_interval_across(tmp_path: Path) -> None:
    kernel = Kernel()
    for _ in range(3):
        kernel.idle(2, 900_000, sleep=770_000, delta=400_000, expiry=True)
    # It dies in the idle task: the last state that it entered has no end.
    kernel.add(100, "cil_sleep_length", ret=9 * MS, dn=MS)
    kernel.add(100, "cil_stop_tick")
    kernel.add(100, "cpu_idle", state=2, cpu_id=0)
    kernel.add(5000 * MS, "sched_switch", prev_pid=5, next_pid=0)
    for _ in range(3):
        kernel.idle(2, 900_000, sleep=770_000, delta=400_000, expiry=True)
    with columns.opened(kernel.write(tmp_path / "a.dat")) as recording:
        assert recording.integrity.without_outcome == 1
        lengths = recording.table("interval")["length_ns"]
        assert lengths.len() >= 4 and int(str(lengths.max())) < 2 * MS


@pytest.mark.parametrize(("event", "field"), [("cpu_idle", "state"), ("hrtimer_start", "expires")])
def test_a_kernel_whose_fields_have_other_names_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str, field: str
) -> None:
    system, number, fields = EVENTS[event]
    renamed = {("other" if name == field else name): kind for name, kind in fields.items()}
    monkeypatch.setitem(EVENTS, event, (system, number, renamed))
    kernel = Kernel()
    kernel.idle(1, 20_000, sleep=MS, delta=MS)
    if event == "hrtimer_start":
        kernel.add(100, event, hrtimer=7)
    else:
        kernel.events = [one for one in kernel.events if one.name != event]
        kernel.add(100, event, cpu_id=0)
    message = f"the event {system}:{event} has no field '{field}': another version of the kernel"
    with pytest.raises(UserError, match=message):
        periods(kernel.write(tmp_path / "a.dat"))


def test_a_state_that_the_machine_lacks_is_refused(tmp_path: Path) -> None:
    kernel = Kernel()
    kernel.idle(7, 20_000, sleep=MS, delta=MS)
    with pytest.raises(UserError, match="idle state that the machine does not have"):
        periods(kernel.write(tmp_path / "a.dat"))


@pytest.mark.parametrize(
    "line",
    [
        "stock machine cpus=0 tick_ns=4000000 states=POLL:0",
        "stock machine cpus=x tick_ns=4000000 states=POLL:0:0",
        "stock machine tick_ns=4000000 states=POLL:0:0",
        "stock machine cpus=0 tick_ns=0 states=POLL:0:0",
        "stock machine cpus=0 tick_ns=4000000 states=A:5:9,B:1:2",
    ],
)
def test_a_table_that_cannot_be_is_refused(line: str) -> None:
    with pytest.raises(UserError):
        told_of(Path("x"), [(1, line)])


def test_a_trace_without_our_lines_tells_nothing() -> None:
    assert told_of(Path("x"), [(1, "phase governor=menu workload=a"), (2, "hello")]) is None


def test_compare_replays_a_recording_without_the_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = Kernel()
    for _ in range(300):
        kernel.idle(1, 300_000, sleep=298_000, delta=298_000, expiry=True, stop=False)
    path = kernel.write(tmp_path / "a.dat")
    words = ["compare", str(path), "--governors", "wteo", "--no-mainline", "--no-instructions"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "recorded without the module, by probes" in json.dumps(found)


# ---- power:cpu_idle alone ----


def bare(tmp_path: Path, lines: tuple[str, ...] = (MACHINE, KERNEL)) -> Path:
    """Write a trace of power:cpu_idle alone: 1 ms in C6, then 10 us in C6."""
    kernel = Kernel(lines)
    for stay in (1_133_000, 143_000):
        kernel.add(100_000, "cpu_idle", state=2, cpu_id=0)
        kernel.add(stay, "cpu_idle", state=EXIT, cpu_id=0)
    kernel.add(1000, "cpu_idle", state=1, cpu_id=0)
    return kernel.write(tmp_path / "bare.dat")


def test_cpu_idle_alone_is_judged_against_the_best_possible(tmp_path: Path) -> None:
    with columns.opened(bare(tmp_path)) as recording:
        assert recording.kind == columns.CPU_IDLE
        blind = Blind(recording)
        assert "above 50.0 %, below 0.0 %" in facts(blind)
        (chunk,) = blind.intervals(0, ["length_ns", "timer_ns", "flags"])
        assert chunk["length_ns"].tolist() == [1_000_000, 10_000]
        assert (chunk["timer_ns"] == tr.TIME_MAX).all()


def test_the_ideal_state_is_the_deepest_that_pays() -> None:
    machine = machines.find("skx")
    found = judge(machine, [3, 1, 0], [599_999, 600_000, 1000])  # type: ignore[arg-type]
    assert found["ideal"].tolist() == [2, 3, 0]
    assert found["above"].tolist() == [True, False, False]
    assert found["below"].tolist() == [False, True, False]
    assert (found["cost_pj"] >= found["oracle_pj"] - 1e-6).all()


def test_a_foreign_trace_needs_a_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bare(tmp_path, ())
    words = ["compare", str(path), "--governors", "teo_ng", "--no-mainline", "--no-instructions",
             "--json"]  # fmt: skip
    assert main(words) == 1
    assert "give them with --machine" in capsys.readouterr().err
    assert main([*words, "--machine", "skx"]) == 0
    assert "without timers" in capsys.readouterr().out


# ---- Machines ----


def test_the_recorded_machines_can_all_be_replayed() -> None:
    found = list(machines.recorded())
    assert len(found) == 45
    for known in found:
        tr.check_machine(Path(known.name), known.machine)


def test_this_machine_is_read_from_sysfs(tmp_path: Path) -> None:
    root = recorded.unfold("debian13", tmp_path / "machine")
    folder = root / "sys/devices/system/cpu/cpu1/cpuidle/state0"
    folder.mkdir(parents=True)
    for name, value in (("name", "C6 x"), ("latency", "5"), ("residency", "7"), ("disable", "1")):
        (folder / name).write_text(f"{value}\n")
    (root / "dev").mkdir()
    (root / "dev/cpu_dma_latency").write_bytes(struct.pack("=i", 20))
    lines = idle_tables.lines(Host(Tree(root)))
    assert lines == [
        "stock machine cpus=0-0 tick_ns=4000000 latency_req_us=20 disabled=0x0 "
        "states=POLL:0:0:0,C1:2:2:0,C1E:10:20:0,C6:133:600:0",
        "stock machine cpus=1-1 tick_ns=4000000 latency_req_us=20 disabled=0x1 states=C6_x:5:7:0",
    ]


def test_a_machine_is_read_from_yaml(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "hz: 1000\nstates:\n- {name: WFI, exit_latency_us: 1, target_residency_us: 1}\n"
        "- {name: off, exit_latency_us: 147, target_residency_us: 2580, power_mw: 9}\n"
    )
    machine = machines.find(str(path))
    assert machine.tick_ns == MS and machine.polling == (False, False)
    assert machine.target_residency_ns == (1000, 2_580_000)


@pytest.mark.parametrize(
    "content",
    ["", "a: 1", "states: 5", "states:\n- {name: A}", "\0", "[[[",
     pytest.param("[" * 3000, id="nested")],
)  # fmt: skip
def test_a_file_that_is_no_machine_is_one_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    with pytest.raises(UserError, match="is no machine"):
        machines.find(str(path))


@pytest.mark.parametrize("power_mw", [-5, 2**32, 99_999_999_999_999])
def test_an_impossible_power_is_refused(tmp_path: Path, power_mw: int) -> None:
    path = tmp_path / "mine.yaml"
    state = "{{name: A, exit_latency_us: 1, target_residency_us: 1, power_mw: {}}}"
    path.write_text(f"states:\n- {state.format(power_mw)}\n")
    with pytest.raises(UserError, match="impossible powers"):
        machines.find(str(path))
    line = f"stock machine cpus=0-0 tick_ns=4000000 states=A:1:1:{power_mw}"
    with pytest.raises(UserError, match="impossible powers"):
        told_of(path, [(0, line)])
    path.write_text(f"states:\n- {state.format(2**32 - 1)}\n")
    assert machines.find(str(path)).power_mw == (2**32 - 1,)


def test_tables_of_the_kernels_driver_are_read() -> None:
    source = """
static struct cpuidle_state skx_cstates[] __initdata = {
	{
		.name = "C1",
		.flags = MWAIT2flg(0x00),
		.exit_latency = 2,
		.target_residency = 3,
		.enter = intel_idle, },
	{
		.name = "C6",
		.exit_latency = 133,
		.target_residency = 600, },
	{
		.enter = NULL }
};
"""
    found = kernel_tables.read_intel_idle(source)
    assert found == {"skx": (("POLL", 0, 0), ("C1", 2, 3), ("C6", 133, 600))}


def test_tables_of_device_trees_are_read() -> None:
    source = """
	cpus { /* two kinds */
		cpu@0 { cpu-idle-states = <&little &gone>; };
		cpu@1 { cpu-idle-states = <&little>; };
		cpu@2 { cpu-idle-states = <&big>; };
		idle-states {
			little: cpu-sleep { compatible = "arm,idle-state";
				entry-latency-us = <100>; exit-latency-us = <200>; min-residency-us = <0x10>; };
			big: big-sleep { compatible = "arm,idle-state"; idle-state-name = "deep";
				wakeup-latency-us = <40>; exit-latency-us = <7>; min-residency-us = <900>; };
		};
	};"""
    found = kernel_tables.read_dts(source, "soc")
    assert found == {
        "soc-1": (("WFI", 1, 1), ("cpu-sleep", 300, 16)),
        "soc-2": (("WFI", 1, 1), ("deep", 40, 900)),
    }


def test_machines_lists_shows_and_compares(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines"]) == 0
    assert "pepc:genoa0" in capsys.readouterr().out
    assert main(["machines", "skx", "pepc:genoa0"]) == 0
    assert "C1 to C2, 800 times" in capsys.readouterr().out
    assert main(["machines", "pepc:genoa0", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["machines"]
    assert found["powers_derived"] and found["states"][2]["target_residency_us"] == 1600
    assert main(["machines", "pepc:genao0"]) == 2
    assert "did you mean 'pepc:genoa0'?" in capsys.readouterr().err


# ---- Formats ----

STYLES = {
    "trace-cmd report": "          <idle>-0     [000]{flags} {ts:.9f}: {name}: {rest}",
    "tracefs": "          <idle>-0       [000] d..1. {ts:.6f}: {name}: {rest}",
    "systrace": "  <idle>-0     (-----) [000] d..2 {ts:.6f}: {name}: {rest}\\n\\",
    "perf script": "swapper     0 [000] {ts:.6f}:     {name}: {rest}",
    "perf script with period": "swapper     0 [000] {ts:.6f}:          1 power:{name}: {rest}",
}


@pytest.mark.parametrize("style", STYLES)
def test_text_of_each_program_is_read(tmp_path: Path, style: str) -> None:
    def line(ts: float, name: str, rest: str) -> str:
        return STYLES[style].format(flags="", ts=ts, name=name, rest=rest)

    lines = ["cpus=1", "# tracer: nop", "nonsense"]
    for n in range(5):
        lines.append(line(10 + n, "cpu_idle", "state=1 cpu_id=0"))
        lines.append(line(10.5 + n, "cpu_idle", f"state={EXIT} cpu_id=0"))
    path = tmp_path / "trace.txt"
    path.write_text("\n".join(lines) + "\n")
    assert is_foreign(path)
    with columns.opened(path) as recording:
        assert recording.kind == columns.CPU_IDLE
        assert recording.table("interval")["length_ns"].to_list() == [500 * MS] * 5


def field(number: int, value: int | bytes) -> bytes:
    """Return a field of a protocol buffer."""

    def varint(n: int) -> bytes:
        out = b""
        while n >= 128:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def packed(kind: str = "plain") -> bytes:
    """Return a Perfetto trace of two idle periods."""
    events = b""
    for ts, state in ((1000, 1), (2000, EXIT), (3000, 2), (9000, EXIT)):
        told = field(perfetto.STATE, state) + field(perfetto.CPU_ID, 3)
        events += field(
            perfetto.EVENT, field(perfetto.TIMESTAMP, ts) + field(perfetto.CPU_IDLE, told)
        )
    packet = field(perfetto.FTRACE_EVENTS, field(perfetto.CPU, 3) + events)
    if kind == "compressed":
        packet = field(perfetto.COMPRESSED_PACKETS, zlib.compress(field(perfetto.PACKET, packet)))
    return field(perfetto.PACKET, field(8, 5)) + field(perfetto.PACKET, packet)


@pytest.mark.parametrize("kind", ["plain", "compressed"])
def test_a_perfetto_trace_is_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "trace.pftrace"
    path.write_bytes(packed(kind))
    with columns.opened(path) as recording:
        assert recording.table("interval")["length_ns"].to_list() == [1000, 6000]
        assert recording.cpus == [3]


def test_the_numbers_of_perfettos_fields_are_those_of_its_package() -> None:
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    for message, fields in {
        "TracePacket": {"ftrace_events": 1, "compressed_packets": 50},
        "FtraceEventBundle": {"cpu": 1, "event": 2, "lost_events": 3},
        "FtraceEvent": {"timestamp": 1, "print": 3, "sched_switch": 4, "cpu_idle": 13},
        "CpuIdleFtraceEvent": {"state": 1, "cpu_id": 2},
        "SchedSwitchFtraceEvent": {"prev_pid": 2, "next_pid": 6},
        "PrintFtraceEvent": {"buf": 2},
    }.items():
        known = getattr(protos, message).DESCRIPTOR.fields_by_name
        assert {name: known[name].number for name in fields} == fields


def damaged(whole: bytes, seed: int) -> bytes:
    """Return the bytes cut short, or with some changed."""
    source = random.Random(seed)
    data = bytearray(whole[: source.randrange(1, len(whole))] if seed % 2 else whole)
    for _ in range(source.randrange(8)):
        data[source.randrange(len(data))] = source.randrange(256)
    return bytes(data)


TEXT = "".join(
    f"  <idle>-0  [00{n % 2}] d..1. {n}.{n:06}: cpu_idle: state={(1, EXIT)[n % 2]} cpu_id=0\n"
    for n in range(40)
).encode()


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("reader", ["text", "perfetto"])
def test_damaged_files_give_events_or_one_sentence(tmp_path: Path, seed: int, reader: str) -> None:
    path = tmp_path / "x"
    whole = TEXT if reader == "text" else packed("compressed" if seed % 3 else "plain")
    path.write_bytes(damaged(whole, seed))
    readers: dict[str, Callable[[Path], Iterator[Event]]] = {
        "text": text.events,
        "perfetto": perfetto.events,
    }
    try:
        with Writer(tmp_path / "y") as writer:
            for event in readers[reader](path):
                writer.add(event)
    except UserError as error:
        assert "\n" not in error.message


def test_time_that_runs_backwards_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(
        " <idle>-0 [000] d..1. 2.000000: cpu_idle: state=1 cpu_id=0\n"
        " <idle>-0 [000] d..1. 1.000000: cpu_idle: state=1 cpu_id=0\n"
    )
    with pytest.raises(UserError, match="time runs backwards"), as_trace(path):
        pass


def test_a_text_without_idle_events_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("# tracer: nop\n")
    with pytest.raises(UserError, match="holds no event of idle CPUs"), as_trace(path):
        pass


@pytest.mark.parametrize(
    "line",
    [
        f"CPU:{'9' * 5000} [LOST 3 EVENTS]",
        f"[CPU:{'9' * 5000} LOST 3 EVENTS]",
        f" a-1 [000] d..1. 0.000000: sched_switch: a:{'9' * 5000} [120] S ==> b:1 [120]",
        f" a-1 [000] d..1. 0.000000: sched_switch: a:1 [120] S ==> b:{'9' * 5000} [120]",
    ],
    ids=["lost", "lost of perf", "from", "to"],
)
def test_a_huge_number_in_a_text_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(line.encode() + b"\n" + TEXT.replace(b"[001]", b"[000]"))
    assert main(["columns", str(path), "-o", str(tmp_path / "out")]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_the_scripts_of_a_systrace_page_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "trace.html"
    script = b" x [000] d..1. 0.000000: cpu_idle: state=1 cpu_id=0"
    path.write_bytes(
        b"<!DOCTYPE html>\n<html><head>\n" + script.rjust(1 << 20, b"x") + b"\n"
        b'<script class="trace-data" type="application/text">\n' + TEXT + script.rjust(1 << 16)
    )
    assert is_foreign(path)
    assert [event.ts for event in text.events(path)] == [n * 1_000_001_000 for n in range(40)]


# ---- Probes ----


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Return a recorded machine with the files of probes and of the kernel's events."""
    root = recorded.unfold("debian13", tmp_path / "machine")
    tracing = root / TRACEFS.lstrip("/")
    (tracing / "kprobe_events").write_text("p:mine/own some_function\n")
    for event in ("power/cpu_idle", "timer/tick_stop", "timer/hrtimer_expire_entry"):
        (tracing / "events" / event).mkdir(parents=True)
        (tracing / "events" / event / "enable").write_text("0\n")
    return Host(Tree(root))


def probe_lines(host: Host) -> list[str]:
    """Return what was written to kprobe_events; a plain file keeps every line."""
    return (host.tree.read(KPROBE_EVENTS) or "").splitlines()


def test_probes_are_added_and_removed_beside_those_of_others(host: Host) -> None:
    probes = Probes(host)
    way = best_way(host, probes)
    assert (way.name, way.why) == ("probes", "")
    assert way.events[:2] == ("-e", probes.group)
    added = probe_lines(host)
    assert added[0] == "p:mine/own some_function" and len(added) == 7
    assert "dn=+0($arg1):s64" in added[1]
    probes.remove()
    assert probe_lines(host)[7:] == [f"-:{line.split()[0][2:]}" for line in added[1:]]
    probes.remove()
    assert len(probe_lines(host)) == 13


def test_an_old_kernel_gets_no_argument_in_a_return_probe(host: Host) -> None:
    host.tree.path("/proc/sys/kernel/osrelease").write_text("6.1.0-40-amd64\n")
    best_way(host, Probes(host))
    assert "dn=" not in probe_lines(host)[1]


def test_leftovers_of_a_killed_session_are_removed_and_a_living_ones_kept(host: Host) -> None:
    for pid in (41, 42):
        folder = host.tree.path(f"{TRACEFS}/events/cil_p{pid}")
        folder.mkdir()
        (folder / "enable").write_text("1\n")
        host.tree.append(KPROBE_EVENTS, f"p:cil_p{pid}/cil_stop_tick tick_nohz_idle_stop_tick")
    alive = host.tree.path("/proc/42/cmdline")
    alive.parent.mkdir()
    alive.write_bytes(b"python3\0cpuidle-lab\0capture\0--stock\0")
    assert Probes(host).mend() == ["cil_p41"]
    assert probe_lines(host)[-1] == "-:cil_p41/cil_stop_tick"
    assert host.tree.read(f"{TRACEFS}/events/cil_p41/enable") == "0"
    assert host.tree.read(f"{TRACEFS}/events/cil_p42/enable") == "1"


def test_without_probes_the_kernels_events_are_used_and_the_reason_is_said(host: Host) -> None:
    host.tree.path(KPROBE_EVENTS).unlink()
    way = best_way(host, Probes(host))
    assert (way.name, way.why) == ("events", "the kernel has no kprobe_events")


def test_the_script_to_record_by_hand_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "--print"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("#!/bin/sh") and "kprobe_events" in text
    if shellcheck := shutil.which("shellcheck"):
        command = [shellcheck, "--severity=warning", "-s", "sh", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def by_hand(host: Host) -> subprocess.CompletedProcess[str]:
    """Run the script to record by hand on a recorded machine; its trace is `out`."""
    root = host.tree.root
    script = by_hand_script.SCRIPT
    for folder in ("/sys", "/boot", "/proc", "/dev/cpu"):
        script = re.sub(rf"(?<=[\s=\"]){folder}", f"{root}{folder}", script)
    environment = {**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", "-s", "1", str(root / "out")],
        input=script, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def hand(host: Host) -> Host:
    """Return a machine whose trace-cmd notes its arguments and leaves tracing as it used it."""
    tree, root = host.tree, host.tree.root
    for name, content in (
        ("current_tracer", "nop"),
        ("set_event", ""),
        ("trace_clock", "[local] global mono"),
        ("tracing_on", "0"),
    ):
        tree.path(f"{TRACEFS}/{name}").write_text(f"{content}\n")
    (root / "bin").mkdir(exist_ok=True)
    (root / "bin/uname").write_text("#!/bin/sh\necho own\n")
    (root / "bin/trace-cmd").write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >>{root}/arguments\ncd {root}{TRACEFS} || exit\n'
        "echo 'local global [mono]' >trace_clock\necho 1 >tracing_on\n"
        "echo power:cpu_idle >set_event\n"
    )
    for program in ("uname", "trace-cmd"):
        (root / "bin" / program).chmod(0o755)
    return host


def test_the_script_by_hand_leaves_tracing_as_it_was(hand: Host) -> None:
    tree = hand.tree
    done = by_hand(hand)
    assert done.returncode == 0, done.stderr
    words = (tree.root / "arguments").read_text().splitlines()
    assert words[0] == "record" and "reset" not in words
    added = probe_lines(hand)[1:7]
    assert probe_lines(hand)[0] == "p:mine/own some_function"
    removed = sorted(f"-:{line.split()[0][2:]}" for line in added)
    assert sorted(probe_lines(hand)[7:]) == removed
    assert tree.read(f"{TRACEFS}/trace_clock") == "local"
    assert tree.read(f"{TRACEFS}/tracing_on") == "0"
    assert tree.read(f"{TRACEFS}/events/enable") == "0"


def test_the_script_by_hand_records_without_probes(hand: Host) -> None:
    hand.tree.path(KPROBE_EVENTS).unlink()
    done = by_hand(hand)
    assert done.returncode == 0 and "recorded by events only" in done.stderr
    text = (hand.tree.root / "arguments").read_text()
    assert "way=events" in text and "cil_p" not in text
    assert not hand.tree.exists(KPROBE_EVENTS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("current_tracer", "a tracer is in use"),
        ("set_event", "another session records events"),
        ("", "exists already"),
    ],
)
def test_the_script_by_hand_refuses_what_it_would_destroy(
    hand: Host, name: str, words: str
) -> None:
    if name:
        hand.tree.path(f"{TRACEFS}/{name}").write_text("function\n")
    else:
        (hand.tree.root / "out").write_text("mine")
    done = by_hand(hand)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1) and words in done.stderr
    assert len(probe_lines(hand)) == 1
    assert hand.tree.read(f"{TRACEFS}/trace_clock") == "[local] global mono"
    assert not (hand.tree.root / "arguments").exists()


@pytest.mark.parametrize("where", ["boot", "proc", ""])
def test_the_script_by_hand_takes_the_tick_from_either_file(hand: Host, where: str) -> None:
    root = hand.tree.root
    if where == "boot":
        (root / "boot/config-own").write_text("CONFIG_HZ_1000=y\nCONFIG_HZ=1000\n")
    elif where:
        (root / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_HZ=1000\n"))
    done = by_hand(hand)
    tick_ns = MS if where else 4 * MS
    assert f"tick_ns={tick_ns} " in (root / "arguments").read_text()
    assert done.stderr == ("" if where else "HZ is not known: 250 is assumed\n")


@pytest.mark.parametrize(
    ("own", "general", "limit"),
    [("", None, -1), ("0", 2_000_000_000, -1), ("n/a", None, 0), ("30", 20, 20), ("7", 20, 7)],
)
def test_the_script_by_hand_tells_the_same_idle_states(
    hand: Host, own: str, general: int | None, limit: int
) -> None:
    root = hand.tree.root
    (root / "boot/config-own").write_text("CONFIG_HZ=250\n")
    if own:
        path = root / "sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{own}\n")
    if general is not None:
        (root / "dev").mkdir(exist_ok=True)
        (root / "dev/cpu_dma_latency").write_bytes(struct.pack("=i", general))
    by_hand(hand)
    lines = [(0, line) for line in (root / "arguments").read_text().splitlines()]
    told = told_of(root, lines)
    assert told is not None and told.tables[0].latency_req_us == limit
    assert told.tables == machines.tables_of(hand)


def test_a_session_sets_probes_and_describes_the_machine(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(host.tree.root))
    output = tmp_path / "a.dat"
    assert main(["capture", "--stock", "-o", str(output), "--json", "--", "true"]) == 0
    assert json.loads(capfd.readouterr().out)["way"] == "probes"
    assert output.exists()
    words = (host.tree.root / "recorded-arguments").read_text()
    assert "-C mono -e cil_p" in words and "-f prev_pid == 0 || next_pid == 0" in words
    assert "cpuidle_lab" not in words
    assert len(probe_lines(host)) == 13
    assert (host.tree.read(f"{TRACEFS}/trace_marker") or "").startswith("phase end")


def test_an_unknown_tick_is_said(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(host.tree.root))
    words = ["capture", "--stock", "--force", "-o", str(tmp_path / "a.dat"), "--", "true"]
    assert main(words) == 0
    assert capsys.readouterr().err.count("the kernel's HZ is not known: 250 is assumed") == 1
    host.tree.path(f"/boot/config-{host.kernel()}").write_text("CONFIG_HZ=250\n")
    assert main(words) == 0
    assert "HZ" not in capsys.readouterr().err


def test_without_a_driver_there_is_nothing_to_record(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(host.tree.root))
    host.tree.path("/sys/devices/system/cpu/cpuidle/current_driver").write_text("none\n")
    assert main(["capture", "--stock", "-o", str(tmp_path / "a.dat")]) == 1
    assert "no cpuidle driver" in capsys.readouterr().err
    assert len(probe_lines(host)) == 1


@pytest.mark.parametrize(("level", "code"), [("integrity", 0), ("confidentiality", 1)])
def test_lockdown_for_confidentiality_alone_forbids_it(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    level: str, code: int,
) -> None:  # fmt: skip
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(host.tree.root))
    host.tree.path("/sys/kernel/security/lockdown").write_text(f"none [{level}]\n")
    assert main(["capture", "--stock", "-o", str(tmp_path / "a.dat"), "--", "true"]) == code
    assert (f"locked down ({level})" in capsys.readouterr().err) == bool(code)
    (finding,) = (one for one in doctor.examine(host) if one.check == "lockdown")
    allowed = "capture --stock is allowed" if not code else "nor capture --stock"
    assert allowed in finding.found


def test_this_machine_records_its_own_idle(tmp_path: Path) -> None:
    host = Host(Tree("/"))
    if host.driver() is None:
        pytest.skip("this machine has no cpuidle driver")
    if not host.tree.may_write(KPROBE_EVENTS) or not host.tool("trace-cmd"):
        pytest.skip("this machine does not permit tracing")
    output = tmp_path / "own.dat"
    assert main(["capture", "--stock", "--duration", "1", "-o", str(output)]) == 0
    with columns.opened(output) as recording:
        assert recording.rows("interval")


# ---- Machines in the lab ----


def test_a_machine_of_any_source_becomes_parameters_of_the_emulator(tmp_path: Path) -> None:
    assert emulated("gnr") == "machine=gnr"
    assert emulated("pepc:genoa0") == "states=C1:1:2,C2:800:1600"
    own = tmp_path / "own.yaml"
    own.write_text(
        "states:\n"
        "- {name: WFI, exit_latency_us: 1, target_residency_us: 1, power_mw: 700}\n"
        "- {name: deep, exit_latency_us: 40, target_residency_us: 200, power_mw: 30}\n"
    )
    assert emulated(str(own)) == "states=WFI:1:1:700,deep:40:200:30 poll=none"


@pytest.mark.parametrize(
    ("name", "exit_us", "target_us", "message"),
    [
        ("a", 30, 20, "target residency is below its exit latency"),
        ("a", 200_000, 300_000, "exit latency is not 1 to 100000 us"),
        ("WFI", 3, 20, "another state has its name"),
    ],
)
def test_a_machine_that_cannot_be_emulated_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, exit_us: int, target_us: int,
    message: str,
) -> None:  # fmt: skip
    own = tmp_path / "own.yaml"
    own.write_text(
        "states:\n- {name: WFI, exit_latency_us: 1, target_residency_us: 1}\n"
        f"- {{name: {name}, exit_latency_us: {exit_us}, target_residency_us: {target_us}}}\n"
    )
    assert main(["lab", "--machine", str(own), "-o", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
