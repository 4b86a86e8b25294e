# SPDX-License-Identifier: GPL-2.0
"""The account of a domain: its stretches, in each of which no member changes, and its sleeps.

A stretch in which all members are idle is one stay of all of them. So a sleep of the domain is one
stretch: a member that asks for another state wakes up before. Times are in ns, energies in pJ.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpuidle_lab.states.domains import KERNEL, Domain

Array = npt.NDArray[Any]

# In place of the next timer of a CPU that has none, or of which nothing tells.
FAR = 2**62


@dataclass(frozen=True)
class Stays:
    """Idle periods of one CPU, in order, none within another.

    Attributes:
        start_ns, end_ns: of each.
        index: its idle state.
        next_ns: when the CPU's next timer or tick is due, as the kernel knew it; FAR: none.
    """

    start_ns: Array
    end_ns: Array
    index: Array
    next_ns: Array

    def within(self, first_ns: int, last_ns: int) -> "Stays":
        """Return the parts within a span of time."""
        kept = (self.end_ns > first_ns) & (self.start_ns < last_ns)
        return Stays(
            np.maximum(self.start_ns[kept], first_ns),
            np.minimum(self.end_ns[kept], last_ns),
            self.index[kept],
            self.next_ns[kept],
        )


@dataclass(frozen=True)
class Account:
    """The time of a domain in stretches, one after the other.

    Attributes:
        domain: the domain.
        cpus: those of its CPUs that are known.
        edges_ns: where stretches begin, and the end of the last.
        idle: all members are idle.
        deep: number of members that are deep enough for the deepest state.
        vote: the deepest level that all members are deep enough for; level 0 is up.
        level: the level that the domain is at.
        ender: place in `cpus` of the member that changed at the end.
    """

    domain: Domain
    cpus: tuple[int, ...]
    edges_ns: Array
    idle: Array
    deep: Array
    vote: Array
    level: Array
    ender: Array

    @property
    def length_ns(self) -> Array:
        """Length of each stretch."""
        return np.diff(self.edges_ns)

    @property
    def pays(self) -> Array:
        """Mark stretches in which a sleep at the level of the vote would pay."""
        targets = np.asarray(self.domain.targets_ns)
        found: Array = (self.vote > 0) & (self.length_ns >= targets[self.vote])
        return found

    def level_ns(self) -> Array:
        """Return the time at each level."""
        return np.bincount(self.level, self.length_ns, self.domain.depth + 1)

    def energy_pj(self, which: Array | None = None) -> float:
        """Return the energy of some stretches, or of all."""
        costs = self.domain.costs
        power, entry = np.asarray(costs.power_mw), np.asarray(costs.entry_pj)
        each = power[self.level] * self.length_ns + entry[self.level]
        return float(each.sum() if which is None else each[which].sum())


def deepest(targets: Array, vote: Array, length_ns: Array) -> Array:
    """Return the deepest level up to a vote that a length reaches the target of."""
    reached = np.searchsorted(targets, length_ns, side="right") - 1
    return np.minimum(np.maximum(reached, 0), vote)


def _limited(domain: Domain, below: Mapping[str, Account], edges: Array, vote: Array) -> Array:
    """Return votes that the levels of the domains below allow: these may have stayed up."""
    for name, least in domain.asks.items():
        child = below[name]
        if child.domain.is_bound_to_vote or not len(vote):
            continue
        place = np.searchsorted(child.edges_ns, edges[:-1], side="right") - 1
        level = child.level[np.clip(place, 0, len(child.level) - 1)]
        vote = np.minimum(vote, np.searchsorted(np.asarray(least), level, side="right"))
    return vote


def _next_ns(stays: Mapping[int, Stays], at_ns: Array) -> Array:
    """Return when the first timer of all CPUs is due, at times at which all are idle."""
    found = np.full(len(at_ns), FAR)
    for each in stays.values():
        if len(each.start_ns):
            place = np.searchsorted(each.start_ns, at_ns, side="right") - 1
            found = np.minimum(found, each.next_ns[np.maximum(place, 0)])
    return found


def _levels(domain: Domain, stays: Mapping[int, Stays], edges: Array, vote: Array) -> Array:
    """Return the level that the domain enters in each stretch."""
    targets, length = np.asarray(domain.targets_ns), np.diff(edges)
    if domain.is_bound_to_vote:
        return vote
    if domain.rule.decides == KERNEL:
        # As drivers/pmdomain/governor.c: residency and time to go down fit before the next timer.
        entry = np.asarray([0, *(state.entry_latency_ns for state in domain.rule.states)])
        left = _next_ns(stays, edges[:-1]) - edges[:-1]
        level = np.zeros_like(vote)
        for k in range(1, domain.depth + 1):
            level = np.where((vote >= k) & (left >= targets[k] + entry[k]), k, level)
        return level
    return deepest(targets, vote, length)


def account(
    domain: Domain,
    stays: Mapping[int, Stays],
    below: Mapping[str, Account],
    first_ns: int,
    last_ns: int,
) -> Account:
    """Return the account of a domain over a span of time.

    Args:
        domain: the domain.
        stays: by CPU, idle periods within the span; CPUs that are not there count as asleep.
        below: accounts of the domains below it, over the same span.
        first_ns: where the span begins.
        last_ns: where it ends.
    """
    cpus = tuple(cpu for cpu in domain.cpus if cpu in stays)
    depth = domain.depth
    times, kinds, deltas, places = [], [], [], []
    for place, cpu in enumerate(cpus):
        mine = stays[cpu]
        level = np.searchsorted(np.asarray(domain.needs[cpu]), mine.index, side="right")
        delta = (level[:, None] >= np.arange(depth + 1)).astype(np.int32)
        for kind, when, sign in ((1, mine.start_ns, 1), (0, mine.end_ns, -1)):
            times.append(when)
            kinds.append(np.full(len(when), kind, np.uint8))
            deltas.append(sign * delta)
            places.append(np.full(len(when), place, np.int32))
    when = np.concatenate([np.zeros(0, np.int64), *times])
    order = np.lexsort((np.concatenate([np.zeros(0, np.uint8), *kinds]), when))
    table = np.concatenate([np.zeros((0, depth + 1), np.int32), *deltas])[order]
    counts = np.concatenate([np.zeros((1, depth + 1), np.int32), np.cumsum(table, axis=0)])
    edges = np.concatenate([[first_ns], when[order], [last_ns]]).astype(np.int64)
    ender = np.concatenate([np.concatenate([np.zeros(0, np.int32), *places])[order], [0]])
    kept = np.diff(edges) > 0
    mine_stays = {cpu: stays[cpu] for cpu in cpus}
    starts = edges[:-1][kept]
    edges = np.append(starts, last_ns)
    counts, ender = counts[kept], ender[kept]
    vote = (counts[:, 1:] == len(cpus)).sum(axis=1)
    vote = _limited(domain, below, edges, vote)
    return Account(
        domain,
        cpus,
        edges,
        counts[:, 0] == len(cpus),
        counts[:, depth],
        vote,
        _levels(domain, mine_stays, edges, vote),
        ender,
    )
