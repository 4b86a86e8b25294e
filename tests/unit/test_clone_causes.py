# SPDX-License-Identifier: GPL-2.0
"""Clones keep what tasks leave behind: work at the end of the phase, and work of RCU at exits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab.clone import build, calibrate, events, session
from cpuidle_lab.clone.play import ClonePlan
from cpuidle_lab.clone.program import TICK_NS, Kind, Program, Step, Task
from cpuidle_lab.clone.session import Place, Regime
from tests.unit.test_clone import BEGIN, END, Recording, lines


def task_of(made: Program, name: str) -> Task:
    """Return the task of a name."""
    return next(task for task in made.tasks if task.name == name)


def test_work_of_a_task_that_waits_for_its_cpu_at_the_end_is_kept() -> None:
    made = Recording()
    made.mark(0, BEGIN)
    made.expire(1, function="tick")
    made.switch(10, "swapper/0-0", "a-1", "R")
    made.switch(60, "a-1", "b-2", "R")
    made.arm(70, "b-2", 20)
    made.switch(80, "b-2", "swapper/0-0")
    made.expire(95)
    made.wake(96, "<idle>-0", "b-2", "d.h3.")
    made.mark(100, END)
    assert lines(task_of(made.program(shared=False), "a"))[1:] == ["run 50000"]


def _softirq(made: Recording, us: float, length_us: float, who: str = "<idle>-0") -> None:
    """Let a softirq of RCU run."""
    made.add(us, who, "softirq_entry: vec=9 [action=RCU]", flags="..s1.")
    made.add(us + length_us, who, "softirq_exit: vec=9 [action=RCU]", flags="..s1.")


def _tick(made: Recording, us: float, who: str = "<idle>-0") -> None:
    made.expire(us, "0xb", "tick_nohz_handler", who)
    made.expired(us + 1, "0xb")


def test_interrupts_are_no_work_of_the_task_that_they_interrupt() -> None:
    made = Recording()
    made.mark(0, BEGIN)
    made.switch(10, "swapper/0-0", "a-1", "R")
    made.expire(50, who="a-1")
    made.expired(53)
    # A second timer of one interrupt: the time between them is the interrupt's.
    made.expire(50, "0xc", who="a-1")
    made.lines[-1] = made.lines[-1].replace("1.000050000", "1.000054000")
    made.expired(60, "0xc")
    made.expire(61)
    made.expired(62)
    _softirq(made, 63, 7, "a-1")
    made.add(80, "a-1", "softirq_entry: vec=3 [action=NET_RX]", flags="..s1.")
    made.add(85, "a-1", "softirq_exit: vec=3 [action=NET_RX]", flags="..s1.")
    made.switch(100, "a-1", "swapper/0-0")
    made.expire(110)
    made.wake(111, "<idle>-0", "c-3", "d.h3.")
    made.mark(120, END)
    # Of 90 us two interrupts take 10 and 1, RCU 7. The packets are the task's.
    assert lines(task_of(made.program(shared=False), "a"))[1] == "run 72000"


def test_the_time_between_interrupts_is_work() -> None:
    made = Recording()
    made.mark(0, BEGIN)
    made.switch(10, "swapper/0-0", "a-1", "R")
    _tick(made, 1000, "a-1")
    # A device tells no timer, so nothing but the time tells its interrupts apart.
    for us in (2500, 3500):
        made.add(us, "a-1", "softirq_raise: vec=3 [action=NET_RX]", flags="d.h1.")
        made.wake(us + 2, "a-1", "c-3", "d.h3.")
    made.switch(4010, "a-1", "swapper/0-0")
    made.mark(4100, END)
    work = sum(step.value for step in task_of(made.program(shared=False), "a").steps)
    assert work == 4_000_000 - 1000 - 2 * 2000


def _freed(ticks: list[int], served: int, length_us: float, *, state: str = "S") -> list[str]:
    """Return the steps of a task that runs once after a tick; RCU works after one of the next.

    The program has the time of that work, also where no task queued it.
    """
    made = Recording()
    made.mark(0, BEGIN)
    _tick(made, 500)
    made.switch(1000, "swapper/0-0", "a-1", "R")
    made.switch(1100, "a-1", "swapper/0-0", state)
    for us in ticks:
        _tick(made, us)
        if us == served:
            _softirq(made, us + 10, length_us)
    made.expire(60_000)
    made.wake(60_001, "<idle>-0", "c-3", "d.h3.")
    made.mark(61_000, END)
    found = made.program(shared=False)
    assert round(found.rcu_ns) == 1000 * (length_us - 1)
    return lines(task_of(found, "a"))


@pytest.mark.parametrize(
    ("served", "length_us", "steps"),
    [
        (8500, 31, ["run 50000", "rcu 50", "run 50000"]),
        (12_500, 31, ["run 50000", "rcu 50", "run 50000"]),
        # The callbacks of this tick are older than the run.
        (4500, 31, ["run 100000"]),
        # Without work RCU's softirq takes 1 us.
        (8500, 1, ["run 100000"]),
    ],
)
def test_a_task_queues_the_work_that_rcu_does_at_a_later_tick(
    served: int, length_us: float, steps: list[str]
) -> None:
    assert _freed([4500, 8500, 12_500], served, length_us) == ["until 0", *steps]


def test_a_tick_that_was_stopped_shows_that_no_work_of_rcu_was_left() -> None:
    assert "rcu 50" in _freed([4500, 8500, 12_500], 12_500, 31)
    assert "rcu 50" not in _freed([4500, 12_500], 12_500, 31)


def test_a_task_that_ends_queues_its_work_before() -> None:
    assert _freed([4500, 8500], 8500, 31, state="X")[-3:] == ["rcu 50", "run 50000", "exit"]


@pytest.mark.parametrize(
    ("served", "steps"),
    [
        (4500, ["run 15565000"]),
        (8500, ["run 1750000", "rcu 50", "run 1750000", "run 12065000"]),
        (12_500, ["run 3500000", "run 1999500", "rcu 50", "run 1999500", "run 8066000"]),
        (16_500, ["run 7499000", "run 1999500", "rcu 50", "run 1999500", "run 4067000"]),
    ],
)
def test_a_task_that_runs_through_ticks_queues_its_work_at_one(
    served: int, steps: list[str]
) -> None:
    """A tick takes 1 us, and the softirq 31 us; both are no work of the task."""
    made = Recording()
    made.mark(0, BEGIN)
    _tick(made, 500)
    made.switch(1000, "swapper/0-0", "a-1", "R")
    made.arm(2000, "a-1", 19_000)
    for us in (4500, 8500, 12_500, 16_500):
        _tick(made, us, "a-1")
        if us == served:
            _softirq(made, us + 10, 31, "a-1")
    made.switch(16_600, "a-1", "swapper/0-0")
    made.expire(21_000)
    made.wake(21_001, "<idle>-0", "a-1", "d.h3.")
    made.expired(21_002)
    made.mark(22_000, END)
    assert lines(task_of(made.program(shared=False), "a"))[1:-1] == steps


def test_a_first_run_corrects_the_work_of_rcu() -> None:
    def of(*counts: int, lost: int = 0) -> Program:
        """Return a program whose softirqs did so much; that of `lost` has no step."""
        steps = [one for n in counts for one in (Step(Kind.RUN, 5), Step(Kind.RCU, n))]
        tasks = [Task("a", steps=[*steps, Step(Kind.EXIT)])]
        return Program("x", "menu", 1, 0, tasks, rcu_ns=600 * (sum(counts) + lost))

    def queued(mine: Program, most: list[Program], least: list[Program]) -> list[int]:
        made = calibrate.freeing(mine, calibrate.share_of(mine, most, least))
        return [step.value for step in made.tasks[0].steps if step.kind is Kind.RCU]

    none = [of()]
    assert queued(of(80, 20, 1), [of(101)], none) == [80, 20, 1]
    # The clone had half as much more, on the mean; then as much less.
    assert queued(of(80, 20), [of(160), of(140)], none) == [53, 13]
    assert queued(of(80, 20), [of(50), of(50)], none) == [160, 40]
    assert queued(of(80, 20, 1), [of(300)], none) == [27, 7]
    assert queued(of(80, 20), [of(1)], none) == [160, 40]
    # Softirqs count whose task is not known.
    assert queued(of(80, 20), [of(20, lost=180)], none) == [40, 10]
    # The calls of the clone queue half of it, or more than all.
    assert queued(of(80, 20), [of(150)], [of(50)]) == [40, 10]
    assert queued(of(80, 20), [of(220)], [of(120)]) == []
    assert queued(of(), [of(300)], [of(300)]) == []
    assert queued(of(), none, none) == []


def test_costs_lie_between_those_with_and_without_the_work_of_rcu() -> None:
    most: calibrate.OwnCosts = {(0, "SS"): 500.0, (0, "BF"): [300.0, 900.0], (1, "SS"): 7.0}
    least: calibrate.OwnCosts = {(0, "SS"): 100.0, (0, "BF"): [100.0, 100.0], (2, "SS"): 8.0}
    found = {(0, "SS"): 200.0, (0, "BF"): [150.0, 300.0], (1, "SS"): 7.0, (2, "SS"): 8.0}
    assert calibrate.between(most, least, 0.25) == found


def test_the_time_to_queue_work_of_rcu_is_taken_out_of_the_work_behind_it() -> None:
    steps = [Step(Kind.RUN, 90_000), Step(Kind.RCU, 20), Step(Kind.SLEEP, 5),
             Step(Kind.RUN, 50_000), Step(Kind.RUN, 9000)]  # fmt: skip
    made = calibrate.without(Program("x", "menu", 1, 0, [Task("a", steps=steps)]), {})
    assert lines(made.tasks[0]) == ["run 90000", "rcu 20", "sleep 5", "run 20200", "run 9000"]


def test_a_piece_with_work_of_rcu_within_is_one_piece() -> None:
    parts = [Step(Kind.RUN, 500), Step(Kind.RCU, 1), Step(Kind.RUN, 40_000)]
    task = Task("a", steps=[Step(Kind.POST, 1), *parts, Step(Kind.WAIT)])
    assert calibrate.pieces(task) == {"PW": [40_500]}
    made = calibrate.without(Program("x", "menu", 1, 0, [task]), {"PW": 900.0})
    # The first part is too short for the cost, so the next one gives the rest.
    assert lines(made.tasks[0])[1:4] == ["run 0", "rcu 1", "run 38110"]


def test_exits_are_corrected_by_their_mean_and_other_pieces_by_their_median() -> None:
    def of(name: str, lengths: list[int]) -> Program:
        steps = [
            Step(Kind.SLEEP, 5),
            *(one for n in lengths for one in (Step(Kind.RUN, n), Step(Kind.EXIT))),
        ]
        return Program("x", "menu", 1, 0, [Task(name, steps=steps, process=True)])

    few, many = [1000] * 20 + [1000] * 10, [1000] * 20 + [4000] * 10
    (cost,) = calibrate.corrected(of("a", few), [of("c0", many)], {}).values()
    assert cost == 1000
    sleeps = [[Step(Kind.SLEEP, 5), Step(Kind.RUN, n)] for n in many]
    other = Program("x", "menu", 1, 0, [Task("c0", steps=[one for two in sleeps for one in two])])
    mine = Program(
        "x", "menu", 1, 0, [Task("a", steps=[Step(Kind.SLEEP, 5), Step(Kind.RUN, 1000)] * 30)]
    )
    assert calibrate.corrected(mine, [other], {}) == {(0, "SS"): 0}


def test_the_birth_of_a_process_has_a_cost_of_its_own() -> None:
    life = [Step(Kind.RUN, 300_000), Step(Kind.SLEEP, 5), Step(Kind.RUN, 150_000), Step(Kind.EXIT)]
    short = [Step(Kind.RUN, 500_000), Step(Kind.EXIT)]
    tasks = [Task("a", steps=[*steps], process=True) for steps in (life, short)]
    made = Program("x", "menu", 1, 0, tasks)
    assert [calibrate.pieces(task) for task in tasks] == [
        {"BS": [300_000], "SX": [150_000]}, {"BX": [500_000]},
    ]  # fmt: skip
    # A birth costs 95 us, with the sleep behind it 100.
    left = calibrate.without(made, {"SS": 5000, "BS": 100_000, "SX": 40_000})
    assert [lines(task)[0] for task in left.tasks] == ["run 200000", "run 365000"]
    assert lines(left.tasks[0])[2] == "run 110000"
    # One that was there before the phase sleeps first, and is not born in it.
    old = Task("a", steps=[Step(Kind.SLEEP, 5), *life], process=True)
    assert "BS" not in calibrate.pieces(old)


def test_a_clone_is_corrected_by_plays_at_few_points_of_the_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = [Step(Kind.RUN, 50_000), Step(Kind.RCU, 40), Step(Kind.SLEEP, 5)]
    recorded = Program("x", "menu", 1, 0, [Task("a", steps=steps * 20)], rcu_ns=480_000)
    shifts: list[int] = []

    def play(_place: Place, plans: list[ClonePlan], clones: list[Program], *_: Any) -> Path:
        shifts.extend(one.shift_ns for one in plans)
        assert ["rcu 40" in clone.text() for clone in clones] == [True, False]
        return Path("trace.dat")

    monkeypatch.setattr(session, "calibrated", lambda _: {})
    monkeypatch.setattr(session, "_record", play)
    monkeypatch.setattr(events, "read", lambda _: [])
    monkeypatch.setattr(events, "phases", lambda *_: shifts)
    nothing = replace(recorded, tasks=[Task("c0")], rcu_ns=0)
    plays = iter([recorded, *[nothing] * 5])
    monkeypatch.setattr(build, "build", lambda *_: next(plays))
    ((made,),) = session.corrected({Regime("menu"): [recorded]}, Place()).values()
    assert shifts == [*session.FEW_NS] * 2
    # One play of three had the work that was recorded, the others none.
    assert lines(made.tasks[0])[1] == "rcu 80"


def test_clones_of_several_recordings_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = [Program(f"{n}", "menu", 1, n, [Task("a")]) for n in range(session.REBUILT_MOST)]
    boots: list[list[tuple[int, int]]] = []

    def play(_place: Place, plans: list[ClonePlan], clones: list[Program], *_: Any) -> Path:
        numbers = [int(Path(one.command).name.removeprefix("clone") or 0) for one in plans]
        found = [(clones[number].start_ns, one.shift_ns)
                 for number, one in zip(numbers, plans, strict=True)]  # fmt: skip
        boots.append(found)
        return Path("trace.dat")

    monkeypatch.setattr(session, "calibrated", lambda _: {})
    monkeypatch.setattr(session, "_record", play)
    monkeypatch.setattr(session, "by_clone", lambda _: [])
    monkeypatch.setattr(events, "read", lambda _: [])
    monkeypatch.setattr(events, "phases", lambda *_: boots[-1])
    monkeypatch.setattr(build, "build", lambda *_: recorded[0])
    alone = [replace(recorded[0], start_ns=9)]
    made = session.corrected({Regime("menu"): recorded, Regime("teo_ng"): alone}, Place())
    each = [[one.start_ns for one in every] for every in made.values()]
    assert each == [[0, 1, 2], [9]]
    # Each begins where the first one does by that shift.
    turns = [(turn, (shift - turn) % TICK_NS) for turn, shift in enumerate(session.FEW_NS)]
    turns += [(9, shift) for shift in session.FEW_NS]
    assert boots == [turns * 2]
    session.played([*made.values()], [Regime("menu"), Regime("wteo")], Place())
    some = [(turn % 3, (shift - turn % 3) % TICK_NS)
            for turn, shift in enumerate(session.SHIFTS_NS)]  # fmt: skip
    assert boots[-1] == [*some * 2, *((9, shift) for shift in session.SHIFTS_NS)] + [
        (9, shift) for shift in session.SHIFTS_NS
    ]
