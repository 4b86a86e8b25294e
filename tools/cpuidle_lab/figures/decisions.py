# SPDX-License-Identifier: GPL-2.0
"""From the recorded decisions of a governor to its figures.

Times are in ns, powers in mW and energies in pJ (1 mW * 1 ns).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.figures import wakers, withheld
from cpuidle_lab.figures.group import (
    DECISIONS,
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
from cpuidle_lab.figures.intervals import (
    GROUP,
    by_table,
    judged,
    with_energy,
    with_intervals,
    with_limits,
)
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.columns import CUT, OVERSLEPT
from cpuidle_lab.recording.trace import Trace
from cpuidle_lab.states.table import StateTable

# Governors that decide by what they contain.
_WITH_BASE = {"gate", "bpf"}


def _with_label(trace: Trace, periods: pl.DataFrame) -> pl.DataFrame:
    """Add `governor_name`, and `label`, which names the gate's base, or the program of bpf."""
    names = {
        int(number): trace.name_of("decision", "governor", int(number))
        for number in periods["governor"].unique()
    }
    named = periods.with_columns(
        governor_name=pl.col("governor").replace_strict(names, return_dtype=pl.String)
    )
    if not _WITH_BASE.intersection(names.values()):
        return named.with_columns(label="governor_name")
    bases = trace.tables["config"].select("cpu", "seq", "base").sort("seq")
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


def labelled(trace: Trace) -> pl.DataFrame:
    """Return every decision with its outcome, as Trace.periods(), and its label."""
    return _with_label(trace, trace.periods())


def decisions_of(trace: Trace, last: dict[int, int] | None = None) -> pl.DataFrame:
    """Return every decision with outcome, label, wake-up and how many are `missing` before it.

    Args:
        trace: the trace, or a part of it.
        last: number of the last decision of each CPU in the parts before; updated.
    """
    if not trace.tables["period"].height:
        return pl.DataFrame()
    periods = with_intervals(labelled(trace))
    before = last if last is not None else {}
    known = pl.col("cpu").cast(pl.Int64).replace_strict(
        before, default=None, return_dtype=pl.Int64
    ) if before else pl.lit(None, pl.Int64)  # fmt: skip
    seq = pl.col("seq").cast(pl.Int64)
    step = seq - seq.shift(1).over("cpu").fill_null(known)
    before.update(periods.group_by("cpu").agg(seq.max()).iter_rows())
    return periods.with_columns(missing=(step - 1).clip(lower_bound=0).fill_null(0))


@dataclass
class Decided(Sums):
    """Sums over the decisions of a group.

    Attributes:
        labels: of its governor.
        reasons, wakers: as of Group, the reasons by their names.
        heat: idle periods by state chosen and ideal state.
        denied: states that were entered though the limits did not allow them.
    """

    labels: set[str] = field(default_factory=set)
    reasons: Counter[str] = field(default_factory=Counter)
    wakers: Counter[str] = field(default_factory=Counter)
    heat: Counter[tuple[int, int]] = field(default_factory=Counter)
    denied: set[int] = field(default_factory=set)


def add_decisions(trace: Trace, decisions: pl.DataFrame, sums: Mapping[int, Decided]) -> None:
    """Add decisions to their groups.

    Args:
        trace: a part of the recording.
        decisions: rows of decisions_of(), with `group`.
        sums: by number of the group.

    Raises:
        UserError: the idle states of a CPU are unknown.
    """
    for n, label in decisions.select(GROUP, "label").unique().iter_rows():
        sums[n].labels.add(label)
    for table, part in by_table(trace, decisions):
        if table is None:
            raise UserError(
                f"{trace.path}: the CPUs differ in their idle states, and no "
                f"cpuidle_lab:cil_config event tells those of CPU {part['cpu'][0]}"
            )
        add_judged(trace, part, table, sums)
    _add_counts(trace, decisions, sums)
    _add_weights(trace, decisions, sums)


def add_judged(
    trace: Trace, decisions: pl.DataFrame, table: StateTable, sums: Mapping[int, Decided]
) -> None:
    """Charge decisions of CPUs with a state table: their idle periods and intervals."""
    for n in decisions[GROUP].unique():
        sums[n].tables[table] = None
    intervals, known = judged(trace, decisions, table)
    _add_idle(with_limits(with_energy(known.filter("entered"), table), table), sums)
    _add_intervals(intervals, sums)


def _add(frame: pl.DataFrame, sums: Mapping[int, Decided], **counts: pl.Expr) -> None:
    """Add sums over the rows of each group, by name."""
    for n, *values in frame.group_by(GROUP).agg(**counts).iter_rows():
        sums[n].add(**{name: value or 0 for name, value in zip(counts, values, strict=True)})


def _add_idle(idle: pl.DataFrame, sums: Mapping[int, Decided]) -> None:
    add_periods(idle, "out_index", sums)
    known = idle.filter(pl.col("ideal").is_not_null())
    for n, chosen, ideal, count in known.group_by(GROUP, "index", "ideal").len().iter_rows():
        sums[n].heat[chosen, ideal] += count
    for n, index, count in known.group_by(GROUP, "out_index").len().iter_rows():
        sums[n].judged[index] += count
    for n, index in idle.filter("contradicts").select(GROUP, "out_index").unique().iter_rows():
        sums[n].denied.add(index)
    _add(
        idle, sums,
        overslept_ns=pl.col("residency").filter("overslept").sum(),
        contradicts=pl.col("contradicts").sum(),
        tick=pl.col("tick").sum(),
        tick_unknown=pl.col("tick_unknown").sum(),
        verdicts=pl.col("above").count(),
        above=pl.col("above").sum(),
        below=pl.col("below").sum(),
        begun=(pl.col("interval") == pl.col("seq")).sum(),
    )  # fmt: skip


