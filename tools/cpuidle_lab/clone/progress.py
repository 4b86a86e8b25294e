# SPDX-License-Identifier: GPL-2.0
"""Work that busy CPUs get done in a recording."""

import bisect
from collections.abc import Sequence

from cpuidle_lab.clone.events import Event


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
