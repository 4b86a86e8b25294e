# SPDX-License-Identifier: GPL-2.0
"""One governor under one workload, and the figures that both kinds of recording have.

Times are in ns, powers in mW and energies in pJ (1 mW * 1 ns) until they are shown.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from cpuidle_lab.figures import invariants, withheld
from cpuidle_lab.figures.intervals import GROUP
from cpuidle_lab.figures.metrics import scalars
from cpuidle_lab.figures.pictures import Pictures, Stays
from cpuidle_lab.host import energy
from cpuidle_lab.recording.trace import Trace
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable

DECISIONS = "decisions"
CPU_IDLE = "cpu_idle"
INTERRUPTS = "interrupts"

# A regret over fewer intervals is chance; it is shown in the tables only.
FEW_INTERVALS = 100

# The figure's own note says why.
NO_REGRET = "no regret is known"

_PJ_PER_MJ = 1e9


@dataclass
class Group:
    """One governor under one workload.

    Attributes:
        file: where it was recorded.
        governor: its label: gate names its base, and says where hints applied; bpf is named by
            its program and the hash of its code.
        workload: name of the workload, "" if the trace has no markers.
        source: DECISIONS; INTERRUPTS where power:cpu_idle and interrupts tell of it; CPU_IDLE where
            only power:cpu_idle does.
        start_ns: begin of the recording.
        end_ns: its end.
        table: idle states, None where the trace does not say.
        values: the scalar metrics; None is unknown.
        residency_ns: idle time by state.
        entries: idle periods by state.
        state_pj: modelled energy by state; empty where unknown.
        reasons: decisions by reason.
        wakers: idle periods by what ended them; empty where the trace names nothing.
        chosen_ideal: idle periods by state chosen and ideal state; empty where unknown.
        zones: energy counters during the phase; empty where the trace has none.
        shares: what the regret leaves out or guesses: kind of `withheld`, %.
        broken: rules of `invariants` that the figures break.
        notes: what a reader must know.
        pictures: figures over time; None where they are not drawn.
    """

    file: Path
    governor: str
    workload: str
    source: str
    start_ns: int
    end_ns: int
    table: StateTable | None
    values: dict[str, float | None] = field(default_factory=dict)
    residency_ns: list[float] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)
    state_pj: list[float] = field(default_factory=list)
    reasons: dict[str, int] = field(default_factory=dict)
    wakers: dict[str, int] = field(default_factory=dict)
    chosen_ideal: list[list[int]] = field(default_factory=list)
    zones: list[energy.ZoneEnergy] = field(default_factory=list)
    shares: dict[str, float] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pictures: Pictures | None = None

    @property
    def unjudged(self) -> str:
        """Reason that the summary has no regret, "" if it has one."""
        if self.source == CPU_IDLE:
            return "of power:cpu_idle alone exogenous intervals are not known"
        if self.broken or self.values["regret"] is None:
            return NO_REGRET
        few = (self.values["intervals"] or 0) < FEW_INTERVALS
        return f"fewer than {FEW_INTERVALS} idle intervals" if few else ""

    @property
    def judged_regret(self) -> float | None:
        """The regret, None if it does not belong in the summary."""
        return None if self.unjudged else self.values["regret"]

    @property
    def names(self) -> list[str]:
        """Names of the states."""
        known = list(self.table.names) if self.table else []
        return known + [f"state {k}" for k in range(len(known), len(self.entries))]


def percent(part: float, whole: float) -> float | None:
    """Return a share in percent, None of nothing."""
    return 100 * part / whole if whole else None


def _quantile_us(latencies: Mapping[float, int], share: float) -> float | None:
    """Return the least latency within which at least this share of the wake-ups is done.

    Args:
        latencies: wake-ups by their latency, ns.
        share: 0 to 1.
    """
    left = math.ceil(share * sum(latencies.values()))
    for latency_ns, count in sorted(latencies.items()):
        left -= count
        if left <= 0:
            return latency_ns / 1000
    return None


@dataclass
class Sums:
    """Sums over the idle periods of a group, part by part; see Group.

    Attributes:
        span: when the group was recorded, ns.
        tables: state tables of its CPUs; None where one is not known.
        cpus: its CPUs.
        entries, residency_ns, state_pj: by state.
        latencies: idle periods by modelled wake-up latency, ns.
        judged: idle periods that have a cost, by state.
        counts: other sums by name.
        pictures: as of Group.
    """

    span: tuple[int, int]
    tables: dict[StateTable | None, None] = field(default_factory=dict)
    cpus: set[int] = field(default_factory=set)
    entries: Counter[int] = field(default_factory=Counter)
    residency_ns: dict[int, float] = field(default_factory=dict)
    state_pj: dict[int, float] = field(default_factory=dict)
    latencies: Counter[float] = field(default_factory=Counter)
    judged: Counter[int] = field(default_factory=Counter)
    counts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    pictures: Pictures | None = None
    _last: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, **counts: float) -> None:
        """Add to sums by name."""
        for name, value in counts.items():
            self.counts[name] += value

    def add_within(self, run: "_Run") -> None:
        """Add idle time that lies before the next idle period; the last one of a CPU waits."""
        if before := self._last.get(run.cpu):
            self.counts["within_ns"] += max(0, min(before[1], run.first_ns - before[0]))
        self.counts["within_ns"] += run.within_ns
        self._last[run.cpu] = run.last

    def within_ns(self) -> int:
        """Return the idle time within the group, ns: its last period may go on after it."""
        last = (min(time, max(0, self.span[1] - ts)) for ts, time in self._last.values())
        return int(self.counts.get("within_ns", 0)) + sum(last)

    @property
    def table(self) -> StateTable | None:
        """The idle states; those with most states stand for all CPUs. None if one is unknown."""
        known = [table for table in self.tables if table]
        most = max(known, key=lambda table: table.count, default=None)
        return most if all(self.tables) else None


def add_periods(idle: pl.DataFrame, index: str, sums: Mapping[int, Sums]) -> None:
    """Add idle periods to their groups.

    Args:
        idle: `group`, `ts`, `cpu`, `residency` (ns); `cost` (pJ) and `exit_latency` (ns) if known.
        index: the column with the number of the state.
        sums: by number of the group.
    """
    cost = pl.col("cost").sum() if "cost" in idle.columns else pl.lit(None)
    by_state = idle.group_by(GROUP, index).agg(
        pl.len(), pl.col("residency").sum(), cost.alias("pj")
    )
    for n, k, count, time, energy_pj in by_state.iter_rows():
        one = sums[n]
        one.add(periods=count, idle_ns=time)
        one.entries[k] += count
        one.residency_ns[k] = one.residency_ns.get(k, 0.0) + time
        if energy_pj is not None:
            one.state_pj[k] = one.state_pj.get(k, 0.0) + energy_pj
    if "exit_latency" in idle.columns:
        for n, latency_ns, count in idle.group_by(GROUP, "exit_latency").len().iter_rows():
            sums[n].latencies[latency_ns] += count
    columns = [idle[name].to_numpy() for name in ("ts", index, "residency")]
    for n, run in _runs(idle):
        sums[n].cpus.add(run.cpu)
        sums[n].add_within(run)
        if pictures := sums[n].pictures:
            pictures.add_stays(Stays(run.cpu, *(column[run.rows] for column in columns)))


class _Run(NamedTuple):
    """Idle periods of a group on one CPU.

    Attributes:
        cpu: its number.
        first_ns: begin of the first.
        last: begin of the last, and its residency.
        within_ns: idle time of all before the last that lies before the next one.
        rows: their rows, in the order of time.
    """

    cpu: int
    first_ns: int
    last: tuple[int, int]
    within_ns: int
    rows: npt.NDArray[Any]


def _runs(idle: pl.DataFrame) -> Iterator[tuple[int, _Run]]:
    """Divide idle periods by group and CPU."""
    if not idle.height:
        return
    names = (GROUP, "cpu", "ts", "residency")
    group, cpu, ts, residency = (idle[name].to_numpy().astype(np.int64) for name in names)
    order = np.lexsort((ts, cpu, group))
    group, cpu, ts, residency = group[order], cpu[order], ts[order], residency[order]
    edges = np.flatnonzero((np.diff(group) != 0) | (np.diff(cpu) != 0)) + 1
    first, end = np.append(0, edges), np.append(edges, len(order))
    within = np.minimum(residency, np.maximum(np.diff(ts, append=ts[-1]), 0))
    within[end - 1] = 0
    sums = np.add.reduceat(within, first)
    columns = (group[first], cpu[first], ts[first], ts[end - 1], residency[end - 1], sums)
    for n, *(of, first_ns, last_ns, last_residency, within_ns), start, stop in zip(
        *(column.tolist() for column in columns), first.tolist(), end.tolist(), strict=True
    ):
        yield n, _Run(of, first_ns, (last_ns, last_residency), within_ns, order[start:stop])


def group_of(path: Path, governor: str, workload: str, source: str, sums: Sums) -> Group:
    """Return a group with the figures that need no more than states and residencies."""
    table = sums.table
    group = Group(path, governor, workload, source, *sums.span, table)
    states = range(table.count if table else max(sums.entries, default=0) + 1)
    group.entries = [sums.entries[k] for k in states]
    group.residency_ns = [sums.residency_ns.get(k, 0.0) for k in states]
    if table:
        group.state_pj = [sums.state_pj.get(k, 0.0) for k in states]
    group.pictures = sums.pictures
    time = sum(group.residency_ns)
    span = (group.end_ns - group.start_ns) * max(1, len(sums.cpus))
    values: dict[str, float | None] = dict.fromkeys(scalars())
    values["periods"] = int(sums.counts.get("periods", 0))
    values["idle_share"] = percent(sums.within_ns(), span)
    if group.state_pj:
        energy_pj = sum(group.state_pj)
        values["energy_mj"] = energy_pj / _PJ_PER_MJ
        values["power_mw"] = energy_pj / time if time else None
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            values[f"latency_{name}_us"] = _quantile_us(sums.latencies, share)
    group.values = values
    return group


def notes_on_powers(kinds: Iterable[StateTable | None]) -> list[str]:
    """Return a note if the powers of some idle states are not the table's own."""
    line = "state powers are derived from target residencies: illustrative"
    return [line] if any(kind and model_of(kind).derived for kind in kinds) else []


