# SPDX-License-Identifier: GPL-2.0
"""Synthetic idle streams whose law is known, as recordings: see docs/synth.md.

The same seed gives the same bytes, on any machine and with any version of NumPy: see draw.py.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from cpuidle_lab.base import files
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.recording import columns, draw, laws, state_tables
from cpuidle_lab.recording.columns import Recording, Writer
from cpuidle_lab.recording.draw import LN2, Draw, logarithm
from cpuidle_lab.recording.laws import (
    BUSY_MEAN_NS,
    BUSY_NS,
    FAR_NS,
    STREAMS,
    Integers,
    S,
    Stream,
)
from cpuidle_lab.recording.trace import TIME_MAX
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable

# 100 bytes or so of memory for each.
COUNT_MAX = 20_000_000

# Intervals whose timers differ by less than a part of this of an octave share a best state.
_TIMER_BINS = 32


@dataclass(frozen=True)
class Made:
    """A stream that was made.

    Attributes:
        length_ns: (n,) lengths of the intervals.
        timer_ns: (n,) time until the next timer.
        gap_ns: (n,) time between the end of each and the begin of the next.
        condition: (n,) as of Idle, 0 where it has none.
        conditional: as of Idle.
    """

    length_ns: Integers
    timer_ns: Integers
    gap_ns: Integers
    condition: Integers
    conditional: bool


def code() -> bytes:
    """Return the sources that streams depend on, for the keys of results that are kept."""
    return b"".join(Path(file).read_bytes() for file in (__file__, laws.__file__, draw.__file__))


def check(name: str, count: int, seed: int) -> None:
    """Refuse what make() cannot do.

    Raises:
        UserError: with the reason.
    """
    if name not in STREAMS:
        raise UserError(f"unknown stream '{name}'; `cpuidle-lab synth --list` shows all", USAGE)
    if not 1 <= count <= COUNT_MAX:
        raise UserError(f"{count} intervals are out of range: 1 to {COUNT_MAX}", USAGE)
    if not 0 <= seed < 1 << 64:
        raise UserError(f"the seed {seed} is out of range: 0 to 2^64 - 1", USAGE)


def make(name: str, count: int, seed: int, slack_ns: int = 0) -> Made:
    """Return the intervals of a stream.

    Args:
        name: a key of STREAMS.
        count: number of intervals.
        seed: from 0 on.
        slack_ns: time for the longest exit latency, so that no interval depends on the last.

    Raises:
        UserError: an argument is out of range.
    """
    check(name, count, seed)
    return made_from(STREAMS[name], count, seed, slack_ns)


def made_from(stream: Stream, count: int, seed: int, slack_ns: int = 0) -> Made:
    """Return the intervals of any stream; otherwise as make()."""
    draw = Draw(seed, stream.name)
    idle = stream.law(draw, count, **stream.parameters)
    timer = np.full(count, float(FAR_NS)) if idle.timer_ns is None else idle.timer_ns
    timer_ns = np.maximum(1, np.rint(timer)).astype(np.int64)
    length_ns = np.maximum(1, np.rint(np.minimum(idle.device_ns, timer_ns))).astype(np.int64)
    busy = BUSY_NS + np.rint(draw.poisson(BUSY_MEAN_NS, count)).astype(np.int64)
    condition = np.zeros(count, np.int64) if idle.condition is None else idle.condition
    return Made(length_ns, timer_ns, busy + slack_ns, condition, idle.conditional)


def floor_regret(made: Made, table: StateTable) -> float | None:
    """Return the floor of a one-shot choice with the generating law known.

    That is the regret, in percent, of the best choice among all that know the law, the condition
    that it is in and the timer, choose once for each interval and keep the state until its end. As
    the cost of a state is linear in the length, the best state is that of least cost at the mean
    length given condition and timer; the means are those of the stream itself. A governor that is
    asked again while the CPU is idle (a kept tick, polling) can be below it.

    Returns:
        None where the law gives no independent intervals.
    """
    if not made.conditional:
        return None
    octaves = logarithm(made.timer_ns.astype(np.float64)) / LN2
    group = made.condition << 16 | (octaves * _TIMER_BINS).astype(np.int64)
    _, member = np.unique(group, return_inverse=True)
    count = np.bincount(member)
    time = np.bincount(member, weights=made.length_ns)
    model = model_of(table)
    states = list(zip(model.entry_pj, model.power_mw, strict=True))
    known = np.min([entry * count + power * time for entry, power in states], axis=0).sum()
    oracle = np.min([entry + power * made.length_ns for entry, power in states], axis=0).sum()
    return float(100 * (known / oracle - 1))


def frame(made: Made, *, tick_stopped: bool = False) -> pl.DataFrame:
    """Return a stream as the table of intervals has it, without CPU and what all rows share.

    Args:
        made: the stream.
        tick_stopped: the tick stays stopped between intervals, as with nohz_full.
    """
    count = len(made.length_ns)
    spent = made.length_ns + made.gap_ns
    by_timer = made.length_ns == made.timer_ns
    flags = np.where(by_timer, columns.GAP | columns.TIMER, columns.GAP)
    if tick_stopped:
        flags = columns.without_tick(flags)
    return pl.DataFrame(
        {
            "first_seq": np.arange(count),
            "start_ns": S + np.cumsum(spent) - spent,
            "length_ns": made.length_ns,
            "timer_ns": made.timer_ns,
            "busy_ns": made.gap_ns,
            # Each interval stands for itself: no exit latency delays the next.
            "flags": flags,
        }
    ).with_columns(
        cpu=0,
        periods=1,
        tick_phase_ns=0,
        latency_req_ns=TIME_MAX,
        hint_ns=-1,
        disabled=0,
        index=0,
        last_index=columns.NO_STATE,
        governor=255,
        answers=0,
        **{name: pl.lit([], columns.INTERVAL[name]) for name in columns.ANSWERS},
    )


def write(
    name: str,
    target: Path,
    *,
    machine_name: str,
    hz: int,
    count: int,
    seed: int,
    tick_stopped: bool = False,
) -> dict[str, Any]:
    """Write a stream as a recording.

    Args:
        name: a key of STREAMS.
        target: the directory, as for columns.Writer.
        machine_name: whose idle states.
        hz: scheduler ticks per second.
        count: number of intervals.
        seed: from 0 on.
        tick_stopped: as of frame().

    Returns:
        the law, as meta.json has it.

    Raises:
        UserError: an argument is out of range, or `target` is something else.
    """
    states = state_tables.find(machine_name, hz)
    files.check(target, columns.foreign)
    made = make(name, count, seed, max(states.exit_latency_ns))
    law = {
        "name": name,
        "what": STREAMS[name].what,
        "parameters": dict(STREAMS[name].parameters),
        "machine": machine_name,
        "hz": hz,
        "count": count,
        "seed": seed,
        "floor_regret": floor_regret(made, states),
    }
    if tick_stopped:
        law["tick_stopped"] = True
    meta = {
        "kind": columns.SYNTH,
        "source": f"synth {name}, {count} intervals, seed {seed}",
        "kernel": "",
        "machines": {"0": columns.describe(states)},
        "law": law,
    }
    with Writer(target, meta) as writer:
        writer.add("interval", frame(made, tick_stopped=tick_stopped))
    return law


def one_shot_floor(recording: Recording) -> float | None:
    """Return floor_regret() of a recording that write() has made.

    The hidden conditions are not recorded, lest a governor be given them; the stream is made again
    from its law.

    Raises:
        UserError: the recording is not synthetic.
    """
    law = recording.law
    if law is None:
        raise UserError(f"{recording.path}: is no synthetic stream, so its law is unknown")
    return floor_regret(make(law["name"], law["count"], law["seed"]), recording.state_tables[0])
