# SPDX-License-Identifier: GPL-2.0
"""A recording as four polars frames, for notebooks and for the export to viewers.

Numbers of governors, reasons and states are replaced by their names. Times are in ns by the clock
of the trace, energies in pJ (1 mW * 1 ns) by the energy model of metrics.yaml.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.figures.analysis import Analysis
from cpuidle_lab.figures.cpu_idle import idle_periods
from cpuidle_lab.figures.decisions import decisions_of
from cpuidle_lab.figures.intervals import by_table, judged, table_of
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.phases import Phase
from cpuidle_lab.recording.streamed import Streamed, Whole
from cpuidle_lab.recording.trace import Trace
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import CpuTable, StateTable

# Columns of the frames, with their types, in their order.
DECISIONS: dict[str, pl.DataType] = {
    "cpu": pl.UInt16(), "seq": pl.UInt64(), "ts": pl.UInt64(), "workload": pl.String(),
    "governor": pl.String(), "index": pl.UInt8(), "state": pl.String(), "stop_tick": pl.Boolean(),
    "reason": pl.String(), "row": pl.Int16(), "base_index": pl.Int16(), "now_ns": pl.UInt64(),
    "latency_req_ns": pl.Int64(), "hint_ns": pl.Int64(), "sleep_length_ns": pl.Int64(),
    "delta_tick_ns": pl.Int64(), "asked": pl.Boolean(), "tick_stopped": pl.Boolean(),
    "rejected": pl.Boolean(), "left": pl.Boolean(), "disabled": pl.UInt32(),
    "generation": pl.UInt32(), "entered": pl.Boolean(), "out_ts": pl.UInt64(),
    "out_index": pl.UInt8(), "residency_ns": pl.UInt64(), "ended_by_tick": pl.Boolean(),
    "ideal": pl.UInt8(), "above": pl.Boolean(), "below": pl.Boolean(),
}  # fmt: skip
INTERVALS: dict[str, pl.DataType] = {
    "cpu": pl.UInt16(), "seq": pl.UInt64(), "ts": pl.UInt64(), "workload": pl.String(),
    "governor": pl.String(), "length_ns": pl.Int64(), "judged": pl.Boolean(),
    "cost_pj": pl.Float64(), "oracle_pj": pl.Float64(),
}  # fmt: skip
IDLE: dict[str, pl.DataType] = {
    "cpu": pl.UInt16(), "start_ns": pl.UInt64(), "end_ns": pl.UInt64(), "index": pl.UInt32(),
    "state": pl.String(), "seq": pl.UInt64(),
}  # fmt: skip
STATES: dict[str, pl.DataType] = {
    "cpu": pl.UInt16(), "index": pl.UInt8(), "state": pl.String(), "exit_latency_ns": pl.Int64(),
    "target_residency_ns": pl.Int64(), "power_mw": pl.Float64(), "entry_pj": pl.Float64(),
}  # fmt: skip


@dataclass(frozen=True)
class Frames:
    """A recording as frames.

    Attributes:
        path: where it came from.
        kernel: release of the kernel that recorded it, "" if unknown.
        decisions: one row for each decision, with all inputs, outcome and verdict (DECISIONS).
        intervals: one row for each interval, with its cost and the oracle's (INTERVALS).
        idle: one row for each stay in an idle state; `seq` is null without a decision (IDLE).
        states: the state tables with the energy model (STATES).
    """

    path: Path
    kernel: str
    decisions: pl.DataFrame
    intervals: pl.DataFrame
    idle: pl.DataFrame
    states: pl.DataFrame

    def regret(self) -> pl.DataFrame:
        """Return the regret, in percent, by workload and governor: as the report has it.

        It is null where the report has "?".
        """
        return (
            self.intervals.group_by("workload", "governor", maintain_order=True)
            .agg(
                intervals=pl.col("judged").sum(),
                cost=pl.col("cost_pj").sum(),
                oracle=pl.col("oracle_pj").sum(),
            )
            .with_columns(
                regret=pl.when(pl.col("oracle") > 0).then(
                    100 * (pl.col("cost") / pl.col("oracle") - 1)
                )
            )
            .drop("cost", "oracle")
        )


def frames_of(path: Path, given: Sequence[CpuTable] = ()) -> Frames:
    """Return a trace.dat as frames.

    Args:
        path: of the trace.
        given: idle states of a recording without the module, in place of its own.

    Raises:
        UserError: the file cannot be read, is damaged, contradicts itself or holds no idle period.
    """
    return frames_of_trace(tr.load(path, context=tr.context_with(path, given) if given else None))


def frames_by_part(path: Path, given: Sequence[CpuTable] = ()) -> Iterator[Frames]:
    """Return frames of the parts of a trace.dat, CPU by CPU; memory does not grow with it.

    The trace is read twice, for what only all of it tells, and again for its parts.

    Args:
        path: of the trace.
        given: idle states of a recording without the module, in place of its own.

    Raises:
        UserError: as frames_of().
    """
    context = tr.context_with(path, given) if given else None
    return _by_part(Analysis(lambda look: Streamed(path, context, look), drawn=0))


def frames_of_trace(trace: Trace) -> Frames:
    """Return a trace in memory as frames.

    Raises:
        UserError: it contradicts itself or holds no idle period.
    """
    (found,) = _by_part(Analysis(lambda look: Whole(trace, look)))
    return found


def _by_part(analysis: Analysis) -> Iterator[Frames]:
    facts, rows = analysis.source.facts, 0
    for part in analysis.source.parts():
        decisions, intervals = _judged(part, decisions_of(part), analysis)
        idle = _idle(part, decisions, idle_periods(part))
        rows += decisions.height + idle.height
        yield Frames(part.path, part.kernel, decisions, intervals, idle, _states(part))
    if not rows:
        raise tr.no_idle_periods(facts.path)


def _shaped(frame: pl.DataFrame, layout: dict[str, pl.DataType]) -> pl.DataFrame:
    return frame.select(pl.col(name).cast(kind) for name, kind in layout.items())


def _named(trace: Trace, frame: pl.DataFrame, column: str) -> pl.Expr:
    names = {n: trace.name_of("decision", column, n) for n in frame[column].unique()}
    return pl.col(column).replace_strict(names, return_dtype=pl.String)


def _state_names(state_tables: dict[int, StateTable], column: str) -> pl.Expr:
    """Return the name of the state whose number is in a column; `state N` where unknown."""
    unknown = pl.format("state {}", pl.col(column).cast(pl.String))
    # One expression: polars takes for ever for one within the other for each of 300 CPUs.
    names = {
        cpu << 8 | k: name
        for cpu, table in state_tables.items()
        for k, name in enumerate(table.names)
    }
    if not names:
        return unknown
    key = pl.col("cpu").cast(pl.Int64) * 256 + pl.col(column).cast(pl.Int64)
    known = key.replace_strict(names, default=unknown, return_dtype=pl.String)
    return pl.when(pl.col(column).is_between(0, 255)).then(known).otherwise(unknown)


def _state_tables(trace: Trace) -> dict[int, StateTable]:
    found = {cpu: table_of(trace, cpu) for cpu in range(trace.cpus)}
    return {cpu: table for cpu, table in found.items() if table}


def _workloads(parts: list[Phase]) -> pl.Expr:
    phases = sorted(parts, key=lambda phase: phase.start_ns)
    starts = pl.lit(pl.Series([phase.start_ns for phase in phases], dtype=pl.UInt64))
    number = starts.search_sorted(pl.col("ts"), side="right")
    names = pl.lit(pl.Series(["", *(phase.workload for phase in phases)], dtype=pl.String))
    ends = pl.lit(pl.Series([0, *(phase.end_ns for phase in phases)], dtype=pl.UInt64))
    during = pl.col("ts") < ends.gather(number)
    return pl.when(during).then(names.gather(number)).otherwise(pl.lit(""))


def _judged(
    trace: Trace, decided: pl.DataFrame, analysis: Analysis
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the decisions with their verdicts, and the intervals with what they cost."""
    if not decided.height:
        return pl.DataFrame(schema=DECISIONS), pl.DataFrame(schema=INTERVALS)
    intervals, verdicts = [], []
    for table, part in by_table(trace, decided):
        if table is None:
            raise UserError(
                f"{trace.path}: no cpuidle_lab:cil_config event tells the idle states of CPU "
                f"{part['cpu'][0]}"
            )
        costs, verdict = judged(trace, part, table)
        intervals.append(costs)
        verdicts.append(verdict)
    flag = pl.col("flags")
    known = tr.in_order(pl.concat(verdicts)).with_columns(
        _named(trace, decided, "reason"),
        workload=_workloads(analysis.phases),
        governor=pl.col("label"),
        state=_state_names(_state_tables(trace), "index"),
        asked=flag & tr.ASKED != 0,
        tick_stopped=flag & tr.TICK_STOPPED != 0,
        rejected=flag & tr.REJECTED != 0,
        residency_ns=pl.when("entered").then("out_residency_ns"),
        out_index=pl.when("entered").then("out_index"),
        ended_by_tick=pl.when("entered").then("tick"),
        **{
            name: pl.when(pl.col(name) == 255).then(-1).otherwise(pl.col(name).cast(pl.Int16))
            for name in ("row", "base_index")
        },
    )
    first = known.select("cpu", "ts", "workload", "governor", first_seq="seq")
    costs = pl.concat(intervals).join(first, on=["cpu", "first_seq"], maintain_order="left")
    gone = analysis.withheld(decided).select(pl.struct("cpu", "seq")).to_series()
    worth = pl.col("judged") & ~pl.struct("cpu", seq="first_seq").is_in(gone.implode())
    costs = costs.with_columns(
        seq=pl.col("first_seq"),
        judged=worth,
        cost_pj=pl.when(worth).then("cost_pj"),
        oracle_pj=pl.when(worth).then("oracle_pj"),
    )
    return _shaped(known, DECISIONS), _shaped(costs.sort("cpu", "seq"), INTERVALS)


