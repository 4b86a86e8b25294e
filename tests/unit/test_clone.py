# SPDX-License-Identifier: GPL-2.0
"""Clones: events are read, a program is built from them, written, read, and judged."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.clone import build, calibrate, drafts, events, judge, play, program, progress
from cpuidle_lab.clone.program import Kind, Program, Step, Task
from cpuidle_lab.clone.session import Place, Regime
from cpuidle_lab.lab.programs import PLAYER, compiled
from cpuidle_lab.recording import columns
from cpuidle_lab.replay.engine import Outcome
from tests.unit.periods import MACHINE

PATH = Path("trace.dat")
BEGIN, END = "phase governor=teo_ng workload=talk", "phase end"
# Of the trace's clock and the kernel's, ns: a phase begins at _START_NS, the tick has 4 ms.
_START_NS, _OFFSET_NS = 1_000_000_000, 5_000_000_000


class Recording:
    """Lines as `trace-cmd report -N -l -t` prints them; times in us from the beginning."""

    def __init__(self) -> None:
        self.lines = ["cpus=2"]

    def add(self, us: float, who: str, what: str, cpu: int = 0, flags: str = "d..2.") -> None:
        """Add an event: its name and its fields."""
        ns = _START_NS + round(us * 1000)
        at = f"{ns // 10**9}.{ns % 10**9:09d}"
        self.lines.append(f"{who:>16} {cpu:5d}{flags} {at}: {what}")

    def mark(self, us: float, text: str) -> None:
        """Add a marker, of the task sh on CPU 1."""
        self.add(us, "sh-9", f"print: tracing_mark_write: {text}", 1)

    def switch(self, us: float, before: str, after: str, state: str = "S", cpu: int = 0) -> None:
        """Let a CPU go from one task to another."""
        (was, old), (now, new) = (each.rsplit("-", 1) for each in (before, after))
        text = f"prev_comm={was} prev_pid={old} prev_prio=120 prev_state={state} ==> "
        text += f"next_comm={now} next_pid={new} next_prio=120"
        self.add(us, before, f"sched_switch: {text}", cpu)

    def wake(self, us: float, who: str, whom: str, flags: str = "d..2.", cpu: int = 0) -> None:
        """Let a task wake another, in the context of the flags."""
        name, pid = whom.rsplit("-", 1)
        text = f"comm={name} pid={pid} prio=120 target_cpu=000"
        self.add(us, who, f"sched_waking: {text}", cpu, flags)

    def arm(self, us: float, who: str, length_us: float, mode: str = "0x1") -> None:
        """Let a task start its timer."""
        due = _START_NS + _OFFSET_NS + round((us + length_us) * 1000)
        text = f"hrtimer=0xa function=hrtimer_wakeup expires={due + 50_000} softexpires={due}"
        self.add(us, who, f"hrtimer_start: {text} mode={mode}")

    def expire(
        self,
        us: float,
        timer: str = "0xa",
        function: str = "hrtimer_wakeup",
        who: str = "<idle>-0",
    ) -> None:
        """Let a timer's function begin; it interrupts a task, or none."""
        now = _START_NS + _OFFSET_NS + round(us * 1000)
        text = f"hrtimer={timer} function={function} now={now}"
        self.add(us, who, f"hrtimer_expire_entry: {text}", flags="d.h1.")

    def expired(self, us: float, timer: str = "0xa") -> None:
        """Let it end."""
        self.add(us, "<idle>-0", f"hrtimer_expire_exit: hrtimer={timer}", flags="d.h1.")

    def events(self) -> list[events.Event]:
        """Return the events."""
        return list(events.parsed(self.lines, PATH))

    def program(self, *, shared: bool = True) -> Program:
        """Return what is rebuilt from the only phase."""
        (phase,) = events.phases(self.events(), PATH)
        return build.build(phase, PATH, shared=shared)


def talk() -> Recording:
    """Return a recording: a asks b, b answers, a sleeps for 1 ms by a timer; sh waits for all."""
    made = Recording()
    made.mark(0, BEGIN)
    made.switch(10, "sh-9", "swapper/1-0", cpu=1)
    made.switch(20, "a-1", "swapper/0-0")
    made.expire(90)
    made.wake(91, "<idle>-0", "a-1", "d.h3.")
    made.expired(92)
    made.switch(100, "swapper/0-0", "a-1", "R")
    made.wake(130, "a-1", "b-2")
    made.switch(140, "a-1", "b-2")
    made.wake(200, "b-2", "a-1")
    made.switch(220, "b-2", "a-1")
    made.arm(230, "a-1", 1000)
    made.switch(240, "a-1", "swapper/0-0")
    made.expire(1285)
    made.wake(1286, "<idle>-0", "a-1", "d.h3.")
    made.expired(1287)
    made.switch(1300, "swapper/0-0", "a-1", "R")
    made.wake(1310, "a-1", "sh-9")
    made.switch(1315, "swapper/1-0", "sh-9", "R", cpu=1)
    made.switch(1320, "a-1", "swapper/0-0", "X")
    made.mark(1330, END)
    return made


