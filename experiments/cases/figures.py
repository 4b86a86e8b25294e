# SPDX-License-Identifier: GPL-2.0
"""Figures of what was played."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.replay.engine import Array
from cpuidle_lab.states.table import StateTable
from experiments.cases.schema import Figure


@dataclass(frozen=True)
class Played:
    """Result of a governor on a stream; times in ns, energies in pJ, by state where a list.

    Attributes:
        idle_ns: length of the intervals.
        span_ns: from the begin of the first interval to the end of the last.
        cost_pj, oracle_pj: modelled energy, and the oracle's.
        intervals, decisions, asked, ticks, above, below: counts, as of engine.Outcome.
        stopped: intervals whose first decision stopped the tick, or found it stopped.
        entries, wakeups: idle periods, and intervals that ended in the state.
        state_ns: time.
    """

    idle_ns: float
    span_ns: float
    cost_pj: float
    oracle_pj: float
    intervals: int
    decisions: int
    asked: int
    ticks: int
    above: int
    below: int
    stopped: int
    entries: Sequence[int]
    wakeups: Sequence[int]
    state_ns: Sequence[float]


_COUNTS = ("intervals", "decisions", "asked", "ticks", "above", "below")


def played(totals: Any, states: int, counted: Mapping[str, Array], stopped: int) -> Played:
    """Return what a governor came to.

    Args:
        totals: a struct rp_totals, or an engine.Outcome.
        states: number of idle states.
        counted: the intervals: their `start_ns` and `length_ns`.
        stopped: as of Played.
    """
    starts, lengths = counted["start_ns"], counted["length_ns"]
    return Played(
        idle_ns=totals.idle_ns,
        span_ns=float(int(starts[-1]) + int(lengths[-1]) - int(starts[0])),
        cost_pj=totals.cost_pj,
        oracle_pj=totals.oracle_pj,
        stopped=stopped,
        **{name: int(getattr(totals, name)) for name in _COUNTS},
        entries=[int(totals.entries[k]) for k in range(states)],
        wakeups=[int(totals.wakeups[k]) for k in range(states)],
        state_ns=[float(totals.state_ns[k]) for k in range(states)],
    )


Count = Callable[[Played, StateTable, Figure], float]


def _part(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def _state(figure: Figure, machine: StateTable) -> int:
    if figure.state not in machine.names:
        names = ", ".join(machine.names)
        raise UserError(f"{figure.kind}: there is no state '{figure.state}'; {names}")
    return machine.names.index(figure.state)


def _latency_us(played: Played, machine: StateTable) -> float:
    """Return the mean exit latency of a wake-up."""
    spent = sum(n * ns for n, ns in zip(played.wakeups, machine.exit_latency_ns, strict=False))
    return spent / max(1, sum(played.wakeups)) / 1000


def _lasts_s(played: Played, machine: StateTable, figure: Figure) -> float:
    """Return the time of wake-ups that wait for each other, s."""
    if figure.a_second <= 0:
        raise UserError(f"{figure.kind}: 'a_second' is missing")
    return figure.wakeups * (1 / figure.a_second + _latency_us(played, machine) / 1e6)


@dataclass(frozen=True)
class Kind:
    """A kind of figure.

    Attributes:
        what: for people; "{state}", "{wakeups}" and "{a_second}" are those of the figure.
        unit: its unit.
        count: works it out.
    """

    what: str
    unit: str
    count: Count


KINDS: dict[str, Kind] = {
    "time": Kind("idle time in {state}", "%",
        lambda p, m, f: _part(p.state_ns[_state(f, m)], sum(p.state_ns))),
    "entries": Kind("idle periods in {state}", "%",
        lambda p, m, f: _part(p.entries[_state(f, m)], sum(p.entries))),
    "above": Kind("idle periods too short for their state", "%",
        lambda p, m, f: _part(p.above, sum(p.entries))),
    "below": Kind("idle periods long enough for a deeper state", "%",
        lambda p, m, f: _part(p.below, sum(p.entries))),
    "misses": Kind("idle periods in the wrong state", "%",
        lambda p, m, f: _part(p.above + p.below, sum(p.entries))),
    "latency": Kind("mean exit latency of a wake-up", "us",
        lambda p, m, f: _latency_us(p, m)),
    "waiting": Kind("exit latency of {wakeups:,} wake-ups", "s",
        lambda p, m, f: _latency_us(p, m) * f.wakeups / 1e6),
    "lasts": Kind("{wakeups:,} wake-ups one after the other, {a_second:,} a second without exit "
        "latency", "s", lambda p, m, f: _lasts_s(p, m, f)),
    "energy": Kind("modelled energy of {wakeups:,} idle intervals", "J",
        lambda p, m, f: f.wakeups * p.cost_pj / max(1, p.intervals) / 1e12),
    "power": Kind("modelled power while idle", "mW",
        lambda p, m, f: p.cost_pj / p.idle_ns if p.idle_ns else 0.0),
    "regret": Kind("regret", "%",
        lambda p, m, f: 100 * (p.cost_pj / p.oracle_pj - 1) if p.oracle_pj else 0.0),
    "asked": Kind("decisions that ask for the sleep length", "%",
        lambda p, m, f: _part(p.asked, p.decisions)),
    "ticks": Kind("ticks that wake the idle CPU", "/s",
        lambda p, m, f: 1e9 * p.ticks / p.span_ns if p.span_ns else 0.0),
    "stopped": Kind("intervals whose first decision stops the tick", "%",
        lambda p, m, f: _part(p.stopped, p.intervals)),
}  # fmt: skip


# Kinds that a recording does not tell: the module asks for the sleep length in each decision.
NOT_RECORDED = ("asked",)


def kind_of(figure: Figure) -> Kind:
    """Return the kind of a figure.

    Raises:
        UserError: there is none of this name.
    """
    if figure.kind not in KINDS:
        raise UserError(f"unknown figure '{figure.kind}'; there are {', '.join(KINDS)}")
    return KINDS[figure.kind]


def title(figure: Figure) -> str:
    """Return what a figure is, without its unit."""
    return kind_of(figure).what.format(**vars(figure))


def value(figure: Figure, played: Played, machine: StateTable) -> float:
    """Return a figure in its unit."""
    return kind_of(figure).count(played, machine, figure)
