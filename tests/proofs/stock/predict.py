# SPDX-License-Identifier: GPL-2.0
"""Predictions on recordings without the module beside the facts, as crossval has them.

Each governor B is replayed on what one way tells of A's recording. The fact is B's own recording,
as the module tells it. The same is done with the module's recording of A: a way must not err more.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from cpuidle_lab.crossval import own
from cpuidle_lab.crossval.moved import moved, shares
from cpuidle_lab.crossval.pairs import LEAST_INTERVALS, Figures, Pair, grouped
from cpuidle_lab.crossval.parts import Part
from cpuidle_lab.crossval.targets import differences

Phases = Mapping[int, Part]


def pairs(full: Phases, told: Phases) -> Iterator[Pair]:
    """Yield the predictions on one way's phases that have enough intervals, beside the facts.

    Args:
        full: phases as the module tells them, by the time of their mark.
        told: the same as the way tells them; some may be missing.
    """
    starts = {id(part): start for start, part in full.items()}
    usable = [
        part
        for start, part in full.items()
        if start in told and min(part.count, told[start].count) >= LEAST_INTERVALS
    ]
    for key, by_label in grouped(usable).items():
        facts = [part for seeds in by_label.values() for part in seeds.values()]
        for a, b in product(facts, repeat=2):
            mine = told[starts[id(a)]]
            figures = Figures.of(own.play(mine, b, restore=a is b), mine)
            places = moved([shares(mine)], [shares(b)])
            labels = a.recorder.label, b.recorder.label
            yield Pair(*key, *labels, (figures,), (Figures.recorded(b),), places)


def figures(found: Sequence[Pair]) -> dict[str, float]:
    """Return the errors of a way: points of regret, and shares."""
    mine = [abs(pair.error) for pair in found if pair.own]
    others = [pair for pair in found if not pair.own]
    errors = [abs(pair.error) for pair in others]
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