def lines(task: Task) -> list[str]:
    return [step.line() for step in task.steps]


def test_a_task_becomes_its_work_its_posts_and_the_causes_that_end_its_sleeps() -> None:
    made = talk().program(shared=False)
    tasks = {task.name: task for task in made.tasks}
    a, b = tasks["a"], tasks["b"]
    place = {task.name: number for number, task in enumerate(made.tasks)}
    # Awake at the beginning, then woken by a timer of before; it has no slack that is known.
    assert lines(a)[:2] == ["until 0", "run 20000"]
    assert lines(a)[2:] == [
        "slack 1", "until 91000", "run 30000", f"post {place['b']}", "run 10000", "wait",
        "run 20000", "slack 50000", "sleep 1000000", "run 10000", f"post {place['sh']}",
        "run 10000", "exit",
    ]  # fmt: skip
    assert lines(b) == ["wait", "run 60000", f"post {place['a']}", "run 20000"]
    assert lines(tasks["sh"])[-3:] == ["wait", "run 15000", "end"]
    assert made.length_ns == 1_330_000
    assert made.governor == "teo_ng"


def test_in_virtual_time_the_first_of_two_busy_cpus_does_more_of_the_work() -> None:
    made = talk().program()
    a = next(task for task in made.tasks if task.name == "a")
    # sh runs on the other CPU in its first 10 us, and in the last 5 us of a, which has 5/8 of them.
    # In between that CPU works for 1.25 us until it halts, and again once it wakes.
    assert lines(a)[1] == "run 15000"
    assert lines(a)[-2:] == ["run 6875", "exit"]


def test_turns_of_busy_cpus() -> None:
    assert progress.turns(2, frozenset({0, 1})) == {0: 0.625, 1: 0.375}
    assert progress.turns(2, frozenset({1})) == {1: 1}
    shares = progress.turns(4, frozenset({1, 3}))
    assert shares == {1: 0.25 + 0.28125, 3: 0.1875 + 0.28125}


def test_a_task_that_never_leaves_its_cpu_runs_there() -> None:
    made = talk()
    made.lines = [line for line in made.lines if "sched_switch" not in line or "sh" not in line]
    assert progress.running_at_first(made.events()) == {1: 9, 0: 1}


def test_in_virtual_time_an_idle_cpu_works_about_its_events() -> None:
    made = talk()
    at = next(place for place, line in enumerate(made.lines) if "comm=b pid=2" in line
              and "sched_waking" in line)  # fmt: skip
    woken = Recording()
    woken.add(115, "<idle>-0", "cil_decision: seq=1", cpu=1)
    made.lines[at:at] = woken.lines[1:]
    steps = lines(next(task for task in made.program().tasks if task.name == "a"))
    # Of 30 us, 1.25 before the event of the other CPU and as much after it.
    assert "run 27500" in steps
    # A softirq is work until it ends.
    served = Recording()
    served.add(114, "<idle>-0", "softirq_entry: vec=7 [action=SCHED]", cpu=1)
    served.add(124, "<idle>-0", "softirq_exit: vec=7 [action=SCHED]", cpu=1)
    made.lines[at : at + 1] = served.lines[1:]
    steps = lines(next(task for task in made.program().tasks if task.name == "a"))
    assert "run 23750" in steps


def test_a_task_that_a_post_meets_on_its_way_to_sleep_does_not_wait_twice() -> None:
    made = Recording()
    made.mark(0, BEGIN)
    made.switch(10, "swapper/0-0", "a-1", "R")
    made.wake(100, "b-2", "a-1", cpu=1)
    made.switch(105, "a-1", "swapper/0-0")
    made.switch(115, "swapper/0-0", "a-1", "R")
    made.expire(120, "0xb", "tick_nohz_handler")
    made.expired(121, "0xb")
    made.switch(140, "a-1", "swapper/0-0")
    made.switch(150, "b-2", "swapper/1-0", cpu=1)
    made.mark(200, END)
    woken = made.program(shared=False)
    a = next(task for task in woken.tasks if task.name == "a")
    assert [step.kind for step in a.steps].count(Kind.WAIT) == 1
    assert not [step for step in a.steps if step.kind is Kind.UNTIL and step.value]


