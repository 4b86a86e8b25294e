# SPDX-License-Identifier: GPL-2.0
"""What ended each idle period, by the interrupts around its exit: docs/stock.md. Times in ns.

The reader's table `cause` (tools/native/trace_causes.c) has the events of a CPU in one order. A
recording is read twice: facts of all CPUs first (the tick, interrupts between CPUs), then CPU by
CPU. All work is on whole columns.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cpuidle_lab.base.abi import constant
from cpuidle_lab.recording import reader
from cpuidle_lab.recording.ticks import NEAR_NS, Grid, Rates, mode

Array = npt.NDArray[Any]

ENTER, EXIT, TIMER, IPI, DEVICE, DONE, SOFTIRQ, RAISE, LOST, NONE = (
    constant(f"CIL_CAUSE_{name}")
    for name in ("ENTER", "EXIT", "TIMER", "IPI", "DEVICE", "DONE", "SOFTIRQ", "RAISE", "LOST",
                 "NONE")
)  # fmt: skip
RESCHEDULE, BROADCAST = constant("CIL_IPI_RESCHEDULE"), constant("CIL_IPI_TIMER")
UNKNOWN_LENGTH, BOUNDED, KNOWN = (
    constant(f"CIL_SLEEP_{name}") for name in ("UNKNOWN", "BOUNDED", "KNOWN")
)
REASONS = {
    constant(f"CIL_IPI_{name}"): text
    for name, text in (
        ("UNKNOWN", "unknown"), ("RESCHEDULE", "reschedule"), ("CALL", "function call"),
        ("TIMER", "timer broadcast"), ("WORK", "irq work"), ("OTHER", "other"),
    )
}  # fmt: skip

# The first interrupt comes so soon after the exit, at most.
_CAUSE_NS = 60_000
# An interrupt of another CPU comes so soon after it was raised, a wake-up between them.
_RAISED_NS = 2_000_000
# From a kick to the exit, before or after.
_KICK_NS = 20_000
# From the exit to the next entry, at most, if a kick had nothing to run.
_KICK_GAP_NS = 50_000
# One task kicks one CPU after the other without a longer gap, at least so many.
_KICKS_GAP_NS, _KICKS_LEAST = 15_000, 3
# Softirqs of the tick: timers of the wheel, load balancing, RCU.
_SOFT_TIMER, _SOFT_SCHED, _SOFT_RCU = 1 << 1, 1 << 7, 1 << 9
_SOFT_TICK = _SOFT_TIMER | _SOFT_SCHED | _SOFT_RCU
_SOFT_SERVES = _SOFT_TIMER | _SOFT_RCU
# So many ticks that raise them tell the grid; with fewer, all timer interrupts are taken.
_TICKS_ENOUGH = 50
# Waking up from no idle state takes longer.
_LATE_NS = 500_000
# Bare ticks from which the time that nothing takes is learnt.
_GAPS_ENOUGH = 20
# A timer is stopped if it is so much later than the next tick.
_STOPPED_NS = 20_000
# The clocks of timers and of the trace agree if timers come within that.
_SAME_CLOCK_NS = 20_000

TABLES = ("cause", "task", "lost")


@dataclass
class Periods:
    """Idle periods of one CPU, in columns, and what ended them.

    Attributes:
        start, end: of the events of power:cpu_idle.
        state: the idle state.
        gap: from the end to the next entry; 0: unknown.
        cause: a kind of interrupt, or NONE.
        reason: of an IPI, a key of REASONS.
        at: when that interrupt came; the end without one.
        soft: bits of the softirqs that were raised then.
        ran: a task ran before the next entry, as far as is seen.
        hole: events before it are missing.
        own, tick: when the first hrtimer and the tick's own were due at the entry; -1: unknown.
        due: when the interrupt was due; the end without a timer.
        on_grid: a timer on the grid of the tick ended it.
        first_tick: it did so with the first tick after the entry.
        bare: that tick served nothing, so the timer is later.
        kick: a change of the latency request ended it, as far as is seen.
        quiet: nothing ran between it and the next.
        known: UNKNOWN_LENGTH, BOUNDED or KNOWN.
        sleep: the sleep length at the entry, or its least.
        held: the tick had to go on, and served something.
        late_ns: by state, how late its wake-ups are, where the grid of the tick tells.
    """

    start: Array
    end: Array
    state: Array
    gap: Array
    cause: Array
    reason: Array
    at: Array
    soft: Array
    ran: Array
    hole: Array
    own: Array
    tick: Array
    due: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    on_grid: Array = field(default_factory=lambda: np.zeros(0, bool))
    first_tick: Array = field(default_factory=lambda: np.zeros(0, bool))
    bare: Array = field(default_factory=lambda: np.zeros(0, bool))
    kick: Array = field(default_factory=lambda: np.zeros(0, bool))
    quiet: Array = field(default_factory=lambda: np.zeros(0, bool))
    known: Array = field(default_factory=lambda: np.zeros(0, np.uint8))
    sleep: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    held: Array = field(default_factory=lambda: np.zeros(0, bool))
    late_ns: dict[int, int] = field(default_factory=dict)


@dataclass
class Facts:
    """Facts of all CPUs of a recording.

    Attributes:
        period_ns: of the tick, 0: unknown.
        share: of the timer interrupts that are taken for ticks, those on its grid.
        raised: by target CPU, when interrupts were raised for it, and why.
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
    raised: dict[int, tuple[Array, Array]] = field(default_factory=dict)
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


