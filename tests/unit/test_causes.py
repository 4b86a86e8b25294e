# SPDX-License-Identifier: GPL-2.0
"""Recordings of power:cpu_idle with interrupts: causes of wake-ups, and sleep lengths."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cpuidle_lab.cli import main
from cpuidle_lab.recording import cause_events, causes, columns, sleeps
from cpuidle_lab.recording.causes import BOUNDED, KNOWN
from cpuidle_lab.recording.formats.writer import UNCOUNTED, Event
from cpuidle_lab.recording.ticks import Grid, Rates
from tests.unit.interrupts import KERNEL, MACHINE, TICK, Arm, write
from tests.unit.kernel_events import EXIT, MS

RESCHEDULE, IPI_IRQ = "Rescheduling interrupts", 1


def rows(path: Path) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """Return intervals with their sleep lengths, periods, and what is said of the recording."""
    with columns.opened(path) as recording:
        assert recording.kind == columns.INTERRUPTS
        sleep = recording.table("sleep").drop("cpu", "start_ns")
        both = recording.table("interval").hstack(sleep)
        return both, recording.table("period"), list((recording.stock or {})["causes"])


def last_of(path: Path, cpu: int) -> dict[str, int]:
    """Return the last interval of a CPU with its sleep length."""
    return rows(path)[0].filter(pl.col("cpu") == cpu).to_dicts()[-1]


def test_a_timer_tells_the_sleep_length_and_a_device_its_least(tmp_path: Path) -> None:
    cpu = Arm()
    cpu.learn()
    cpu.timer(333_000)
    cpu.device(250_000)
    cpu.timer(3_210_000)
    cpu.enter()
    found, _, said = rows(write(tmp_path / "a.dat", cpu))
    timer, device, far = found[-3:].to_dicts()
    assert (timer["known"], timer["least_ns"], timer["timer_ns"]) == (KNOWN, 333_000, 333_000)
    assert (device["known"], device["cause"]) == (BOUNDED, cause_events.DEVICE)
    # Nothing tells of the exit latency of 100 us, so the CPU was woken so much earlier.
    assert device["least_ns"] == 250_000 and device["length_ns"] == 150_000
    assert device["timer_ns"] == -1 and device["flags"] & columns.UNKNOWN
    assert (far["known"], far["timer_ns"]) == (KNOWN, 3_210_000)
    assert any("last idle period of CPU 0 has no exit" in line for line in said)


def test_the_grid_of_the_tick_is_learnt_whatever_the_table_says(tmp_path: Path) -> None:
    cpu = Arm()
    cpu.learn()
    path = write(tmp_path / "a.dat", cpu)
    facts = cause_events.facts_of(path)
    assert facts is not None and (facts.period_ns, facts.share) == (TICK, 1.0)
    with columns.opened(path) as recording:
        assert recording.state_tables[0].tick_ns == TICK
        assert set(recording.table("interval")["tick_phase_ns"]) == {0}


@pytest.mark.parametrize("rate", [100, 250, 300, 1000])
def test_each_rate_of_the_tick_is_told_from_its_multiples(rate: int) -> None:
    rates = Rates()
    period = 10**9 // rate
    rates.add(12_345 + period * np.arange(500, dtype=np.int64))
    assert rates.best() == (period, 1.0)


def test_a_grid_follows_a_clock_that_drifts() -> None:
    """100 ppm over 20 s are two periods' worth of what is taken for near."""
    moments = 5_000 + (1_000_100 * np.arange(20_000)).astype(np.int64)
    grid = Grid(moments, 10**6)
    assert np.abs(grid.off(moments)).max() < 5_000


def test_bare_ticks_join_an_interval_whose_timer_is_later(tmp_path: Path) -> None:
    cpu = Arm()
    cpu.learn()
    for _ in range(20):
        cpu.tick()
    cpu.timer(2_500_000, state=1)
    cpu.tick()
    cpu.tick()
    start = cpu.events[-6].ts
    cpu.timer(400_000)
    found, periods, _ = rows(write(tmp_path / "a.dat", cpu))
    last = found[-1].to_dicts()[0]
    assert (last["periods"], last["known"]) == (3, KNOWN)
    due = last["start_ns"] + last["timer_ns"]
    assert due == last["start_ns"] + last["length_ns"] and last["start_ns"] < start
    assert periods["by_tick"].to_list()[-3:] == [1, 1, 0]
    assert set(periods["interval"].to_list()[-3:]) == {last["first_seq"]}