def test_a_packet_is_the_post_of_the_task_that_sent_it() -> None:
    made = talk()
    at = next(place for place, line in enumerate(made.lines) if "comm=b pid=2" in line
              and "sched_waking" in line)  # fmt: skip
    sent = Recording()
    sent.add(125, "a-1", "softirq_raise: vec=3 [action=NET_RX]")
    sent.add(126, "a-1", "softirq_entry: vec=3 [action=NET_RX]", flags="..s1.")
    sent.wake(130, "a-1", "b-2", "d.s4.")
    sent.add(131, "a-1", "softirq_exit: vec=3 [action=NET_RX]", flags="..s1.")
    made.lines[at : at + 1] = sent.lines[1:]
    b = next(task for task in made.program().tasks if task.name == "b")
    assert lines(b)[0] == "wait"
    # A packet that an interrupt brought is an arrival.
    made.lines = [line.replace("d..2.", "d.h2.") if "softirq_raise" in line else line
                  for line in made.lines]  # fmt: skip
    b = next(task for task in made.program().tasks if task.name == "b")
    assert "until 130000" in lines(b)


def test_threads_of_the_kernel_are_left_out_by_their_short_names_too() -> None:
    made = talk()
    # A report cuts the names of the tasks that events come from.
    made.lines = [line.replace("comm=b ", "comm=ksoftirqd/0 ").replace(" b-2 ", " ksoftirq-2 ")
                  for line in made.lines]  # fmt: skip
    built = made.program()
    assert [task.name for task in built.tasks] == ["sh", "a"]
    assert "1 times that threads of the kernel ran" in built.left_out
    a = built.tasks[1]
    assert "until 200000" in lines(a)
    for name in ("nullmailer", "rcutorture", "blkid", "irqbalance", "writer"):
        assert not drafts.Recorded(name).of_kernel
    for name in ("kworker/0:1-events", "kworker/", "migration/1", "rcu_preempt", "irq/24-nvme"):
        assert drafts.Recorded(name).of_kernel


@pytest.mark.parametrize(
    ("mode", "due", "absolute"),
    [
        ("0x0", [1000 * k for k in range(1, 9)], True),  # a grid, as cyclictest has it
        ("0x1", [1000 * k for k in range(1, 9)], False),  # lengths of nanosleep()
        ("0x1", [90 * k * k for k in range(3, 11)], True),  # lengths that never recur
    ],
)
def test_deadlines_are_told_from_lengths(mode: str, due: list[int], absolute: bool) -> None:
    made = Recording()
    made.mark(0, BEGIN)
    last = 60
    for at in due:
        made.arm(last + 20, "a-1", at - last - 20, mode)
        made.switch(last + 30, "a-1", "swapper/0-0")
        made.expire(at + 55)
        made.wake(at + 56, "<idle>-0", "a-1", "d.h3.")
        made.expired(at + 57)
        made.switch(at + 60, "swapper/0-0", "a-1", "R")
        last = at + 60
    made.mark(last + 100, END)
    a = made.program().tasks[0]
    kinds = {step.kind for step in a.steps if step.kind in (Kind.SLEEP, Kind.UNTIL) and step.value}
    assert kinds == {Kind.UNTIL if absolute else Kind.SLEEP}


def deadlines(due: Iterable[int]) -> list[str]:
    """Return the steps of a task that sleeps until those times, us, and works for 5 us."""
    made = Recording()
    made.mark(0, BEGIN)
    made.switch(10, "swapper/0-0", "a-1", "R")
    up = 10
    for at in due:
        made.arm(up + 5, "a-1", at - up - 5, "0x0")
        made.switch(up + 6, "a-1", "swapper/0-0")
        made.expire(at + 1)
        made.wake(at + 2, "<idle>-0", "a-1", "d.h3.")
        made.expired(at + 3)
        up = at + 4
        made.switch(up, "swapper/0-0", "a-1", "R")
    made.mark(up + 100, END)
    return lines(made.program().tasks[0])


def test_a_task_that_leaves_periods_out_may_meet_them_on_a_quicker_machine() -> None:
    every = range(1000, 2000, 100)
    assert not any("skip" in line for line in deadlines(every))
    some = [1000, 1100, 1400, 1500, 1700, 1800, 2000, 2100, 2300]
    steps = deadlines(some)
    sleeps = [line for line in steps if line.startswith("until") and line != "until 0"]
    assert sleeps == [f"until {1000 * at} skip" for at in range(1000, 2400, 100)]
    assert all(steps[n + 1].startswith("run") for n, line in enumerate(steps) if line in sleeps)
    # Steps for all us of a second, since two deadlines are 1 us apart, would be no clone.
    near = [1000, 1001, *range(2000, 1_000_000, 50_000)]
    assert len(deadlines(near)) < 5 * len(near)
    # One period left out may be chance.
    assert not any("skip" in line for line in deadlines([*range(1000, 2000, 100), 2100]))


