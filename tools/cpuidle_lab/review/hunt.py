# SPDX-License-Identifier: GPL-2.0
"""Looks for the table and the law on which one governor loses most to another.

A steady-state evolution: a fresh spec now and then, else a changed one of the best of three. The
best are confirmed on neighbours, with other seeds, and with half the exit latencies. What does not
hold is counted as chance. What holds is made small, and the three worst of different kinds are
told. It begins at specs on which the decisions are known to differ; one on which nothing differs
is no start. The seed decides all of it but how many specs are tried in the time.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from random import Random
from typing import Any

import numpy as np

from cpuidle_lab.recording.laws import FAR_NS, US
from cpuidle_lab.review.play import POLL_MW, Pair, Played, best_share
from cpuidle_lab.review.shrink import GoOn, Shrinker, explicit
from cpuidle_lab.review.space import Space, fitted, jittered, plausible
from cpuidle_lab.review.stream import Spec, SpecIntervals, of_spec, size_of
from cpuidle_lab.review.sweep import Progress
from cpuidle_lab.review.tables import known

WORST = 3

_PEOPLE, _SEEDS = 24, (11, 12, 13, 14, 15)
# Share of fresh specs, as long as there are few that differ, and then.
_FEW, _MANY = 0.75, 0.25
# Shares of an objective's time, and at most so much of all for each specimen made small.
_EVOLVE, _FINISH, _SHRINK = 0.7, 0.3, 0.06
# A shrunken spec keeps so much of the score, and its neighbours half of it.
_KEEP = 0.6
# Single intervals are easier to read than a law if they are so few.
_MOST = 20


def _power(before: Played, after: Played, _: SpecIntervals) -> float:
    """Percent of polling's power, of wall time with work and exit latencies in it."""
    return 100 * (after.power_mw - before.power_mw) / POLL_MW


def _latency(before: Played, after: Played, _: SpecIntervals) -> float:
    return 100 * math.log((after.late_us + 1) / (before.late_us + 1))


def _shallow(before: Played, after: Played, stream: SpecIntervals) -> float:
    """Percent of time in states shallower than before, and than the oracle's."""
    allowed = np.maximum(np.cumsum(before.share), np.cumsum(best_share(stream)))
    return 100 * float(np.max((np.cumsum(after.share) - allowed)[:-1], initial=0.0))


def _ticks(before: Played, after: Played, _: SpecIntervals) -> float:
    return after.ticks - before.ticks


@dataclass(frozen=True)
class Objective:
    """A loss that is searched for.

    Attributes:
        score: of both governors' figures on a stream; the second loses by so much.
        share: of the time of the search.
        least: a smaller score is no harm.
    """

    score: Callable[[Played, Played, SpecIntervals], float]
    share: float
    least: float


OBJECTIVES = {
    "power": Objective(_power, 0.55, 1.0),
    "exit latency": Objective(_latency, 0.15, 10.0),
    "shallow": Objective(_shallow, 0.15, 5.0),
    "ticks": Objective(_ticks, 0.15, 10.0),
}


@dataclass(frozen=True)
class Witness:
    """A spec on which the second governor loses.

    Attributes:
        objective: of OBJECTIVES.
        score: of it, middle of fresh seeds.
        spec: small.
        before, after: figures there.
        real: the machine's table on which the same intervals cost most, and the score there.
    """

    objective: str
    score: float
    spec: Spec
    before: dict[str, float]
    after: dict[str, float]
    real: tuple[str, float]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def figures(one: Played) -> dict[str, float]:
    """Return the figures of a witness."""
    return {
        "regret": round(one.regret, 2),
        "power_mw": round(one.power_mw, 2),
        "latency_us": round(one.late_us, 2),
        "p99_us": one.outcome.latency_us(0.99) or 0.0,
        "ticks_per_s": round(one.ticks, 2),
        "shallowest": round(100 * float(one.share[0]), 2),
    }


