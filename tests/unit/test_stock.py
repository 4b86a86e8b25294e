# SPDX-License-Identifier: GPL-2.0
"""Recordings without the module: decisions and idle periods out of other events."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.figures.cpu_idle import Untimed, judge
from cpuidle_lab.recording import columns, state_tables
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.formats.writer import EVENTS, UNCOUNTED, Event
from cpuidle_lab.recording.stock import context_of
from cpuidle_lab.replay import recorded
from cpuidle_lab.states.costs import model_of
from tests.unit.kernel_events import EXIT, MS, Kernel, bare, periods

# As in timers.h.
TIMERS_MAX = 16_384

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
    kernel.add(3000, "sched_switch", prev_pid=5, next_pid=0)
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


def test_jiffies_wrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their low 32 bits, as they begin 5 minutes before."""
    first = 2**32 - 4
    monkeypatch.setitem(globals(), "JIFFY", first)
    kernel = Timers()
    kernel.begin()
    for _ in range(3):
        kernel.tick()
    kernel.wheel(2, 5, bucket_expiry=first + 12)
    kernel.switch()
    at = kernel.now + 100
    kernel.choose(1, 20_000)
    kernel.tick()
    (sleep, _), *_ = told(kernel, tmp_path / "a.dat")
    assert sleep + at == 12 * 4 * MS


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
        ("busy all the time", 0, 4000),
        ("found busy", 0, 4000),
        ("found idle", 0, 32),
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
    busy = Event(1, kernel.now + 10, "hrtimer_cancel", {"hrtimer": 99})
    switch = Event(1, kernel.now + 10, "sched_switch", {"prev_pid": 0, "next_pid": 7})
    stop = Event(1, kernel.now + 50, "tick_stop", {"success": 1})
    # Of the CPU's state at the beginning its first power:cpu_idle event alone may tell, later.
    far = kernel.now + 100 * MS
    enters, leaves = (
        Event(1, far, "cpu_idle", {"state": state, "cpu_id": 1}) for state in (1, EXIT)
    )
    kernel.events += {
        "busy": [switch],
        "busy all the time": [busy],
        "found busy": [busy, enters],
        "found idle": [busy, leaves],
    }.get(other, [switch, stop])
    kernel.switch()
    at = kernel.now + 100
    kernel.choose(1, 20_000)
    kernel.tick()
    (sleep, delta), *_ = told(kernel, tmp_path / "a.dat")
    assert (sleep + at, delta + at) == (due * MS, 12 * MS)


def test_of_many_cpus_the_ticks_of_others_are_taken_to_run(tmp_path: Path) -> None:
    """The events of others are not read for each of more than 16; one of them is busy, mostly."""
    kernel = Timers()
    kernel.begin()
    kernel.wheel(1, 60, bucket_expiry=JIFFY + 1000, flags=0x100000)
    kernel.wheel(2, 5, bucket_expiry=JIFFY + 8)
    kernel.events.append(Event(16, kernel.now + 10, "sched_switch", {"prev_pid": 0, "next_pid": 7}))
    kernel.switch()
    at = kernel.now + 100
    kernel.choose(1, 20_000)
    kernel.tick()
    (sleep, delta), *_ = told(kernel, tmp_path / "a.dat")
    assert (sleep + at, delta + at) == (4000 * MS, 12 * MS)


def test_without_a_timer_the_end_of_time_is_told(tmp_path: Path) -> None:
    kernel = Timers()
    kernel.begin()
    kernel.add(100, "timer_cancel", timer=1)
    kernel.switch()
    at = kernel.now + 100
    kernel.choose(1, 20_000)
    kernel.tick()
    assert told(kernel, tmp_path / "a.dat") == [(tr.TIME_MAX - at, 12 * MS - at)]


def test_more_timers_than_are_kept_tell_nothing(tmp_path: Path) -> None:
    kernel = Timers()
    kernel.begin()
    for timer in range(TIMERS_MAX):
        kernel.wheel(1000 + timer, 60, bucket_expiry=JIFFY + 1000)
    kernel.wheel(2, 5, bucket_expiry=JIFFY + 60)
    kernel.switch()
    kernel.choose(1, 20_000)
    kernel.tick()
    with columns.opened(kernel.write(tmp_path / "a.dat")) as recording:
        assert recording.stock and recording.stock["untold"] == 1


def test_lost_events_may_have_given_the_cpu_back(tmp_path: Path) -> None:
    kernel = Kernel()
    kernel.idle(1, 50_000, sleep=20 * MS, delta=3 * MS)
    kernel.add(1000, "sched_switch", prev_pid=0, next_pid=5)
    kernel.add(1000, "cil_sleep_length", ret=9 * MS, dn=MS)
    # The switch back was among those that were lost before this answer.
    kernel.events[-1] = replace(kernel.events[-1], lost=UNCOUNTED)
    kernel.add(100, "cil_retain_tick")
    kernel.add(100, "cpu_idle", state=1, cpu_id=0)
    kernel.add(30_000, "cpu_idle", state=EXIT, cpu_id=0)
    kernel.idle(2, MS, sleep=7 * MS, delta=2 * MS)
    rows = periods(kernel.write(tmp_path / "a.dat"))
    assert rows["sleep_length_ns"].to_list() == [20 * MS, 9 * MS, 7 * MS]


