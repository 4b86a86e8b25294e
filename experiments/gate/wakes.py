# SPDX-License-Identifier: GPL-2.0
"""From which idle state each task was woken."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording import reader, trace
from cpuidle_lab.states.table import StateTable

# The wake-ups' times are cut to microseconds, the decisions' are not.
_CUT_NS = 1000

_WAKE = re.compile(
    r"\s(\d+)\.(\d{6}): sched_wakeup: comm=\S+ pid=(\d+) prio=\d+ (?:success=1 )?target_cpu=(\d+)"
)


@dataclass(frozen=True)
class Wake:
    """A wake-up: time in ns (cut to us), CPU and task."""

    ts: int
    cpu: int
    pid: int


@dataclass(frozen=True)
class Period:
    """An idle period.

    Attributes:
        start: time of the decision, ns.
        end: when the kernel's loop went on, exit latency included, ns.
        cpu: the CPU.
        index: of the idle state.
        hint_ns: the limit by hints that applied, -1 if none.
        reason: the step that decided.
    """

    start: int
    end: int
    cpu: int
    index: int
    hint_ns: int
    reason: str


def wakes(text: str, others: Iterable[int]) -> list[Wake]:
    """Return the wake-ups of a trace's text, without those of some tasks.

    Raises:
        UserError: events were lost, or a line is unknown.
    """
    left_out = set(others)
    count = re.search(r"entries-in-buffer/entries-written: (\d+)/(\d+)", text)
    if not count or count[1] != count[2]:
        raise UserError("wake-ups were lost in the guest")
    found = []
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        match = _WAKE.search(line)
        if not match:
            raise UserError(f"the guest's wake-ups hold the line '{line.strip()}'")
        seconds, micros, pid, cpu = map(int, match.groups())
        if pid not in left_out:
            found.append(Wake(seconds * 10**9 + micros * 1000, cpu, pid))
    return found


def recorded(path: Path) -> tuple[StateTable, list[Period]]:
    """Return the machine of a trace and its idle periods, sorted by CPU and time.

    Raises:
        UserError: the trace cannot be read, or events of it were lost.
    """
    schema = reader.Schema()
    machines: dict[int, StateTable] = {}
    decisions: dict[tuple[int, int], dict[str, Any]] = {}
    outcomes: list[dict[str, Any]] = []
    for piece in reader.read_chunks(path, ("decision", "outcome", "config", "lost")):
        if isinstance(piece, reader.Schema):
            schema = piece
        elif isinstance(piece, reader.Chunk):
            if piece.table == "lost":
                raise UserError(f"{path.name}: events were lost in the guest")
            if piece.table == "config":
                machines = trace.state_tables_of(path, piece.frame, machines)
                continue
            rows = piece.frame.iter_rows(named=True)
            if piece.table == "decision":
                decisions |= {(row["cpu"], row["seq"]): row for row in rows}
            else:
                outcomes += [row for row in rows if row["kind"] == trace.ENTERED]
    if not machines:
        raise UserError(f"{path.name}: the guest made no decision")
    reasons = schema.symbols.get(("decision", "reason"), {})
    pairs = [(decisions.get((row["cpu"], row["seq"])), row) for row in outcomes]
    found = [
        Period(
            start=decision["ts"],
            end=decision["ts"] + outcome["residency_ns"],
            cpu=outcome["cpu"],
            index=outcome["index"],
            hint_ns=decision["hint_ns"],
            reason=reasons.get(decision["reason"], str(decision["reason"])),
        )
        for decision, outcome in pairs
        if decision is not None  # else made before the recording
    ]
    machine = next(iter(machines.values()))
    return machine, sorted(found, key=lambda period: (period.cpu, period.start))


def met(found: Sequence[Wake], idle: Sequence[Period]) -> list[tuple[Wake, Period | None]]:
    """Return each wake-up with the idle period that it ended; None if the CPU was not idle.

    A CPU that polls counts as not idle where its decisions were not recorded: the exit latency of
    polling is 0.
    """
    by_cpu: dict[int, list[Period]] = {}
    for period in idle:
        by_cpu.setdefault(period.cpu, []).append(period)
    starts = {cpu: [period.start for period in each] for cpu, each in by_cpu.items()}
    pairs: list[tuple[Wake, Period | None]] = []
    for wake in found:
        place = bisect_right(starts.get(wake.cpu, []), wake.ts + _CUT_NS - 1) - 1
        last = by_cpu[wake.cpu][place] if place >= 0 else None
        pairs.append((wake, last if last and wake.ts <= last.end else None))
    return pairs
