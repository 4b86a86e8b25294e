# SPDX-License-Identifier: GPL-2.0
"""The CPUs of a period in groups: all, by core type, by package, and each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cpuidle_lab.dump.periods import Counts, CpuCounts, Period
from cpuidle_lab.host.sysfs import cpu_list, parse_cpus

ALL, TYPE, PACKAGE, CPU = "all", "type", "package", "cpu"
KINDS = (ALL, TYPE, PACKAGE, CPU)

# The name of the sum over the states of a group.
EVERY = "all"

_PACKAGE = "topology/physical_package_id"
_CAPACITY = "cpu_capacity"
# Begin the names of types that only a state table tells.
_WHERE = ("CPU", "CPUs at place")
# The kernel's lists of the CPUs of hybrid x86.
_LIST = re.compile(r"/sys/devices/cpu_(\w+)/cpus")


@dataclass(frozen=True)
class Group:
    """Counts of some CPUs over a period.

    Attributes:
        kind: ALL, TYPE, PACKAGE or CPU.
        name: among its kind.
        cpus: how many CPUs.
        states: counts by the state's name, shallowest first, EVERY last.
    """

    kind: str
    name: str
    cpus: int
    states: dict[str, Counts]

    @property
    def title(self) -> str:
        """The group in words."""
        count = f"{self.cpus} CPU{'s' if self.cpus > 1 else ''}"
        return {
            ALL: f"all {count}",
            TYPE: self.name if self.name.startswith(_WHERE) else f"{self.name} ({count})",
            PACKAGE: f"package {self.name} ({count})",
            CPU: f"CPU {self.name}",
        }[self.kind]


def _sums(cpus: list[CpuCounts]) -> dict[str, Counts]:
    found: dict[str, Counts] = {}
    order: dict[str, tuple[int, int]] = {}
    for cpu in cpus:
        for k, state in enumerate(cpu.states):
            known = found.get(state.name)
            found[state.name] = state.counts if known is None else known + state.counts
            order.setdefault(state.name, (k, len(order)))
    names = sorted(found, key=order.__getitem__)
    total = Counts()
    for name in names:
        total += found[name]
    return {**{name: found[name] for name in names}, EVERY: total}


def _types(period: Period) -> dict[int, str]:
    """Return the core type of each CPU: the kernel's name, its capacity, else its state table."""
    found: dict[int, str] = {}
    for path, text in period.end.files.items() if period.end else ():
        if match := _LIST.fullmatch(path):
            try:
                found |= dict.fromkeys(parse_cpus(text), match[1])
            except ValueError:
                continue
    numbers = [cpu.number for cpu in period.cpus]
    if all(number in found for number in numbers):
        return found
    capacity = {c.number: f"capacity {c.files[_CAPACITY]}" for c in period.cpus
                if _CAPACITY in c.files}  # fmt: skip
    if len(capacity) == len(numbers) and len(set(capacity.values())) > 1:
        return capacity
    tables: dict[tuple[tuple[str, int | None, int | None], ...], list[int]] = {}
    for cpu in period.cpus:
        table = tuple((state.name, state.exit_us, state.target_us) for state in cpu.states)
        tables.setdefault(table, []).append(cpu.number)
    where = _WHERE[0] if period.numbered else _WHERE[1]
    return {n: f"{where} {cpu_list(mine)}" for mine in tables.values() for n in mine}


def _by(period: Period, kind: str) -> dict[str, list[CpuCounts]]:
    """Return the CPUs of each group of a kind; none where it does not divide them."""
    if kind == ALL:
        return {"": list(period.cpus)}
    types = _types(period) if kind == TYPE else {}
    found: dict[str, list[CpuCounts]] = {}
    for cpu in period.cpus:
        name = {
            TYPE: types.get(cpu.number),
            PACKAGE: cpu.files.get(_PACKAGE),
            CPU: str(cpu.number) if period.numbered else f"at place {cpu.number}",
        }[kind]
        if name is None:
            return {}
        found.setdefault(name, []).append(cpu)
    return found if kind == CPU or len(found) > 1 else {}


def of(period: Period) -> Iterator[Group]:
    """Yield all groups of a period."""
    for kind in KINDS:
        for name, cpus in _by(period, kind).items():
            yield Group(kind, name, len(cpus), _sums(cpus))