def watched(at_us: Iterable[float]) -> Recording:
    """Return talk() with timers of the watchdog at these times, in their order."""
    made = talk()
    for cpu, us in enumerate(at_us):
        due = _START_NS + _OFFSET_NS + round(1000 * us) + 4 * 10**9
        told = f"{events.WATCHDOG} now={due - 4 * 10**9}"
        made.add(us, "<idle>-0", f"hrtimer_expire_entry: hrtimer=0xb {told}", cpu, "d.h1.")
        told = f"{events.WATCHDOG} expires={due} softexpires={due}"
        made.add(us, "<idle>-0", f"hrtimer_start: hrtimer=0xb {told} mode=0x0", cpu, "d.h1.")
    return made


@pytest.mark.parametrize(
    ("at_us", "due_ns"),
    [
        ([], None),
        # A second before the phase; after it; of two CPUs the first one tells.
        ([-1_000_000], 3_000_000_000),
        ([5_000_000], 1_000_000_000),
        ([-250_000, -900_000], 3_750_000_000),
    ],
)
def test_a_clone_tells_when_the_watchdog_was_due(at_us: list[float], due_ns: int | None) -> None:
    made = watched(at_us).program()
    assert made.watchdog_ns == due_ns
    assert program.parse(made.text().splitlines(), PATH).watchdog_ns == due_ns


def test_markers_and_other_starts_of_the_watchdog_tell_nothing() -> None:
    made = watched([-1_000_000])
    due = _START_NS + _OFFSET_NS + 7 * 10**9
    text = f"hrtimer=0xb {events.WATCHDOG} expires={due} softexpires={due} mode=0x0"
    made.add(1500, "sh-9", f"hrtimer_start: {text}")
    made.mark(1600, events.WATCHDOG)
    assert made.program().watchdog_ns == 3_000_000_000


def test_a_program_is_read_as_it_was_written() -> None:
    made = talk().program()
    made.tasks[0].steps += [Step(Kind.UNTIL, 5, skip=True), Step(Kind.WAIT, sync=True)]
    again = program.parse(made.text().splitlines(), PATH)
    assert again.tasks == made.tasks
    assert (again.name, again.length_ns, again.start_ns) == ("talk", made.length_ns, made.start_ns)
    scrubbed = made.scrubbed().text()
    assert "talk" not in scrubbed
    assert program.parse(scrubbed.splitlines(), PATH).tasks[0].steps == made.tasks[0].steps


HEAD = [program.HEADER, "name x", "governor menu", "length 5", "start 0", "task 0 a 120 0"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ([], "is no clone"),
        ([*HEAD[:3], *HEAD[4:], "end"], "has no line 'length'"),
        (HEAD, "0 tasks have the step 'end'"),
        ([*HEAD, "end", "post 1"], "'post 1' of a names no task"),
        ([*HEAD, "end", "fork 0"], "'fork 0' of a names no process"),
        ([*HEAD, "jump 5"], "line 7: 'jump' is no step"),
        ([*HEAD, "run"], "line 7: 'run' has too many words, or too few"),
        ([*HEAD, "run 5 early"], "too many words"),
        ([*HEAD, "sleep 5 skip"], "too many words"),
        ([*HEAD, "wait 5 sync"], "too many words"),
        ([*HEAD, "until 5 early skip"], "too many words"),
        ([*HEAD, "run -5"], "line 7: '-5' is no number"),
        ([*HEAD, "task 1 b 120 0 forked"], "line 7: a task is 'task NUMBER NAME PRIORITY CPU"),
        ([*HEAD, "exit 1"], "line 7: 'exit 1' has too many words"),
        ([*HEAD, "task 2 b 120 0"], "line 7: task 2 stands in the place of task 1"),
        ([HEAD[0], "color red"], "line 2: 'color red' is neither"),
        ([*HEAD[:3], "length long", *HEAD[4:], "end"], "'long' is no number"),
        ([*HEAD[:4], "watchdog -1", *HEAD[4:], "end"], "'-1' is no number"),
    ],
)
def test_a_damaged_program_is_refused_in_one_sentence(text: list[str], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        program.parse(text, PATH)
    assert sentence in error.value.message


def refused(made: Recording) -> str:
    with pytest.raises(UserError) as error:
        events.checked(made.events(), PATH)
        made.program()
    return error.value.message


def test_recordings_of_which_no_clone_can_be_built_are_refused_with_the_remedy() -> None:
    blind = talk()
    blind.lines = [line for line in blind.lines if "sched_waking" not in line]
    assert "capture --clone" in refused(blind)
    lost = talk()
    lost.lines.insert(5, "CPU:1 [12 EVENTS DROPPED]")
    assert "events were lost" in refused(lost)
    unmarked = talk()
    unmarked.lines = [line for line in unmarked.lines if "print:" not in line]
    assert "has no phases" in refused(unmarked)
    busy = talk()
    keep = ("print", "expire")
    busy.lines = [line for line in busy.lines if any(word in line for word in keep)]
    (phase,) = events.phases(busy.events(), PATH)
    with pytest.raises(UserError, match="no task sleeps"):
        build.build(phase, PATH)


def test_more_tasks_than_the_player_has_room_for_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "TASKS_MOST", 2)
    with pytest.raises(UserError, match="has 3 tasks; a clone has 2 at most"):
        talk().program()


