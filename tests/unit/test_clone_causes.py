# SPDX-License-Identifier: GPL-2.0
"""Clones keep what tasks leave behind: work at the end of the phase."""

from cpuidle_lab.clone.program import Program, Task
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
