# SPDX-License-Identifier: GPL-2.0
"""Builds the program of a clone from the events of a phase.

A task becomes its work between events, the wake-ups that it makes, and the causes that ended its
sleeps. A sleep ends by a post of another task, by a timer of the task's own, or by something from
outside, which becomes an arrival at its time.
"""

import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import pairwise
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.kernel_threads import KERNEL_THREAD
from cpuidle_lab.clone.events import IN_INTERRUPT, IN_SOFTIRQ, Event, PhaseEvents
from cpuidle_lab.clone.program import TASKS_MOST, TICK_NS, Kind, Program, Step, Task

REALTIME_BELOW = 100
_IDLE = 0
_NET_RX = "3"
_WAKES_TASK = "hrtimer_wakeup"
_MODE_RELATIVE = 1

# Slack of a task's timers unless it asks for another, and of real-time tasks.
DEFAULT_SLACK_NS, LEAST_SLACK_NS = 50_000, 1

# A program asks for one length again and again, or it counts to a deadline. The kernel reads its
# clock so long before the event at most; fewer sleeps than _FEW tell nothing.
_READ_BEFORE_NS, _FEW, _OFTEN = 12_000, 4, 0.03
# Share of equal steps between deadlines that makes them a grid.
_GRID = 0.5

# Share of the times that a task came to a CPU, from which on that CPU is its own.
_STAYS = 0.99

# A phase whose events span more is played in part.
PART_NS = 2_000_000_000


class _State(Enum):
    UNKNOWN = auto()
    RUNNING = auto()
    READY = auto()
    ASLEEP = auto()
    GONE = auto()


@dataclass(frozen=True, slots=True)
class _Timer:
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
class _Draft:
    """A step, of which the timer's kind is still open."""

    kind: Kind
    value: float = 0
    timer: _Timer | None = None


@dataclass(eq=False)
class _Recorded:
    """A task while the events are read.

    Attributes:
        name, priority: as last recorded.
        state: ready, running, asleep or gone, as last told.
        since: when its work was last counted, ns.
        work: counted and in no step yet, ns.
        timer: that it waits for.
        forestalled: a post came while it was about to sleep; it may sleep all the same for a
            moment, and then wakes without another event.
        cpus: how often it came to each CPU.
        steps: done so far.
    """

    name: str
    priority: int = 120
    state: _State = _State.UNKNOWN
    since: int = 0
    work: float = 0
    timer: _Timer | None = None
    forestalled: bool = False
    cpus: Counter[int] = field(default_factory=Counter)
    steps: list[_Draft] = field(default_factory=list)

    @property
    def of_kernel(self) -> bool:
        """It is a thread of the kernel's."""
        return bool(KERNEL_THREAD.match(self.name))

    @property
    def stays(self) -> bool:
        """It ran on one CPU, its start perhaps apart."""
        return max(self.cpus.values(), default=0) >= _STAYS * self.cpus.total()


class Progress:
    """Work that a busy CPU gets done until a time.

    In virtual time the CPUs share one stream of instructions, so each of n busy ones gets 1/n.

    Args:
        events: of a phase.
        shared: the recording is of the lab.
    """

    def __init__(self, events: Sequence[Event], *, shared: bool) -> None:
        self._at, self._done = [events[0].ts], [0.0]
        busy = _busy_at_first(events) if shared else set()
        for event in events:
            if not shared or event.name != "sched_switch":
                continue
            step = (event.ts - self._at[-1]) / max(1, len(busy))
            self._done.append(self._done[-1] + step)
            self._at.append(event.ts)
            (busy.discard if event.fields()["next_pid"] == "0" else busy.add)(event.cpu)
        self._last = 1 / max(1, len(busy))

    def until(self, ts: int) -> float:
        """Return the work done until a time, ns."""
        place = bisect.bisect_right(self._at, ts) - 1
        if place < 0:
            return 0.0
        if place + 1 == len(self._at):
            return self._done[-1] + (ts - self._at[-1]) * self._last
        (a, b), (x, y) = self._at[place : place + 2], self._done[place : place + 2]
        return x + (y - x) * (ts - a) / (b - a) if b > a else y


def _busy_at_first(events: Sequence[Event]) -> set[int]:
    """Return the CPUs that run a task at the beginning: those whose first switch leaves one."""
    first: dict[int, bool] = {}
    for event in events:
        if event.name == "sched_switch":
            first.setdefault(event.cpu, event.fields()["prev_pid"] != "0")
    return {cpu for cpu, busy in first.items() if busy}


