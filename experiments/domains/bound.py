# SPDX-License-Identifier: GPL-2.0
"""A bound on causal policies: the least expected energy that the past of each CPU allows.

A CPU knows its next timer and the intervals that it had in a context, so it has the chances of each
length (Kaplan and Meier's estimate: a timer that ended an interval says only that nothing else came
before). It may choose again once, at the best time within a tick. Each domain's saving is shared
evenly by its members, and a member that is deep enough takes the others to be so. Domains enter no
state that does not pay. No share is larger than what agreeing saves, so the sum of what each CPU
can reach alone is a lower bound of what all can reach together.

The neighbours' intervals are foreseen, or known on the mean. CPUs must not depend on each other,
because then a neighbour's future tells the CPU's own. The context is the octave of the interval
before. The chances hold each interval once, its own with them, so they tell slightly too much.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cpuidle_lab.domains.account import FAR, Array
from cpuidle_lab.domains.joint import Intervals
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.domains import Domain
from cpuidle_lab.states.table import StateTable

# A wake-up so close to its timer is the timer's.
_TIMER_NS = 5000
# Intervals that are looked at together.
_ROWS = 128
# Lengths at which the mean saving is known: 16 an octave, up to 17 minutes.
_GRID = np.concatenate([[0.0], 1000.0 * 2 ** (np.arange(481) / 16)])

# Saving of each level of a domain (first axis) by ends of an interval (the others), given begins.
Saving = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class _Windows:
    """Times in which all other members of a domain are idle, and the savings of its levels.

    Attributes:
        begin_ns, end_ns: of each.
        power_mw, entry_pj: saved while at a level, and the price of entering it.
        share: of the saving that a member has.
    """

    begin_ns: Array
    end_ns: Array
    power_mw: Array
    entry_pj: Array
    share: float

    def _net(self, length_ns: Array) -> Array:
        """Return the share of the best saving at each level or above it in windows of a length."""
        shape = (-1,) + (1,) * length_ns.ndim
        each = self.power_mw.reshape(shape) * length_ns - self.entry_pj.reshape(shape)
        found: Array = self.share * np.maximum.accumulate(np.maximum(each, 0), axis=0)
        return found

    def saving(self, begin_ns: Array, end_ns: Array) -> Array:
        """Return savings by level, of intervals from a begin (rows) to several ends (columns)."""
        if not len(self.end_ns):
            return np.zeros((len(self.power_mw), *end_ns.shape))
        whole = self._net(self.end_ns - self.begin_ns)
        before = np.concatenate([np.zeros((len(whole), 1)), np.cumsum(whole, axis=1)], axis=1)
        first = np.searchsorted(self.end_ns, begin_ns, side="right")
        last = np.searchsorted(self.begin_ns, end_ns, side="left") - 1
        place = np.clip(first, 0, len(self.end_ns) - 1)
        started = np.maximum(self.begin_ns[place], begin_ns)
        # The window that is on at the begin counts from there, the last one up to the end.
        early = self._net(np.maximum(self.end_ns[place] - started, 0))
        last_place = np.clip(last, 0, len(self.end_ns) - 1)
        open_ns = np.minimum(self.end_ns[last_place], end_ns) - np.maximum(
            self.begin_ns[last_place], begin_ns[:, None]
        )
        late = self._net(np.maximum(open_ns, 0))
        between = (
            before[:, last_place] - before[:, np.minimum(place + 1, len(self.end_ns))][:, :, None]
        )
        several = last > first[:, None]
        found = late + np.where(several, between + early[:, :, None], 0)
        return np.where(last >= first[:, None], found, 0)


def _together(others: Sequence[Intervals]) -> tuple[Array, Array]:
    """Return begins and ends of the times in which all are idle, each without a wake-up."""
    if not others:
        return np.array([-FAR]), np.array([FAR])
    when = np.concatenate([part for one in others for part in (one.start_ns, one.end_ns)])
    step = np.concatenate([np.full(len(one.start_ns), sign) for one in others for sign in (1, -1)])
    order = np.lexsort((step, when))
    idle = np.cumsum(step[order]) == len(others)
    begin = np.flatnonzero(idle[:-1])
    return when[order][begin], when[order][begin + 1]


def _windows(domain: Domain, cpu: int, intervals: Mapping[int, Intervals]) -> _Windows:
    members = [one for one in domain.cpus if one in intervals]
    begin, end = _together([intervals[one] for one in members if one != cpu])
    power, entry = np.asarray(domain.costs.power_mw), np.asarray(domain.costs.entry_pj)
    return _Windows(begin, end, power[0] - power, entry, 1 / len(members))


def _foreseen(windows: _Windows, start_ns: Array) -> Saving:
    """Return the saving of a CPU that foresees its neighbours."""
    del start_ns
    return windows.saving


def _on_the_mean(windows: _Windows, start_ns: Array) -> Saving:
    """Return the saving of a CPU that knows its neighbours on the mean, from these begins."""
    total = np.zeros((len(windows.power_mw), len(_GRID)))
    for first in range(0, len(start_ns), _ROWS):
        begin = start_ns[first : first + _ROWS]
        total += windows.saving(begin, begin[:, None] + _GRID).sum(axis=1)
    mean = total / len(start_ns)

    def saving(begin_ns: Array, end_ns: Array) -> Array:
        length = end_ns - begin_ns[:, None]
        return np.stack([np.interp(length, _GRID, level) for level in mean])

    return saving


def _chances(length_ns: Array, by_timer: Array) -> tuple[Array, Array]:
    """Return the lengths that others than timers may end, and the chance of each.

    The last length is for ever: nothing but the timer ends the interval.
    """
    order = np.lexsort((by_timer, length_ns))
    at_risk = np.arange(len(order), 0, -1)
    hazard = np.where(by_timer[order], 0, 1 / at_risk)
    left = np.concatenate([[1.0], np.cumprod(1 - hazard)])
    ended = ~by_timer[order]
    lengths = np.concatenate([length_ns[order][ended].astype(float), [float(FAR)]])
    chance = np.concatenate([(left[:-1] - left[1:])[ended], left[-1:]])
    return lengths, chance


@dataclass(frozen=True)
class _Cpu:
    """One CPU: its states' costs, and the saving of each domain with the states' votes."""

    power_mw: Array
    entry_pj: Array
    savings: Sequence[tuple[Saving, Array]]
    tick_ns: int

    def _gains(self, begin_ns: Array, end_ns: Array) -> Array:
        """Return the shares of all domains' savings, by idle state."""
        found: Array = np.zeros((len(self.power_mw), *end_ns.shape))
        for saving, votes in self.savings:
            found += saving(begin_ns, end_ns)[votes]
        return found

    def least_pj(self, begin_ns: Array, timer_ns: Array, lengths: Array, chance: Array) -> float:
        """Return the least expected cost of intervals whose lengths have these chances.

        Args:
            begin_ns: of each interval.
            timer_ns: when its timer is due, from its begin.
            lengths: of intervals without timers, ascending.
            chance: of each.
        """
        ends = np.minimum(lengths, timer_ns[:, None])
        power, entry = self.power_mw[:, None, None], self.entry_pj[:, None]
        each = power * ends - self._gains(begin_ns, begin_ns[:, None] + ends)
        through = entry + each @ chance
        # Until a time, at which the rest has this chance; and from then on in another state.
        later = 1 - np.cumsum(chance)
        until = np.cumsum(each * chance, axis=2) + each * later
        rest = through[:, :, None] - entry[:, :, None] - until + entry[:, :, None] * later
        again = (entry[:, :, None] + until).min(axis=0) + rest.min(axis=0)
        again = np.where(ends <= self.tick_ns, again, np.inf)
        return float(np.minimum(through.min(axis=0), again.min(axis=1)).sum())


