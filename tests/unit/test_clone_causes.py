# SPDX-License-Identifier: GPL-2.0
"""Clones keep what tasks leave behind: work at the end of the phase, and work of RCU at exits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab.clone import build, calibrate, events, session
from cpuidle_lab.clone.program import Kind, Program, Step, Task
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


def test_exits_leave_as_much_work_of_rcu_as_recorded() -> None:
    def of(us: int) -> Program:
        steps = [Step(Kind.RUN, 50_000), Step(Kind.EXIT)]
        tasks = [Task("a", steps=[*steps], process=True) for _ in range(20)]
        tasks.append(Task("empty", process=True))
        return Program("x", "menu", 1, 0, tasks, rcu_ns=1000 * us)

    def queued(made: Program) -> set[str]:
        return {" ".join(lines(task)) for task in made.tasks if task.steps}

    once = calibrate.freeing(of(500), of(100))
    assert queued(once) == {"run 50000 rcu 20 exit"}
    assert queued(calibrate.freeing(once, of(600))) == {"run 50000 rcu 15 exit"}
    assert queued(calibrate.freeing(of(100), of(500))) == {"run 50000 exit"}
    # The callbacks have no more time than the exit.
    assert queued(calibrate.freeing(of(5000), of(0))) == {"run 50000 rcu 50 exit"}
    few = Program("x", "menu", 1, 0, of(500).tasks[:19], rcu_ns=500_000)
    assert queued(calibrate.freeing(few, of(0))) == {"run 50000 exit"}


def test_the_time_of_rcus_softirqs_is_counted() -> None:
    made = Recording()
    made.mark(0, BEGIN)
    for us, vector, length in ((10, "9", 5), (20, "7", 3), (30, "9", 2)):
        made.add(us, "<idle>-0", f"softirq_entry: vec={vector} [action=X]", flags="..s1.")
        made.add(us + length, "<idle>-0", f"softirq_exit: vec={vector} [action=X]", flags="..s1.")
    made.arm(40, "a-1", 10)
    made.switch(41, "a-1", "swapper/0-0")
    made.expire(50)
    made.wake(51, "<idle>-0", "a-1", "d.h3.")
    made.mark(60, END)
    assert made.program(shared=False).rcu_ns == 7000


def test_exits_are_corrected_by_their_mean_and_other_pieces_by_their_median() -> None:
    def of(name: str, lengths: list[int]) -> Program:
        steps = [
            Step(Kind.SLEEP, 5),
            *(one for n in lengths for one in (Step(Kind.RUN, n), Step(Kind.EXIT))),
        ]
        return Program("x", "menu", 1, 0, [Task(name, steps=steps, process=True)])

    few, many = [1000] * 20 + [1000] * 10, [1000] * 20 + [4000] * 10
    (cost,) = calibrate.corrected(of("a", few), of("c0", many), {}).values()
    assert cost == 1000
    sleeps = [[Step(Kind.SLEEP, 5), Step(Kind.RUN, n)] for n in many]
    other = Program("x", "menu", 1, 0, [Task("c0", steps=[one for two in sleeps for one in two])])
    mine = Program(
        "x", "menu", 1, 0, [Task("a", steps=[Step(Kind.SLEEP, 5), Step(Kind.RUN, 1000)] * 30)]
    )
    assert calibrate.corrected(mine, other, {}) == {(0, "SS"): 0}


@pytest.mark.parametrize(("work_ns", "plays"), [(0, 1), (500_000, 2)])
def test_a_clone_whose_exits_get_work_of_rcu_is_corrected_twice(
    work_ns: int, plays: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [Step(Kind.RUN, 50_000), Step(Kind.EXIT)]
    tasks = [Task("a", steps=steps, process=True)] * 20
    recorded = Program("x", "menu", 1, 0, tasks, rcu_ns=work_ns)
    played: list[Program] = []

    def play(*words: Any) -> Path:
        played.extend(words[2])
        return Path("trace.dat")

    monkeypatch.setattr(session, "calibrated", lambda _: {})
    monkeypatch.setattr(session, "_record", play)
    monkeypatch.setattr(events, "read", lambda _: [])
    monkeypatch.setattr(events, "phases", lambda *_: [None])
    monkeypatch.setattr(build, "build", lambda *_: replace(recorded, rcu_ns=0))
    (made,) = session.corrected({Regime("menu"): recorded}, Place()).values()
    assert len(played) == plays
    assert ("rcu 50" in lines(made.tasks[0])) == (plays == 2), lines(made.tasks[0])
