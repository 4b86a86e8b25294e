# SPDX-License-Identifier: GPL-2.0
"""Predictions on recordings without the module beside the facts, as crossval has them.

Each governor B is replayed on what one way tells of A's recording. The fact is B's own recording,
as the module tells it. The same is done with the module's recording of A: a way must not err more.
What one of them alone has of the end of a phase is left out, for it may be most of the idle time.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from cpuidle_lab.crossval import own
from cpuidle_lab.crossval.moved import moved, shares
from cpuidle_lab.crossval.pairs import LEAST_INTERVALS, Figures, Pair, grouped
from cpuidle_lab.crossval.parts import Part
from cpuidle_lab.crossval.targets import differences
from cpuidle_lab.recording.columns import CUT, sliced

Phases = Mapping[int, Part]

# Less is between the records of the same decision; more is between two decisions of a CPU.
NEAR_NS = 2_000


def _ends(part: Part) -> dict[int, int]:
    """Return by CPU after which time no interval begins that the module has whole, ns."""
    ends = {}
    for cpu, (intervals, periods) in part.kept.items():
        whole = np.flatnonzero((intervals["flags"] & CUT) == 0)
        last = int(intervals["first_seq"][whole[-1]]) if len(whole) else -1
        ends[cpu] = int(periods["ts"][periods["interval"] == last].max(initial=0)) + NEAR_NS
    return ends


def _until(part: Part, ends: Mapping[int, int]) -> Part:
    """Return a phase without the intervals that begin after their CPU's end, see _ends()."""
    kept = dict(part.kept)
    for cpu in ends.keys() & kept.keys():
        intervals, periods = kept[cpu]
        number = int(np.searchsorted(periods["ts"], ends[cpu]))
        seqs = periods["seq"][:number]
        whole = int(np.searchsorted(intervals["first_seq"], seqs[-1], "right")) if number else 0
        kept[cpu] = sliced(intervals, 0, whole), sliced(periods, 0, number)
    return replace(part, kept=kept)


def pairs(full: Phases, told: Phases) -> Iterator[Pair]:
    """Yield the predictions on one way's phases that have enough intervals, beside the facts.

    Args:
        full: phases as the module tells them, by the time of their mark.
        told: the same as the way tells them; some may be missing.
    """
    both = []
    for start, part in full.items():
        if start in told and min(part.count, told[start].count) >= LEAST_INTERVALS:
            ends = _ends(part)
            both.append((_until(part, ends), _until(told[start], ends)))
    of = {id(fact): mine for fact, mine in both}
    for key, by_label in grouped([fact for fact, _ in both]).items():
        facts = [part for seeds in by_label.values() for part in seeds.values()]
        for a, b in product(facts, repeat=2):
            mine = of[id(a)]
            figures = Figures.of(own.play(mine, b, restore=a is b), mine)
            places = moved([shares(mine)], [shares(b)])
            labels = a.recorder.label, b.recorder.label
            yield Pair(*key, *labels, (figures,), (Figures.recorded(b),), places)


def figures(found: Sequence[Pair]) -> dict[str, float]:
    """Return the errors of a way: points of regret, and shares."""
    mine = [pair.size for pair in found if pair.own]
    others = [pair for pair in found if not pair.own]
    errors = [pair.size for pair in others]
    differ = differences(found)
    return {
        "pairs": len(found),
        "own_mean": statistics.fmean(mine or [0.0]),
        "own_worst": max(mine, default=0.0),
        "cross_mean": statistics.fmean(errors or [0.0]),
        "cross_worst": max(errors, default=0.0),
        "p99_same": statistics.fmean(
            [pair.predicted[0].p99 == pair.real[0].p99 for pair in others] or [1.0]
        ),
        "signs_right": statistics.fmean([one.right for one in differ] or [1.0]),
    }


def targets(
    found: Mapping[str, Sequence[Pair]], module: str, allowed: Mapping[str, float]
) -> list[tuple[bool, str]]:
    """Return whether each way predicts as well as the module's recording, and the figures.

    Args:
        found: pairs by way; where the module's recording has none, nothing is judged.
        module: the way that is the measure.
        allowed: points by which the mean error of each other way may be greater.
    """
    least = figures(found[module])["cross_mean"]
    lines = []
    for way, mine in found.items() if found[module] else ():
        told = figures(mine)
        lines.append(
            (
                bool(mine) and told["cross_mean"] <= least + allowed.get(way, 0.0),
                f"{way}: predictions beside {told['pairs']:.0f} facts: mean error "
                f"{told['cross_mean']:.2f} points on another's recordings (target: the "
                f"module's {least:.2f} + {allowed.get(way, 0.0):g}), worst "
                f"{told['cross_worst']:.2f}; on their own {told['own_mean']:.2f}, worst "
                f"{told['own_worst']:.2f}; p99 the same {100 * told['p99_same']:.1f} %, "
                f"signs right {100 * told['signs_right']:.1f} %",
            )
        )
    return lines
