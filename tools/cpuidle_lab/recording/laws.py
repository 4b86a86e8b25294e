# SPDX-License-Identifier: GPL-2.0
"""The laws of synthetic streams: STREAMS names them, docs/synth.md describes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cpuidle_lab.recording.draw import Draw, Floats, exponential, logarithm

US, MS, S = 1_000, 1_000_000, 1_000_000_000

# Where no timer is near, one is that far: about what an idle system has.
FAR_NS = 4 * S

# A CPU works for this long at least between two intervals, and for as long again on average.
BUSY_NS = 5 * US
BUSY_MEAN_NS = 20 * US

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Idle:
    """Wake-ups of the CPU.

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
        what: a description for people.
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


def _by_condition(draw: Draw, means_ns: Sequence[float], condition: Integers) -> Idle:
    means = np.asarray(means_ns, dtype=np.float64)
    return Idle(draw.poisson(1.0, len(condition)) * means[condition], condition=condition)


def _bursts(draw: Draw, count: int, *, length: int, within_ns: float, between_ns: float) -> Idle:
    pause = (np.arange(count) % (length + 1) == 0).astype(np.int64)
    return _by_condition(draw, (within_ns, between_ns), pause)


def _on_off(draw: Draw, count: int, *, mean: float, within_ns: float, between_ns: float) -> Idle:
    """End a burst after each of its intervals with the same probability."""
    length = draw.poisson(1.0, count)
    pause = draw.unit(count) < 1 / (mean + 1)
    return Idle(length * np.where(pause, between_ns, within_ns))


def _regimes(draw: Draw, count: int, *, length: int, means_ns: Sequence[float]) -> Idle:
    return _by_condition(draw, means_ns, np.arange(count) // length % len(means_ns))


def _minutes(draw: Draw, count: int, *, minutes: float, means_ns: Sequence[float]) -> Idle:
    """Change over when the time of a regime is over."""
    unit = draw.poisson(1.0, count)
    condition = np.empty(count, dtype=np.int64)
    start = regime = 0
    while start < count:
        time = np.cumsum(unit[start:] * means_ns[regime] + BUSY_NS + BUSY_MEAN_NS)
        end = start + int(np.searchsorted(time, minutes * 60 * S)) + 1
        condition[start:end] = regime
        start, regime = end, (regime + 1) % len(means_ns)
    return Idle(unit * np.asarray(means_ns)[condition], condition=condition)


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
        # An arrival while the CPU is at work wakes nothing.
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
