# SPDX-License-Identifier: GPL-2.0
"""The intervals of a case: phases of draws, as its YAML describes them.

The same seed gives the same intervals on any machine; see recording/draw.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording import columns
from cpuidle_lab.recording.columns import Columns
from cpuidle_lab.recording.draw import Draw, Floats
from cpuidle_lab.recording.laws import BUSY_MEAN_NS, BUSY_NS, FAR_NS, US, S
from cpuidle_lab.recording.trace import TIME_MAX
from cpuidle_lab.replay.engine import INTERVAL_TYPES, fitting

COUNT_MAX = 2_000_000
# All intervals together last less than 2^63 ns.
_US_MAX = 1_000_000_000

# Time that ends no interval: it lies behind every timer.
NEVER = float("inf")

Times = float | Mapping[str, Any] | None
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Stretch:
    """Intervals of one kind, one after the other.

    Attributes:
        count: how many.
        wake_us: time until a wake-up that no timer tells of; None: there is none.
        timer_us: time until the next timer; None: it is far.
        busy_us: work between two intervals; None: as synth's streams have it.
    """

    count: int
    wake_us: Times = None
    timer_us: Times = None
    busy_us: Times = None


def _number(value: Any, where: str) -> float:
    """Return a number above 0 that a time in us, or a weight, can be."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= _US_MAX:
        raise UserError(f"{where}: '{value}' is no number above 0 and at most {_US_MAX:,}")
    return float(value)


def _pair(value: Any, where: str) -> tuple[float, float]:
    if not (isinstance(value, list) and len(value) == 2):
        raise UserError(f"{where}: {value} are no two rising times")
    low, high = (_number(one, where) for one in value)
    if low > high:
        raise UserError(f"{where}: {value} are no two rising times")
    return low, high


def draw(times: Times, count: int, source: Draw, where: str) -> Floats:
    """Return times in us.

    Args:
        times: a number; {near: MEAN, spread: PART}; {mean: MEAN}, memoryless; {between: [A, B]};
            {octaves: [A, B]}, every octave as often; or {one_of: [[WEIGHT, TIMES], ...]}.
        count: how many.
        source: of the randomness.
        where: for messages.

    Raises:
        UserError: it is none of these.
    """
    if not isinstance(times, Mapping):
        return np.full(count, _number(times, where))
    if not times:
        raise UserError(f"{where}: a law of times is empty")
    kind, value = next(iter(times.items()))
    if kind == "near" and set(times) <= {"near", "spread"}:
        return source.near(_number(value, where), count, _number(times.get("spread", 0.1), where))
    if len(times) == 1 and kind == "mean":
        return source.poisson(_number(value, where), count)
    if len(times) == 1 and kind == "between":
        low, high = _pair(value, where)
        return low + (high - low) * source.unit(count)
    if len(times) == 1 and kind == "octaves":
        return source.log_uniform(*_pair(value, where), count)
    if len(times) == 1 and kind == "one_of" and isinstance(value, list) and value:
        return _mixed(value, count, source, where)
    raise UserError(f"{where}: '{dict(times)}' is no law of times")


def _mixed(parts: Sequence[Any], count: int, source: Draw, where: str) -> Floats:
    if not all(isinstance(part, list) and len(part) == 2 for part in parts):
        raise UserError(f"{where}: {parts} are no pairs of weight and times")
    weights = np.array([_number(part[0], where) for part in parts])
    ends = np.cumsum(weights / weights.sum())
    which = np.minimum(np.searchsorted(ends, source.unit(count)), len(parts) - 1)
    drawn = np.stack([draw(part[1], count, source, where) for part in parts])
    return np.asarray(drawn[which, np.arange(count)])


def _columns(phase: Stretch, source: Draw, where: str) -> tuple[Floats, Floats, Floats]:
    """Return lengths, timers and busy times of a phase, in ns."""
    count = phase.count
    wake = np.full(count, NEVER)
    timer = np.full(count, float(FAR_NS))
    busy = BUSY_NS + source.poisson(BUSY_MEAN_NS, count)
    if phase.wake_us is not None:
        wake = US * draw(phase.wake_us, count, source, f"{where}: wake_us")
    if phase.timer_us is not None:
        timer = US * draw(phase.timer_us, count, source, f"{where}: timer_us")
    if phase.busy_us is not None:
        busy = US * draw(phase.busy_us, count, source, f"{where}: busy_us")
    return np.minimum(wake, timer), timer, busy


def times(phases: Sequence[Stretch], repeat: int, name: str, seed: int) -> tuple[Integers, ...]:
    """Return lengths, timers and busy times of the intervals of a case, ns.

    Args:
        phases: what is repeated.
        repeat: so many times.
        name: of the case; streams of a seed differ by it.
        seed: from 0 on.

    Raises:
        UserError: a law is none, or there are too many intervals.
    """
    if not 0 < repeat * sum(phase.count for phase in phases) <= COUNT_MAX:
        raise UserError(f"{name}: the stream has no interval, or more than {COUNT_MAX:,}")
    source = Draw(seed, f"case {name}")
    parts = [
        _columns(phase, source, f"{name}: phase {place + 1}")
        for _ in range(repeat)
        for place, phase in enumerate(phases)
    ]
    return tuple(
        np.maximum(1, np.rint(np.concatenate(column))).astype(np.int64)
        for column in zip(*parts, strict=True)
    )


def intervals(
    phases: Sequence[Stretch],
    repeat: int,
    name: str,
    seed: int,
    *,
    slack_ns: int,
    tick_stopped: bool = False,
    latency_req_ns: int = TIME_MAX,
    disabled: int = 0,
) -> Columns:
    """Return the intervals of a case, as columns of engine.INTERVAL_TYPES.

    Args:
        phases: what is repeated.
        repeat: so many times.
        name: of the case; streams of a seed differ by it.
        seed: from 0 on.
        slack_ns: between two intervals, so that no exit latency reaches into the next.
        tick_stopped: the tick stays stopped between intervals, as with nohz_full.
        latency_req_ns: latency request.
        disabled: bit k: state k is disabled.

    Raises:
        UserError: a law is none, or there are too many intervals.
    """
    length, timer, busy = times(phases, repeat, name, seed)
    spent = length + busy + slack_ns
    flags = np.where(length == timer, columns.GAP | columns.TIMER, columns.GAP)
    if tick_stopped:
        flags = columns.without_tick(flags)
    frame = pl.DataFrame(
        {
            "start_ns": S + np.cumsum(spent) - spent,
            "length_ns": length,
            "timer_ns": timer,
            "flags": flags,
        }
    ).with_columns(
        tick_phase_ns=0,
        latency_req_ns=latency_req_ns,
        disabled=disabled,
        last_index=columns.NO_STATE,
        answers=0,
        **{name: pl.lit([], columns.INTERVAL[name]) for name in columns.ANSWERS},
    )
    return fitting(columns.in_memory(frame), INTERVAL_TYPES)
