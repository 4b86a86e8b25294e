# SPDX-License-Identifier: GPL-2.0
"""Clones with pipes and sockets: calls are joined, become steps, and the player makes them."""

import resource
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.clone import calls, events, lanes, program
from cpuidle_lab.clone.drafts import Draft
from cpuidle_lab.clone.program import Joint, Kind, Program, Step, Task
from cpuidle_lab.host import capture
from cpuidle_lab.lab.programs import PLAYER, compiled
from tests.unit import recorded
from tests.unit.test_clone import BEGIN, END, PATH, Recording, lines

READ, WRITE, EPOLL, CLOSE = 0, 1, 232, 3


class Calls(Recording):
    """A recording with calls."""

    def enter(self, us: float, who: str, number: int, file: int = 0) -> None:
        """Let a task begin a call."""
        self.add(us, who, f"sys_enter: NR {number} ({file:x}, 7fff0000, 1, 0, 0, 0)", flags=".....")

    def leave(self, us: float, who: str, number: int, result: int) -> None:
        """Let it end."""
        self.add(us, who, f"sys_exit: NR {number} = {result}", flags=".....")

    def call(self, us: float, who: str, number: int, file: int = 0, result: int = 1) -> None:
        """Let a task make a call that takes 1 us."""
        self.enter(us, who, number, file)
        self.leave(us + 1, who, number, result)

    def sleeps(self, us: float, who: str, number: int, file: int = 0) -> None:
        """Let a task fall asleep in a call."""
        self.enter(us, who, number, file)
        self.switch(us + 1, who, "swapper/0-0")

    def woken(self, us: float, by: str, who: str, number: int, result: int = 1) -> None:
        """Let another task wake it, and the call end."""
        self.wake(us, by, who)
        self.switch(us + 2, "swapper/0-0", who, "R")
        self.leave(us + 4, who, number, result)


def full_pipe(rounds: int = 8) -> Calls:
    """Return a recording in which a writes to a pipe for one message, which b reads each 100 us.

    The file of a's number was another one before.
    """
    made = Calls()
    made.mark(0, BEGIN)
    made.expire(1, function="tick")
    made.switch(2, "swapper/0-0", "a-1", "R")
    made.call(3, "a-1", WRITE, 4, 164)
    made.call(5, "a-1", CLOSE, 4, 0)
    made.call(7, "a-1", WRITE, 4)
    made.sleeps(10, "a-1", WRITE, 4)
    for us in range(100, 100 * (rounds + 1), 100):
        made.switch(us, "swapper/0-0", "b-2", "R")
        if us == 100:
            made.call(us + 2, "b-2", EPOLL, 9)
        made.enter(us + 5, "b-2", READ, 3)
        made.wake(us + 5.5, "b-2", "a-1")
        made.switch(us + 7.5, "swapper/1-0", "a-1", "R", cpu=1)
        made.leave(us + 9.5, "a-1", WRITE, 1)
        made.sleeps(us + 20, "a-1", WRITE, 4)
        made.leave(us + 22, "b-2", READ, 1)
        # Another task writes elsewhere.
        made.switch(us + 25, "b-2", "o-3", "R")
        made.call(us + 26, "o-3", WRITE, 8)
        made.switch(us + 28, "o-3", "b-2", "R")
        made.arm(us + 29, "b-2", 60)
        made.switch(us + 30, "b-2", "swapper/0-0")
        made.expire(us + 90)
        made.wake(us + 91, "<idle>-0", "b-2", "d.h3.")
        made.expired(us + 92)
    made.mark(100 * (rounds + 1), END)
    return made


def test_a_pipe_has_room_for_as_much_as_was_under_way_when_its_writer_waited() -> None:
    (phase,) = events.phases(full_pipe().events(), PATH)
    joints, ends = calls.joined(phase.events)
    assert joints == [Joint(1)]
    assert ends == {(1, 4, 1): 0, (2, 3, 0): 1}


def test_a_read_that_began_before_the_phase_makes_no_room() -> None:
    made = full_pipe()
    # Of the first round, as if its call had begun before.
    place = next(n for n, line in enumerate(made.lines) if "sys_enter: NR 0 (3," in line)
    del made.lines[place]
    (phase,) = events.phases(made.events(), PATH)
    assert calls.joined(phase.events)[0] == [Joint(1)]