def _contexts(intervals: Intervals) -> Iterator[Array]:
    """Yield the places of the intervals of each context: the octave of the one before."""
    length = intervals.end_ns - intervals.start_ns
    octave = np.log2(np.maximum(length, 1)).astype(int)
    before = np.concatenate([[-1], octave[:-1]])
    for one in np.unique(before):
        yield np.flatnonzero(before == one)


def _least_pj(cpu: _Cpu, intervals: Intervals, timer_ns: Array) -> float:
    length = intervals.end_ns - intervals.start_ns
    by_timer = length >= timer_ns - _TIMER_NS
    total = 0.0
    for places in _contexts(intervals):
        lengths, chance = _chances(length[places], by_timer[places])
        for first in range(0, len(places), _ROWS):
            some = places[first : first + _ROWS]
            total += cpu.least_pj(intervals.start_ns[some], timer_ns[some], lengths, chance)
    return total


def least_pj(
    tree: Sequence[Domain],
    tables: Mapping[int, StateTable],
    intervals: Mapping[int, Intervals],
    timers_ns: Mapping[int, Array],
    foreseen: bool,
) -> float:
    """Return the bound, without the energy of domains that are up while their members are idle.

    Args:
        tree: domains of the machine.
        tables: idle states of each CPU.
        intervals: of each CPU; all states are allowed.
        timers_ns: of each CPU, the time from the begin of each interval to its timer.
        foreseen: the neighbours' intervals are, in place of their mean.
    """
    total = 0.0
    for cpu, own in intervals.items():
        costs, savings = model_of(tables[cpu]), []
        for domain in tree:
            if cpu in domain.needs:
                windows = _windows(domain, cpu, intervals)
                states = np.arange(tables[cpu].count)
                votes = np.searchsorted(np.asarray(domain.needs[cpu]), states, side="right")
                way = _foreseen if foreseen else _on_the_mean
                savings.append((way(windows, own.start_ns), votes))
        one = _Cpu(np.asarray(costs.power_mw), np.asarray(costs.entry_pj), savings,
                   tables[cpu].tick_ns)  # fmt: skip
        total += _least_pj(one, own, timers_ns[cpu])
    return total


def up_pj(tree: Sequence[Domain], intervals: Mapping[int, Intervals]) -> float:
    """Return the energy of domains that stay up while their members are idle."""
    total = 0.0
    for domain in tree:
        members = [intervals[cpu] for cpu in domain.cpus if cpu in intervals]
        if members:
            begin, end = _together(members)
            total += domain.costs.power_mw[0] * float((end - begin).sum())
    return total
