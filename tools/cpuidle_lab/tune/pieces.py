# SPDX-License-Identifier: GPL-2.0
"""The intervals of recordings, parted into those that are searched on and those that judge.

They are written once into files that every process maps into its memory, so that any number of
processes holds them once.
"""

import hashlib
import json
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording.columns import ANSWERS, PART_ROWS, Columns, Recording, describe, opened
from cpuidle_lab.replay import engine
from cpuidle_lab.replay.library import Governor
from cpuidle_lab.states.table import StateTable

# numpy parses a file's head by ast. CPython 3.11 fails at that if garbage is collected meanwhile
# and another thread does the same: "AST constructor recursion depth mismatch".
_MAPPING = threading.Lock()


class Piece(Recording):
    """The intervals of a recording, or of a stretch of its time.

    Attributes:
        path: of the recording, and which part of it, for the user.
        state_tables: idle states by CPU.
        cpus: the CPUs that have rows.
    """

    def __init__(
        self,
        path: Path,
        folder: Path,
        state_tables: Mapping[int, StateTable],
        stretches: Mapping[int, slice],
    ) -> None:
        """Name the files; `folder` has one for each CPU and column, see spread()."""
        self.path = path
        self.state_tables = dict(state_tables)
        self.cpus = sorted(stretches)
        self._folder = folder
        self._stretches = dict(stretches)

    def column(self, cpu: int, name: str) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
        """Return a column of a CPU, mapped into memory."""
        whole = _mapped(_file(self._folder, cpu, name))
        rows = self._stretches[cpu]
        if name in ANSWERS:
            counts = _mapped(_file(self._folder, cpu, "answers"))
            before = int(counts[: rows.start].sum())
            rows = slice(before, before + int(counts[rows].sum()))
        return whole[rows]

    def intervals(self, cpu: int, columns: Sequence[str] | None = None) -> Iterator[Columns]:
        """Yield the intervals of a CPU: the columns that are replayed, or some of them."""
        names = engine.INTERVAL_TYPES if columns is None else columns
        yield from engine.chunks_of({name: self.column(cpu, name) for name in names}, PART_ROWS)

    def rows(self, table: str = "interval", cpu: int | None = None) -> int:
        """Return the number of intervals of one CPU or of all."""
        assert table == "interval"
        which = self.cpus if cpu is None else [cpu]
        return sum(len(self.column(number, "flags")) for number in which)

    def digest(self) -> str:
        """Return a hash of the intervals, the state tables and the cost model."""
        total = hashlib.sha256()
        for cpu in self.cpus:
            table = self.state_tables[cpu]
            total.update(json.dumps([cpu, describe(table)]).encode())
            total.update(bytes(engine.c_model(table)))
            for chunk in self.intervals(cpu):
                for values in chunk.values():
                    total.update(np.ascontiguousarray(values).data)
        return total.hexdigest()

    def cut(self, share: float) -> tuple["Piece", "Piece"]:
        """Return what begins before the last `share` of the time, and the rest.

        Raises:
            UserError: one of them would be empty.
        """
        starts = {cpu: self.column(cpu, "start_ns") for cpu in self.cpus}
        first = min(int(values[0]) for values in starts.values())
        last = max(int(values[-1]) for values in starts.values())
        border = last - int((last - first) * share)
        early, late = {}, {}
        for cpu, values in starts.items():
            row = int(np.searchsorted(values, np.uint64(border)))
            early[cpu], late[cpu] = slice(0, row), slice(row, len(values))
        pieces = []
        for title, part in (("the time before", early), ("its last part", late)):
            rows = {cpu: rows for cpu, rows in part.items() if rows.start < rows.stop}
            if not rows:
                raise UserError(
                    f"{self.path}: holds too few intervals to keep some of them apart; "
                    "give more traces, or --hold-out"
                )
            path = self.path.with_name(f"{self.path.name} ({title})")
            pieces.append(Piece(path, self._folder, self.state_tables, rows))
        return pieces[0], pieces[1]


def _file(folder: Path, cpu: int, name: str) -> Path:
    return folder / f"{cpu}-{name}.npy"


def _mapped(path: Path) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    with _MAPPING:
        return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]