def test_calls_on_a_pipe_take_the_place_of_posts_and_waits() -> None:
    made = full_pipe().program(shared=False)
    a, b, *_ = made.tasks
    assert {step.kind for step in a.steps[2:]} == {Kind.RUN, Kind.WRITE}
    assert "write 0 1" in lines(a)
    assert "write 0 164" not in lines(a)
    # From the end of a call to the beginning of the next one.
    assert "run 10500" in lines(a)
    kinds = [step.kind for step in b.steps if step.kind is not Kind.RUN]
    assert kinds.count(Kind.READ) == kinds.count(Kind.SLEEP) == 8
    assert Kind.POST not in kinds
    # It polls once, which makes no lanes.
    assert Kind.LANE not in kinds


def served() -> Calls:
    """Return a recording of a server that polls two connections, and a client of both.

    The client asks the first one 500 us after each answer, and the second one 300 us after.
    """
    made = Calls()
    # The server polls before the phase begins.
    made.switch(-20, "swapper/0-0", "s-1", "R")
    made.sleeps(-10, "s-1", EPOLL, 9)
    made.mark(0, BEGIN)
    made.expire(1, function="tick")
    made.switch(10, "swapper/0-0", "c-2", "R")
    for us in range(1000, 10_000, 1000):
        for file, at in ((4, us), (5, us + 300)):
            made.arm(at - 400, "c-2", 400)
            made.sleeps(at - 390, "c-2", EPOLL, 8)
            made.expire(at)
            made.wake(at + 1, "<idle>-0", "c-2", "d.h3.")
            made.expired(at + 2)
            made.switch(at + 3, "swapper/0-0", "c-2", "R")
            made.leave(at + 5, "c-2", EPOLL, 0)
            made.enter(at + 10, "c-2", WRITE, file)
            made.add(at + 11, "c-2", "softirq_raise: vec=3 [action=NET_RX]")
            made.woken(at + 12, "c-2", "s-1", EPOLL)
            made.leave(at + 17, "c-2", WRITE, 44)
            made.sleeps(at + 18, "c-2", EPOLL, 8)
            made.call(at + 20, "s-1", READ, 10 + file, 44)
            made.enter(at + 50, "s-1", WRITE, 10 + file)
            made.woken(at + 52, "s-1", "c-2", EPOLL)
            made.leave(at + 57, "s-1", WRITE, 4096)
            made.sleeps(at + 60, "s-1", EPOLL, 9)
            made.call(at + 70, "c-2", READ, file, 4096)
    made.mark(10_000, END)
    return made


def test_a_task_that_polls_gets_a_lane_for_each_end() -> None:
    made = served().program(shared=False)
    assert made.joints == [Joint(), Joint()]
    server, client = (next(task for task in made.tasks if task.name == name) for name in "sc")
    for task in (server, client):
        assert lines(task).count("lane") == lines(task).count("again") == 2
    assert lines(server).count("on 1") == lines(client).count("read 0 4096") == 9
    first = lines(server)[lines(server).index("lane") :]
    assert first[1:6] == ["on 1", "run 4000", "read 1 44", "run 29000", "write 1 4096"]
    # From the end of the answer's read, where the lane last made a call, to the timer.
    assert [step.value for step in client.steps if step.kind is Kind.AFTER][1:3] == [1] * 2
    text = made.text()
    assert (
        program.parse(text.splitlines(), PATH).text()
        == "\n".join(line for line in text.splitlines(keepends=False) if not line.startswith("# "))
        + "\n"
    )


def test_each_poll_begins_a_turn_of_the_end_that_is_used_next() -> None:
    def ms(count: float) -> int:
        return round(count * 1_000_000)

    run = Draft(Kind.RUN, 5)
    steps = [
        Draft(Kind.LANE, at=ms(1)), run, Draft(Kind.READ, 7, end=1, at=ms(1)), run,
        Draft(Kind.LANE, at=ms(2)), run, Draft(Kind.READ, 7, end=1, at=ms(2)),
        # A timer, then a poll that does not sleep: the work of both goes before the write.
        Draft(Kind.LANE, ms(6), at=ms(9)), run, Draft(Kind.LANE, at=ms(9)), run,
        Draft(Kind.WRITE, 3, end=1, at=ms(9)), Draft(Kind.WRITE, 3, end=3, at=ms(9)),
        Draft(Kind.LANE, at=ms(11)), run, Draft(Kind.POST, 0),
    ]  # fmt: skip
    found = [(one.kind, one.value) for one in lanes.split(steps)]
    lane, read, write = (Kind.LANE, 0), (Kind.READ, 7), (Kind.WRITE, 3)
    assert found == [
        lane, (Kind.ON, 1), (Kind.RUN, 5), read, (Kind.RUN, 5), (Kind.ON, 1), (Kind.RUN, 5), read,
        (Kind.AFTER, 4), (Kind.RUN, 10), write,
        lane, (Kind.AFTER, 6), write,
        lane, (Kind.AFTER, 11), (Kind.RUN, 5), (Kind.POST, 0),
    ]  # fmt: skip


