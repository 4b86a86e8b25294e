# SPDX-License-Identifier: GPL-2.0
"""Machine files: idle states in YAML, of all CPUs or by range of CPUs: docs/machines.md.

Values are taken as they stand in the text, not as YAML reads them: a state may be named OFF, which
is a boolean there, and 010 is refused, not 8.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import yaml

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.suggestions import did_you_mean
from cpuidle_lab.host.marks import POLLING, plain
from cpuidle_lab.states.table import CPUS_MAX, CpuTable, StateTable, check_table

_S = 1_000_000_000
TOP_KEYS = ("states", "tables", "hz", "domains")
_STATE = ("name", "exit_latency_us", "target_residency_us", "power_mw", "polling")
_NEEDED = _STATE[:3]
# Two digits of an exponent: more say nothing about a machine, and much to a computer's memory.
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][\d_]*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2})?")
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def cpu_runs(text: str) -> list[tuple[int, int]]:
    """Return first and last CPU of each run of "0-3,7".

    Raises:
        ValueError: the text is no such list.
    """
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= last <= CPUS_MAX:
            raise ValueError(f"'{text}' is no range of CPUs such as 0-3,7")
        found.append((first, last))
    return found


def check_apart(tables: Iterable[CpuTable]) -> None:
    """Refuse tables that share a CPU.

    Raises:
        ValueError: two have the same.
    """
    for low, high in pairwise(sorted(tables, key=lambda table: table.first)):
        if high.first <= low.last:
            raise ValueError(f"CPU {high.first} is in two ranges")


def power_fault(names: Iterable[str], powers_uw: Iterable[int]) -> tuple[int, str] | None:
    """Return the number of the state whose given power cannot be, and why; None if all can."""
    told = list(zip(names, powers_uw, strict=True))
    with_power = [name for name, uw in told if uw]
    for k, (name, uw) in enumerate(told):
        if with_power and not uw:
            return k, f"'{name}' has no power_mw, but '{with_power[0]}' has: give all or none"
        if k and uw > told[k - 1][1]:
            return k, f"power_mw of '{name}' is above that of the shallower '{told[k - 1][0]}'"
    return None


def micro(text: str) -> int:
    """Return a power in uW that is given in mW.

    Raises:
        ValueError: it is 0, below 0, or finer than 1 uW.
    """
    uw = Decimal(text) * 1000
    if uw <= 0:
        raise ValueError(f"must be above 0, not {text}; leave out a power that is not known")
    if uw != int(uw):
        raise ValueError(f"{text} is finer than 1 uW (0.001 mW)")
    return int(uw)


class File:
    """A machine file, node by node.

    Args:
        path: the file, for messages.
        hz: ticks per second where it tells none.
    """

    def __init__(self, path: Path, hz: int) -> None:
        self._path = path
        self._hz = hz

    def fault(self, node: yaml.Node, why: str) -> UserError:
        """Return the error of a node, with its line."""
        return UserError(f"{self._path}: is no machine: line {node.start_mark.line + 1}: {why}")

    def mapping(
        self, node: yaml.Node, what: str, known: tuple[str, ...] = ()
    ) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return key and value of each entry by the key's text."""
        if not isinstance(node, yaml.MappingNode):
            raise self.fault(node, f"{what} must be a mapping of keys to values")
        found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            name = str(key.value)
            if known and name not in known:
                near = did_you_mean(name, known) or f"; there are {', '.join(known)}"
                raise self.fault(key, f"unknown key '{name}'{near}")
            if name in found:
                raise self.fault(key, f"key '{name}' occurs twice")
            found[name] = key, value
        return found

    def text(self, node: yaml.Node, key: str, quoted: bool = False) -> str:
        """Return the text of a node that is one value."""
        if not isinstance(node, yaml.ScalarNode) or not node.value:
            raise self.fault(node, f"{key} must be one value")
        if node.style and not quoted:
            raise self.fault(node, f"{key} must stand without quotes")
        return str(node.value)

    def _number(self, node: yaml.Node, key: str, most: int) -> str:
        text = self.text(node, key)
        if not _NUMBER.fullmatch(text):
            raise self.fault(node, f"{key} must be a number, not '{text}'")
        if not 0 <= Decimal(text) <= most:
            raise self.fault(node, f"{key} is out of range: {text}")
        return text

    def boolean(self, node: yaml.Node, key: str) -> bool:
        """Return the value of a key that is true or false."""
        text = self.text(node, key).lower()
        if text not in _BOOLEANS:
            raise self.fault(node, f"{key} must be true or false, not '{text}'")
        return _BOOLEANS[text]

    def ns(self, node: yaml.Node, key: str) -> int:
        """Return a time that is given in us."""
        return round(Decimal(self._number(node, key, 10**11)) * 1000)

    def uw(self, node: yaml.Node) -> int:
        """Return a power that is given in mW."""
        try:
            return micro(self._number(node, "power_mw", 10**11))
        except ValueError as error:
            raise self.fault(node, f"power_mw: {error}") from None

    def _state(self, node: yaml.Node) -> tuple[str, int, int, int, bool]:
        told = {key: value for key, (_, value) in self.mapping(node, "a state", _STATE).items()}
        if missing := [key for key in _NEEDED if key not in told]:
            raise self.fault(node, f"a state has no {missing[0]}")
        name = plain(self.text(told["name"], "name", quoted=True))
        exit_ns, target_ns = (self.ns(told[key], key) for key in _NEEDED[1:])
        power_uw = self.uw(told["power_mw"]) if "power_mw" in told else 0
        polls = self.boolean(told["polling"], "polling") if "polling" in told else name in POLLING
        return name, exit_ns, target_ns, power_uw, polls

    def _table(self, node: yaml.Node) -> StateTable:
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            raise self.fault(node, "states must be a list")
        rows = zip(*map(self._state, node.value), strict=True)
        names, exits, targets, powers, polling = rows
        table = StateTable(names, exits, targets, powers, polling, _S // self._hz)
        if fault := power_fault(table.names, table.power_uw):
            raise self.fault(node.value[fault[0]], fault[1])
        check_table(f"{self._path}: line {node.start_mark.line + 1}", table)
        return table

    def _by_range(self, node: yaml.Node) -> list[CpuTable]:
        tables: list[CpuTable] = []
        for ranges, (key, states) in self.mapping(node, "tables").items():
            try:
                runs = cpu_runs(ranges)
            except ValueError as error:
                raise self.fault(key, str(error)) from None
            table = self._table(states)
            tables += [CpuTable(first, last, table) for first, last in runs]
        if not tables:
            raise self.fault(node, "'tables' is empty")
        try:
            check_apart(tables)
        except ValueError as error:
            raise self.fault(node, str(error)) from None
        return tables

    def tables(self, node: yaml.Node) -> list[CpuTable]:
        """Return the tables of the whole file."""
        told = self.mapping(node, "the file", TOP_KEYS)
        if "hz" in told:
            text = self._number(told["hz"][1], "hz", 10_000)
            if not text.isdecimal() or text == "0":
                raise self.fault(told["hz"][1], f"hz must be a whole number from 1, not {text}")
            self._hz = int(text)
        if ("states" in told) == ("tables" in told):
            raise self.fault(node, "it must have one of 'states' and 'tables'")
        if "tables" in told:
            return self._by_range(told["tables"][1])
        return [CpuTable(0, CPUS_MAX, self._table(told["states"][1]))]


def root_of(path: Path) -> yaml.Node:
    """Return the contents of a machine file.

    Raises:
        UserError: it cannot be read or is no YAML; the line and the cause.
    """
    text = ""
    try:
        text = path.read_text("utf-8")
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        why = error.problem or error.context
        raise UserError(f"{path}: is no machine: {line}it is no YAML: {why}") from None
    except yaml.reader.ReaderError as error:
        line = f"line {text.count(chr(10), 0, error.position) + 1}"
        raise UserError(f"{path}: is no machine: {line}: it is no YAML: {error.reason}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is no machine: it is no text in UTF-8") from None
    except RecursionError:
        raise UserError(f"{path}: is no machine: it nests too deeply") from None
    if node is None:
        raise UserError(f"{path}: is no machine: it is empty")
    return node


def read(path: Path, hz: int) -> list[CpuTable]:
    """Return the idle states that a machine file gives, by range of CPUs.

    Args:
        path: the file.
        hz: scheduler ticks per second where the file tells none.

    Raises:
        UserError: it cannot be read or is no machine file; the line and the cause.
    """
    try:
        return File(path, hz).tables(root_of(path))
    except RecursionError:
        raise UserError(f"{path}: is no machine: it nests too deeply") from None
