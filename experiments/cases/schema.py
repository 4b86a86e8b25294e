# SPDX-License-Identifier: GPL-2.0
"""Contents of a case's YAML file, checked."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from math import isfinite
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording import state_tables
from cpuidle_lab.recording.laws import US, S
from cpuidle_lab.replay.law import Stretch
from cpuidle_lab.states.machine_files import micro, power_fault
from cpuidle_lab.states.table import StateTable

Range = tuple[float, float]

_NUMBER_MAX = 10**9


@dataclass(frozen=True)
class CaseIntervals:
    """Intervals that are played.

    Attributes:
        phases: kinds of intervals, in their order.
        repeat: so many times.
        tick_stopped: the tick stays stopped between intervals.
        skip: so many intervals at the beginning are played and not counted.
    """

    phases: tuple[Stretch, ...]
    repeat: int = 1
    tick_stopped: bool = False
    skip: int = 0


@dataclass(frozen=True)
class Figure:
    """Figure that is measured: see figures.py.

    Attributes:
        kind: a name of figures.KINDS.
        state: name of the idle state, for kinds that are of one.
        wakeups: so many wake-ups, for kinds that are of a number of them.
        a_second: so many of these a second, if leaving an idle state took no time.
    """

    kind: str
    state: str = ""
    wakeups: int = 0
    a_second: int = 0


@dataclass(frozen=True)
class Cell:
    """A governor on a stream.

    Attributes:
        governor: as on the command line: "teo@6.12", "wteo:latency_bias=1024".
        stream: name of one; "": the only one.
        label: in tables, if it is not the governor.
        latency_req_us: latency request during all intervals; None: none.
        reported: what the original says, as text; "" if it says nothing.
        agrees: figures that agree with that.
        expect: figures that ours had when the case was written; a test holds them.
        machine: idle states, if they are not the case's; in the file as there.
    """

    governor: str
    stream: str = ""
    label: str = ""
    latency_req_us: float | None = None
    reported: str = ""
    agrees: Range | None = None
    expect: Range | None = None
    machine: StateTable | None = None


@dataclass(frozen=True)
class Bisect:
    """Search for the kernel at which the figure changes.

    Attributes:
        governor: of the kernel: "teo".
        bad: figures of a kernel that has the fault.
        stream: as in Cell.
    """

    governor: str
    bad: Range
    stream: str = ""


@dataclass(frozen=True)
class Description:
    """A case.

    Attributes:
        name: of the file.
        title, claim, source, question: as of experiment.Experiment.
        machine: idle states.
        disabled: bit k: state k is disabled.
        rejected: bit k: the driver refuses state k.
        streams: by name.
        figure: that is compared.
        also: further ones.
        cells: governors on streams.
        bisect: None where the case is not of a kernel's version.
        same, differs, meaning: as of experiment.Findings.
    """

    name: str
    title: str
    claim: str
    source: str
    question: str
    machine: StateTable
    disabled: int
    rejected: int
    streams: Mapping[str, CaseIntervals]
    figure: Figure
    also: tuple[Figure, ...]
    cells: tuple[Cell, ...]
    bisect: Bisect | None
    same: str
    differs: str
    meaning: str

    def at(self, cell: Cell) -> "Description":
        """Return the case on the idle states of a cell."""
        return replace(self, machine=cell.machine) if cell.machine else self


def _fail(where: str, why: str) -> UserError:
    return UserError(f"{where}: {why}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _type_fault(hint: Any, value: Any) -> str:
    """Return the kind of value that a field must have; "" where it has it, or is checked later."""
    if hint is str and not isinstance(value, str):
        return "text; put it into quotes"
    if hint is bool and not isinstance(value, bool):
        return "true or false"
    if hint is int and not (type(value) is int and 0 <= value <= _NUMBER_MAX):
        return f"a whole number from 0 to {_NUMBER_MAX:,}"
    if hint == float | None and not (value is None or (_is_number(value) and value >= 0)):
        return "a number from 0"
    return ""


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise _fail(where, f"'{value}' is no list")
    return value


def _record(kind: type[Any], value: Any, where: str) -> Any:
    """Return a dataclass of a mapping."""
    if not isinstance(value, Mapping):
        raise _fail(where, f"'{value}' is no mapping")
    known = [one.name for one in fields(kind)]
    for key in value:
        if key not in known:
            raise _fail(where, f"unknown key '{key}'; there are {', '.join(known)}")
    hints = get_type_hints(kind)
    for key, one in value.items():
        if why := _type_fault(hints[key], one):
            raise _fail(where, f"{key} must be {why}, not '{one}'")
    try:
        return kind(**value)
    except TypeError as error:
        raise _fail(where, str(error).partition(" ")[2]) from None


def _range(value: Any, where: str) -> Range | None:
    if value is None:
        return None
    is_pair = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
    if not is_pair or value[0] > value[1]:
        raise _fail(where, f"{value} is no range [LEAST, GREATEST]")
    return float(value[0]), float(value[1])


def _row(row: list[Any], where: str) -> tuple[str, int, int, int, bool]:
    """Return name, exit latency and target residency (ns), power (uW) and whether it polls."""
    name, *numbers = row
    if not isinstance(name, str):
        raise _fail(where, f"machine: {name} is no name of a state; put it into quotes")
    kinds = {type(one) for one in numbers}
    if not kinds <= {int, float} or not all(map(isfinite, numbers)):
        raise _fail(where, f"machine: {row} must have numbers after the name")
    exit_ns, target_ns = (round(one * US) for one in numbers[:2])
    try:
        power_uw = micro(str(numbers[2])) if len(numbers) == 3 else 0
    except ValueError as error:
        raise _fail(where, f"machine: power of '{name}': {error}") from None
    return name.rstrip("*"), exit_ns, target_ns, power_uw, name.endswith("*")


def _machine(value: Any, tick_hz: Any, where: str) -> StateTable:
    if not (isinstance(tick_hz, int) and 1 <= tick_hz <= 10_000):
        raise _fail(where, f"tick_hz: {tick_hz} is out of range: 1 to 10000")
    if isinstance(value, str):
        return state_tables.find(value, tick_hz)
    if not isinstance(value, list) or not value:
        raise _fail(where, "machine: name one of the emulator's, or list states")
    rows = []
    for row in value:
        if not isinstance(row, list) or not 3 <= len(row) <= 4:
            raise _fail(where, f"machine: {row} is no [NAME, EXIT_US, TARGET_US, optional MW]")
        rows.append(_row(row, where))
    names, exits, targets, powers, polling = zip(*rows, strict=True)
    if fault := power_fault(names, powers):
        raise _fail(where, f"machine: {fault[1]}")
    return StateTable(names, exits, targets, powers, polling, S // tick_hz)


def _states(names: Any, machine: StateTable, where: str) -> int:
    bits = 0
    for name in _list(names, f"{where}: states") if names is not None else ():
        if name not in machine.names:
            raise _fail(where, f"there is no state '{name}'; there are {', '.join(machine.names)}")
        bits |= 1 << machine.names.index(name)
    return bits


def _stream(value: Any, where: str) -> CaseIntervals:
    found = _record(CaseIntervals, value, where)
    phases = tuple(
        _record(Stretch, one, f"{where}: phases") for one in _list(found.phases, f"{where}: phases")
    )
    return CaseIntervals(phases, found.repeat, found.tick_stopped, found.skip)


def _cell(value: Any, streams: Mapping[str, CaseIntervals], tick_hz: Any, where: str) -> Cell:
    cell: Cell = _record(Cell, value, f"{where}: cells")
    stream = cell.stream or next(iter(streams))
    if stream not in streams:
        raise _fail(where, f"there is no stream '{stream}'; there are {', '.join(streams)}")
    agrees, expect = (_range(one, where) for one in (cell.agrees, cell.expect))
    if bool(cell.reported) != bool(agrees):
        raise _fail(where, f"{cell.governor}: 'reported' and 'agrees' go together")
    machine = _machine(cell.machine, tick_hz, where) if cell.machine else None
    return replace(cell, governor=str(cell.governor), stream=stream, agrees=agrees, expect=expect,
                   machine=machine)  # fmt: skip


_TEXTS = ("title", "claim", "source", "question", "meaning")


class _Loader(yaml.SafeLoader):
    """YAML whose keys occur once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping.

        Raises:
            yaml.constructor.ConstructorError: a key occurs twice, or cannot be one.
        """
        met: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in met:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key '{key.value}' occurs twice", key.start_mark
                )
            met.add(str(key.value))
        return super().construct_mapping(node, deep)


def parse(text: str, name: str) -> Description:
    """Return the case that a YAML text describes.

    Args:
        text: the file.
        name: of the case, for messages.

    Raises:
        UserError: it is no description of a case; the message says what is wrong.
    """
    try:
        raw = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise _fail(name, f"is no case: {line}{error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        line = f"line {text.count(chr(10), 0, error.position) + 1}"
        raise _fail(name, f"is no case: {line}: {error.reason}") from None
    except RecursionError:
        raise _fail(name, "is no case: it nests too deeply") from None
    if not isinstance(raw, Mapping):
        raise _fail(name, "is no case: the file must be a mapping of keys to values")
    known = {"machine", "tick_hz", "disabled", "rejected", "streams", "figure", "also", "cells",
             "bisect", "same", "differs", *_TEXTS}  # fmt: skip
    for key in raw:
        if key not in known:
            raise _fail(name, f"unknown key '{key}'; there are {', '.join(sorted(known))}")
    for key in (*_TEXTS, "machine", "streams", "figure", "cells"):
        if not raw.get(key):
            raise _fail(name, f"'{key}' is missing")
    return _checked(raw, name)


def _checked(raw: Mapping[str, Any], name: str) -> Description:
    tick_hz = raw.get("tick_hz", 250)
    machine = _machine(raw["machine"], tick_hz, name)
    if not isinstance(raw["streams"], Mapping):
        raise _fail(name, "streams must be a mapping of names to streams")
    streams = {str(key): _stream(one, f"{name}: {key}") for key, one in raw["streams"].items()}
    bisect = _record(Bisect, raw["bisect"], f"{name}: bisect") if "bisect" in raw else None
    if bisect:
        bad = _range(bisect.bad, name)
        assert bad is not None
        bisect = Bisect(bisect.governor, bad, bisect.stream or next(iter(streams)))
    cells = _list(raw["cells"], f"{name}: cells")
    figures = [raw["figure"], *(_list(raw["also"], f"{name}: also") if "also" in raw else ())]
    first, *also = (_record(Figure, one, f"{name}: figure") for one in figures)
    return Description(
        name=name,
        **{key: " ".join(str(raw[key]).split()) for key in ("title", "claim", "source")},
        question=str(raw["question"]).strip(),
        machine=machine,
        disabled=_states(raw.get("disabled"), machine, name),
        rejected=_states(raw.get("rejected"), machine, name),
        streams=streams,
        figure=first,
        also=tuple(also),
        cells=tuple(_cell(one, streams, tick_hz, name) for one in cells),
        bisect=bisect,
        same=str(raw.get("same", "")).strip(),
        differs=str(raw.get("differs", "")).strip(),
        meaning=str(raw["meaning"]).strip(),
    )


def read(path: Path) -> Description:
    """Return the case of a file; otherwise as parse().

    Raises:
        UserError: it cannot be read, too.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is no case: it is no text in UTF-8") from None
    try:
        return parse(text, path.stem)
    except UserError as error:
        why = error.message.removeprefix(f"{path.stem}: ")
        raise UserError(f"{path}: {why}", error.exit_code) from None