def spread(recording: Recording, path: Path, folder: Path) -> Piece:
    """Write the columns of a recording's intervals into `folder`, one file each.

    Args:
        recording: what is read.
        path: as the user knows it.
        folder: is made.

    Raises:
        UserError: it has no intervals, or state tables with which nothing can be replayed.
    """
    folder.mkdir()
    stretches = {}
    for cpu in recording.cpus:
        rows = recording.rows("interval", cpu)
        if not rows:
            continue
        stretches[cpu] = slice(0, rows)
        answers = sum(
            int(chunk["answers"].sum()) for chunk in recording.intervals(cpu, ["answers"])
        )
        into = {
            column: np.lib.format.open_memmap(
                _file(folder, cpu, column),
                mode="w+",
                dtype=kind,
                # An empty file cannot be mapped.
                shape=(max(1, answers) if column in ANSWERS else rows,),
            )
            for column, kind in engine.INTERVAL_TYPES.items()
        }
        done = dict.fromkeys(into, 0)
        for chunk in recording.intervals(cpu, list(engine.INTERVAL_TYPES)):
            for column, values in into.items():
                count = len(chunk[column])
                values[done[column] : done[column] + count] = chunk[column]
                done[column] += count
    if not stretches:
        raise UserError(f"{path}: holds no idle interval")
    for cpu in stretches:
        if cpu not in recording.state_tables:
            raise UserError(f"{path}: the idle states of CPU {cpu} are unknown")
        engine.check_table(str(path), recording.state_tables[cpu])
    state_tables = {cpu: recording.state_tables[cpu] for cpu in stretches}
    return Piece(path, folder, state_tables, stretches)


@dataclass(frozen=True)
class Split:
    """Pieces that the search sees, and pieces that it does not.

    Attributes:
        search: what is searched on.
        held_out: what judges.
        how: how they were told apart, for the user.
    """

    search: tuple[Piece, ...]
    held_out: tuple[Piece, ...]
    how: str


def gather(
    traces: Sequence[Path], hold_out: Sequence[Path], share: float, seed: int, folder: Path
) -> Split:
    """Read recordings and part them.

    Args:
        traces: recordings: trace.dat or Parquet directories.
        hold_out: more, which judge. Where there are none, a share of `traces` does, chosen by
            `seed`; a single trace is cut in time.
        share: of the traces, or of the time of a single one, that is held out; above 0, below 1.
        seed: of the choice.
        folder: takes the columns.

    Raises:
        UserError: a file cannot be used, or two have the same content.
    """
    known: dict[str, Piece] = {}
    for number, path in enumerate([*traces, *hold_out]):
        with opened(path) as recording:
            piece = spread(recording, path, folder / str(number))
        digest = piece.digest()
        if digest in known:
            raise UserError(f"{known[digest].path} and {path} hold the same intervals")
        known[digest] = piece
    pieces = list(known.values())
    if hold_out:
        return Split(tuple(pieces[: len(traces)]), tuple(pieces[len(traces) :]), "as asked for")
    if len(pieces) == 1:
        early, late = pieces[0].cut(share)
        how = f"the last {100 * share:.0f} % of the only trace's time"
        return Split((early,), (late,), how)
    # By content, so that neither the order nor the names on the command line matter.
    ranked = sorted(known)
    count = min(max(1, round(share * len(ranked))), len(ranked) - 1)
    chosen = set(random.Random(seed).sample(ranked, count))
    return Split(
        tuple(piece for digest, piece in known.items() if digest not in chosen),
        tuple(piece for digest, piece in known.items() if digest in chosen),
        f"{count} of {len(ranked)} traces, chosen by the seed {seed}",
    )


@dataclass(frozen=True)
class Figures:
    """Figures of a governor on some pieces, each of which counts the same.

    Attributes:
        regret: mean idle-energy regret against the oracle, percent.
        p99_us: mean of the 99th percentiles of the modelled wake-up latency.
        each: (regret, p99_us) of each piece.
    """

    regret: float
    p99_us: float
    each: tuple[tuple[float, float], ...]


def figures(
    pieces: Sequence[Piece],
    governor: Governor,
    settings: engine.Settings,
    *,
    jobs: int | None = None,
    progress: engine.Progress | None = None,
) -> Figures:
    """Replay a governor on pieces; `jobs` and `progress` as engine.counterfactual() has them.

    Raises:
        UserError: a piece lacks what the governor must know, or has nothing to replay.
    """
    each = []
    for piece in pieces:
        outcome = engine.counterfactual(piece, governor, settings, jobs=jobs, progress=progress)
        regret, p99_us = outcome.regret, outcome.latency_us(0.99)
        if regret is None or p99_us is None:
            raise UserError(f"{piece.path}: none of its intervals can be replayed")
        each.append((regret, p99_us))
    mean = np.mean(each, axis=0)
    return Figures(float(mean[0]), float(mean[1]), tuple(each))