class _Reading:
    """The tasks of a phase, while its events are read."""

    def __init__(self, phase: PhaseEvents, *, shared: bool) -> None:
        self._phase = phase
        self._progress = Progress(phase.events, shared=shared)
        self.offset_ns = _clock_offset(phase.events)
        self.tasks: list[_Recorded] = []
        self.outside: Counter[str] = Counter()
        self.kernel_runs = 0
        self._by_pid: dict[int, _Recorded] = {}
        self._timers: dict[str, _Timer] = {}
        self._expiring: dict[int, tuple[str, str]] = {}
        self._serving: dict[int, str] = {}
        self._raised: dict[tuple[int, str], Event] = {}
        self._targets: dict[int, _Recorded] = {}

    def read(self) -> None:
        """Take all events."""
        handlers: Mapping[str, Callable[[Event], object]] = {
            "sched_switch": self._switch,
            "sched_waking": self._waking,
            "sched_wakeup_new": self._wakeup_new,
            "hrtimer_start": self._start,
            "hrtimer_expire_entry": self._expire,
            "hrtimer_expire_exit": lambda event: self._expiring.pop(event.cpu, None),
            "softirq_raise": self._raise,
            "softirq_entry": self._serve,
            "softirq_exit": lambda event: self._serving.pop(event.cpu, None),
        }
        for event in self._phase.events:
            if handler := handlers.get(event.name):
                handler(event)
        self._end()

    def task(self, pid: int, name: str, *, short: bool = False) -> _Recorded:
        """Return the task of a number.

        Args:
            pid: its number.
            name: its name.
            short: the name may be cut, so another one stays.
        """
        found = self._by_pid.get(pid)
        if found is None:
            found = self._by_pid[pid] = _Recorded(name)
            self.tasks.append(found)
        if not short:
            found.name = name
        return found

    def _count(self, task: _Recorded, ts: int) -> None:
        """Count the work of a task that runs, until now."""
        if task.state is _State.UNKNOWN:
            self._began(task, _State.RUNNING)
        if task.state is _State.RUNNING:
            task.work += self._progress.until(ts) - self._progress.until(task.since)
            task.since = ts

    def _began(self, task: _Recorded, state: _State) -> None:
        """Note that a task was awake when the phase began."""
        task.state, task.since = state, self._phase.start_ns
        task.steps.append(_Draft(Kind.UNTIL, 0))

    def _ends_piece(self, task: _Recorded, ts: int) -> None:
        self._count(task, ts)
        task.steps.append(_Draft(Kind.RUN, task.work))
        task.work = 0

    def _switch(self, event: Event) -> None:
        told = event.fields()
        before, after = int(told["prev_pid"]), int(told["next_pid"])
        if before != _IDLE:
            self._leaves(self.task(before, told["prev_comm"]), event.ts, told["prev_state"][0])
        if after == _IDLE:
            return
        task = self.task(after, told["next_comm"])
        task.priority = max(0, int(told["next_prio"]))  # a deadline's is -1
        if task.of_kernel:
            self.kernel_runs += 1
            return
        if task.state is _State.UNKNOWN:
            self._began(task, _State.READY)
        elif task.state is _State.ASLEEP and not task.forestalled:
            self._arrives(task, event.ts, "a cause that was not recorded")
        if task.state is _State.ASLEEP:
            task.forestalled = False
        task.state, task.since, task.timer = _State.RUNNING, event.ts, None
        task.cpus[event.cpu] += 1

    def _leaves(self, task: _Recorded, ts: int, state: str) -> None:
        self._count(task, ts)
        if state == "R":
            task.state = _State.READY
            return
        self._ends_piece(task, ts)
        task.state = _State.GONE if state in "XZ" else _State.ASLEEP

    def _start(self, event: Event) -> None:
        told = event.fields()
        soft, hard = int(told["softexpires"]), int(told["expires"])
        timer = _Timer(
            event.pid if event.context == "." else _IDLE,
            soft - (event.ts + self.offset_ns),
            soft - (self._phase.start_ns + self.offset_ns),
            hard - soft,
            bool(int(told["mode"], 0) & _MODE_RELATIVE),
            told["function"],
        )
        self._timers[told["hrtimer"]] = timer
        if timer.by != _IDLE and timer.function == _WAKES_TASK:
            self.task(timer.by, event.comm, short=True).timer = timer

    def _expire(self, event: Event) -> None:
        told = event.fields()
        self._expiring[event.cpu] = told["hrtimer"], told["function"]

    def _raise(self, event: Event) -> None:
        self._raised[event.cpu, event.fields()["vec"]] = event

    def _serve(self, event: Event) -> None:
        self._serving[event.cpu] = event.fields()["vec"]

    def _wakeup_new(self, event: Event) -> None:
        told = event.fields()
        self._by_pid.pop(int(told["pid"]), None)
        self.task(int(told["pid"]), told["comm"]).state = _State.ASLEEP
        self._waking(event)

    def _waking(self, event: Event) -> None:
        told = event.fields()
        pid = int(told["pid"])
        task = self.task(pid, told["comm"])
        if task.of_kernel:
            return
        asleep = task.state in (_State.UNKNOWN, _State.ASLEEP)
        poster = self._poster(event, pid)
        if poster:
            self._ends_piece(poster, event.ts)
            poster.steps.append(_Draft(Kind.POST, id(task)))
            self._targets[id(task)] = task
            if not asleep:
                self._ends_piece(task, event.ts)
                task.forestalled = True
            awaited = task.timer if asleep and task.timer else None
            task.steps.append(_Draft(Kind.WAIT, max(0, awaited.length_ns) if awaited else 0))
        elif timer := self._timer_of(event, pid, task):
            if asleep:
                task.steps.append(_Draft(Kind.SLEEP, timer.length_ns, timer))
        elif asleep:
            self._arrives(task, event.ts, self._origin(event))
        if asleep:
            task.state, task.timer, task.forestalled = _State.READY, None, False

    def _poster(self, event: Event, target: int) -> _Recorded | None:
        """Return the task that wakes another: the one that runs, or the sender of a packet."""
        by = event
        if event.context == IN_SOFTIRQ:
            vector = self._serving.get(event.cpu, "")
            by = self._raised.get((event.cpu, vector), event)
            if vector != _NET_RX or by.context not in (".", IN_SOFTIRQ):
                return None
        elif event.context in IN_INTERRUPT:
            return None
        if by.pid in (_IDLE, target):
            return None
        poster = self.task(by.pid, by.comm, short=True)
        return None if poster.of_kernel or poster.state is _State.GONE else poster

    def _timer_of(self, event: Event, pid: int, task: _Recorded) -> _Timer | None:
        """Return the task's own timer by which it is woken."""
        if event.context == "." or event.cpu not in self._expiring:
            return None
        key, function = self._expiring[event.cpu]
        if function == _WAKES_TASK and task.timer:
            return task.timer
        timer = self._timers.get(key)
        return timer if timer and timer.by == pid else None

    def _origin(self, event: Event) -> str:
        if event.context == ".":
            return "threads of the kernel"
        return "timers of the kernel" if event.cpu in self._expiring else "interrupts"

    def _arrives(self, task: _Recorded, ts: int, origin: str) -> None:
        task.steps.append(_Draft(Kind.UNTIL, ts - self._phase.start_ns))
        self.outside[origin] += 1

    def _end(self) -> None:
        """Let the task end the program that ended the phase; keep timers that tasks wait for."""
        last = self._phase.events[-1]
        for task in self.tasks:
            if task.state is _State.RUNNING:
                self._ends_piece(task, last.ts)
            elif task.state is _State.ASLEEP and task.timer:
                task.steps.append(_Draft(Kind.SLEEP, task.timer.length_ns, task.timer))
        if last.name == "print":
            self.task(last.pid, last.comm, short=True).steps.append(_Draft(Kind.END))
        else:
            length = last.ts - self._phase.start_ns
            clock = _Recorded("end", steps=[_Draft(Kind.UNTIL, length), _Draft(Kind.END)])
            self.tasks.append(clock)

    def finished(self, *, pin: bool) -> list[Task]:
        """Return the tasks that have steps, as the program has them; `pin` as of build()."""
        kept = [task for task in self.tasks if task.steps and not task.of_kernel]
        place = {id(task): number for number, task in enumerate(kept)}
        return [
            Task(
                task.name,
                task.priority,
                task.cpus.most_common(1)[0][0] if task.cpus else 0,
                _steps(task, place),
                pin and task.stays,
            )
            for task in kept
        ]


