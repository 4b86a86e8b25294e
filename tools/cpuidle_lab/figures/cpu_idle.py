# SPDX-License-Identifier: GPL-2.0
"""Idle periods of which power:cpu_idle alone tells: their figures, and their replay.

Each idle period is an interval: what ended it (a timer, the tick, another CPU) is not known. No
timer, no latency request and no tick is known either, so the governors are told that there is none.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.figures import invariants, withheld
from cpuidle_lab.figures.group import (
    CPU_IDLE,
    Group,
    Sums,
    add_periods,
    facts_of,
    group_of,
    notes_on_powers,
    percent,
    settle,
    shares_of_trace,
)
from cpuidle_lab.figures.intervals import GROUP, by_table, with_energy
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.columns import UNCERTAIN, UNKNOWN, Columns, Recording
from cpuidle_lab.recording.trace import TIME_MAX, Trace
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


class Untimed(Recording):
    """Stands for a recording whose intervals have no timers, so that governors can be replayed.

    Args:
        recording: of the kind CPU_IDLE, of CPUs whose state tables are known.
    """

    def __init__(self, recording: Recording) -> None:
        self.__dict__.update(recording.__dict__)

    def intervals(self, cpu: int, columns: Sequence[str] | None = None) -> Iterator[Columns]:
        """Yield the intervals of a CPU with lengths up to the wake-up, and no timers."""
        latency = np.asarray(self.state_tables[cpu].exit_latency_ns, np.int64)
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

    def periods(self, cpu: int, columns: Sequence[str] | None = None) -> Iterator[Columns]:
        """Yield each interval as the one idle period that it is."""
        needed = ["first_seq", "start_ns", "length_ns", "index"]
        for chunk in super().intervals(cpu, needed):
            count = len(chunk["index"])
            zero, never = np.zeros(count, np.uint8), np.full(count, TIME_MAX)
            told = {
                "seq": chunk["first_seq"], "interval": chunk["first_seq"],
                "now_ns": chunk["start_ns"], "residency_ns": chunk["length_ns"],
                "index": chunk["index"], "out_index": chunk["index"], "out_kind": zero + tr.ENTERED,
                "latency_req_ns": never, "disabled": zero, "by_tick": zero,
                "poll_time_limit": zero,
            }  # fmt: skip
            yield {name: told[name] for name in columns or told}


def judge(table: StateTable, index: Array, residency_ns: Array) -> Columns:
    """Compare idle periods with the best possible state for each.

    Args:
        table: the idle states.
        index: state of each period.
        residency_ns: time in it with the way out.

    Returns:
        `length_ns` (until the CPU was woken), `short`, `cost_pj`, `oracle_pj`, `ideal` (the
        cheapest state), `above` and `below` of each period, as governors/common/energy.c has them.
        A period is above if it is too short with its exit latency, and below if it is too long
        without it, as the kernel counts.
    """
    model = model_of(table)
    states, residency = np.asarray(index), np.asarray(residency_ns, np.int64)
    power, entry = np.asarray(model.power_mw), np.asarray(model.entry_pj)
    target = np.asarray(table.target_residency_ns)
    exit_ns = np.asarray(table.exit_latency_ns, np.int64)[states]
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


def idle_periods(trace: Trace) -> pl.DataFrame:
    """Return the periods that power:cpu_idle tells of: ts, cpu, index, residency.

    One within which events were lost is left out: its exit may be that of a later one.
    """
    events = trace.tables["cpu_idle"]
    if not events.height:
        return pl.DataFrame()
    events = events.select("ts", "cpu", "state")
    # A loss comes before the event at its time, and has no state.
    lost = trace.tables["lost"].select("ts", "cpu")
    ordered = pl.concat([lost, events], how="diagonal") if lost.height else events
    if lost.height or events["cpu"].n_unique() > 1 or not events["ts"].is_sorted():
        ordered = ordered.sort("cpu", "ts", maintain_order=True)
    same = pl.col("cpu") == pl.col("cpu").shift(-1)
    ends = pl.col("state").shift(-1) == tr.IDLE_EXIT
    length = (pl.col("ts").shift(-1).cast(pl.Int64) - pl.col("ts").cast(pl.Int64)).cast(pl.Float64)
    return (
        ordered.with_columns(residency=length)
        .filter((pl.col("state") != tr.IDLE_EXIT) & same & ends)
        .select("ts", "cpu", index=pl.col("state"), residency="residency")
    )


def add_untold(trace: Trace, idle: pl.DataFrame, sums: Mapping[int, Sums]) -> None:
    """Add idle periods to their groups, whose decisions are not recorded.

    Args:
        trace: a part of the recording.
        idle: rows of idle_periods(), with `group`.
        sums: by number of the group.

    Raises:
        UserError: an idle state does not exist.
    """
    for table, part in by_table(trace, idle):
        for n in part[GROUP].unique():
            sums[n].tables[table] = None
        deepest = int(str(part["index"].max() or 0))
        if table is not None:
            if deepest >= table.count:
                raise UserError(
                    f"{trace.path}: a power:cpu_idle event names idle state {deepest}, which "
                    "the machine does not have"
                )
            part = with_energy(part, table, "index")
            _add_judged(table, part, sums)
        elif deepest > 255:
            raise UserError(f"{trace.path}: a power:cpu_idle event names an impossible idle state")
        for n, index, count in part.group_by(GROUP, "index").len().iter_rows():
            sums[n].judged[index] += count
        add_periods(part, "index", sums)


def _add_judged(table: StateTable, part: pl.DataFrame, sums: Mapping[int, Sums]) -> None:
    found = judge(table, part["index"].to_numpy(), part["residency"].to_numpy())
    group = part[GROUP].to_numpy()
    for n in np.unique(group).tolist():
        mine = group == n
        sums[n].add(**{name: float(values[mine].sum()) for name, values in found.items()})


def of_cpu_idle(trace: Trace, workload: str, label: str, sums: Sums, alone: bool) -> Group:
    """Return the figures of a group whose decisions are not recorded.

    Args:
        trace: facts of the recording.
        workload: its name.
        label: of the governor.
        sums: over its idle periods.
        alone: no decision is in the recording.
    """
    group = group_of(trace.path, label, workload, CPU_IDLE, sums)
    group.notes = [
        "only power:cpu_idle events tell of it: reasons and tick wake-ups are unknown "
        "(cpuidle-lab capture --stock records the figures of a kernel governor)"
    ]
    facts = facts_of(group, sums)
    # Beside the regret of intervals it would be compared with that.
    if sums.table and trace.state_tables and alone:
        _judge_idle(group, sums.counts, facts)
    group.shares |= shares_of_trace(trace)
    settle(group, facts)
    group.notes += notes_on_powers(sums.tables)
    return group


def _judge_idle(group: Group, sums: Mapping[str, float], facts: invariants.Facts) -> None:
    """Add regret, above and below: each idle period against the best state for it."""
    count, length = sums["periods"], sums["length_ns"]
    group.values |= {
        "regret": 100 * (sums["cost_pj"] / sums["oracle_pj"] - 1) if sums["oracle_pj"] else None,
        "power_mw": sums["cost_pj"] / length if length > 0 else None,
        "oracle_mw": sums["oracle_pj"] / length if length > 0 else None,
        "above": percent(sums["above"], count),
        "below": percent(sums["below"], count),
        "short": percent(sums["short"], count),
    }
    group.shares[withheld.SHORT] = group.values["short"] or 0.0
    facts.regret = group.values["regret"]
    facts.cost_pj, facts.oracle_pj, facts.length_ns = sums["cost_pj"], sums["oracle_pj"], length
    group.notes.append(
        "regret, above and below: each idle period against the best state for it, as if nothing "
        "but its length counted"
    )
