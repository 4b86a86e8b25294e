# SPDX-License-Identifier: GPL-2.0
"""Processes of a clone: their parent forks and reaps them, and RCU has work after them."""

import pytest

from cpuidle_lab.clone.program import Program
from tests.unit.test_clone import BEGIN, END, Recording, lines


def family(state: str, *, waits: bool = True) -> Program:
    """Return the clone of a shell, task 1, and its child, which ends in a state."""
    made = Recording()
    made.mark(0, BEGIN)
    made.add(50, "sh-9", "sched_wakeup_new: comm=sh pid=12 prio=120 target_cpu=000", 1)
    made.switch(55, "swapper/0-0", "sh-12", "R")
    if waits:
        made.switch(60, "sh-9", "swapper/1-0", cpu=1)
        made.wake(90, "sh-12", "sh-9")
    made.switch(95, "sh-12", "swapper/0-0", state)
    if waits:
        made.switch(100, "swapper/1-0", "sh-9", "R", cpu=1)
    # A third task gives the governors something to do.
    made.expire(110)
    made.wake(111, "<idle>-0", "c-3", "d.h3.")
    made.expired(112)
    made.mark(130, END)
    return made.program(shared=False)


def test_a_process_is_forked_and_reaped_by_its_parent() -> None:
    made = family("Z")
    child, shell = made.tasks[:2]
    assert lines(shell) == ["until 0", "run 50000", "fork 0", "run 10000", "reap 0", "run 30000",
                            "end"]  # fmt: skip
    assert lines(child) == ["run 40000", "exit"]
    assert (shell.process, child.process) == (False, True)
    assert "task 0 sh 120 0 process" in made.text()


def test_a_thread_or_a_child_that_lives_on_is_posted_to() -> None:
    made = family("X")
    assert lines(made.tasks[1])[2] == "post 0"
    assert lines(made.tasks[0]) == ["wait", "run 35000", "post 1", "run 5000", "exit"]
    assert not made.tasks[0].process
    assert "exit" not in lines(family("S").tasks[0])


def test_a_parent_that_does_not_wait_reaps_no_child() -> None:
    made = family("Z", waits=False)
    assert lines(made.tasks[1])[2:] == ["fork 0", "run 80000", "end"]
    assert lines(made.tasks[0]) == ["run 40000", "exit"]


@pytest.mark.parametrize("state", ["Z", "X"])
def test_a_task_of_before_the_phase_is_there_at_its_beginning(state: str) -> None:
    made = Recording()
    made.mark(0, BEGIN)
    made.expire(5)
    made.wake(6, "<idle>-0", "c-3", "d.h3.")
    made.expired(7)
    made.switch(20, "a-1", "swapper/0-0", state)
    made.mark(30, END)
    a = next(task for task in made.program(shared=False).tasks if task.name == "a")
    assert lines(a) == ["until 0", "run 20000", "exit"]
    assert a.process == (state == "Z")


@pytest.mark.parametrize(("rounds", "shows", "count"), [(30, 30, 30), (30, 12, 0), (12, 12, 0)])
def test_a_task_queues_work_of_rcu_if_most_ticks_after_it_show_some(
    rounds: int, shows: int, count: int
) -> None:
    made = Recording()
    made.mark(0, BEGIN)
    for turn in range(rounds):
        us = 4000 * turn
        made.expire(us + 100)
        made.wake(us + 101, "<idle>-0", "a-1", "d.h3.")
        made.expired(us + 102)
        made.switch(us + 105, "swapper/0-0", "a-1", "R")
        made.switch(us + 150, "a-1", "swapper/0-0")
        # The next tick comes after none of its runs.
        for at in (2000, 3000):
            made.expire(us + at, "0xb", "tick_nohz_handler")
            if turn < shows:
                made.add(us + at, "<idle>-0", "softirq_raise: vec=9 [action=RCU]", flags="d.h1.")
            made.expired(us + at + 1, "0xb")
    made.mark(4000 * rounds, END)
    task = next(task for task in made.program(shared=False).tasks if task.name == "a")
    assert lines(task).count("rcu") == count
    # It stands behind the work, before the sleep.
    assert count == 0 or lines(task)[2:4] == ["run 45000", "rcu"]
