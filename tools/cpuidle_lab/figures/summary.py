# SPDX-License-Identifier: GPL-2.0
"""One governor over all its workloads."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cpuidle_lab.figures.group import Group


@dataclass(frozen=True)
class Summary:
    """One governor over all its workloads.

    Attributes:
        governor: its label.
        workloads: number of workloads with a regret that can be judged.
        mean_regret: mean over these workloads, %; None if there is none.
        worst_regret: regret of the worst of them, %; None if there is none.
        worst_workload: its name.
        worst_p99_us: greatest p99 of the modelled wake-up latency, us; None if unknown.
    """

    governor: str
    workloads: int
    mean_regret: float | None
    worst_regret: float | None
    worst_workload: str
    worst_p99_us: float | None


def summarise(
    groups: Sequence[Group], name_of: Callable[[Group], str] = lambda group: group.workload
) -> list[Summary]:
    """Return one line for each governor, the least worst regret first, the unknown last.

    Args:
        groups: what to sum up.
        name_of: how the workload of a group is called.
    """
    lines = []
    for governor in dict.fromkeys(group.governor for group in groups):
        mine = [group for group in groups if group.governor == governor]
        regrets = [(group.judged_regret, name_of(group)) for group in mine]
        known = [(value, name) for value, name in regrets if value is not None]
        p99 = [v for v in (group.values["latency_p99_us"] for group in mine) if v is not None]
        worst, name = max(known, default=(None, ""), key=lambda item: item[0])
        mean = sum(value for value, _ in known) / len(known) if known else None
        lines.append(Summary(governor, len(known), mean, worst, name, max(p99, default=None)))
    return sorted(lines, key=lambda s: math.inf if s.worst_regret is None else s.worst_regret)
