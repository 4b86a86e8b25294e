# SPDX-License-Identifier: GPL-2.0
"""Rows of a Parquet directory from causes of wake-ups: intervals, periods and sleep lengths.

An interval ends with an idle period that no bare tick ended. Its sleep length is known, bounded or
unknown; the table `sleep` has one row for each interval.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from cpuidle_lab.base.abi import constant
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.sysfs import cpu_list
from cpuidle_lab.recording import cause_events, causes, sleeps
from cpuidle_lab.recording.cause_events import DEVICE, IPI, NONE, TIMER, Facts
from cpuidle_lab.recording.causes import BOUNDED, KNOWN, Periods
from cpuidle_lab.recording.columns.layout import (
    CONTINUED,
    GAP,
    INTERVAL,
    NO_STATE,
    PERIOD,
    TICKED,
    TIMER_TICK,
    UNCERTAIN,
    UNKNOWN,
)
from cpuidle_lab.recording.columns.layout import TIMER as BY_TIMER
from cpuidle_lab.recording.stock import Context
from cpuidle_lab.recording.ticks import Grid
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable

Array = npt.NDArray[Any]

_NEVER = 2**63 - 1
_INFERRED, _UNTOLD = constant("CIL_DECISION_INFERRED"), constant("CIL_DECISION_UNTOLD")
_NO_ROW = constant("CIL_ROW_NONE")
_TICK_UNKNOWN = constant("CIL_TICK_UNKNOWN")


@dataclass
class Counts:
    """Counts of causes and of sleep lengths.

    Attributes:
        periods: idle periods.
        causes: by name, how many each ended.
        known, bounded, unknown: intervals by what is known of their sleep length.
        kicks: idle periods that a kick ended.
        kickers: how often each task kicked all CPUs, by its name.
        kick_latency_ns: exit latencies that kicks made the CPUs pay.
        kick_pj: modelled energy of the entries after kicks.
        cost_pj: modelled energy of all idle periods.
        own: CPUs whose hrtimers told sleep lengths.
        other_clock: CPUs whose hrtimers have another clock.
        loop_ns: from an exit to the next entry, if nothing runs: the most of all CPUs.
    """

    periods: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    known: int = 0
    bounded: int = 0
    unknown: int = 0
    kicks: int = 0
    kickers: dict[str, int] = field(default_factory=dict)
    kick_latency_ns: int = 0
    kick_pj: float = 0.0
    cost_pj: float = 0.0
    own: int = 0
    other_clock: int = 0
    loop_ns: int = 0


def check_states(path: Path, cpu: int, p: Periods, table: StateTable) -> None:
    """Refuse idle states that the machine does not have.

    Raises:
        UserError: there is one.
    """
    most = int(p.state.max(initial=0))
    if most >= table.count:
        raise UserError(
            f"{path}: a power:cpu_idle event of CPU {cpu} names idle state {most}, which the "
            "machine does not have"
        )


Changes = Sequence[tuple[int, int]]


def _governors(at: Array, changes: Changes) -> Array:
    """Return the number of the governor that decided, by time."""
    if not changes:
        return np.zeros(len(at), np.uint8)
    since = np.array([ts for ts, _ in changes], np.int64)
    numbers = np.array([number for _, number in changes], np.uint8)
    return np.asarray(numbers[np.maximum(np.searchsorted(since, at, "right") - 1, 0)])


def frames(
    cpu: int, p: Periods, grid: Grid, table: StateTable, changes: Changes = ()
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the rows of `interval`, `period` and `sleep` of a CPU.

    Args:
        cpu: its number.
        p: its idle periods.
        grid: of its tick.
        table: its idle states.
        changes: when which governor began to decide, by its number.
    """
    joins = p.bare & p.quiet
    joins[-1:] = False
    first = np.flatnonzero(~np.append(False, joins[:-1])) if len(joins) else np.zeros(0, np.int64)
    last = np.append(first[1:] - 1, len(joins) - 1) if len(first) else first
    interval, sleep = _intervals(cpu, p, grid, table, first, last)
    period = _periods(cpu, p, grid, first, last)
    return (
        interval.with_columns(governor=pl.Series(_governors(p.start[first], changes))),
        period.with_columns(governor=pl.Series(_governors(p.start, changes))),
        sleep,
    )


