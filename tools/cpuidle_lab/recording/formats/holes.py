# SPDX-License-Identifier: GPL-2.0
"""Events missing between those of a CPU, as a format says it."""

from collections.abc import Iterator
from dataclasses import replace

from cpuidle_lab.recording.formats.writer import OFFLINE, UNCOUNTED, Event


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
