# SPDX-License-Identifier: GPL-2.0
"""Runs governors over recordings, one thread for each CPU of a recording.

Energies are in pJ (1 mW * 1 ns), times in ns. The columns are described in docs/replay.md.
"""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from cpuidle_lab.base import abi
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.columns import UNKNOWN, Columns, Recording, joined, sliced
from cpuidle_lab.replay.library import LENGTH_CLASSES, STATE_MAX, Governor
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable

Array = npt.NDArray[Any]
Progress = Callable[[int], None]
# Takes a CPU, the number of its first interval in a chunk, and what was decided in the chunk.
Each = Callable[[int, int, Mapping[str, Array]], None]
Settings = Mapping[str, str | int]

INTERVAL_TYPES = abi.columns("rp_intervals")
CHOICE_TYPES = abi.columns("rp_choices")
TRAIL_TYPES = abi.columns("rp_trail")


def fitting(chunk: Mapping[str, Array], types: Mapping[str, type[np.generic]]) -> dict[str, Array]:
    """Return the columns as C reads them: contiguous and of the right types."""
    return {name: np.ascontiguousarray(chunk[name], dtype=kind) for name, kind in types.items()}


class Run:
    """A policy on one CPU: struct rp_run. For one thread, and closed by `with`.

    A thread has one run of a kernel's governor open at a time. With `costs`, the policy is told of
    one state table and charged by the cost model of another, with as many states.
    """

    def __init__(
        self,
        governor: Governor,
        table: StateTable,
        settings: Settings | None = None,
        cpu: int = 0,
        *,
        costs: StateTable | None = None,
    ):
        self.governor = governor
        self.table = table
        self._costs = costs or table
        self._cpu = cpu
        self._values = governor.values(settings)
        self._library = governor.library
        self._handle = 0
        self._copied = 0

    def __enter__(self) -> "Run":
        if self._copied:
            self._handle, self._copied = self._copied, 0
            return self
        values = (ctypes.c_uint32 * max(1, len(self._values)))(*self._values)
        handle = self._library.rp_open(
            ctypes.c_void_p(self.governor.policy),
            ctypes.byref(c_machine(self.table, self._cpu)),
            ctypes.byref(c_model(self._costs)),
            values,
        )
        if not handle:
            raise MemoryError
        self._handle = int(handle)
        return self

    def __exit__(self, *_: object) -> None:
        self._library.rp_close(ctypes.c_void_p(self._handle))
        self._handle = 0

    def copy(self) -> "Run":
        """Return a run in the same condition, to be closed by `with`; not of a kernel's governor.

        The state table, the settings and all that was learned are the same; totals go on from here.
        """
        handle = self._library.rp_copy(ctypes.c_void_p(self._handle))
        if not handle:
            raise MemoryError
        found = copy(self)
        found._handle = 0
        found._copied = int(handle)
        return found

    def drive(self, demoted: int, rejected: int, every: int) -> None:
        """Have the driver demote or refuse some states, every so many times that it is told to.

        Args:
            demoted: bit k: the enabled state below is entered instead of state k.
            rejected: bit k: state k is refused, which takes a moment.
            every: at least 1.
        """
        self.call("rp_drive", *(ctypes.c_uint32(n) for n in (demoted, rejected, every)))

    def conceal(self) -> None:
        """Do not tell the governor that the tick or the end of polling woke the CPU."""
        self.call("rp_conceal")

    def call(self, function: str, *arguments: object) -> None:
        """Call a function of the library on this run."""
        getattr(self._library, function)(ctypes.c_void_p(self._handle), *arguments)

    def play(self, chunk: Mapping[str, Array], choices: bool) -> dict[str, Array]:
        """Play intervals; return what was decided in each if `choices`."""
        columns = fitting(chunk, INTERVAL_TYPES)
        count = len(columns["start_ns"])
        found: dict[str, Array] = {}
        if choices:
            found = {name: np.empty(count, dtype=kind) for name, kind in CHOICE_TYPES.items()}
        into = ctypes.byref(abi.pointing("rp_choices", found)) if choices else None
        given = abi.pointing("rp_intervals", columns, count=count)
        self.call("rp_play", ctypes.byref(given), into)
        return found

    def follow(self) -> None:
        """Keep the idle periods from here on, for trail()."""
        if self._library.rp_follow(ctypes.c_void_p(self._handle)):
            raise MemoryError

    def trail(self) -> dict[str, Array]:
        """Return the idle periods since the last call, by TRAIL_TYPES."""
        found = abi.struct("rp_trail")()
        if self._library.rp_trail(ctypes.c_void_p(self._handle), ctypes.byref(found)):
            raise MemoryError
        count = found.count
        return {
            name: np.ctypeslib.as_array(getattr(found, name), (count,)).astype(kind)
            for name, kind in TRAIL_TYPES.items()
        }

    def restore(self, state: bytes) -> None:
        """Go on with a recorded state; of another size, or damaged, it leads astray.

        Raises:
            UserError: it has another size than the governor's.
        """
        if len(state) != self.governor.state_size:
            raise UserError(
                f"a recorded state of {self.governor.spec} has {len(state)} bytes, not "
                f"{self.governor.state_size}: other sources of the governor made it"
            )
        self.call("rp_restore", state)

    def forget_totals(self) -> None:
        """Count from here on."""
        self.call("rp_forget_totals")

    def breaches(self) -> ctypes.Structure:
        """Return how many answers no governor may give, since the run was opened."""
        breaches = abi.struct("rp_breaches")()
        self.call("rp_breaches", ctypes.byref(breaches))
        return breaches

    def totals(self) -> ctypes.Structure:
        """Return what the run came to so far."""
        totals = abi.struct("rp_totals")()
        self.call("rp_totals", ctypes.byref(totals))
        return totals


