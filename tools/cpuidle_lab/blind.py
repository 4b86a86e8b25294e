# SPDX-License-Identifier: GPL-2.0
"""A recording of power:cpu_idle alone, as a governor that sees no timers would meet it.

Each idle period is an interval: what ended it (a timer, the tick, another CPU) is not known. No
timer, no latency request and no tick is known either, so the governors are told that there is none.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cpuidle_lab.columns import UNKNOWN, Columns, Recording
from cpuidle_lab.costs import model_of
from cpuidle_lab.trace import TIME_MAX, Machine

Array = npt.NDArray[Any]

NOTE = (
    "only power:cpu_idle tells of it: governors are replayed without timers, latency requests and "
    "the tick, and each idle period counts as an interval; what they would reach with timers is "
    "not known"
)


class Blind(Recording):
    """Stands for a recording whose intervals have no timers, so that governors can be replayed.

    Args:
        recording: of the kind CPU_IDLE, of machines that are known.
    """

    def __init__(self, recording: Recording) -> None:
        self.__dict__.update(recording.__dict__)

    def intervals(self, cpu: int, columns: Sequence[str] | None = None) -> Iterator[Columns]:
        """Yield the intervals of a CPU with lengths up to the wake-up, and no timers."""
        latency = np.asarray(self.machines[cpu].exit_latency_ns, np.int64)
        wanted = columns and list(dict.fromkeys([*columns, "index"]))
        for chunk in super().intervals(cpu, wanted):
            told = dict(chunk)
            if "length_ns" in told:
                left = told["length_ns"] - latency[told["index"]]
                told["length_ns"] = np.maximum(left, 1)
            if "flags" in told:
                told["flags"] = told["flags"] & np.uint8(0xFF ^ UNKNOWN)
            for name in ("timer_ns", "latency_req_ns"):
                if name in told:
                    told[name] = np.full_like(told[name], TIME_MAX)
            yield {name: told[name] for name in columns or told}


def judge(machine: Machine, index: Array, length_ns: Array) -> Columns:
    """Compare idle periods with the best possible state for each.

    Args:
        machine: the idle states.
        index: state of each period.
        length_ns: time until the CPU was woken.

    Returns:
        `cost_pj`, `oracle_pj`, `ideal` (the cheapest state), `above` and `below` of each period, as
        governors/common/energy.c has them. A period is above if it is too short with its exit
        latency, and below if it is too long without it, as the kernel counts.
    """
    model = model_of(machine)
    length = np.asarray(length_ns, np.float64)
    states = np.asarray(index)
    power, entry = np.asarray(model.power_mw), np.asarray(model.entry_pj)
    target = np.asarray(machine.target_residency_ns)
    exit_ns = np.asarray(machine.exit_latency_ns)
    # Deepest state whose target residency fits: where costs break even.
    ideal = np.searchsorted(target, length, side="right") - 1
    ideal = np.maximum(ideal, 0)
    return {
        "cost_pj": entry[states] + power[states] * length,
        "oracle_pj": entry[ideal] + power[ideal] * length,
        "ideal": ideal,
        "above": length + exit_ns[states] < target[states],
        "below": ideal > states,
    }


def facts(recording: "Blind") -> str:
    """Return what the recorded governor came to, in one sentence."""
    cost = oracle = periods = above = below = 0.0
    for cpu in recording.cpus:
        for chunk in recording.intervals(cpu, ["index", "length_ns"]):
            found = judge(recording.machines[cpu], chunk["index"], chunk["length_ns"])
            cost += float(found["cost_pj"].sum())
            oracle += float(found["oracle_pj"].sum())
            above += float(found["above"].sum())
            below += float(found["below"].sum())
            periods += len(chunk["index"])
    if not oracle:
        return "the recorded governor: no idle period"
    return (
        f"the recorded governor, against the best state for each idle period: regret "
        f"{100 * (cost / oracle - 1):.1f} %, above {100 * above / periods:.1f} %, below "
        f"{100 * below / periods:.1f} %"
    )
