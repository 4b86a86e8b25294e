# SPDX-License-Identifier: GPL-2.0
"""From the reader's idle periods and exogenous intervals to what they cost in a report.

A period is a decision with its outcome. What the terms mean is said in metrics.yaml. Times are in
ns, powers in mW and energies in pJ (1 mW * 1 ns).
"""

from collections.abc import Iterator, Sequence

import polars as pl

from cpuidle_lab.figures.withheld import contradicts
from cpuidle_lab.recording import columns
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.trace import Trace
from cpuidle_lab.replay import recorded
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable


def table_of(trace: Trace, cpu: int) -> StateTable | None:
    """Return the idle states of a CPU; where only those of others are known and equal, these."""
    kinds = set(trace.state_tables.values())
    if cpu in trace.state_tables or len(kinds) != 1:
        return trace.state_tables.get(cpu)
    return next(iter(kinds))


def by_table(
    trace: Trace, periods: pl.DataFrame
) -> Iterator[tuple[StateTable | None, pl.DataFrame]]:
    """Split by the CPUs' idle states; usually there is one kind."""
    kinds: dict[StateTable | None, list[int]] = {}
    for cpu in sorted(periods["cpu"].unique()):
        kinds.setdefault(table_of(trace, cpu), []).append(cpu)
    for table, cpus in kinds.items():
        yield table, periods.filter(pl.col("cpu").is_in(cpus))


def lookup(column: str, values: Sequence[float]) -> pl.Expr:
    """Return the value of the state whose number is in a column; null where there is none such."""
    number = pl.when(pl.col(column) < len(values)).then(pl.col(column))
    return pl.lit(pl.Series([*map(float, values)], dtype=pl.Float64)).gather(number)


# Columns that the reader adds to each period, beside the events.
MADE = ("by_tick", "overslept", "interval")


def with_intervals(trace: Trace, periods: pl.DataFrame) -> pl.DataFrame:
    """Add what ended each period, as far as it is known or follows, and its interval.

    Args:
        trace: with the tables that the reader makes.
        periods: of Trace.periods().

    Returns:
        `periods` with `entered`, `residency` (ns, null unless entered), `tick`, `tick_unknown`,
        `overslept` and `interval` (number of its first decision, 0: none).
    """
    made = trace.tables["period"].select("cpu", "seq", *MADE)
    entered = pl.col("out_kind") == tr.ENTERED
    return periods.join(made, on=["cpu", "seq"], how="left", maintain_order="left").with_columns(
        entered=entered.fill_null(False),
        residency=pl.when(entered).then(pl.col("out_residency_ns").cast(pl.Float64)),
        tick=(entered & (pl.col("by_tick") != 0)).fill_null(False),
        tick_unknown=(entered & (pl.col("out_tick") == tr.TICK_UNKNOWN)).fill_null(False),
        overslept=(pl.col("overslept") != 0).fill_null(False),
        interval=pl.col("interval").fill_null(0),
    )


def with_energy(idle: pl.DataFrame, table: StateTable, index: str = "out_index") -> pl.DataFrame:
    """Add `cost`, the modelled energy with the exit latency (pJ), and `exit_latency` (ns).

    Args:
        idle: idle periods, with `residency` in ns.
        table: their idle states.
        index: the column with the number of the state.
    """
    model = model_of(table)
    return idle.with_columns(
        cost=lookup(index, model.entry_pj) + lookup(index, model.power_mw) * pl.col("residency"),
        exit_latency=lookup(index, table.exit_latency_ns),
    )


def with_limits(idle: pl.DataFrame, table: StateTable) -> pl.DataFrame:
    """Add `contradicts`: the state of the period was not allowed, as far as the recording tells."""
    names = ("out_index", "latency_req_ns", "disabled")
    found = contradicts(table, *(idle[name].to_numpy() for name in names))
    return idle.with_columns(contradicts=pl.Series(found, dtype=pl.Boolean))


_NO_ROWS = pl.DataFrame(
    schema={
        "cpu": pl.UInt16,
        "first_seq": pl.UInt64,
        "length_ns": pl.Int64,
        "flags": pl.UInt8,
        "judged": pl.Boolean,
        "cost_pj": pl.Float64,
        "oracle_pj": pl.Float64,
    }
)
_NO_VERDICTS = pl.DataFrame(
    schema={
        "cpu": pl.UInt16,
        "seq": pl.UInt64,
        "ideal": pl.UInt8,
        "above": pl.Boolean,
        "below": pl.Boolean,
    }
)


def judged(
    trace: Trace, periods: pl.DataFrame, table: StateTable
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Charge intervals as replay does, and compare them with the oracle.

    Args:
        trace: where the intervals are.
        periods: of with_intervals(), of CPUs with that state table.
        table: their idle states.

    Returns:
        The intervals whose first decision is among the periods: `cpu`, `first_seq`, `length_ns`,
        `flags`, `judged` (neither cut off nor overslept), `cost_pj`, `oracle_pj`; and the periods
        in those judged: `cpu`, `seq`, `ideal` (best state for what was left), `above`, `below`.
    """
    rows, verdicts = [], []
    mine = trace.tables["interval"].join(
        periods.select("cpu", "base_index", first_seq="seq"),
        on=["cpu", "first_seq"],
        maintain_order="left",
    )
    for (cpu,), part in mine.group_by("cpu", maintain_order=True):
        stays = trace.tables["period"].filter(pl.col("cpu") == cpu, pl.col("interval") != 0)
        stays = stays.join(part, left_on="interval", right_on="first_seq", how="semi")
        with recorded.Judge(table) as judge:
            each, verdict = judge.judge(
                columns.intervals_in_memory(_without_hints(part)),
                columns.in_memory(stays),
            )
        rows.append(
            part.select("cpu", "first_seq", "length_ns", "flags").with_columns(
                judged=(pl.col("flags") & (columns.CUT | columns.OVERSLEPT) == 0)
                & (pl.col("length_ns") > 0),
                **{name: pl.Series(each[name]) for name in ("cost_pj", "oracle_pj")},
            )
        )
        verdicts.append(
            stays.select("cpu", "seq", first_seq="interval")
            .with_columns(
                ideal=pl.Series(verdict["ideal"]),
                above=pl.Series(verdict["above"]) != 0,
                below=pl.Series(verdict["below"]) != 0,
            )
            .join(rows[-1].filter("judged"), on=["cpu", "first_seq"], how="semi")
            .drop("first_seq")
        )
    return pl.concat([_NO_ROWS, *rows]), pl.concat([_NO_VERDICTS, *verdicts])


def _without_hints(intervals: pl.DataFrame) -> pl.DataFrame:
    """Free the oracle of hints: a base of ours was told them with PM QoS, which asked for no less.

    A base of the kernel's was not told.
    """
    hinted = (pl.col("hint_ns") >= 0) & (pl.col("latency_req_ns") == pl.col("hint_ns"))
    free = hinted & (pl.col("base_index") == tr.BASE_NONE)
    limit = pl.when(free).then(tr.TIME_MAX).otherwise(pl.col("latency_req_ns"))
    return intervals.with_columns(latency_req_ns=limit)