def test_ticks_of_a_cpu_that_takes_turns_are_late(tmp_path: Path) -> None:
    """Ticks that balance loads tell how late."""
    cpu = Arm()
    cpu.learn(20)
    for n in range(60):
        cpu.tick(7, late=18_000 * (n % 2))
        cpu.work()
    for _ in range(20):
        cpu.tick()
    cpu.tick(late=18_000)
    cpu.timer(400_000)
    last = rows(write(tmp_path / "a.dat", cpu))[0].to_dicts()[-1]
    assert (last["periods"], last["known"]) == (22, KNOWN)


def test_a_tick_that_serves_a_timer_had_to_go_on(tmp_path: Path) -> None:
    cpu = Arm()
    cpu.learn()
    cpu.work()
    cpu.tick(1)
    cpu.work()
    cpu.tick(1, 7)  # load balancing raised a softirq, too: less is sure
    cpu.work()
    found, _, _ = rows(write(tmp_path / "a.dat", cpu))
    held, doubtful = found[-2:].to_dicts()
    assert held["timer_ns"] == columns.TIMER_TICK - held["length_ns"]
    assert (held["known"], doubtful["known"]) == (KNOWN, BOUNDED)


def test_the_latency_of_a_state_is_learnt_from_the_tick(tmp_path: Path) -> None:
    cpu = Arm()
    cpu.learn()
    for _ in range(20):
        cpu.tick(7, state=2, late=60_000)
        cpu.work()
    cpu.timer(4_330_000, state=2, late=60_000)
    cpu.device(500_000, state=2)
    found, _, _ = rows(write(tmp_path / "a.dat", cpu))
    timer, device = found[-2:].to_dicts()
    assert timer["length_ns"] == timer["timer_ns"] == 4_330_000
    assert device["length_ns"] == 440_000  # the table says 200 us


def kicked() -> list[Arm]:
    """Return four CPUs of which one, 50 times, wakes the others, which have nothing to run."""
    cpus = [Arm(cpu) for cpu in range(4)]
    for cpu in cpus:
        cpu.learn()
    for n in range(50):
        at = max(cpu.now for cpu in cpus) + 700_000 + 1000 * n
        for target in (0, 1, 2):
            cpus[3].add(at - cpus[3].now if not target else 1500, "ipi_raise", RESCHEDULE, pid=42,
                        target_cpus=1 << target)  # fmt: skip
            cpus[target].enter()
            cpus[target].leave(at + 3000)
            cpus[target].interrupt(IPI_IRQ, "IPI")
            cpus[target].enter()
            cpus[target].leave(at + 100_000)
            cpus[target].interrupt(50, "ufshcd")
            cpus[target].work()
    return cpus


def test_kicks_are_named_with_their_task_and_cost(tmp_path: Path) -> None:
    found, _, said = rows(write(tmp_path / "a.dat", *kicked()))
    assert found["kick"].sum() == 150
    assert set(found.filter(pl.col("kick") == 1)["reason"]) == {cause_events.RESCHEDULE}
    line = next(line for line in said if "kicks:" in line)
    assert "task42-42 (50 times)" in line
    # 150 exit latencies of 100 us.
    assert any(line.startswith("kicks cost 15.0 ms of exit latency") for line in said)


