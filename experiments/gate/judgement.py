# SPDX-License-Identifier: GPL-2.0
"""Verdicts on the gate: latencies, modelled energy, targets, and the decisions that missed them.

In virtual time the end-to-end latency is mostly the turns that emulated CPUs take, so the targets
are judged on what the gate can change: the exit latency of the idle state from which a hinted task
was woken, once for each wake-up that a latency consists of, and the instructions that the gate
adds to a decision. This is added to what the same takes without idle states, the median
end-to-end latency of performance mode, because performance mode has no exit latency to compare
with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.states.table import StateTable
from experiments.energy import BUSY, account, domains_mj, power_mw, seconds
from experiments.gate.guest import (
    MENU,
    OURS,
    PERFORMANCE,
    RFC,
    Condition,
    Sizes,
    Work,
    cell_name,
    chosen,
    conditions,
)
from experiments.gate.wakes import Period, Wake, met, recorded, wakes

P99_TARGET = 1.2
MAX_TARGET = 2.0

# Instructions that the gate may add without any hint, and what many hinted tasks may cost beside
# one: as much as the measurement is uncertain.
ADDED_TARGET = 25
MANY_TARGET = 1.01

# Busy power, as parts of the machine's own.
BUSY_POWERS = (1.0, 0.5, 2.0)

# Decisions that are shown for a target that was missed.
SHOWN = 5


def quantiles(values: Sequence[int]) -> dict[str, int]:
    """Return p50, p99 and max: the smallest value that so many percent do not exceed.

    Raises:
        UserError: there is no value.
    """
    if not values:
        raise UserError("the guest recorded no latency")
    ordered = sorted(values)
    rank = {name: -(-len(ordered) * percent // 100) - 1 for name, percent in _PERCENT.items()}
    return {name: ordered[place] for name, place in rank.items()}


_PERCENT = {"p50": 50, "p99": 99, "max": 100}


def end_to_end(work: Work, folder: Path, name: str) -> list[int]:
    """Return the latencies in ns that a workload measured itself.

    wakebench: from a call to the woken thread's first look at the clock. pgbench: of each
    transaction, from the time at which it was due.
    """
    if not work.server:
        return [int(line) for line in (folder / f"{name}.out").read_text().splitlines()]
    lines = [
        line.split()
        for log in folder.glob(f"{name}.log.*")
        for line in log.read_text().splitlines()
    ]
    return [int(words[2]) * 1000 for words in lines]


def cell(work: Work, condition: Condition, folder: Path) -> dict[str, Any]:
    """Return the figures of one cell, latencies in ns, power in mW, and its worst wake-ups.

    Raises:
        UserError: something was lost in the guest, or nothing was recorded.
    """
    name = cell_name(work, condition)

    def text(kind: str) -> str:
        return (folder / f"{name}.{kind}").read_text()

    machine, idle = recorded(folder / f"{name}.dat")
    others = map(int, text("others").split())
    pairs = met(wakes(text("wakes"), others), idle)
    exits = [machine.exit_latency_ns[period.index] if period else 0 for _, period in pairs]
    slots = account(text("before"), text("after"))
    domains_mw = domains_mj(text("domains-before"), text("domains-after")) / seconds(slots)
    latencies = end_to_end(work, folder, name)
    worst = sorted(zip(exits, pairs, strict=True), key=lambda each: (-each[0], each[1][0].ts))
    return {
        "work": work.name,
        "condition": condition.name,
        "hinted_tasks": int(text("hinted")),
        "wakeups": len(pairs),
        "from_idle": sum(period is not None for _, period in pairs),
        "exit_ns": quantiles(exits),
        "end_to_end_ns": {"mean": fmean(latencies), **quantiles(latencies)},
        "transactions": len(latencies),
        "seconds": seconds(slots),
        "power_mw": {f"{busy:g}": power_mw(slots, machine, busy) for busy in BUSY_POWERS},
        "machine_mw": power_mw(slots, machine) + domains_mw,
        "busy": sum(slot.time_ns for slot in slots if slot.state == BUSY)
        / sum(slot.time_ns for slot in slots),
        "worst": [
            _decision(machine, wake, period, latency)
            for latency, (wake, period) in worst[:SHOWN]
            if period is not None and latency
        ],
        "costly": _costly(machine, idle),
    }


def _decision(machine: StateTable, wake: Wake, period: Period, exit_ns: int) -> dict[str, Any]:
    return {
        "time_s": wake.ts / 1e9,
        "cpu": wake.cpu,
        "pid": wake.pid,
        "state": machine.names[period.index],
        "exit_ns": exit_ns,
        "hint_ns": period.hint_ns,
        "reason": period.reason,
    }


def _costly(machine: StateTable, idle: Sequence[Period]) -> list[dict[str, Any]]:
    """Return which kinds of decisions a hint applied to, those with the longest stays first."""
    stays: dict[tuple[str, int, str], list[int]] = {}
    for period in idle:
        if period.hint_ns >= 0:
            key = (machine.names[period.index], period.hint_ns, period.reason)
            stays.setdefault(key, []).append(period.end - period.start)
    ordered = sorted(stays.items(), key=lambda each: -sum(each[1]))
    return [
        {
            "state": state,
            "hint_ns": hint_ns,
            "reason": reason,
            "decisions": len(times),
            "time_ns": sum(times),
        }
        for (state, hint_ns, reason), times in ordered[:SHOWN]
    ]


def target(name: str, value: float | None, limit: float) -> dict[str, Any]:
    """Return a target with its value, and whether that is at most the limit; None: unknown."""
    reached = None if value is None else value <= limit
    return {"target": name, "value": value, "limit": limit, "met": reached}


def extra_share(menu: float, performance: float, ours: float) -> float | None:
    """Return the part of performance mode's extra power that ours draws; None if it has none."""
    extra = performance - menu
    return (ours - menu) / extra if extra > 0 else None