def _woken(p: Periods, last: Array, table: StateTable) -> tuple[Array, Array]:
    """Return when the CPU was woken, and where that is uncertain.

    A timer was due then. Else the exit latency passed between; of a shorter period half did. The
    driver's table has the worst case: where the tick tells how late wake-ups are, that counts. A
    length is uncertain if another idle state would be best for the whole period.
    """
    exit_of = [min(p.late_ns.get(k, ns), ns) for k, ns in enumerate(table.exit_latency_ns)]
    exit_ns = np.asarray(exit_of, np.int64)[p.state[last]]
    stay = p.end[last] - p.start[last]
    is_timer = p.cause[last] == TIMER
    short = ~is_timer & (stay <= exit_ns) & (exit_ns > 0)
    woken = np.where(short, p.end[last] - (stay - stay // 2), p.end[last] - exit_ns)
    targets = np.asarray(table.target_residency_ns, np.int64)
    open_best = np.searchsorted(targets, stay, "right") > 1
    return np.where(is_timer, p.due[last], woken), short & open_best


def _intervals(
    cpu: int, p: Periods, grid: Grid, table: StateTable, first: Array, last: Array
) -> tuple[pl.DataFrame, pl.DataFrame]:
    start = p.start[first]
    woken, short = _woken(p, last, table)
    length = np.maximum(woken - start, 1)
    held = p.held[last] & p.first_tick[last] & (first == last) & grid.known
    known = p.known[first]
    least = np.maximum(p.sleep[first], np.where(known == KNOWN, 1, length))
    left = np.append(True, ~(p.quiet & ~p.kick)[last][:-1]) if len(first) else first > 0
    timer = np.where(known == KNOWN, least, -1)
    if grid.known:
        timer = np.where(held, TIMER_TICK - (grid.next(start) - start), timer)
    flags = (
        BY_TIMER * ((p.cause[last] == TIMER) & ~p.bare[last] & ~p.cancelled[last])
        | TICKED * p.on_grid[last]
        | CONTINUED * ~left
        | UNCERTAIN * short
        | GAP * p.hole[first]
        | UNKNOWN * (known != KNOWN)
    )
    count = len(first)
    gap = np.append(start[1:], start[-1:]) if count else start
    interval = {
        "cpu": np.full(count, cpu), "first_seq": first + 1, "periods": last - first + 1,
        "start_ns": start, "length_ns": length, "timer_ns": timer,
        "tick_phase_ns": grid.phase(start) if grid.known else np.full(count, -1),
        "busy_ns": np.maximum(gap - p.end[last], 0), "latency_req_ns": np.full(count, _NEVER),
        "hint_ns": np.full(count, -1), "disabled": np.zeros(count, np.uint32),
        "flags": flags.astype(np.uint8), "index": p.state[first], "last_index": p.state[last],
        "governor": np.zeros(count, np.uint8),
    }  # fmt: skip
    sleep = {
        "cpu": np.full(count, cpu), "start_ns": start, "known": known, "least_ns": least,
        "drawn_ns": sleeps.drawn(least, known == KNOWN, cpu), "cause": p.cause[last],
        "reason": p.reason[last], "kick": p.kick[last],
    }  # fmt: skip
    kinds = {name: INTERVAL[name] for name in interval}
    return pl.DataFrame(interval, schema_overrides=kinds), pl.DataFrame(sleep)


def _periods(cpu: int, p: Periods, grid: Grid, first: Array, last: Array) -> pl.DataFrame:
    count = len(p.start)
    of = np.repeat(first + 1, last - first + 1)
    joined = np.ones(count, bool)
    joined[last] = False
    to_tick = grid.next(p.start) - p.start if grid.known else np.full(count, -1)
    told = p.known == KNOWN
    zeros, none = np.zeros(count, np.uint8), np.full(count, NO_STATE)
    rows = {
        "cpu": np.full(count, cpu), "seq": np.arange(1, count + 1), "ts": p.start,
        "now_ns": p.start, "latency_req_ns": np.full(count, _NEVER),
        "hint_ns": np.full(count, -1), "sleep_length_ns": np.where(told, p.sleep, -1),
        "delta_tick_ns": np.where(told, np.minimum(p.sleep, np.where(to_tick < 0, p.sleep,
                                                                     to_tick)), -1),
        "generation": zeros, "disabled": zeros, "governor": zeros,
        "flags": np.where(told, _INFERRED, _UNTOLD), "index": p.state, "stop_tick": zeros,
        "reason": zeros, "row": np.full(count, _NO_ROW), "base_index": none,
        "left": np.append(True, ~p.quiet[:-1])[:count], "out_kind": zeros, "out_ts": p.end,
        "out_now_ns": p.end, "residency_ns": p.end - p.start, "out_index": p.state,
        "tick": np.where(p.cause == NONE, _TICK_UNKNOWN, p.on_grid), "poll_time_limit": zeros,
        "lost": p.hole, "by_tick": joined, "overslept": zeros, "interval": of,
    }  # fmt: skip
    return pl.DataFrame({name: pl.Series(name, rows[name]).cast(PERIOD[name]) for name in PERIOD})


def _cause_names(p: Periods) -> dict[str, int]:
    """Return how many periods each cause ended."""
    found = {
        "timer": int((p.cause == TIMER).sum()),
        "device": int((p.cause == DEVICE).sum()),
        "unknown": int((p.cause == NONE).sum()),
    }
    ipis = np.bincount(p.reason[p.cause == IPI], minlength=len(causes.REASONS))
    return found | {f"IPI, {text}": int(ipis[n]) for n, text in causes.REASONS.items() if ipis[n]}


def count_causes(into: Counts, p: Periods, table: StateTable | None) -> None:
    """Add what ended the idle periods of a CPU.

    Args:
        into: added to.
        p: the idle periods.
        table: their idle states; None where they are not known, so that kicks have no cost.
    """
    into.periods += len(p.start)
    for name, times in _cause_names(p).items():
        into.causes[name] = into.causes.get(name, 0) + times
    kicked = np.flatnonzero(p.kick)
    into.kicks += len(kicked)
    if table is None:
        return
    model = model_of(table)
    exit_ns, entry = np.asarray(table.exit_latency_ns), np.asarray(model.entry_pj)
    power = np.asarray(model.power_mw)
    into.cost_pj += float((entry[p.state] + power[p.state] * (p.end - p.start)).sum())
    into.kick_latency_ns += int(exit_ns[p.state[kicked]].sum())
    again = kicked[kicked + 1 < len(p.start)] + 1
    into.kick_pj += float(entry[p.state[again]].sum())


def count(
    into: Counts, p: Periods, table: StateTable, sleep: pl.DataFrame, by_hrtimer: bool
) -> None:
    """Add what a CPU comes to."""
    count_causes(into, p, table)
    kinds = np.bincount(sleep["known"].to_numpy(), minlength=3)
    into.unknown += int(kinds[causes.UNKNOWN_LENGTH])
    into.bounded += int(kinds[BOUNDED])
    into.known += int(kinds[KNOWN])
    into.own += by_hrtimer
    into.loop_ns = max(into.loop_ns, p.loop_ns)
    into.other_clock += not by_hrtimer and bool((p.own > 0).any())


def during(p: Periods, start_ns: int, end_ns: int) -> Periods:
    """Return the idle periods that begin in a time."""
    mine = (p.start >= start_ns) & (p.start <= end_ns)
    columns = {item.name: getattr(p, item.name) for item in fields(p)}
    cut: dict[str, Any] = {
        name: values[mine] for name, values in columns.items() if isinstance(values, np.ndarray)
    }
    return replace(p, **cut)


@dataclass(frozen=True)
class Rows:
    """Rows of one CPU.

    Attributes:
        cpu: its number.
        table: its idle states, with the tick of the recording where that is known.
        stays: its idle periods, with what ended them.
        interval, period, sleep: rows of these tables.
    """

    cpu: int
    table: StateTable
    stays: Periods
    interval: pl.DataFrame
    period: pl.DataFrame
    sleep: pl.DataFrame


def by_cpu(path: Path, facts: Facts, context: Context, counts: Counts) -> Iterator[Rows]:
    """Yield the rows of each CPU whose idle states are known, and of which interrupts tell.

    Args:
        path: the recording.
        facts: of its interrupts.
        context: facts of it beside its events.
        counts: added to.

    Raises:
        UserError: as read_chunks(), or an idle state does not exist.
    """
    named = context.names()
    changes = [(ts, named.index(name)) for ts, name in sorted(context.governors)]
    for cpu, events in cause_events.by_cpu(path):
        table = context.table(cpu)
        # Nothing tells what woke a CPU without interrupts: none of its intervals is known.
        if table is None or cpu in facts.silent:
            continue
        if facts.period_ns:
            table = replace(table, tick_ns=facts.period_ns)
        p, grid, by_hrtimer = causes.of_cpu(cpu, events, facts, context.hrtimers)
        check_states(path, cpu, p, table)
        interval, period, sleep = frames(cpu, p, grid, table, changes)
        count(counts, p, table, sleep, by_hrtimer)
        yield Rows(cpu, table, p, interval, period, sleep)


class Kicks:
    """Numbers of the kicks of all CPUs, by task."""

    def __init__(self, tasks: Mapping[int, str]) -> None:
        self._tasks = tasks
        self._most: dict[int, int] = {}

    def add(self, kicks: tuple[Array, Array] | None, start_ns: int, end_ns: int) -> None:
        """Add when a CPU was kicked, and by which task, in a time."""
        if kicks is None:
            return
        at, pids = kicks
        pids = pids[(at >= start_ns) & (at <= end_ns)]
        for pid, times in zip(*np.unique(pids, return_counts=True), strict=True):
            self._most[int(pid)] = max(self._most.get(int(pid), 0), int(times))

    def most(self) -> dict[str, int]:
        """Return how often each task kicked, the most frequent first."""
        named = {
            f"{self._tasks.get(pid) or 'a task without name'}-{pid}": times
            for pid, times in self._most.items()
        }
        return dict(sorted(named.items(), key=lambda item: -item[1]))


def kickers(facts: Facts) -> dict[str, int]:
    """Return how often each task kicked all CPUs, the most frequent first."""
    found = Kicks(facts.tasks)
    for kicks in facts.kicks.values():
        found.add(kicks, 0, _NEVER)
    return found.most()


def notes(facts: Facts, counts: Counts) -> list[str]:
    """Return one sentence for each thing that a reader must know of such a recording."""
    total = max(1, counts.known + counts.bounded + counts.unknown)
    said = [
        f"{100 * (counts.periods - counts.causes.get('unknown', 0)) / max(1, counts.periods):.1f} "
        f"% of {counts.periods:,} exits from idle have a known cause: "
        f"{causes.shares(counts.causes)}",
        f"the sleep length is known in {100 * counts.known / total:.1f} % of {total:,} intervals, "
        f"bounded in {100 * counts.bounded / total:.1f} % and unknown in "
        f"{100 * counts.unknown / total:.1f} %",
    ]
    return [*said, *_doubts(facts, counts)]


def _cpus(cpus: Sequence[int]) -> str:
    return f"CPU {cpu_list(list(cpus))}"


def _doubts(facts: Facts, counts: Counts) -> list[str]:
    said = []
    if facts.silent:
        said.append(
            f"no interrupt of {_cpus(facts.silent)} is recorded, so what woke them is unknown: the "
            f"figures are those of {_cpus(sorted({*facts.all_cpus} - {*facts.silent}))} alone; "
            "record the events of all CPUs"
        )
    if facts.timerless:
        said.append(
            f"no interrupt of the timer of {_cpus(facts.timerless)} is recorded: the tick is told "
            "by its softirqs, other timers are unknown; on x86 record with -e irq_vectors, too"
        )
    if facts.unended:
        said.append(f"the last idle period of {_cpus(facts.unended)} has no exit, and is left out")
    if not facts.period_ns:
        said.append("no grid of the tick is found, so the tick is not told from other timers")
    if counts.other_clock:
        said.append(
            "hrtimer events are of another clock than the trace, and not used: record with "
            "trace-cmd record -C mono"
        )
    return said


def kick_notes(counts: Counts) -> list[str]:
    """Return who kicks, how often, and the cost where the idle states are known."""
    if not counts.kicks:
        return []
    by = ", ".join(f"{name} ({times:,} times)" for name, times in
                   list(counts.kickers.items())[:3])  # fmt: skip
    said = [
        f"{100 * counts.kicks / max(1, counts.periods):.1f} % of the exits from idle are kicks: "
        f"one task raises reschedule IPIs for all CPUs, and nothing runs (a latency request "
        f"changed); by {by}"
    ]
    if counts.cost_pj:
        said.append(
            f"kicks cost {counts.kick_latency_ns / 1e6:,.1f} ms of exit latency, and "
            f"{counts.kick_pj / 1e9:,.3f} mJ for entries after them, "
            f"{100 * counts.kick_pj / counts.cost_pj:.1f} % of the modelled idle energy"
        )
    return said
