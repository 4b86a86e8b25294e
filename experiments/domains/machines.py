# SPDX-License-Identifier: GPL-2.0
"""Machines of four CPUs whose intervals follow known laws, alike, in pairs, or each its own."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from cpuidle_lab.recording import columns, state_tables, synth
from cpuidle_lab.recording.columns import Writer
from cpuidle_lab.recording.laws import STREAMS
from cpuidle_lab.states.table import StateTable

CPUS = 4
HZ = 250

# Idle states of the little cores, as sysfs shows them: "Regression in TEO cpuidle governor between
# 6.6 and 6.12", linux-pm, November 2025.
MT8196 = Path(__file__).parent / "mt8196.yaml"

# Trees that come along, each with the idle states of a machine that it fits.
TREES: Mapping[str, str] = {
    "xeon": "spr",
    "ecore-modules": "pepc:srf2",
    "client": "skl",
    "mt8196": str(MT8196),
    "zen2-server": "pepc:rome0",
    "power9-smt4": "power9",
}

# Laws from microseconds to tens of milliseconds: timers, devices, both, bursts and changes.
LAWS = (
    "timers-mixed",
    "poisson-1ms",
    "poisson-5ms",
    "bimodal-even",
    "bursts",
    "regimes-500",
    "self-similar",
    "timer-and-device",
)

MIXED = "each its own law"


def _seed(cpu: int, seed: int) -> int:
    return 1000 * seed + cpu


# Seed of the law of each CPU: equal seeds give equal intervals, at the same times.
ARRANGEMENTS: Mapping[str, Callable[[int, int], int]] = {
    "independent": _seed,
    "two pairs": lambda cpu, seed: _seed(cpu // 2, seed),
    "phase-locked": lambda _, seed: _seed(0, seed),
}


def _law(law: str, cpu: int) -> str:
    """Return the law of a CPU; with MIXED the laws go round."""
    return LAWS[2 * cpu % len(LAWS)] if law == MIXED else law


def frames(
    table: StateTable, law: str, arrangement: str, count: int, seed: int
) -> list[pl.DataFrame]:
    """Return the intervals of each CPU, up to the end of the CPU that is done first.

    Args:
        table: idle states of each CPU.
        law: one of LAWS, or MIXED.
        arrangement: one of ARRANGEMENTS.
        count: intervals of a CPU at most.
        seed: of the round.
    """
    slack_ns, found = max(table.exit_latency_ns), []
    for cpu in range(CPUS):
        own = ARRANGEMENTS[arrangement](cpu, seed)
        made = synth.made_from(STREAMS[_law(law, cpu)], count, own, slack_ns)
        found.append(synth.frame(made).with_columns(cpu=pl.lit(cpu)))
    end = pl.col("start_ns") + pl.col("length_ns")
    last = min(int(np.max(each.select(end).to_numpy())) for each in found)
    return [each.filter(end <= last) for each in found]


def write(tree: str, law: str, arrangement: str, count: int, seed: int, target: Path) -> None:
    """Write the machine of a tree as a recording; otherwise as frames().

    Raises:
        UserError: the machine's idle states are not to be had.
    """
    table = state_tables.find(TREES[tree], HZ)
    meta = {
        "kind": columns.SYNTH,
        "source": f"{CPUS} CPUs, {law}, {arrangement}, seed {seed}",
        "kernel": "",
        "machines": {str(cpu): columns.describe(table) for cpu in range(CPUS)},
    }
    with Writer(target, meta) as writer:
        for frame in frames(table, law, arrangement, count, seed):
            writer.add("interval", frame)
