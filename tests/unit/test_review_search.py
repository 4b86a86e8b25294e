# SPDX-License-Identifier: GPL-2.0
"""`review`: streams, what is drawn, small witnesses, and the search."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpuidle_lab.replay import law
from cpuidle_lab.review import cases, hunt, worker
from cpuidle_lab.review.hunt import Found, Judge, evolve
from cpuidle_lab.review.shrink import Shrinker, within
from cpuidle_lab.review.space import Space, fitted, plausible
from cpuidle_lab.review.stream import Spec, columns_of, of_spec, slack_of, spec_of, table_of
from experiments.cases import schema
from tests.unit.reviewing import SPEC


def test_a_spec_is_played_as_its_case() -> None:
    text = cases.case(SPEC, "A title", "Why?", ["teo@7.2"])
    case = schema.parse(text, "one")
    stream = case.streams["found"]
    longest = int(of_spec(SPEC).length_ns.max())
    played = law.intervals(stream.phases, stream.repeat, "one found", 3,
                           slack_ns=slack_of(case.machine, longest))  # fmt: skip
    ours = columns_of(of_spec(SPEC))
    assert case.machine == table_of(SPEC)
    assert all(np.array_equal(ours[name], column) for name, column in played.items())


def test_the_condition_of_a_spec_is_in_its_case() -> None:
    spec = {**SPEC, "tick_stopped": True, "latency_req_us": 5, "disabled": ["C1"], "skip": 4}
    case = schema.parse(cases.case(spec, "A title", "Why?", ["teo@7.2"]), "one")
    assert case.disabled == 0b10 and case.cells[0].latency_req_us == 5
    assert case.streams["found"].tick_stopped and case.streams["found"].skip == 4


def test_intervals_become_a_spec_and_again_intervals() -> None:
    stream = of_spec({**SPEC, "tick_stopped": True, "disabled": ["C6"]})
    again = of_spec(spec_of(stream, stream.count))
    for name, column in columns_of(stream).items():
        assert np.array_equal(columns_of(again)[name], column), name


def test_what_is_drawn_depends_on_the_seed_alone() -> None:
    first, second, other = Space(1), Space(1), Space(2)
    drawn = [first.fresh() for _ in range(20)]
    assert drawn == [second.fresh() for _ in range(20)]
    assert drawn != [other.fresh() for _ in range(20)]
    changed = [first.near(spec) for spec in drawn]
    assert changed == [second.near(spec) for spec in drawn]
    for spec in filter(plausible, (*drawn, *changed)):
        assert len(of_spec(fitted(spec)).length_ns) >= 16


def test_no_stream_lasts_so_long_that_its_replay_seems_to_hang() -> None:
    """With a tick of each millisecond, 300 s are 300,000 ticks, which take about a second."""
    space = Space(3)
    drawn = [space.fresh() for _ in range(100)]
    changed = [one for spec in drawn for one in (space.near(spec),) if plausible(one)]
    assert len(changed) > 50
    for spec in (*drawn, *changed):
        assert of_spec(fitted(spec)).length_ns.sum() < 300e9
    long = {**SPEC, "phases": [{"count": 400, "wake_us": 300_000}]}
    assert not plausible(long) and plausible({**long, "phases": [{"count": 1, "wake_us": 9.0}]})


def test_a_spec_gets_small() -> None:
    """Only a long interval behind three short ones matters here, on two states."""
    spec = {**SPEC, "tick_stopped": True, "phases": SPEC["phases"] * 6 + [
        {"count": 1, "wake_us": 4321.0, "timer_us": 7000}]}  # fmt: skip

    def good(one: Spec) -> bool:
        lengths = of_spec(one).length_ns
        return len(one["states"]) > 1 and bool((lengths > 3_000_000).any()) and len(lengths) > 3

    small = Shrinker(good, within(20)).shrink(spec)
    assert good(small)
    assert small["states"] == [["POLL*", 0, 0], ["C1", 1, 1]] or len(small["states"]) == 2
    assert sum(phase["count"] for phase in small["phases"]) <= 4
    assert "tick_stopped" not in small


class Scored(Judge):
    """A judge whose scores are given: -inf where nothing differs.

    Args:
        worth: score of a spec with a seed.
    """

    def __init__(self, worth: Callable[[Spec, int], float]) -> None:
        self.least, self._worth = 1.0, worth

    def score(self, spec: Spec, seed: int = 1, times: int = 1, *, nothing: float = 0.0) -> float:
        """Return the given score."""
        found = self._worth(spec, seed)
        return nothing if found == -np.inf else found


FIXED: Spec = {"tick_hz": 250, "states": [["C1", 1, 1], ["C2", 10, 20], ["C6", 133, 600]],
               "phases": [{"count": 3, "wake_us": 40}, {"count": 1, "timer_us": 20_000},
                          {"count": 2, "wake_us": 900}]}  # fmt: skip


def test_a_small_witness_keeps_its_effect() -> None:
    """Each phase adds to the harm; two of three would keep most of it, and are no harm."""
    judge = Scored(lambda spec, _: 0.4 * len(spec["phases"]))
    small = judge.small(FIXED, within(20))
    assert small is not None
    assert len(small["phases"]) == 3 and len(small["states"]) == 2


@pytest.mark.parametrize("score", [-3.0, 0.0, 0.9])
def test_a_harm_that_its_figures_do_not_show_is_no_witness(score: float) -> None:
    judge = Scored(lambda _, seed: score if seed == 5 else 10.0)
    assert judge.small(FIXED, within(20)) is None


def test_the_search_stays_where_something_differs() -> None:
    """The harm grows with the latency request, which only the start has, and its neighbours."""
    judge = Scored(lambda spec, _: spec["phases"][0]["count"] if "latency_req_us" in spec
                   else -np.inf)  # fmt: skip
    left = iter(range(300))
    found = evolve(judge, Space(1), lambda: next(left, None) is not None,
                   [{**FIXED, "latency_req_us": 5}])  # fmt: skip
    assert len(found) > 10 and all("latency_req_us" in spec for _, spec in found)
    assert found[0][0] > 3 * FIXED["phases"][0]["count"]


class Counting:
    """A pair that counts the streams that it plays."""

    played = 0

    def swapped(self) -> "Counting":
        """Return another, which counts for itself."""
        return Counting()


@pytest.mark.parametrize("gain", [False, True])
def test_a_search_ends_after_its_streams(gain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for gain plays the pair the other way round."""

    def count(pair: Any, _: int, clock: Callable[[float], Any], starts: Any) -> Found:
        go_on = clock(0.5)
        while go_on(0.0):
            pair.played += 1
        return Found([], 0, pair.played)

    monkeypatch.setattr(hunt, "hunt", count)
    one = worker.Worker(Path(), lambda _: None)
    one._pair = Counting()
    told = one.hunt(seed=1, seconds=0.5, gain=gain, starts=[], streams=100)
    assert told["evaluations"] == 50