class Judge:
    """Scores specs by one objective."""

    def __init__(self, pair: Pair, objective: str) -> None:
        self.pair = pair
        self.objective = objective
        self.least = OBJECTIVES[objective].least
        self._score = OBJECTIVES[objective].score

    def score(
        self, spec: Spec, seed: int = 1, times: int = 1, *, nothing: float = 0.0
    ) -> float:  # fmt: skip
        """Return by how much the second governor loses; -inf where nothing is to be said.

        Args:
            spec: the intervals.
            seed: of their draws.
            times: so many times as long as an evaluation.
            nothing: the score where no figure differs.
        """
        made = fitted(spec)
        made |= {"repeat": made["repeat"] * times, "skip": made["skip"] * times}
        stream = of_spec(made, seed)
        before, after = self.pair.both(stream)
        if not before.outcome.oracle_pj > 0:
            return -math.inf
        return nothing if before.alike(after) else self._score(before, after, stream)

    def robust(self, spec: Spec, bar: float) -> float:
        """Return the score; beyond a bar the least of two neighbours' and its own."""
        if not plausible(spec):
            return -math.inf
        found = self.score(spec, nothing=-math.inf)
        for seed in (2, 3):
            if found <= bar:
                break
            found = min(found, self.score(jittered(spec, Random(seed), 0.1), seed))
        return found

    def confirm(self, spec: Spec) -> float:
        """Return the middle score on longer streams; 0 if most seeds have less than half of it.

        Replay spends the whole exit latency, and governors learn of that. So the score must also
        hold where exit latencies are half as long.
        """
        need = self.score(spec) / 2
        found = sorted(self.score(spec, seed, 4) for seed in _SEEDS)
        halved = self.score(jittered(spec, Random(1), 0.0, exits=0.5), 2, 4)
        held = sum(score >= need for score in found) >= 3 and halved >= need
        return found[len(found) // 2] if held else 0.0

    def small(self, spec: Spec, go_on: GoOn) -> Spec | None:
        """Return a smaller spec that keeps most of the score; None: the figures show no harm.

        The figures of a witness are those with this seed, so the harm must show in them, too.
        """
        need = max(_KEEP * self.score(spec, 5), self.least)

        def good(one: Spec) -> bool:
            if not plausible(one) or self.score(one, 5) < need:
                return False
            return all(
                self.score(jittered(one, Random(seed), 0.1), 5) >= need / 2 for seed in (2, 3)
            )

        small = Shrinker(good, go_on).shrink(spec)
        # A spec that is not good itself comes back as it is.
        return _single(good, go_on, small) if self.score(small, 5) >= need else None


def _single(good: Callable[[Spec], bool], go_on: GoOn, spec: Spec) -> Spec:
    """Return a few single intervals in place of laws where these show the same."""
    for count in (100, 40, 16):
        stream = of_spec(fitted(spec), 5)
        rows = [
            (round(length / US, 1), None if timer == FAR_NS else round(timer / US, 1))
            for length, timer in zip(
                stream.length_ns[:count].tolist(), stream.timer_ns[:count].tolist(), strict=True
            )
        ]
        other = explicit(spec, rows)
        if good(other):
            small = Shrinker(good, go_on).shrink(other)
            return small if size_of(small)[1] <= _MOST else spec
    return spec


def _next(space: Space, people: Sequence[tuple[float, Spec]]) -> Spec:
    """Return a fresh spec, or one near the best of three."""
    fresh = _FEW if len(people) < 4 * _PEOPLE else _MANY
    if not people or space.r.random() < fresh:
        return space.fresh()
    some = space.r.sample(people, min(3, len(people)))
    return space.near(max(some, key=lambda one: one[0])[1])


def evolve(
    judge: Judge, space: Space, go_on: GoOn, starts: Sequence[Spec] = ()
) -> list[tuple[float, Spec]]:  # fmt: skip
    """Return specs by falling score.

    Args:
        judge: of the objective.
        space: of specs.
        go_on: it ends where this is false.
        starts: specs that are tried first.
    """
    people: list[tuple[float, Spec]] = []
    bar = -math.inf
    rest = [*reversed(starts)]
    while go_on():
        spec = rest.pop() if rest else _next(space, people)
        score = judge.robust(spec, bar)
        if score == -math.inf:
            continue
        people.append((score, spec))
        if len(people) > 6 * _PEOPLE:
            people.sort(key=lambda one: -one[0])
            del people[_PEOPLE:]
            bar = people[-1][0]
    return sorted(people, key=lambda one: -one[0])


def kind_of(spec: Spec) -> tuple[object, ...]:
    """Return what makes two witnesses different to a reader."""
    states, phases = spec["states"], spec["phases"]
    tick_us = 1e6 / spec["tick_hz"]
    made = of_spec(fitted(spec), 5)
    classes = {sum(length / US >= bound for bound in (tick_us / 10, tick_us / 2))
               for length in made.length_ns.tolist()}  # fmt: skip
    return (str(states[0][0]).endswith("*"), states[-1][2] >= 1e9, spec.get("tick_stopped", False),
            any("timer_us" in phase for phase in phases), tuple(sorted(classes)))  # fmt: skip


def _on_real(judge: Judge, spec: Spec) -> tuple[str, float]:
    """Return the machine on whose table the same intervals cost most."""
    scores = [(judge.score({**spec, "states": table.states}, 5), table.name) for table in known()]
    score, name = max(scores)
    return name, round(score, 1)


def _witness(judge: Judge, spec: Spec, score: float) -> Witness:
    stream = of_spec(fitted(spec), 5)
    before, after = (figures(one) for one in judge.pair.both(stream))
    told = fitted(spec)
    return Witness(judge.objective, round(score, 2), told, before, after, _on_real(judge, spec))


@dataclass
class Found:
    """Result of a search.

    Attributes:
        witnesses: the worst of different kinds, worst first.
        by_chance: candidates that did not hold with other seeds.
        evaluations: specs played.
    """

    witnesses: list[Witness]
    by_chance: int
    evaluations: int


def hunt(
    pair: Pair, seed: int, clock: Callable[[float], Progress], starts: Sequence[Spec] = ()
) -> Found:  # fmt: skip
    """Search by each objective.

    Args:
        pair: the governors; the second is to lose.
        seed: of the search.
        clock: returns what tells whether time is left of a share of all.
        starts: specs on which decisions differ.
    """
    found = Found([], 0, 0)
    seen: set[tuple[object, ...]] = set()
    for objective, kind in OBJECTIVES.items():
        judge = Judge(pair, objective)
        inside = partial(clock(kind.share * _EVOLVE), 0.0)
        people = evolve(judge, Space(seed), inside, starts)
        _keep_best(judge, people, found, seen, clock)
    found.evaluations = pair.played
    found.witnesses.sort(key=lambda one: (one.objective != "power", -one.score))
    del found.witnesses[WORST:]
    return found


def _keep_best(
    judge: Judge, people: list[tuple[float, Spec]], found: Found,
    seen: set[tuple[object, ...]], clock: Callable[[float], Progress],
) -> None:  # fmt: skip
    """Confirm candidates of different kinds, make them small, and keep them."""
    kept = 0
    go_on = clock(OBJECTIVES[judge.objective].share * _FINISH)
    tried: set[tuple[object, ...]] = set()
    for score, spec in people:
        if score < judge.least or kept == WORST or not go_on(0.0):
            break
        kind = kind_of(spec)
        if kind in tried:
            continue
        tried.add(kind)
        middle = judge.confirm(spec)
        if middle < judge.least:
            found.by_chance += 1
            continue
        small = judge.small(spec, partial(clock(_SHRINK), 0.0))
        if small is None:
            found.by_chance += 1
            continue
        if kind_of(small) in seen:
            continue
        seen.add(kind_of(small))
        found.witnesses.append(_witness(judge, small, middle))
        kept += 1
