# SPDX-License-Identifier: GPL-2.0
"""The lanes of a task that polls: an order that was free in the recording stays free."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from cpuidle_lab.clone.calls import Call
from cpuidle_lab.clone.drafts import Draft
from cpuidle_lab.clone.events import POLLS, READS, Event
from cpuidle_lab.clone.program import Kind

_CALLS, _WAITS = frozenset({Kind.READ, Kind.WRITE}), frozenset({Kind.ON, Kind.AFTER})
_WITHIN = frozenset(
    {Kind.RUN, Kind.POST, Kind.OPEN, Kind.FORK, Kind.REAP, Kind.RCU, Kind.SLEEP, Kind.SLACK,
     Kind.END, Kind.EXIT}
)  # fmt: skip
# Kinds that are done once, and those that no other step may wait for in vain.
_ONCE = frozenset({Kind.FORK, Kind.REAP, Kind.EXIT})
_AWAITED = _ONCE | {Kind.POST, Kind.END}
_ENDS = frozenset({Kind.END, Kind.EXIT})

_NS_PER_MS = 1_000_000


def polling(events: Iterable[Event]) -> set[int]:
    """Return the numbers of the tasks that poll before they read; one may poll to connect alone."""
    counts: Counter[tuple[int, bool]] = Counter()
    for event in events:
        call = Call.of(event) if event.name == "sys_enter" else None
        if call and call.number in (*POLLS, *READS):
            counts[event.pid, call.number in POLLS] += 1
    return {pid for (pid, polls), n in counts.items() if polls and 2 * n >= counts[pid, False]}


def split(drafts: Sequence[Draft]) -> list[Draft]:
    """Return the steps of a task that polls, as lanes: one for each end.

    Each piece belongs to the end that is read or written next after the poll, or last before it. A
    read waits until its end is readable. A write that no read precedes comes by a timer: so many ms
    after the last call on its end. Programs that poll count time in whole ms.

    Work of a timer alone is a lane of its own, at times since the phase's beginning. The last steps
    for no end are in that lane, too.

    Args:
        drafts: where a poll ended there is a `lane`, with the time when its timer was due.
    """
    first = next((n for n, one in enumerate(drafts) if one.kind is Kind.LANE), len(drafts))
    lanes: dict[int, list[Draft]] = {}
    last: dict[int, int] = {}
    lane: list[Draft] = []
    pending: list[Draft] = []
    own: list[Draft] = []
    fresh, due, polled = True, 0.0, 0
    writes = _writes_by_timer(drafts)
    for one in drafts[first:]:
        if one.kind is Kind.LANE:
            if fresh and due and not writes:
                own += [Draft(Kind.AFTER, due / _NS_PER_MS), *pending]
                pending, due = [], 0.0
            due, polled = (due if fresh else 0) or one.value, one.at
            fresh = True
        elif one.kind in _CALLS:
            if fresh or lanes.get(one.end) is not lane:
                lane = lanes.setdefault(one.end, [])
                after = max(0, (due or one.at) - last.get(one.end, 0)) / _NS_PER_MS
                lane.append(Draft(Kind.ON, one.end) if one.kind is Kind.READ
                            else Draft(Kind.AFTER, after))  # fmt: skip
                for each in pending:
                    _add(lane, each)
                pending, fresh = [], False
            lane.append(one)
            last[one.end] = one.at
        elif one.kind in _WITHIN:
            _add(pending if fresh else lane, one)
    if not fresh and any(one.kind in _ENDS for one in lane):
        # The task ended without another poll.
        place = 1 + max(n for n, one in enumerate(lane) if one.kind in _CALLS)
        due, pending, lane[place:] = last[lane[place - 1].end], lane[place:], []
    found = [one for one in drafts[:first] if one.kind not in _CALLS]
    for steps in lanes.values():
        found += [Draft(Kind.LANE), *_cycle(steps)]
    if any(one.kind in _AWAITED for one in pending) or (fresh and due and not writes):
        own += [Draft(Kind.AFTER, (due or polled) / _NS_PER_MS), *pending]
    return [*found, Draft(Kind.LANE), *own] if own else found


def _writes_by_timer(drafts: Sequence[Draft]) -> bool:
    """Tell whether a write comes first after a poll: its timer may have ended earlier polls."""
    polled = False
    for one in drafts:
        if polled and one.kind is Kind.WRITE:
            return True
        polled = one.kind is Kind.LANE or (polled and one.kind not in _CALLS)
    return False


def _cycle(steps: Sequence[Draft]) -> list[Draft]:
    """Return a lane with the place where it begins again: a faster machine gets further.

    There the step before a wait is as at the lane's end. A lane with several sizes, or with
    processes, ends.
    """
    sizes = {(one.kind, one.value) for one in steps if one.kind in _CALLS}
    places = [n for n, one in enumerate(steps) if one.kind in _WAITS]
    kinds = [_calls(steps[a:b]) for a, b in pairwise([*places, len(steps)])]
    place = next((n for n, kind in enumerate(kinds[:-1], 1) if kind == kinds[-1]), 0)
    once = any(one.kind in _ONCE for one in steps)
    if once or len(sizes) > len({kind for kind, _ in sizes}) or not place:
        return [*steps]
    return [*steps[: places[place]], Draft(Kind.AGAIN), *steps[places[place] :]]


def _calls(steps: Sequence[Draft]) -> tuple[Kind, ...]:
    return tuple(one.kind for one in steps if one.kind in _CALLS | _WAITS)


def _add(steps: list[Draft], step: Draft) -> None:
    """Add a step; work goes to the work before it."""
    if step.kind is Kind.RUN and steps and steps[-1].kind is Kind.RUN:
        before = steps[-1]
        steps[-1] = replace(before, value=before.value + step.value,
                            rcu_ns=before.rcu_ns + step.rcu_ns)  # fmt: skip
    else:
        steps.append(step)
