# SPDX-License-Identifier: GPL-2.0
"""A causal policy that knows its neighbours, over the choices of a governor.

The last CPU of a domain that goes idle decides for all: its state is the vote that is missing. It
knows the state of each neighbour and when its next timer is due. Past sleeps of the domain give the
chance of a wake-up before that, by the time asleep. So the policy has the expected time to the
first wake-up. It takes the state whose expected energy is least, that of the domains included, and
that of later sleeps which a shallow CPU bars. Each other choice is the governor's. Ends of
intervals, ticks and what the governor learns stay as they were.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cpuidle_lab.domains.account import Array, Stays
from cpuidle_lab.domains.joint import Intervals
from cpuidle_lab.states.costs import Costs, model_of
from cpuidle_lab.states.domains import Domain
from cpuidle_lab.states.table import StateTable

# Times asleep at which chances are kept: two an octave, 1 us to 1 s.
_GRID = np.concatenate([[0.0], 1000.0 * 2 ** (np.arange(41) / 2)])
_STEPS = np.diff(_GRID)
# Part of what was learnt that an interval leaves.
_KEPT = 1 - 1 / 64
# A wake-up so close to its timer is the timer's.
_TIMER_NS = 5000


class _Past:
    """Chance of a CPU to sleep on, by the time asleep, from its past intervals."""

    def __init__(self) -> None:
        self.at_risk = np.zeros(len(_GRID))
        self.ended = np.zeros(len(_GRID))
        self.survival = np.ones(len(_GRID))

    def learn(self, length_ns: int, by_timer: bool) -> None:
        """Add an interval; the timer's wake-up tells of no other one."""
        place = int(np.searchsorted(_GRID, length_ns, side="right")) - 1
        self.at_risk *= _KEPT
        self.ended *= _KEPT
        self.at_risk[: place + 1] += 1
        self.ended[place] += not by_timer
        hazard = self.ended / np.maximum(self.at_risk, 1)
        self.survival = np.concatenate([[1.0], np.cumprod(1 - hazard)[:-1]])

    def sleeps_on(self, age_ns: int) -> Array:
        """Return the chance to sleep for each further time of the grid."""
        if not age_ns:
            return self.survival
        found = np.interp(_GRID + age_ns, _GRID, self.survival)
        left: Array = found / max(float(found[0]), 1e-9)
        return left


def _expected_ns(chance: Array, limit_ns: float) -> float:
    """Return the expected time asleep, if the timer ends it at a limit."""
    slept = np.clip(limit_ns - _GRID[:-1], 0, _STEPS)
    middle = (chance[:-1] + chance[1:]) / 2
    return float(middle @ slept)


