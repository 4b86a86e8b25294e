# SPDX-License-Identifier: GPL-2.0
"""Parts that a regret leaves out or guesses, and the share from which on it is withheld.

The limits are measured: docs/measured/replay.md.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from cpuidle_lab.recording.columns import CUT, OVERSLEPT, UNCERTAIN
from cpuidle_lab.states.table import StateTable

Array = npt.NDArray[Any]

SHORT, LATE, CUT_OFF, LOST, LEFT_OUT, UNSEEN, REQUEST, CHANGED = (
    "short", "overslept", "cut", "lost", "left_out", "unseen", "request", "changed",
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A part of a recording that has no regret, or a guessed one.

    Attributes:
        limit: share above which the whole has no regret, %.
        text: one sentence, with the share in its place.
    """

    limit: float
    text: str


KINDS = {
    SHORT: Kind(2.0, "{share} % of the intervals end in an idle period that is no longer than the "
                "exit latency of its state: their lengths are halves, and uncertain"),
    LATE: Kind(20.0, "{share} % of the idle time is overslept, and has no regret"),
    CUT_OFF: Kind(20.0, "{share} % of the idle time is in intervals whose end is missing"),
    LOST: Kind(20.0, "{share} % of the decisions or idle periods are missing, or their end is"),
    LEFT_OUT: Kind(20.0, "{share} % of the idle periods are of CPUs whose idle states are unknown"),
    UNSEEN: Kind(80.0, "{share} % of the time of the CPUs is not told: events are lost there, or "
                 "the end of the last idle period is missing"),
    REQUEST: Kind(0.0, "{share} % of the idle periods are in a state that the latency request or "
                  "the disabled states of the recording did not allow, so these had changed"),
    CHANGED: Kind(0.0, "the latency request or the disabled states changed, which concerns "
                  "{share} % of the recording"),
}  # fmt: skip


def shares_of(intervals: Iterable[pl.DataFrame]) -> dict[str, float]:
    """Return shares by kind, %, as far as intervals tell of them.

    Args:
        intervals: frames with `length_ns` and `flags`.
    """
    sums: Counter[str] = Counter()
    for part in intervals:
        sums.update(part.select(**PARTS).row(0, named=True))
    return shares_by(sums)


# Sums that shares_by() needs, of intervals with `length_ns` and `flags`.
_LENGTH, _HAS = pl.col("length_ns"), pl.col("length_ns") > 0
PARTS = {
    "intervals": _HAS.sum(),
    "length_ns": _LENGTH.sum(),
    "short": (_HAS & (pl.col("flags") & UNCERTAIN != 0)).sum(),
    "late_ns": _LENGTH.filter(pl.col("flags") & OVERSLEPT != 0).sum(),
    "cut_ns": _LENGTH.filter(pl.col("flags") & CUT != 0).sum(),
}


def shares_by(sums: Mapping[str, float]) -> dict[str, float]:
    """Return shares by kind, %, of sums of PARTS."""
    return {
        SHORT: percent(sums["short"], sums["intervals"]),
        LATE: percent(sums["late_ns"], sums["length_ns"]),
        CUT_OFF: percent(sums["cut_ns"], sums["length_ns"]),
    }


def contradicts(table: StateTable, index: Array, latency_req_ns: Array, disabled: Array) -> Array:
    """Tell which idle periods are in a state that their limits did not allow.

    Args:
        table: the idle states.
        index: state of each period.
        latency_req_ns: latency request.
        disabled: bit k is set if state k was disabled.

    A kernel enters the shallowest state that is enabled, whatever the request, and state 0 if none
    is.
    """
    k, off = np.asarray(index, np.int64), np.asarray(disabled, np.int64)
    exit_ns = np.asarray(table.exit_latency_ns, np.int64)[k]
    shallower = (1 << k) - 1
    is_last = off & shallower == shallower
    found: Array = (k > 0) & ((off >> k & 1 != 0) | ((exit_ns > latency_req_ns) & ~is_last))
    return found


def denied(names: Iterable[str]) -> str:
    """Return one sentence on the states that contradicts() finds."""
    return f"idle states that were entered though they were not allowed: {', '.join(names)}"


def percent(part: float, whole: float) -> float:
    """Return a share in percent, 0 of nothing."""
    return 100 * part / float(whole) if whole else 0.0


def above(shares: Mapping[str, float]) -> list[str]:
    """Return the kinds that leave no regret."""
    return [kind for kind, share in shares.items() if share > KINDS[kind].limit]


def guesses_lengths(shares: Mapping[str, float]) -> bool:
    """Tell whether too many lengths are guesses, so that power over time is one, too."""
    return shares.get(SHORT, 0.0) > KINDS[SHORT].limit


def notes(shares: Mapping[str, float]) -> list[str]:
    """Return one sentence for each kind of which there is any."""
    said = []
    for kind, share in shares.items():
        if not share:
            continue
        line = KINDS[kind].text.format(share=f"{share:.3f}")
        limit = f"; no regret, since that is above {KINDS[kind].limit:g} %"
        said.append(line + limit * (kind in above(shares)))
    return said
