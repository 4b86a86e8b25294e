# SPDX-License-Identifier: GPL-2.0
"""From a trace to figures, for each governor and workload."""

import re
from collections.abc import Iterable, Iterator

import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.figures.cpu_idle import idle_periods, of_cpu_idle
from cpuidle_lab.figures.decisions import decisions_of, of_decisions
from cpuidle_lab.figures.group import Group
from cpuidle_lab.host import energy
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.phases import Phase, phases_of
from cpuidle_lab.recording.trace import Trace


def _last_ts(trace: Trace) -> int:
    last = [int(str(frame["ts"].max())) for frame in trace.tables.values() if frame.height]
    return max(last, default=0)


def phases(trace: Trace) -> list[Phase]:
    """Return the phases that markers in the trace delimit; none without markers."""
    return phases_of(trace.tables["marker"], _last_ts(trace) + 1)


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
            yield of_cpu_idle(trace, phase, phase.governor, part)
        return
    label = phase.governor
    if plain in ("gate", "bpf"):
        label = " and ".join(sorted(mine["label"].unique()))
        if (mine["hint_ns"] >= 0).any():
            label += " + hints"
    yield of_decisions(trace, phase, label, mine)


def _unmarked(trace: Trace, decided: pl.DataFrame, idle: pl.DataFrame) -> Iterator[Group]:
    if not decided.height:
        span = Phase(None, "", int(str(idle["ts"].min())), _last_ts(trace))
        yield of_cpu_idle(trace, span, "governor unknown", idle)
        return
    for label in decided.sort("ts")["label"].unique(maintain_order=True):
        mine = decided.filter(pl.col("label") == label)
        ends = int(str(mine["out_ts"].max() or 0))
        span = Phase(None, "", int(str(mine["ts"].min())), max(ends, int(str(mine["ts"].max()))))
        yield of_decisions(trace, span, label, mine)


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
