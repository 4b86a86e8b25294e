# SPDX-License-Identifier: GPL-2.0
"""The key `domains` of machine files, and the trees that come along: docs/domains.md."""

import re
from itertools import pairwise
from pathlib import Path

import yaml

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.suggestions import did_you_mean
from cpuidle_lab.states import kernel_tables
from cpuidle_lab.states.domains import ALL, HARDWARE, KERNEL, DomainState, Rule
from cpuidle_lab.states.linux_source import NEWEST
from cpuidle_lab.states.machine_files import TOP_KEYS, File, cpu_runs, root_of

TREES = Path(__file__).parent / "trees"
_DTS = "dts:"

_DOMAIN = ("name", "cpus", "decides", "demotes", "power_mw", "source", "states")
_DOMAIN_NEEDED = ("name", "cpus", "decides", "power_mw", "source", "states")
_STATE = ("name", "entry_latency_us", "exit_latency_us", "target_residency_us", "power_mw", "needs")
_EVERY = re.compile(r"every [1-9]\d{0,4}")

Cpus = dict[str, tuple[int, ...]]


class _Domains(File):
    """The domains of a machine file."""

    def _told(
        self, node: yaml.Node, what: str, known: tuple[str, ...], needed: tuple[str, ...]
    ) -> dict[str, yaml.Node]:
        told = {key: value for key, (_, value) in self.mapping(node, what, known).items()}
        if missing := [key for key in needed if key not in told]:
            raise self.fault(node, f"{what} has no {missing[0]}")
        return told

    def _needs(self, node: yaml.Node) -> tuple[str, ...]:
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if not nodes:
            raise self.fault(node, "needs is empty")
        return tuple(self.text(each, "needs", quoted=True) for each in nodes)

    def _domain_state(self, node: yaml.Node) -> DomainState:
        told = self._told(node, "a domain's state", _STATE, _STATE)
        entry_ns, exit_ns, target_ns = (self.ns(told[key], key) for key in _STATE[1:4])
        return DomainState(
            self.text(told["name"], "name", quoted=True),
            entry_ns,
            exit_ns,
            target_ns,
            self.uw(told["power_mw"]),
            self._needs(told["needs"]),
        )

    def _cpus(self, node: yaml.Node) -> tuple[str, tuple[int, ...]]:
        """Return CPUs in text, and as numbers where the text lists them."""
        text = self.text(node, "cpus", quoted=True)
        if text == ALL or _EVERY.fullmatch(text):
            return text, ()
        try:
            numbers = [cpu for low, high in cpu_runs(text) for cpu in range(low, high + 1)]
        except ValueError as error:
            raise self.fault(node, f"{error}, nor 'all' or 'every 4'") from None
        numbers.sort()
        for low, high in pairwise(numbers):
            if low == high:
                raise self.fault(node, f"CPU {low} is twice in '{text}'")
        return text, tuple(numbers)

    def _rule(self, node: yaml.Node) -> tuple[Rule, tuple[int, ...]]:
        told = self._told(node, "a domain", _DOMAIN, _DOMAIN_NEEDED)
        decides = self.text(told["decides"], "decides")
        if decides not in (HARDWARE, KERNEL):
            raise self.fault(
                told["decides"], f"decides must be hardware or kernel, not '{decides}'"
            )
        demotes = "demotes" in told and self.boolean(told["demotes"], "demotes")
        if demotes and decides == KERNEL:
            raise self.fault(
                told["demotes"], "only hardware demotes: the kernel decides for itself"
            )
        if not isinstance(told["states"], yaml.SequenceNode) or not told["states"].value:
            raise self.fault(told["states"], "states must be a list")
        states = tuple(map(self._domain_state, told["states"].value))
        power_uw = self.uw(told["power_mw"])
        self._check(told["states"], power_uw, states)
        text, numbers = self._cpus(told["cpus"])
        name = self.text(told["name"], "name", quoted=True)
        source = self.text(told["source"], "source", quoted=True)
        return Rule(name, text, decides, demotes, power_uw, states, source), numbers

    def _check(self, node: yaml.SequenceNode, up_uw: int, states: tuple[DomainState, ...]) -> None:
        rows = list(zip(node.value, states, strict=True))
        if states[0].power_uw > up_uw:
            raise self.fault(
                rows[0][0], f"power_mw of '{states[0].name}' is above that of being up"
            )
        for (_, low), (where, high) in pairwise(rows):
            if high.power_uw > low.power_uw:
                raise self.fault(
                    where, f"power_mw of '{high.name}' is above that of the shallower '{low.name}'"
                )
            if high.target_residency_ns < low.target_residency_ns:
                raise self.fault(
                    where, f"target_residency_us of '{high.name}' is below that of '{low.name}'"
                )

    def domains(self, node: yaml.Node) -> tuple[list[Rule], Cpus]:
        """Return the rules of the file, and the CPUs of those that list theirs."""
        told = self.mapping(node, "the file", TOP_KEYS)
        if "domains" not in told:
            raise self.fault(node, "it has no 'domains'")
        where = told["domains"][1]
        if not isinstance(where, yaml.SequenceNode) or not where.value:
            raise self.fault(where, "domains must be a list")
        found = [self._rule(each) for each in where.value]
        return [rule for rule, _ in found], {rule.name: cpus for rule, cpus in found if cpus}


def check(path: Path, hz: int) -> None:
    """Refuse a machine file whose `domains` cannot be read; it may have none.

    Raises:
        UserError: line and cause.
    """
    file, root = _Domains(path, hz), root_of(path)
    if "domains" in file.mapping(root, "the file", TOP_KEYS):
        file.domains(root)


def names() -> list[str]:
    """Return the names of the trees that come along."""
    return sorted(path.stem for path in TREES.glob("*.yaml"))


def _of_device_tree(spec: str) -> tuple[list[Rule], Cpus]:
    """Return the domains of a device tree in a kernel's sources.

    Raises:
        UserError: there is none such, or the sources are not to be had.
    """
    name, _, version = spec.removeprefix(_DTS).partition("@")
    known = kernel_tables.fetch(version or NEWEST).domains
    if name not in known:
        near = did_you_mean(name, list(known)) or f"; there are {', '.join(known)}"
        raise UserError(f"the device tree '{name}' has no domains that can be told{near}", USAGE)
    found = known[name]
    return [rule for rule, _ in found], {rule.name: cpus for rule, cpus in found}


def read(spec: str) -> tuple[list[Rule], Cpus]:
    """Return the domains of a machine file, of a tree that comes along, or of a device tree.

    Args:
        spec: path of the file, name of the tree, or dts:NAME[@SERIES].

    Raises:
        UserError: there is none such, or it cannot be read; line and cause.
    """
    if spec.startswith(_DTS):
        return _of_device_tree(spec)
    if spec in names():
        path = TREES / f"{spec}.yaml"
    elif Path(spec).suffix in (".yaml", ".yml") or "/" in spec or Path(spec).exists():
        path = Path(spec)
    else:
        raise UserError(
            f"unknown tree '{spec}'{did_you_mean(spec, names())}; there are {', '.join(names())}, "
            "or give dts:NAME, lpi:DUMP or a machine file",
            USAGE,
        )
    return _Domains(path, 1).domains(root_of(path))
