# SPDX-License-Identifier: GPL-2.0
"""From idle periods to exogenous intervals, what they cost, and what they should have cost.

A period is a decision with its outcome. What the terms mean is said in metrics.yaml. Times are in
ns, powers in mW and energies in pJ (1 mW * 1 ns).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from cpuidle_lab import trace as tr
from cpuidle_lab.trace import Machine

# A tick is inferred if the idle period lasted until it was due, less this: the way into the state.
TICK_TOLERANCE_NS = 20_000

# A state of unknown power that pays after so long is taken to draw half of what polling does.
_HALF_POWER_NS = 10_000


@dataclass(frozen=True)
class Costs:
    """The energy model of a machine.

    Attributes:
        power_mw: power in each state.
        entry_pj: price of entering and leaving each state.
        derived: the powers are derived from the target residencies: illustrative.
    """

    power_mw: tuple[float, ...]
    entry_pj: tuple[float, ...]
    derived: bool


def model_of(machine: Machine) -> Costs:
    """Return the energy model of a machine, as governors/common/energy.c has it.

    Each state breaks even with the next shallower one at its target residency. Unless every state
    has a power, powers fall with the square root of the target residency. From state to state they
    fall by a sixteenth at least, whatever is said.
    """
    derived = not all(machine.power_mw)
    powers: list[float] = []
    for target, power in zip(machine.target_residency_ns, machine.power_mw, strict=True):
        value = 1000.0 / (1 + math.sqrt(target / _HALF_POWER_NS)) if derived else float(power)
        if powers:
            value = min(value, powers[-1] * 15 / 16)
        powers.append(value)
    entry = [0.0]
    for k in range(1, machine.count):
        saved = (powers[k - 1] - powers[k]) * machine.target_residency_ns[k]
        entry.append(entry[-1] + saved)
    return Costs(tuple(powers), tuple(entry), derived)


def with_wakeups(periods: pl.DataFrame) -> pl.DataFrame:
    """Add what ended each period, as far as it is known or follows."""
    entered = pl.col("out_kind") == tr.ENTERED
    unknown = entered & (pl.col("out_tick") == tr.TICK_UNKNOWN)
    kept = (pl.col("stop_tick") == 0) & (pl.col("flags") & tr.TICK_STOPPED == 0)
    residency = pl.col("out_residency_ns").cast(pl.Float64)
    due = residency >= pl.col("delta_tick_ns") - TICK_TOLERANCE_NS
    # A tick that came with or after a timer of somebody else's did not end the period.
    first = pl.col("delta_tick_ns") < pl.col("sleep_length_ns")
    told = pl.col("out_tick") == tr.TICK_YES
    tick = entered & first & (told | (unknown & kept & due))
    return periods.with_columns(
        entered=entered.fill_null(False),
        residency=pl.when(entered).then(residency),
        tick=tick.fill_null(False),
        tick_unknown=unknown.fill_null(False),
        again=(tick | (entered & (pl.col("out_poll_time_limit") != 0))).fill_null(False),
    )


def _timer_due() -> pl.Expr:
    sleep = pl.max_horizontal(pl.col("sleep_length_ns"), 0).cast(pl.Float64)
    return pl.col("now_ns").cast(pl.Float64) + sleep


def with_intervals(periods: pl.DataFrame) -> pl.DataFrame:
    """Merge periods into exogenous intervals; see Regret in metrics.yaml.

    Adds `interval` (its number), `interval_ns`, `left_ns` (what was left of it when the period
    began), and `first` and `cut` (its end is missing).
    """
    same = (
        (pl.col("cpu") == pl.col("cpu").shift(1))
        & (pl.col("seq") == pl.col("seq").shift(1) + 1)
        & pl.col("entered").shift(1)
        & pl.col("again").shift(1)
        # A timer that came due before the CPU was idle again ended the interval.
        & (_timer_due().shift(1) > pl.col("now_ns").cast(pl.Float64))
    )
    idle = (
        periods.with_columns(continues=same.fill_null(False))
        .filter("entered")
        .with_columns(interval=(~pl.col("continues")).cum_sum())
    )
    before = pl.col("residency").cum_sum().over("interval") - pl.col("residency")
    total = pl.col("residency").sum().over("interval")
    followed = (
        (pl.col("cpu") == pl.col("cpu").shift(-1)) & (pl.col("seq") + 1 == pl.col("seq").shift(-1))
    ).fill_null(False)
    idle = idle.with_columns(
        interval_ns=total,
        left_ns=total - before,
        first=~pl.col("continues"),
        last=(pl.col("interval") != pl.col("interval").shift(-1)).fill_null(True),
    )
    # The neighbour must be sought among all decisions: an aborted one may follow.
    follows = periods.select("cpu", "seq", followed=followed)
    idle = idle.join(follows, on=["cpu", "seq"], how="left", maintain_order="left")
    return idle.with_columns(cut=pl.col("last") & pl.col("again") & ~pl.col("followed")).drop(
        "continues", "followed"
    )


def lookup(column: str, values: Sequence[float]) -> pl.Expr:
    """Return the value of the state whose number is in a column; null where there is none such."""
    table = {k: float(value) for k, value in enumerate(values)}
    return pl.col(column).replace_strict(table, default=None, return_dtype=pl.Float64)


def _candidates(machine: Machine, model: Costs, duration: str) -> list[pl.Expr]:
    """Cost of each state for `duration` at the interval's limits, infinite where not allowed."""
    allowed = [
        (pl.col("off") & (1 << k) == 0)
        & ((pl.col("limit") >= machine.exit_latency_ns[k]) | (k == 0))
        for k in range(machine.count)
    ]
    nothing_else = pl.lit(True)
    for expression in allowed[1:]:
        nothing_else = nothing_else & ~expression
    allowed[0] = allowed[0] | nothing_else
    return [
        pl.when(allowed[k])
        .then(model.entry_pj[k] + model.power_mw[k] * pl.col(duration))
        .otherwise(math.inf)
        for k in range(machine.count)
    ]