def targets(
    work: Work, cells: Mapping[str, Mapping[str, Any]], added_ns: float = 0.0
) -> list[dict[str, Any]]:
    """Judge one workload on one machine.

    Args:
        work: the workload.
        cells: figures by the conditions' names, as cell() gives them.
        added_ns: what the gate adds to a decision.

    Returns:
        One entry for each target of the gate as it comes: target (its name), value, limit, and
        whether it is met (None: cannot be said).
    """
    return [*_latency(work, cells, added_ns), *_energy(work, cells)]


def _latency(
    work: Work, cells: Mapping[str, Mapping[str, Any]], added_ns: float
) -> list[dict[str, Any]]:
    performance, judged = cells[PERFORMANCE], cells[OURS]
    path_ns = performance["end_to_end_ns"]["p50"]

    def latency(each: Mapping[str, Any], quantile: str) -> float:
        return float(path_ns + work.wakes * each["exit_ns"][quantile])

    return [
        target(
            f"{quantile} latency, to performance mode's",
            (latency(judged, quantile) + work.wakes * added_ns) / latency(performance, quantile),
            limit,
        )
        for quantile, limit in (("p99", P99_TARGET), ("max", MAX_TARGET))
    ]


def _energy(work: Work, cells: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    if work.energy_share is None:
        return []
    powers = [cells[each]["power_mw"] for each in (MENU, PERFORMANCE, OURS)]
    return [
        target(
            f"part of performance mode's extra energy, busy power x {busy}",
            extra_share(*(each[busy] for each in powers)),
            work.energy_share,
        )
        for busy in powers[0]
    ]


def cost_targets(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Judge what the gate costs.

    Args:
        cases: as decisions.measure() gives them.

    Returns:
        As targets().
    """
    by_tasks = {case["hinted_tasks"]: case for case in cases if case["added"] is not None}
    most = max(by_tasks)
    name = f"instructions of a decision with {most:,} hinted tasks, to those with 1"
    return [
        target("instructions that gate adds without hints", by_tasks[0]["added"], ADDED_TARGET),
        target(name, by_tasks[most]["mean"] / by_tasks[1]["mean"], MANY_TARGET),
    ]


@dataclass(frozen=True)
class Published:
    """Figures of the RFC's authors, of a POWER9 machine.

    Attributes:
        latency: change to menu, as a part; of the mean with pgbench, else of the percentile shown.
        power: change to menu, as a part.
        latency_ms: the mean.
        transactions: in 30 seconds.
        watts: mean power.
    """

    latency: float
    power: float
    latency_ms: float | None = None
    transactions: int | None = None
    watts: float | None = None


def _pgbench(
    latency_ms: float, transactions: int, watts: float, menu: tuple[float, float]
) -> Published:
    changes = latency_ms / menu[0] - 1, watts / menu[1] - 1
    return Published(*changes, latency_ms, transactions, watts)


# schbench: "Idle-gating for latency-sensitive workloads", P. Shah, 2021; its threads are not those
# of wakebench but as many as CPUs, too. pgbench: slides "Latency_nice", P. Shah, C. Hyser,
# D. Eggemann, 2020; changes are worked out from the watts, which the slides' own percentages do
# not always follow.
_ONE, _MANY = (1.292, 9.8), (2.028, 23.6)
PUBLISHED = {
    ("wake-1", PERFORMANCE): Published(-0.98, 0.30),
    ("wake-1", RFC): Published(-0.98, 0.17),
    ("wake-4", PERFORMANCE): Published(-0.95, 0.31),
    ("wake-4", RFC): Published(-0.94, 0.20),
    ("pgbench-1", MENU): _pgbench(1.292, 294, 9.8, _ONE),
    ("pgbench-1", PERFORMANCE): _pgbench(0.282, 268, 29.6, _ONE),
    ("pgbench-1", RFC): _pgbench(0.237, 315, 27.7, _ONE),
    ("pgbench-44", MENU): _pgbench(2.028, 294, 23.6, _MANY),
    ("pgbench-44", PERFORMANCE): _pgbench(0.424, 304, 42.5, _MANY),
    ("pgbench-44", RFC): _pgbench(1.202, 300, 26.5, _MANY),
}


def machine_figures(machine: str, folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Return all that is told of one machine.

    Args:
        machine: its name.
        folder: the guest's files, as guest.run() returns it.
        sizes: of the run.

    Returns:
        machine, and works: each with the attributes of its Work, and cells by condition (with the
        figures that were published of it).

    Raises:
        UserError: as cell().
    """
    works = []
    for work in chosen(sizes):
        cells = {each.name: cell(work, each, folder) for each in conditions(sizes)}
        for name, found in cells.items():
            published = PUBLISHED.get((work.name, name))
            found["published"] = asdict(published) if published else None
        works.append({**asdict(work), "cells": cells})
    return {"machine": machine, "works": works}