# ---- Facts of all CPUs ----


def _last_before(marks: Array, places: Array) -> Array:
    """Return the place of the last mark before or at each place, -1 without one."""
    return np.asarray(np.searchsorted(marks, places, "right") - 1)


def _ticks(events: Events) -> tuple[Array, Array]:
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
    np.bitwise_or.at(raised, which, _bit(events["number"][softs[served]]))
    return events["ts"][rows], raised


def _bit(vectors: Array) -> Array:
    return np.asarray(np.left_shift(1, np.clip(vectors, 0, 62)))


def _grid_moments(events: Events) -> tuple[Array, bool]:
    """Return when ticks came, and whether they are told from other timers."""
    at, soft = _ticks(events)
    ticks = at[(soft & _SOFT_TICK) != 0]
    return (ticks, True) if len(ticks) >= _TICKS_ENOUGH else (at, False)


def _with_timers(events: Events) -> Events:
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
    tick &= (_bit(events["number"][rows]) & _SOFT_TICK) != 0
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
        moments, sure = _grid_moments(_with_timers(told))
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
        facts.raised[cpu] = at, reason
        facts.kicks[cpu] = at[kicked], pid[kicked]
    # A format of an event may be there without any.
    return facts if set(facts.all_cpus) != set(facts.silent) else None


# ---- Periods of a CPU, and their causes ----


def _periods(events: Events) -> tuple[Periods, Array, Array]:
    """Return the idle periods, and the places of their entries and exits among the events."""
    kind, ts = events["kind"], events["ts"]
    idle = np.flatnonzero((kind == ENTER) | (kind == EXIT) | (kind == LOST))
    step = kind[idle]
    whole = np.flatnonzero((step[:-1] == ENTER) & (step[1:] == EXIT))
    first, last = idle[whole], idle[whole + 1]
    entries = np.flatnonzero(kind == ENTER)
    after = np.searchsorted(entries, last)
    lost = np.flatnonzero(kind == LOST)
    has_next = after < len(entries)
    next_entry = np.where(has_next, entries[np.minimum(after, len(entries) - 1)], len(ts) - 1)
    holes = np.searchsorted(lost, first) != np.searchsorted(lost, np.append(-1, last[:-1]))
    gap_hole = np.searchsorted(lost, next_entry) != np.searchsorted(lost, last)
    count = len(first)
    return (
        Periods(
            start=ts[first],
            end=ts[last],
            state=events["number"][first].astype(np.int64),
            gap=np.where(has_next & ~gap_hole, ts[next_entry] - ts[last], 0),
            cause=np.full(count, NONE, np.uint8),
            reason=np.zeros(count, np.uint8),
            at=ts[last].copy(),
            soft=np.zeros(count, np.int64),
            ran=np.zeros(count, bool),
            hole=holes,
            own=events["own_ns"][first],
            tick=events["tick_ns"][first],
        ),
        first,
        last,
    )


def _count_between(marks: Array, low: Array, high: Array) -> Array:
    """Return how many marks lie after `low` and before `high`."""
    return np.asarray(np.searchsorted(marks, high) - np.searchsorted(marks, low, "right"))


