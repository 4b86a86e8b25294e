# SPDX-License-Identifier: GPL-2.0
"""Events of the table `cause`, by CPU, and the facts of a whole recording that they tell."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cpuidle_lab.base.abi import constant
from cpuidle_lab.recording import reader
from cpuidle_lab.recording.stock import Context
from cpuidle_lab.recording.ticks import Rates

Array = npt.NDArray[Any]


ENTER, EXIT, TIMER, IPI, DEVICE, DONE, SOFTIRQ, RAISE, LOST, NONE = (
    constant(f"CIL_CAUSE_{name}")
    for name in ("ENTER", "EXIT", "TIMER", "IPI", "DEVICE", "DONE", "SOFTIRQ", "RAISE", "LOST",
                 "NONE")
)  # fmt: skip


RESCHEDULE, BROADCAST = constant("CIL_IPI_RESCHEDULE"), constant("CIL_IPI_TIMER")


# An interrupt of another CPU comes so soon after it was raised, a wake-up between them.
RAISED_NS = 2_000_000


# From a kick to the exit, before or after.
KICK_NS = 20_000


# One task kicks one CPU after the other without a longer gap, at least so many.
_KICKS_GAP_NS, _KICKS_LEAST = 15_000, 3


# Softirqs of the tick: timers of the wheel, load balancing, RCU.
SOFT_TIMER, SOFT_SCHED, SOFT_RCU = 1 << 1, 1 << 7, 1 << 9


SOFT_TICK = SOFT_TIMER | SOFT_SCHED | SOFT_RCU


SOFT_SERVES = SOFT_TIMER | SOFT_RCU


# So many ticks that raise them tell the grid; with fewer, all timer interrupts are taken.
_TICKS_ENOUGH = 50


TABLES = ("cause", "task", "lost")


@dataclass
class Facts:
    """Facts of all CPUs of a recording.

    Attributes:
        period_ns: of the tick, 0: unknown.
        share: of the timer interrupts that are taken for ticks, those on its grid.
        raised: by target CPU, when interrupts were raised for it, why, and which task ran there.
        kicks: by target CPU, when it was kicked, and by which task.
        meanings: of numbers of IPIs, as the CPUs before told.
        tasks: names of tasks that raise interrupts.
        silent: CPUs with idle periods and without any interrupt.
        timerless: CPUs with interrupts of devices and without any of the timer.
        unended: CPUs whose last idle period has no exit.
        all_cpus: CPUs that have idle periods.
        lost: places where events are missing.
    """

    period_ns: int = 0
    share: float = 0.0
    raised: dict[int, tuple[Array, Array, Array]] = field(default_factory=dict)
    kicks: dict[int, tuple[Array, Array]] = field(default_factory=dict)
    meanings: dict[int, int] = field(default_factory=dict)
    tasks: dict[int, str] = field(default_factory=dict)
    silent: list[int] = field(default_factory=list)
    timerless: list[int] = field(default_factory=list)
    unended: list[int] = field(default_factory=list)
    all_cpus: list[int] = field(default_factory=list)
    lost: int = 0


Events = dict[str, Array]


_COLUMNS = ("ts", "kind", "reason", "pid", "number", "own_ns", "tick_ns")


def by_cpu(path: Path, tasks: dict[int, str] | None = None) -> Iterator[tuple[int, Events]]:
    """Yield the events of each CPU; none where the trace has no interrupts.

    Args:
        path: the trace.
        tasks: filled with the names of tasks.

    Raises:
        UserError: as read_chunks().
    """
    waiting: list[Events] = []
    cpu = -1
    for piece in reader.read_chunks(path, TABLES):
        if isinstance(piece, reader.Schema):
            if "cause" not in {name for name, _ in piece.tables.values()}:
                return
        elif isinstance(piece, reader.Ending):
            break
        elif piece.table == "task" and tasks is not None:
            tasks.update(piece.frame.select("pid", "comm").iter_rows())
        elif piece.table == "cause":
            if waiting and int(piece.frame["cpu"][0]) != cpu:
                yield cpu, _joined(waiting)
                waiting = []
            cpu = int(piece.frame["cpu"][0])
            waiting.append({name: piece.frame[name].to_numpy() for name in _COLUMNS})
    if waiting:
        yield cpu, _joined(waiting)


def _joined(parts: list[Events]) -> Events:
    found = {name: np.concatenate([part[name] for part in parts]) for name in _COLUMNS}
    return found | {"ts": found["ts"].astype(np.int64)}


def _last_before(marks: Array, places: Array) -> Array:
    """Return the place of the last mark before or at each place, -1 without one."""
    return np.asarray(np.searchsorted(marks, places, "right") - 1)


def timer_ticks(events: Events) -> tuple[Array, Array]:
    """Return when timer interrupts came, and which softirqs they raised."""
    kind = events["kind"]
    rows = np.flatnonzero(kind == TIMER)
    ends = np.flatnonzero((kind == DONE) | (kind == ENTER) | (kind == EXIT) | (kind == TIMER))
    softs = np.flatnonzero(kind == SOFTIRQ)
    raised = np.zeros(len(rows), np.int64)
    place = _last_before(ends, softs)
    softs, place = softs[place >= 0], place[place >= 0]
    served = kind[ends[place]] == TIMER
    which = np.searchsorted(rows, ends[place[served]])
    np.bitwise_or.at(raised, which, bit_of(events["number"][softs[served]]))
    return events["ts"][rows], raised


def bit_of(vectors: Array) -> Array:
    """Return the bits that stand for numbers of softirqs."""
    return np.asarray(np.left_shift(1, np.clip(vectors, 0, 62)))


def grid_moments(events: Events) -> tuple[Array, bool]:
    """Return when ticks came, and whether they are told from other timers."""
    at, soft = timer_ticks(events)
    ticks = at[(soft & SOFT_TICK) != 0]
    return (ticks, True) if len(ticks) >= _TICKS_ENOUGH else (at, False)


def with_timers(events: Events) -> Events:
    """Let softirqs of the tick stand for timer interrupts that were not recorded.

    On x86 without irq_vectors the tick is told by them: they are raised out of an idle CPU, and
    no other interrupt is.
    """
    kind = events["kind"]
    if (kind == TIMER).any() or not (kind == DEVICE).any():
        return events
    rows = np.flatnonzero(np.isin(kind, (EXIT, TIMER, IPI, DEVICE, DONE, SOFTIRQ, ENTER)))
    before = np.roll(kind[rows], 1)
    tick = (kind[rows] == SOFTIRQ) & (before == EXIT) & (events["pid"][rows] == 0)
    tick &= (bit_of(events["number"][rows]) & SOFT_TICK) != 0
    at = rows[tick]
    if not len(at):
        return events
    more = {name: np.insert(values, at, values[at]) for name, values in events.items()}
    more["kind"][at + np.arange(len(at))] = TIMER
    return more


def _raises(events: Events) -> tuple[Array, Array, Array, Array]:
    rows = np.flatnonzero(events["kind"] == RAISE)
    at, target, reason, pid = (events[name][rows] for name in ("ts", "number", "reason", "pid"))
    return at, target, reason, pid


def _kicks(at: Array, target: Array, reason: Array, pid: Array) -> Array:
    """Tell which raised interrupts are of a task that wakes all CPUs in their order.

    So does wake_up_all_idle_cpus(), when a latency request changes. No task is woken by it.
    """
    if not len(at):
        return np.zeros(0, bool)
    mine = reason == RESCHEDULE
    breaks = np.ones(len(at), bool)
    breaks[1:] = (
        (pid[1:] != pid[:-1]) | (at[1:] - at[:-1] > _KICKS_GAP_NS) | (target[1:] <= target[:-1])
        | ~mine[1:] | ~mine[:-1]
    )  # fmt: skip
    group = np.cumsum(breaks) - 1
    return np.asarray(mine & (np.bincount(group)[group] >= _KICKS_LEAST))


def may_tell(context: Context | None, ending: reader.Ending) -> bool:
    """Tell whether interrupts may tell more than a recording was read by.

    Args:
        context: what is known of it; None of a recording with the module.
        ending: what its reading came to.
    """
    if context is None or not context.known():
        return False
    return context.by_interrupts or not (ending.asked or ending.rebuilt)


def facts_of(path: Path) -> Facts | None:
    """Return what a first reading tells of all CPUs; None of a trace without interrupts.

    Raises:
        UserError: as read_chunks().
    """
    facts, rates, doubtful = Facts(), Rates(), Rates()
    raised: dict[int, list[tuple[Array, Array, Array, Array]]] = {}
    for cpu, told in by_cpu(path, facts.tasks):
        kind = told["kind"]
        facts.lost += int((kind == LOST).sum())
        if (kind == ENTER).any():
            facts.all_cpus.append(cpu)
            idle = np.flatnonzero((kind == ENTER) | (kind == EXIT))
            if kind[idle[-1]] == ENTER:
                facts.unended.append(cpu)
            if not np.isin(kind, (TIMER, IPI, DEVICE)).any():
                facts.silent.append(cpu)
            elif not (kind == TIMER).any():
                facts.timerless.append(cpu)
        moments, sure = grid_moments(with_timers(told))
        (rates if sure else doubtful).add(moments)
        at, target, reason, pid = _raises(told)
        kicked = _kicks(at, target, reason, pid)
        for one in np.unique(target):
            mine = target == one
            part = at[mine], reason[mine], kicked[mine], pid[mine]
            raised.setdefault(int(one), []).append(part)
    facts.period_ns, facts.share = (rates if rates.total else doubtful).best()
    for cpu, parts in raised.items():
        at, reason, kicked, pid = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(at, kind="stable")
        at, reason, kicked, pid = at[order], reason[order], kicked[order], pid[order]
        facts.raised[cpu] = at, reason, pid
        facts.kicks[cpu] = at[kicked], pid[kicked]
    # A format of an event may be there without any.
    return facts if set(facts.all_cpus) != set(facts.silent) else None
