# SPDX-License-Identifier: GPL-2.0
"""A recording without the module tells nearly what one with it tells, for every workload.

The lab records workloads both ways at once. The probes then make decisions without the module's
events, without those answers that the module's own event asked for. Both are compared decision by
decision, by what replay makes of them, and by how well it predicts other governors: docs/stock.md.
"""

import argparse
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.crossval.pairs import Pair
from cpuidle_lab.crossval.parts import Part, parts
from cpuidle_lab.crossval.plan import GOVERNORS
from cpuidle_lab.host.marks import EVENTS, PROBES
from cpuidle_lab.host.probes import CAUSE_EVENTS, DEVICE, KERNEL_EVENTS
from cpuidle_lab.lab import LabRun, run_lab, workloads
from cpuidle_lab.lab.session import OUR_EVENTS, TRACE, Session, stock_start
from cpuidle_lab.recording import columns
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.phases import phases_of
from cpuidle_lab.replay.candidates import MAINLINE_KIND
from cpuidle_lab.replay.engine import counterfactual
from cpuidle_lab.replay.library import governor
from cpuidle_lab.states.linux_source import series
from cpuidle_lab.states.table import StateTable
from experiments import proofs
from tests.proofs.stock import costs, predict, ranges

EXAMPLES = {
    "": "",
    "--kernels 6.12 --workloads idle,pgbench-1": "",
    "-o build/stock": "keep the traces there",
    "--traces build/stock/*.dat": "judge them again; boot nothing",
    "--costs --kernels 6.12": "bytes and instructions of each way",
    "--interrupts": "by the causes of wake-ups: ranges of regret beside the facts",
    "--interrupts --machine gnr --seed 13": "the same of recordings that no margin was chosen on",
}

FULL = "full"
# The kernel's own menu decides under the gate.
RECORDERS = ("gate", "menu_ng", "teo_ng", "wteo")
BASES = {"gate": "menu"}
MACHINE = "skx"
SEED = 42

# Of all answers that were asked for, by probes; and of facts.
EXACT = 1.0


@dataclass(frozen=True)
class Target:
    """The targets of a way.

    Attributes:
        close: share of all decisions whose sleep length is within CLOSE_NS or CLOSE_SHARE.
        forking: the same on each workload of FORKING.
        same: share of first choices that replay makes alike, by governor.
        regret: points by which a regret may be apart, over the intervals that both have.
    """

    close: float
    forking: float
    same: Mapping[str, float]
    regret: float


TARGETS = {
    PROBES: Target(0.98, 0.88, {"menu": 0.995, "teo": 0.995, "wteo": 0.98}, 0.5),
    EVENTS: Target(0.98, 0.88, {"menu": 0.99, "teo": 0.99, "wteo": 0.95}, 1.0),
}
FORKING = ("hackbench-pipe", "hackbench-socket", "pgbench-44")
CLOSE_NS, CLOSE_SHARE = 2000, 0.01

# Regrets nearer than that have no order.
TIE = 0.25

# Clocks of the two ways: from the call of select to its record at most so much passes.
_SAME_NS = 20_000

Array = npt.NDArray[Any]

_ENTERED = pl.col("out_kind") == tr.ENTERED


@dataclass
class Row:
    """One workload on one kernel, recorded by one governor.

    Attributes:
        way: PROBES or EVENTS.
        kernel, cpus, workload, recorder: what was recorded.
        decisions: decisions compared, and the share of those of the module that were found.
        matched: that share.
        asked: share of the decisions in which the governor asked.
        exact: share of the asked ones whose sleep length and time to the tick are the same.
        close: share of all whose sleep length is within 2 us or 1 %.
        inferred: the same of those not asked by probes, None without any.
        facts: share of all with the same state, tick, wake-up and end of the poll. Of a wake-up
            under the kernel's governor the module does not know whether the tick came.
        verdicts: share of all that are above or below alike, as the kernel counts them.
        same: first choices that replay makes alike, by governor.
        apart: regret by the probes less that by the module, points, by governor.
        orders: pairs of governors whose order differs.
        intervals: those that both have; `more`: those that one has.
    """

    way: str
    kernel: str
    cpus: int
    workload: str
    recorder: str
    decisions: int = 0
    matched: float = 0.0
    asked: float = 0.0
    exact: float | None = None
    close: float = 0.0
    inferred: float | None = None
    facts: float = 0.0
    verdicts: float = 0.0
    same: dict[str, float] = field(default_factory=dict)
    apart: dict[str, float] = field(default_factory=dict)
    orders: int = 0
    intervals: int = 0
    more: int = 0


