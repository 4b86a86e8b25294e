# SPDX-License-Identifier: GPL-2.0
"""CPUs that take part: the measured one, one of another core, one of another package."""

from collections.abc import Iterator
from dataclasses import dataclass

from cpuidle_lab.host.sysfs import Tree

_CPUS = "/sys/devices/system/cpu"


@dataclass(frozen=True)
class Peers:
    """The CPUs of a measurement of latencies.

    Attributes:
        cpu: the measured one.
        sender: sends it IPIs; in another package if there is one, since a sender keeps its own
            package awake. None: there is no other core.
        keeper: stays awake beside it, in another core of its package. None: there is none.
        threads: CPUs of a core, at most.
    """

    cpu: int
    sender: int | None
    keeper: int | None
    threads: int


def members(text: str) -> Iterator[int]:
    """Yield the CPUs of a list such as "0,2-4"."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def siblings(tree: Tree, cpu: int) -> set[int]:
    """Return the CPUs of the core of a CPU; that CPU alone where the kernel does not say."""
    where = f"{_CPUS}/cpu{cpu}/topology"
    text = tree.read(f"{where}/core_cpus_list") or tree.read(f"{where}/thread_siblings_list")
    return set(members(text)) if text else {cpu}


def package(tree: Tree, cpu: int) -> str:
    """Return the package of a CPU."""
    return tree.read(f"{_CPUS}/cpu{cpu}/topology/physical_package_id") or "0"


def peers(tree: Tree, cpus: list[int]) -> Peers:
    """Choose the CPUs; the measured one is the first.

    Args:
        tree: the machine.
        cpus: its CPUs that are online, not empty.
    """
    cpu = cpus[0]
    core = siblings(tree, cpu)
    others = [each for each in cpus if each not in core]
    beside = [each for each in others if package(tree, each) == package(tree, cpu)]
    apart = [each for each in others if each not in beside]
    threads = max(len(siblings(tree, each) & set(cpus)) for each in cpus)
    return Peers(
        cpu,
        next(iter(apart or others), None),
        next(iter(beside), None),
        max(1, threads),
    )
