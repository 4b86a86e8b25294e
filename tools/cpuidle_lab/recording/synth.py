# SPDX-License-Identifier: GPL-2.0
"""Synthetic idle streams whose law is known, as recordings: see docs/synth.md.

The same seed gives the same bytes, on any machine and with any version of NumPy: all randomness
comes from the raw output of a PCG64, whose stream is fixed, and logarithms and powers are computed
from the operations that IEEE 754 rounds exactly. numpy.random.Generator promises no fixed streams,
and the last digit of a library's logarithm depends on the processor.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from cpuidle_lab.base import files
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.recording import columns, state_tables
from cpuidle_lab.recording.columns import Recording, Writer
from cpuidle_lab.recording.trace import TIME_MAX
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable

US, MS, S = 1_000, 1_000_000, 1_000_000_000

# Where no timer is near, one is that far: about what an idle system has.
FAR_NS = 4 * S

# A CPU works for this long at least between two intervals, and for as long again on average.
BUSY_NS = 5 * US
BUSY_MEAN_NS = 20 * US

# 100 bytes or so of memory for each.
COUNT_MAX = 20_000_000

# Intervals whose timers differ by less than a part of this of an octave share a best state.
_TIMER_BINS = 32

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


# ---- Randomness that is the same everywhere ----

_LN2 = 0.6931471805599453


def logarithm(x: Floats) -> Floats:
    """Return the natural logarithm, to 1e-14, by exactly rounded operations only.

    With x = m * 2^e and m within sqrt(1/2) and sqrt(2): log m = 2 artanh((m - 1) / (m + 1)).
    """
    m, e = np.frexp(x)
    low = m < 0.7071067811865476
    m, e = np.where(low, 2 * m, m), np.where(low, e - 1, e)
    s = (m - 1) / (m + 1)
    square = s * s
    series = np.zeros_like(s)
    for n in range(17, 0, -2):
        series = series * square + 1 / n
    return np.asarray(2 * s * series + e * _LN2)


def exponential(x: Floats) -> Floats:
    """Return e^x, to a relative 1e-14, by exactly rounded operations only."""
    e = np.rint(x / _LN2)
    r = x - e * _LN2
    series = np.ones_like(r)
    for n in range(14, 0, -1):
        series = 1 + series * r / n
    return np.asarray(np.ldexp(series, e.astype(np.int32)))


class Draw:
    """Random numbers of one stream.

    Args:
        seed: of the user.
        name: of the stream, so that streams of a seed differ.
    """

    def __init__(self, seed: int, name: str) -> None:
        self._bits = np.random.PCG64([seed, zlib.crc32(name.encode())])

    def unit(self, count: int) -> Floats:
        """Return numbers between 0 and 1, both excluded."""
        raw = self._bits.random_raw(count) >> np.uint64(11)
        return (raw.astype(np.float64) + 0.5) / float(1 << 53)

    def poisson(self, mean_ns: float, count: int) -> Floats:
        """Return times till the next event of a Poisson process."""
        return np.asarray(-mean_ns * logarithm(self.unit(count)))

    def near(self, mean_ns: float, count: int, spread: float = 0.1) -> Floats:
        """Return times that lie evenly around their mean."""
        return np.asarray(mean_ns * (1 - spread + 2 * spread * self.unit(count)))

    def log_uniform(self, low_ns: float, high_ns: float, count: int) -> Floats:
        """Return times of which every octave has as many."""
        octaves = float(logarithm(np.array([high_ns / low_ns]))[0])
        return np.asarray(low_ns * exponential(octaves * self.unit(count)))

    def pareto(self, least_ns: float, alpha: float, count: int) -> Floats:
        """Return times with P(longer than x) = (least / x)^alpha."""
        return np.asarray(least_ns * exponential(-logarithm(self.unit(count)) / alpha))


# ---- Streams ----


@dataclass(frozen=True)
class Idle:
    """What wakes the CPU.

    Attributes:
        device_ns: (n,) time until a wake-up that is not known beforehand; may be infinite.
        timer_ns: (n,) time until the next timer; None: FAR_NS.
        condition: (n,) the part of the law that holds at each interval; None if the whole law
            holds for all of them.
        conditional: given the condition and the timer, intervals do not depend on each other, so
            that the floor of a one-shot choice is known.
    """

    device_ns: Floats
    timer_ns: Floats | None = None
    condition: Integers | None = None
    conditional: bool = True


Law = Callable[..., Idle]


@dataclass(frozen=True)
class Stream:
    """A named stream.

    Attributes:
        name: on the command line.
        what: what it is like, for people.
        law: makes `count` intervals from draws and parameters.
        parameters: of the law, in ns where they are times.
    """

    name: str
    what: str
    law: Law
    parameters: Mapping[str, Any]


def _never(count: int) -> Floats:
    return np.full(count, np.inf)


def _timer(draw: Draw, count: int, *, period_ns: float) -> Idle:
    """Begin when the work of the period is done."""
    work = np.minimum(BUSY_NS + draw.poisson(BUSY_MEAN_NS, count), period_ns / 2)
    return Idle(_never(count), period_ns - work)


def _timers(draw: Draw, count: int, *, low_ns: float, high_ns: float) -> Idle:
    return Idle(_never(count), draw.log_uniform(low_ns, high_ns, count))


def _poisson(draw: Draw, count: int, *, mean_ns: float) -> Idle:
    return Idle(draw.poisson(mean_ns, count))


def _uniform(draw: Draw, count: int, *, low_ns: float, high_ns: float) -> Idle:
    return Idle(low_ns + (high_ns - low_ns) * draw.unit(count))


def _periodic(draw: Draw, count: int, *, period_ns: float, spread: float) -> Idle:
    return Idle(draw.near(period_ns, count, spread))


def _bimodal(draw: Draw, count: int, *, short_ns: float, long_ns: float, share: float) -> Idle:
    """Take the short mode in this share of cases."""
    mean = np.where(draw.unit(count) < share, short_ns, long_ns)
    return Idle(draw.near(1.0, count) * mean)


def _heavy(draw: Draw, count: int, *, least_ns: float, alpha: float) -> Idle:
    return Idle(draw.pareto(least_ns, alpha, count))


def _phases(draw: Draw, means_ns: Sequence[float], phase: Integers) -> Idle:
    means = np.asarray(means_ns, dtype=np.float64)
    return Idle(draw.poisson(1.0, len(phase)) * means[phase], condition=phase)


def _bursts(draw: Draw, count: int, *, length: int, within_ns: float, between_ns: float) -> Idle:
    pause = (np.arange(count) % (length + 1) == 0).astype(np.int64)
    return _phases(draw, (within_ns, between_ns), pause)


def _on_off(draw: Draw, count: int, *, mean: float, within_ns: float, between_ns: float) -> Idle:
    """End a burst after each of its intervals with the same probability."""
    length = draw.poisson(1.0, count)
    pause = draw.unit(count) < 1 / (mean + 1)
    return Idle(length * np.where(pause, between_ns, within_ns))


def _regimes(draw: Draw, count: int, *, length: int, means_ns: Sequence[float]) -> Idle:
    return _phases(draw, means_ns, np.arange(count) // length % len(means_ns))


def _minutes(draw: Draw, count: int, *, minutes: float, means_ns: Sequence[float]) -> Idle:
    """Change over when the time of a regime is over."""
    unit = draw.poisson(1.0, count)
    phase = np.empty(count, dtype=np.int64)
    start = regime = 0
    while start < count:
        time = np.cumsum(unit[start:] * means_ns[regime] + BUSY_NS + BUSY_MEAN_NS)
        end = start + int(np.searchsorted(time, minutes * 60 * S)) + 1
        phase[start:end] = regime
        start, regime = end, (regime + 1) % len(means_ns)
    return Idle(unit * np.asarray(means_ns)[phase], condition=phase)


def _pattern(draw: Draw, count: int, *, means_ns: Sequence[float]) -> Idle:
    place = np.arange(count) % len(means_ns)
    means = np.asarray(means_ns, dtype=np.float64)
    return Idle(draw.near(1.0, count) * means[place], condition=place)


def _drift(draw: Draw, count: int, *, low_ns: float, high_ns: float, period: int) -> Idle:
    """Let the mean go up and down, evenly by its logarithm."""
    place = np.arange(count) % period / period
    height = 1 - np.abs(2 * place - 1)
    octaves = float(logarithm(np.array([high_ns / low_ns]))[0])
    mean = low_ns * exponential(octaves * height)
    return Idle(draw.poisson(1.0, count) * mean, condition=(height * 64).astype(np.int64))


def _mixed(
    draw: Draw, count: int, *, mean_ns: float, timer_low_ns: float, timer_high_ns: float
) -> Idle:
    timer = draw.log_uniform(timer_low_ns, timer_high_ns, count)
    return Idle(draw.poisson(mean_ns, count), timer)


def _two_devices(
    draw: Draw, count: int, *, network_ns: float, disk_ns: float, disk_share: float
) -> Idle:
    """Have the disk at work in a share of the intervals, in which is hidden."""
    network = draw.poisson(network_ns, count)
    disk = draw.near(disk_ns, count)
    busy = draw.unit(count) < disk_share
    return Idle(np.where(busy, np.minimum(network, disk), network))


def _request(
    draw: Draw, count: int, *, answer_ns: float, think_ns: float, mean: float, timeout_ns: float
) -> Idle:
    """Wait for a disk several times over, with a timeout armed, then for the next request."""
    waiting = (draw.unit(count) >= 1 / (mean + 1)).astype(np.int64)
    device = np.where(waiting == 1, draw.near(answer_ns, count), draw.poisson(think_ns, count))
    # The timeout tells of the disk at work; it is never reached.
    return Idle(device, np.where(waiting == 1, timeout_ns, float(FAR_NS)))


def _arrivals(
    draw: Draw, packets: int, *, packet_ns: float, on_ns: float, off_ns: float, alpha: float
) -> Floats:
    """Return when the packets of one source come, at least so many."""
    bursts = int(packets / (on_ns * alpha / (alpha - 1) / packet_ns)) + 10
    sizes = (draw.pareto(on_ns, alpha, bursts) / packet_ns).astype(np.int64) + 1
    sizes = np.minimum(sizes, packets)
    rests = np.minimum(draw.pareto(off_ns, alpha, bursts), 100 * S)
    first = np.cumsum(sizes) - sizes
    begin = np.cumsum(rests) + first * packet_ns
    number = np.arange(int(sizes.sum())) - np.repeat(first, sizes)
    return np.asarray(np.repeat(begin, sizes) + number * packet_ns)


def _self_similar(draw: Draw, count: int, *, sources: int, **source: float) -> Idle:
    """Merge sources that send and rest for times of heavy tails.

    The sum of many of them is self-similar: Willinger, Taqqu, Sherman and Wilson, "Self-similarity
    through high-variability", 1997.
    """
    packets = 2 * count // sources + 1000
    while True:
        arrivals = [_arrivals(draw, packets, **source) for _ in range(sources)]
        # Later on, some have fallen silent because no more was drawn.
        horizon = min(times[-1] for times in arrivals)
        merged = np.sort(np.concatenate(arrivals))
        work = BUSY_NS + BUSY_MEAN_NS
        gaps = np.diff(merged[merged <= horizon]) - work
        # What comes while the CPU is at work does not wake it.
        gaps = gaps[gaps > 0]
        if len(gaps) >= count:
            return Idle(gaps[:count], conditional=False)
        packets *= 2


def _table(*streams: tuple[str, str, Law, dict[str, Any]]) -> dict[str, Stream]:
    return {stream[0]: Stream(*stream) for stream in streams}


STREAMS = _table(
    ("timer-1ms", "a timer every millisecond", _timer, {"period_ns": MS}),
    ("timer-10ms", "a timer every 10 ms", _timer, {"period_ns": 10 * MS}),
    (
        "timers-mixed", "timers from 50 us to 20 ms, every octave as often",
        _timers, {"low_ns": 50 * US, "high_ns": 20 * MS},
    ),
    ("poisson-15us", "memoryless, mean 15 us", _poisson, {"mean_ns": 15 * US}),
    ("poisson-100us", "memoryless, mean 100 us", _poisson, {"mean_ns": 100 * US}),
    ("poisson-1ms", "memoryless, mean 1 ms", _poisson, {"mean_ns": MS}),
    ("poisson-5ms", "memoryless, mean 5 ms", _poisson, {"mean_ns": 5 * MS}),
    ("poisson-50ms", "memoryless, mean 50 ms", _poisson, {"mean_ns": 50 * MS}),
    (
        "uniform-200us", "any length up to 200 us",
        _uniform, {"low_ns": 0, "high_ns": 200 * US},
    ),
    ("uniform-3ms", "any length up to 3 ms", _uniform, {"low_ns": 0, "high_ns": 3 * MS}),
    (
        "periodic-300us", "a device every 300 us, and no timer tells",
        _periodic, {"period_ns": 300 * US, "spread": 0.01},
    ),
    (
        "periodic-3ms", "a device every 3 ms, and no timer tells",
        _periodic, {"period_ns": 3 * MS, "spread": 0.01},
    ),
    (
        "bimodal-even", "20 us or 5 ms, by even odds",
        _bimodal, {"short_ns": 20 * US, "long_ns": 5 * MS, "share": 0.5},
    ),
    (
        "bimodal-rare", "30 us, one in ten 20 ms",
        _bimodal, {"short_ns": 30 * US, "long_ns": 20 * MS, "share": 0.9},
    ),
    (
        "bursts", "20 short intervals of 50 us on average, then a long one of 30 ms",
        _bursts, {"length": 20, "within_ns": 50 * US, "between_ns": 30 * MS},
    ),
    (
        "on-off", "bursts of any length, 20 intervals on average",
        _on_off, {"mean": 20, "within_ns": 50 * US, "between_ns": 30 * MS},
    ),
    (
        "regimes-60", "memoryless, 3 ms or 200 us, changing every 60 intervals",
        _regimes, {"length": 60, "means_ns": [3 * MS, 200 * US]},
    ),
    (
        "regimes-500", "memoryless, 8 ms or 50 us, changing every 500 intervals",
        _regimes, {"length": 500, "means_ns": [8 * MS, 50 * US]},
    ),
    (
        "regimes-minutes", "memoryless, 5 ms or 1 ms, changing every two minutes",
        _minutes, {"minutes": 2, "means_ns": [5 * MS, MS]},
    ),
    (
        "alternating", "30 us and 3 ms in turn",
        _pattern, {"means_ns": [30 * US, 3 * MS]},
    ),
    (
        "pattern-of-3", "50 us twice, then 2 ms",
        _pattern, {"means_ns": [50 * US, 50 * US, 2 * MS]},
    ),
    (
        "pattern-of-7", "short and long ones in a fixed order of seven",
        _pattern,
        {"means_ns": [n * US for n in (40, 3000, 40, 40, 3000, 300, 12000)]},
    ),
    (
        "drift", "memoryless, its mean going from 50 us to 5 ms and back in 20000 intervals",
        _drift, {"low_ns": 50 * US, "high_ns": 5 * MS, "period": 20_000},
    ),
    (
        "self-similar", "eight sources that send and rest for times of heavy tails",
        _self_similar,
        {
            "sources": 8, "packet_ns": 400 * US, "on_ns": 4 * MS, "off_ns": 40 * MS,
            "alpha": 1.4,
        },
    ),
    ("heavy-tail", "Pareto, from 10 us on", _heavy, {"least_ns": 10 * US, "alpha": 0.8}),
    (
        "timer-over-device", "timers from 200 us to 4 ms, a device every 8 ms",
        _mixed, {"mean_ns": 8 * MS, "timer_low_ns": 200 * US, "timer_high_ns": 4 * MS},
    ),
    (
        "timer-and-device", "timers from 200 us to 4 ms, a device every 2 ms",
        _mixed, {"mean_ns": 2 * MS, "timer_low_ns": 200 * US, "timer_high_ns": 4 * MS},
    ),
    (
        "device-over-timer", "timers from 200 us to 4 ms, a device every 300 us",
        _mixed, {"mean_ns": 300 * US, "timer_low_ns": 200 * US, "timer_high_ns": 4 * MS},
    ),
    (
        "two-devices", "a network every 400 us, and a disk that takes 700 us",
        _two_devices, {"network_ns": 400 * US, "disk_ns": 700 * US, "disk_share": 0.7},
    ),
    (
        "requests", "a disk that takes 90 us, under a timeout that tells of it, and pauses of 4 ms",
        _request,
        {
            "answer_ns": 90 * US, "think_ns": 4 * MS, "mean": 5,
            "timeout_ns": 500 * MS,
        },
    ),
)  # fmt: skip


# ---- Recordings ----


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


def varied(stream: Stream, seed: int) -> Stream:
    """Return a stream of the same kind whose times are others: up to half or double, at random.

    Args:
        stream: one of STREAMS.
        seed: of what is drawn; the intervals are drawn by another.
    """
    draw = Draw(seed, f"variation of {stream.name}")

    def other(value: Any) -> Any:
        if isinstance(value, list):
            return [other(one) for one in value]
        return round(value * float(draw.log_uniform(0.5, 2.0, 1)[0]))

    parameters = {
        name: other(value) if name.endswith("_ns") else value
        for name, value in stream.parameters.items()
    }
    return Stream(f"{stream.name}~{seed}", stream.what, stream.law, parameters)


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


def floor_regret(made: Made, machine: StateTable) -> float | None:
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
    octaves = logarithm(made.timer_ns.astype(np.float64)) / _LN2
    group = made.condition << 16 | (octaves * _TIMER_BINS).astype(np.int64)
    _, member = np.unique(group, return_inverse=True)
    count = np.bincount(member)
    time = np.bincount(member, weights=made.length_ns)
    model = model_of(machine)
    states = list(zip(model.entry_pj, model.power_mw, strict=True))
    known = np.min([entry * count + power * time for entry, power in states], axis=0).sum()
    oracle = np.min([entry + power * made.length_ns for entry, power in states], axis=0).sum()
    return float(100 * (known / oracle - 1))


def frame(made: Made) -> pl.DataFrame:
    """Return a stream as the table of intervals has it, without CPU and what all rows share."""
    count = len(made.length_ns)
    spent = made.length_ns + made.gap_ns
    by_timer = made.length_ns == made.timer_ns
    return pl.DataFrame(
        {
            "first_seq": np.arange(count),
            "start_ns": S + np.cumsum(spent) - spent,
            "length_ns": made.length_ns,
            "timer_ns": made.timer_ns,
            "busy_ns": made.gap_ns,
            # Each interval stands for itself: no exit latency delays the next.
            "flags": np.where(by_timer, columns.GAP | columns.TIMER, columns.GAP),
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
    name: str, target: Path, *, machine_name: str, hz: int, count: int, seed: int
) -> dict[str, Any]:
    """Write a stream as a recording.

    Args:
        name: a key of STREAMS.
        target: the directory, as for columns.Writer.
        machine_name: whose idle states.
        hz: scheduler ticks per second.
        count: number of intervals.
        seed: from 0 on.

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
    meta = {
        "kind": columns.SYNTH,
        "source": f"synth {name}, {count} intervals, seed {seed}",
        "kernel": "",
        "machines": {"0": columns.describe(states)},
        "law": law,
    }
    with Writer(target, meta) as writer:
        writer.add("interval", frame(made))
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
    return floor_regret(make(law["name"], law["count"], law["seed"]), recording.machines[0])
