# SPDX-License-Identifier: GPL-2.0
"""Cost of a decision: instructions of both governors, on the same intervals."""

from typing import Any

from cpuidle_lab.replay import instructions as counter
from cpuidle_lab.review.play import Pair
from cpuidle_lab.review.stream import PLAIN, columns_of, of_law, table_of

# States of a table, each four times as deep.
_COUNTS = (4, 7, 10)
_LAW, _INTERVALS = "timer-and-device", 1500


def instructions(pair: Pair, seed: int) -> dict[str, Any]:
    """Return the mean instructions of a decision, by number of states and side.

    Returns:
        {} where they cannot be counted.
    """
    found: dict[str, Any] = {}
    for count in _COUNTS:
        states = [["POLL*", 0, 0], *([f"C{k}", 2**k, 3 * 2**k] for k in range(1, count))]
        stream = of_law(_LAW, states, PLAIN, _INTERVALS, seed)
        told = {
            side: counter.of_intervals(who.governor, table_of({"states": states, "tick_hz": 250}),
                                       columns_of(stream), dict(who.settings))
            for side, who in pair.sides.items()
        }  # fmt: skip
        if None in told.values():
            return {}
        found[str(count)] = told
    return found
