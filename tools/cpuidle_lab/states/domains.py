# SPDX-License-Identifier: GPL-2.0
"""Domains: CPUs that share a part of the machine, which sleeps if all of them sleep deep enough.

Rules say which domains a machine has; grown over the CPUs of a machine they are a tree.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from cpuidle_lab.states.costs import Costs, model_of
from cpuidle_lab.states.table import StateTable

HARDWARE, KERNEL = "hardware", "kernel"
ALL = "all"
# The domain is awake: the first state of its table of costs.
UP = "up"


@dataclass(frozen=True)
class DomainState:
    """A way for a domain to sleep.

    Attributes:
        name: of the state.
        entry_latency_ns: time to go down, in which no CPU runs.
        exit_latency_ns: added to the exit latency of the member that wakes up.
        target_residency_ns: shortest stay that is cheaper than in the next shallower one.
        power_uw: power of the domain in it.
        needs: names of a state that a member must be in at least: the first that it has counts.
    """

    name: str
    entry_latency_ns: int
    exit_latency_ns: int
    target_residency_ns: int
    power_uw: int
    needs: tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """A domain, or a row of domains of as many CPUs each.

    Attributes:
        name: of the domain; in a row a number follows.
        cpus: its CPUs in text (0-3,8), "all", or "every N".
        decides: HARDWARE (shallowest vote of the members) or KERNEL (last man down).
        demotes: the hardware leaves out a state that does not pay, as if it knew the stay.
        power_uw: power while it is up.
        states: its states, shallowest first.
        source: where the figures are from.
    """

    name: str
    cpus: str
    decides: str
    demotes: bool
    power_uw: int
    states: tuple[DomainState, ...]
    source: str


@dataclass(frozen=True)
class Domain:
    """A domain of a machine.

    Attributes:
        name: of the domain.
        cpus: its CPUs.
        rule: of the machine file.
        needs: by CPU whose idle states are known, the least number of its state for each of the
            domain's states.
        asks: by domain right below it, the least of its levels for each of them; level 0 is up.
    """

    name: str
    cpus: tuple[int, ...]
    rule: Rule
    needs: Mapping[int, tuple[int, ...]]
    asks: Mapping[str, tuple[int, ...]]

    @cached_property
    def costs(self) -> Costs:
        """Powers and prices of entry, the first of being up."""
        states = self.rule.states
        return model_of(
            StateTable(
                (UP, *(state.name for state in states)),
                (0, *(state.exit_latency_ns for state in states)),
                self.targets_ns,
                (self.rule.power_uw, *(state.power_uw for state in states)),
                (False,) * (len(states) + 1),
                0,
            )
        )

    @property
    def targets_ns(self) -> tuple[int, ...]:
        """Target residencies, the first of being up."""
        return (0, *(state.target_residency_ns for state in self.rule.states))

    @property
    def exits_ns(self) -> tuple[int, ...]:
        """Exit latencies, likewise."""
        return (0, *(state.exit_latency_ns for state in self.rule.states))

    @property
    def depth(self) -> int:
        """Number of states, being up left out."""
        return len(self.rule.states)

    @property
    def is_bound_to_vote(self) -> bool:
        """The hardware enters whatever the members vote for, however short the stay."""
        return self.rule.decides == HARDWARE and not self.rule.demotes


def _names(rule: Rule, cpus: Sequence[int], lists: Mapping[str, tuple[int, ...]]) -> Iterable[
    tuple[str, tuple[int, ...]]
]:  # fmt: skip
    """Yield name and CPUs of each domain of a rule."""
    if rule.cpus == ALL:
        yield rule.name, tuple(cpus)
    elif rule.cpus.startswith("every "):
        size = int(rule.cpus.split()[1])
        for first in range(0, len(cpus), size):
            yield f"{rule.name}{first // size}", tuple(cpus[first : first + size])
    else:
        yield rule.name, lists[rule.name]


def _check_apart(name: str, cpus: set[int], others: Mapping[str, set[int]]) -> None:
    for other, theirs in others.items():
        if other == name:
            raise ValueError(f"two domains are called '{name}'")
        if cpus & theirs and not (cpus <= theirs or theirs <= cpus):
            raise ValueError(
                f"'{name}' and '{other}' share CPU {min(cpus & theirs)}, but neither is within the "
                "other: that is no tree"
            )


def _least(
    name: str, state: DomainState, member: str, names: Sequence[str], targets: Sequence[int]
) -> int:
    """Return the number of the state that a member must be in at least."""
    found = next((names.index(need) for need in state.needs if need in names), None)
    if found is None:
        needs = " or ".join(f"'{need}'" for need in state.needs)
        raise ValueError(
            f"state '{state.name}' of '{name}' needs {needs}, but {member} has none: it has "
            f"{', '.join(names)}"
        )
    if state.target_residency_ns < targets[found]:
        raise ValueError(
            f"state '{state.name}' of '{name}' pays from {state.target_residency_ns / 1000:g} us "
            f"on, before '{names[found]}' of {member}, which pays from "
            f"{targets[found] / 1000:g} us on"
        )
    return found


def _rising(
    name: str, rule: Rule, member: str, names: Sequence[str], targets: Sequence[int]
) -> tuple[int, ...]:
    """Return the number of the least state of a member for each of the domain's states."""
    least = [_least(name, state, member, names, targets) for state in rule.states]
    for (low, one), (high, other) in pairwise(zip(least, rule.states, strict=True)):
        if high < low:
            raise ValueError(
                f"state '{other.name}' of '{name}' needs less of {member} than the shallower "
                f"'{one.name}'"
            )
    return tuple(least)


