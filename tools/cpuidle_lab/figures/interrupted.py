# SPDX-License-Identifier: GPL-2.0
"""Figures of a recording of cpu_idle, irq and ipi events: docs/stock.md.

Interrupts tell what woke the CPUs, and so which idle periods make up an interval.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from cpuidle_lab.figures import withheld
from cpuidle_lab.figures.decisions import Decided, add_judged, settle_judged
from cpuidle_lab.figures.group import INTERRUPTS, Group, group_of, shares_of_trace
from cpuidle_lab.figures.intervals import table_of
from cpuidle_lab.recording import cause_events, causes
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.causes import Periods
from cpuidle_lab.recording.columns import UNKNOWN, caused
from cpuidle_lab.recording.trace import Trace
from cpuidle_lab.states.table import StateTable

Span = tuple[int, int]


@dataclass
class Interrupted(Decided):
    """Sums over the idle periods of a group, and what ended them."""

    ended: caused.Counts = field(default_factory=caused.Counts)


def add_caused(
    trace: Trace, rows: caused.Rows, stays: pl.DataFrame, sums: Mapping[int, Interrupted]
) -> None:
    """Add idle periods of a CPU to their groups.

    Args:
        trace: facts of the recording.
        rows: of the CPU.
        stays: those rows of the table `period` that are in a group, with `group`.
        sums: by number of the group.
    """
    # The sleep length does not matter to what was decided.
    known = pl.col("flags") & (0xFF ^ UNKNOWN)
    tables = {"interval": rows.interval.with_columns(flags=known), "period": rows.period}
    add_judged(
        replace(trace, tables=trace.tables | tables),
        stays.with_columns(
            entered=pl.lit(True),
            residency=pl.col("residency_ns").cast(pl.Float64),
            tick=pl.col("by_tick") != 0,
            tick_unknown=pl.col("tick") == tr.TICK_UNKNOWN,
            overslept=pl.col("overslept") != 0,
        ),
        rows.table,
        sums,
    )


def of_interrupts(trace: Trace, workload: str, label: str, sums: Interrupted) -> Group:
    """Return the figures of a group.

    Args:
        trace: facts of the recording.
        workload: its name.
        label: of the governor.
        sums: over its idle periods.
    """
    group = group_of(trace.path, label, workload, INTERRUPTS, sums)
    group.notes = [
        "interrupts tell what ended its idle periods, and so its intervals; reasons are unknown"
    ]
    group.shares = withheld.shares_by(sums.counts) | shares_of_trace(trace)
    settle_judged(group, sums, {})
    _add_ends(group, sums.ended)
    return group


def _add_ends(group: Group, ended: caused.Counts) -> None:
    named = sorted(ended.causes.items(), key=lambda item: (-item[1], item[0]))
    group.wakers = {name: times for name, times in named if times}
    group.notes += caused.kick_notes(ended)


class Ends:
    """Counts of what ended the idle periods of some times, CPU by CPU."""

    def __init__(self, facts: cause_events.Facts, spans: Sequence[Span]) -> None:
        self._facts, self._spans = facts, spans
        self._counts = [caused.Counts() for _ in spans]
        self._kicks = [caused.Kicks(facts.tasks) for _ in spans]

    def add(self, cpu: int, stays: Periods, table: StateTable | None) -> None:
        """Add the idle periods of a CPU."""
        for span, count, kicks in zip(self._spans, self._counts, self._kicks, strict=True):
            caused.count_causes(count, caused.during(stays, *span), table)
            kicks.add(self._facts.kicks.get(cpu), *span)

    def counts(self) -> Iterator[caused.Counts]:
        """Yield the counts of each time."""
        for count, kicks in zip(self._counts, self._kicks, strict=True):
            count.kickers = kicks.most()
            yield count


def add_causes(path: Path, facts: Trace, groups: Sequence[Group]) -> None:
    """Add what woke the CPUs to groups of which only power:cpu_idle tells, and a note on kicks.

    Args:
        path: the recording.
        facts: of it.
        groups: of it; nothing is added where it has no interrupts.

    Raises:
        UserError: as read_chunks().
    """
    told = cause_events.facts_of(path)
    if told is None:
        return
    ends = Ends(told, [(group.start_ns, group.end_ns) for group in groups])
    for cpu, events in cause_events.by_cpu(path):
        p, _, _ = causes.of_cpu(cpu, events, told, hrtimers=False)
        ends.add(cpu, p, table_of(facts, cpu))
    for group, count in zip(groups, ends.counts(), strict=True):
        _add_ends(group, count)
