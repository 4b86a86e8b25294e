# SPDX-License-Identifier: GPL-2.0
"""Recordings to compare: what they are called, hold and lack."""

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.figures import withheld
from cpuidle_lab.figures.cpu_idle import Untimed
from cpuidle_lab.figures.told import DRAWN, FAR, Told
from cpuidle_lab.recording import columns
from cpuidle_lab.recording.columns import CPU_IDLE, INTERRUPTS, SYNTH, Recording
from cpuidle_lab.recording.trace import ENTERED, Integrity
from cpuidle_lab.states.linux_source import series
from cpuidle_lab.states.table import CpuTable, StateTable


@dataclass(frozen=True)
class Source:
    """A recording.

    Attributes:
        path: as given.
        label: short name, different for each.
        kind: of columns.Recording.
        kernel: release, "" if unknown.
        state_tables: idle states by CPU.
        integrity: what is missing.
        intervals: exogenous intervals in it.
        shares: what a regret leaves out or guesses: kind of `withheld`, %.
        denied: idle states that were entered though the limits did not allow them.
        recorders: names of the governors that recorded, "" where nothing tells; none of a stream.
        loop_ns: from an exit to the next entry, if nothing runs, as interrupts tell; 0: unknown.
    """

    path: Path
    label: str
    kind: str
    kernel: str
    state_tables: dict[int, StateTable]
    integrity: Integrity
    intervals: int
    shares: dict[str, float]
    denied: list[str]
    recorders: list[str]
    loop_ns: int = 0

    def is_recorder(self, label: str) -> bool:
        """Tell whether a governor is the one that recorded: its name and, of a kernel's, series."""
        name, _, version = label.partition("@")
        return self.recorders == [name] and (not version or version == series(self.kernel))


def _without_suffix(name: str) -> str:
    return name.removesuffix(".dat").removesuffix(".trace")


def labels(paths: Sequence[Path]) -> list[str]:
    """Return short names that differ: the paths without what they have in common."""
    if len(paths) == 1:
        path = Path(os.path.realpath(paths[0]))
        return [_without_suffix((path.parent if path.name == "trace.dat" else path).name)]
    parts = [list(Path(os.path.realpath(path)).parts) for path in paths]
    while all(len(item) > 1 for item in parts) and len({item[-1] for item in parts}) == 1:
        parts = [item[:-1] for item in parts]
    while all(len(item) > 1 for item in parts) and len({item[0] for item in parts}) == 1:
        parts = [item[1:] for item in parts]
    found = [_without_suffix("/".join(item)) for item in parts]
    return found if len(set(found)) == len(found) else [str(path) for path in paths]


def open_source(
    path: Path, label: str, given: Sequence[CpuTable], stack: ExitStack
) -> tuple[Source, Recording]:
    """Open a recording to be compared, and tell what it holds and lacks.

    Raises:
        UserError: it holds no idle interval, or lacks tables or times.
    """
    recording = stack.enter_context(columns.opened(path, given))
    if not recording.rows("interval"):
        raise UserError(f"{path}: holds no idle interval")
    if recording.kind == CPU_IDLE and not recording.state_tables:
        raise UserError(f"{path}: does not tell the idle states; give them with --machine")
    share, names = _denied(ways_of(recording)[0])
    return Source(
        path,
        label,
        recording.kind,
        recording.kernel,
        recording.state_tables,
        recording.integrity,
        _intervals(recording),
        _shares(ways_of(recording)[0], share),
        names,
        _recorders(recording),
        recording.loop_ns,
    ), recording


def _recorders(recording: Recording) -> list[str]:
    """Return the names of the governors that decided; none where nothing tells."""
    if recording.kind == SYNTH:
        return []
    names = recording.symbols.get(("decision", "governor"), {})
    if recording.kind == CPU_IDLE:  # its idle periods tell none
        return list(names.values())
    numbers: set[int] = set()
    for cpu in recording.cpus:
        for chunk in recording.intervals(cpu, ["governor"]):
            numbers.update(np.unique(chunk["governor"]).tolist())
    return [names[number] for number in sorted(numbers) if number in names]


def _intervals(recording: Recording) -> int:
    """Count the intervals; a selection that was aborted is none."""
    every = (recording.intervals(cpu, ["length_ns"]) for cpu in recording.cpus)
    return sum(int((chunk["length_ns"] != 0).sum()) for chunks in every for chunk in chunks)


def _denied(recording: Recording) -> tuple[float, list[str]]:
    """Return the share of the idle periods whose state was not allowed, %, and these states."""
    found: Counter[str] = Counter()
    total = 0
    for cpu, table in recording.state_tables.items():
        names = ["out_index", "out_kind", "latency_req_ns", "disabled"]
        for chunk in recording.periods(cpu, names):
            index, kind, *limits = (chunk[name] for name in names)
            bad = withheld.contradicts(table, index, *limits) & (kind == ENTERED)
            total += int((kind == ENTERED).sum())
            states, counts = np.unique(index[bad], return_counts=True)
            for k, count in zip(states, counts, strict=True):
                found[table.names[k]] += int(count)
    return withheld.percent(found.total(), total), sorted(found)


def _shares(recording: Recording, denied: float) -> dict[str, float]:
    """Return what a regret on a recording leaves out or guesses, given what _denied() found."""
    integrity, decisions = recording.integrity, recording.rows("period")
    missing = integrity.decisions_missing
    endless = max(0, integrity.without_outcome - len(recording.cpus))
    gone = sum(((recording.stock or {}).get("left_out") or {}).values())
    kept = max(decisions, recording.rows("interval"))
    names = ["length_ns", "flags"]
    frames = (
        pl.DataFrame(chunk) for cpu in recording.cpus for chunk in recording.intervals(cpu, names)
    )
    return withheld.shares_of(frames) | {
        withheld.LOST: withheld.percent(missing + endless, missing + decisions),
        withheld.LEFT_OUT: withheld.percent(gone, gone + kept),
        withheld.UNSEEN: recording.unseen_percent,
        withheld.CHANGED: 100.0 * bool((recording.stock or {}).get("changed")),
        withheld.REQUEST: denied,
    }


def ways_of(recording: Recording) -> list[Recording]:
    """Return how a recording is told to governors: in two ways where it leaves much open."""
    if recording.kind == CPU_IDLE:
        return [Untimed(recording)]
    if recording.kind == INTERRUPTS:
        return [Told(recording, way) for way in (DRAWN, FAR)]
    return [recording]