def _add_intervals(intervals: pl.DataFrame, sums: Mapping[int, Decided]) -> None:
    flags = pl.col("flags")
    _add(
        intervals, sums,
        **withheld.PARTS,
        cost_pj=pl.col("cost_pj").sum(),
        oracle_pj=pl.col("oracle_pj").sum(),
        judged_ns=pl.col("length_ns").filter("judged").sum().cast(pl.Float64),
        cut=(flags & CUT != 0).sum(),
        overslept=(flags & OVERSLEPT != 0).sum(),
    )  # fmt: skip


def _add_counts(trace: Trace, decisions: pl.DataFrame, sums: Mapping[int, Decided]) -> None:
    for n, number, count in decisions.group_by(GROUP, "reason").len().iter_rows():
        sums[n].reasons[trace.name_of("decision", "reason", number)] += count
    for n, waker, count in wakers.counts(trace, decisions):
        sums[n].wakers[waker] += count
    for n, cpu in decisions.select(GROUP, "cpu").unique().iter_rows():
        sums[n].cpus.add(cpu)
    _add(
        decisions, sums,
        decisions=pl.len(),
        missing=pl.col("missing").sum(),
        endless=pl.col("out_kind").null_count(),
        rejected=(pl.col("flags") & tr.REJECTED != 0).sum(),
        aborted=(~pl.col("entered")).sum(),
        hinted=(pl.col("hint_ns") >= 0).sum(),
    )  # fmt: skip


def _add_weights(trace: Trace, decisions: pl.DataFrame, sums: Mapping[int, Decided]) -> None:
    """Add the rows of wteo that groups with pictures learned."""
    drawn = [n for n in decisions[GROUP].unique() if sums[n].pictures]
    if not drawn or not trace.tables["weights"].height:
        return
    keys = decisions.filter(pl.col(GROUP).is_in(drawn)).select("cpu", "seq", GROUP)
    events = trace.tables["weights"].join(keys, on=["cpu", "seq"], maintain_order="left")
    for (n,), mine in events.group_by(GROUP, maintain_order=True):
        if pictures := sums[int(str(n))].pictures:
            pictures.add_weights(mine)


def _notes(sums: Decided) -> list[str]:
    line = (
        "the kernel governor used as base hides what ended an idle period; tick wake-ups are "
        "inferred"
    )
    return [line] if sums.counts["tick_unknown"] else []


def _shares(trace: Trace, sums: Decided) -> dict[str, float]:
    """Return what the regret of decisions leaves out or guesses."""
    count = sums.counts
    gone, endless = count["missing"], max(0, count["endless"] - len(sums.cpus))
    return (
        withheld.shares_by(count)
        | shares_of_trace(trace)
        | {
            withheld.LATE: withheld.percent(count["overslept_ns"], count["idle_ns"]),
            withheld.LOST: withheld.percent(gone + endless, gone + count["decisions"]),
            withheld.REQUEST: withheld.percent(count["contradicts"], count["periods"]),
        }
    )


def of_decisions(trace: Trace, workload: str, label: str, sums: Decided) -> Group:
    """Return the figures of a group.

    Args:
        trace: facts of the recording.
        workload: its name.
        label: of the governor.
        sums: over its decisions.
    """
    group = group_of(trace.path, label, workload, DECISIONS, sums)
    count, decisions = sums.counts, int(sums.counts["decisions"])
    group.reasons = dict(sorted(sums.reasons.items(), key=lambda item: -item[1]))
    group.wakers = dict(sorted(sums.wakers.items(), key=lambda item: (-item[1], item[0])))
    group.notes = _notes(sums)
    group.shares = _shares(trace, sums)
    if sums.denied:
        group.notes.append(withheld.denied(group.names[k] for k in sorted(sums.denied)))
    seconds = (group.end_ns - group.start_ns) / 1e9
    group.values |= {
        "decisions": decisions,
        "decisions_per_s": decisions / seconds if seconds else None,
        "aborted": percent(count["aborted"], decisions),
        "rejected": percent(count["rejected"], decisions),
    }
    settle_judged(group, sums, {"reasons": ([*group.reasons.values()], decisions)})
    return group


def settle_judged(
    group: Group, sums: Decided, parts: Mapping[str, tuple[Sequence[float], float]]
) -> None:
    """Add what intervals that were judged come to, and what a reader must know of it.

    Args:
        group: of `sums`, with its shares.
        sums: over decisions and intervals.
        parts: as of invariants.Facts, beside those of all groups.
    """
    count, states = sums.counts, range(len(group.entries))
    group.chosen_ideal = [[sums.heat[chosen, ideal] for ideal in states] for chosen in states]
    group.notes += notes_on_powers(sums.tables)
    oracle, cost, length = count["oracle_pj"], count["cost_pj"], count["judged_ns"]
    group.values |= {
        "regret": 100 * (cost / oracle - 1) if oracle else None,
        "power_mw": cost / length if length else None,
        "oracle_mw": oracle / length if length else None,
        "intervals": int(count["intervals"]),
        "cut_intervals": int(count["cut"]),
        "overslept_intervals": int(count["overslept"]),
        "overslept": percent(count["overslept_ns"], sum(group.residency_ns)),
        "short": group.shares[withheld.SHORT],
        "tick_wakeups": percent(count["tick"], count["periods"]),
        "above": percent(count["above"], count["verdicts"]),
        "below": percent(count["below"], count["verdicts"]),
    }
    facts = facts_of(group, sums)
    facts.cost_pj, facts.oracle_pj, facts.length_ns = cost, oracle, length
    facts.counts["intervals"] = group.values["intervals"], count["begun"]
    facts.parts |= parts
    settle(group, facts)