def test_work_of_a_timer_alone_is_a_lane_at_its_times() -> None:
    run, ms = Draft(Kind.RUN, 5), 1_000_000
    answer = [Draft(Kind.READ, 7, end=1, at=ms), run, Draft(Kind.WRITE, 3, end=1, at=ms)]
    steps = [
        Draft(Kind.LANE, at=ms), *answer, Draft(Kind.LANE, 53 * ms, at=54 * ms),
        Draft(Kind.RUN, 900), Draft(Kind.LANE, at=60 * ms), run, *answer,
        # The timer of the last poll expires after the phase.
        Draft(Kind.LANE, 153 * ms, at=0),
    ]  # fmt: skip
    found = [(one.kind, one.value) for one in lanes.split(steps)]
    last = len(found) - 1 - found[::-1].index((Kind.LANE, 0))
    assert found[last:] == [(Kind.LANE, 0), (Kind.AFTER, 53), (Kind.RUN, 900), (Kind.AFTER, 153)]
    assert found[:last].count((Kind.RUN, 5)) == 3
    assert (Kind.RUN, 900) not in found[:last]


def test_a_poll_that_lasts_at_the_end_keeps_its_timer() -> None:
    made, end = served(), Calls()
    made.lines.pop()
    end.wake(9900, "c-2", "s-1")
    end.switch(9910, "swapper/0-0", "s-1", "R")
    end.leave(9911, "s-1", EPOLL, 0)
    end.enter(9920, "s-1", EPOLL, 9)
    end.arm(9921, "s-1", 100_000)
    end.switch(9922, "s-1", "swapper/0-0")
    end.mark(10_000, END)
    made.lines += end.lines[1:]
    server = next(one for one in made.program(shared=False).tasks if one.name == "s")
    own = [(one.kind, one.value) for one in server.steps[-2:]]
    assert own == [(Kind.LANE, 0), (Kind.AFTER, 110)]


def test_a_task_that_exits_with_an_answer_lets_its_lane_begin_again() -> None:
    at = iter(range(1_000_000, 100_000_000, 1_000_000))
    run = Draft(Kind.RUN, 5)
    turn = [Draft(Kind.WRITE, 3, end=1), Draft(Kind.LANE), Draft(Kind.READ, 7, end=1), run]
    steps = [replace(step, at=next(at)) for _ in range(3) for step in (Draft(Kind.LANE), *turn)]
    found = lanes.split([*steps, Draft(Kind.POST, 0), run, Draft(Kind.EXIT)])
    kinds = [one.kind for one in found]
    last = kinds.index(Kind.LANE, 1)
    assert Kind.AGAIN in kinds[:last]
    assert kinds[last:] == [Kind.LANE, Kind.AFTER, Kind.RUN, Kind.POST, Kind.RUN, Kind.EXIT]
    # After the last read, whose time is that of the phase.
    assert found[last + 1].value == 14


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pipe 1 1", "'pipe 1 1' is not 'pipe 0"),
        ("pipe 0", "is not 'pipe 0' and its messages"),
        ("tcp 0 1", "is not 'tcp 0'"),
        ("tcp 0\ntask 0 a 120 0\nread 2 1\nend", "a uses end 2, which is none"),
        ("task 0 a 120 0\nlane\non 1\nend", "a uses end 1, which is none"),
        ("tcp 0\ntask 0 a 120 0\nwrite 0\nend", "too few"),
        ("tcp 0\ntask 0 a 120 0\non 1\nend", "a has the step 'on' in front of its lanes"),
        ("task 0 a 120 0\nlane\nend", "a lane of a does not begin with 'on' or 'after'"),
        ("task 0 a 120 0\nend\n" + "lane\nafter 1\n" * 402, "a has more than 401 lanes"),
    ],
)
def test_a_program_with_wrong_ends_is_refused(text: str, sentence: str) -> None:
    head = ["cpuidle-lab clone 1", "name x", "governor menu", "length 9", "start 0"]
    with pytest.raises(UserError, match=sentence):
        program.parse([*head, *text.splitlines()], PATH)


