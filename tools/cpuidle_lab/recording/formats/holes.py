# SPDX-License-Identifier: GPL-2.0
"""Events missing between those of a CPU, as a format says it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.formats.writer import OFFLINE, TIME_MAX, UNCOUNTED, Event

# Of so many events one may have a time that cannot be.
_EVENTS_A_FAULT = 100


def _add(one: int, other: int) -> int:
    return UNCOUNTED if UNCOUNTED in (one, other) else one + other


class Holes:
    """Puts each hole before the next event of its CPU."""

    def __init__(self) -> None:
        self._met: set[int] = set()
        self._lost: dict[int, int] = {}
        self._off: set[int] = set()
        self._before_all = 0

    def lost(self, cpu: int | None, events: int = UNCOUNTED) -> None:
        """Note that events are missing here.

        Args:
            cpu: of which CPU; None where the format does not say.
            events: how many, 0 for none; not used where they are of several CPUs.
        """
        if not events:
            return
        if cpu is not None:
            self._lost[cpu] = _add(self._lost.get(cpu, 0), events)
        elif not self._met:
            self._before_all = _add(self._before_all, events)
        else:
            self._lost |= dict.fromkeys(self._met, UNCOUNTED)

    def off(self, cpu: int) -> None:
        """Note that a CPU goes offline or comes back."""
        self._off.add(cpu)

    def place(self, event: Event) -> Iterator[Event]:
        """Yield an event of the format, after what is missing before it."""
        lost = self._lost.pop(event.cpu, 0)
        if not self._met:
            lost = _add(lost, self._before_all)
        self._met.add(event.cpu)
        if event.cpu in self._off:
            self._off.discard(event.cpu)
            yield Event(event.cpu, event.ts, OFFLINE, {"cpu": event.cpu})
        yield replace(event, lost=lost) if lost else event


def in_order(path: Path, events: Iterable[Event]) -> Iterator[Event]:
    """Yield events whose time can be; a hole stands for one whose time cannot.

    Where an event is before that ahead of it on its CPU, one of them is wrong: both are left out.

    Args:
        path: the recording, for messages.
        events: those of each CPU in the order of time, but for damaged ones.

    Raises:
        UserError: there are many such events.
    """
    held: dict[int, Event] = {}
    last: dict[int, int] = {}
    missing: set[int] = set()
    faults = count = 0
    for event in events:
        cpu, count = event.cpu, count + 1
        before = held.get(cpu)
        can_be = last.get(cpu, 0) <= event.ts < TIME_MAX
        if can_be and (before is None or before.ts <= event.ts):
            if before:
                last[cpu] = before.ts
                yield before
            held[cpu] = replace(event, lost=UNCOUNTED) if cpu in missing else event
            missing.discard(cpu)
            continue
        if not faults:
            first = f"time runs backwards, or cannot be, on CPU {cpu} at {event.ts} ns"
        faults += 1
        missing.add(cpu)
        if can_be:
            del held[cpu]
    if faults * _EVENTS_A_FAULT > count:
        raise UserError(f"{path}: is damaged: {first}")
    yield from held.values()