def _find_causes(p: Periods, events: Events, first: Array, last: Array) -> None:
    """Find the first interrupt of each period: within it, else after its exit.

    Handlers may run before the exit is recorded (sti; hlt), or after it.
    """
    kind, ts = events["kind"], events["ts"]
    interrupts = np.flatnonzero(np.isin(kind, (TIMER, IPI, DEVICE)))
    running = np.flatnonzero((events["pid"] > 0) & (kind != LOST))
    entries = np.flatnonzero(kind == ENTER)
    after = np.searchsorted(entries, last)
    until = np.append(entries, len(ts))[after]
    if len(interrupts):
        padded = np.append(interrupts, len(ts))
        inside = padded[np.searchsorted(interrupts, first)]
        within = inside < last
        later = padded[np.searchsorted(interrupts, last)]
        soon = later < until
        at_ns = np.append(ts, 0)[later]
        soon &= at_ns - p.end < _CAUSE_NS
        soon &= _count_between(running, last, later + 1) == 0
        chosen = np.where(within, inside, later)
        use = within | soon
        place = chosen[use]
        p.cause[use], p.at[use] = kind[place], ts[place]
        p.reason[use] = events["reason"][place]
    p.ran[:] = _count_between(running, last, until) > 0
    _find_softirqs(
        p, events, first, last, until, np.flatnonzero(np.isin(kind, (TIMER, IPI, DEVICE)))
    )


def _find_softirqs(
    p: Periods, events: Events, first: Array, last: Array, until: Array, interrupts: Array
) -> None:
    """Note the softirqs that were raised from the first interrupt to the next entry."""
    rows = np.flatnonzero(events["kind"] == SOFTIRQ)
    which = np.searchsorted(first, rows) - 1
    rows, which = rows[which >= 0], which[which >= 0]
    inside = _count_between(interrupts, first[which], rows) > 0
    mine = (rows < until[which]) & ((rows > last[which]) | inside)
    np.bitwise_or.at(p.soft, which[mine], _bit(events["number"][rows[mine]]))


def _name_ipis(p: Periods, events: Events, cpu: int, facts: Facts) -> None:
    """Tell what an IPI means by the interrupts that were raised for the CPU.

    The number of an interrupt has one meaning: the one that most of its interrupts have.
    """
    raised = facts.raised.get(cpu)
    if raised is None:
        return
    rows = np.flatnonzero((events["kind"] == IPI) & (events["reason"] == 0))
    at, number = events["ts"][rows], events["number"][rows]
    k = np.searchsorted(raised[0], at, "right") - 1
    near = (k >= 0) & (at - raised[0][np.maximum(k, 0)] < _RAISED_NS)
    for one in np.unique(number[near]):
        votes = np.bincount(raised[1][k[near & (number == one)]])
        facts.meanings.setdefault(int(one), int(votes.argmax()))
    ours = np.flatnonzero((p.cause == IPI) & (p.reason == 0))
    place = np.searchsorted(at, p.at[ours])
    place = np.minimum(place, max(len(at) - 1, 0))
    if len(at):
        numbers, which = np.unique(number[place], return_inverse=True)
        codes = np.array([facts.meanings.get(int(n), 0) for n in numbers], np.uint8)
        p.reason[ours] = codes[which]
    p.cause[p.reason == BROADCAST] = TIMER


def _note_kicks(p: Periods, kicks: tuple[Array, Array] | None) -> None:
    p.kick = np.zeros(len(p.start), bool)
    if kicks is None or not len(kicks[0]):
        return
    k = np.searchsorted(kicks[0], p.end + _KICK_NS, "right") - 1
    near = (k >= 0) & (kicks[0][np.maximum(k, 0)] > p.end - _KICK_NS)
    p.kick = near & np.isin(p.cause, (IPI, NONE)) & ~p.ran & (p.gap > 0) & (p.gap <= _KICK_GAP_NS)


def _is_hidden(p: Periods) -> bool:
    """Tell whether handlers of the timer run before the exit is recorded."""
    timers = p.cause == TIMER
    return int((timers & (p.at < p.end)).sum()) > int((timers & (p.at >= p.end)).sum())


def _grid(p: Periods, events: Events, facts: Facts, hidden: bool) -> Grid:
    """Return the grid of ticks, by the times at which they end idle periods."""
    moments, _ = _grid_moments(events)
    after = np.zeros(0, np.int64)
    if not hidden:
        shallow = (p.cause == TIMER) & (p.state == 0) & (p.at >= p.end)
        after = (p.at - p.end)[shallow]
    shift = int(np.median(after)) if len(after) else 0
    return Grid(moments - shift, facts.period_ns)


def _due(p: Periods, grid: Grid, hidden: bool) -> None:
    """Find when what ended a period was due: a wake-up from a deep state is late."""
    p.due = np.where(p.cause == TIMER, p.at if hidden else p.end, p.end)
    if hidden or not grid.known:
        return
    off = grid.off(p.end)
    late = (p.cause == TIMER) & (p.soft & _SOFT_TICK != 0) & (off > -NEAR_NS) & (off < _LATE_NS)
    for state in np.unique(p.state[late]):
        latency = mode(off[late & (p.state == state)])
        if latency is None:
            continue
        p.late_ns[int(state)] = max(latency, 0)
        mine = (p.cause == TIMER) & (p.state == state)
        p.due[mine] = np.maximum(p.start, p.end - latency)[mine]


