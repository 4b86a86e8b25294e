# SPDX-License-Identifier: GPL-2.0
"""Clones keep what tasks leave behind: work at the end of the phase, and work of RCU at exits."""

from cpuidle_lab.clone import calibrate
from cpuidle_lab.clone.program import Kind, Program, Step, Task
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
        steps = [Step(Kind.RUN, 5), Step(Kind.EXIT)]
        tasks = [Task("a", steps=[*steps], process=True) for _ in range(20)]
        return Program("x", "menu", 1, 0, tasks, rcu_ns=1000 * us)

    def queued(made: Program) -> set[str]:
        return {" ".join(lines(task)) for task in made.tasks}

    once = calibrate.freeing(of(500), of(100))
    assert queued(once) == {"run 5 rcu 20 exit"}
    assert queued(calibrate.freeing(once, of(600))) == {"run 5 rcu 15 exit"}
    assert queued(calibrate.freeing(of(100), of(500))) == {"run 5 exit"}
    few = Program("x", "menu", 1, 0, of(500).tasks[:19], rcu_ns=500_000)
    assert queued(calibrate.freeing(few, of(0))) == {"run 5 exit"}
