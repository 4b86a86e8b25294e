# SPDX-License-Identifier: GPL-2.0
"""From a trace to figures, for each governor and workload.

What the figures mean is said in metrics.yaml, once. Times are in ns, powers in mW and energies in
pJ (1 mW * 1 ns) until they are shown.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import polars as pl
import yaml

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.figures import invariants, wakers, withheld
from cpuidle_lab.figures.blind import judge
from cpuidle_lab.figures.intervals import judged, lookup, with_energy, with_intervals, with_limits
from cpuidle_lab.host import energy
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.columns import CUT, OVERSLEPT
from cpuidle_lab.recording.phases import Phase, phases_of
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


@dataclass(frozen=True)
class Metric:
    """What a figure means.

    Attributes:
        title: name for people.
        unit: its unit, "" if it has none.
        digits: digits shown after the point.
        description: definition.
    """

    title: str
    unit: str
    digits: int
    description: str

    def show(self, value: float | None) -> str:
        """Return the value as text, without the unit."""
        return "unknown" if value is None else f"{value:,.{self.digits}f}"


@cache
def definitions(shown_by: str = "report") -> dict[str, Metric]:
    """Return every metric by its key, in the order of metrics.yaml.

    Args:
        shown_by: "report" or "compare", whose metrics these are.
    """
    text = (Path(__file__).parent / "metrics.yaml").read_text(encoding="utf-8")
    return {
        key: Metric(
            item["title"],
            item["unit"],
            item["digits"],
            f"{item['description'].strip()} {item.get(shown_by, '').strip()}".strip(),
        )
        for key, item in yaml.safe_load(text).items()
        if item.get("in", shown_by) == shown_by
    }


# The metrics that are one number; the others are tables.
TABLES = (
    "residency",
    "entries",
    "energy_by_state",
    "reasons",
    "wakers",
    "chosen_ideal",
    "weights",
    "timeline",
)


def scalars() -> list[str]:
    """Return the keys of the metrics that are one number, in the order shown."""
    return [key for key in definitions() if key not in TABLES]


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
        machine: idle states, None where the trace does not say.
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
    machine: StateTable | None
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

    @property
    def unjudged(self) -> str:
        """Why there is no regret in the summary, "" if there is one."""
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
        known = list(self.machine.names) if self.machine else []
        return known + [f"state {k}" for k in range(len(known), len(self.entries))]


def _last_ts(trace: Trace) -> int:
    last = [int(str(frame["ts"].max())) for frame in trace.tables.values() if frame.height]
    return max(last, default=0)


def phases(trace: Trace) -> list[Phase]:
    """Return the phases that markers in the trace delimit; none without markers."""
    return phases_of(trace.tables["marker"], _last_ts(trace) + 1)


# ---- Periods: decisions with their outcomes, and what they cost. ----


def _with_label(trace: Trace, periods: pl.DataFrame) -> pl.DataFrame:
    """Add `governor_name`, and `label`, which names the gate's base, or the program of bpf."""
    names = {
        int(number): trace.name_of("decision", "governor", int(number))
        for number in periods["governor"].unique()
    }
    bases = trace.tables["config"].select("cpu", "seq", "base").sort("seq")
    named = periods.with_columns(
        governor_name=pl.col("governor").replace_strict(names, return_dtype=pl.String)
    )
    joined = named.sort("seq").join_asof(
        bases, on="seq", by="cpu", strategy="backward", check_sortedness=False
    )
    has_base = pl.col("base").fill_null("") != ""
    return (
        joined.with_columns(
            label=pl.when(has_base & (pl.col("governor_name") == "gate"))
            .then(pl.format("gate({})", pl.col("base")))
            .when(has_base & (pl.col("governor_name") == "bpf"))
            .then(pl.col("base"))
            .otherwise(pl.col("governor_name"))
        )
        .drop("base")
        .sort("cpu", "seq")
    )


