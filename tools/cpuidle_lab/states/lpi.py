# SPDX-License-Identifier: GPL-2.0
"""Domains of a machine whose firmware tells idle states by ACPI _LPI, from its files.

As drivers/acpi/processor_idle.c: an idle state of a CPU that lets a container of CPUs sleep, too,
has both names in its description, as in "core-off+cluster-off". Its exit latency is the sum of both
parts, and its target residency the longer one. The hardware takes the shallowest vote of a
container's CPUs. The innermost container is taken for the cluster, where the kernel knows clusters.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, pairwise

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.sysfs import Tree, cpu_list
from cpuidle_lab.states.device_trees import Found
from cpuidle_lab.states.domains import HARDWARE, DomainState, Rule

_CPUS = "/sys/devices/system/cpu"
_PREFIX = "LPI-"
# As long as the kernel's descriptions are at most (ACPI_CX_DESC_LEN, with the end).
_DESCRIPTION_MOST = 31
# The kernel writes these for a CPU of no cluster.
_NO_CLUSTER = ("", "-1", "65535")


@dataclass(frozen=True)
class _State:
    """An idle state of a CPU: its own part, and those of the containers around it."""

    name: str
    parts: tuple[str, ...]
    exit_us: int
    target_us: int


def _states(tree: Tree, cpu: str) -> list[_State]:
    """Return the idle states of a CPU that firmware describes by _LPI.

    Raises:
        UserError: a description may have been cut, so its containers are not known.
    """
    found = []
    for k in count():
        folder = f"{_CPUS}/{cpu}/cpuidle/state{k}"
        name, text, leave, target = (
            tree.read(f"{folder}/{key}") or "" for key in ("name", "desc", "latency", "residency")
        )
        if not name:
            break
        if name.startswith(_PREFIX) and leave.isdecimal() and target.isdecimal():
            if len(text) >= _DESCRIPTION_MOST and "+" in text:
                raise UserError(f"{cpu}: the kernel cut the description of {name}: '{text}'")
            found.append(_State(name, tuple(text.split("+")), int(leave), int(target)))
    return found


def _places(tree: Tree, cpu: str) -> list[str]:
    """Return the containers that a CPU is in, the innermost first."""
    cluster, package = (
        tree.read(f"{_CPUS}/{cpu}/topology/{key}") or ""
        for key in ("cluster_id", "physical_package_id")
    )
    told = [f"package {package}", "machine"]
    return told if cluster in _NO_CLUSTER else [f"cluster {package}.{cluster}", *told]


def _exit_us(states: Sequence[_State], state: _State, level: int) -> int:
    """Return the part of an exit latency that is of the container at a level.

    Where no state has the inner parts alone, the whole rest is of the innermost container.
    """
    known = {each.parts: each.exit_us for each in states if len(each.parts) <= level + 1}
    whole = known.get(state.parts[: level + 1], state.exit_us)
    if (inner := known.get(state.parts[:level])) is not None:
        return max(0, whole - inner)
    cores = [each.exit_us for each in states if len(each.parts) == 1 and each.exit_us <= whole]
    return whole - max(cores, default=0) if level == 1 else 0


def _domain_states(states: Sequence[_State], level: int) -> list[DomainState]:
    """Return the states of the containers of a level, 1 is the innermost.

    One that lets those around it sleep, too, is a state of its own, as the CPUs ask for it.
    """
    found: dict[str, DomainState] = {}
    for state in states:
        name = "+".join(state.parts[level:]).strip("+")
        if name and name not in found:
            leave_ns, target_ns = 1000 * _exit_us(states, state, level), 1000 * state.target_us
            needs = state.name if level == 1 else "+".join(state.parts[level - 1 :])
            found[name] = DomainState(name, 0, leave_ns, target_ns, 0, (needs,))
    return list(found.values())


def read(tree: Tree, name: str) -> list[Found]:
    """Return the domains of a machine, each after those within it.

    Powers are 0: no file tells one. Nor does one tell the time to go down, which is 0, too.

    Args:
        tree: files of the machine.
        name: of the machine, for messages and as the source.

    Raises:
        UserError: no idle state tells a domain, or the CPUs of one differ.
    """
    numbers = sorted(int(cpu[3:]) for cpu in tree.names(_CPUS) if cpu[3:].isdecimal())
    tables = {cpu: _states(tree, f"cpu{cpu}") for cpu in numbers}
    places = {cpu: _places(tree, f"cpu{cpu}") for cpu in numbers}
    depth = max((len(state.parts) for table in tables.values() for state in table), default=0)
    found: list[Found] = []
    for level in range(1, depth):
        groups: dict[str, list[int]] = {}
        for cpu in numbers:
            if any(len(state.parts) > level for state in tables[cpu]):
                place = places[cpu][min(level, len(places[cpu])) - 1]
                groups.setdefault(place, []).append(cpu)
        found += [_domain(name, level, n, mine, tables) for n, mine in enumerate(groups.values())]
    if not any(rule.states for rule, _ in found):
        raise UserError(
            f"{name}: no idle state tells a domain: none is called {_PREFIX}1 or so, with a "
            "description as 'core-off+cluster-off'"
        )
    return found


def _domain(
    name: str, level: int, number: int, cpus: Sequence[int], tables: dict[int, list[_State]]
) -> Found:
    table = tables[cpus[0]]
    if unlike := [cpu for cpu in cpus if tables[cpu] != table]:
        raise UserError(
            f"{name}: CPU {cpu_list(unlike)} has other idle states than CPU {cpus[0]} of the same "
            "container"
        )
    states = _domain_states(table, level)
    for low, high in pairwise(states):
        if high.target_residency_ns < low.target_residency_ns:
            raise UserError(f"{name}: {high.name} pays earlier than the shallower {low.name}")
    source = f"latencies and target residencies: ACPI _LPI of {name}; powers are modelled"
    text = cpu_list(cpus)
    rule = Rule(f"lpi{level}-{number}", text, HARDWARE, False, 0, tuple(states), source)
    return rule, tuple(cpus)