@pytest.mark.parametrize(
    "words", [("report",), ("compare", "--governors", "menu_ng", "--no-mainline",
                            "--no-instructions", "--worst", "0")]
)  # fmt: skip
def test_report_and_compare_name_who_kicks(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.dat", *kicked())
    assert main([*words, str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    notes = [note for one in (found, *found.get("runs", ())) for note in one["notes"]]
    (line,) = [note for note in notes if "are kicks:" in note]
    assert "task42-42 (50 times)" in line
    assert any("kicks cost 15.0 ms of exit latency" in note for note in notes)


def test_ipis_of_a_wake_up_are_no_kicks(tmp_path: Path) -> None:
    cpus = kicked()
    for cpu in cpus[:3]:  # a task runs after each
        cpu.events = [
            event
            for pair in zip(cpu.events, [*cpu.events[1:], None], strict=True)
            for event in _with_work(*pair)
        ]
    found, _, said = rows(write(tmp_path / "a.dat", *cpus))
    assert not found["kick"].sum() and not any("kick" in line for line in said)


def _with_work(event: Event, after: Event | None) -> list[Event]:
    if event.name != "irq_handler_exit" or event.values["irq"] != IPI_IRQ or after is None:
        return [event]
    return [event, Event(event.cpu, event.ts + 500, "softirq_raise", {"vec": 3}, pid=9)]


# ---- Bad input ----


@pytest.mark.parametrize("silent", [[1], [0, 2]])
def test_only_cpus_with_interrupts_are_judged(
    silent: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cpus = [Arm(number) for number in range(3)]
    for cpu in cpus:
        cpu.learn()
        for n in range(150):
            (cpu.timer if n % 3 else cpu.device)(50_000 + 20_000 * n, 1 + n % 2)
    for cpu in cpus:
        if cpu.cpu in silent:
            cpu.events = [one for one in cpu.events if not one.name.startswith(("irq", "softirq"))]
    told = [cpu for cpu in cpus if cpu.cpu not in silent]
    found, _, said = rows(write(tmp_path / "some.dat", *cpus))
    assert found["cpu"].unique().sort().to_list() == [cpu.cpu for cpu in told]
    alone = "1" if len(silent) > 1 else "0,2"
    assert any(f"the figures are those of CPU {alone} alone" in line for line in said)
    if 0 in silent:
        told[0].events[:0] = [one for one in cpus[0].events if one.name == "print"]
    write(tmp_path / "told.dat", *told)
    figures = []
    for name in ("some.dat", "told.dat"):
        regrets = []
        for words in (["compare", "--governors", "teo_ng,wteo", "--no-mainline"], ["report"]):
            assert main([words[0], str(tmp_path / name), *words[1:], "--json"]) == 0
            answer = json.loads(capsys.readouterr().out)
            rows_of = answer.get("results") or answer["runs"]
            regrets.append({one["governor"]: one["metrics"]["regret"] for one in rows_of})
        figures.append(regrets)
    assert figures[0] == figures[1]
    assert figures[0][0]["recorded"] == next(iter(figures[0][1].values()))


def test_a_missing_local_timer_is_told_by_softirqs_and_named(tmp_path: Path) -> None:
    """As on x86 without irq_vectors."""
    cpu = Arm()
    for _ in range(80):
        cpu.tick(1, 9)
        cpu.device(50_000)
    whole = rows(write(tmp_path / "a.dat", cpu))[0]
    cpu.events = [e for e in cpu.events if e.text != "arch_timer" and e.values.get("irq") != 19]
    found, _, said = rows(write(tmp_path / "b.dat", cpu))
    assert any("record with -e irq_vectors" in line for line in said)
    assert np.mean((found["known"] == whole["known"]).to_numpy()) > 0.98
    assert not any("irq_vectors" in line for line in rows(tmp_path / "a.dat")[2])


def test_events_of_x86_vectors_tell_the_timer(tmp_path: Path) -> None:
    cpu = Arm()
    cpu.learn()
    cpu.timer(333_000)
    names = {"irq_handler_entry": "local_timer_entry", "irq_handler_exit": "local_timer_exit"}
    cpu.events = [
        Event(e.cpu, e.ts, names[e.name], {"vector": 236}) if e.name in names else e
        for e in cpu.events
    ]
    found, _, said = rows(write(tmp_path / "a.dat", cpu))
    assert (found["known"][-1], found["timer_ns"][-1]) == (KNOWN, 333_000)
    assert not any("irq_vectors" in line for line in said)


def test_no_period_spans_lost_events(tmp_path: Path) -> None:
    cpu = Arm()
    cpu.learn()
    cpu.timer(333_000)
    at = next(
        n for n in range(len(cpu.events) - 1, 0, -1) if cpu.events[n].values.get("state") == EXIT
    )
    lost = cpu.events[at]
    cpu.events[at] = Event(lost.cpu, lost.ts, lost.name, lost.values, lost=UNCOUNTED)
    with_hole = rows(write(tmp_path / "a.dat", cpu))[1]
    assert with_hole.height == 60  # the ticks alone


def test_a_trace_of_text_tells_the_same(tmp_path: Path) -> None:
    lines = ["cpus=1"]

    def line(ts: int, name: str, rest: str, task: str = "<idle>-0") -> None:
        lines.append(f"  {task:>16} [000] d.h1. {ts / 1e9:.9f}: {name}: {rest}")

    cpu = Arm(lines=())
    cpu.learn()
    cpu.timer(333_000)
    for event in cpu.events:
        told = event.values
        rest = {
            "cpu_idle": "state={state} cpu_id=0", "irq_handler_exit": "irq={irq} ret=handled",
            "irq_handler_entry": "irq={irq} name=" + event.text,
            "softirq_raise": "vec={vec} [action=X]",
        }[event.name].format(**told)  # fmt: skip
        line(event.ts, event.name, rest, f"{event.comm}-{event.pid}")
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines) + "\n")
    facts = cause_events.facts_of(path)
    assert facts is not None and facts.period_ns == TICK
    (periods,) = [causes.of_cpu(n, events, facts)[0] for n, events in cause_events.by_cpu(path)]
    assert (int(periods.sleep[-1]), int(periods.known[-1])) == (333_000, KNOWN)


# ---- Ends in which nothing ran ----


@pytest.mark.parametrize("is_due", [False, True])
def test_an_interrupt_of_a_cancelled_timer_ends_no_sleep_length(
    is_due: bool, tmp_path: Path
) -> None:
    """As from 7.0 on. An hrtimer that was due then may have had nothing to wake."""
    cpu = Arm()
    cpu.learn()
    for _ in range(30):
        cpu.tick()
    cpu.work()
    for n in range(4 * is_due):
        cpu.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=16 + n, expires=cpu.now + 336_100)
        cpu.timer(333_000)
    if is_due:
        cpu.add(100, "hrtimer_start", "quiet", hrtimer=90, expires=cpu.now + 203_100)
    cpu.enter()
    start = cpu.now
    cpu.leave(start + 200_000)
    cpu.interrupt(19, "arch_timer")
    cpu.timer(300_000)
    due = cpu.now - 5000 - 2200
    found, _, _ = rows(write(tmp_path / "a.dat", cpu))
    one, two = found[-2:].to_dicts()
    assert one["start_ns"] == start and one["known"] == two["known"] == KNOWN
    assert one["timer_ns"] == (200_000 if is_due else due - start)
    assert bool(one["flags"] & columns.TIMER) == is_due
    assert bool(two["flags"] & columns.CONTINUED) != is_due


def test_without_a_grid_timers_end_intervals_all_the_same(tmp_path: Path) -> None:
    cpu = Arm()
    for n in range(8):
        cpu.timer(333_000 + 1000 * n)
        cpu.device(250_000)
    found, _, _ = rows(write(tmp_path / "a.dat", cpu))
    assert set(found["tick_phase_ns"]) == {-1}
    assert [bool(flags & columns.TIMER) for flags in found["flags"]] == 8 * [True, False]


def hidden_tick(cpu: Arm, gap: int, *softirqs: int) -> None:
    """Be idle until the next tick, whose handler runs before the exit, and enter after a gap."""
    cpu.add(gap, "cpu_idle", state=0, cpu_id=0)
    cpu.now = cpu.next_tick() - 700
    cpu.interrupt(19, "arch_timer", *softirqs)
    cpu.add(100, "cpu_idle", state=EXIT, cpu_id=0)


def test_a_task_that_nothing_shows_takes_longer_than_the_loop(tmp_path: Path) -> None:
    """Most ticks wake a task here; some do not."""
    cpu = Arm()
    for _ in range(60):
        hidden_tick(cpu, 9000, 7)
        cpu.work()
    for _ in range(15):
        for gap in (3000, 3100, 9000, 9000, 9000):
            hidden_tick(cpu, gap)
    hidden_tick(cpu, 3000, 1)
    found, _, _ = rows(write(tmp_path / "a.dat", cpu))
    assert found["periods"].to_list()[-45:] == 14 * [1, 1, 3] + [1, 1, 2]


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_timer_that_a_task_arms_shows_that_it_ran(is_seen: bool, tmp_path: Path) -> None:
    cpu = Arm()
    cpu.learn()
    for n in range(4):
        cpu.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=16 + n, expires=cpu.now + 336_100)
        cpu.timer(333_000)
    cpu.tick(7)
    if is_seen:
        cpu.add(2000, "hrtimer_start", "hrtimer_wakeup", hrtimer=30, expires=cpu.now + 305_000,
                pid=7)  # fmt: skip
    cpu.timer(300_000)
    assert rows(write(tmp_path / "a.dat", cpu))[0]["periods"][-1] == (1 if is_seen else 2)


