# SPDX-License-Identifier: GPL-2.0
"""Decisions that cost most, on the streams where a governor loses most."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cpuidle_lab.compare import reasons
from cpuidle_lab.evidence.tables import Cell, Table
from cpuidle_lab.replay.candidates import Candidate
from cpuidle_lab.replay.engine import Run
from experiments.wteo.streams import StudyIntervals

# Columns by which decisions are of a kind.
_KIND = ("index", "last", "ideal", "reason", "stop_tick")

# Of each stream.
_KINDS = 3


@dataclass(frozen=True)
class Kind:
    """Decisions of a kind.

    Attributes:
        first, last: states chosen first and left last in the interval.
        ideal: the best state for it.
        reason: the step that decided first.
        stop_tick: whether the tick was to be stopped then.
        count: intervals.
        share: part of what the governor lost on this stream, %.
        mean_uj: lost in each, uJ.
    """

    first: str
    last: str
    ideal: str
    reason: str
    stop_tick: bool
    count: int
    share: float
    mean_uj: float


def kinds(stream: StudyIntervals, who: Candidate, most: int = _KINDS) -> list[Kind]:
    """Return the kinds of decisions that cost most, the worst first, on the first CPU."""
    cpu = next(iter(stream.intervals))
    names = stream.machines[cpu].names
    with Run(who.governor, stream.machines[cpu], dict(who.settings), cpu) as run:
        choices = run.play(stream.intervals[cpu], choices=True)
    lost = choices["cost_pj"] - choices["oracle_pj"]
    total = float(lost.sum())
    if total <= 0:
        return []
    table = np.stack([choices[name] for name in _KIND], axis=1)
    found, member = np.unique(table, axis=0, return_inverse=True)
    sums = np.bincount(member.ravel(), weights=lost)
    counts = np.bincount(member.ravel())
    order = np.argsort(-sums, kind="stable")[:most]
    return [
        Kind(
            names[found[n, 0]],
            names[found[n, 1]],
            names[found[n, 2]],
            reasons.name(int(found[n, 3])),
            bool(found[n, 4]),
            int(counts[n]),
            float(100 * sums[n] / total),
            float(sums[n] / counts[n] / 1e6),
        )
        for n in order
    ]


def table(streams: Sequence[StudyIntervals], who: Candidate) -> Table:
    """Return the kinds of decisions that cost most on each stream."""
    rows: list[list[Cell]] = []
    for stream in streams:
        for one in kinds(stream, who):
            tick = "stopped" if one.stop_tick else "kept"
            rows.append([
                stream.table, stream.name, one.first, one.last, one.ideal, one.reason, tick,
                one.count, one.share, one.mean_uj,
            ])  # fmt: skip
    heads = ("states", "stream", "chosen first", "left last", "ideal", "reason", "tick",
             "intervals", "of the loss %", "each uJ")  # fmt: skip
    note = "Intervals by what was decided in them, those that cost most above the oracle."
    return Table("Decisions that cost most, where most is lost to mainline", heads, rows, 1, note)
