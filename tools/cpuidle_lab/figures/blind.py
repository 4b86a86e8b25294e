# SPDX-License-Identifier: GPL-2.0
"""A recording of power:cpu_idle alone, as a governor that sees no timers would meet it.

Each idle period is an interval: what ended it (a timer, the tick, another CPU) is not known. No
timer, no latency request and no tick is known either, so the governors are told that there is none.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cpuidle_lab.figures import withheld
from cpuidle_lab.recording.columns import UNCERTAIN, UNKNOWN, Columns, Recording
from cpuidle_lab.recording.trace import TIME_MAX
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable

Array = npt.NDArray[Any]

NOTE = (
    "only power:cpu_idle tells of it: governors are replayed without timers, latency requests and "
    "the tick, and each idle period counts as an interval; what they would reach with timers is "
    "not known"
)


def is_short(residency_ns: Array, exit_ns: Array) -> Array:
    """Tell which idle periods are no longer than the exit latency of their state.

    The table overstates it there.
    """
    return (residency_ns <= exit_ns) & (exit_ns > 0)


def stay_ns(residency_ns: Array, exit_ns: Array) -> Array:
    """Return the time in an idle state until something woke the CPU, at least 1.

    Args:
        residency_ns: time in the state with the way out, as the kernel measures it.
        exit_ns: exit latency of the state.

    Returns:
        as tools/native/stay.h has it: half of a short residency, else the difference.
    """
    short = is_short(residency_ns, exit_ns)
    return np.maximum(np.where(short, residency_ns // 2, residency_ns - exit_ns), 1)


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
        wanted = columns and list(dict.fromkeys([*columns, "index", "length_ns"]))
        for chunk in super().intervals(cpu, wanted):
            told = dict(chunk)
            if "length_ns" in told:
                told["length_ns"] = stay_ns(chunk["length_ns"], latency[told["index"]])
            if "flags" in told:
                short = is_short(chunk["length_ns"], latency[told["index"]])
                told["flags"] = (told["flags"] & np.uint8(0xFF ^ UNKNOWN)) | short * UNCERTAIN
            for name in ("timer_ns", "latency_req_ns"):
                if name in told:
                    told[name] = np.full_like(told[name], TIME_MAX)
            yield {name: told[name] for name in columns or told}


def judge(machine: StateTable, index: Array, residency_ns: Array) -> Columns:
    """Compare idle periods with the best possible state for each.

    Args:
        machine: the idle states.
        index: state of each period.
        residency_ns: time in it with the way out.

    Returns:
        `length_ns` (until the CPU was woken), `short`, `cost_pj`, `oracle_pj`, `ideal` (the
        cheapest state), `above` and `below` of each period, as governors/common/energy.c has them.
        A period is above if it is too short with its exit latency, and below if it is too long
        without it, as the kernel counts.
    """
    model = model_of(machine)
    states, residency = np.asarray(index), np.asarray(residency_ns, np.int64)
    power, entry = np.asarray(model.power_mw), np.asarray(model.entry_pj)
    target = np.asarray(machine.target_residency_ns)
    exit_ns = np.asarray(machine.exit_latency_ns, np.int64)[states]
    length = stay_ns(residency, exit_ns).astype(np.float64)
    # Deepest state whose target residency fits: where costs break even.
    ideal = np.searchsorted(target, length, side="right") - 1
    ideal = np.maximum(ideal, 0)
    return {
        "length_ns": length,
        "short": is_short(residency, exit_ns),
        "cost_pj": entry[states] + power[states] * length,
        "oracle_pj": entry[ideal] + power[ideal] * length,
        "ideal": ideal,
        "above": residency < target[states],
        "below": ideal > states,
    }


def _sums(recording: Recording) -> dict[str, float]:
    """Return the sums of what judge() finds of each period, and `periods`."""
    found: dict[str, float] = {"periods": 0.0}
    for cpu in recording.cpus:
        for chunk in Recording.intervals(recording, cpu, ["index", "length_ns"]):
            each = judge(recording.machines[cpu], chunk["index"], chunk["length_ns"])
            for name, values in each.items():
                found[name] = found.get(name, 0.0) + float(values.sum())
            found["periods"] += len(chunk["index"])
    return found


def facts(recording: Blind, shares: Mapping[str, float]) -> str:
    """Return what the recorded governor came to, in one sentence.

    Args:
        recording: its idle periods.
        shares: of the recording, by the kinds of `withheld`.
    """
    sums = _sums(recording)
    if not sums.get("oracle_pj"):
        return "the recorded governor: no idle period"
    short = withheld.percent(sums["short"], sums["periods"])
    known = f"{100 * (sums['cost_pj'] / sums['oracle_pj'] - 1):.1f} %"
    regret = "unknown" if withheld.above({**shares, withheld.SHORT: short}) else known
    above, below = (100 * sums[name] / sums["periods"] for name in ("above", "below"))
    return (
        f"the recorded governor, against the best state for each idle period: regret {regret}, "
        f"above {above:.1f} %, below {below:.1f} %"
    )
