# SPDX-License-Identifier: GPL-2.0
"""Recordings of which not all sleep lengths are known, told to governors in two ways.

What both ways agree on does not depend on what is unknown. docs/stock.md says why these two.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording import sleeps
from cpuidle_lab.recording.causes import KNOWN
from cpuidle_lab.recording.columns import UNKNOWN, Columns, Recording
from cpuidle_lab.recording.columns.layout import ANSWERS

DRAWN, FAR = "drawn", "far"

# Other errors of a regret, in points: the least, a share of it, and a multiple of the error of the
# instrument. With these the ranges hold the lab's facts (docs/measured/stock.md).
LEAST, SHARE, TIMES = 1.0, 0.05, 2.0

# Points between two ranges below which the order is not told, where that error is not known.
_APART = 3.0

Span = tuple[float, float]


def distance(value: float, span: Span) -> float:
    """Return the points from a regret to a range, 0 within it."""
    low, high = span
    return max(0.0, low - value, value - high)


def widened(span: Span, error: float | None) -> Span:
    """Return the range of a regret with what else may be wrong in such a recording.

    Args:
        span: regrets in percent, with sleep lengths told in both ways.
        error: points from the recorded regret to the range of the recorder, replayed; None where
            the recorder is not replayed.
    """
    low, high = span
    margin = LEAST + SHARE * high + TIMES * (error or 0.0)
    return max(0.0, low - margin), high + margin


def least_gap(error: float | None) -> float:
    """Return the points between two ranges below which a recording does not tell their order.

    Errors of two governors on a recording are alike, so it is less than the margins of both.

    Args:
        error: as of widened().
    """
    return _APART if error is None else LEAST + TIMES * error


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
