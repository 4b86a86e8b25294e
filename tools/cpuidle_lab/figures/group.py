# SPDX-License-Identifier: GPL-2.0
"""One governor under one workload, and the figures that both kinds of recording have.

Times are in ns, powers in mW and energies in pJ (1 mW * 1 ns) until they are shown.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from cpuidle_lab.figures import invariants, withheld
from cpuidle_lab.figures.metrics import scalars
from cpuidle_lab.host import energy
from cpuidle_lab.recording.phases import Phase
from cpuidle_lab.recording.trace import Trace
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable

DECISIONS = "decisions"
CPU_IDLE = "cpu_idle"

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
        source: DECISIONS, or CPU_IDLE where only power:cpu_idle tells of it.
        start_ns: begin of the recording.
        end_ns: its end.
        table: idle states, None where the trace does not say.
        periods: one row for each decision (DECISIONS) or idle period (CPU_IDLE).
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
    """

    file: Path
    governor: str
    workload: str
    source: str
    start_ns: int
    end_ns: int
    table: StateTable | None
    periods: pl.DataFrame
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

    @classmethod
    def of(
        cls,
        trace: Trace,
        phase: Phase,
        governor: str,
        source: str,
        kinds: Sequence[StateTable | None],
        periods: pl.DataFrame,
    ) -> "Group":
        """Return a group without figures.

        Args:
            trace: where it was recorded.
            phase: when.
            governor: its label.
            source: DECISIONS or CPU_IDLE.
            kinds: idle states of its CPUs; those with most states stand for all.
            periods: its rows.
        """
        table = max((kind for kind in kinds if kind), key=lambda kind: kind.count, default=None)
        span = phase.start_ns, phase.end_ns
        known = table if all(kinds) else None
        return cls(trace.path, governor, phase.workload, source, *span, known, periods)

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

    def stays(self) -> pl.DataFrame:
        """Return the idle periods: ts, cpu, state, residency, sorted by CPU and time."""
        rows = self.periods
        if self.source == DECISIONS:
            rows = rows.filter("entered").rename({"index": "chosen", "out_index": "index"})
        return rows.select("ts", "cpu", "residency", state="index").sort("cpu", "ts")

    @property
    def names(self) -> list[str]:
        """Names of the states."""
        known = list(self.table.names) if self.table else []
        return known + [f"state {k}" for k in range(len(known), len(self.entries))]


def percent(part: float, whole: float) -> float | None:
    """Return a share in percent, None of nothing."""
    return 100 * part / whole if whole else None


def _quantile_us(latencies: pl.Series, share: float) -> float | None:
    """Return the least latency within which at least this share of the wake-ups is done."""
    if not latencies.len():
        return None
    return float(latencies.sort()[math.ceil(share * latencies.len()) - 1]) / 1000


def count_states(group: Group, idle: pl.DataFrame, column: str) -> None:
    """Fill in entries, residencies and energies by state.

    Args:
        group: to be filled in.
        idle: its idle periods: `residency` (ns), and `cost` (pJ) where it is known.
        column: the column with the number of the state.
    """
    count = group.table.count if group.table else int(str(idle[column].max() or 0)) + 1
    group.entries = [0] * count
    group.residency_ns = [0.0] * count
    totals = idle.group_by(column).agg(n=pl.len(), time=pl.col("residency").sum())
    for k, n, time in totals.rows():
        group.entries[k] = n
        group.residency_ns[k] = time
    if "cost" in idle.columns:
        group.state_pj = [0.0] * count
        for k, cost in idle.group_by(column).agg(pl.col("cost").sum()).rows():
            group.state_pj[k] = cost


def _time_within(group: Group, idle: pl.DataFrame) -> int:
    """Return the idle time within the phase, ns: its last period may go on after it."""
    begin = pl.col("ts").cast(pl.Int64)
    room = (begin.shift(-1).over("cpu").fill_null(group.end_ns) - begin).clip(lower_bound=0)
    times = idle.sort("cpu", "ts").select(
        pl.min_horizontal(pl.col("residency").cast(pl.Int64), room)
    )
    return int(times.to_series().sum())


def common_values(group: Group, idle: pl.DataFrame) -> dict[str, float | None]:
    """Return the figures that need no more than states and residencies."""
    time = sum(group.residency_ns)
    span = (group.end_ns - group.start_ns) * max(1, idle["cpu"].n_unique())
    values: dict[str, float | None] = dict.fromkeys(scalars())
    values["periods"] = idle.height
    values["idle_share"] = percent(_time_within(group, idle), span)
    if group.state_pj:
        energy = sum(group.state_pj)
        values["energy_mj"] = energy / _PJ_PER_MJ
        values["power_mw"] = energy / time if time else None
        latencies = idle["exit_latency"]
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            values[f"latency_{name}_us"] = _quantile_us(latencies, share)
    return values


def notes_on_powers(kinds: Iterable[StateTable | None]) -> list[str]:
    """Return a note if the powers of some idle states are not the table's own."""
    line = "state powers are derived from target residencies: illustrative"
    return [line] if any(kind and model_of(kind).derived for kind in kinds) else []


def shares_of_trace(trace: Trace) -> dict[str, float]:
    """Return the shares that a recording leaves out of each of its groups, %."""
    return {
        withheld.LEFT_OUT: trace.left_out_percent,
        withheld.CHANGED: 100.0 * trace.changed,
    }


def facts_of(
    group: Group, parts: Iterable[tuple[StateTable | None, pl.DataFrame]], judged_states: pl.Series
) -> invariants.Facts:
    """Return what a group says of itself: what has nothing to do with how it is judged.

    Args:
        group: with its periods counted.
        parts: its periods by state table.
        judged_states: state of each period that has a cost.
    """
    idle = group.stays()
    time, count = sum(group.residency_ns), sum(group.entries)
    return invariants.Facts(
        regret=group.values["regret"],
        models=[model_of(table) for table, _ in parts if table],
        entries=[int((judged_states == k).sum()) for k in range(len(group.entries))],
        state_ns=group.residency_ns,
        idle_ns=float(idle["residency"].sum()),
        parts={
            "residency": ([100 * ns / time for ns in group.residency_ns if time], 100 * bool(time)),
            "entries": ([100 * n / count for n in group.entries if count], 100 * bool(count)),
        },
        counts={"periods": (group.values["periods"], count, idle.height)},
    )


def settle(group: Group, facts: invariants.Facts) -> None:
    """Withhold figures that break a rule, and a regret that leaves out too much."""
    if withheld.above(group.shares):
        group.values |= dict.fromkeys(("regret", "oracle_mw"))
        facts.regret = facts.oracle_pj = None
    group.broken = invariants.broken(facts)
    where = f"{group.workload}: " * bool(group.workload)
    group.notes += [f"{where}{line}" for line in withheld.notes(group.shares)]
    if group.broken:
        group.values = dict.fromkeys(group.values)
        group.notes += [f"{where}{invariants.said(rule)}" for rule in group.broken]