def _clock_offset(events: Iterable[Event]) -> int:
    """Return the kernel's monotonic time less the time of events, ns."""
    return max(
        int(event.fields()["now"]) - event.ts
        for event in events
        if event.name == "hrtimer_expire_entry"
    )


def _absolute(timers: Sequence[_Timer]) -> list[bool]:
    """Tell for the timers of a task whether it counts to a deadline.

    It does where the deadlines lie on a grid, or where the length is one that does not recur.
    """
    if len(timers) < _FEW:
        return [False] * len(timers)
    steps = Counter(b.due_ns - a.due_ns for a, b in pairwise(timers))
    grid = steps.most_common(1)[0][1] >= _GRID * (len(timers) - 1)
    lengths = sorted(timer.length_ns for timer in timers)
    enough = max(_FEW, _OFTEN * len(lengths))

    def recurs(length: int) -> bool:
        near = (bisect.bisect(lengths, length + sign * _READ_BEFORE_NS) for sign in (-1, 1))
        low, high = near
        return high - low >= enough

    return [(grid and not one.relative) or not recurs(one.length_ns) for one in timers]


def _steps(task: _Recorded, place: Mapping[int, int]) -> list[Step]:
    """Return a task's steps; sleeps are told apart, and slack is set where it changes."""
    timers = [step.timer for step in task.steps if step.timer]
    absolute = iter(_absolute(timers))
    polls = sum(step.kind is Kind.WAIT for step in task.steps) > 2
    found: list[Step] = []
    slack = DEFAULT_SLACK_NS
    for step in task.steps:
        wanted = slack
        if step.kind is Kind.POST:
            if int(step.value) in place:
                found.append(Step(Kind.POST, place[int(step.value)]))
            continue
        made = Step(step.kind, max(0, round(step.value)))
        if step.timer:
            if next(absolute):
                made = Step(Kind.UNTIL, max(0, step.timer.due_ns))
            made.early = polls and not step.timer.relative
            wanted = max(LEAST_SLACK_NS, step.timer.slack_ns)
        elif step.kind is Kind.UNTIL and step.value:
            wanted = LEAST_SLACK_NS
        if wanted != slack and task.priority >= REALTIME_BELOW:
            found.append(Step(Kind.SLACK, wanted))
            slack = wanted
        found.append(made)
    return found


