# SPDX-License-Identifier: GPL-2.0
"""The file of an `ab` session: JSON, one line for its head, one for each run, one for its end.

Lines are appended as runs are done, so whatever ends the session, what is in the file is complete;
an unfinished last line is ignored. Needs the standard library only.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cpuidle_lab.ab import circumstances
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import check, marked, unless_forced, write_whole
from cpuidle_lab.host.energy import ZoneEnergy
from cpuidle_lab.host.sysfs import why

_LARGEST = 1 << 28


@dataclass(frozen=True)
class StateTime:
    """Counts of one idle state during a run, all CPUs together.

    Attributes:
        name: of the state.
        usage: how often it was entered.
        time_us: time spent in it.
        above: entries that were too deep; None if the kernel does not count them.
        below: entries that were too shallow; None likewise.
    """

    name: str
    usage: int
    time_us: int
    above: int | None
    below: int | None


@dataclass(frozen=True)
class Run:
    """One run of the command under one governor.

    Attributes:
        round: number of its round, from 1.
        position: its turn in the round, from 1.
        governor: governor in use.
        start: when it began, ISO 8601.
        wall_s: how long it took.
        exit_status: the command's; 0 without one.
        metric: number that the command printed; None if none was asked for.
        zones: what each energy counter counted.
        unread: energy counters that could not be read.
        cpus: number of CPUs that `idle` adds up.
        idle: idle states, shallowest first; None if their counters went back.
        temperature_c: of the CPU before and after the run; None if unknown.
    """

    round: int
    position: int
    governor: str
    start: str
    wall_s: float
    exit_status: int
    metric: float | None
    zones: tuple[ZoneEnergy, ...]
    unread: tuple[str, ...]
    cpus: int
    idle: tuple[StateTime, ...] | None
    temperature_c: tuple[float | None, float | None]


@dataclass(frozen=True)
class Session:
    """Contents of a file.

    Attributes:
        head: its first line: command line, version, kernel, start, plan, order and warnings.
        machine: the circumstances, from the first line, too.
        runs: the runs that were completed, in the order of time.
        end: its last line; None if the session was killed.
    """

    head: Mapping[str, Any]
    machine: circumstances.Circumstances
    runs: tuple[Run, ...]
    end: Mapping[str, Any] | None

    @property
    def governors(self) -> tuple[str, ...]:
        """The governors, as they were named."""
        return tuple(self.head["plan"]["governors"])

    @property
    def rounds(self) -> list[dict[str, Run]]:
        """The complete rounds, runs by governor."""
        found: dict[int, dict[str, Run]] = {}
        for run in self.runs:
            found.setdefault(run.round, {})[run.governor] = run
        return [runs for _, runs in sorted(found.items()) if set(runs) == set(self.governors)]


def _line(told: Mapping[str, Any]) -> str:
    return json.dumps(told) + "\n"


class Log:
    """Writes the file; it comes into being with the first run.

    Args:
        path: the file.
        force: replace an existing one, if it is such a file.

    Attributes:
        path: the file.
        head: the first line, to be set before the first run.
        runs: runs that are in the file.
    """

    def __init__(self, path: Path, force: bool = False) -> None:
        self.path = path
        self._foreign = unless_forced(marked('{"kind": "head", '), force)
        check(path, self._foreign)
        self.head: Mapping[str, Any] = {}
        self.runs = 0

    def add(self, run: Run) -> None:
        """Append a run."""
        if self.runs == 0:
            write_whole(self.path, _line({"kind": "head", **self.head}), self._foreign)
        self._append({"kind": "run", **asdict(run)})
        self.runs += 1

    def close(self, end: Mapping[str, Any]) -> None:
        """Append the last line, if there are runs."""
        if self.runs:
            self._append({"kind": "end", **end})

    def _append(self, told: Mapping[str, Any]) -> None:
        with self.path.open("a") as stream:
            stream.write(_line(told))
            stream.flush()
            os.fsync(stream.fileno())


# Reading.


def _optional(value: object) -> float | None:
    return None if value is None else _finite(value)


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def _count(value: Any) -> int:
    number = int(value)
    if number < 0:
        raise ValueError(value)
    return number


def _optional_count(value: object) -> int | None:
    return None if value is None else _count(value)


def _zone(value: Mapping[str, Any]) -> ZoneEnergy:
    return ZoneEnergy(
        str(value["zone"]),
        str(value["name"]),
        str(value["role"]),
        _optional(value["energy_mj"]),
        _optional(value["power_mw"]),
    )


def _state(value: Mapping[str, Any]) -> StateTime:
    return StateTime(
        str(value["name"]),
        _count(value["usage"]),
        _count(value["time_us"]),
        _optional_count(value["above"]),
        _optional_count(value["below"]),
    )


def _run(value: Mapping[str, Any], governors: list[str]) -> Run:
    before, after = value["temperature_c"]
    if value["governor"] not in governors:
        raise ValueError(value["governor"])
    return Run(
        round=_count(value["round"]),
        position=_count(value["position"]),
        governor=value["governor"],
        start=str(value["start"]),
        wall_s=_finite(value["wall_s"]),
        exit_status=int(value["exit_status"]),
        metric=_optional(value["metric"]),
        zones=tuple(map(_zone, value["zones"])),
        unread=tuple(map(str, value["unread"])),
        cpus=_count(value["cpus"]),
        idle=None if value["idle"] is None else tuple(map(_state, value["idle"])),
        temperature_c=(_optional(before), _optional(after)),
    )


def _check_head(head: Mapping[str, Any]) -> None:
    plan = head["plan"]
    governors = plan["governors"]
    names = isinstance(governors, list) and all(isinstance(name, str) for name in governors)
    if not names or len(governors) < 2 or len(set(governors)) < len(governors):
        raise ValueError(governors)
    for key in ("seed", "rounds"):
        _count(plan[key])
    if plan["better"] not in ("higher", "lower") or not isinstance(plan["command"], list):
        raise ValueError(plan)
    _optional(plan["seconds"])
    for key in ("command", "arguments", "version", "kernel", "start", "order"):
        if key not in head:
            raise KeyError(key)
    _check_words(head["warnings"])


def _check_words(value: object) -> None:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError(value)


def _parse(lines: list[str]) -> Session:
    head: Mapping[str, Any] | None = None
    end: Mapping[str, Any] | None = None
    runs: list[Run] = []
    for line in lines:
        value = json.loads(line)
        if head is None:
            if value["kind"] != "head":
                raise ValueError(value["kind"])
            _check_head(value)
            head = value
        elif end is None and value["kind"] == "run":
            runs.append(_run(value, head["plan"]["governors"]))
        elif end is None and value["kind"] == "end":
            _check_words(value["changed"])
            end = value
        else:
            raise ValueError(value["kind"])
    if head is None:
        raise ValueError("empty")
    return Session(head, circumstances.parse(head["machine"]), tuple(runs), end)


def load(path: Path) -> Session:
    """Read the file of a session.

    Raises:
        UserError: it cannot be read, or is none.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise UserError(f"{path} is too large for a file of ab")
        lines = path.read_text(errors="replace").split("\n")
    except OSError as error:
        raise UserError(f"cannot read {path}: {why(error)}") from error
    try:
        return _parse(lines[:-1])  # what follows the last newline was not finished
    except (
        KeyError,
        TypeError,
        ValueError,
        OverflowError,
        RecursionError,
        AttributeError,
    ) as error:
        raise UserError(f"{path} was not written by cpuidle-lab ab") from error