def _idle(trace: Trace, decisions: pl.DataFrame, stays: pl.DataFrame) -> pl.DataFrame:
    """Return every stay: as power:cpu_idle delimits it, else from its decision on."""
    entered = decisions.filter("entered").select(
        "cpu", "seq", "out_ts", "residency_ns", "out_index", start_ns="ts"
    )
    parts = []
    if stays.height:
        kernel = stays.select(
            pl.col("cpu").cast(pl.UInt16),
            start_ns=pl.col("ts"),
            end_ns=pl.col("ts") + pl.col("residency").cast(pl.UInt64),
            index=pl.col("index"),
        )
        behind = entered.select("cpu", "seq", "out_ts", decided_ns="start_ns").sort("decided_ns")
        met = kernel.sort("start_ns").join_asof(
            behind,
            left_on="start_ns",
            right_on="decided_ns",
            by="cpu",
            strategy="backward",
            check_sortedness=False,
        )
        mine = (pl.col("end_ns") <= pl.col("out_ts")) & pl.struct("cpu", "seq").is_first_distinct()
        parts.append(met.with_columns(seq=pl.when(mine).then("seq")))
        entered = entered.join(
            parts[0].filter(pl.col("seq").is_not_null()), on=["cpu", "seq"], how="anti"
        )
    if entered.height:
        end = pl.col("start_ns") + pl.col("residency_ns")
        parts.append(
            entered.with_columns(index="out_index", end_ns=pl.min_horizontal(end, "out_ts"))
        )
    named = [_shaped(p.with_columns(state=_state_names(_state_tables(trace), "index")), IDLE)
             for p in parts]  # fmt: skip
    return pl.concat([pl.DataFrame(schema=IDLE), *named]).sort("cpu", "start_ns")


def _state_rows(trace: Trace) -> Iterator[tuple[object, ...]]:
    for cpu, table in _state_tables(trace).items():
        model = model_of(table)
        for k, name in enumerate(table.names):
            latency, target = table.exit_latency_ns[k], table.target_residency_ns[k]
            yield cpu, k, name, latency, target, model.power_mw[k], model.entry_pj[k]


def _states(trace: Trace) -> pl.DataFrame:
    return pl.DataFrame(list(_state_rows(trace)), schema=STATES, orient="row")