def machine_of(trace: Trace, cpu: int) -> StateTable | None:
    """Return the idle states of a CPU; where only those of others are known and equal, these."""
    kinds = set(trace.machines.values())
    if cpu in trace.machines or len(kinds) != 1:
        return trace.machines.get(cpu)
    return next(iter(kinds))


def by_machine(
    trace: Trace, periods: pl.DataFrame
) -> Iterator[tuple[StateTable | None, pl.DataFrame]]:
    """Split by the CPUs' idle states; usually there is one kind."""
    kinds: dict[StateTable | None, list[int]] = {}
    for cpu in sorted(periods["cpu"].unique()):
        kinds.setdefault(machine_of(trace, cpu), []).append(cpu)
    for machine, cpus in kinds.items():
        yield machine, periods.filter(pl.col("cpu").is_in(cpus))


def decisions_of(trace: Trace) -> pl.DataFrame:
    """Return every decision with outcome, label, wake-up and how many are `missing` before it."""
    if not trace.tables["decision"].height:
        return pl.DataFrame()
    periods = with_intervals(trace, _with_label(trace, trace.periods()))
    step = pl.col("seq").cast(pl.Int64).diff().over("cpu")
    return periods.with_columns(missing=(step - 1).clip(lower_bound=0).fill_null(0))


# ---- Figures of one group. ----


