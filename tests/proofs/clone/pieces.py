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
_HEADS = (
    "workload", "clone of", "pieces", "spread us", "off us", "task", "between", "recorded us",
    "clone us",
)  # fmt: skip


def table(folders: Iterable[tuple[str, Path, Path]], sources: Sequence[str]) -> Table:
    """Return a row for each clone: its pieces under the governor that recorded.

    *Spread* is the 9th less the 1st tenth of the recorded pieces of a task between two kinds of
    events, *off* how far the median of the clone's is from theirs. Both are means, weighted by the
    number of pieces. The other columns are of the pieces that are off most.

    Args:
        folders: name of a workload, its first recording, and the recording of its clones.
        sources: governors whose recordings were rebuilt, in the order of the clones.
    """
    rows = [
        [workload, source, *_row(recorded, again)]
        for workload, trace, played in folders
        for source, recorded, again in _rebuilt(trace, played, sources)
    ]
    return Table("", _HEADS, rows, 2)


def _rebuilt(
    trace: Path, played: Path, sources: Sequence[str]
) -> Iterator[tuple[str, Program, list[Program]]]:
    """Yield each source, what its recording is rebuilt to, and what its clone's ones are."""
    first: dict[str, Program] = {}
    for phase in events.phases(events.read(trace), trace):
        if phase.governor in sources:
            # The first run of a boot has another name and is not judged; the later one stays.
            first[phase.governor] = build.build(phase, trace)
    again: dict[str, list[Program]] = defaultdict(list)
    for phase in events.phases(events.read(played), played):
        source = sources[int(phase.workload.partition("-")[0])]
        if phase.governor == source:
            again[source].append(build.build(phase, played))
    for source in sources:
        yield source, first[source], again[source]


def _row(recorded: Program, again: Sequence[Program]) -> list[str | float | None]:
    """Return what is told of a clone."""
    theirs: dict[tuple[str, str], list[int]] = defaultdict(list)
    for task in (task for one in again for task in one.tasks):
        for pair, lengths in calibrate.pieces(task).items():
            theirs[task.name, pair] += lengths
    found = [
        (len(mine), mine, theirs[f"c{number}", pair], task.name, pair)
        for number, task in enumerate(recorded.tasks)
        for pair, mine in calibrate.pieces(task).items()
        if min(len(mine), len(theirs[f"c{number}", pair])) >= _ENOUGH
    ]
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
