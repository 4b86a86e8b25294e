# SPDX-License-Identifier: GPL-2.0
"""The verdict of `review` against that of history."""

import math
from collections.abc import Mapping
from typing import Any

from cpuidle_lab.evidence.tables import MISSED
from experiments.review.known import GOOD, OPEN, SAME, Known

DETECTED, PARTLY, UNJUDGEABLE, NOT_JUDGED = "detected", "partially", "not judgeable", "not judged"

# By so much a figure rises before it counts: percent of polling's power, percent of the exit
# latency, points of the time in the shallowest state, ticks a second. As the search's own limits.
_LEAST = {"power": 10.0, "exit latency": 0.1, "shallow": 5.0, "ticks": 10.0}


def rises(witness: Mapping[str, Any]) -> set[str]:
    """Return the figures that rise in a harm; none where the smallest stream shows no change."""
    before, after = witness["before"], witness["after"]
    if before == after:
        return set()
    change = {
        "power": after["power_mw"] - before["power_mw"],
        "exit latency": math.log((after["latency_us"] + 1) / (before["latency_us"] + 1)),
        "shallow": after["shallowest"] - before["shallowest"],
        "ticks": after["ticks_per_s"] - before["ticks_per_s"],
    }
    found = {name for name, by in change.items() if by >= _LEAST[name]}
    # Time in the shallowest state is a part of what this objective counts.
    return found | ({"shallow"} & {witness["objective"]})


def shown(found: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """Return the witnesses of harm or gain whose figures show what they were found for."""

    def turned(one: Mapping[str, Any]) -> Mapping[str, Any]:
        return one if kind == "harm" else {**one, "before": one["after"], "after": one["before"]}

    return [one for one in found[kind] if one["objective"] in rises(turned(one))]


def rate(known: Known, found: Mapping[str, Any]) -> str:
    """Return DETECTED, PARTLY, MISSED, or UNJUDGEABLE.

    Args:
        known: what history says.
        found: what `review` says, as of row.judge().
    """
    harm = shown(found, "harm")
    if known.wanted[0] == OPEN:
        return UNJUDGEABLE
    if known.wanted[0] == SAME:
        return DETECTED if found["same"] else MISSED
    if found["same"]:
        # It is known to change decisions, and the comparison did not reach them.
        return MISSED
    if known.wanted[0] == GOOD:
        if not harm:
            return DETECTED
        return PARTLY if shown(found, "gain") else MISSED
    if any(rises(one) & set(known.wanted) for one in harm):
        return DETECTED
    return PARTLY if harm else MISSED
