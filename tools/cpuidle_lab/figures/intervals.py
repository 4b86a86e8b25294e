# SPDX-License-Identifier: GPL-2.0
"""From the reader's idle periods and exogenous intervals to what they cost in a report.

A period is a decision with its outcome. What the terms mean is said in metrics.yaml. Times are in
ns, powers in mW and energies in pJ (1 mW * 1 ns).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from cpuidle_lab.figures.withheld import contradicts
from cpuidle_lab.recording import columns
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.trace import Trace
from cpuidle_lab.replay import recorded
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable

Array = npt.NDArray[Any]

# Column with the number of the group that a row belongs to.
GROUP = "group"


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


def with_intervals(periods: pl.DataFrame) -> pl.DataFrame:
    """Add what ended each period, as far as it is known or follows.

    Args:
        periods: of Trace.periods().

    Returns:
        `periods` with `entered`, `residency` (ns, null unless entered), `tick`, `tick_unknown` and
        `overslept`; `interval` is the number of the first decision of its interval, 0: none.
    """
    entered = pl.col("out_kind") == tr.ENTERED
    return periods.with_columns(
        entered=entered.fill_null(False),
        residency=pl.when(entered).then(pl.col("out_residency_ns").cast(pl.Float64)),
        tick=(entered & (pl.col("by_tick") != 0)).fill_null(False),
        tick_unknown=(entered & (pl.col("out_tick") == tr.TICK_UNKNOWN)).fill_null(False),
        overslept=pl.col("overslept") != 0,
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


def judged(
    trace: Trace, periods: pl.DataFrame, table: StateTable
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Charge intervals as replay does, and compare them with the oracle.

    Args:
        trace: where the intervals are.
        periods: of with_intervals(), of CPUs with that state table; with `group`, if they have
            that.
        table: their idle states.

    Returns:
        The intervals whose first decision is among the periods: `cpu`, `first_seq`, `group`,
        `length_ns`, `flags`, `judged` (neither cut off nor overslept), `cost_pj`, `oracle_pj`; and
        the periods with `ideal` (best state for what was left), `above` and `below`, null unless
        the period and its interval are of one group, and the interval is judged.
    """
    if GROUP not in periods.columns:
        periods = periods.with_columns(pl.lit(0).alias(GROUP))
    rows, told = [], []
    begun = trace.tables["period"].filter(pl.col("interval") != 0)
    intervals, stays = (_by_cpu(frame) for frame in (trace.tables["interval"], begun))
    for (cpu,), mine in periods.group_by("cpu", maintain_order=True):
        row, one = _judged_cpu(intervals(cpu), stays(cpu), mine, table)
        rows.append(row)
        told.append(one)
    return pl.concat(rows), pl.concat(told)


def _found(sorted_numbers: Array, wanted: Array) -> tuple[Array, Array]:
    """Return where numbers are among sorted ones, and whether they are there."""
    place = np.searchsorted(sorted_numbers, wanted)
    place = np.minimum(place, max(0, len(sorted_numbers) - 1))
    is_there = (
        sorted_numbers[place] == wanted if len(sorted_numbers) else np.zeros(len(wanted), "?")
    )
    return place, is_there


def _by_cpu(frame: pl.DataFrame) -> Callable[[object], pl.DataFrame]:
    """Return a function that returns the rows of a CPU, perhaps none."""
    parts = frame.partition_by("cpu", maintain_order=True, as_dict=True)
    none = frame.clear()
    return lambda cpu: parts.get((cpu,), none)


def _judged_cpu(
    intervals: pl.DataFrame, stays: pl.DataFrame, periods: pl.DataFrame, table: StateTable
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Do the work of judged() for one CPU."""
    seq, group = periods["seq"].to_numpy(), periods[GROUP].to_numpy()
    first, is_mine = _found(seq, intervals["first_seq"].to_numpy())
    first = first[is_mine]
    intervals = intervals.filter(pl.Series(is_mine)).with_columns(
        pl.Series("base_index", periods["base_index"].to_numpy()[first]),
        pl.Series(GROUP, group[first]),
    )
    numbers = intervals["first_seq"].to_numpy()
    of, has = _found(numbers, stays["interval"].to_numpy())
    stays, of = stays.filter(pl.Series(has)), of[has]
    with recorded.Judge(table) as judge:
        each, verdict = judge.judge(
            columns.intervals_in_memory(_without_hints(intervals)), columns.in_memory(stays)
        )
    intervals = intervals.select("cpu", "first_seq", GROUP, "length_ns", "flags").with_columns(
        judged=(pl.col("flags") & (columns.CUT | columns.OVERSLEPT) == 0)
        & (pl.col("length_ns") > 0),
        **{name: pl.Series(each[name]) for name in ("cost_pj", "oracle_pj")},
    )
    place, has = _found(seq, stays["seq"].to_numpy())
    has &= intervals["judged"].to_numpy()[of] & (group[place] == intervals[GROUP].to_numpy()[of])
    return intervals, periods.with_columns(
        _at(place[has], verdict[name][has], len(seq), name) for name in _VERDICTS
    )


# Verdicts on a period.
_VERDICTS: dict[str, pl.DataType] = {
    "ideal": pl.UInt8(), "above": pl.Boolean(), "below": pl.Boolean(),
}  # fmt: skip


def _at(places: Array, values: Array, count: int, name: str) -> pl.Series:
    """Return a column of verdicts; null but at some places."""
    full, known = np.zeros(count, values.dtype), np.zeros(count, np.bool_)
    full[places], known[places] = values, True
    column = pl.DataFrame({name: full, "known": known})
    value = pl.col(name).cast(_VERDICTS[name])
    return column.select(pl.when("known").then(value)).to_series()


def _without_hints(intervals: pl.DataFrame) -> pl.DataFrame:
    """Free the oracle of hints: a base of ours was told them with PM QoS, which asked for no less.

    A base of the kernel's was not told.
    """
    hinted = (pl.col("hint_ns") >= 0) & (pl.col("latency_req_ns") == pl.col("hint_ns"))
    free = hinted & (pl.col("base_index") == tr.BASE_NONE)
    limit = pl.when(free).then(tr.TIME_MAX).otherwise(pl.col("latency_req_ns"))
    return intervals.with_columns(latency_req_ns=limit)
