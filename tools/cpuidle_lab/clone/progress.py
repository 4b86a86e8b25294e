# SPDX-License-Identifier: GPL-2.0
"""Work that CPUs get done in a recording."""

import bisect
import functools
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise

from cpuidle_lab.clone.events import IN_INTERRUPT, IN_SOFTIRQ, Event

# An idle CPU works so long from its wake-up until its first event, and from its last one until it
# halts. Together they are 2,500 ns: so much longer is a piece of the kernel's work, of the same
# two events, in which the other CPU woke and halted.
AWAKE_NS = 1250

# Softirqs that serve the kernel: of timers, the scheduler, high-resolution timers and RCU. Packets
# are the work of their sender.
_KERNEL_SOFTIRQS = frozenset({"1", "7", "8", "9"})
# Events of an interrupt follow each other sooner: in 18 recorded phases the most is 15 us.
_ONE_INTERRUPT_NS = 20_000


class Progress:
    """Work that a CPU gets done until a time.

    In virtual time the CPUs share one stream of instructions: between two events each busy one gets
    the part of its turns. An idle one works, too, about its own events.

    Args:
        events: of a phase.
        shared: the recording is of the lab.
    """

    def __init__(self, events: Sequence[Event], *, shared: bool) -> None:
        self._shared = shared
        self._at = [event.ts for event in events]
        self._done = _shares(events) if shared else {}
        # By CPU: when it began to serve interrupts, when it ended, and their work until then, ns.
        self._interrupts: dict[int, tuple[list[int], list[int], list[float]]] = defaultdict(
            lambda: ([], [], [])
        )
        for cpu, start, end in _interrupts(events):
            starts, ends, work = self._interrupts[cpu]
            starts.append(start)
            ends.append(end)
            work.append((work[-1] if work else 0.0) + self.until(cpu, end) - self.until(cpu, start))

    def until(self, cpu: int, ts: int) -> float:
        """Return the work that a CPU has done until a time, ns."""
        if not self._shared:
            return float(ts)
        place = bisect.bisect_right(self._at, ts) - 1
        if place < 0:
            return 0.0
        done = self._done[cpu]
        if place + 1 == len(done):
            return done[-1]
        (a, b), (x, y) = self._at[place : place + 2], done[place : place + 2]
        return x + (y - x) * (ts - a) / (b - a)

    def of_tasks(self, cpu: int, ts: int) -> float:
        """Return the work that its tasks have done, without interrupts, ns."""
        starts, ends, work = self._interrupts[cpu]
        place = bisect.bisect_right(starts, ts) - 1
        done = self.until(cpu, ts)
        if place < 0:
            return done
        within = max(0.0, self.until(cpu, ends[place]) - done)
        return done - work[place] + within


def _shares(events: Sequence[Event]) -> dict[int, "array[float]"]:
    """Return the work of each CPU until each event, where all share one stream, ns."""
    shares = {event.cpu: array("d", [0.0]) for event in events}
    cpus = max(shares) + 1
    runs, serves = set(running_at_first(events)), set[int]()
    busy: Set[int] = runs
    for before, event in pairwise(events):
        parts = _parts(event.ts - before.ts, (before.cpu, event.cpu), busy, cpus)
        for cpu, done in shares.items():
            done.append(done[-1] + parts.get(cpu, 0.0))
        if event.name == "sched_switch":
            (runs.discard if event.fields()["next_pid"] == "0" else runs.add)(event.cpu)
        elif event.name == "softirq_entry":
            serves.add(event.cpu)
        elif event.name == "softirq_exit":
            serves.discard(event.cpu)
        else:
            continue
        busy = runs | serves
    return shares


def _interrupts(events: Sequence[Event]) -> Iterator[tuple[int, int, int]]:
    """Yield the times between two events of a CPU in which it serves interrupts: it, start, end.

    Two that expire timers differ in the time at which they began; between others passes more time.
    """
    served = IN_INTERRUPT | {IN_SOFTIRQ}
    last: dict[int, Event] = {}
    began, serving = dict[int, str](), dict[int, str]()
    for event in events:
        cpu = event.cpu
        before = last.get(cpu)
        now = event.fields()["now"] if event.name == "hrtimer_expire_entry" else began.get(cpu)
        if before:
            contexts = {before.context, event.context}
            one = now == began.get(cpu) and event.ts - before.ts < _ONE_INTERRUPT_NS
            soft = contexts <= served and serving.get(cpu) in _KERNEL_SOFTIRQS
            if (contexts <= IN_INTERRUPT and one) or soft:
                yield cpu, before.ts, event.ts
        if now is not None:
            began[cpu] = now
        if event.name == "softirq_entry":
            serving[cpu] = event.fields()["vec"]
        elif event.name == "softirq_exit":
            serving.pop(cpu, None)
        last[cpu] = event


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