def test_of_a_long_phase_the_stretch_with_the_usual_rate_of_wake_ups_is_played() -> None:
    made = Recording()
    made.mark(0, BEGIN)
    for second, count in enumerate((50, 8, 1)):
        for k in range(count):
            made.wake(second * 1e6 + 1000 * (k + 1), "a-1", "b-2")
    made.mark(3e6, END)
    (phase,) = events.phases(made.events(), PATH)
    part, sentence = events.part_of(phase, 10**9)
    assert sum(event.name == "sched_waking" for event in part.events) == 8
    assert "the 1 s from 1 s on" in sentence
    assert events.part_of(phase, 4 * 10**9) == (phase, "")


def test_the_players_cost_is_taken_out_and_what_is_owed_from_the_next_piece() -> None:
    task = Task("a", steps=[Step(Kind.UNTIL), Step(Kind.RUN, 500), Step(Kind.POST, 0),
                            Step(Kind.RUN, 9000), Step(Kind.END)])  # fmt: skip
    made = Program("x", "menu", 1, 0, [task])
    assert calibrate.pieces(task) == {"SP": [500], "PS": [9000]}
    left = calibrate.without(made, {"SP": 2000, "PS": 1000})
    assert [step.value for step in left.tasks[0].steps if step.kind is Kind.RUN] == [0, 6500]
    assert task.steps[1].value == 500
    own = calibrate.without(made, {"SP": 2000, "PS": 1000}, {(0, "PS"): 0.0})
    assert own.tasks[0].steps[3].value == 7500


def _works(*lengths: int) -> list[Step]:
    """Return the steps of a task that works for these lengths, and sleeps in between."""
    return [step for length in lengths for step in (Step(Kind.SLEEP, 5), Step(Kind.RUN, length))]


def test_a_first_run_corrects_the_cost_of_a_task() -> None:
    def of(name: str, length: int) -> Program:
        steps = [Step(Kind.SLEEP, 5), Step(Kind.RUN, length)] * 30
        return Program("x", "menu", 1, 0, [Task(name, steps=steps)])

    made = of("a", 5000)
    found = calibrate.corrected(made, [of("c0", 5400)], {"SS": 1000.0})
    assert found == {(0, "SS"): 1400.0}
    assert calibrate.corrected(made, [of("c1", 5400)], {}) == {}
    # The clone is played at several points of the tick.
    several = [of("c0", length) for length in (5000, 5400, 5400)]
    assert calibrate.corrected(made, several, {}) == {(0, "SS"): 400.0}
    # Each of two tasks of a name has too few pieces, both together have enough.
    few = [[Step(Kind.SLEEP, 5), Step(Kind.RUN, length)] * 12 for length in (5000, 5400)]
    made, again = (
        Program("x", "menu", 1, 0, [Task(name, steps=steps) for name in names])
        for names, steps in zip((("a", "a"), ("c0", "c1")), few, strict=True)
    )
    both = {(0, "SS"): 400.0, (1, "SS"): 400.0}
    assert calibrate.corrected(made, [again], {}) == both
    # Few pieces have no usual length, so each is corrected alone, by the median of the plays.
    made.tasks[1].name = "b"
    starts = [replace(again, tasks=[Task("c0", steps=_works(5000, *more)), again.tasks[1]])
              for more in ((9000,), (9300,), (9900,))]  # fmt: skip
    made.tasks[0].steps = _works(5100, 9100)
    found = calibrate.corrected(made, starts, {"SS": 1000.0})
    assert found[0, "SS"] == [900.0, 1200.0]
    left = calibrate.without(made, {"SS": 1000.0}, found)
    assert calibrate.pieces(left.tasks[0]) == {"SS": [4200, 7900]}
    # A play with another course tells nothing of the pieces.
    starts[0].tasks[0].steps = _works(5000)
    assert (0, "SS") not in calibrate.corrected(made, starts, {})


def test_the_calibrating_program_has_all_pairs_of_events() -> None:
    found = Counter(pair for task in calibrate.probe().tasks
                    for pair, more in calibrate.pieces(task).items() for _ in more)  # fmt: skip
    enough = {pair for pair, count in found.items() if count >= calibrate._ENOUGH}
    assert enough == set(calibrate.PAIRS)
    program.check(calibrate.probe(), PATH)


