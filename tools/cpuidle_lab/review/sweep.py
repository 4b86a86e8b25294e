# SPDX-License-Identifier: GPL-2.0
"""Are the decisions the same? Both governors over all tables, laws and conditions.

Each cell of law, table and condition has some thousand intervals. Decisions are compared one by
one, and the answers are checked on the way.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, product
from typing import Any

import numpy as np

from cpuidle_lab.recording.draw import Draw
from cpuidle_lab.recording.laws import STREAMS
from cpuidle_lab.replay.engine import Array
from cpuidle_lab.review.play import SIDES, Pair, Played, best_share, differing
from cpuidle_lab.review.shrink import GoOn, Shrinker
from cpuidle_lab.review.space import Space, fitted
from cpuidle_lab.review.stream import CONDITIONS, Spec, SpecIntervals, of_law, of_spec, spec_of
from cpuidle_lab.review.tables import KINDS, known

Progress = Callable[[float], bool]

# Intervals of a cell; learning governors need some hundred.
CELL = 2000
# Behind so many of these, one of the search's space.
_RANDOM = 4
# So many of its specs on which decisions differ are kept, as a start for the search.
_STARTS = 12
# One state for so much of the time, of which the oracle gives it less than half, is a livelock.
_STUCK, _WANTED = 0.99, 0.5

RULES = {
    "range": "the index is that of a state",
    "disabled": "no disabled state while another is enabled",
    "latency": "no exit latency beyond the request while a state keeps it",
    "livelock": "no state lasts for ever",
}


@dataclass
class Tally:
    """Decisions, and those that differ.

    Attributes:
        periods: intervals compared.
        differ: of these, with a decision that differs.
    """

    periods: int = 0
    differ: int = 0

    def add(self, periods: int, differ: int) -> None:
        """Count some more."""
        self.periods += periods
        self.differ += differ


@dataclass
class Sweep:
    """Result of the comparison.

    Attributes:
        total: over all.
        kinds: by kind of input: law, table, condition.
        soonest: the stream on which they part soonest, and after how many intervals.
        starts: specs on which most decisions differ, and the share of these.
        broken: by rule and side, the recipe of the first stream on which it is broken.
        complete: as many intervals as were wanted were played.
    """

    total: Tally = field(default_factory=Tally)
    kinds: dict[str, Tally] = field(default_factory=dict)
    soonest: tuple[SpecIntervals, int] | None = None
    starts: list[tuple[float, Spec]] = field(default_factory=list)
    broken: dict[str, dict[str, Any]] = field(default_factory=dict)
    complete: bool = False


def _cells(seed: int) -> Iterator[tuple[dict[str, str], SpecIntervals]]:
    """Yield the cells for ever, in random order, each law on each table in every turn."""
    cells = list(product(STREAMS, known()))
    space = Space(seed)
    for turn in count():
        order = np.argsort(Draw(seed + turn, "sweep").unit(len(cells)))
        for number in order.tolist():
            law, table = cells[number]
            condition = CONDITIONS[(number + turn) % len(CONDITIONS)]
            kinds = {"law": law, "table": KINDS[table.kind], "condition": condition.name}
            yield kinds, of_law(law, table.states, condition, CELL, seed + turn)
            if number % _RANDOM:
                continue
            spec = space.fresh()
            kinds = {"law": "random", "table": "random", "condition": f"{spec['tick_hz']} Hz"}
            yield kinds, of_spec(fitted(spec), seed + turn)


def stuck(stream: SpecIntervals, played: Played) -> bool:
    """Return whether a state lasted for ever where the oracle would seldom take it.

    Where a state is disabled, or a request excludes some, the oracle's share says nothing.
    """
    if stream.disabled or stream.latency_req_ns < max(stream.table.exit_latency_ns):
        return False
    deepest = int(np.argmax(played.share))
    return bool(played.share[deepest] >= _STUCK and best_share(stream)[deepest] < _WANTED)


def check(found: Sweep, stream: SpecIntervals, side: str, played: Played) -> None:
    """Note the rules that a governor broke on a stream."""
    broken = [rule for rule in RULES if played.breaches.get(rule)]
    if stuck(stream, played):
        broken.append("livelock")
    for rule in broken:
        found.broken.setdefault(rule, {}).setdefault(side, stream.recipe)


def _part(found: Sweep, stream: SpecIntervals, differ: Array) -> None:
    """Note a stream on which decisions part."""
    first = int(np.argmax(differ))
    if found.soonest is None or first < found.soonest[1]:
        found.soonest = stream, first
    if stream.recipe and "spec" in stream.recipe:
        found.starts.append((float(differ.mean()), stream.recipe["spec"]))
        found.starts.sort(key=lambda one: -one[0])
        del found.starts[_STARTS:]


def sweep(pair: Pair, periods: int, seed: int, go_on: Progress) -> Sweep:
    """Compare two governors.

    Args:
        pair: the governors.
        periods: so many intervals.
        seed: of the streams.
        go_on: called with the share that is done; False ends it.
    """
    found = Sweep()
    for kinds, stream in _cells(seed):
        played = pair.both(stream, choices=True)
        differ = differing(*played)
        for side, one in zip(SIDES, played, strict=True):
            check(found, stream, side, one)
        for tally in (found.total, *(found.kinds.setdefault(f"{key} {name}", Tally())
                                     for key, name in kinds.items())):  # fmt: skip
            tally.add(stream.count, int(differ.sum()))
        if differ.any():
            _part(found, stream, differ)
        if found.total.periods >= periods:
            found.complete = True
            break
        if not go_on(found.total.periods / periods):
            break
    return found


# ---- The smallest counterexample ----


def parts(pair: Pair, spec: Spec) -> bool:
    """Return whether the governors decide otherwise on a spec."""
    return bool(differing(*pair.both(of_spec(spec), choices=True)).any())


def smallest(pair: Pair, stream: SpecIntervals, first: int, go_on: GoOn) -> Spec:
    """Return a small spec on which two governors decide otherwise."""
    return Shrinker(lambda spec: parts(pair, spec), go_on).shrink(spec_of(stream, first + 1))


def parting(pair: Pair, spec: Spec) -> dict[str, Any]:
    """Return the first interval of a spec in which the decisions differ, and both of them."""
    stream = of_spec(spec)
    played = pair.both(stream, choices=True)
    at = int(np.argmax(differing(*played)))
    told: dict[str, Any] = {"interval": at + 1}
    for side, one in zip(SIDES, played, strict=True):
        last = stream.table.names[int(one.choices["last"][at])]
        told[side] = {
            "state": stream.table.names[int(one.choices["index"][at])],
            "stops_tick": bool(one.choices["stop_tick"][at]),
            "decisions": int(one.choices["decisions"][at]),
            "woken_in": last,
        }
    return told
