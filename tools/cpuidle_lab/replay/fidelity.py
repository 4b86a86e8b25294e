# SPDX-License-Identifier: GPL-2.0
"""Recorded decisions, made again by the governor that made them, and compared."""

import ctypes
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import numpy as np

from cpuidle_lab.base import abi
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.columns import Recording
from cpuidle_lab.replay.engine import Array, Progress, Run, check_table
from cpuidle_lab.replay.library import Governor, governor
from cpuidle_lab.replay.points import (
    ASKED,
    COMPARED,
    GO_ON,
    UNKNOWABLE,
    Points,
    ShadowPoints,
    repeat,
)
from cpuidle_lab.replay.policies import BASE, must_be_trace, reason_name
from cpuidle_lab.replay.tunables import Tunables

# A thread on which polars works.
_WORKER = re.compile(r"polars-\d|tokio-")

ABORTED = abi.constant("CIL_OUTCOME_ABORTED")
REJECTED = abi.constant("CIL_DECISION_REJECTED")

Returned = TypeVar("Returned")


@dataclass
class Difference:
    """A decision that replay made otherwise than the kernel did.

    Attributes:
        cpu: the CPU.
        seq: the decision's number on it.
        what: what differs, with both values.
    """

    cpu: int
    seq: int
    what: str


@dataclass
class Fidelity:
    """Agreement of a governor's replay with its recording.

    Attributes:
        governor: whose decisions they are; "base" are a kernel governor's under the gate.
        decisions: recorded.
        compared: made again.
        identical: index, stop_tick, reason, row and the question for the next timer are the same.
        unknowable: not made again, because events before them were lost.
        aborted: decisions that no idle period followed, among those compared.
        rejected: decisions that follow a state which the driver refused, likewise.
        reasons: decisions compared, by reason.
        states_same: checkpoints that equal what the replay had learned by itself.
        states_fresh: checkpoints of a governor that started afresh.
        states_taken: checkpoints that replay had to go on from: its starting points.
        tunables: sets of tunables in force.
        first: the first differences.
    """

    governor: str
    decisions: int = 0
    compared: int = 0
    identical: int = 0
    unknowable: int = 0
    aborted: int = 0
    rejected: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    states_same: int = 0
    states_fresh: int = 0
    states_taken: int = 0
    tunables: int = 0
    first: list[Difference] = field(default_factory=list)

    def add(self, other: "Fidelity") -> None:
        """Add another part of the recording."""
        for name, value in vars(other).items():
            if name == "tunables":
                self.tunables = max(self.tunables, value)
            elif name != "governor":
                setattr(self, name, getattr(self, name) + value)

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON can have it."""
        first = [vars(difference) for difference in self.first]
        return vars(self) | {"reasons": dict(self.reasons), "first": first}

    def lines(self) -> list[str]:
        """Return the result for people."""
        whose = "gate over a kernel governor" if self.governor == BASE else self.governor
        found = [f"{whose}: identical {self.identical} of {self.compared}"]
        if self.unknowable:
            found.append(f"  not decided, events before them were lost: {self.unknowable}")
        if self.tunables > 1:
            found.append(f"  sets of tunables in force: {self.tunables}")
        if self.states_same:
            found.append(f"  checkpoints equal to what replay had learned: {self.states_same}")
        if self.aborted:
            found.append(f"  without an idle period: {self.aborted}")
        found += [f"  CPU {d.cpu} decision {d.seq}: {d.what}" for d in self.first]
        return found


def _generations(recording: Recording, shadow: bool) -> list[int]:
    found: set[int] = set()
    if shadow:
        return sorted(recording.table("shadow")["generation"].unique().to_list())
    for cpu in recording.cpus:
        for chunk in recording.periods(cpu, ["generation"]):
            found |= set(np.unique(chunk["generation"]).tolist())
    return sorted(found)


def _compare(
    result: Fidelity,
    recording: Recording,
    recorded: Mapping[str, Array],
    answers: Mapping[str, Array],
    known: Array,
) -> None:
    same = known.copy()
    for name in COMPARED:
        same &= recorded[name] == answers[name]
    same &= (recorded["flags"] & ASKED != 0) == (answers["asked"] != 0)
    result.decisions += len(known)
    result.compared += int(known.sum())
    result.identical += int(same.sum())
    result.unknowable += int((~known).sum())
    result.aborted += int((known & (recorded["out_kind"] == ABORTED)).sum())
    result.rejected += int((known & (recorded["flags"] & REJECTED != 0)).sum())
    numbers, counts = np.unique(recorded["reason"][known], return_counts=True)
    for number, count in zip(numbers, counts, strict=True):
        result.reasons[reason_name(recording, int(number))] += int(count)
    for position in np.flatnonzero(known & ~same)[: 10 - len(result.first)]:
        parts = [
            f"{name} {recorded[name][position]} was recorded, {answers[name][position]} replayed"
            for name in COMPARED
            if recorded[name][position] != answers[name][position]
        ]
        what = "; ".join(parts) or "only one of them asked for the sleep length"
        result.first.append(
            Difference(int(recorded["cpu"][position]), int(recorded["seq"][position]), what)
        )


def _cpu_fidelity(
    kind: type[Points],
    recording: Recording,
    cpu: int,
    chosen: Governor,
    tunables: Tunables,
    progress: Progress | None,
) -> Fidelity:
    result = Fidelity(chosen.name)
    table = recording.state_tables.get(cpu)
    if table is None:
        return result
    check_table(str(recording.path), table)
    source = kind(recording, cpu, chosen, tunables)
    unknown = True
    with Run(chosen, table, cpu=cpu) as run:
        for points, recorded in source.chunks():
            answers = repeat(run, points, tunables.table(), source.states.data)
            # From a gap to the next start nothing is decided.
            marks = points["start"]
            last = np.maximum.accumulate(np.where(marks != GO_ON, np.arange(len(marks)), -1))
            open_gap = np.where(last < 0, unknown, marks[last] == UNKNOWABLE)
            unknown = bool(open_gap[-1])
            _compare(result, recording, recorded, answers, ~open_gap)
            if progress:
                progress(len(marks))
        checks = abi.struct("rp_checks")()
        run.call("rp_checks", ctypes.byref(checks))
    result.states_same, result.states_fresh = checks.same, checks.fresh
    result.states_taken = checks.other
    return result


def _can_fork() -> bool:
    """Tell whether a fork has all that polars needs: it has no workers yet, which a fork lacks."""
    names = []
    for thread in Path("/proc/self/task").glob("*/comm"):
        # Threads may end meanwhile.
        with suppress(OSError):
            names.append(thread.read_text())
    return bool(names) and not any(_WORKER.match(name) for name in names)


def _end_with_parent() -> None:
    """Let signals, and the end of the process that started this one, end it without a traceback.

    A process whose parent is killed would wait for ever: a fork has the other end of its pipe.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if parent := parent_process():

        def watch() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()