def told(regret: Iterable[float], **changed: Any) -> Any:
    """Return figures of recordings, without recordings."""
    values = list(regret)
    defaults = {"powers_mw": [100.0], "lengths_s": [1.0], "overslept": (0, 10_000),
                "p99s_us": [5.0], "least_judged": 900, "regret": sum(values) / len(values),
                "regrets": values, "spread": 1.0}  # fmt: skip
    facts: dict[str, Any] = defaults | changed
    ranges = {"p99_ranges_us": [(p99, p99) for p99 in facts["p99s_us"]]}
    return SimpleNamespace(**(ranges | facts))


def check(governor: str, clone: Any, moved: float = 9.0) -> judge.Check:
    return judge.Check(governor, told([50.0]), clone, moved)


@pytest.mark.parametrize(
    ("clone", "moved", "sentence"),
    [
        (told([56.0]), 9, "its regret differs by 6.0 points (limit 5)"),
        (told([50.0]), 21, "21 % of its intervals lie elsewhere (limit 20)"),
        (told([50.0], powers_mw=[106.0]), 9, "its idle power differs by 6.0%"),
        (told([50.0], lengths_s=[0.9]), 9, "it takes another time, by 10.0%"),
        (
            told([50.0], overslept=(17, 10_000)),
            9,
            "it overslept 0.17% of its intervals (limit 0.2%)",
        ),
        (
            told([50.0], p99s_us=[2.0]),
            9,
            "its p99 wake-up comes from a state of 2 us in place of 5",
        ),
        (told([50.0], least_judged=10), 9, "it has fewer than 200 intervals"),
    ],
)
def test_a_clone_beyond_a_limit_has_no_figure(clone: Any, moved: float, sentence: str) -> None:
    good = check("teo_ng", told([51.0]))
    for checks in ([check("teo_ng", clone, moved)], [good, check("menu_ng", clone, moved)]):
        why = judge.Verdict(checks, {}).why
        assert why.startswith("this workload is not rebuilt well enough, because under")
        assert sentence in why


def test_an_edge_of_the_steps_moves_a_quarter_of_the_intervals_that_pass_it() -> None:
    def recording(length_us: float) -> Any:
        chunk = {"length_ns": np.array([1000 * length_us]), "flags": np.zeros(1, dtype=np.uint8)}
        return SimpleNamespace(parts=[SimpleNamespace(cpus=[0], intervals=lambda *_: [chunk])])

    for length_us, percent in ((15.99, 25), (15.9, 25), (14, 100)):
        pair = recording(16.01), recording(length_us)
        assert judge.Check.of("teo_ng", *pair, whole=True).moved == percent


def test_overslept_intervals_are_counted() -> None:
    def part(*flags: int) -> Any:
        chunk = {"flags": np.array(flags, dtype=np.uint8)}
        return SimpleNamespace(cpus=[0], intervals=lambda *_: [chunk])

    late = columns.OVERSLEPT
    assert judge.Told([part(0, 1, late | 1, 0), part(0, 0, 0, late)]).overslept == (2, 8)


# Work of RCU at a tick prolongs intervals of the program as it does those of the clone.
def test_a_clone_may_oversleep_as_its_program_did() -> None:
    real, clone = told([50.0], overslept=(5, 2000)), told([50.0], overslept=(12, 2000))
    assert not [*judge.Check("teo_ng", real, clone, 9.0).faults()]
    clone.overslept = 13, 2000
    assert [*judge.Check("teo_ng", real, clone, 9.0).faults()] == [
        "under teo_ng it overslept 0.65% of its intervals (limit 0.6%)"
    ]
    # Two intervals of a short recording are not told from the lab's limit.
    few = [told([50.0], overslept=(n, 800)) for n in (0, 2, 4)]
    faults = [[*judge.Check("teo_ng", few[0], one, 9.0).faults()] for one in few]
    assert [len(each) for each in faults] == [0, 0, 1]


@pytest.mark.parametrize(("wakeups", "same"), [(400, True), (10_000, False)])
def test_the_99th_percentile_of_few_wake_ups_is_no_single_state(wakeups: int, same: bool) -> None:
    # Of the wake-ups 98.8 % come from the state of 5 us, in the recording 99.2 %.
    ranges = []
    for share in (0.992, 0.988):
        outcome = Outcome("menu", MACHINE)
        outcome.latency_ns = {5000: round(share * wakeups), 90_000: round((1 - share) * wakeups)}
        ranges.append([judge._range_us(outcome, 0.99)])
    real, clone = (told([50.0], p99_ranges_us=one) for one in ranges)
    assert (not [*judge.Check("teo_ng", real, clone, 3).faults()]) == same


