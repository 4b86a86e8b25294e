# SPDX-License-Identifier: GPL-2.0
"""Pieces of work of clones beside those of their recordings."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from cpuidle_lab.clone import build, calibrate, events
from cpuidle_lab.clone.program import Program
from cpuidle_lab.evidence.tables import Table

# Fewer pieces of a task tell no usual length.
_ENOUGH = 20
_NS_PER_US = 1000
# Events by the letters of calibrate.py.
_EVENTS = {"B": "birth", "S": "sleep", "P": "post", "W": "wait", "R": "call", "E": "poll",
           "F": "fork", "X": "exit"}  # fmt: skip
# A recording, rebuilt, and the same of its clone.
_Pair = tuple[Program, list[Program]]
# Number of recorded pieces, they and the clone's, ns, their task, and the kinds of events.
_Piece = tuple[int, list[int], list[int], str, str]
_HEADS = (
    "workload", "clone of", "pieces", "spread us", "off us", "task", "between", "recorded us",
    "clone us",
)  # fmt: skip


def table(folders: Iterable[tuple[str, Sequence[Path], Path]], sources: Sequence[str]) -> Table:
    """Return a row for each source: the pieces of its clones under the governor that recorded.

    *Spread* is the 9th less the 1st tenth of the recorded pieces of a task between two kinds of
    events, *off* how far the median of the clone's is from theirs. Both are means, weighted by the
    number of pieces. The other columns are of the pieces that are off most.

    Args:
        folders: name of a workload, the recordings that are rebuilt, and that of its clones, which
            took turns.
        sources: governors whose recordings were rebuilt, in the order of the clones.
    """
    rows = [
        [workload, source, *_row(pairs)]
        for workload, traces, played in folders
        for source, pairs in _rebuilt(traces, played, sources).items()
    ]
    return Table("", _HEADS, rows, 2)


def _rebuilt(
    traces: Sequence[Path], played: Path, sources: Sequence[str]
) -> dict[str, list[_Pair]]:
    """Return by source what each recording is rebuilt to, and what those of its clone are."""
    found: dict[str, list[_Pair]] = {source: [] for source in sources}
    for trace in traces:
        # The first run of a boot has another name and is not judged; the later one stays.
        last = {one.governor: one for one in events.phases(events.read(trace), trace)}
        for source, pairs in found.items():
            pairs.append((build.build(last[source], trace), []))
    for phase in events.phases(events.read(played), played):
        number, _, turn = phase.workload.partition("-")
        source = sources[int(number)]
        if phase.governor == source:
            _, again = found[source][int(turn) % len(traces)]
            again.append(build.build(phase, played))
    return found


def _pieces(recorded: Program, again: Sequence[Program]) -> Iterator[_Piece]:
    """Yield the pieces of a recording, and those of its clone."""
    theirs: dict[tuple[str, str], list[int]] = defaultdict(list)
    for task in (task for one in again for task in one.tasks):
        for pair, lengths in calibrate.pieces(task).items():
            theirs[task.name, pair] += lengths
    for number, task in enumerate(recorded.tasks):
        for pair, mine in calibrate.pieces(task).items():
            clone = theirs[f"c{number}", pair]
            if min(len(mine), len(clone)) >= _ENOUGH:
                yield len(mine), mine, clone, task.name, pair


def _row(pairs: Iterable[_Pair]) -> list[str | float | None]:
    """Return what is told of the clones of a source."""
    found = [piece for recorded, again in pairs for piece in _pieces(recorded, again)]
    if not found:
        return [0, *[None] * 6]
    count = sum(n for n, *_ in found)
    middles = [[statistics.median(each) / _NS_PER_US for each in (mine, clone)]
               for _, mine, clone, *_ in found]  # fmt: skip
    tenths = [statistics.quantiles(mine, n=10) for _, mine, *_ in found]
    off = [abs(b - a) for a, b in middles]
    worst = off.index(max(off))
    return [
        count,
        sum(n * (ends[-1] - ends[0]) for (n, *_), ends in zip(found, tenths, strict=True))
        / count / _NS_PER_US,
        sum(n * each for (n, *_), each in zip(found, off, strict=True)) / count,
        found[worst][3], " and ".join(map(_EVENTS.__getitem__, found[worst][4])), *middles[worst],
    ]  # fmt: skip
