# SPDX-License-Identifier: GPL-2.0
"""Regrets of governors that did not record: by a clone or by replay, and how far each may be off.

Two governors at least have recorded the workload. Both ways predict each of them from the recording
of another one, and are compared with the facts there. What they miss there they may miss for a
third governor, too. Replay may miss more where that governor has other exit latencies.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from cpuidle_lab.clone.judge import ERRORS_MOST, Told, Verdict
from cpuidle_lab.crossval import own
from cpuidle_lab.crossval.answers import answers
from cpuidle_lab.crossval.pairs import LEAST_INTERVALS, Figures
from cpuidle_lab.crossval.parts import Part

CLONE, REPLAY = "clone", "replay"

# A regret that may be so far off is withheld, points. The error that is allowed any figure.
OFF_MOST, FLOOR = 10.0, 1.0


@dataclass(frozen=True)
class Belief:
    """Figure of a governor that did not record.

    Attributes:
        by: CLONE or REPLAY.
        regret: %.
        off: how far it may be off, points.
        power_mw: modelled energy by idle time.
        p99_us: exit latency of the 99th percentile.
    """

    by: str
    regret: float
    off: float
    power_mw: float
    p99_us: float

    @classmethod
    def of(cls, by: str, figures: Sequence[Figures], off: float) -> "Belief":
        """Return that of figures: means, and the greatest latency."""
        regret = statistics.fmean(one.regret for one in figures)
        power = statistics.fmean(one.power_mw for one in figures)
        return cls(by, regret, off, power, max(one.p99_us for one in figures))

    @property
    def withheld(self) -> bool:
        """It may be too far off."""
        return self.off > OFF_MOST


def _scatter(values: Sequence[float]) -> float:
    """Return by how much a mean is known, points; 0 of one value."""
    if len(values) < 2:
        return 0.0
    return ERRORS_MOST * statistics.stdev(values) / math.sqrt(len(values))


def _replayed(parts: Sequence[Part], other: Part) -> list[Figures]:
    """Return the figures of the recorder of `other` on each of some phases."""
    return [Figures.of(own.play(part, other), part) for part in parts]


def _answers(parts: Sequence[Part], other: Part) -> float:
    """Return how far the regret moves at most if the intervals answer the governor, points."""
    return max(answers(part, other, own.play(part, other, choices=True)) for part in parts)


def _regrets(figures: Sequence[Figures]) -> list[float]:
    return [one.regret for one in figures]


def _misses(real: Mapping[str, Sequence[Part]]) -> float:
    """Return how far replay is off at most, of one recorder on another's recordings, points.

    A latency request bounds replay as it bounds the recorder, so recordings with another one tell
    nothing of it.

    Args:
        real: recordings with one latency request, by label of the regime.
    """
    facts = {label: Told(parts) for label, parts in real.items()}
    return max(
        (abs(statistics.fmean(_regrets(_replayed(real[a], real[b][0]))) - facts[b].regret)
         for a, b in permutations(real, 2)),
        default=math.inf,
    )  # fmt: skip


def _by_replay(parts: Sequence[Part], other: Part, misses: float) -> Belief:
    figures = _replayed(parts, other)
    off = max(misses, _answers(parts, other)) + _scatter(_regrets(figures))
    enough = min(part.judged for part in parts) >= LEAST_INTERVALS
    return Belief.of(REPLAY, figures, off + FLOOR if enough else math.inf)


def believed(
    source: str, real: Mapping[str, Sequence[Part]], found: Verdict, wanted: Sequence[str]
) -> dict[str, Belief]:
    """Return a figure for each governor that did not record.

    Of clone and replay the one is taken that may be off by less.

    Args:
        source: regime whose recordings are rebuilt and replayed.
        real: the recordings of the workload, by label of the regime.
        found: the verdict on the clone.
        wanted: labels of regimes under which the clone was played.
    """
    alike = [label for label in real if real[label][0].request_us == real[source][0].request_us]
    misses = _misses({label: real[label] for label in alike})
    beliefs = {}
    for label in wanted:
        clone = found.clones[label]
        same = clone.parts[0].request_us == real[source][0].request_us
        ways = [_by_replay(real[source], clone.parts[0], misses if same else math.inf)]
        if not found.why:
            ways.append(Belief.of(CLONE, clone.figures, found.uncertainty(label) + FLOOR))
        beliefs[label] = min(ways, key=lambda way: way.off)
    return beliefs