def test_a_clone_has_figures_once_a_second_governor_confirms_it() -> None:
    good = [check("teo_ng", told([51.0])), check("menu_ng", told([47.0]))]
    assert "only teo_ng recorded this workload" in judge.Verdict(good[:1], {}).why
    found = judge.Verdict(good, {"wteo": told([30.0], spread=1.5)})
    assert found.why == ""
    assert found.uncertainty("wteo") == pytest.approx(4.5)


def test_the_scatter_of_the_workload_itself_is_no_fault_of_its_clone() -> None:
    wide, narrow = [30.0, 80.0, 85.0], [64.0, 65.0, 66.0]
    assert not list(judge.Check("teo_ng", told(wide), told([60.0, 40.0]), 30, 35).faults())
    faults = list(judge.Check("teo_ng", told(narrow), told([58.0, 58.0]), 30, 3).faults())
    assert len(faults) == 2
    # The clone's own scatter excuses nothing; that of the program does, to two standard errors.
    for regrets, count in (([75.0, 76.0, 77.0], 1), ([70.0, 76.0, 82.0], 0)):
        apart = judge.Check("teo_ng", told(regrets), told([45.0, 70.0, 90.0]), 9)
        assert len(list(apart.faults())) == count
    # Of one recording the scatter is not known; that of its clone stands for it.
    assert judge.doubt([60.0], [50.0, 70.0]) == pytest.approx(17.32, abs=0.01)
    assert judge.doubt([60.0], [50.0]) == 0.0
    power = told([65.0], powers_mw=[80.0, 120.0]), told([65.0], powers_mw=[110.0])
    assert not list(judge.Check("teo_ng", *power, 3).faults())
    modes = told([65.0], p99s_us=[5.0, 90.0]), told([65.0], p99s_us=[5.0, 5.0])
    assert not list(judge.Check("teo_ng", *modes, 3).faults())


def test_a_clone_that_is_as_its_own_recording_alone_tells_that_the_program_adapts() -> None:
    good, bad = check("quick", told([51.0])), check("teo_ng", told([90.0]))
    assert "changes its course" in judge.Verdict([good, bad], {}).why
    assert "changes its course" not in judge.Verdict([bad, good], {}).why


def test_the_player_plays_a_program_and_says_if_it_is_stuck(tmp_path: Path) -> None:
    if not shutil.which("cc"):
        pytest.skip("no compiler")
    run = Step(Kind.RUN, 1000)
    early = Step(Kind.SLEEP, 1000, early=True)
    a = [Step(Kind.UNTIL), run, Step(Kind.POST, 1), Step(Kind.WAIT), early, Step(Kind.WAIT, 100)]
    a += [Step(Kind.SLACK, 1), Step(Kind.SLEEP, 1000), Step(Kind.END)]
    # The other task has memory of its own, and posts all the same.
    b = [Step(Kind.WAIT), run, Step(Kind.POST, 0), Step(Kind.POST, 0), Step(Kind.EXIT)]
    tasks = [Task("a", steps=a), Task("b", cpu=1, steps=b, process=True)]
    made = Program("x", "menu", 10**9, 0, tasks)
    for text, code in ((made.text(), 0), (made.text().replace("post 0\n", "", 1), 1)):
        path = tmp_path / "x.clone"
        # Patience lasts for some lengths: on a busy host, short ones are too few.
        path.write_text(
            text if code == 0 else text.replace("length 1000000000", "length 100000000")
        )
        done = subprocess.run([compiled(PLAYER), path, "0", "x"], capture_output=True, text=True,
                              check=False, timeout=60)  # fmt: skip
        assert done.returncode == code, done.stderr
        assert ("stuck" in done.stderr) == (code == 1)