# ---- Recording ----


# Softirqs of the tick are needed besides RCU's.
_SOFTIRQS = "irq:softirq_raise"


def _events(interrupts: bool) -> list[tuple[str, str]]:
    """Return the events of a recording with their filters."""
    found = [(OUR_EVENTS, ""), DEVICE, *KERNEL_EVENTS]
    if not interrupts:
        return found
    known = {event for event, _ in found}
    more = [each for each in CAUSE_EVENTS if each[0] not in known]
    return [(event, "" if event == _SOFTIRQS else only) for event, only in found] + more


def script(
    names: Sequence[str],
    recorders: Sequence[str],
    seconds: int,
    interrupts: bool = False,
    machine: str = MACHINE,
    seed: int = SEED,
) -> str:
    """Return the guest's script: both ways at once, governor by governor."""
    phases = [
        workloads.find(name).phase(recorder, seconds, seed, GOVERNORS.get(recorder, ()))
        # A recording may change its governor only so often.
        for recorder in recorders
        for name in names
    ]
    session = Session(machine, phases, (OUR_EVENTS,)).script().splitlines()
    begin = stock_start(machine, 781, _events(interrupts))
    at = next(n for n, line in enumerate(session) if line.startswith("trace_start"))
    return "\n".join([*session[:at], *begin, *session[at + 1 :]])


def record(args: argparse.Namespace, kernel: str, cpus: int, folder: Path) -> Path:
    """Boot once; return the trace."""
    names = args.workloads.split(",") if args.workloads else list(workloads.WORKLOADS)
    recorders = args.governors.split(",")
    boot = LabRun(
        script=script(names, recorders, args.duration, args.interrupts, args.machine, args.seed),
        kernel=kernel,
        cpus=cpus,
        memory_mib=3072,
        time_limit_s=args.time_limit,
        files=workloads.files(workloads.find(name) for name in names),
    )
    result = run_lab(boot, folder / "results", f"Recording both ways on {kernel}, {cpus} CPUs")
    trace = folder / f"{kernel}-{cpus}.dat"
    shutil.move(result.check().files / TRACE, trace)
    return trace


# ---- Judging ----


def verdict(machine: StateTable, index: Array, stay_ns: Array) -> Array:
    """Return -1 for each stay that the kernel counts as above, 1 for below, else 0.

    As drivers/cpuidle/cpuidle.c does for power:cpu_idle_miss, no state being disabled.
    """
    target = np.asarray(machine.target_residency_ns, np.int64)
    latency = np.asarray(machine.exit_latency_ns, np.int64)
    deeper = np.append(target[1:], tr.TIME_MAX)
    above = (stay_ns < target[index]) & (index > 0)
    below = stay_ns - latency[index] >= deeper[index]
    return np.where(above, -1, (below & ~above).astype(np.int64))


def _entered(machine: StateTable, kept: columns.Columns) -> pl.DataFrame:
    """Return the decisions that an idle period followed, with verdict(), by time."""
    names = ("ts", "sleep_length_ns", "delta_tick_ns", "flags", "out_index", "out_kind",
             "stop_tick", "tick", "poll_time_limit", "by_tick", "residency_ns")  # fmt: skip
    frame = pl.DataFrame({name: kept[name] for name in names}).filter(_ENTERED).sort("ts")
    told = (frame[name].cast(pl.Int64).to_numpy() for name in ("out_index", "residency_ns"))
    return frame.with_columns(verdict=verdict(machine, *told))