def _joined(
    name: str,
    rule: Rule,
    cpus: tuple[int, ...],
    children: Sequence[Domain],
    tables: Mapping[int, StateTable],
) -> Domain:
    """Return a domain over its children and the CPUs that are in none of them."""
    needs: dict[int, tuple[int, ...]] = {}
    asks: dict[str, tuple[int, ...]] = {}
    for child in children:
        names = [state.name for state in child.rule.states]
        least = _rising(name, rule, f"'{child.name}'", names, child.targets_ns[1:])
        asks[child.name] = tuple(k + 1 for k in least)
        needs |= {cpu: tuple(deep[k] for k in least) for cpu, deep in child.needs.items()}
    for cpu in cpus:
        if cpu in tables and cpu not in needs:
            table = tables[cpu]
            needs[cpu] = _rising(name, rule, f"CPU {cpu}", table.names, table.target_residency_ns)
    return Domain(name, cpus, rule, needs, asks)


def grow(
    rules: Sequence[Rule],
    cpus: Sequence[int],
    tables: Mapping[int, StateTable],
    lists: Mapping[str, tuple[int, ...]],
) -> list[Domain]:
    """Return the domains of a machine, each after those within it.

    Args:
        rules: which there are; of two with the same CPUs, the first is within the second.
        cpus: CPUs of the machine, sorted.
        tables: idle states of the CPUs that are known.
        lists: by the name of a rule, its CPUs, where the rule lists them.

    Raises:
        ValueError: they are no tree, or a state needs what no member has; one sentence.
    """
    sets: dict[str, set[int]] = {}
    made: list[tuple[str, tuple[int, ...], Rule]] = []
    for rule in rules:
        for name, mine in _names(rule, cpus, lists):
            _check_apart(name, set(mine), sets)
            sets[name] = set(mine)
            made.append((name, mine, rule))
    found: list[Domain] = []
    for name, mine, rule in sorted(made, key=lambda each: len(each[1])):
        below = [each for each in found if sets[each.name] <= sets[name]]
        inner = {child for each in below for child in each.asks}
        children = [each for each in below if each.name not in inner]
        found.append(_joined(name, rule, mine, children, tables))
    return found
