# SPDX-License-Identifier: GPL-2.0
"""From the recorded decisions of a governor to its figures.

Times are in ns, powers in mW and energies in pJ (1 mW * 1 ns).
"""

import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.figures import wakers, withheld
from cpuidle_lab.figures.group import (
    DECISIONS,
    Group,
    common_values,
    count_states,
    facts_of,
    notes_on_powers,
    percent,
    settle,
    shares_of_trace,
)
from cpuidle_lab.figures.intervals import (
    by_table,
    judged,
    with_energy,
    with_intervals,
    with_limits,
)
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.columns import CUT, OVERSLEPT
from cpuidle_lab.recording.phases import Phase
from cpuidle_lab.recording.trace import Trace


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


def decisions_of(trace: Trace) -> pl.DataFrame:
    """Return every decision with outcome, label, wake-up and how many are `missing` before it."""
    if not trace.tables["decision"].height:
        return pl.DataFrame()
    periods = with_intervals(trace, _with_label(trace, trace.periods()))
    step = pl.col("seq").cast(pl.Int64).diff().over("cpu")
    return periods.with_columns(missing=(step - 1).clip(lower_bound=0).fill_null(0))


def _add_heat(group: Group, idle: pl.DataFrame) -> None:
    count = len(group.entries)
    group.chosen_ideal = [[0] * count for _ in range(count)]
    known = idle.filter(pl.col("ideal").is_not_null())
    for chosen, ideal, n in known.group_by("index", "ideal").agg(n=pl.len()).rows():
        group.chosen_ideal[chosen][ideal] = n


def _add_reasons(trace: Trace, group: Group, decisions: pl.DataFrame) -> None:
    counts = decisions.group_by("reason").agg(n=pl.len()).sort("n", descending=True)
    group.reasons = {trace.name_of("decision", "reason", number): n for number, n in counts.rows()}


def _notes(idle: pl.DataFrame) -> list[str]:
    line = (
        "the kernel governor used as base hides what ended an idle period; tick wake-ups are "
        "inferred"
    )
    return [line] if idle["tick_unknown"].any() else []


def _shares(
    trace: Trace, intervals: pl.DataFrame, decisions: pl.DataFrame, idle: pl.DataFrame
) -> dict[str, float]:
    """Return what the regret of decisions leaves out or guesses."""
    gone = int(decisions["missing"].sum())
    endless = int(decisions["out_kind"].null_count()) - decisions["cpu"].n_unique()
    late = float(idle.filter("overslept")["residency"].sum())
    return (
        withheld.shares_of([intervals])
        | shares_of_trace(trace)
        | {
            withheld.LATE: withheld.percent(late, float(idle["residency"].sum())),
            withheld.LOST: withheld.percent(gone + max(0, endless), gone + decisions.height),
            withheld.REQUEST: withheld.percent(int(idle["contradicts"].sum()), idle.height),
        }
    )


def of_decisions(trace: Trace, phase: Phase, label: str, decisions: pl.DataFrame) -> Group:
    """Return the figures of a phase.

    Args:
        trace: the recording.
        phase: the part of it.
        label: of the governor.
        decisions: rows of decisions_of() in the phase.

    Raises:
        UserError: the idle states of a CPU are unknown.
    """
    parts = list(by_table(trace, decisions))
    pieces, rows = [], []
    for table, part in parts:
        if table is None:
            raise UserError(
                f"{trace.path}: the CPUs differ in their idle states, and no "
                f"cpuidle_lab:cil_config event tells those of CPU {part['cpu'][0]}"
            )
        intervals, verdicts = judged(trace, part, table)
        rows.append(intervals)
        entered = with_limits(with_energy(part.filter("entered"), table), table)
        pieces.append(entered.join(verdicts, on=["cpu", "seq"], how="left", maintain_order="left"))
    idle, intervals = pl.concat(pieces), pl.concat(rows)
    kinds = [table for table, _ in parts]
    group = Group.of(trace, phase, label, DECISIONS, kinds, decisions)
    count_states(group, idle, "out_index")
    _add_heat(group, idle)
    _add_reasons(trace, group, decisions)
    group.wakers = wakers.counts(trace, decisions)
    group.notes = _notes(idle) + notes_on_powers(kinds)
    late = float(idle.filter("overslept")["residency"].sum())
    overslept = percent(late, sum(group.residency_ns))
    group.shares = _shares(trace, intervals, decisions, idle)
    if denied := sorted(idle.filter("contradicts")["out_index"].unique()):
        group.notes.append(withheld.denied(group.names[k] for k in denied))

    oracle, cost = (float(intervals[name].sum()) for name in ("oracle_pj", "cost_pj"))
    length = float(intervals.filter("judged")["length_ns"].sum())
    seconds = (phase.end_ns - phase.start_ns) / 1e9
    rejected = int((decisions["flags"] & tr.REJECTED != 0).sum())
    aborted = int((~decisions["entered"]).sum())
    group.values = common_values(group, idle) | {
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
        "tick_wakeups": percent(int(idle["tick"].sum()), idle.height),
        "aborted": percent(aborted, decisions.height),
        "rejected": percent(rejected, decisions.height),
        "above": percent(int(idle["above"].sum()), int(idle["above"].count())),
        "below": percent(int(idle["below"].sum()), int(idle["below"].count())),
    }
    begun = idle.filter(pl.col("interval") == pl.col("seq")).height
    facts = facts_of(group, parts, idle.filter(pl.col("ideal").is_not_null())["out_index"])
    facts.cost_pj, facts.oracle_pj, facts.length_ns = cost, oracle, length
    facts.parts["reasons"] = [*group.reasons.values()], decisions.height
    facts.counts["intervals"] = group.values["intervals"], begun
    settle(group, facts)
    return group
