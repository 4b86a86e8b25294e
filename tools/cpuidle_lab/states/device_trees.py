# SPDX-License-Identifier: GPL-2.0
"""Domains of CPUs in a device tree's source: `domain-idle-states` of the nodes above CPUs' own.

As drivers/cpuidle/cpuidle-psci-domain.c: CPUs have power domains, and these have parents. The
kernel decides. A CPU lets go of its domain in its deepest idle state; a domain lets go of its
parent in each of its states.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cpuidle_lab.states.domains import KERNEL, DomainState, Rule

Cpus = tuple[int, ...]
# Domain and its CPUs.
Found = tuple[Rule, Cpus]

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^#\s*(?:include|define|undef|if|el|endif)[^\n]*",
                      re.DOTALL | re.MULTILINE)  # fmt: skip
_PIECE = re.compile(r'((?:"(?:\\.|[^"\\])*"|[^{};"])*)([{};])')
_HEAD = re.compile(r"(?:([\w]+)\s*:\s*)?([\w,.@+-]+)\s*$")
_CELL = re.compile(r"<\s*(0x[0-9a-fA-F]+|\d+)\s*>\s*$")
_STATES, _PARENTS = "domain-idle-states", "power-domains"
# The kernel cuts names of idle states there.
_NAME_MAX = 15


@dataclass
class _Node:
    name: str
    properties: dict[str, str] = field(default_factory=dict)

    def refs(self, key: str) -> list[str]:
        """Return the labels of the nodes that a property refers to."""
        return re.findall(r"&(\w+)", self.properties.get(key, ""))

    def us(self, key: str) -> int | None:
        """Return a number; None if it is missing, or no plain number."""
        found = _CELL.match(self.properties.get(key, ""))
        return int(found[1], 0) if found else None

    @property
    def names(self) -> tuple[str, str]:
        """The names that a state has for people, and in sysfs; tables cut both."""
        told = self.properties.get("idle-state-name", f'"{self.name}"').strip('"')
        return told[:_NAME_MAX], self.name[:_NAME_MAX]


def _nodes(text: str) -> tuple[list[_Node], dict[str, _Node]]:
    """Return all nodes of a source in order, and those with a label by it."""
    every, labelled, open_nodes = [], {}, [_Node("")]
    for words, end in _PIECE.findall(_COMMENT.sub("", text)):
        if end == "{":
            head = _HEAD.search(words)
            node = _Node(head[2] if head else "")
            if head and head[1]:
                labelled[head[1]] = node
            every.append(node)
            open_nodes.append(node)
        elif end == "}":
            open_nodes.pop()
            if not open_nodes:
                return [], {}
        elif "=" in words:
            key, value = words.split("=", 1)
            open_nodes[-1].properties[key.strip()] = value.strip()
    return every, labelled


def _state(node: _Node, needs: Sequence[str]) -> DomainState | None:
    entry, leave, residency = (
        node.us(f"{key}-us") for key in ("entry-latency", "exit-latency", "min-residency")
    )
    if entry is None or leave is None or residency is None:
        return None
    return DomainState(node.names[0], 1000 * entry, 1000 * leave, 1000 * residency, 0, tuple(needs))


class _Tree:
    def __init__(self, text: str) -> None:
        every, self._labelled = _nodes(text)
        # By label of a power domain: names of the states that members must be in, names of their
        # other states, and CPUs.
        self._needed: dict[str, dict[str, None]] = {}
        self._others: dict[str, set[str]] = {}
        self._cpus: dict[str, set[int]] = {}
        cpus = [node for node in every if node.name.startswith("cpu@")]
        for number, node in enumerate(cpus):
            self._add_cpu(number, node)

    def _states_of(self, label: str) -> list[_Node]:
        node = self._labelled.get(label)
        labels = node.refs(_STATES) if node else []
        return [self._labelled[each] for each in labels if each in self._labelled]

    def _add_cpu(self, number: int, node: _Node) -> None:
        own = next((each for each in node.refs(_PARENTS) if self._states_of(each)), "")
        if not own:
            return
        *others, needed = self._states_of(own)
        for label in self._above(own):
            self._cpus.setdefault(label, set()).add(number)
            self._needed.setdefault(label, {}).update(dict.fromkeys(needed.names))
            self._others.setdefault(label, set()).update(*(each.names for each in others))
            if states := self._states_of(label):
                needed, *others = states

    def _above(self, label: str) -> Iterator[str]:
        """Yield the power domains above one."""
        seen = {label}
        while True:
            node = self._labelled.get(label)
            label = next(iter(node.refs(_PARENTS)), "") if node else ""
            if label in seen or label not in self._labelled:
                return
            seen.add(label)
            yield label

    def found(self, source: str) -> list[Found]:
        """Return the domains, each after those within it.

        There is none if a state lacks a figure, or has the name of another one.
        """
        result: list[Found] = []
        for label, cpus in self._cpus.items():
            nodes = self._states_of(label)
            needs = list(self._needed[label])
            whole = tuple(filter(None, (_state(node, needs) for node in nodes)))
            # A name that two states of members have, cut as it is, tells nothing.
            if len(whole) < len(nodes) or self._others[label] & set(needs):
                return []
            if whole:
                text = ",".join(map(str, sorted(cpus)))
                rule = Rule(label, text, KERNEL, False, 0, whole, source)
                result.append((rule, tuple(sorted(cpus))))
        return sorted(result, key=lambda each: len(each[1]))


def read(text: str, source: str) -> list[Found]:
    """Return the domains of CPUs in a device tree's source, each after those within it.

    CPUs have the numbers of their order. Powers are 0: the tree tells none.

    Args:
        text: the source; of others that it includes nothing is read.
        source: where the figures are from.
    """
    return _Tree(text).found(source)


def as_json(found: Sequence[Found]) -> list[dict[str, object]]:
    """Return domains as JSON; times in ns."""
    return [
        {
            "name": rule.name,
            "cpus": cpus,
            "states": [
                [state.name, state.entry_latency_ns, state.exit_latency_ns,
                 state.target_residency_ns, state.needs] for state in rule.states
            ],
        }
        for rule, cpus in found
    ]  # fmt: skip


def of_json(told: Sequence[Mapping[str, object]], source: str) -> list[Found]:
    """Return what as_json() was given."""
    found = []
    for each in told:
        cpus, rows = each["cpus"], each["states"]
        assert isinstance(cpus, list) and isinstance(rows, list)
        states = tuple(
            DomainState(name, entry, leave, target, 0, tuple(needs))
            for name, entry, leave, target, needs in rows
        )
        text = ",".join(map(str, cpus))
        rule = Rule(str(each["name"]), text, KERNEL, False, 0, states, source)
        found.append((rule, tuple(map(int, cpus))))
    return found
