# SPDX-License-Identifier: GPL-2.0
"""Change of a regret by intervals that answer the governor: a bound, not a prediction.

A CPU that wakes by d later begins its next interval by d later. If a timer of its own ends that, it
is shorter by d; if another CPU ends it, it may be shorter or longer, as that CPU was late, too.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cpuidle_lab.crossval import own
from cpuidle_lab.crossval.parts import Part
from cpuidle_lab.recording.columns import TICKED, TIMER
from cpuidle_lab.replay.engine import Outcome

# No interval becomes shorter, ns.
_LEAST_NS = 1000


def _latencies_ns(part: Part, outcome: Outcome) -> dict[int, NDArray[np.int64]]:
    """Return the exit latency of the state that each interval was left from, by CPU."""
    return {
        cpu: np.array(part.state_tables[cpu].exit_latency_ns, np.int64)[chosen["last"]]
        for cpu, chosen in outcome.choices.items()
    }


def _moved(part: Part, longer_ns: Mapping[int, NDArray[np.int64]]) -> Part:
    """Return a phase whose intervals are longer by so much, where the tick did not end them."""
    kept = {}
    for cpu, (intervals, periods) in part.kept.items():
        flags, length = intervals["flags"], intervals["length_ns"].astype(np.int64)
        free = (flags & TICKED == 0) & (length > 0)
        moved = np.where(free, np.maximum(_LEAST_NS, length + longer_ns[cpu]), length)
        timer = intervals["timer_ns"].astype(np.int64)
        later = np.where(free & (flags & TIMER != 0), timer + moved - length, timer)
        kept[cpu] = (
            {
                **intervals,
                "length_ns": moved.astype(intervals["length_ns"].dtype),
                "timer_ns": later.astype(intervals["timer_ns"].dtype),
            },
            periods,
        )
    return replace(part, kept=kept)


def answers(part: Part, other: Part, outcome: Outcome) -> float:
    """Return by how much the regret changes if the intervals answer the governor, points.

    Args:
        part: the intervals.
        other: whose recorder decides.
        outcome: of that, with its choices.
    """
    mine = _latencies_ns(part, own.play(part, part, restore=True, choices=True))
    theirs = _latencies_ns(part, outcome)
    # The next interval answers.
    longer = {cpu: np.append(0, (mine[cpu] - theirs[cpu])[:-1]) for cpu in part.cpus}
    regrets = [
        own.play(_moved(part, {cpu: sign * one for cpu, one in longer.items()}), other).regret
        for sign in (1, -1)
    ]
    return max(abs((regret or 0.0) - (outcome.regret or 0.0)) for regret in regrets)
