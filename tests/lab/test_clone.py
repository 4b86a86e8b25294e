# SPDX-License-Identifier: GPL-2.0
"""A clone in the lab: its own recording, rebuilt, is the program that was played."""

from dataclasses import replace
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.clone import build, calibrate, events, play
from cpuidle_lab.clone.program import TICK_NS, Joint, Kind, Program, Step, Task
from cpuidle_lab.clone.session import Place, Regime
from cpuidle_lab.lab import LabRun, run_lab
from cpuidle_lab.lab.session import OUR_EVENTS, TRACE, Session
from tests.proofs.clone import constants

ROUNDS, PIECE_NS, SLEEP_NS = 40, 50_000, 1_700_000
NS_PER_MS = 1_000_000
# From the beginning to the timer of the watchdog.
WATCHDOG_NS = 60_000_000
# Longer than the watchdog's least period, which is 0.4 s.
LONG_NS = 600 * NS_PER_MS
# Of the kernel and the player, in a piece of work.
COST_MOST_NS = 15_000
# Of work, by each wake-up of the other CPU.
WORK_ERROR_MOST_NS = 200
# From the governor's first decision to the beginning: two ticks, and a switch on all CPUs.
LEARNED_MOST_NS = 4 * TICK_NS


@pytest.mark.lab
def test_the_recording_of_a_clone_has_its_work_posts_and_sleeps(tmp_path: Path) -> None:
    run = Step(Kind.RUN, PIECE_NS)
    asks = [Step(Kind.SLEEP, SLEEP_NS), run, Step(Kind.POST, 1), run, Step(Kind.WAIT), run]
    # The answer comes after the other task has begun to wait: else it need not sleep.
    # The process that is reaped last exits first, which wakes its parent, too.
    child = [run, Step(Kind.FORK, 2), run, Step(Kind.FORK, 4), run,
             Step(Kind.REAP, 2), run, Step(Kind.REAP, 4), run]  # fmt: skip
    answers = [Step(Kind.WAIT), Step(Kind.RUN, 2 * PIECE_NS), Step(Kind.POST, 0), run]
    tasks = [
        Task("asks", steps=[Step(Kind.UNTIL), *(asks * ROUNDS), *child, Step(Kind.END)]),
        Task("answers", cpu=1, steps=[*(answers * ROUNDS), Step(Kind.EXIT)], process=True),
        Task("child", steps=[run, Step(Kind.SLEEP, SLEEP_NS), Step(Kind.EXIT)], process=True),
    ]
    brief = Task("brief", steps=[run, Step(Kind.EXIT)], process=True)
    # It is late for the second deadline, and does not sleep there.
    due = [Step(Kind.UNTIL, at * NS_PER_MS, late=True) for at in (10, 9, 20)]
    late = Task("late", steps=[one for step in due for one in (step, run)])
    made = Program(
        "talk", "menu_ng", 150_000_000, 0, [*tasks, late, brief], watchdog_ns=WATCHDOG_NS
    )
    long_steps = [Step(Kind.UNTIL), Step(Kind.SLEEP, LONG_NS), Step(Kind.END)]
    long = replace(made, name="long", length_ns=LONG_NS, tasks=[Task("long", steps=long_steps)])
    plans = [play.plan(long, "long", "menu_ng"),
             play.plan(made, "clone", "menu_ng", shift_ns=1_000_000)]  # fmt: skip
    script = Session("skx", plans, (OUR_EVENTS, *events.CLONE_EVENTS)).script()
    files = play.files({"clone": made, "long": long})
    result = run_lab(LabRun(script, files=files, real_time=False), tmp_path / "out").check()
    trace = result.files / TRACE
    longer, phase = events.phases(events.read(trace), trace)
    expired = [one.cpu for one in longer.events
               if one.name == "hrtimer_expire_entry" and events.WATCHDOG in one.text]  # fmt: skip
    assert sorted(expired) == [0, 1], "the restarted watchdog comes once"
    assert (phase.governor, phase.workload) == ("menu_ng", "talk")
    learned = longer.start_ns - min(e.ts for e in events.read(trace) if e.name == "cil_decision")
    assert learned < LEARNED_MOST_NS, "the governor has seen the player start"
    told = [e.ts - phase.start_ns for e in events.read(trace) if "pm_suspend_timer" in e.text]
    assert min(map(abs, told)) < TICK_NS, "the console's timer is none of the beginning"
    assert phase.watchdog_ns is not None
    assert abs(phase.watchdog_ns - WATCHDOG_NS) < 2 * TICK_NS
    decided = [one for one in phase.events if one.name == "cil_decision"]
    for cpu in range(2):
        first = next(one for one in decided if one.cpu == cpu)
        assert int(first.fields()["sleep_length_ns"]) <= TICK_NS, f"CPU {cpu} has no tick"
    again = {task.name: task for task in build.build(phase, trace).tasks}
    for number, task in enumerate(tasks):
        found = again[f"c{number}"]
        for kind in (Kind.POST, Kind.WAIT, Kind.SLEEP, Kind.FORK, Kind.REAP, Kind.EXIT):
            counts = [[step.kind for step in one.steps].count(kind) for one in (task, found)]
            assert counts[0] == counts[1], kind
        sleeps = [step.value for step in found.steps if step.kind is Kind.SLEEP]
        assert all(abs(length - SLEEP_NS) < COST_MOST_NS for length in sleeps)
        for pair, lengths in calibrate.pieces(found).items():
            middle = sorted(lengths)[len(lengths) // 2]
            more = middle % PIECE_NS
            assert len(lengths) < ROUNDS // 2 or 0 < more < COST_MOST_NS < PIECE_NS < middle, pair
    slept = [step for step in again["c3"].steps if step.kind in (Kind.SLEEP, Kind.UNTIL)]
    assert len(slept) == 2


def _served() -> tuple[list[Task], list[Joint]]:
    """Return a client and a server of two connections, and a writer whose pipe is full."""

    def call(kind: Kind, end: int) -> Step:
        return Step(kind, 100, end=end)

    run = Step(Kind.RUN, PIECE_NS)
    # The mark of the beginning may come late, and calls before it are not seen.
    start = Step(Kind.UNTIL, 5_000_000)
    asks, answers = [], []
    for end in (0, 2):
        turn = [Step(Kind.AFTER, 2 + end), run, call(Kind.WRITE, end), Step(Kind.ON, end), run]
        asks += [Step(Kind.LANE), *([*turn, call(Kind.READ, end)] * ROUNDS)]
        turn = [Step(Kind.ON, end + 1), call(Kind.READ, end + 1), run, call(Kind.WRITE, end + 1)]
        answers += [Step(Kind.LANE), *(turn * ROUNDS)]
    tasks = [
        Task("asks", steps=asks),
        Task("answers", cpu=1, steps=answers),
        Task("writes", steps=[start, *([call(Kind.WRITE, 4)] * ROUNDS)]),
        Task(
            "reads",
            cpu=1,
            steps=[
                start,
                *([Step(Kind.SLEEP, SLEEP_NS), call(Kind.READ, 5)] * ROUNDS),
            ],
        ),
        Task("ends", steps=[Step(Kind.UNTIL, 300_000_000), Step(Kind.END)]),
    ]
    return tasks, [Joint(), Joint(), Joint(1)]


@pytest.mark.lab
def test_the_recording_of_a_clone_has_its_pipe_and_its_connections(tmp_path: Path) -> None:
    tasks, joints = _served()
    made = Program("calls", "menu_ng", 300_000_000, 0, tasks, joints=joints)
    boot = Place().run([Regime("menu_ng").plan(made)], [made])
    trace = run_lab(boot, tmp_path / "out").check().files / TRACE
    (phase,) = events.phases(events.read(trace), trace)
    again = build.build(phase, trace)
    assert sorted(again.joints, key=str) == sorted(joints, key=str)
    found = {task.name: task for task in again.tasks}
    for number, task in enumerate(tasks):
        for kind in (Kind.LANE, Kind.ON, Kind.AFTER, Kind.READ, Kind.WRITE):
            counts = [[step.kind for step in one.steps].count(kind)
                      for one in (task, found[f"c{number}"])]  # fmt: skip
            assert counts[0] == counts[1], (task.name, kind)


# A shell that wakes two others by turns, and the count of that which each new task has.
TURNS = """
echo 'p:born wake_up_new_task flips=p->wakee_flips:u32 pid=p->pid:s32' \
        >/sys/kernel/tracing/kprobe_events
mkfifo /tmp/a /tmp/b
cat /tmp/a >/dev/null &
cat /tmp/b >/dev/null &
exec 8>/tmp/a 9>/tmp/b
for turn in 1 2 3 4; do echo >&8; usleep 1000; echo >&9; usleep 1000; done
exec 8>&- 9>&-
"""


@pytest.mark.lab
def test_a_server_goes_to_the_cpu_of_its_client_as_in_a_program(tmp_path: Path) -> None:
    run, sleep, post = Step(Kind.RUN, PIECE_NS), Step(Kind.SLEEP, SLEEP_NS), Step(Kind.POST, 2)
    call = [run, Step(Kind.WRITE, 1, end=0), Step(Kind.WAIT)]
    # The CPU of the others is idle at first at each call, then it is about to wake up.
    asks = [*([sleep, *call, sleep, post] * ROUNDS), *([sleep, post, *call] * ROUNDS)]
    answers = [Step(Kind.READ, 1, end=1), run, Step(Kind.POST, 0)]
    works = [Step(Kind.WAIT), Step(Kind.RUN, 8 * PIECE_NS)]
    tasks = [
        Task("asks", steps=[*asks, Step(Kind.END)], resident=True),
        Task("answers", cpu=1, steps=answers * 2 * ROUNDS, resident=True),
        Task("works", cpu=1, steps=works * 2 * ROUNDS, resident=True),
        *(Task("child", steps=[Step(Kind.UNTIL, 100_000_000)]) for _ in range(4)),
    ]
    made = Program("pull", "menu_ng", 300_000_000, 0, tasks, joints=[Joint(1)])
    recorded = (*events.CLONE_EVENTS, "kprobes:born")
    session = Session("skx", [play.plan(made, "clone", "menu_ng")], recorded)
    boot = LabRun(TURNS + session.script(), files=play.files({"clone": made}), real_time=False)
    trace = run_lab(boot, tmp_path / "out").check().files / TRACE
    found = events.read(trace)
    born = {one.fields()["pid"]: int(one.fields()["flips"]) for one in found if one.name == "born"}
    (phase,) = events.phases(found, trace)
    ran = [(one.cpu, one.fields()) for one in phase.events if one.name == "sched_switch"]
    counts = {told["next_comm"]: born.get(told["next_pid"], 0) for _, told in ran}
    assert [counts[f"c{number}"] for number in range(3)] == [0, 0, 0]
    assert all(counts[f"c{number}"] > 10 for number in range(3, 7)), "children of the shell"
    where = [cpu for cpu, told in ran if told["next_comm"] == "c1"]
    assert where.index(0) <= ROUNDS, "the count of turns of the player's shell keeps it away"


@pytest.mark.lab
def test_a_phase_under_a_governor_that_the_kernel_does_not_take_is_refused(tmp_path: Path) -> None:
    steps = [Step(Kind.UNTIL), Step(Kind.SLEEP, SLEEP_NS), Step(Kind.END)]
    made = Program("short", "menu_ng", 10_000_000, 0, [Task("a", steps=steps)])
    script = Session("skx", [play.plan(made, "clone", "best")]).script()
    boot = LabRun(script, files=play.files({"clone": made}), real_time=False)
    with pytest.raises(UserError, match="the kernel refuses the governor 'best'"):
        run_lab(boot, tmp_path / "out").check()


@pytest.mark.lab
@pytest.mark.full
def test_the_rules_count_the_work_that_a_program_has() -> None:
    (_, used, measured), (_, _, error_ns), *callbacks = constants.table(LabRun.kernel, 1).rows
    assert measured == pytest.approx(used, abs=0.5)
    assert isinstance(error_ns, float)
    assert abs(error_ns) < WORK_ERROR_MOST_NS
    for name, given, found in callbacks:
        assert found == pytest.approx(given, rel=0.15), name
