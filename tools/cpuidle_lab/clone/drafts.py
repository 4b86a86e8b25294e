# SPDX-License-Identifier: GPL-2.0
"""A task while its events are read, and the steps that it gets in the end."""

import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import pairwise, takewhile
from typing import cast

from cpuidle_lab.base.kernel_threads import KERNEL_THREAD
from cpuidle_lab.clone.calls import Call
from cpuidle_lab.clone.program import Kind, Step

REALTIME_BELOW = 100

# Function of the timer with which a task sleeps. Others signal, and are started long before.
WAKES_TASK = "hrtimer_wakeup"

# Slack of a task's timers unless it asks for another, and of real-time tasks.
DEFAULT_SLACK_NS, LEAST_SLACK_NS = 50_000, 1

# A program asks for one length again and again, or it counts to a deadline. The kernel reads its
# clock so long before the event at most; fewer sleeps than _FEW tell nothing.
_READ_BEFORE_NS, _FEW, _OFTEN = 12_000, 4, 0.03
# Share of timers with lengths that recur, from which on all sleeps are relative. An interrupt
# between the program's look at the clock and the start of the timer makes a length shorter.
_RELATIVE = 0.9
# Share of equal steps between deadlines that makes them a grid.
_GRID = 0.5
# A task has so many deadlines at most for each that it meets: all become steps, and two deadlines
# that are apart by some ns are no period. cyclictest-10us meets one of three.
_SPARSE_MOST = 10
# Share of distances between deadlines that are multiples of a period which a task leaves out. Of
# a task without a period, share of rounds that are multiples of the usual one.
_WHOLE = 0.95
# In a usual round a task wakes others so often at least: all counts are multiples of 1.
_ROUND = 2

# A task that wakes others so often forgets how often it changed between them.
_EACH_NS = 1_000_000_000
_WAKES = frozenset({Kind.POST, Kind.WRITE, Kind.OPEN})
# A process does so little at most after its exit has woken its parent.
_EXIT_NS = 100_000

# Time of the callback of RCU that the player queues, in RCU's softirq.
CALLBACK_NS = 600

# Share of the times that a task came to a CPU, from which on that CPU is its own.
_STAYS = 0.99


class State(Enum):
    """State of a task."""

    UNKNOWN = auto()
    RUNNING = auto()
    READY = auto()
    ASLEEP = auto()
    GONE = auto()


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer that a task started.

    Attributes:
        by: number of the task.
        length_ns: from its start to the time that the task asked for.
        due_ns: that time, from the phase's beginning.
        slack_ns: how much later it may expire.
        relative: the kernel got a length, not a time.
        function: that it calls.
    """

    by: int
    length_ns: int
    due_ns: int
    slack_ns: int
    relative: bool
    function: str


@dataclass(slots=True)
class Draft:
    """A step, of which the timer's kind is still open.

    Attributes:
        kind, value, end: as of a step.
        timer: of a sleep.
        at: when a call ended, or when a post came.
        late: of `until`, as of a step.
        wait: of a post, the wait that it ends.
        sync: of a wait: a write ends it.
        rcu_ns: of a piece: work of RCU that its task queued in it, by the time of RCU's softirqs.
    """

    kind: Kind
    value: float = 0
    timer: Timer | None = None
    end: int = 0
    at: int = 0
    wait: "Draft | None" = None
    sync: bool = False
    rcu_ns: float = 0
    late: bool = False

    @property
    def callbacks(self) -> int:
        """Count of callbacks of RCU that the player queues for it."""
        return round(self.rcu_ns / CALLBACK_NS)


@dataclass(eq=False)
class Recorded:
    """A task while the events are read.

    Attributes:
        name, priority: as last recorded.
        state: ready, running, asleep or gone, as last told.
        since: when its work was last counted, ns.
        runs_on: CPU on which it runs, or ran last.
        work: counted and in no step yet, ns.
        timer: that it waits for.
        forestalled: a post came while it was about to sleep; it may sleep all the same for a
            moment, and then wakes without another event.
        cpus: how often it came to each CPU, the first one first.
        steps: done so far.
        call: on an end, or that polls ends, in which it is.
        end: of the call.
        before: work until the call.
        due: when the timer of the call was due that woke it, from the phase's beginning.
        slept: it fell asleep in the call.
        loops: it polls ends.
        process: its parent waits for its end, so it is no thread of another one.
        birth: the post by which its parent started it.
        parent: number of that task, by id(); 0: it was there before the phase.
    """

    name: str
    priority: int = 120
    state: State = State.UNKNOWN
    since: int = 0
    runs_on: int = 0
    work: float = 0
    timer: Timer | None = None
    forestalled: bool = False
    cpus: Counter[int] = field(default_factory=Counter)
    steps: list[Draft] = field(default_factory=list)
    call: Call | None = None
    end: int = 0
    before: float = 0
    due: int = 0
    slept: bool = False
    loops: bool = False
    process: bool = False
    birth: Draft | None = None
    parent: int = 0

    @property
    def of_kernel(self) -> bool:
        """It is a thread of the kernel's."""
        return bool(KERNEL_THREAD.match(self.name))

    def exits(self, state: str) -> None:
        """Note its end: a process was forked, and its parent reaps it.

        Args:
            state: of a process "Z": it stays until its parent has reaped it; of a thread "X".
        """
        self.state, self.process = State.GONE, state == "Z"
        if self.process and self.birth:
            assert self.birth.wait is not None
            self.birth.kind = Kind.FORK
            self.steps.remove(self.birth.wait)
        last = list(takewhile(lambda step: step.kind is Kind.RUN, reversed(self.steps)))
        told = self.steps[-len(last) - 1] if last and len(self.steps) > len(last) + 1 else None
        if (told and self.process and told.kind is Kind.POST and told.value == self.parent
                and sum(step.value for step in last) < _EXIT_NS):  # fmt: skip
            # The exit itself tells its parent.
            assert told.wait is not None
            told.wait.kind, told.wait.value = Kind.REAP, id(self)
            del self.steps[-len(last) - 1]
        self.steps.append(Draft(Kind.EXIT))

    @property
    def stays(self) -> bool:
        """It ran on one CPU, its start perhaps apart."""
        return max(self.cpus.values(), default=0) >= _STAYS * self.cpus.total()

    def cpu(self, kept: bool) -> int:
        """Return the CPU on which its clone begins: that of its first run, or where it is kept."""
        usual = self.cpus.most_common(1)
        return usual[0][0] if kept and usual else next(iter(self.cpus), 0)