def paired(mine: pl.DataFrame, other: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return `mine` with the nearest row of `other`, null where there is none.

    A row of `other` pairs with the nearest row of `mine` alone. So a decision that one way lacks
    pairs with none.

    Args:
        mine: sorted by "ts".
        other: the same; its columns are called "s_...".
        by: columns that are alike in a pair.
    """
    theirs = other.rename(lambda name: f"s_{name}")
    both = mine.join_asof(
        theirs.with_columns(ts="s_ts", **{name: f"s_{name}" for name in by}), on="ts",
        by=list(by) or None, strategy="nearest", tolerance=_SAME_NS, check_sortedness=False,
    )  # fmt: skip
    gap = (pl.col("ts").cast(pl.Int64) - pl.col("s_ts").cast(pl.Int64)).abs()
    nearest = gap == gap.min().over("s_ts", *by)
    return both.with_columns(pl.when(nearest).then(name).alias(name) for name in theirs.columns)


def compare_decisions(row: Row, full: Part, stock: Part) -> None:
    """Compare the decisions of both, matched by time."""
    found = []
    for cpu, (_, periods) in full.kept.items():
        if cpu not in stock.kept:
            continue
        machine = full.state_tables[cpu]
        mine, other = _entered(machine, periods), _entered(machine, stock.kept[cpu][1])
        found.append(paired(mine, other))
    both = pl.concat(found)
    row.decisions = both.height
    kept = both.filter(pl.col("s_ts").is_not_null())
    row.matched = kept.height / max(1, both.height)
    # The module does not see what the kernel's governor asks.
    kernels = full.recorder.kind == MAINLINE_KIND
    by_probe = (pl.col("s_flags" if kernels else "flags") & 4) != 0
    asked = by_probe if row.way == PROBES else pl.lit(False)
    alike = (pl.col("sleep_length_ns") == pl.col("s_sleep_length_ns")) & (
        pl.col("delta_tick_ns") == pl.col("s_delta_tick_ns")
    )
    error = (
        pl.col("sleep_length_ns").cast(pl.Float64) - pl.col("s_sleep_length_ns").cast(pl.Float64)
    ).abs()
    close = error <= pl.max_horizontal(
        pl.lit(CLOSE_NS), pl.col("sleep_length_ns").cast(pl.Float64) * CLOSE_SHARE
    )
    stops = (pl.col("stop_tick") != 0) | (pl.col("flags") & 1 != 0)
    s_stops = (pl.col("s_stop_tick") != 0) | (pl.col("s_flags") & 1 != 0)
    facts = (stops == s_stops) & (pl.col("flags") & 1 == pl.col("s_flags") & 1)
    for name in ("out_index", "poll_time_limit"):
        facts &= pl.col(name) == pl.col(f"s_{name}")
    facts &= (pl.col("tick") == tr.TICK_UNKNOWN) | (pl.col("tick") == pl.col("s_tick"))
    told = kept.select(
        asked=asked.mean(),
        exact=alike.filter(asked).mean(),
        close=close.mean(),
        inferred=close.filter(~asked).mean(),
        facts=facts.mean(),
        verdicts=(pl.col("verdict") == pl.col("s_verdict")).mean(),
    ).row(0, named=True)
    for name, share in told.items():
        setattr(row, name, share)


def first_choices(part: Part, spec: str) -> pl.DataFrame:
    """Replay a governor; return what it came to in each interval, by the interval's start."""
    outcome = counterfactual(part, governor(spec), choices=True, jobs=1)  # type: ignore[arg-type]
    frames = []
    for cpu, chosen in outcome.choices.items():
        begin = _recorded_at(part, cpu)
        told = {name: chosen[name] for name in ("index", "cost_pj", "oracle_pj")}
        frames.append(pl.DataFrame({"ts": begin, "cpu": np.full(len(begin), cpu), **told}))
    return pl.concat(frames).sort("ts")


def _recorded_at(part: Part, cpu: int) -> Array:
    """Return when the first decision of each interval was recorded, by the trace's clock."""
    intervals, periods = part.kept[cpu]
    at = dict(zip(periods["seq"].tolist(), periods["ts"].tolist(), strict=True))
    return np.array([at.get(seq, 0) for seq in intervals["first_seq"].tolist()], np.uint64)


Choices = Mapping[str, pl.DataFrame]


def replayed(part: Part) -> Choices:
    """Replay the governors that are compared; return first_choices() by name."""
    kernel = series(part.kernel)
    specs = {"menu": f"menu@{kernel}", "teo": f"teo@{kernel}", "wteo": "wteo"}
    return {name: first_choices(part, spec) for name, spec in specs.items()}


def _regret(both: pl.DataFrame, prefix: str) -> float:
    cost, oracle = (float(both[f"{prefix}{name}"].sum()) for name in ("cost_pj", "oracle_pj"))
    return 100 * (cost / oracle - 1) if oracle else 0.0


def compare_replays(row: Row, full: Choices, stock: Choices) -> None:
    """Compare what replay makes of the intervals that both have.

    The last of a phase may be missing or cut in one of them, and may last many ms: the module's
    outcome comes only with the next selection, which is another governor's.
    """
    regrets: dict[str, tuple[float, float]] = {}
    for name, mine in full.items():
        theirs = stock[name]
        both = paired(mine, theirs, "cpu").filter(
            (pl.col("oracle_pj") > 0) == (pl.col("s_oracle_pj") > 0)
        )
        regrets[name] = _regret(both, ""), _regret(both, "s_")
        row.intervals, row.more = both.height, mine.height + theirs.height - 2 * both.height
        row.apart[name] = regrets[name][1] - regrets[name][0]
        row.same[name] = float((both["index"] == both["s_index"]).mean() or 0.0)  # type: ignore[arg-type]
    names = list(regrets)
    for n, one in enumerate(names):
        for two in names[n + 1 :]:
            here, there = (regrets[one][k] - regrets[two][k] for k in (0, 1))
            row.orders += abs(here) > TIE and here * there < 0


def by_phase(recording: columns.Recording, trace: Path) -> dict[int, Part]:
    """Return the phases that have intervals, by the time of their mark, ns.

    Recordings may differ in the phases that have any. Their marks are the same.
    """
    marks = [phase.start_ns for phase in phases_of(recording.table("marker"), tr.TIME_MAX)]
    found = {}
    for part in parts(recording, trace):
        first = min(int(periods["ts"].min()) for _, periods in part.kept.values())
        found[max(mark for mark in marks if mark <= first)] = part
    return found


Ways = Mapping[str, Mapping[int, Part]]


def read_ways(trace: Path) -> Ways:
    """Read a trace as the module and as each way tells it; return by_phase() by way."""
    told = tr.context_in(trace, both=True)
    if told is None:
        raise UserError(f"{trace}: was not recorded both ways")
    # Without the module, the mark names the kernel's governor itself.
    governors = [(ts, BASES.get(name, name)) for ts, name in told.governors]
    with tempfile.TemporaryDirectory(prefix="stock-", dir=TOP / "build") as name:
        folder = Path(name)
        columns.write(trace, folder / FULL)
        for way in TARGETS:
            changed = replace(
                told, governors=governors, strict=True, no_probes=way == EVENTS, way=way
            )
            columns.write(trace, folder / way, context=changed)
        return {way: by_phase(columns.Recording(folder / way), trace) for way in (FULL, *TARGETS)}


def judge(read: Ways, cpus: int) -> list[Row]:
    """Compare each way of a trace with the module's, phase by phase.

    A phase that a way lacks is a row in which nothing is the same.
    """
    rows = []
    for start, mine in read[FULL].items():
        choices = replayed(mine)
        for way in TARGETS:
            row = Row(way, mine.kernel, cpus, mine.workload, mine.recorder.label)
            if start in read[way]:
                compare_decisions(row, mine, read[way][start])
                compare_replays(row, choices, replayed(read[way][start]))
            else:
                row.decisions = sum(len(periods["ts"]) for _, periods in mine.kept.values())
                row.same = dict.fromkeys(choices, 0.0)
            rows.append(row)
    return rows


def _share(values: Sequence[tuple[float | None, float]]) -> float:
    known = [(value, weight) for value, weight in values if value is not None and weight]
    return sum(v * w for v, w in known) / max(1e-9, sum(w for _, w in known))


def targets(rows: Sequence[Row]) -> list[tuple[bool, str]]:
    """Return each target of each way: whether it is met, and the figures."""
    found = []
    for way in dict.fromkeys(row.way for row in rows):
        mine = [row for row in rows if row.way == way]
        found += [(met, f"{way}: {text}") for met, text in _targets(mine, TARGETS[way])]
    return found


def _targets(rows: Sequence[Row], target: Target) -> list[tuple[bool, str]]:
    found = []
    if rows[0].way == PROBES:
        exact = _share([(row.exact, row.decisions * row.asked) for row in rows])
        found.append((exact >= EXACT, f"sleep length and time to the tick exact where the "
                      f"governor asked: {100 * exact:.3f} % (target 100 %)"))  # fmt: skip
        facts = _share([(row.facts, row.decisions) for row in rows])
        found.append((facts >= EXACT, f"state, tick and end of each idle period the same: "
                      f"{100 * facts:.3f} % (target 100 %)"))  # fmt: skip
    rest = [row for row in rows if row.workload not in FORKING]
    close = _share([(row.close, row.decisions) for row in rest])
    found.append((close >= target.close, f"sleep length within 2 us or 1 %: {100 * close:.2f} % "
                  f"(target {100 * target.close:g} %)"))  # fmt: skip
    for workload in FORKING:
        forking = [(row.close, row.decisions) for row in rows if row.workload == workload]
        if forking:
            found.append((_share(forking) >= target.forking, f"the same on {workload}: "
                          f"{100 * _share(forking):.2f} % "
                          f"(target {100 * target.forking:g} %)"))  # fmt: skip
    for name, least in target.same.items():
        same = _share([(row.same[name], row.decisions) for row in rows])
        found.append((same >= least, f"first choice of {name} the same: {100 * same:.2f} % "
                      f"(target {100 * least:g} %)"))  # fmt: skip
    worst = max(((abs(each), row.workload, name)
                 for row in rows for name, each in row.apart.items()),
                default=(0.0, "", "no governor"))  # fmt: skip
    missed = sum(abs(each) > target.regret for row in rows for each in row.apart.values())
    found.append((not missed, f"regret within {target.regret:g} points: all but {missed} of "
                  f"{sum(len(row.apart) for row in rows)}, at worst {worst[0]:.2f} "
                  f"({worst[2]} on {worst[1]})"))  # fmt: skip
    orders = sum(row.orders for row in rows)
    found.append((not orders, f"order of the governors: {orders} pairs differ"))
    lacking = sum(not row.matched for row in rows)
    found.append((not lacking, f"phases that both have: all but {lacking} of {len(rows)}"))
    total = sum(row.decisions for row in rows)
    matched = _share([(row.matched, row.decisions) for row in rows])
    verdicts = _share([(row.verdicts, row.decisions) for row in rows])
    found.append((total > 0, f"{total:,} decisions compared in {len(rows)} recordings; "
                  f"{100 * matched:.2f} % found, {100 * verdicts:.3f} % above or below alike; "
                  f"{sum(row.intervals for row in rows):,} "
                  f"intervals in both, {sum(row.more for row in rows):,} in one"))  # fmt: skip
    return found


def show(rows: Sequence[Row], met: Sequence[tuple[bool, str]]) -> None:
    """Print the table and the targets."""
    print("| way | kernel | CPUs | workload | recorder | decisions | asked % | exact % | close % "
          "| inferred % | facts % | same % menu, teo, wteo | regret apart |")  # fmt: skip
    print("|---|---|--:|---|---|--:|--:|--:|--:|--:|--:|---|---|")
    for row in rows:
        percent = [f"{100 * one:.2f}" if one is not None else "-"
                   for one in (row.exact, row.close, row.inferred, row.facts)]  # fmt: skip
        same = " ".join(f"{100 * one:.2f}" for one in row.same.values())
        apart = " ".join(f"{one:+.2f}" for one in row.apart.values())
        print(f"| {row.way} | {series(row.kernel)} | {row.cpus} | {row.workload} | {row.recorder} "
              f"| {row.decisions:,} | {100 * row.asked:.1f} | {' | '.join(percent)} "
              f"| {same} | {apart} |")  # fmt: skip
    for held, text in met:
        print(f"- {'held' if held else 'MISSED'}: {text}")


def measure_costs(args: argparse.Namespace) -> int:
    """Measure what the ways of recording cost, show, return the exit code."""
    names = args.workloads.split(",") if args.workloads else costs.WORKLOADS
    found = {}
    with tempfile.TemporaryDirectory(prefix="stock-", dir=TOP / "build") as name:
        for kernel in (args.kernels or "6.12").split(","):
            found[kernel] = costs.measure(kernel, names, args.duration, Path(name))
    if args.json:
        print(json.dumps({kernel: costs.rows(each) for kernel, each in found.items()}, indent=2))
    else:
        for kernel, each in found.items():
            print(f"Linux {kernel}:")
            costs.show(each)
    return 0


def judge_ranges(args: argparse.Namespace, given: Sequence[tuple[Path, int]]) -> int:
    """Judge recordings by the causes of wake-ups, show, return the exit code."""
    rows = [row for path, cpus in given for row in ranges.judge(path, cpus)]
    met = ranges.targets(rows)
    if args.json:
        print(json.dumps(ranges.as_json(rows, met), indent=2))
    else:
        ranges.show(rows, met)
    return 0 if all(held for held, _ in met) else 1


def _boots(args: argparse.Namespace) -> list[tuple[str, int]]:
    if args.kernels:
        return [(kernel, args.cpus) for kernel in args.kernels.split(",")]
    if args.interrupts:
        return list(ranges.BOOTS)
    return [("6.1", 1), ("6.12", 1), ("7.2", 1), ("6.12", 4)]


def run(args: argparse.Namespace) -> int:
    """Record, judge, show; return the exit code."""
    if args.costs:
        return measure_costs(args)
    rows: list[Row] = []
    pairs: dict[str, list[Pair]] = {way: [] for way in (FULL, *TARGETS)}
    with tempfile.TemporaryDirectory(prefix="stock-", dir=TOP / "build") as name:
        folder = Path(name)
        if args.traces:
            given = [(path, int(path.stem.rpartition("-")[2] or 1)) for path in args.traces]
        else:
            given = [(record(args, kernel, cpus, folder), cpus) for kernel, cpus in _boots(args)]
        if args.output:
            args.output.mkdir(parents=True, exist_ok=True)
            for path, _ in given:
                shutil.copy(path, args.output)
        if args.interrupts:
            return judge_ranges(args, given)
        for path, cpus in given:
            read = read_ways(path)
            rows += judge(read, cpus)
            for way, found in pairs.items():
                found += predict.pairs(read[FULL], read[way])
    allowed = {way: target.regret for way, target in TARGETS.items()}
    met = targets(rows) + predict.targets(pairs, FULL, allowed)
    if args.json:
        result: Mapping[str, object] = {
            "rows": [asdict(row) for row in rows],
            "predictions": {way: predict.figures(found) for way, found in pairs.items()},
            "targets": [{"met": held, "text": text} for held, text in met],
        }
        print(json.dumps(result, indent=2))
    else:
        show(rows, met)
    return 0 if all(held for held, _ in met) else 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, cpus=1, seed=SEED, time_limit=1800, output=None, json=False)
    add = parser.add_argument
    add("--machine", default=MACHINE, help="default: %(default)s")
    add("--kernels", metavar="SERIES[,SERIES]",
        help="with --cpus (default: 6.1, 6.12, 7.2 with one CPU, 6.12 with four)")  # fmt: skip
    add("--workloads", metavar="NAME[,NAME]", help="default: all of the lab")
    add("--governors", default=",".join(RECORDERS), metavar="LIST",
        help="governors that decide; gate: the kernel's menu (default: %(default)s)")  # fmt: skip
    add("--duration", type=int, default=1, metavar="S", help="of each phase (default: 1)")
    add("--traces", type=Path, nargs="+", help="judge these traces; boot nothing")
    add(
        "--interrupts",
        action="store_true",
        help="judge by the causes of wake-ups; 6.1 with one CPU, 6.12 and 7.2 with 1, 2 and 4",
    )
    add("--costs", action="store_true", help="measure bytes and instructions instead")
