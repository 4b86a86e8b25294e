# SPDX-License-Identifier: GPL-2.0
"""The joint oracle: the cheapest choice of all CPUs together, all intervals being known.

Each CPU in its cheapest state, and each domain at the level that pays best for its deepest members,
is a lower bound. Where a domain never loses by agreeing (the kernel's last man decides, or hardware
that demotes), the CPUs' own best states reach it: no state of a domain pays before those of its
members, and an interval holds the whole stay of the domain. Where hardware enters although the stay
is too short, choices depend on each other. Then dynamic programming over time keeps the cheapest
way to each combination of states.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cpuidle_lab.domains.account import Account, Array, Stays, account, deepest
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.domains import HARDWARE, Domain
from cpuidle_lab.states.table import StateTable

# Combinations of states that are kept at once, at most.
COMBINATIONS_MAX = 4096

# Dearer than anything: a state that is not allowed.
_NEVER_PJ = 1e300

# Energies that differ by less are equal: sums of floating-point numbers.
_SAME = 1e-9


@dataclass(frozen=True)
class Intervals:
    """Intervals of one CPU, in order.

    Attributes:
        start_ns, end_ns: of each.
        cost_pj: of each (rows), the cost of each idle state (columns); a great number where the
            state is not allowed.
    """

    start_ns: Array
    end_ns: Array
    cost_pj: Array

    def _in(self, dearness: Array) -> Stays:
        """Return one stay for each, in the least dear state, the deepest of equals."""
        index = dearness.shape[1] - 1 - np.argmin(dearness[:, ::-1], axis=1)
        return Stays(self.start_ns, self.end_ns, index, self.end_ns)

    def cheapest(self) -> Stays:
        """Return one stay for each, in its cheapest state."""
        return self._in(self.cost_pj)

    def deepest(self) -> Stays:
        """Return one stay for each, in the deepest state that is allowed."""
        return self._in(self.cost_pj == _NEVER_PJ)


@dataclass(frozen=True)
class Joint:
    """The joint oracle.

    Attributes:
        cost_pj: of all CPUs and domains together, or a lower bound of it.
        own_pj: cost if each CPU takes its own best states.
        is_exact: the cost is no bound.
    """

    cost_pj: float
    own_pj: float
    is_exact: bool


def intervals_of(
    table: StateTable, start_ns: Array, length_ns: Array, latency_req_ns: Array, disabled: Array
) -> Intervals:
    """Return intervals with the cost of each state, by the limits that replay's oracle keeps.

    Args:
        table: idle states of the CPU.
        start_ns: when each began.
        length_ns: of each.
        latency_req_ns: latency request of each.
        disabled: bit k is set if state k was disabled.
    """
    costs, states = model_of(table), np.arange(table.count)
    each = np.asarray(costs.entry_pj) + np.asarray(costs.power_mw) * length_ns[:, None]
    enabled = (disabled[:, None] >> states) & 1 == 0
    in_time = np.asarray(table.exit_latency_ns) <= latency_req_ns[:, None]
    allowed = enabled & (in_time | (states == 0))
    allowed |= ~allowed.any(axis=1)[:, None] & (states == 0)
    return Intervals(start_ns, start_ns + length_ns, np.where(allowed, each, _NEVER_PJ))


def accounts_of(
    tree: Sequence[Domain], stays: Mapping[int, Stays], first_ns: int, last_ns: int
) -> dict[str, Account]:
    """Return the accounts of all domains that have a known CPU, by name."""
    found: dict[str, Account] = {}
    for domain in tree:
        if any(cpu in stays for cpu in domain.cpus):
            found[domain.name] = account(domain, stays, found, first_ns, last_ns)
    return found


def idle_pj(accounts: Mapping[str, Account]) -> float:
    """Return the energy of domains while all of their CPUs are idle."""
    return sum(each.energy_pj(each.idle) for each in accounts.values())


def _span(given: Mapping[int, Intervals]) -> tuple[int, int]:
    told = [each for each in given.values() if len(each.start_ns)]
    first = min(int(each.start_ns[0]) for each in told)
    return first, max(int(each.end_ns[-1]) for each in told)


def _agreeing(tree: Sequence[Domain]) -> list[Domain]:
    """Return the domains, as if each left out a sleep that does not pay."""
    return [
        replace(domain, rule=replace(domain.rule, decides=HARDWARE, demotes=True))
        for domain in tree
    ]


class _Programme:
    """The cheapest way to each combination of states, over time.

    Only the thresholds of the domains tell states of a CPU apart: its classes. An axis is a CPU; it
    has one place while the CPU runs.
    """

    def __init__(self, tree: Sequence[Domain], given: Mapping[int, Intervals]) -> None:
        self._cpus = list(given)
        self._given = given
        self._tree = [domain for domain in tree if any(cpu in given for cpu in domain.cpus)]
        self._classes = {cpu: self._class_of(cpu) for cpu in self._cpus}
        self._votes = {domain.name: self._vote(domain) for domain in self._tree}

    def _class_of(self, cpu: int) -> Array:
        """Return the class of each idle state of a CPU."""
        needs = sorted({need for each in self._tree for need in each.needs.get(cpu, ())})
        states = np.arange(self._given[cpu].cost_pj.shape[1])
        found: Array = np.searchsorted(np.asarray(needs, np.int64), states, side="right")
        return found

    @property
    def combinations(self) -> float:
        """Number of combinations if all CPUs are idle."""
        return float(np.prod([float(each.max() + 1) for each in self._classes.values()]))

    def _vote(self, domain: Domain) -> Array:
        """Return the vote of each combination of classes."""
        vote: Array = np.full((1,) * len(self._cpus), domain.depth)
        for axis, cpu in enumerate(self._cpus):
            if cpu in domain.needs:
                classes = self._classes[cpu]
                first = np.searchsorted(classes, np.arange(classes.max() + 1))
                mine = np.searchsorted(np.asarray(domain.needs[cpu]), first, side="right")
                shape = [1] * len(self._cpus)
                shape[axis] = len(mine)
                vote = np.minimum(vote, mine.reshape(shape))
        return vote

    def _entering(self, cpu: int) -> Array:
        """Return the cost of each class of a CPU (columns) in each of its intervals (rows)."""
        classes, cost = self._classes[cpu], self._given[cpu].cost_pj
        return np.stack(
            [cost[:, classes == k].min(axis=1) for k in range(int(classes.max()) + 1)], axis=1
        )

    def _events(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield time, 1 at a begin and 0 at an end, axis, and number of the interval."""
        rows = [
            np.stack([when, np.full(len(when), kind), np.full(len(when), axis),
                      np.arange(len(when))], axis=1)
            for axis, cpu in enumerate(self._cpus)
            for kind, when in ((1, self._given[cpu].start_ns), (0, self._given[cpu].end_ns))
        ]  # fmt: skip
        every = np.concatenate(rows).astype(np.int64)
        order = np.lexsort((every[:, 1], every[:, 0]))
        yield from map(tuple, every[order].tolist())

    def _slept(self, domain: Domain, length_ns: int) -> Array:
        """Return the cost of a domain's stay for each combination of classes."""
        level = self._votes[domain.name]
        if not domain.is_bound_to_vote:
            level = deepest(np.asarray(domain.targets_ns), level, np.asarray(length_ns))
        costs = domain.costs
        power, entry = np.asarray(costs.power_mw), np.asarray(costs.entry_pj)
        found: Array = entry[level] + power[level] * length_ns
        return found

    def cost_pj(self) -> float:
        """Return the cost of the cheapest way."""
        best: Array = np.zeros((1,) * len(self._cpus))
        entering = [self._entering(cpu) for cpu in self._cpus]
        shapes = [[-1 if n == axis else 1 for n in range(len(self._cpus))]
                  for axis in range(len(self._cpus))]  # fmt: skip
        since: dict[int, int] = {}
        members = [
            [axis for axis, cpu in enumerate(self._cpus) if cpu in domain.cpus]
            for domain in self._tree
        ]
        for now, begins, axis, number in self._events():
            if begins:
                since[axis] = now
                best = best + entering[axis][number].reshape(shapes[axis])
                continue
            for domain, axes in zip(self._tree, members, strict=True):
                if axis in axes and all(each in since for each in axes):
                    length = now - max(since[each] for each in axes)
                    best = best + self._slept(domain, length) if length else best
            del since[axis]
            best = best.min(axis=axis, keepdims=True)
        return float(best.item())


def joint(tree: Sequence[Domain], given: Mapping[int, Intervals]) -> Joint:
    """Return the joint oracle of some intervals.

    Args:
        tree: the domains, each after those within it.
        given: intervals by CPU; CPUs that are not there count as asleep.
    """
    span, agreeing = _span(given), _agreeing(tree)
    cheapest = {cpu: each.cheapest() for cpu, each in given.items()}
    deepest_pj = idle_pj(
        accounts_of(agreeing, {cpu: each.deepest() for cpu, each in given.items()}, *span)
    )
    alone = sum(float(each.cost_pj.min(axis=1).sum()) for each in given.values())
    bound = [domain.is_bound_to_vote for domain in tree]
    own = alone + idle_pj(accounts_of(tree if any(bound) else agreeing, cheapest, *span))
    least = alone + deepest_pj
    if own <= least * (1 + _SAME):
        return Joint(own, own, True)
    programme = _Programme(tree, given)
    if len(set(bound)) == 1 and programme.combinations <= COMBINATIONS_MAX:
        return Joint(programme.cost_pj(), own, True)
    return Joint(least, own, False)