class _Machine:
    """The machine at one moment of the walk."""

    def __init__(
        self, tree: Sequence[Domain], tables: Mapping[int, StateTable], cpus: Sequence[int]
    ) -> None:
        self.tree = [domain for domain in tree if {*domain.cpus} & {*cpus}]
        self.costs: dict[int, Costs] = {cpu: model_of(tables[cpu]) for cpu in cpus}
        self.past = {cpu: _Past() for cpu in cpus}
        self.joint = {domain.name: _Past() for domain in self.tree}
        # Of domains: net saving of sleeps that paid, and the time that it is of; when counted last.
        self.saved_pj = dict.fromkeys(self.joint, 0.0)
        self.time_ns = dict.fromkeys(self.joint, 1.0)
        self.counted_ns = dict.fromkeys(self.joint, 0)
        # Of domains whose members are all idle: since when.
        self.since: dict[str, int] = {}
        # Of CPUs that are idle: state, when the interval began, when the next timer is due.
        self.idle: dict[int, tuple[int, int, int]] = {}
        self.members = {
            domain.name: [cpu for cpu in domain.cpus if cpu in self.costs] for domain in self.tree
        }

    def _levels(self, state: Mapping[int, int]) -> dict[str, int]:
        """Return the vote of each domain; its members are all idle in these states."""
        found: dict[str, int] = {}
        for domain in self.tree:
            members = self.members[domain.name]
            if any(cpu not in state for cpu in members):
                found[domain.name] = 0
                continue
            vote = min(
                int(np.searchsorted(domain.needs[cpu], state[cpu], side="right")) for cpu in members
            )
            for name, least in domain.asks.items():
                vote = min(vote, int(np.searchsorted(least, found.get(name, 0), side="right")))
            found[domain.name] = vote
        return found

    def _due(self, domain: Domain) -> int:
        """Return when the first timer of a domain is due."""
        return min(self.idle[one][2] for one in self.members[domain.name])

    def enter(self, cpu: int, state: int, now_ns: int, due_ns: int) -> None:
        """Note that a CPU goes idle, or goes on after a tick."""
        since = self.idle[cpu][1] if cpu in self.idle else now_ns
        self.idle[cpu] = state, since, due_ns
        for domain in self.tree:
            if all(one in self.idle for one in self.members[domain.name]):
                self.since.setdefault(domain.name, now_ns)

    def _count(self, domain: Domain, now_ns: int) -> None:
        """Count a stretch of a domain in which all were idle."""
        costs, name = domain.costs, domain.name
        length = now_ns - self.since[name]
        saved = (costs.power_mw[0] - costs.power_mw[-1]) * length - costs.entry_pj[-1]
        self.saved_pj[name] = _KEPT * self.saved_pj[name] + max(0, saved)
        self.time_ns[name] = _KEPT * self.time_ns[name] + now_ns - self.counted_ns[name]
        self.counted_ns[name] = now_ns

    def wake(self, cpu: int, now_ns: int) -> None:
        """Note that a CPU wakes up, and learn."""
        for domain in self.tree:
            if domain.name in self.since and cpu in self.members[domain.name]:
                self._count(domain, now_ns)
                by_timer = now_ns >= self._due(domain) - _TIMER_NS
                self.joint[domain.name].learn(now_ns - self.since.pop(domain.name), by_timer)
        _, since, due = self.idle.pop(cpu)
        self.past[cpu].learn(now_ns - since, now_ns >= due - _TIMER_NS)

    def _choices(self, cpu: int, chosen: int, last: Sequence[Domain]) -> list[int]:
        """Return the states to weigh: the governor's, and those around a domain's needs."""
        needs = {need for domain in last for need in domain.needs[cpu]}
        return sorted({chosen, *needs, *(need - 1 for need in needs if need > 1)})

    def choose(self, cpu: int, chosen: int, now_ns: int) -> int:
        """Return the state of a CPU that goes idle; it is in `idle` already."""
        last = [
            domain for domain in self.tree
            if cpu in domain.needs and all(one in self.idle for one in self.members[domain.name])
        ]  # fmt: skip
        if not last:
            return chosen
        together = {
            domain.name: _expected_ns(
                self.joint[domain.name].sleeps_on(now_ns - self.since[domain.name]),
                self._due(domain) - now_ns,
            )
            for domain in last
        }
        _, since, due = self.idle[cpu]
        alone = _expected_ns(self.past[cpu].sleeps_on(now_ns - since), due - now_ns)
        own = self.costs[cpu]
        states = {one: state for one, (state, _, _) in self.idle.items()}

        def energy(state: int) -> tuple[float, bool]:
            levels = self._levels(states | {cpu: state})
            total = own.entry_pj[state] + own.power_mw[state] * alone
            for domain in last:
                costs, time_ns = domain.costs, together[domain.name]
                each = [costs.entry_pj[k] + costs.power_mw[k] * time_ns
                        for k in range(levels[domain.name] + 1)]  # fmt: skip
                total += each[-1] if domain.is_bound_to_vote else min(each)
                if levels[domain.name] < domain.depth:
                    # It would bar later sleeps of the others, too, while it sleeps on.
                    rate = self.saved_pj[domain.name] / self.time_ns[domain.name]
                    total += rate * max(0.0, alone - time_ns)
            return total, state != chosen

        return min(self._choices(cpu, chosen, last), key=energy)


def knowing(
    tree: Sequence[Domain],
    tables: Mapping[int, StateTable],
    stays: Mapping[int, Stays],
    intervals: Mapping[int, Intervals],
) -> dict[int, Stays]:
    """Return the stays with the states that a policy which knows its neighbours takes.

    Args:
        tree: domains of the machine.
        tables: idle states of each CPU.
        stays: of a governor.
        intervals: that they are parts of.
    """
    machine = _Machine(tree, tables, list(stays))
    index = {cpu: each.index.copy() for cpu, each in stays.items()}
    # Ends before beginnings: time, 0 or 1, CPU, place.
    events = heapq.merge(
        *(
            zip(each.end_ns.tolist(), [0] * len(each.end_ns), [cpu] * len(each.end_ns),
                range(len(each.end_ns)), strict=True)
            for cpu, each in intervals.items()
        ),
        *(
            zip(each.start_ns.tolist(), [1] * len(each.start_ns), [cpu] * len(each.start_ns),
                range(len(each.start_ns)), strict=True)
            for cpu, each in stays.items()
        ),
    )  # fmt: skip
    for now_ns, begins, cpu, place in events:
        if begins:
            due, chosen = int(stays[cpu].next_ns[place]), int(stays[cpu].index[place])
            machine.enter(cpu, chosen, now_ns, due)
            index[cpu][place] = machine.choose(cpu, chosen, now_ns)
            machine.enter(cpu, int(index[cpu][place]), now_ns, due)
        elif cpu in machine.idle:
            machine.wake(cpu, now_ns)
    return {cpu: replace(each, index=index[cpu]) for cpu, each in stays.items()}


def dearer_pj(
    tables: Mapping[int, StateTable], stays: Mapping[int, Stays], others: Mapping[int, Stays]
) -> float:
    """Return the energy by which CPUs draw more in other states of the same stays."""
    total = 0.0
    for cpu, each in stays.items():
        costs = model_of(tables[cpu])
        entry, power = np.asarray(costs.entry_pj), np.asarray(costs.power_mw)
        length = each.end_ns - each.start_ns
        new, old = others[cpu].index, each.index
        total += float((entry[new] - entry[old] + (power[new] - power[old]) * length).sum())
    return total
