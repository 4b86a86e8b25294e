# SPDX-License-Identifier: GPL-2.0
"""Work that CPUs get done in a recording."""

import bisect
import functools
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise

from cpuidle_lab.clone.events import IN_INTERRUPT, Event

# An idle CPU works so long from its wake-up until its first event, and from its last one until it
# halts. Together they are 2,500 ns: so much longer is a piece of the kernel's work, of the same
# two events, in which the other CPU woke and halted.
AWAKE_NS = 1250

# Softirqs that serve the kernel: of timers, the scheduler, high-resolution timers and RCU. Packets
# are the work of their sender.
_KERNEL_SOFTIRQS = frozenset({"1", "7", "8", "9"})


class Progress:
    """Work that a CPU gets done until a time.

    In virtual time the CPUs share one stream of instructions: between two events each busy one gets
    the part of its turns. An idle one works, too, about its own events. The work of interrupts is
    none of the task that they interrupt.

    Args:
        events: of a phase.
        shared: the recording is of the lab.
    """

    def __init__(self, events: Sequence[Event], *, shared: bool) -> None:
        self._shared = shared
        self._at = [event.ts for event in events]
        self._done = {event.cpu: array("d", [0.0]) for event in events}
        self._tasks = {event.cpu: array("d", [0.0]) for event in events}
        cpus = max(self._done) + 1
        runs, serves = set(running_at_first(events)), set[int]()
        busy: Set[int] = runs
        interrupted, within = _interrupted(events), dict[int, bool]()
        for (before, event), holds in zip(pairwise(events), interrupted, strict=False):
            within[before.cpu] = holds
            gap_ns = event.ts - before.ts
            parts = (_parts(gap_ns, (before.cpu, event.cpu), busy, cpus) if shared
                     else dict.fromkeys(self._done, float(gap_ns)))  # fmt: skip
            for cpu, done in self._done.items():
                part = parts.get(cpu, 0.0)
                done.append(done[-1] + part)
                tasks = self._tasks[cpu]
                tasks.append(tasks[-1] + (0.0 if within.get(cpu) else part))
            if event.name == "sched_switch":
                (runs.discard if event.fields()["next_pid"] == "0" else runs.add)(event.cpu)
            elif event.name == "softirq_entry":
                serves.add(event.cpu)
            elif event.name == "softirq_exit":
                serves.discard(event.cpu)
            else:
                continue
            busy = runs | serves

    def until(self, cpu: int, ts: int) -> float:
        """Return the work that a CPU has done until a time, ns."""
        return self._at_time(self._done[cpu], ts)

    def of_tasks(self, cpu: int, ts: int) -> float:
        """Return the same without interrupts, ns."""
        return self._at_time(self._tasks[cpu], ts)

    def _at_time(self, done: "array[float]", ts: int) -> float:
        place = bisect.bisect_right(self._at, ts) - 1
        if place < 0:
            return 0.0
        if place + 1 == len(done):
            return done[-1]
        (a, b), (x, y) = self._at[place : place + 2], done[place : place + 2]
        return x + (y - x) * (ts - a) / (b - a)


def _interrupted(events: Sequence[Event]) -> list[bool]:
    """Tell for each event whether its CPU serves interrupts from then to its next event.

    Interrupts that follow each other differ in the time at which they began to expire timers.
    """
    found = [False] * len(events)
    last: dict[int, int] = {}
    began, serving = dict[int, str](), dict[int, str]()
    for place, event in enumerate(events):
        cpu = event.cpu
        now = event.fields()["now"] if event.name == "hrtimer_expire_entry" else began.get(cpu)
        before = last.get(cpu)
        if before is not None:
            hard = events[before].context in IN_INTERRUPT and event.context in IN_INTERRUPT
            found[before] = (hard and now == began.get(cpu)) or (
                serving.get(cpu) in _KERNEL_SOFTIRQS
            )
        if now is not None:
            began[cpu] = now
        if event.name == "softirq_entry":
            serving[cpu] = event.fields()["vec"]
        elif event.name == "softirq_exit":
            serving.pop(cpu, None)
        last[cpu] = place
    return found


def _parts(gap_ns: int, ends: tuple[int, int], busy: Set[int], cpus: int) -> Mapping[int, float]:
    """Return the work of CPUs between two events, of which `ends` are the CPUs, ns."""
    idle = Counter(cpu for cpu in ends if cpu not in busy)
    share = turns(cpus, frozenset(busy | idle.keys()))
    parts = {cpu: min(gap_ns * share[cpu], AWAKE_NS * times) for cpu, times in idle.items()}
    rest, whole = gap_ns - sum(parts.values()), sum(share[cpu] for cpu in busy)
    return parts | {cpu: rest * share[cpu] / whole for cpu in busy}


@functools.cache
def turns(cpus: int, busy: frozenset[int]) -> Mapping[int, float]:
    """Return the share of each busy CPU in virtual time, 0 to 1.

    QEMU gives each CPU an equal part of the time until the next timer. The timer makes each CPU in
    turn begin anew with what is left; further turns are equal (rr_cpu_thread_fn() of QEMU 10).

    Args:
        cpus: of the machine.
        busy: those of them that work.
    """
    left, first = 1.0, {}
    for cpu in sorted(busy):
        first[cpu] = left / cpus
        left -= first[cpu]
    return {cpu: part + left / len(busy) for cpu, part in first.items()}


def running_at_first(events: Sequence[Event]) -> dict[int, int]:
    """Return the tasks that run at the beginning, by CPU: the first event there is in them."""
    first: dict[int, int] = {}
    for event in events:
        first.setdefault(event.cpu, event.pid)
    return {cpu: pid for cpu, pid in first.items() if pid}
