# SPDX-License-Identifier: GPL-2.0
"""The decisions that lost most energy, with the inputs and the reason that led to them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cpuidle_lab.compare import reasons
from cpuidle_lab.host.idle_states import NO_DMA_LATENCY_US
from cpuidle_lab.recording.columns import Recording
from cpuidle_lab.recording.trace import TIME_MAX
from cpuidle_lab.replay.engine import Array

_INPUTS = (
    "start_ns",
    "length_ns",
    "timer_ns",
    "tick_phase_ns",
    "latency_req_ns",
    "disabled",
    "flags",
)
# Without a timer the kernel tells the time until TIME_MAX.
_NEVER = TIME_MAX // 2


@dataclass(frozen=True)
class Place:
    """An interval, and what a governor chose in it.

    Attributes:
        cpu: the CPU.
        row: number of the interval among those of the CPU.
        excess_pj: modelled energy above the oracle's.
        choice: what was decided: a row of engine.CHOICE_TYPES.
    """

    cpu: int
    row: int
    excess_pj: float
    choice: dict[str, Any]


@dataclass(frozen=True)
class Bad:
    """A decision that lost much.

    Attributes:
        time_s: when, in the clock of the recording.
        cpu: where.
        row: number of the interval among those of the CPU.
        length_us: how long the CPU stayed idle.
        timer_us: time to the next timer event, as the governor could know; None: there was none.
        tick_us: time until the tick was due; None: unknown.
        latency_req_us: greatest exit latency allowed; None: any.
        disabled: states that could not be used.
        chosen: state chosen first.
        stop_tick: whether the tick was to be stopped with it.
        reason: the step that decided.
        decisions: how often the governor was asked during the interval.
        last: state from which the CPU was woken in the end.
        ideal: best state.
        excess_uj: modelled energy above the oracle's.
        cost_uj: modelled energy.
    """

    time_s: float
    cpu: int
    row: int
    length_us: float
    timer_us: float | None
    tick_us: float | None
    latency_req_us: float | None
    disabled: list[str]
    chosen: str
    stop_tick: bool
    reason: str
    decisions: int
    last: str
    ideal: str
    excess_uj: float
    cost_uj: float


def _greatest(values: Array, count: int) -> Array:
    """Return where the greatest values are; of equal ones the first.

    numpy's partition takes others of equal ones on each kind of processor.
    """
    if len(values) <= count:
        return np.arange(len(values))
    least = np.partition(values, len(values) - count)[len(values) - count]
    above = np.flatnonzero(values > least)
    return np.concatenate([above, np.flatnonzero(values == least)[: count - len(above)]])


class Worst:
    """The places where a governor lost most, of all that it is told of."""

    def __init__(self, count: int) -> None:
        """Keep so many at most."""
        self._count = count
        self._found: dict[int, list[Place]] = {}
        self._squares: dict[int, float] = {}

    def add(self, cpu: int, first: int, columns: Mapping[str, Array]) -> None:
        """Take the next choices of a CPU; called for each CPU from one thread at a time.

        Args:
            cpu: the CPU.
            first: number of the first of these intervals among those of the CPU.
            columns: by engine.CHOICE_TYPES.
        """
        excess = columns["cost_pj"].astype(float) - columns["oracle_pj"].astype(float)
        self._squares[cpu] = self._squares.get(cpu, 0.0) + float(excess @ excess)
        if not self._count:
            return
        found = list(self._found.get(cpu, ()))
        for row in _greatest(excess, self._count):
            if excess[row] > 0:
                choice = {name: values[row].item() for name, values in columns.items()}
                found.append(Place(cpu, first + int(row), float(excess[row]), choice))
        self._found[cpu] = self._first(found)

    @property
    def excess_pj(self) -> float:
        """Root of the sum of the squares of what each interval lost."""
        return math.sqrt(sum(self._squares.values()))

    def places(self) -> list[Place]:
        """Return them, the worst first."""
        return self._first([place for found in self._found.values() for place in found])

    def _first(self, found: list[Place]) -> list[Place]:
        ordered = sorted(found, key=lambda place: (-place.excess_pj, place.cpu, place.row))
        return ordered[: self._count]


def _inputs(recording: Recording, wanted: Iterable[Place]) -> dict[tuple[int, int], dict[str, int]]:
    """Return the inputs of some intervals, by CPU and row, in one pass."""
    rows: dict[int, set[int]] = {}
    for place in wanted:
        rows.setdefault(place.cpu, set()).add(place.row)
    found = {}
    for cpu, mine in rows.items():
        first = 0
        for chunk in recording.intervals(cpu, _INPUTS):
            count = len(chunk["flags"])
            for row in (row for row in mine if first <= row < first + count):
                found[cpu, row] = {name: int(chunk[name][row - first]) for name in _INPUTS}
            first += count
    return found


def _us(ns: int) -> float | None:
    return None if ns < 0 or ns > _NEVER else ns / 1000


def request_us(ns: int) -> float | None:
    """Return a latency request; None for the value that PM QoS has where there is none."""
    return None if ns >= 1000 * NO_DMA_LATENCY_US else _us(ns)


def _tick_us(inputs: Mapping[str, int], tick_ns: int) -> float | None:
    if inputs["tick_phase_ns"] < 0:
        return None
    since_ns = (inputs["start_ns"] - inputs["tick_phase_ns"]) % tick_ns
    return (tick_ns - since_ns) / 1000


def _bad(recording: Recording, place: Place, inputs: Mapping[str, int]) -> Bad:
    table, choice = recording.state_tables[place.cpu], place.choice
    names = table.names
    disabled = [name for k, name in enumerate(names) if inputs["disabled"] >> k & 1]
    return Bad(
        time_s=inputs["start_ns"] / 1e9,
        cpu=place.cpu,
        row=place.row,
        length_us=inputs["length_ns"] / 1000,
        timer_us=_us(inputs["timer_ns"]),
        tick_us=_tick_us(inputs, table.tick_ns),
        latency_req_us=request_us(inputs["latency_req_ns"]),
        disabled=disabled,
        chosen=names[choice["index"]],
        stop_tick=bool(choice["stop_tick"]),
        reason=reasons.name(choice["reason"]),
        decisions=choice["decisions"],
        last=names[choice["last"]],
        ideal=names[choice["ideal"]],
        excess_uj=place.excess_pj / 1e6,
        cost_uj=choice["cost_pj"] / 1e6,
    )


def with_inputs(recording: Recording, found: Mapping[str, list[Place]]) -> dict[str, list[Bad]]:
    """Return the decisions with what the governor was told, by governor."""
    inputs = _inputs(recording, (place for places in found.values() for place in places))
    return {
        label: [_bad(recording, place, inputs[place.cpu, place.row]) for place in places]
        for label, places in found.items()
    }