def shares_of_trace(trace: Trace) -> dict[str, float]:
    """Return the shares that a recording leaves out of each of its groups, %."""
    return {
        withheld.LEFT_OUT: trace.left_out_percent,
        withheld.UNSEEN: trace.unseen_percent,
        withheld.CHANGED: 100.0 * trace.changed,
    }


def facts_of(group: Group, sums: Sums) -> invariants.Facts:
    """Return what a group says of itself: what has nothing to do with how it is judged."""
    time, count = sum(group.residency_ns), sum(group.entries)
    return invariants.Facts(
        regret=group.values["regret"],
        models=[model_of(table) for table in sums.tables if table],
        entries=[sums.judged[k] for k in range(len(group.entries))],
        state_ns=group.residency_ns,
        idle_ns=sums.counts.get("idle_ns", 0.0),
        parts={
            "residency": ([100 * ns / time for ns in group.residency_ns if time], 100 * bool(time)),
            "entries": ([100 * n / count for n in group.entries if count], 100 * bool(count)),
        },
        counts={"periods": (group.values["periods"], count)},
    )


def settle(group: Group, facts: invariants.Facts) -> None:
    """Withhold figures that break a rule, leave out too much, or rest on guessed lengths."""
    if withheld.above(group.shares):
        group.values |= dict.fromkeys(("regret", "oracle_mw"))
        facts.regret = facts.oracle_pj = None
    if withheld.guesses_lengths(group.shares) and "power_mw" in group.values:
        group.values["power_mw"] = None
    group.broken = invariants.broken(facts)
    where = f"{group.workload}: " * bool(group.workload)
    group.notes += [f"{where}{line}" for line in withheld.notes(group.shares)]
    if group.broken:
        group.values = dict.fromkeys(group.values)
        group.notes += [f"{where}{invariants.said(rule)}" for rule in group.broken]
