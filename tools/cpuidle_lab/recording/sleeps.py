# SPDX-License-Identifier: GPL-2.0
"""Sleep lengths that are not known, drawn from those that are: docs/stock.md. Times in ns.

A bound is a censored length, as in the statistics of life times: Kaplan and Meier.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# A timer that is told where none is known to come; menu's product would wrap at much more.
FAR_NS = 1_000_000_000

# Lengths are drawn from those of so many intervals before and after.
_BLOCK = 300


def _survival(known: Array, every: Array) -> tuple[Array, Array]:
    """Return lengths, and the share of all that outlasts each.

    Args:
        known: lengths.
        every: the same, and bounds of the others.
    """
    at, ended = np.unique(known, return_counts=True)
    at_risk = len(every) - np.searchsorted(np.sort(every), at, "left")
    return at, np.cumprod(1 - ended / np.maximum(at_risk, 1))


def drawn(length_ns: Array, is_known: Array, seed: int) -> Array:
    """Return a sleep length for each interval.

    Args:
        length_ns: the sleep length, or its least.
        is_known: whether it is known.
        seed: of the random numbers.

    Returns:
        Those that are known as they are; the others drawn from those nearby that are greater than
        the bound, and FAR_NS at least where none is.
    """
    rng = np.random.default_rng(seed)
    found = length_ns.copy()
    for start in range(0, len(length_ns), _BLOCK):
        near = slice(max(0, start - _BLOCK), start + 2 * _BLOCK)
        at, left = _survival(length_ns[near][is_known[near]], length_ns[near])
        rows = start + np.flatnonzero(~is_known[start : start + _BLOCK])
        bound = length_ns[rows]
        reached = np.searchsorted(at, bound, "right")
        now = np.append(1.0, left)[reached]
        target = now * rng.random(len(rows))
        place = np.searchsorted(-left, -target, "left")
        beyond = np.append(at, FAR_NS)[place]
        found[rows] = np.maximum(beyond, bound + 1)
    return found


def far(length_ns: Array, is_known: Array) -> Array:
    """Return sleep lengths of which those that are not known are far; otherwise as drawn()."""
    return np.where(is_known, length_ns, np.maximum(FAR_NS, length_ns + 1))