def residents(tasks: Sequence[Recorded], shell: Recorded, length_ns: int) -> set[int]:
    """Return the numbers, by id(), of servers: they ran before the program, and wake others.

    Args:
        tasks: all of a phase.
        shell: the one that began the phase, and then the program.
        length_ns: of the phase.
    """
    births = {id(task.birth) for task in tasks if task.birth}

    def wakes(task: Recorded) -> int:
        return sum(one.kind in _WAKES and id(one) not in births for one in task.steps)

    older = [task for task in tasks if task is not shell and not task.parent]
    return {id(task) for task in older if wakes(task) * _EACH_NS >= length_ns}


def _period_ns(timers: Sequence[Timer]) -> int:
    """Return the period of deadlines of which the task leaves some out; 0 if it does not.

    It does where their distances are multiples of the least one, mostly, and not all equal.
    """
    steps = [b.due_ns - a.due_ns for a, b in pairwise(timers)]
    least = min((step for step in steps if step > 0), default=0)
    if len(steps) < _FEW or not least or any(one.relative for one in timers):
        return 0
    if sum(steps) > _SPARSE_MOST * least * len(steps):
        return 0
    whole = sum(step > 0 and step % least == 0 for step in steps)
    more = sum(step > least for step in steps)
    return least if whole >= _WHOLE * len(steps) and more >= _FEW else 0


def _on_grid(timers: Sequence[Timer]) -> bool:
    """Tell whether the deadlines of a task lie on a grid."""
    steps = Counter(b.due_ns - a.due_ns for a, b in pairwise(timers))
    return bool(steps) and steps.most_common(1)[0][1] >= _GRID * (len(timers) - 1)


def _absolute(timers: Sequence[Timer]) -> list[bool]:
    """Tell for the timers of a task whether it counts to a deadline.

    It does where the deadlines lie on a grid, or where the length is one that does not recur.
    """
    if len(timers) < _FEW:
        return [False] * len(timers)
    grid = _on_grid(timers)
    lengths = sorted(timer.length_ns for timer in timers)
    enough = max(_FEW, _OFTEN * len(lengths))

    def recurs(length: int) -> bool:
        near = (bisect.bisect(lengths, length + sign * _READ_BEFORE_NS) for sign in (-1, 1))
        low, high = near
        return high - low >= enough

    again = [recurs(one.length_ns) for one in timers]
    if sum(again) >= _RELATIVE * len(timers):
        again = [each or one.function == WAKES_TASK
                 for one, each in zip(timers, again, strict=True)]  # fmt: skip
    return [(grid and not one.relative) or not each
            for one, each in zip(timers, again, strict=True)]  # fmt: skip


