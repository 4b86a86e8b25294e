# SPDX-License-Identifier: GPL-2.0
"""Builds the program of a clone from the events of a phase.

A task becomes its work between events, the wake-ups that it makes, and the causes that ended its
sleeps. A sleep ends by a post of another task, by a timer of the task's own, or by something from
outside, which becomes an arrival at its time.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.clone.calls import Call, Files, joined
from cpuidle_lab.clone.drafts import (
    WAKES_TASK,
    Draft,
    Recorded,
    State,
    Timer,
    fit,
    residents,
    steps_of,
)
from cpuidle_lab.clone.events import (
    CLOSE,
    IN_INTERRUPT,
    IN_SOFTIRQ,
    POLLS,
    READS,
    WRITES,
    Event,
    PhaseEvents,
)
from cpuidle_lab.clone.lanes import polling, split
from cpuidle_lab.clone.program import GATES_MOST, TASKS_MOST, TICK_NS, Kind, Program, Task
from cpuidle_lab.clone.progress import Progress, running_at_first

_IDLE = 0
_NET_RX, _RCU = "3", "9"
# The tick's function, since Linux 6.8 and before.
_TICKS = frozenset({"tick_nohz_handler", "tick_sched_timer"})
_MODE_RELATIVE = 1

# Ticks that lie further apart were stopped between them. RCU's softirq takes so long without work.
_STOPPED_NS, _RCU_NS = 3 * TICK_NS // 2, 1000

# A write that wakes so many tasks opens a gate.
_SEVERAL = 2


class _Reading:
    """The tasks of a phase, while its events are read."""

    def __init__(self, phase: PhaseEvents, *, shared: bool) -> None:
        self._phase = phase
        self._progress = Progress(phase.events, shared=shared)
        self._first = {pid: cpu for cpu, pid in running_at_first(phase.events).items()}
        self.offset_ns = _clock_offset(phase.events)
        self.tasks: list[Recorded] = []
        self.outside: Counter[str] = Counter()
        self.kernel_runs = 0
        self.rcu_ns = 0.0
        self._by_pid: dict[int, Recorded] = {}
        self._timers: dict[str, Timer] = {}
        self._expiring: dict[int, tuple[str, str]] = {}
        self._serving: dict[int, str] = {}
        self._since: dict[int, int] = {}
        # By CPU: the last tick; the longest pieces since then, before it, and before the tick
        # before it.
        self._tick: dict[int, int] = {}
        self._longest: dict[int, Draft] = {}
        self._fresh: dict[int, Draft] = {}
        self._frees: dict[int, Draft] = {}
        self._raised: dict[tuple[int, str], Event] = {}
        self._targets: dict[int, Recorded] = {}
        self.joints, self._ends = joined(phase.events)
        self._files = Files()
        # Posts of each task that writes, and how many writes woke several tasks.
        self._writing: dict[int, list[Draft]] = {}
        self._gates = 0
        self._loops = {pid for pid, *_ in self._ends} & polling(phase.events)

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
            "softirq_exit": self._served,
            "sys_enter": self._calls,
            "sys_exit": self._returns,
        }
        for event in self._phase.events:
            if handler := handlers.get(event.name):
                handler(event)
        self._end()

    def task(self, pid: int, name: str, *, short: bool = False) -> Recorded:
        """Return the task of a number.

        Args:
            pid: its number.
            name: its name.
            short: the name may be cut, so another one stays.
        """
        found = self._by_pid.get(pid)
        if found is None:
            found = self._by_pid[pid] = Recorded(name, runs_on=self._first.get(pid, 0))
            self.tasks.append(found)
        if not short:
            found.name = name
        return found

    def _done(self, cpu: int, since: int, ts: int) -> float:
        """Return the work of a CPU between two times, ns."""
        return self._progress.until(cpu, ts) - self._progress.until(cpu, since)

    def _count(self, task: Recorded, ts: int) -> None:
        """Count the work of a task that runs, until now."""
        if task.state is State.UNKNOWN:
            self._began(task, State.RUNNING)
        if task.state is State.RUNNING:
            of_tasks, cpu = self._progress.of_tasks, task.runs_on
            task.work += of_tasks(cpu, ts) - of_tasks(cpu, task.since)
            task.since = ts

    def _began(self, task: Recorded, state: State) -> None:
        """Note that a task was awake when the phase began."""
        task.state, task.since = state, self._phase.start_ns
        task.steps.append(Draft(Kind.UNTIL, 0))

    def _ends_piece(self, task: Recorded, ts: int) -> None:
        self._count(task, ts)
        self._adds_piece(task, task.work)
        task.work = task.before = 0

    def _adds_piece(self, task: Recorded, work: float) -> None:
        piece = Draft(Kind.RUN, work)
        task.steps.append(piece)
        longest = self._longest.get(task.runs_on)
        if not task.of_kernel and (not longest or work > longest.value):
            self._longest[task.runs_on] = piece

    def _calls(self, event: Event) -> None:
        call = Call.of(event)
        if call is None:
            return
        if call.number in WRITES:
            self._writing[event.pid] = []
        polls = call.number in POLLS and event.pid in self._loops
        end = self._ends.get(self._files.of(event.pid, call))
        if polls or (end is not None and call.number != CLOSE):
            task = self.task(event.pid, event.comm, short=True)
            self._count(task, event.ts)
            task.call, task.end, task.before = call, end or 0, task.work
            task.due, task.slept = 0, False

    def _returns(self, event: Event) -> None:
        call = Call.of(event)
        task = self._by_pid.get(event.pid)
        if task:
            self._gather(task, self._writing.pop(event.pid, []))
        if call is None or call.result is None or task is None:
            return
        if task.call is None and call.number in POLLS and event.pid in self._loops:
            # It began before the phase.
            task.call, task.before, task.due, task.slept = call, 0.0, 0, True
        if task.call is None:
            return
        begun, task.call = task.call, None
        polls = begun.number in POLLS
        if call.result <= 0 and not polls:
            return  # its time is work
        self._count(task, event.ts)
        self._adds_piece(task, task.before)
        # A poll that did not sleep is none of the player's.
        task.work -= task.before if polls and not task.slept else task.work
        task.before = 0
        kind = Kind.LANE if polls else Kind.READ if begun.number in READS else Kind.WRITE
        at = event.ts - self._phase.start_ns
        task.steps.append(Draft(kind, task.due if polls else call.result, end=task.end, at=at))
        task.loops |= polls

    def _gather(self, task: Recorded, posts: Sequence[Draft]) -> None:
        """Let a write that woke several tasks open a gate: no task preempts it between them.

        The time between the posts is that of the call, which the clone makes, too.

        Args:
            task: that wrote.
            posts: of that call, to tasks that slept without a timer.
        """
        if len(posts) < _SEVERAL or self._gates == GATES_MOST:
            return
        for post in posts:
            assert post.wait is not None
            post.wait.kind, post.wait.value, post.wait.sync = Kind.PASS, self._gates, False
        first, *rest = posts
        first.kind, first.value = Kind.OPEN, self._gates
        gone = {id(post) for post in rest}
        steps: list[Draft] = []
        for step in task.steps:
            if id(step) in gone:
                steps[-1].value = 0
            else:
                steps.append(step)
        task.steps = steps
        self._gates += 1

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
        if task.state is State.UNKNOWN:
            self._began(task, State.READY)
        elif task.state is State.ASLEEP and not task.forestalled and not task.call:
            self._arrives(task, event.ts, "a cause that was not recorded")
        if task.state is State.ASLEEP:
            task.forestalled = False
        task.state, task.since, task.timer = State.RUNNING, event.ts, None
        task.cpus[event.cpu] += 1
        task.runs_on = event.cpu

    def _leaves(self, task: Recorded, ts: int, state: str) -> None:
        self._count(task, ts)
        if state == "R":
            task.state = State.READY
            return
        if task.call is None or state in "XZ":
            self._ends_piece(task, ts)
        task.state = State.ASLEEP
        if state in "XZ":
            task.exits(state)

    def _start(self, event: Event) -> None:
        told = event.fields()
        soft, hard = int(told["softexpires"]), int(told["expires"])
        timer = Timer(
            event.pid if event.context == "." else _IDLE,
            soft - (event.ts + self.offset_ns),
            soft - (self._phase.start_ns + self.offset_ns),
            hard - soft,
            bool(int(told["mode"], 0) & _MODE_RELATIVE),
            told["function"],
        )
        self._timers[told["hrtimer"]] = timer
        if timer.by != _IDLE and timer.function == WAKES_TASK:
            self.task(timer.by, event.comm, short=True).timer = timer

    def _expire(self, event: Event) -> None:
        told = event.fields()
        self._expiring[event.cpu] = told["hrtimer"], told["function"]
        if told["function"] in _TICKS:
            self._ticks(event)

    def _ticks(self, event: Event) -> None:
        """Note the longest piece of work on a CPU since the tick before.

        A CPU whose tasks have queued work of RCU keeps its tick until that is done. A piece ends at
        a tick, so that such work has its place in a long one.
        """
        cpu, task = event.cpu, self._by_pid.get(event.pid)
        if task and task.state is State.RUNNING and not task.call:
            self._ends_piece(task, event.ts)
        if event.ts - self._tick.get(cpu, event.ts) > _STOPPED_NS:
            self._frees.pop(cpu, None)
            self._fresh.pop(cpu, None)
        if cpu in self._fresh:
            self._frees[cpu] = self._fresh.pop(cpu)
        if cpu in self._longest:
            self._fresh[cpu] = self._longest.pop(cpu)
        self._tick[cpu] = event.ts

    def _raise(self, event: Event) -> None:
        self._raised[event.cpu, event.fields()["vec"]] = event

    def _serve(self, event: Event) -> None:
        self._serving[event.cpu] = event.fields()["vec"]
        self._since[event.cpu] = event.ts

    def _served(self, event: Event) -> None:
        step = self._frees.get(event.cpu)
        if self._serving.pop(event.cpu, "") == _RCU:
            length = self._done(event.cpu, self._since[event.cpu], event.ts)
            beyond = max(0.0, length - _RCU_NS)
            self.rcu_ns += beyond
            if step:
                step.rcu_ns += beyond

    def _wakeup_new(self, event: Event) -> None:
        told = event.fields()
        self._by_pid.pop(int(told["pid"]), None)
        task = self.task(int(told["pid"]), told["comm"])
        task.state = State.ASLEEP
        self._waking(event)
        parent = self._by_pid.get(event.pid)
        birth = parent.steps[-1] if parent and parent.steps else None
        if birth and birth.kind is Kind.POST and birth.value == id(task):
            task.birth, task.parent = birth, id(parent)

    def _waking(self, event: Event) -> None:
        told = event.fields()
        pid = int(told["pid"])
        task = self.task(pid, told["comm"])
        if task.of_kernel:
            return
        asleep = task.state in (State.UNKNOWN, State.ASLEEP)
        if task.call:
            # The object wakes it.
            task.slept |= asleep
            if asleep and (timer := self._timer_of(event, pid, task)):
                task.due = timer.due_ns
            if asleep:
                task.state, task.timer, task.forestalled = State.READY, None, False
            return
        poster = self._poster(event, pid)
        if poster:
            self._ends_piece(poster, event.ts)
            post = Draft(Kind.POST, id(task), at=event.ts - self._phase.start_ns)
            poster.steps.append(post)
            self._targets[id(task)] = task
            if not asleep:
                self._ends_piece(task, event.ts)
                task.forestalled = True
            awaited = task.timer if asleep and task.timer else None
            post.wait = Draft(Kind.WAIT, max(0, awaited.length_ns) if awaited else 0)
            post.wait.sync = event.context == "." and event.pid in self._writing
            if post.wait.sync and asleep and not awaited:
                self._writing[event.pid].append(post)
            task.steps.append(post.wait)
        elif timer := self._timer_of(event, pid, task):
            if asleep or timer is task.timer:
                # A timer that expires before its task has fallen asleep is a sleep, too.
                if not asleep:
                    self._ends_piece(task, event.ts)
                    task.forestalled = True
                task.steps.append(Draft(Kind.SLEEP, timer.length_ns, timer))
                task.timer = None
        elif asleep:
            self._arrives(task, event.ts, self._origin(event))
        if asleep:
            task.state, task.timer, task.forestalled = State.READY, None, False

    def _poster(self, event: Event, target: int) -> Recorded | None:
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
        return None if poster.of_kernel or poster.state is State.GONE else poster

    def _timer_of(self, event: Event, pid: int, task: Recorded) -> Timer | None:
        """Return the task's own timer by which it is woken."""
        if event.context == "." or event.cpu not in self._expiring:
            return None
        key, function = self._expiring[event.cpu]
        if function == WAKES_TASK and task.timer:
            return task.timer
        timer = self._timers.get(key)
        return timer if timer and timer.by == pid else None

    def _origin(self, event: Event) -> str:
        if event.context == ".":
            return "threads of the kernel"
        return "timers of the kernel" if event.cpu in self._expiring else "interrupts"

    def _arrives(self, task: Recorded, ts: int, origin: str) -> None:
        task.steps.append(Draft(Kind.UNTIL, ts - self._phase.start_ns))
        self.outside[origin] += 1

    def _end(self) -> None:
        """Let the task end the program that ended the phase; keep timers that tasks wait for."""
        last = self._phase.events[-1]
        for task in self.tasks:
            if task.call and task.call.number in POLLS and task.timer:
                # The timer has not expired yet.
                task.steps.append(Draft(Kind.LANE, task.timer.due_ns))
            elif task.state is State.RUNNING or task.work:
                self._ends_piece(task, last.ts)
            elif task.state is State.ASLEEP and task.timer:
                task.steps.append(Draft(Kind.SLEEP, task.timer.length_ns, task.timer))
        if last.name == "print":
            self.task(last.pid, last.comm, short=True).steps.append(Draft(Kind.END))
        else:
            length = last.ts - self._phase.start_ns
            clock = Recorded("end", steps=[Draft(Kind.UNTIL, length), Draft(Kind.END)])
            self.tasks.append(clock)

    def _residents(self) -> set[int]:
        """Return the numbers, by id(), of residents; a part of a phase does not tell any."""
        first = self._phase.events[0]
        shell = self._by_pid.get(first.pid) if first.name == "print" else None
        length = self._phase.end_ns - self._phase.start_ns
        return residents(self.tasks, shell, length) if shell else set()

    def finished(self, *, pin: bool) -> list[Task]:
        """Return the tasks that have steps, as the program has them; `pin` as of build()."""
        kept = [task for task in self.tasks if task.steps and not task.of_kernel]
        for number, joint in enumerate(self.joints):
            if joint.slots:
                fit(joint.slots, 2 * number, kept)
        place = {id(task): number for number, task in enumerate(kept)}
        resident = self._residents()
        return [
            Task(
                task.name,
                task.priority,
                task.cpu(pin and task.stays),
                steps_of(task, split(task.steps) if task.loops else task.steps, place),
                pin and task.stays,
                task.process,
                id(task) in resident,
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
    sleeps = (Kind.SLEEP, Kind.WAIT, Kind.PASS, Kind.REAP, Kind.READ, Kind.WRITE)
    if not any(step.kind in sleeps or (step.kind is Kind.UNTIL and step.value)
               for task in tasks for step in task.steps):  # fmt: skip
        raise UserError(f"{path}: no task sleeps in {phase.workload}, so no governor decides")
    left = [f"{reading.kernel_runs} times that threads of the kernel ran"]
    left += [f"the causes of {n} wake-ups by {what}; they are arrivals at their times"
             for what, n in reading.outside.items()]  # fmt: skip
    start = (phase.start_ns + reading.offset_ns) % TICK_NS
    length = phase.end_ns - phase.start_ns
    return Program(phase.workload, phase.governor, length, start, tasks, left, reading.joints,
                   reading.rcu_ns, phase.watchdog_ns)  # fmt: skip