class Apart(Generic[Returned]):
    """A process of its own for a call of a function; it is ended by `with`.

    A recorded state is what a governor goes on with, byte for byte. One that was damaged may make
    it read and write astray: then that process ends, and this one says so. A fork has its imports
    at once. Else it is a new process, and they take as long as those of a command.
    """

    def __init__(self, function: Callable[..., Returned]) -> None:
        """Start the process where it can be forked.

        Args:
            function: of a module; it, its arguments and its result can be pickled.
        """
        self._function = function
        self._called: Future[Returned] | None = None
        way = "fork" if _can_fork() else "spawn"
        self._pool = ProcessPoolExecutor(1, get_context(way), _end_with_parent)
        if way == "fork":
            self._pool.submit(import_module, function.__module__)

    def begin(self, *arguments: object) -> None:
        """Call the function, and go on meanwhile."""
        self._called = self._pool.submit(self._function, *arguments)

    def __enter__(self) -> Self:
        """Return the process."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the process."""
        self._pool.shutdown()

    def result(self, path: Path) -> Returned:
        """Return the result of the call that was begun.

        Args:
            path: the recording, for the message.

        Raises:
            UserError: the process ended without a result, or the function raised it.
        """
        assert self._called
        try:
            return self._called.result()
        except BrokenProcessPool:
            raise UserError(
                f"{path}: replay broke down; a state that was recorded in it is damaged"
            ) from None


def apart(path: Path, function: Callable[..., Returned], *arguments: object) -> Returned:
    """Call a function in a process of its own; errors as Apart.result()."""
    with Apart(function) as process:
        process.begin(*arguments)
        return process.result(path)


def fidelity_of(path: Path, name: str, jobs: int | None) -> Fidelity:
    """Return fidelity() of a Parquet directory."""
    return fidelity(Recording(path), name, jobs=jobs)


def fidelity(
    recording: Recording,
    name: str,
    *,
    shadow: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Fidelity:
    """Make a governor's recorded decisions again and compare.

    Args:
        recording: a trace.
        name: one of recorded_policies(), or of recorded_shadows().
        shadow: compare what it decided as a shadow.
        jobs: threads; None is one for each processor.
        progress: called with the number of decisions after each chunk, from any thread.

    Raises:
        UserError: the recording contradicts itself.
    """
    must_be_trace(recording)
    chosen = governor(name)
    tunables = Tunables(recording, chosen)
    kind: type[Points] = ShadowPoints if shadow else Points
    # Filled before the threads start; they only read it.
    for generation in _generations(recording, shadow):
        tunables.number(generation)
    result = Fidelity(chosen.name, tunables=len(tunables))
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        for part in pool.map(
            lambda cpu: _cpu_fidelity(kind, recording, cpu, chosen, tunables, progress),
            recording.cpus,
        ):
            result.add(part)
    return result
