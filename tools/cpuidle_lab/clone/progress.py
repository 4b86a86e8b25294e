# SPDX-License-Identifier: GPL-2.0
"""Work that CPUs get done in a recording."""

import bisect
import functools
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise

from cpuidle_lab.clone.events import Event

# An idle CPU works so long from its wake-up until its first event, and from its last one until it
# halts. Together they are 2,500 ns: so much longer is a piece of the kernel's work, of the same
# two events, in which the other CPU woke and halted.
AWAKE_NS = 1250


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
        self._done = {event.cpu: array("d", [0.0]) for event in events}
        if not shared:
            return
        cpus = max(self._done) + 1
        runs, serves = set(running_at_first(events)), set[int]()
        busy: Set[int] = runs
        for before, event in pairwise(events):
            parts = _parts(event.ts - before.ts, (before.cpu, event.cpu), busy, cpus)
            for cpu, done in self._done.items():
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