def part_of(phase: PhaseEvents, most_ns: int = PART_NS) -> tuple[PhaseEvents, str]:
    """Return the part of a phase that is played, and a sentence on it; "" of a whole one.

    Of a long phase it is the stretch whose wake-ups are nearest to the mean.
    """
    length = phase.end_ns - phase.start_ns
    if length <= most_ns:
        return phase, ""
    count = length // most_ns
    at = [event.ts for event in phase.events]
    edges = [bisect.bisect_left(at, phase.start_ns + k * most_ns) for k in range(count + 1)]
    woken = [event.name == "sched_waking" for event in phase.events]
    found = [sum(woken[a:b]) for a, b in pairwise(edges)]
    mean = sum(found) / count
    best = min(range(count), key=lambda k: abs(found[k] - mean))
    events = phase.events[edges[best] : edges[best + 1]]
    sentence = (
        f"of {length / 1e9:.1f} s the {most_ns / 1e9:g} s from {best * most_ns / 1e9:g} s on are "
        "rebuilt, whose wake-ups are nearest to the mean"
    )
    return replace(phase, events=events), sentence


def build(phase: PhaseEvents, path: Path, *, shared: bool = True, pin: bool = False) -> Program:
    """Return the program of a phase.

    Args:
        phase: all of it.
        path: the recording, for messages.
        shared: it was recorded in the lab, whose busy CPUs share one stream of instructions.
        pin: tasks that stayed on one CPU are kept there; else the scheduler places them.

    Raises:
        UserError: no task sleeps, no timer expires, or there are too many tasks.
    """
    names = {event.name for event in phase.events}
    if "hrtimer_expire_entry" not in names:
        raise UserError(f"{path}: no timer expires in {phase.workload}, which would tell its time")
    reading = _Reading(phase, shared=shared)
    reading.read()
    tasks = reading.finished(pin=pin)
    if len(tasks) > TASKS_MOST:
        raise UserError(
            f"{path}: {phase.workload} has {len(tasks):,} tasks; a clone has {TASKS_MOST:,} at most"
        )
    sleeps = (Kind.SLEEP, Kind.WAIT)
    if not any(step.kind in sleeps or (step.kind is Kind.UNTIL and step.value)
               for task in tasks for step in task.steps):  # fmt: skip
        raise UserError(f"{path}: no task sleeps in {phase.workload}, so no governor decides")
    left = [f"{reading.kernel_runs} times that threads of the kernel ran"]
    left += [f"the causes of {n} wake-ups by {what}; they are arrivals at their times"
             for what, n in reading.outside.items()]  # fmt: skip
    start = (phase.start_ns + reading.offset_ns) % TICK_NS
    length = phase.end_ns - phase.start_ns
    return Program(phase.workload, phase.governor, length, start, tasks, left)