def _backwards(link: Array) -> Array:
    """Return for each row the first row from it on that is not linked to the next."""
    count = len(link)
    places = np.where(link, count, np.arange(count))
    found: Array = np.minimum.accumulate(places[::-1])[::-1]
    return np.minimum(found, max(count - 1, 0))


def _fill(p: Periods, grid: Grid) -> None:
    """Tell the sleep length at each entry, or its least; carry it back over quiet ends.

    A timer ended the period: it is known. A tick that serves nothing tells that the timer is
    later. After an end in which nothing ran, the timer is that of the next period.
    """
    timer = p.cause == TIMER
    first = grid.next(p.start + 1000) if grid.known else np.full(len(p.start), 2**62)
    p.on_grid = timer & (np.abs(grid.off(p.due)) <= NEAR_NS) if grid.known else timer & False
    p.first_tick = p.on_grid & (np.abs(p.due - first) <= NEAR_NS)
    spans = p.due > first + NEAR_NS
    serves = p.soft & _SOFT_SERVES != 0
    is_timer = timer & (~p.on_grid | spans) & grid.known
    # A tick that balances loads, too, may serve nothing else of its own.
    p.held = timer & ~is_timer & serves & (p.soft & _SOFT_SCHED == 0)
    p.bare = p.first_tick & ~is_timer & ~serves
    known = is_timer | p.held
    gaps = p.gap[p.bare & (p.soft == 0) & ~p.ran & (p.gap > 0)]
    limit = 2 * int(np.median(gaps)) if len(gaps) >= _GAPS_ENOUGH else 0
    nothing = ~p.ran & (p.gap > 0) & (p.gap <= np.where(p.kick, _KICK_GAP_NS, limit))
    balanced = p.bare & ~p.ran & (p.gap > 0) & (p.soft & _SOFT_SCHED != 0)
    p.quiet = (nothing & ~known) | balanced
    p.quiet[-1:] = False
    # After a hole nothing is known of what came before.
    p.quiet[:-1] &= ~p.hole[1:]
    end = _backwards(p.quiet)
    p.sleep = p.due[end] - p.start
    p.known = np.where(known[end], KNOWN, BOUNDED).astype(np.uint8)
    p.known[(p.cause == NONE) & (p.known != KNOWN)] = UNKNOWN_LENGTH


def _by_hrtimers(p: Periods, grid: Grid) -> bool:
    """Take the first hrtimer where nothing else tells; return whether its clock is the trace's."""
    own = np.where(p.own > 0, p.own, 2**62)
    tick = np.where(p.tick > 0, p.tick, 2**62)
    ended = (p.cause == TIMER) & ~p.on_grid & (own < 2**62)
    if not ended.any() or np.median(np.abs(own - p.due)[ended]) > _SAME_CLOCK_NS:
        return False
    stopped = tick > (grid.next(p.start) if grid.known else p.start) + _STOPPED_NS
    first = np.where(stopped, np.minimum(own, tick), own)
    # The bound is of the whole stay in the loop, so a timer before its end was cancelled.
    use = (p.known != KNOWN) & (first >= p.due) & (first < 2**60)
    p.sleep[use], p.known[use] = (first - p.start)[use], KNOWN
    return True


def of_cpu(
    cpu: int, events: Events, facts: Facts, hrtimers: bool = True
) -> tuple[Periods, Grid, bool]:
    """Return the idle periods of a CPU with all that can be told of them.

    Args:
        cpu: its number.
        events: of the CPU, as by_cpu() yields them.
        facts: of all CPUs.
        hrtimers: use their events.

    Returns:
        The periods, the grid of the tick, and whether hrtimers told sleep lengths.
    """
    told = _with_timers(events)
    p, first, last = _periods(told)
    _find_causes(p, told, first, last)
    _name_ipis(p, told, cpu, facts)
    _note_kicks(p, facts.kicks.get(cpu))
    hidden = _is_hidden(p)
    grid = _grid(p, told, facts, hidden)
    _due(p, grid, hidden)
    _fill(p, grid)
    return p, grid, hrtimers and _by_hrtimers(p, grid)


def shares(causes: Mapping[str, int]) -> str:
    """Return the shares of causes as text, the greatest first."""
    total = max(1, sum(causes.values()))
    ordered = sorted(causes.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {100 * count / total:.1f} %" for name, count in ordered if count)
