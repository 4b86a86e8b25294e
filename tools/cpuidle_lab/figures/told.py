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

# Points between two ranges of regret, below which the order is not told. In the lab it takes the
# pairs in a wrong order from 7 to 2 in 100 (docs/measured/stock.md).
APART = 3.0


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
        lengths = self._checked("sleep", cpu, None)
        for chunk in super().intervals(cpu, columns):
            sleep, _ = next(lengths, (None, None))
            told = dict(chunk)
            rows = {len(values) for name, values in told.items() if name not in ANSWERS}
            if sleep is None or rows - {sleep.height}:
                raise UserError(
                    f"{self.path}: its tables 'interval' and 'sleep' of CPU {cpu} have other rows"
                )
            known = sleep["known"].to_numpy() == KNOWN
            if "timer_ns" in told:
                least = sleep["least_ns"].to_numpy()
                drawn = sleep["drawn_ns"].to_numpy()
                guess = drawn if self.way == DRAWN else sleeps.far(least, known)
                told["timer_ns"] = np.where(known, told["timer_ns"], guess)
            if "flags" in told:
                told["flags"] = told["flags"] & np.uint8(0xFF ^ UNKNOWN)
            yield told