# ---- RCU, which holds the tick ----


def in_a_grace_period(cpu: Arm, sleep: int = 0, ticks: int = 1) -> None:
    """Let RCU show at two ticks; an interrupt and ticks that serve nothing lie between them.

    Args:
        cpu: what is recorded.
        sleep: ns of a sleep after the interrupt; 0: none.
        ticks: that serve nothing.
    """
    cpu.tick(9)
    cpu.work()
    cpu.device(100_000)
    if sleep:
        cpu.timer(sleep)
    for _ in range(ticks):
        cpu.tick(state=1)
    cpu.tick(9)
    cpu.work()


def woken(path: Path) -> dict[str, int]:
    """Return the last interval that a device ended, and the time to the tick as `to_tick`."""
    last = rows(path)[0].filter(pl.col("cause") == cause_events.DEVICE).to_dicts()[-1]
    return last | {"to_tick": TICK - last["start_ns"] % TICK}


def test_rcu_holds_the_ticks_between_two_that_show_it(tmp_path: Path) -> None:
    cpu = Arm()
    cpu.learn()
    in_a_grace_period(cpu, ticks=2)
    path = write(tmp_path / "a.dat", cpu)
    device = woken(path)
    assert (device["known"], device["least_ns"]) == (KNOWN, device["to_tick"])
    for tick in rows(path)[0].tail(3).to_dicts():
        assert (tick["known"], tick["periods"]) == (KNOWN, 1)
        assert tick["timer_ns"] == columns.TIMER_TICK - tick["length_ns"]