def _left_out(found: Sequence[Step], before_ns: int, period_ns: int, due_ns: int) -> list[Step]:
    """Return steps for the deadlines between two, which a quicker machine meets."""
    if not before_ns or not found or found[-1].kind is not Kind.RUN:
        return []
    work = found[-1]
    return [
        step
        for at in range(before_ns + period_ns, due_ns - period_ns // 2, period_ns)
        for step in (Step(Kind.UNTIL, at, skip=True), Step(Kind.RUN, work.value))
    ]


def _rounds(drafts: Sequence[Draft], absolute: Sequence[bool]) -> Iterator[Sequence[int]]:
    """Yield the places of a task's deadlines, each with the wake-ups in which more rounds begin.

    A task that counts to deadlines does the same in each round, here by its count of wake-ups. It
    does not sleep for a deadline that has passed. So it has done a multiple of that by the next.
    """
    if not all(absolute):
        return
    timers = [place for place, step in enumerate(drafts) if step.timer]
    wakes = [[place for place in range(a, b) if drafts[place].kind in _WAKES and drafts[place].at]
             for a, b in pairwise(timers)]  # fmt: skip
    if len(wakes) < _FEW:
        return
    counts = Counter(map(len, wakes))
    usual = min((count for count, often in counts.items() if count and often >= _FEW), default=0)
    whole = sum(often for count, often in counts.items() if usual and count and not count % usual)
    if usual >= _ROUND and whole >= _WHOLE * len(wakes):
        yield from ((timer, *each[usual::usual])
                    for timer, each in zip(timers, wakes, strict=False))  # fmt: skip


def _met(drafts: Sequence[Draft], absolute: Sequence[bool]) -> Sequence[Draft]:
    """Return steps with the deadlines that the task missed; it sleeps for none that has passed.

    No event tells when a missed one was due: after the one before, and before the wake-up that
    follows. So the middle stands for it.
    """
    rounds, found = [*_rounds(drafts, absolute)], [*drafts]
    if not any(starts for _, *starts in rounds):
        return drafts
    for step in found:
        if step.timer:
            step.late = True
    for timer, *starts in reversed(rounds):
        due, missed = float(cast(Timer, drafts[timer].timer).due_ns), []
        for start in starts:
            due = (due + drafts[start].at) / 2
            place = start
            while drafts[place - 1].kind is Kind.RUN:
                place -= 1
            missed.append((place, Draft(Kind.UNTIL, due, late=True)))
        for place, step in reversed(missed):
            found.insert(place, step)
    return found


def _whole(drafts: Iterable[Draft]) -> list[Draft]:
    """Return steps in which no piece of work has parts, but for those with work of RCU."""
    found: list[Draft] = []
    for one in drafts:
        last = found[-1] if found else None
        runs = last is not None and last.kind is one.kind is Kind.RUN
        if last and runs and not last.callbacks and not one.callbacks:
            whole = last.value + one.value, last.rcu_ns + one.rcu_ns
            found[-1] = Draft(Kind.RUN, whole[0], rcu_ns=whole[1])
        else:
            found.append(one)
    return found


def steps_of(task: Recorded, drafts: Sequence[Draft], place: Mapping[int, int]) -> list[Step]:
    """Return a task's steps; sleeps are told apart, and slack is set where it changes.

    Args:
        task: whose they are.
        drafts: they.
        place: numbers of tasks in the program.
    """
    timers = [step.timer for step in drafts if step.timer]
    counts = _absolute(timers)
    absolute, period, due_ns = iter(counts), _period_ns(timers), 0
    polls = sum(step.kind is Kind.WAIT for step in drafts) > 2
    early = polls and not all(timer.relative for timer in timers)
    if not (task.loops or early or period or _on_grid(timers)):
        drafts = _met(drafts, counts)
    found: list[Step] = []
    slack = DEFAULT_SLACK_NS
    for step in _whole(drafts):
        wanted = slack
        if step.kind in (Kind.POST, Kind.FORK, Kind.REAP):
            if int(step.value) in place:
                found.append(Step(step.kind, place[int(step.value)]))
            continue
        if step.callbacks:
            # In the middle of the piece, so it is far from ticks.
            found += [Step(Kind.RUN, round(step.value / 2)), Step(Kind.RCU, step.callbacks)]
            step = replace(step, value=step.value / 2)
        made = Step(step.kind, max(0, round(step.value)), end=step.end)
        made.sync = step.sync and step.kind is Kind.WAIT and not made.value
        made.late = step.late
        if step.timer:
            if next(absolute):
                made = Step(Kind.UNTIL, max(0, step.timer.due_ns), late=step.late)
            made.early = polls and not step.timer.relative
            if period and not made.early:
                made = Step(Kind.UNTIL, max(0, step.timer.due_ns), skip=True)
                found += _left_out(found, due_ns, period, made.value)
                due_ns = made.value
            wanted = max(LEAST_SLACK_NS, step.timer.slack_ns)
        elif step.kind is Kind.UNTIL and step.value and not step.late:
            wanted = LEAST_SLACK_NS
        if wanted != slack and task.priority >= REALTIME_BELOW:
            found.append(Step(Kind.SLACK, wanted))
            slack = wanted
        found.append(made)
    return found


def fit(slots: int, end: int, tasks: Iterable[Recorded]) -> None:
    """Remove writes to a pipe which no task reads, and which it has no room for.

    The first ones went to another file of that number, the last ones were read by no task.

    Args:
        slots: its room, messages.
        end: that is written to; the next one is read.
        tasks: of the program.
    """
    steps = [(task, one) for task in tasks for one in task.steps]
    writes = [(task, one) for task, one in steps if (one.kind, one.end) == (Kind.WRITE, end)]
    reads = [one.value for _, one in steps if (one.kind, one.end) == (Kind.READ, end + 1)]
    first = next((n for n, (_, one) in enumerate(writes) if one.value == reads[0]), 0)
    gone = {id(one) for _, one in writes[:first] + writes[first + len(reads) + slots :]}
    for task in {id(task): task for task, _ in writes}.values():
        task.steps = [one for one in task.steps if id(one) not in gone]
