# SPDX-License-Identifier: GPL-2.0
"""Intervals hold the truth as often as they say, also with few values."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpuidle_lab.base import resampling
from cpuidle_lab.base.resampling import Kind


def test_an_interval_of_known_values() -> None:
    # A symmetric sample: the interval lies around the mean, near Student's: 5.5 -+ 2.262 * 0.957.
    low, high = resampling.interval(list(range(1, 11)), seed=1)
    assert low is not None
    assert high is not None
    assert low == pytest.approx(3.33, abs=0.25)
    assert high == pytest.approx(7.67, abs=0.25)
    assert resampling.interval(list(range(1, 11)), seed=1) == (low, high)


def test_equal_values_have_an_interval_of_no_width() -> None:
    assert resampling.interval([0.1] * 10, seed=1) == pytest.approx((0.1, 0.1))


def test_values_that_are_nearly_all_equal_have_no_interval() -> None:
    assert resampling.interval([0.0] * 9 + [1.0], seed=1) == (None, None)


def test_few_values_have_no_interval() -> None:
    assert resampling.interval([1.0, 2.0, 3.0, 4.0], seed=1) == (None, None)


Interval = Callable[[Any, int], tuple[float, float] | tuple[None, None]]


def bootstrap_t(values: Any, seed: int) -> tuple[float, float] | tuple[None, None]:
    return resampling.interval(values, seed, resamples=1000)


def percentiles(values: Any, seed: int) -> tuple[float, float]:
    """Return what the usual bootstrap would."""
    drawn = np.random.default_rng(seed).choice(values, (1000, len(values))).mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(low), float(high)


def coverage(interval: Interval, draw: Callable[[np.random.Generator], Any], truth: float) -> float:
    """Return how often an interval holds the truth."""
    random = np.random.default_rng(3)
    hits = 0
    for seed in range(1000):
        low, high = interval(draw(random), seed)
        hits += low is not None and high is not None and low <= truth <= high
    return hits / 1000


@pytest.mark.parametrize("count", [6, 10, 20])
def test_the_interval_holds_the_truth_in_95_percent(count: int) -> None:
    def draw(random: np.random.Generator) -> Any:
        return random.normal(7, 2, count)

    ours, usual = coverage(bootstrap_t, draw, 7), coverage(percentiles, draw, 7)
    print(f"{count} rounds: bootstrap-t {100 * ours:.1f} %, percentiles {100 * usual:.1f} %")
    # 0.95 -+ 3 standard errors of the simulation is 0.93 to 0.97.
    assert 0.93 <= ours <= 0.97
    assert usual < ours


def test_skewed_values_cost_little() -> None:
    truth = math.exp(0.5**2 / 2)
    assert coverage(bootstrap_t, lambda random: random.lognormal(0, 0.5, 10), truth) >= 0.91


def simulate(effect: float, simulations: int) -> float:
    """Return in how many simulated sessions a difference is shown; rounds drift by 10 %."""
    random = np.random.default_rng(7)
    shown = 0
    for seed in range(simulations):
        drift = random.normal(1, 0.1, 10)
        base = 100 * drift * random.normal(1, 0.01, 10)
        other = 100 * drift * effect * random.normal(1, 0.01, 10)
        found = resampling.compare(list(base), list(other), Kind.RATIO, seed, resamples=1000)
        assert found is not None
        shown += found.excludes(1)
    return shown / simulations


def test_identical_governors_do_not_differ() -> None:
    assert simulate(1, 1000) <= 0.07  # 0.05 is meant; 3 standard errors are 0.02


def test_a_true_difference_of_two_percent_is_found_through_a_drift_of_ten() -> None:
    assert simulate(0.98, 200) >= 0.9


values = st.lists(st.floats(0.001, 1e9), min_size=5, max_size=12)


@settings(max_examples=50)
@given(values, st.randoms(use_true_random=False))
def test_the_ratio_the_other_way_round_is_the_inverse(a: list[float], random: Any) -> None:
    b = [value * random.uniform(0.5, 2) for value in a]
    one = resampling.compare(a, b, Kind.RATIO, 1, 1000)
    other = resampling.compare(b, a, Kind.RATIO, 1, 1000)
    assert one is not None
    assert other is not None
    assert one.mean * other.mean == pytest.approx(1)
    if one.low is not None and one.high is not None:
        assert one.low <= one.mean <= one.high


def test_ratios_need_positive_values_and_pairs() -> None:
    assert resampling.compare([0, 1], [1, 1], Kind.RATIO, 1) is None
    assert resampling.compare([], [], Kind.RATIO, 1) is None
    with pytest.raises(ValueError, match="cannot be paired"):
        resampling.compare([1], [1, 2], Kind.DIFFERENCE, 1)