def c_machine(table: StateTable, cpu: int = 0) -> ctypes.Structure:
    """Return a state table as C has it: struct cil_machine."""
    state = abi.struct("cil_state")
    result = abi.struct("cil_machine")(tick_ns=table.tick_ns, state_count=table.count, cpu=cpu)
    for k in range(table.count):
        result.states[k] = state(
            exit_latency_ns=table.exit_latency_ns[k],
            target_residency_ns=table.target_residency_ns[k],
            power_uw=table.power_uw[k],
            polling=table.polling[k],
        )
    return result


def c_model(table: StateTable) -> ctypes.Structure:
    """Return the cost model of a state table as C has it: struct rp_model."""
    costs = model_of(table)
    model = abi.struct("rp_model")()
    for k in range(table.count):
        model.power_mw[k] = costs.power_mw[k]
        model.entry_pj[k] = costs.entry_pj[k]
    return model


def check_table(name: str, table: StateTable) -> None:
    """Refuse a state table with which nothing can be replayed.

    Raises:
        UserError: with the reason.
    """
    if not 1 <= table.count <= STATE_MAX:
        raise UserError(f"{name}: {table.count} idle states; 1 to {STATE_MAX} can be replayed")
    if table.tick_ns <= 0:
        raise UserError(f"{name}: claims a tick of {table.tick_ns} ns")