def played(made: Program, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Play a program."""
    if not shutil.which("cc"):
        pytest.skip("no compiler")
    path = folder / "x.clone"
    path.write_text(made.text())
    return subprocess.run([compiled(PLAYER), path, "0", "x"], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=False, timeout=60)  # fmt: skip


def test_a_writer_waits_where_its_pipe_is_full(tmp_path: Path) -> None:
    tasks = [Task("w", steps=[*[Step(Kind.WRITE, 1)] * 3, Step(Kind.END)]),
             Task("r", cpu=1, steps=[Step(Kind.READ, 1, end=1)])]  # fmt: skip
    # Patience lasts for some lengths: on a busy host, short ones are too few.
    for slots, code, length_ns in ((1, 1, 10**8), (2, 0, 10**10)):
        made = Program("x", "menu", length_ns, 0, tasks, joints=[Joint(slots)])
        done = played(made, tmp_path)
        assert done.returncode == code
        assert ("stuck" in done.stderr) == (code == 1)


def test_a_write_that_wakes_several_opens_a_gate() -> None:
    made = Calls()
    made.switch(-9, "b-2", "c-3")
    made.switch(-8, "c-3", "swapper/0-0")
    made.mark(0, BEGIN)
    made.expire(1, function="tick")
    made.switch(10, "swapper/0-0", "a-1", "R")
    made.enter(50, "a-1", WRITE, 7)
    made.wake(52, "a-1", "b-2")
    made.wake(55, "a-1", "c-3")
    made.leave(60, "a-1", WRITE, 1)
    made.switch(80, "a-1", "b-2")
    made.switch(90, "b-2", "c-3")
    made.switch(95, "c-3", "swapper/0-0")
    made.mark(100, END)
    found = {task.name: lines(task) for task in made.program(shared=False).tasks}
    assert found["a"][1:] == ["run 42000", "open 0", "run 25000"]
    assert found["b"] == ["pass 0", "run 10000"]
    assert found["c"] == ["pass 0", "run 5000"]
    # One alone is woken by a post.
    made.lines = [line for line in made.lines if "comm=c pid=3" not in line]
    found = {task.name: lines(task) for task in made.program(shared=False).tasks}
    assert "wait sync" in found["b"]
    text = "cpuidle-lab clone 1\nname x\ngovernor menu\nlength 9\nstart 0\ntask 0 a 120 0\n"
    with pytest.raises(UserError, match="a uses gate 1000"):
        program.parse(f"{text}pass 1000\nend".splitlines(), PATH)


def test_a_gate_lets_all_pass_that_come_before_and_after(tmp_path: Path) -> None:
    passing = [Step(Kind.PASS, 0), Step(Kind.POST, 0)]
    tasks = [
        Task("a", steps=[Step(Kind.SLEEP, 2_000_000), Step(Kind.OPEN, 0), *[Step(Kind.WAIT)] * 3,
                         Step(Kind.END)]),
        Task("b", steps=[*passing]),
        Task("c", steps=[*passing], process=True),
        Task("d", cpu=1, steps=[Step(Kind.SLEEP, 9_000_000), *passing]),
    ]  # fmt: skip
    done = played(Program("x", "menu", 10**10, 0, tasks), tmp_path)
    assert done.returncode == 0, done.stderr
    # Without the gate's opening none passes.
    tasks[0].steps[1] = Step(Kind.RUN, 1)
    assert "stuck" in played(Program("x", "menu", 10**8, 0, tasks), tmp_path).stderr


def test_a_deadline_that_had_passed_when_the_task_got_up_is_left_out(tmp_path: Path) -> None:
    def work_s(*, skip: bool) -> float:
        steps = [
            step
            for ms in range(6)
            for step in (Step(Kind.UNTIL, ms * 1_000_000, skip=skip), Step(Kind.RUN, 10**8))
        ]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        task = Task("a", steps=[*steps, Step(Kind.END)])
        done = played(Program("x", "menu", 10**10, 0, [task]), tmp_path)
        assert done.returncode == 0, done.stderr
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    # The first work outlasts all deadlines; the second deadline had not passed before it.
    assert work_s(skip=True) < 0.6 * work_s(skip=False)


def test_a_write_that_ends_a_wait_is_told_from_a_post() -> None:
    made = Calls()
    made.mark(0, BEGIN)
    made.switch(10, "swapper/0-0", "b-2", "R")
    made.switch(20, "b-2", "swapper/0-0")
    made.switch(30, "swapper/0-0", "a-1", "R")
    made.enter(40, "a-1", WRITE, 5)
    made.wake(41, "a-1", "b-2")
    made.leave(42, "a-1", WRITE, 1)
    made.switch(50, "a-1", "b-2", "R")
    made.switch(60, "b-2", "a-1")
    made.wake(70, "a-1", "b-2")
    made.switch(80, "a-1", "b-2")
    made.expire(85)
    made.mark(90, END)
    (b,) = (task for task in made.program().tasks if task.name == "b")
    waits = [line for line in lines(b) if line.startswith("wait")]
    assert waits == ["wait sync", "wait"]


def test_posts_and_writes_wake_tasks_that_wait_for_either(tmp_path: Path) -> None:
    sleep, sync = Step(Kind.SLEEP, 1_000_000), Step(Kind.WAIT, sync=True)
    wait, posts = Step(Kind.WAIT), [sleep, Step(Kind.POST, 0)] * 6
    # Posts that come before their wait are taken, too.
    mine = [sync, wait, sync, sync, Step(Kind.SLEEP, 4_000_000), wait, sync, Step(Kind.END)]
    for process in (False, True):
        tasks = [Task("a", steps=mine), Task("b", cpu=1, steps=posts, process=process)]
        done = played(Program("x", "menu", 10**9, 0, tasks), tmp_path)
        assert done.returncode == 0, done.stderr


def test_lanes_are_served_in_the_order_in_which_their_ends_are_ready(tmp_path: Path) -> None:
    def call(what: Kind, end: int) -> Step:
        return Step(what, 70_000, end=end)

    lane, again = Step(Kind.LANE), Step(Kind.AGAIN)
    # The first lane's request never comes; the second one's comes three times.
    server = [lane, Step(Kind.ON, 1), call(Kind.READ, 1)]
    server += [lane, again, Step(Kind.ON, 3), call(Kind.READ, 3), call(Kind.WRITE, 3)]
    turn = [Step(Kind.AFTER, 1), call(Kind.WRITE, 2), Step(Kind.ON, 2), call(Kind.READ, 2)]
    client = [lane, *(turn * 3), Step(Kind.AFTER, 1), Step(Kind.END)]
    tasks = [Task("s", steps=server), Task("c", cpu=1, steps=client)]
    done = played(Program("x", "menu", 10**10, 0, tasks, joints=[Joint()] * 2), tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_timer_of_a_lane_counts_from_its_last_call(tmp_path: Path) -> None:
    def call(what: Kind, end: int) -> Step:
        return Step(what, 10, end=end)

    lane, turns, wait_ms = Step(Kind.LANE), 12, 50
    server = [lane, Step(Kind.AGAIN), Step(Kind.ON, 1), call(Kind.READ, 1), call(Kind.WRITE, 1)]
    wait = Step(Kind.AFTER, wait_ms)
    turn = [wait, call(Kind.WRITE, 0), Step(Kind.ON, 0), call(Kind.READ, 0)]
    client = [lane, *(turn * turns), wait, Step(Kind.END)]
    tasks = [Task("s", steps=server), Task("c", cpu=1, steps=client)]
    made = Program("x", "menu", 10**10, 0, tasks, joints=[Joint()])
    played(made, tmp_path)  # compiles the player
    began = time.monotonic()
    done = played(made, tmp_path)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began > turns * wait_ms / 1000


def test_calls_are_recorded_by_number_and_only_on_the_machine_that_has_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = recorded.enter("debian13", tmp_path, monkeypatch)
    monkeypatch.setattr(capture, "_check_events", lambda *_: None)
    for machine, there in ((events.CALL_MACHINE, True), ("aarch64", False)):
        monkeypatch.setattr("platform.machine", lambda name=machine: name)
        words = ["capture", "--clone", "--request", "none", "-o", f"{machine}.dat", "--", "true"]
        assert main(words) == 0
        text = (root / "recorded-arguments").read_text()
        assert ("-e raw_syscalls:sys_enter -f id==0||id==19||" in text) == there
