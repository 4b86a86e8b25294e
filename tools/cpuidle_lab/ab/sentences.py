# SPDX-License-Identifier: GPL-2.0
"""Comparisons in words, with as many digits as their intervals deserve."""

import math

from cpuidle_lab.ab.estimates import METRIC, NONE, UNKNOWN, Comparison
from cpuidle_lab.base.resampling import FEWEST, Estimate, Kind

_MOST_DIGITS = 6


def digits(change: Estimate) -> int:
    """Return how many decimals a change is shown with: two digits of its interval's width."""
    if change.low is None or change.high is None or change.low == change.high:
        return 1
    return min(max(1 - math.floor(math.log10(change.high - change.low)), 0), _MOST_DIGITS)


def unit(comparison: Comparison) -> str:
    """Return the unit of a change."""
    return "%" if comparison.figure.kind is Kind.RATIO else "points"


def _amount(comparison: Comparison, value: float, decimals: int) -> str:
    words = ("lower", "higher") if comparison.figure.key == METRIC else ("less", "more")
    return f"{abs(value):.{decimals}f} {unit(comparison)} {words[value > 0]}"


def sentence(comparison: Comparison) -> str:
    """Return a comparison in words; "" if the table is enough."""
    figure, change = comparison.figure, comparison.change
    if not figure.claim or change is None:
        return ""
    a, b = comparison.reference, comparison.governor
    rounds, decimals = f"{change.count} rounds", digits(change)
    mean = _amount(comparison, change.mean, decimals)
    nothing = f"no difference in {figure.label} between {b} and {a} can be shown"
    if change.low is None or change.high is None:
        why = "are too few" if change.count < FEWEST else "are too much alike for an interval"
        return f"{nothing}: {rounds} {why} (mean {mean})"
    if comparison.verdict == NONE:
        low, high = (_amount(comparison, end, decimals) for end in (change.low, change.high))
        return f"{nothing} (95 % interval {low} … {high}, {rounds})"
    worth = {True: ", better", False: ", worse", None: ""}[comparison.is_better]
    claim = figure.claim.format(a=a, b=b, change=mean) + (worth if figure.key == METRIC else "")
    least, most = sorted((abs(change.low), abs(change.high)))
    interval = f"{least:.{decimals}f} … {most:.{decimals}f} {unit(comparison)}"
    return f"{claim} (95 % interval {interval}, {rounds})"


def verdict(comparison: Comparison) -> str:
    """Return the result of a comparison in a word or two."""
    if comparison.verdict == UNKNOWN:
        return "unknown"
    if comparison.verdict == NONE:
        return "no difference shown"
    worth = {True: ", better", False: ", worse", None: ""}[comparison.is_better]
    return comparison.verdict + worth