@dataclass
class Outcome:
    """Result that a governor would have had.

    Attributes:
        governor: as given.
        table: idle states of the CPUs; those with most states where they differ.
        cost_pj: modelled cost of all idle periods.
        oracle_pj: cost of the oracle, which knows each interval.
        idle_ns: length of the intervals played.
        intervals: intervals played.
        skipped: intervals without end, or with unknown inputs.
        decisions: decisions made.
        asked: decisions that asked for the sleep length.
        ticks: idle periods ended by the tick.
        polls: idle periods ended by the poll time limit.
        above: idle periods shorter than the state's target residency.
        below: idle periods long enough for a deeper state.
        entries: idle periods by state.
        wakeups: intervals by the state from which the CPU was woken.
        state_ns: time by state.
        state_pj: cost by state.
        heat: decisions by state chosen (row) and best state for what was left (column).
        reasons: decisions by number of the reason.
        length_count: intervals by class of length; `length_of(class)` is its shortest.
        length_pj: cost by class of length.
        length_oracle_pj: the oracle's cost by class of length.
        latency_ns: wake-ups by their modelled latency.
        choices: by CPU, what was decided in each interval; empty unless asked for.
    """

    governor: str
    table: StateTable
    cost_pj: float = 0.0
    oracle_pj: float = 0.0
    idle_ns: float = 0.0
    intervals: int = 0
    skipped: int = 0
    decisions: int = 0
    asked: int = 0
    ticks: int = 0
    polls: int = 0
    above: int = 0
    below: int = 0
    entries: Array = field(default_factory=lambda: np.zeros(STATE_MAX, np.uint64))
    wakeups: Array = field(default_factory=lambda: np.zeros(STATE_MAX, np.uint64))
    state_ns: Array = field(default_factory=lambda: np.zeros(STATE_MAX))
    state_pj: Array = field(default_factory=lambda: np.zeros(STATE_MAX))
    heat: Array = field(default_factory=lambda: np.zeros((STATE_MAX, STATE_MAX), np.uint64))
    reasons: Array = field(default_factory=lambda: np.zeros(256, np.uint64))
    length_count: Array = field(default_factory=lambda: np.zeros(LENGTH_CLASSES, np.uint64))
    length_pj: Array = field(default_factory=lambda: np.zeros(LENGTH_CLASSES))
    length_oracle_pj: Array = field(default_factory=lambda: np.zeros(LENGTH_CLASSES))
    latency_ns: dict[int, int] = field(default_factory=dict)
    choices: dict[int, dict[str, Array]] = field(default_factory=dict)

    @property
    def regret(self) -> float | None:
        """Idle-energy regret against the oracle in percent; None without an interval."""
        return 100 * (self.cost_pj / self.oracle_pj - 1) if self.oracle_pj else None

    def begins(self, ns: float) -> float:
        """Return the share of the oracle's cost in the first so many ns of each interval, %.

        It is by classes of length, so at most a quarter too much.
        """
        lengths = np.array([length_of(n) for n in range(LENGTH_CLASSES)])
        share = np.minimum(1, ns / np.maximum(lengths, 1))
        cost_pj = float(self.length_oracle_pj @ share)
        return 100 * cost_pj / self.oracle_pj if self.oracle_pj else 0.0

    @property
    def periods(self) -> int:
        """Idle periods that took place."""
        return int(self.entries.sum())

    def share(self, count: int) -> float | None:
        """Return a number of idle periods as percent of all."""
        return 100 * count / self.periods if self.periods else None

    def latency_us(self, share: float) -> float | None:
        """Return the least modelled latency within which this share of the wake-ups is done."""
        need = share * sum(self.latency_ns.values())
        done = 0
        for latency, count in sorted(self.latency_ns.items()):
            done += count
            if done >= need:
                return latency / 1000
        return None

    def add(self, totals: ctypes.Structure, table: StateTable) -> None:
        """Add what a run came to."""
        for name, *_ in totals._fields_:
            value = getattr(totals, name)
            if isinstance(value, ctypes.Array):
                getattr(self, name).__iadd__(np.ctypeslib.as_array(value))
            else:
                setattr(self, name, getattr(self, name) + value)
        for k in range(table.count):
            if count := totals.wakeups[k]:
                latency = table.exit_latency_ns[k]
                self.latency_ns[latency] = self.latency_ns.get(latency, 0) + count


def length_of(length_class: int) -> float:
    """Return the shortest length of a class, in ns."""
    high, low = divmod(length_class, 4)
    return float((1 << high) * (1 + low / 4))