@pytest.mark.parametrize(
    ("sleep", "ticks"),
    [
        (1_700_000, 1),  # the tick was stopped
        (0, 5),  # the two are too far apart
    ],
)
def test_rcu_holds_no_other_tick(sleep: int, ticks: int, tmp_path: Path) -> None:
    cpu = Arm()
    cpu.learn()
    for _ in range(3):
        in_a_grace_period(cpu)
    in_a_grace_period(cpu, sleep, ticks)
    assert woken(write(tmp_path / "a.dat", cpu))["known"] == BOUNDED


def test_rcu_holds_no_tick_after_the_last_that_shows_it(tmp_path: Path) -> None:
    """Ticks of a clock that tells the time of day have great numbers."""
    cpu = Arm()
    cpu.now = 1_800_000_000 * 10**9
    cpu.learn()
    in_a_grace_period(cpu)
    cpu.device(100_000)
    assert woken(write(tmp_path / "a.dat", cpu))["known"] == BOUNDED


def test_callbacks_that_are_offloaded_hold_no_tick(tmp_path: Path) -> None:
    """The CPU stops its tick between ticks at which RCU shows."""
    cpu = Arm()
    cpu.learn()
    for _ in range(4):
        in_a_grace_period(cpu, 2_700_000, ticks=0)
    in_a_grace_period(cpu)
    assert woken(write(tmp_path / "a.dat", cpu))["known"] == BOUNDED


def cancelled_timers(cpu: Arm, *softirqs: int) -> None:
    """Let an interrupt of a timer come that was cancelled: nothing runs after it."""
    for _ in range(4):
        cpu.tick(*softirqs, state=1)
        cpu.tick(state=1)
        cpu.enter()
        cpu.leave(cpu.now + 400_000)
        cpu.interrupt(19, "arch_timer")


def test_a_cancelled_timer_tells_while_rcu_holds_the_tick(tmp_path: Path) -> None:
    """The kernel tells governors when the clock's device expires then, whatever it is for."""
    for softirqs, known in (((), 0), ((9,), 4)):
        cpu = Arm()
        cpu.learn()
        for _ in range(20):
            cpu.tick()
        cancelled_timers(cpu, *softirqs)
        cpu.tick(*softirqs)
        cpu.work()
        found = rows(write(tmp_path / f"{known}.dat", cpu))[0]
        assert found.filter(pl.col("timer_ns").is_between(390_000, 410_000)).height == known


# ---- hrtimers ----


def test_an_hrtimer_whose_interrupt_came_late_was_due_before(tmp_path: Path) -> None:
    cpu = Arm()
    cpu.learn()
    for late in (0, 0, 0, 41_000):
        cpu.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=16, expires=cpu.now + 336_100)
        cpu.timer(333_000, late=late)
    last = rows(write(tmp_path / "a.dat", cpu))[0].to_dicts()[-1]
    assert (last["known"], last["timer_ns"]) == (KNOWN, 333_000)