def _cheapest(candidates: list[pl.Expr]) -> pl.Expr:
    """Index of the cheapest candidate, the shallowest of equals."""
    least = pl.min_horizontal(candidates)
    index = pl.lit(len(candidates) - 1)
    for k in reversed(range(len(candidates) - 1)):
        index = pl.when(candidates[k] <= least).then(pl.lit(k)).otherwise(index)
    return index.cast(pl.UInt8)


def with_costs(idle: pl.DataFrame, machine: Machine) -> pl.DataFrame:
    """Add `cost`, `oracle` (once for each interval, else 0) and `ideal`, the state to be in now."""
    model = model_of(machine)
    # What a base of ours was told includes the hint; PM QoS then asked for no less than that.
    hinted = (pl.col("hint_ns") >= 0) & (pl.col("latency_req_ns") == pl.col("hint_ns"))
    unknown = hinted & (pl.col("base_index") == tr.BASE_NONE)
    limit = pl.when(unknown).then(tr.TIME_MAX).otherwise(pl.col("latency_req_ns"))
    idle = idle.with_columns(
        off=pl.col("disabled").first().over("interval"),
        limit=limit.first().over("interval"),
        cost=lookup("out_index", model.entry_pj)
        + lookup("out_index", model.power_mw) * pl.col("residency"),
    )
    whole = pl.min_horizontal(_candidates(machine, model, "interval_ns"))
    return idle.with_columns(
        oracle=pl.when("first").then(whole).otherwise(0.0),
        ideal=_cheapest(_candidates(machine, model, "left_ns")),
        exit_latency=lookup("out_index", machine.exit_latency_ns),
    ).drop("off", "limit")


def with_misses(idle: pl.DataFrame, machine: Machine) -> pl.DataFrame:
    """Add `above` and `below`, by the kernel's rule."""
    above = below = pl.lit(False)
    for k in range(machine.count):
        here = pl.col("out_index") == k
        short = pl.col("residency") < machine.target_residency_ns[k]
        shallower = pl.col("disabled").cast(pl.Int64).or_(-1 << k) != -1
        above = above | (here & short & shallower)
        deeper = pl.coalesce(
            *(
                pl.when(pl.col("disabled") & (1 << j) == 0).then(machine.target_residency_ns[j])
                for j in range(k + 1, machine.count)
            ),
            None,
        )
        less = pl.col("residency") - machine.exit_latency_ns[k]
        below = below | (here & ~short & (less > 0) & (less >= deeper).fill_null(False))
    return idle.with_columns(above=above, below=below)
