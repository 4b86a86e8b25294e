# SPDX-License-Identifier: GPL-2.0
"""Means of few runs, and how far they can be trusted.

Rounds are few, ten or so. The percentiles of resampled means are then too close together: with ten
normal values they hold the true mean in some 90 % of cases, not in 95. The bootstrap-t interval
(Efron and Tibshirani, An Introduction to the Bootstrap, chapter 12.5) resamples the mean's distance
from the truth in units of its own standard error instead, and so widens as Student's does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
RESAMPLES = 10_000
METHOD = "bootstrap-t"

# With four values there are but 35 different resamples.
FEWEST = 5

# Standard errors below this part of the values are rounding.
_ROUNDING = 1e-12


class Kind(StrEnum):
    """Ways to compare the values of two governors."""

    RATIO = "ratio"
    DIFFERENCE = "difference"


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval.

    Attributes:
        count: number of values.
        mean: their mean.
        median: their median.
        low, high: interval of the mean; None if there is none: too few values, or too many that
            are equal.
    """

    count: int
    mean: float
    median: float
    low: float | None
    high: float | None

    def excludes(self, value: float) -> bool:
        """Tell whether there is an interval, and `value` lies outside."""
        if self.low is None or self.high is None:
            return False
        return value < self.low or value > self.high


def _standard_errors(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard error of the mean of each row, shape (rows,)."""
    errors = values.std(axis=1, ddof=1) / math.sqrt(values.shape[1])
    errors[errors <= _ROUNDING * np.abs(values).max()] = 0
    return np.asarray(errors)


def interval(
    values: Sequence[float], seed: int, resamples: int = RESAMPLES
) -> tuple[float, float] | tuple[None, None]:
    """Return the 95 % bootstrap-t interval of a mean.

    A resample of equal values has no standard error, so its distance counts as infinite. Where
    there are so many of them that a bound would be infinite, there is no interval.

    Args:
        values: independent of each other, shape (count,).
        seed: of the resampling; the same one gives the same interval.
        resamples: how many to draw.
    """
    data = np.asarray(values, dtype=np.float64)
    count = len(data)
    if count < FEWEST:
        return None, None
    mean = float(data.mean())
    error = float(_standard_errors(data[np.newaxis])[0])
    if error == 0:
        return mean, mean
    drawn = data[np.random.default_rng(seed).integers(0, count, (resamples, count))]
    distance = drawn.mean(axis=1) - mean
    with np.errstate(divide="ignore", invalid="ignore"):
        t = distance / _standard_errors(drawn)
    t[np.isnan(t)] = 0
    tail = (1 - LEVEL) / 2
    lowest, highest = np.quantile(t, (tail, 1 - tail), method="nearest")
    if not (math.isfinite(lowest) and math.isfinite(highest)):
        return None, None
    return mean - float(highest) * error, mean - float(lowest) * error


def estimate(values: Sequence[float], seed: int, resamples: int = RESAMPLES) -> Estimate:
    """Return mean, median and interval of at least one value."""
    data = np.asarray(values, dtype=np.float64)
    low, high = interval(values, seed, resamples)
    return Estimate(len(data), float(data.mean()), float(np.median(data)), low, high)


def compare(
    base: Sequence[float],
    other: Sequence[float],
    kind: Kind,
    seed: int,
    resamples: int = RESAMPLES,
) -> Estimate | None:
    """Compare paired values: `base[i]` and `other[i]` are of the same round.

    Pairs remove what changes from round to round and is the same for both, such as the room's
    temperature. Ratios are averaged as logarithms, so that A against B is the inverse of B
    against A; their mean is the geometric one.

    Returns:
        an estimate of other / base, 1 for no difference, or of other - base, 0 for no difference;
        None if there are no pairs, or no ratios because a value is not positive.
    """
    a, b = np.asarray(base, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"{len(a)} values cannot be paired with {len(b)}")
    if len(a) == 0:
        return None
    if kind is Kind.DIFFERENCE:
        return estimate((b - a).tolist(), seed, resamples)
    if min(a.min(), b.min()) <= 0:
        return None
    logs = estimate((np.log(b) - np.log(a)).tolist(), seed, resamples)
    return Estimate(
        logs.count,
        math.exp(logs.mean),
        math.exp(logs.median),
        None if logs.low is None else math.exp(logs.low),
        None if logs.high is None else math.exp(logs.high),
    )