def test_hrtimers_tell_what_a_device_left_open(tmp_path: Path) -> None:
    cpu = Arm()
    cpu.learn()
    for n in range(4):
        cpu.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=16 + n, expires=cpu.now + 336_100)
        cpu.timer(333_000)
    due = cpu.now + 5 * MS
    cpu.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=99, expires=due)
    cpu.device(250_000)
    cpu.add(100, "hrtimer_cancel", hrtimer=99)
    cpu.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=98, expires=cpu.now + 7 * MS)
    cpu.device(250_000)
    found, _, _ = rows(write(tmp_path / "a.dat", cpu))
    one, two = found[-2:].to_dicts()
    assert one["known"] == two["known"] == KNOWN
    assert one["start_ns"] + one["timer_ns"] == due
    assert two["timer_ns"] > 6 * MS


def timer_of_another(place: int, other: int, is_cancelled: bool) -> tuple[Arm, Arm, int]:
    """Return a CPU with a timer, another CPU that may cancel it, and when it is due."""
    lines = (MACHINE.replace("0-3", "0-63"), KERNEL)
    cpu, far = Arm(place, lines), Arm(other, ())
    cpu.learn()
    for n in range(4):
        cpu.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=16 + n, expires=cpu.now + 336_100)
        cpu.timer(333_000)
    due = cpu.now + 5 * MS
    cpu.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=99, expires=due)
    cpu.add(100, "hrtimer_start", "hrtimer_wakeup", hrtimer=98, expires=due + 2 * MS)
    if is_cancelled:
        far.add(cpu.now + 100 - far.now, "hrtimer_cancel", hrtimer=99)
    cpu.device(250_000)
    return cpu, far, due


@pytest.mark.parametrize(("place", "other"), [(0, 1), (63, 5), (20, 63)])
def test_a_cpu_loses_timers_to_each_of_many_others(place: int, other: int, tmp_path: Path) -> None:
    for is_cancelled, later in ((False, 0), (True, 2 * MS)):
        cpu, far, due = timer_of_another(place, other, is_cancelled)
        idle = [Arm(n, ()) for n in range(64) if n not in (place, other)]
        for one in (far, *idle):
            one.tick(7)
        path = write(tmp_path / f"{is_cancelled}.dat", cpu, far, *idle)
        last = last_of(path, place)
        assert (last["known"], last["start_ns"] + last["timer_ns"]) == (KNOWN, due + later)


def test_a_timer_that_another_cpu_arms_is_there(tmp_path: Path) -> None:
    cpu, far, due = timer_of_another(40, 30, False)
    far.add(cpu.now - 200_000 - far.now, "hrtimer_start", "hrtimer_wakeup", hrtimer=99,
            expires=due + 9 * MS)  # fmt: skip
    cpu.device(250_000)
    far.add(cpu.now + 100 - far.now, "hrtimer_cancel", hrtimer=99)
    cpu.device(250_000)
    last = last_of(write(tmp_path / "a.dat", cpu, far), 40)
    assert (last["known"], last["start_ns"] + last["timer_ns"]) == (KNOWN, due + 2 * MS)


# ---- Drawing ----


def test_lengths_are_drawn_beyond_their_bounds_and_alike_each_time() -> None:
    rng = np.random.default_rng(5)
    length = rng.integers(1, 10 * MS, 2000)
    known = rng.random(2000) < 0.4
    one, two = (sleeps.drawn(length, known, 3) for _ in range(2))
    assert (one == two).all() and (one != sleeps.drawn(length, known, 4)).any()
    assert (one[known] == length[known]).all() and (one[~known] > length[~known]).all()
    assert (sleeps.far(length, known)[~known] >= sleeps.FAR_NS).all()


def test_drawn_lengths_have_the_distribution_of_the_known() -> None:
    """Of censored exponential times, those drawn have the mean of all, not of the short known."""
    rng = np.random.default_rng(6)
    fact, censor = (rng.exponential(MS, 6000).astype(np.int64) + 1 for _ in range(2))
    known = fact <= censor
    drawn = sleeps.drawn(np.minimum(fact, censor), known, 1)
    near = drawn < sleeps.FAR_NS
    assert near.mean() > 0.95
    assert drawn[near].mean() == pytest.approx(fact.mean(), rel=0.1)