def table_of(path: Path, state_tables: Mapping[int, StateTable], cpu: int) -> StateTable:
    """Return the state table of a CPU.

    Raises:
        UserError: it is unknown, or no governor can be played on it.
    """
    table = state_tables.get(cpu)
    if table is None:
        raise UserError(
            f"{path}: the idle states of CPU {cpu} are unknown, so nothing can be replayed on it"
        )
    check_table(str(path), table)
    return table


def _known(recording: Recording, chunk: Mapping[str, Array], governor: Governor) -> None:
    if governor.name != "oracle" and (chunk["flags"] & np.uint8(UNKNOWN)).any():
        raise UserError(
            f"{recording.path}: has only power:cpu_idle events; what {governor.spec} would have "
            "been told (timers, latency requests, the tick) is unknown, so it cannot be replayed"
        )


# A recording of so many intervals is read once for all governors; it takes 80 MB.
_KEPT_ROWS = 1 << 19
_kept: WeakKeyDictionary[Recording, dict[int, list[Columns]]] = WeakKeyDictionary()
# Each of many governors wants the same CPU at the same time.
_reading = threading.Lock()


def _intervals(recording: Recording, cpu: int) -> Iterator[Columns]:
    """Yield what a governor is told of a CPU."""
    if recording.rows("interval") > _KEPT_ROWS:
        yield from recording.intervals(cpu, list(INTERVAL_TYPES))
        return
    with _reading:
        parts = _kept.setdefault(recording, {})
        if cpu not in parts:
            parts[cpu] = [*recording.intervals(cpu, list(INTERVAL_TYPES))]
    yield from parts[cpu]


def _play_cpu(
    recording: Recording,
    cpu: int,
    governor: Governor,
    settings: Settings | None,
    each: Each | None,
    progress: Progress | None,
) -> tuple[ctypes.Structure, StateTable]:
    table = table_of(recording.path, recording.state_tables, cpu)
    first = 0
    with Run(governor, table, settings, cpu) as run:
        for chunk in _intervals(recording, cpu):
            _known(recording, chunk, governor)
            decided = run.play(chunk, choices=each is not None)
            if each:
                each(cpu, first, decided)
            first += len(chunk["flags"])
            if progress:
                progress(len(chunk["flags"]))
        return run.totals(), table


def counterfactual(
    recording: Recording,
    governor: Governor,
    settings: Settings | None = None,
    *,
    choices: bool = False,
    each: Each | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Return what a governor would have done on the intervals of a recording.

    CPUs without an interval do not count: their idle states may be unknown.

    Args:
        recording: the intervals.
        governor: who decides.
        settings: tunables that differ from the default.
        choices: keep what was decided in each interval, too: 40 bytes for each.
        each: called with what was decided in each chunk, from any thread; not with `choices`.
        jobs: threads; None is one for each processor.
        progress: called with the number of intervals after each chunk, from any thread.

    Raises:
        UserError: the recording lacks what the governor must know, or contradicts itself.
    """
    cpus = [cpu for cpu in recording.cpus if recording.rows("interval", cpu)]
    if not cpus:
        raise UserError(f"{recording.path}: holds no idle interval")
    kept: dict[int, list[Mapping[str, Array]]] = {cpu: [] for cpu in cpus}

    def keep(cpu: int, _first: int, decided: Mapping[str, Array]) -> None:
        kept[cpu].append(decided)

    each = keep if choices else each
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        parts = list(
            pool.map(
                lambda cpu: _play_cpu(recording, cpu, governor, settings, each, progress), cpus
            )
        )
    outcome = Outcome(governor.spec, max((part[1] for part in parts), key=lambda m: m.count))
    for totals, table in parts:
        outcome.add(totals, table)
    if choices:
        outcome.choices = {cpu: joined(decided) for cpu, decided in kept.items()}
    return outcome


def chunks_of(columns: Mapping[str, Array], rows: int) -> Iterator[dict[str, Array]]:
    """Cut columns into chunks of at most `rows` rows."""
    count = len(next(iter(columns.values())))
    for start in range(0, count, rows):
        yield sliced(columns, start, start + rows)
