# SPDX-License-Identifier: GPL-2.0
"""Processes of a clone: their parent forks and reaps them, and RCU has work after them."""

import shutil
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.clone import program
from cpuidle_lab.clone.drafts import Draft
from cpuidle_lab.clone.lanes import split
from cpuidle_lab.clone.program import Joint, Kind, Program, Step, Task
from tests.unit.test_clone import BEGIN, END, HEAD, PATH, Recording, lines
from tests.unit.test_clone_objects import played


def family(state: str, *, waits: bool = True, more_us: int = 0) -> Program:
    """Return the clone of a shell, task 1, and its child, which ends in a state.

    Args:
        state: of the child in the end.
        waits: the shell sleeps until the child wakes it.
        more_us: work of the child from then to its end, beside 5 us.
    """
    made = Recording()
    made.mark(0, BEGIN)
    made.add(50, "sh-9", "sched_wakeup_new: comm=sh pid=12 prio=120 target_cpu=000", 1)
    made.switch(55, "swapper/0-0", "sh-12", "R")
    if waits:
        made.switch(60, "sh-9", "swapper/1-0", cpu=1)
        made.wake(90, "sh-12", "sh-9")
    if not more_us:
        made.switch(95, "sh-12", "swapper/0-0", state)
    if waits:
        made.switch(100, "swapper/1-0", "sh-9", "R", cpu=1)
    # A third task gives the governors something to do.
    made.expire(110)
    made.wake(111, "<idle>-0", "c-3", "d.h3.")
    made.expired(112)
    if more_us:
        made.switch(95 + more_us, "sh-12", "swapper/0-0", state)
    made.mark(130 + more_us, END)
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


@pytest.mark.parametrize("wakes", [True, False])
def test_a_task_of_before_the_program_that_wakes_others_is_resident(wakes: bool) -> None:
    made = Recording()
    made.mark(0, BEGIN)
    for us, by, pid in ((50, "sh-9", 12), (150, "server-5", 13)):
        made.add(us, by, f"sched_wakeup_new: comm=new pid={pid} prio=120 target_cpu=000", 1)
        name = by.split("-")[0]
        made.switch(us + 5, "swapper/0-0", f"{name}-{pid}", "R")
        made.switch(us + 45, f"{name}-{pid}", "swapper/0-0")
    if wakes:
        made.wake(250, "server-5", "sh-12", cpu=1)
        made.wake(260, "sh-12", "server-13")
    made.expire(330)
    made.wake(331, "<idle>-0", "server-5", "d.h3.")
    made.expired(332)
    made.mark(350, END)
    tasks = made.program(shared=False).tasks
    assert [lines(task)[0] for task in tasks if task.resident] == ["until 0"] * wakes
    assert [task.name for task in tasks if task.resident] == ["server"] * wakes


def test_a_post_long_before_the_exit_is_no_notice_of_it() -> None:
    made = family("Z", more_us=200)
    assert lines(made.tasks[0]) == ["run 35000", "post 1", "run 203000", "exit"]
    assert lines(made.tasks[1])[2:5] == ["fork 0", "run 10000", "wait"]


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
    assert lines(a) == ["until 0", "run 18000", "exit"]
    assert a.process == (state == "Z")


def test_lanes_keep_work_of_rcu() -> None:
    polls = [Draft(Kind.LANE), Draft(Kind.RUN, 5, rcu_ns=930), Draft(Kind.RUN, 2, rcu_ns=6)]
    found = split([*polls, Draft(Kind.READ, 9, end=1)])
    assert [one.kind for one in found] == [Kind.LANE, Kind.ON, Kind.RUN, Kind.READ]
    assert (found[2].value, found[2].rcu_ns) == (7, 936)


def test_lanes_keep_forks_and_exits_and_do_them_once() -> None:
    poll, fork = Draft(Kind.LANE), Draft(Kind.FORK, 7)
    calls = [Draft(Kind.READ, 9, end=1), Draft(Kind.WRITE, 9, end=1)]
    kinds = [one.kind for one in split([poll, *calls, poll, fork, Draft(Kind.EXIT)])]
    assert kinds[-4:] == [Kind.LANE, Kind.AFTER, Kind.FORK, Kind.EXIT]
    turn = [poll, *calls, fork]
    assert Kind.AGAIN not in [one.kind for one in split(turn * 3)]
    assert Kind.AGAIN in [one.kind for one in split([poll, *calls] * 3)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (["fork 1", "fork 1", "end", "task 1 b 120 0 process"], "'fork 1' of a forks it once more"),
        (["end", "task 1 b 120 0 process", "fork 1"], "'fork 1' of b forks it once more"),
        (["reap 1", "fork 1", "end", "task 1 b 120 0 process", "exit"], "that it has not forked"),
        (["fork 1", "reap 1", "end", "task 1 b 120 0 process"], "that has no exit"),
        (["write 0 5", "end"], "a uses end 0, which is none"),
    ],
)
def test_processes_that_cannot_be_played_are_refused(text: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        program.parse([*HEAD, *text], PATH)
    assert sentence in error.value.message


@pytest.mark.skipif(not shutil.which("cc"), reason="no compiler")
def test_no_process_is_left_whatever_it_does_when_the_workload_ends(tmp_path: Path) -> None:
    sleep, forever = Step(Kind.SLEEP, 1_000_000), [Step(Kind.WAIT)]
    children = range(2, 62)
    forks = [Step(Kind.FORK, child) for child in children]
    tasks = [
        Task("a", steps=[sleep, *forks]),
        Task("b", cpu=1, steps=[Step(Kind.UNTIL, 3_000_000), Step(Kind.END)]),
        *(Task("child", steps=forever, process=True) for _ in children),
    ]
    # A process that is left would hold the output open, and the test would wait for it.
    done = played(Program("x", "menu", 10**9, 0, tasks), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which("cc"), reason="no compiler")
def test_a_polling_process_exits_from_a_lane(tmp_path: Path) -> None:
    client = [Step(Kind.LANE), Step(Kind.AFTER, 1), Step(Kind.RUN, 100), Step(Kind.EXIT)]
    parent = [Step(Kind.FORK, 1), Step(Kind.REAP, 1), Step(Kind.END)]
    tasks = [Task("a", steps=parent), Task("process-exporte", steps=client, process=True)]
    done = played(Program("x", "menu", 10**9, 0, tasks, joints=[Joint()]), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which("cc"), reason="no compiler")
def test_a_process_that_fails_fails_the_clone(tmp_path: Path) -> None:
    # End 3 belongs to no connection: the player reads its own input, which is empty.
    reads = [Step(Kind.READ, 5, end=3), Step(Kind.EXIT)]
    tasks = [Task("a", steps=[Step(Kind.SLEEP, 300_000_000), Step(Kind.END)]),
             Task("b", steps=reads, process=True)]  # fmt: skip
    made = Program("x", "menu", 10**9, 0, tasks, joints=[Joint()])
    done = played(made, tmp_path)
    assert done.returncode == 1
    assert "a pipe or socket fails" in done.stderr
