# SPDX-License-Identifier: GPL-2.0
"""Causes that ended idle periods, by the interrupts around its exit: docs/stock.md. Times in ns.

The reader's table `cause` (tools/native/trace_causes.c) has the events of a CPU in one order. A
recording is read twice: facts of all CPUs first (the tick, interrupts between CPUs), then CPU by
CPU. All work is on whole columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cpuidle_lab.base.abi import constant
from cpuidle_lab.recording.cause_events import (
    BROADCAST,
    DEVICE,
    ENTER,
    EXIT,
    IPI,
    KICK_NS,
    LOST,
    NONE,
    RAISED_NS,
    SOFT_RCU,
    SOFT_SCHED,
    SOFT_SERVES,
    SOFT_TICK,
    SOFTIRQ,
    TIMER,
    Array,
    Events,
    Facts,
    bit_of,
    grid_moments,
    timer_ticks,
    with_timers,
)
from cpuidle_lab.recording.ticks import NEAR_NS, Grid, mode

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
# From the exit to the next entry, at most, if a kick had nothing to run.
_KICK_GAP_NS = 50_000
# Waking up from no idle state takes longer.
_LATE_NS = 500_000
# A tick is no farther from its grid than such a part of the period.
_NEAR_PARTS = 40
# Bare ticks from which the time that nothing takes is learnt.
_GAPS_ENOUGH = 20
# A timer is stopped if it is so much later than the next tick.
_STOPPED_NS = 20_000
# RCU holds the tick between two ticks that it shows at, if these are no farther apart.
_GRACE_TICKS = 5
_FAR = 2**61
# The clocks of timers and of the trace agree if so many timers come within that.
_SAME_CLOCK_NS = 20_000
_SAME_CLOCK_SHARE = 0.25


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
        by_timer: a timer other than the tick's own ended it.
        cancelled: an interrupt of a timer that had been cancelled did.
        bare: that tick served nothing, so the timer is later.
        kick: a change of the latency request ended it, as far as is seen.
        quiet: nothing ran between it and the next.
        known: UNKNOWN_LENGTH, BOUNDED or KNOWN.
        sleep: the sleep length at the entry, or its least.
        held: the tick had to go on, and served something.
        late_ns: by state, how late its wake-ups are, where the grid of the tick tells.
        loop_ns: from an exit to the next entry, if nothing runs; 0: unknown.
        near_ns: how far from its grid a tick may come.
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
    by_timer: Array = field(default_factory=lambda: np.zeros(0, bool))
    cancelled: Array = field(default_factory=lambda: np.zeros(0, bool))
    bare: Array = field(default_factory=lambda: np.zeros(0, bool))
    kick: Array = field(default_factory=lambda: np.zeros(0, bool))
    quiet: Array = field(default_factory=lambda: np.zeros(0, bool))
    known: Array = field(default_factory=lambda: np.zeros(0, np.uint8))
    sleep: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    held: Array = field(default_factory=lambda: np.zeros(0, bool))
    late_ns: dict[int, int] = field(default_factory=dict)
    loop_ns: int = 0
    near_ns: int = NEAR_NS


# ---- Facts of all CPUs ----


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


def _find_causes(p: Periods, events: Events, first: Array, last: Array, hrtimers: bool) -> None:
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
    if hrtimers:
        p.ran |= np.append(events["reason"], 0)[until] == 1
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
    np.bitwise_or.at(p.soft, which[mine], bit_of(events["number"][rows[mine]]))


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
    near = (k >= 0) & (at - raised[0][np.maximum(k, 0)] < RAISED_NS)
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
    k = np.searchsorted(kicks[0], p.end + KICK_NS, "right") - 1
    near = (k >= 0) & (kicks[0][np.maximum(k, 0)] > p.end - KICK_NS)
    p.kick = near & np.isin(p.cause, (IPI, NONE)) & ~p.ran & (p.gap > 0) & (p.gap <= _KICK_GAP_NS)


def _is_hidden(p: Periods) -> bool:
    """Tell whether handlers of the timer run before the exit is recorded."""
    timers = p.cause == TIMER
    return int((timers & (p.at < p.end)).sum()) > int((timers & (p.at >= p.end)).sum())


def _grid(p: Periods, events: Events, facts: Facts, hidden: bool) -> Grid:
    """Return the grid of ticks, by the times at which they end idle periods."""
    moments, _ = grid_moments(events)
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
    late = (p.cause == TIMER) & (p.soft & SOFT_TICK != 0) & (off > -NEAR_NS) & (off < _LATE_NS)
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


def _longest_quiet(p: Periods, hidden: bool) -> int:
    """Return the longest time to the next entry in which nothing ran; 0: unknown.

    Bare ticks tell it. Handlers that run before the exit is recorded leave the time of the loop
    alone, so the ticks after which a task ran stand apart. Handlers after it vary.
    """
    gaps = p.gap[p.bare & (p.soft == 0) & ~p.ran & (p.gap > 0)]
    if len(gaps) < _GAPS_ENOUGH:
        return 0
    p.loop_ns = int(np.percentile(gaps, 25))
    return int(1.5 * p.loop_ns if hidden else 2 * np.median(gaps))


def _near(p: Periods, grid: Grid) -> int:
    """Return how far from its grid a tick may come: CPUs of a virtual machine take turns.

    It is twice the distance within which three of four come; others may be no ticks.
    """
    sure = (p.cause == TIMER) & (p.soft & SOFT_TICK != 0)
    off = np.abs(grid.off(p.due[sure]))
    off = off[off < grid.period_ns // _NEAR_PARTS]
    return max(NEAR_NS, int(2 * np.percentile(off, 75))) if len(off) >= _GAPS_ENOUGH else NEAR_NS


def _place(p: Periods, grid: Grid) -> None:
    """Tell which periods ticks ended, and which of them served nothing."""
    timer = p.cause == TIMER
    if not grid.known:
        p.on_grid, p.first_tick, p.by_timer, p.bare = (timer & False for _ in range(4))
        return
    p.near_ns = _near(p, grid)
    first = grid.next(p.start + 1000)
    p.on_grid = timer & (np.abs(grid.off(p.due)) <= p.near_ns)
    p.first_tick = p.on_grid & (np.abs(p.due - first) <= p.near_ns)
    p.by_timer = timer & (~p.on_grid | (p.due > first + p.near_ns))
    p.bare = p.first_tick & ~p.by_timer & (p.soft & SOFT_SERVES == 0)


def _is_same_clock(p: Periods) -> bool:
    """Tell whether hrtimers have the clock of the trace."""
    ended = (p.cause == TIMER) & ~p.on_grid & (p.own > 0)
    near = np.abs(p.own - p.due)[ended] <= _SAME_CLOCK_NS
    return bool(near.mean() >= _SAME_CLOCK_SHARE) if len(near) else False


def _note_cancelled(p: Periods, limit: int, hrtimers: bool, in_grace: Array) -> None:
    """Take out the interrupts whose timer was cancelled: from 7.0 on they still come.

    Nothing runs after such an interrupt, and no hrtimer was due where these are told. While RCU
    holds the tick, the kernel tells governors of that interrupt, so it counts.
    """
    own, tick = (np.where(at > 0, at, 2**62) for at in (p.own, p.tick))
    was_due = hrtimers & (np.minimum(own, tick) <= p.due + _SAME_CLOCK_NS)
    still = (p.soft == 0) & ~p.ran & (p.gap > 0) & (p.gap <= limit)
    p.cancelled = p.by_timer & ~p.on_grid & ~was_due & still & ~in_grace
    p.by_timer &= ~p.cancelled


def _in_grace(p: Periods, events: Events, grid: Grid) -> Array:
    """Tell for which entries RCU holds the next tick: it does so over a grace period.

    RCU holds the tick from a callback to its end, and shows at some ticks of that time. A CPU
    that stopped its tick has no callback. Where most ticks between two that RCU shows at are
    stopped, the callbacks of the CPU are offloaded, and hold none.
    """
    none = np.zeros(len(p.start), bool)
    at, soft = timer_ticks(events)
    rcu = np.unique(grid.number(at[soft & SOFT_RCU != 0])) if grid.known else at[:0]
    if not len(rcu):
        return none
    due = grid.next(p.start + 1000)
    tick = grid.number(due)
    place = np.searchsorted(rcu, tick)
    before, after = np.append(-_FAR, rcu)[place], np.append(rcu, _FAR)[place]
    within = (after == tick) | (after - before <= _GRACE_TICKS)
    off = grid.off(at)
    came = np.isin(tick, grid.number(at[(off > -p.near_ns) & (off < _LATE_NS)]))
    stopped = (p.end > due + _CAUSE_NS) & ~came
    between = within & (after > tick) & (p.state > 0) & (p.end > due - p.near_ns)
    if 2 * int((between & stopped).sum()) >= int(between.sum()):
        return none
    until = np.where(within, due + (after - tick) * grid.period_ns, due)
    return np.asarray(within & (_count_between(p.start[stopped], p.start - 1, until) == 0))


def _hold(p: Periods, grid: Grid, in_grace: Array) -> None:
    """Let the sleep length end with the tick that RCU holds."""
    to_tick = grid.next(p.start + 1000) - p.start if grid.known else p.start
    held = in_grace & ((p.known != KNOWN) | (p.sleep > to_tick + p.near_ns))
    p.sleep[held], p.known[held] = to_tick[held], KNOWN


def _fill(p: Periods, limit: int, in_grace: Array) -> None:
    """Tell the sleep length at each entry, or its least; carry it back over quiet ends.

    A timer ended the period: it is known. A tick that serves nothing tells that the timer is
    later. After an end in which nothing ran, the timer is that of the next period.

    Args:
        p: the idle periods of a CPU.
        limit: of _longest_quiet().
        in_grace: of _in_grace().
    """
    serves = p.soft & SOFT_SERVES != 0
    # A tick that balances loads, too, may serve nothing else of its own.
    alone = serves & (p.soft & SOFT_SCHED == 0)
    p.held = (p.cause == TIMER) & ~p.by_timer & (alone | (in_grace & p.first_tick))
    p.bare &= ~p.held
    known = p.by_timer | p.held
    still = ~p.ran & (p.gap > 0)
    nothing = still & (p.gap <= np.where(p.kick, _KICK_GAP_NS, limit))
    balanced = p.bare & still & (p.soft & SOFT_SCHED != 0)
    p.quiet = (nothing & ~known) | balanced
    p.quiet[-1:] = False
    # After a hole nothing is known of what came before.
    p.quiet[:-1] &= ~p.hole[1:]
    end = _backwards(p.quiet)
    p.sleep = p.due[end] - p.start
    p.known = np.where(known[end], KNOWN, BOUNDED).astype(np.uint8)
    p.known[(p.cause == NONE) & (p.known != KNOWN)] = UNKNOWN_LENGTH


def _by_hrtimers(p: Periods, grid: Grid) -> None:
    """Take the first hrtimer where nothing else tells, and where its interrupt came late."""
    own, tick = (np.where(at > 0, at, 2**62) for at in (p.own, p.tick))
    late = p.by_timer & ~p.on_grid & (own > p.start) & (own <= p.due) & (p.due - own < _LATE_NS)
    p.sleep[late] = (own - p.start)[late]
    p.due[late] = own[late]
    stopped = tick > (grid.next(p.start) if grid.known else p.start) + _STOPPED_NS
    first = np.where(stopped, np.minimum(own, tick), own)
    # The bound is of the whole stay in the loop, so a timer before its end was cancelled.
    use = (p.known != KNOWN) & (first >= p.due) & (first < 2**60)
    p.sleep[use], p.known[use] = (first - p.start)[use], KNOWN


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
    told = with_timers(events)
    p, first, last = _periods(told)
    _find_causes(p, told, first, last, hrtimers)
    _name_ipis(p, told, cpu, facts)
    _note_kicks(p, facts.kicks.get(cpu))
    hidden = _is_hidden(p)
    grid = _grid(p, told, facts, hidden)
    _due(p, grid, hidden)
    _place(p, grid)
    hrtimers = hrtimers and _is_same_clock(p)
    limit = _longest_quiet(p, hidden)
    in_grace = _in_grace(p, told, grid)
    _note_cancelled(p, limit, hrtimers, in_grace)
    _fill(p, limit, in_grace)
    if hrtimers:
        _by_hrtimers(p, grid)
    _hold(p, grid, in_grace)
    return p, grid, hrtimers


def shares(causes: Mapping[str, int]) -> str:
    """Return the shares of causes as text, the greatest first."""
    total = max(1, sum(causes.values()))
    ordered = sorted(causes.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {100 * count / total:.1f} %" for name, count in ordered if count)
