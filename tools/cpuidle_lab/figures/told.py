# SPDX-License-Identifier: GPL-2.0
"""Recordings of which not all sleep lengths are known, told to governors in two ways.

What both ways agree on does not depend on what is unknown. docs/stock.md says why these two.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording import sleeps
from cpuidle_lab.recording.causes import KNOWN
from cpuidle_lab.recording.columns import UNKNOWN, Columns, Recording
from cpuidle_lab.recording.columns.layout import ANSWERS

DRAWN, FAR = "drawn", "far"

# The least error of a regret beside its range, in points, and multiples of the errors of Doubt.
# With these the ranges hold the lab's facts (docs/measured/stock.md).
LEAST, ERRORS, SPREADS = 2.0, 2.0, 2.0

# The least gap between two ranges whose order is told, in points, where the error is known.
_GAP = 1.0

# Points between two ranges below which the order is not told, where the error is not known.
_APART = 2.0

Span = tuple[float, float]


@dataclass(frozen=True)
class Doubt:
    """Errors of a regret that its range does not hold, in points.

    Attributes:
        error: from the recorded regret to that of the recorder, replayed; None where it is not.
        spread: by which single intervals may move it, as they are worth different energy.
        begins: of the cost in the time of the idle loop before each idle period.
    """

    error: float | None = None
    spread: float = 0.0
    begins: float = 0.0

    @property
    def margin(self) -> float:
        """Points by which the regret may be off its range."""
        return LEAST + ERRORS * (self.error or 0.0) + SPREADS * self.spread + self.begins


def distance(value: float, span: Span) -> float:
    """Return the points from a regret to a range, 0 within it."""
    low, high = span
    return max(0.0, low - value, value - high)


def widened(span: Span, doubt: Doubt) -> Span:
    """Return the range of a regret with what else may be wrong of it.

    Args:
        span: regrets in percent, with sleep lengths told in both ways.
        doubt: its other errors.
    """
    low, high = span
    return max(0.0, low - doubt.margin), high + doubt.margin


def least_gap(one: Doubt, other: Doubt) -> float:
    """Return the points between two ranges below which a recording does not tell their order.

    Errors of two governors on a recording are alike, so it is less than the margins of both.
    """
    known = _APART if one.error is None else _GAP + one.error
    return known + math.hypot(one.spread, other.spread) + max(one.begins, other.begins)


class Told(Recording):
    """Stands for a recording of the kind INTERRUPTS whose sleep lengths are all told.

    Args:
        recording: the recording.
        way: DRAWN: those that are not known are drawn from those nearby; FAR: they are far.
    """

    def __init__(self, recording: Recording, way: str) -> None:
        self.__dict__.update(recording.__dict__)
        self.way = way

    def intervals(self, cpu: int, columns: Sequence[str] | None = None) -> Iterator[Columns]:
        """Yield the intervals of a CPU, each with a sleep length.

        Raises:
            UserError: as Recording.intervals(), or its sleep lengths are of others.
        """
        lengths = self.checked("sleep", cpu)
        for chunk in super().intervals(cpu, columns):
            sleep = next(lengths, None)
            told = dict(chunk)
            rows = {len(values) for name, values in told.items() if name not in ANSWERS}
            if sleep is None or rows - {len(sleep["known"])}:
                raise UserError(
                    f"{self.path}: its tables 'interval' and 'sleep' of CPU {cpu} have other rows"
                )
            known = sleep["known"] == KNOWN
            if "timer_ns" in told:
                is_drawn = self.way == DRAWN
                guess = sleep["drawn_ns"] if is_drawn else sleeps.far(sleep["least_ns"], known)
                told["timer_ns"] = np.where(known, told["timer_ns"], guess)
            if "flags" in told:
                told["flags"] = told["flags"] & np.uint8(0xFF ^ UNKNOWN)
            yield told