def test_a_task_that_stayed_on_one_cpu_can_be_kept_there() -> None:
    made = talk()
    for us in range(2000, 2400, 2):
        made.switch(us, "swapper/0-0", "w-3", "R")
        made.switch(us + 1, "w-3", "swapper/0-0")
    for us in (3000, 3002):
        made.switch(us, "swapper/0-0", "v-4", "R", cpu=us // 2 % 2)
        made.switch(us + 1, "v-4", "swapper/0-0", cpu=us // 2 % 2)
    made.mark(4000, BEGIN)
    made.mark(4001, END)
    made.lines = [line for line in made.lines if "1.001330000" not in line]
    phase = events.phases(made.events(), PATH)[0]
    pinned, free = ({task.name: task.pinned for task in build.build(phase, PATH, pin=pin).tasks}
                    for pin in (True, False))  # fmt: skip
    assert pinned["w"] and not pinned["v"]
    assert not any(free.values())
    task = Task("w", cpu=1, pinned=True, steps=[Step(Kind.UNTIL, 5), Step(Kind.END)])
    text = Program("x", "menu", 9, 0, [task]).text()
    assert "task 0 w 120 1 pinned" in text
    assert program.parse(text.splitlines(), PATH).tasks[0].pinned
    task = replace(task, process=True, resident=True)
    text = Program("x", "menu", 9, 0, [task]).text()
    assert "task 0 w 120 1 pinned process resident" in text
    assert program.parse(text.splitlines(), PATH).tasks[0] == task
    with pytest.raises(UserError, match="a task is"):
        program.parse(text.replace("pinned", "glued").splitlines(), PATH)


def test_a_task_is_kept_where_it_ran_after_its_start() -> None:
    made = Recording()
    made.mark(0, BEGIN)
    made.expire(1)
    made.expired(2)
    for us in range(400, 2400, 10):
        cpu = int(us > 400)
        made.wake(us, "<idle>-0", "w-3", "d.h3.", cpu=cpu)
        made.switch(us + 1, f"swapper/{cpu}-0", "w-3", "R", cpu=cpu)
        made.switch(us + 2, "w-3", f"swapper/{cpu}-0", cpu=cpu)
    made.mark(2500, END)
    phase = events.phases(made.events(), PATH)[0]
    for pin in (True, False):
        (w,) = (task for task in build.build(phase, PATH, pin=pin).tasks if task.name == "w")
        assert (w.cpu, w.pinned) == (int(pin), pin)


def test_a_task_begins_on_its_first_cpu_even_if_it_went_to_another_for_good() -> None:
    made = Recording()
    made.mark(0, BEGIN)
    made.expire(1)
    made.expired(2)
    for us, cpu in ((400, 1), (410, 0), (420, 0)):
        made.wake(us, "<idle>-0", "w-3", "d.h3.", cpu=cpu)
        made.switch(us + 1, f"swapper/{cpu}-0", "w-3", "R", cpu=cpu)
        made.switch(us + 2, "w-3", f"swapper/{cpu}-0", cpu=cpu)
    made.mark(500, END)
    (w,) = (task for task in made.program().tasks if task.name == "w")
    assert w.cpu == 1


def test_a_phase_can_have_a_state_disabled_on_a_cpu() -> None:
    lines = play.plan(talk().program(), "clone", "wteo", disabled=((1, 2),)).lines()
    player = next(line for line in lines if line.startswith("player "))
    assert lines.index("disable 1 2") < lines.index(player) < lines.index("enable 1 2")


def test_a_plan_lets_the_player_write_the_markers() -> None:
    made = play.plan(talk().program(), "clone", "wteo", shift_ns=1300)
    text = "\n".join(made.lines())
    assert "afresh" not in text, "the player lets the governor begin"
    assert "player /lab/clone 1300 'phase governor=wteo workload=talk' wteo 'wteo: talk' >" in text
    quick = play.plan(talk().program(), "clone", "wteo", request_us=2).lines()
    (player,) = (line for line in quick if line.startswith("player "))
    assert "'phase governor=wteo workload=talk request_us=2'" in player
    assert quick.index("request 2") < quick.index(player) < quick.index("request_end")
    with pytest.raises(UserError, match="virtual time"):
        play.check_time(real_time=True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["clone", "x.dat"], "give --governors to compare, or -o"),
        (["clone", "x.dat", "--governors", "best"], "unknown governor 'best'"),
        (["clone", "x.dat", "-o", "x.clone"], "x.dat: cannot be read: No such file or directory"),
        (["clone", ".", "-o", "x.clone"], "is not a trace.dat file; a clone needs the trace.dat"),
        (["clone", "text", "-o", "x.clone"], "text: is not a trace.dat file; a clone needs"),
        (["lab", "--clone", "x.clone", "--workload", "redis"], "give one of --workload"),
    ],
)
def test_wrong_usage_is_one_sentence(
    words: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("<idle>-0 [000] 1.000000: cpu_idle: state=1 cpu_id=0\n")
    assert main(words) in (1, 2)
    assert sentence in capsys.readouterr().err


def test_a_boot_has_room_for_the_events_of_its_clones_and_for_their_file() -> None:
    steps = [Step(Kind.RUN, 1000), Step(Kind.SLEEP, 1000)] * 100_000
    made = Program("x", "menu", 10**9, 0, [Task("a", steps=[*steps, Step(Kind.END)])])
    plans = [Regime("menu_ng").plan(made, "clone", workload=str(turn)) for turn in range(12)]
    small, large = (Place().run(some, [made]) for some in (plans[:1], plans))
    # A step of cyclictest-10us had 112 bytes at least: with less, events were lost.
    least = 12 * len(steps) * 112 >> 20
    assert "trace_start 512 " in small.script
    found = re.search(r"trace_start (\d+) ", large.script)
    assert found
    assert int(found[1]) > 2 * least
    assert large.memory_mib - int(found[1]) > least + 1000