def _percent(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


def _quantile_us(latencies: pl.Series, share: float) -> float | None:
    """Return the least latency within which at least this share of the wake-ups is done."""
    if not latencies.len():
        return None
    return float(latencies.sort()[math.ceil(share * latencies.len()) - 1]) / 1000


def _count_states(group: Group, idle: pl.DataFrame, column: str) -> None:
    count = group.machine.count if group.machine else int(str(idle[column].max() or 0)) + 1
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


def _common_values(group: Group, idle: pl.DataFrame) -> dict[str, float | None]:
    """Return the figures that need no more than states and residencies."""
    time = sum(group.residency_ns)
    span = (group.end_ns - group.start_ns) * max(1, idle["cpu"].n_unique())
    values: dict[str, float | None] = dict.fromkeys(scalars())
    values["periods"] = idle.height
    values["idle_share"] = _percent(time, span)
    if group.state_pj:
        energy = sum(group.state_pj)
        values["energy_mj"] = energy / _PJ_PER_MJ
        values["power_mw"] = energy / time if time else None
        latencies = idle["exit_latency"]
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            values[f"latency_{name}_us"] = _quantile_us(latencies, share)
    return values


def _add_heat(group: Group, idle: pl.DataFrame) -> None:
    count = len(group.entries)
    group.chosen_ideal = [[0] * count for _ in range(count)]
    known = idle.filter(pl.col("ideal").is_not_null())
    for chosen, ideal, n in known.group_by("index", "ideal").agg(n=pl.len()).rows():
        group.chosen_ideal[chosen][ideal] = n


def _add_reasons(trace: Trace, group: Group, decisions: pl.DataFrame) -> None:
    counts = decisions.group_by("reason").agg(n=pl.len()).sort("n", descending=True)
    group.reasons = {trace.name_of("decision", "reason", number): n for number, n in counts.rows()}


def _decision_notes(idle: pl.DataFrame, parts: Iterable[StateTable | None]) -> list[str]:
    notes = []
    if idle["tick_unknown"].any():
        notes.append(
            "the kernel governor used as base hides what ended an idle period; tick wake-ups are "
            "inferred"
        )
    if any(machine and model_of(machine).derived for machine in parts):
        notes.append("state powers are derived from target residencies: illustrative")
    return notes


def _shares(
    trace: Trace, intervals: pl.DataFrame, decisions: pl.DataFrame, idle: pl.DataFrame
) -> dict[str, float]:
    """Return what the regret of decisions leaves out or guesses."""
    gone = int(decisions["missing"].sum())
    endless = int(decisions["out_kind"].null_count()) - decisions["cpu"].n_unique()
    late = float(idle.filter("overslept")["residency"].sum())
    return withheld.shares_of([intervals]) | {
        withheld.LATE: withheld.percent(late, float(idle["residency"].sum())),
        withheld.LOST: withheld.percent(gone + max(0, endless), gone + decisions.height),
        withheld.LEFT_OUT: trace.left_out_percent,
        withheld.CHANGED: 100.0 * trace.changed,
        withheld.REQUEST: withheld.percent(int(idle["contradicts"].sum()), idle.height),
    }


def _facts(
    group: Group, parts: Iterable[tuple[StateTable | None, pl.DataFrame]], judged_states: pl.Series
) -> invariants.Facts:
    """Return what a group says of itself: what has nothing to do with how it is judged.

    Args:
        group: with its periods counted.
        parts: its periods by machine.
        judged_states: state of each period that has a cost.
    """
    idle = group.stays()
    time, count = sum(group.residency_ns), sum(group.entries)
    return invariants.Facts(
        regret=group.values["regret"],
        models=[model_of(machine) for machine, _ in parts if machine],
        entries=[int((judged_states == k).sum()) for k in range(len(group.entries))],
        state_ns=group.residency_ns,
        idle_ns=float(idle["residency"].sum()),
        parts={
            "residency": ([100 * ns / time for ns in group.residency_ns if time], 100 * bool(time)),
            "entries": ([100 * n / count for n in group.entries if count], 100 * bool(count)),
        },
        counts={"periods": (group.values["periods"], count, idle.height)},
    )


def _settle(group: Group, facts: invariants.Facts) -> None:
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


def _of_decisions(trace: Trace, phase: Phase, label: str, decisions: pl.DataFrame) -> Group:
    parts = list(by_machine(trace, decisions))
    pieces, rows = [], []
    for machine, part in parts:
        if machine is None:
            raise UserError(
                f"{trace.path}: the CPUs differ in their idle states, and no cpuidle_lab:config "
                f"event tells those of CPU {part['cpu'][0]}"
            )
        intervals, verdicts = judged(trace, part, machine)
        rows.append(intervals)
        entered = with_limits(with_energy(part.filter("entered"), machine), machine)
        pieces.append(entered.join(verdicts, on=["cpu", "seq"], how="left", maintain_order="left"))
    idle, intervals = pl.concat(pieces), pl.concat(rows)
    group = Group(
        trace.path,
        label,
        phase.workload,
        DECISIONS,
        phase.start_ns,
        phase.end_ns,
        max((machine for machine, _ in parts if machine), key=lambda machine: machine.count),
        decisions,
    )
    _count_states(group, idle, "out_index")
    _add_heat(group, idle)
    _add_reasons(trace, group, decisions)
    group.wakers = wakers.counts(trace, decisions)
    group.notes = _decision_notes(idle, (machine for machine, _ in parts))
    late = float(idle.filter("overslept")["residency"].sum())
    overslept = _percent(late, sum(group.residency_ns))
    group.shares = _shares(trace, intervals, decisions, idle)
    if denied := sorted(idle.filter("contradicts")["out_index"].unique()):
        group.notes.append(withheld.denied(group.names[k] for k in denied))

    oracle, cost = (float(intervals[name].sum()) for name in ("oracle_pj", "cost_pj"))
    length = float(intervals.filter("judged")["length_ns"].sum())
    seconds = (phase.end_ns - phase.start_ns) / 1e9
    rejected = int((decisions["flags"] & tr.REJECTED != 0).sum())
    aborted = int((~decisions["entered"]).sum())
    group.values = _common_values(group, idle) | {
        "regret": 100 * (cost / oracle - 1) if oracle else None,
        "power_mw": cost / length if length else None,
        "oracle_mw": oracle / length if length else None,
        "intervals": int((intervals["length_ns"] > 0).sum()),
        "cut_intervals": int((intervals["flags"] & CUT != 0).sum()),
        "overslept_intervals": int((intervals["flags"] & OVERSLEPT != 0).sum()),
        "overslept": overslept,
        "short": group.shares[withheld.SHORT],
        "decisions": decisions.height,
        "decisions_per_s": decisions.height / seconds if seconds else None,
        "tick_wakeups": _percent(int(idle["tick"].sum()), idle.height),
        "aborted": _percent(aborted, decisions.height),
        "rejected": _percent(rejected, decisions.height),
        "above": _percent(int(idle["above"].sum()), int(idle["above"].count())),
        "below": _percent(int(idle["below"].sum()), int(idle["below"].count())),
    }
    begun = idle.filter(pl.col("interval") == pl.col("seq")).height
    facts = _facts(group, parts, idle.filter(pl.col("ideal").is_not_null())["out_index"])
    facts.cost_pj, facts.oracle_pj, facts.length_ns = cost, oracle, length
    facts.parts["reasons"] = [*group.reasons.values()], decisions.height
    facts.counts["intervals"] = group.values["intervals"], begun
    _settle(group, facts)
    return group


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
    ordered = pl.concat([lost, events], how="diagonal").sort("cpu", "ts", maintain_order=True)
    same = pl.col("cpu") == pl.col("cpu").shift(-1)
    ends = pl.col("state").shift(-1) == tr.IDLE_EXIT
    length = (pl.col("ts").shift(-1).cast(pl.Int64) - pl.col("ts").cast(pl.Int64)).cast(pl.Float64)
    return (
        ordered.with_columns(residency=length)
        .filter((pl.col("state") != tr.IDLE_EXIT) & same & ends)
        .select("ts", "cpu", index=pl.col("state"), residency="residency")
    )


def _of_cpu_idle(trace: Trace, phase: Phase, label: str, idle: pl.DataFrame) -> Group:
    pieces, kinds = [], []
    for machine, part in by_machine(trace, idle):
        kinds.append(machine)
        if machine is not None:
            deepest = int(str(part["index"].max() or 0))
            if deepest >= machine.count:
                raise UserError(
                    f"{trace.path}: a power:cpu_idle event names idle state {deepest}, which the "
                    "machine does not have"
                )
            model = model_of(machine)
            part = part.with_columns(
                cost=lookup("index", model.entry_pj)
                + lookup("index", model.power_mw) * pl.col("residency"),
                exit_latency=lookup("index", machine.exit_latency_ns),
            )
        pieces.append(part)
    known = all(kinds)
    columns = ["ts", "cpu", "index", "residency"] + (["cost", "exit_latency"] if known else [])
    rows = pl.concat([piece.select(columns) for piece in pieces])
    deepest_machine = max(
        (kind for kind in kinds if kind), key=lambda kind: kind.count, default=None
    )
    group = Group(
        trace.path,
        label,
        phase.workload,
        CPU_IDLE,
        phase.start_ns,
        phase.end_ns,
        deepest_machine if known else None,
        rows,
    )
    if int(str(rows["index"].max() or 0)) > 255:
        raise UserError(f"{trace.path}: a power:cpu_idle event names an impossible idle state")
    _count_states(group, rows, "index")
    group.values = _common_values(group, rows)
    group.notes = [
        "only power:cpu_idle events tell of it: reasons and tick wake-ups are unknown "
        "(cpuidle-lab capture --stock records the figures of a kernel governor)"
    ]
    facts = _facts(group, zip(kinds, pieces, strict=True), rows["index"])
    # Beside the regret of intervals it would be compared with that.
    if known and trace.machines and not trace.tables["decision"].height:
        _judge_idle(group, pieces, kinds, facts)
    group.shares[withheld.LEFT_OUT] = trace.left_out_percent
    group.shares[withheld.CHANGED] = 100.0 * trace.changed
    _settle(group, facts)
    if any(kind and model_of(kind).derived for kind in kinds):
        group.notes.append("state powers are derived from target residencies: illustrative")
    return group


def _judge_idle(
    group: Group,
    pieces: Sequence[pl.DataFrame],
    kinds: Sequence[StateTable | None],
    facts: invariants.Facts,
) -> None:
    """Add regret, above and below: each idle period against the best state for it."""
    found = [
        judge(machine, part["index"].to_numpy(), part["residency"].to_numpy())
        for machine, part in zip(kinds, pieces, strict=True) if machine
    ]  # fmt: skip
    sums = {name: sum(float(one[name].sum()) for one in found) for name in found[0]}
    count, length = sum(part.height for part in pieces), sums["length_ns"]
    group.values |= {
        "regret": 100 * (sums["cost_pj"] / sums["oracle_pj"] - 1) if sums["oracle_pj"] else None,
        "power_mw": sums["cost_pj"] / length if length > 0 else None,
        "oracle_mw": sums["oracle_pj"] / length if length > 0 else None,
        "above": _percent(int(sums["above"]), count),
        "below": _percent(int(sums["below"]), count),
        "short": _percent(int(sums["short"]), count),
    }
    group.shares[withheld.SHORT] = group.values["short"] or 0.0
    facts.regret = group.values["regret"]
    facts.cost_pj, facts.oracle_pj, facts.length_ns = sums["cost_pj"], sums["oracle_pj"], length
    group.notes.append(
        "regret, above and below: each idle period against the best state for it, as if nothing "
        "but its length counted"
    )


# ---- The whole trace. ----


def _during(frame: pl.DataFrame, phase: Phase) -> pl.DataFrame:
    if not frame.height:
        return frame
    return frame.filter((pl.col("ts") >= phase.start_ns) & (pl.col("ts") < phase.end_ns))


def _phase_group(
    trace: Trace, phase: Phase, decided: pl.DataFrame, idle: pl.DataFrame
) -> Iterator[Group]:
    assert phase.governor is not None
    plain = re.split(r"[^A-Za-z0-9_]", phase.governor)[0]
    mine = _during(decided, phase)
    if mine.height:
        mine = mine.filter(pl.col("governor_name") == plain)
    if not mine.height:
        part = _during(idle, phase)
        if part.height:
            yield _of_cpu_idle(trace, phase, phase.governor, part)
        return
    label = phase.governor
    if plain in ("gate", "bpf"):
        label = " and ".join(sorted(mine["label"].unique()))
        if (mine["hint_ns"] >= 0).any():
            label += " + hints"
    yield _of_decisions(trace, phase, label, mine)


def _unmarked(trace: Trace, decided: pl.DataFrame, idle: pl.DataFrame) -> Iterator[Group]:
    if not decided.height:
        span = Phase(None, "", int(str(idle["ts"].min())), _last_ts(trace))
        yield _of_cpu_idle(trace, span, "governor unknown", idle)
        return
    for label in decided.sort("ts")["label"].unique(maintain_order=True):
        mine = decided.filter(pl.col("label") == label)
        ends = int(str(mine["out_ts"].max() or 0))
        span = Phase(None, "", int(str(mine["ts"].min())), max(ends, int(str(mine["ts"].max()))))
        yield _of_decisions(trace, span, label, mine)


def _add_energy(trace: Trace, groups: Iterable[Group]) -> None:
    """Add what the energy counters say of each phase."""
    marks = trace.tables["marker"]
    if marks.height:
        marks = marks.filter(pl.col("text").str.contains(r"^\s*energy\s"))
    rows = marks.sort("ts", maintain_order=True).select("ts", "text").rows() if marks.height else []
    for group in groups:
        group.zones = energy.spent(row for row in rows if group.start_ns <= row[0] < group.end_ns)
        group.values |= energy.totals(group.zones)


def analyse(trace: Trace) -> list[Group]:
    """Return the figures of each governor and workload, in the order of the recording.

    Raises:
        UserError: the trace contradicts itself, or its markers hold no idle period.
    """
    decided, idle = decisions_of(trace), idle_periods(trace)
    parts = phases(trace)
    if not decided.height and not idle.height:
        raise tr.no_idle_periods(trace.path)
    if parts:
        groups = [g for phase in parts for g in _phase_group(trace, phase, decided, idle)]
        _add_energy(trace, groups)
    else:
        groups = list(_unmarked(trace, decided, idle))
    if not groups:
        raise UserError(f"{trace.path}: no idle period lies in any of the {len(parts)} phases")
    return groups


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