def test_an_entry_without_a_selection_ends_the_interval(tmp_path: Path) -> None:
    """The idle loop polls by itself, e.g. while a broadcast of the clock is due."""
    kernel = Kernel()
    kernel.idle(1, 3 * MS, sleep=20 * MS, delta=3 * MS, stop=False, tick=True, left=False)
    kernel.add(500, "cpu_idle", state=0, cpu_id=0)
    kernel.add(10 * MS, "cpu_idle", state=EXIT, cpu_id=0)
    kernel.idle(2, MS, sleep=7 * MS, delta=2 * MS)
    kernel.idle(2, MS, sleep=17 * MS, delta=4 * MS)
    with columns.opened(kernel.write(tmp_path / "a.dat")) as recording:
        intervals = recording.table("interval")
        assert recording.table("period")["left"].to_list() == [1, 1, 1]
    assert intervals["last_index"].to_list()[:2] == [1, 2]
    first, second = intervals["length_ns"].to_list()[:2]
    assert 2.9 * MS < first < 3 * MS
    assert 0.8 * MS < second < MS


def test_forced_idle_is_no_decision(tmp_path: Path) -> None:
    """A task that injects idle time calls what the idle loop calls, and asks no governor."""
    kernel = Kernel()
    kernel.idle(1, 50_000, sleep=20 * MS, delta=3 * MS, stop=False, left=False)
    for _ in range(3):
        kernel.add(1000, "sched_switch", prev_pid=0, next_pid=40)
        kernel.add(100, "cil_stop_tick")
        kernel.add(100, "cpu_idle", state=2, cpu_id=0)
        kernel.add(6 * MS, "cpu_idle", state=EXIT, cpu_id=0)
        kernel.add(100, "cil_idle_exit")
        kernel.add(1000, "sched_switch", prev_pid=40, next_pid=0)
        kernel.idle(1, 50_000, sleep=20 * MS, delta=3 * MS, stop=False, left=False)
    rows = periods(kernel.write(tmp_path / "a.dat"))
    assert rows["index"].to_list() == [1, 1, 1, 1]
    assert rows["left"].to_list() == [1, 1, 1, 1]


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


@pytest.mark.parametrize(
    ("lags", "most"), [([450], 450), ([450, 450, 382], 450), ([450, 382, 382], 382)]
)
def test_most_answers_tell_when_the_kernel_reads_the_clock(
    tmp_path: Path, lags: list[int], most: int
) -> None:
    kernel = Timers()
    kernel.begin()
    kernel.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=77, expires=9 * MS)
    for lag in lags:
        kernel.switch()
        # The kernel reads the clock so many ns after the switch, which costs an event 100 ns.
        answer = 9 * MS - kernel.now - lag
        kernel.add(700, "cil_sleep_length", ret=answer, dn=answer)
        kernel.add(100, "cil_retain_tick")
        kernel.choose(1, 20_000)
    kernel.switch()
    last = kernel.now
    kernel.add(700, "cil_retain_tick")
    kernel.choose(1, 20_000)
    row = periods(kernel.write(tmp_path / "a.dat")).to_dicts()[len(lags)]
    assert row["flags"] & 0x14 == 0x10
    assert row["sleep_length_ns"] == row["delta_tick_ns"] == 9 * MS - last - most


def test_an_old_kernels_time_to_the_tick_is_rebuilt(tmp_path: Path) -> None:
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
        Event(0, kernel.now + 10, "cil_retain_tick", lost=UNCOUNTED),
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
        context_of(Path("x"), [(1, line)])


def test_a_trace_without_our_lines_tells_nothing() -> None:
    assert context_of(Path("x"), [(1, "phase governor=menu workload=a"), (2, "hello")]) is None


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


def test_cpu_idle_alone_is_judged_against_the_best_possible(tmp_path: Path) -> None:
    with columns.opened(bare(tmp_path)) as recording:
        assert recording.kind == columns.CPU_IDLE
        untimed = Untimed(recording)
        fact = recorded.outcome(untimed)
        assert (fact.share(fact.above), fact.share(fact.below)) == (50.0, 0.0)
        (chunk,) = untimed.intervals(0, ["length_ns", "timer_ns", "flags"])
        assert chunk["length_ns"].tolist() == [1_000_000, 10_000]
        assert (chunk["timer_ns"] == tr.TIME_MAX).all()


def test_the_ideal_state_is_the_deepest_that_pays() -> None:
    machine = state_tables.find("skx")
    stays = [400_000 + 133_000, 600_000 + 2_000, 1000]
    found = judge(machine, [3, 1, 0], stays)  # type: ignore[arg-type]
    assert found["ideal"].tolist() == [2, 3, 0]
    assert found["above"].tolist() == [True, False, False]
    assert found["below"].tolist() == [False, True, False]
    assert (found["cost_pj"] >= found["oracle_pj"] - 1e-6).all()


def test_a_period_is_above_and_below_as_the_kernel_counts() -> None:
    """Above with its exit latency, below without it: C6 of skx takes 133 us to leave."""
    machine = state_tables.find("skx")
    exit_ns = machine.exit_latency_ns[3]
    assert exit_ns == 133_000
    found = judge(machine, [3, 3], [599_999, 600_000])  # type: ignore[arg-type]
    assert found["above"].tolist() == [True, False]
    found = judge(machine, [2, 2], [609_999, 610_000])  # type: ignore[arg-type]
    assert found["below"].tolist() == [False, True]


def test_a_state_that_is_left_before_its_exit_latency_has_no_negative_length(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = Kernel()
    for stay in (33_000, *(1_133_000,) * 99):
        kernel.add(100_000, "cpu_idle", state=2, cpu_id=0)
        kernel.add(stay, "cpu_idle", state=EXIT, cpu_id=0)
    kernel.add(1000, "cpu_idle", state=1, cpu_id=0)
    path = kernel.write(tmp_path / "a.dat")
    assert main(["report", str(path), "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    with columns.opened(path) as recording:
        model = model_of(recording.state_tables[0])
    # One length is half of what was measured.
    ns = 99 * 1_000_000 + 16_500
    assert run["metrics"]["power_mw"] == pytest.approx(100 * model.entry_pj[2] / ns + 100)


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
