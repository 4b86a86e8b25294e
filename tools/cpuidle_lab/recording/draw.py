# SPDX-License-Identifier: GPL-2.0
"""Random numbers that are the same on any machine and with any version of NumPy.

All randomness comes from the raw output of a PCG64, whose stream is fixed, and logarithms and
powers are computed from the operations that IEEE 754 rounds exactly. numpy.random.Generator
promises no fixed streams, and the last digit of a library's logarithm depends on the processor.
"""

import zlib

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LN2 = 0.6931471805599453


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
    return np.asarray(2 * s * series + e * LN2)


def exponential(x: Floats) -> Floats:
    """Return e^x, to a relative 1e-14, by exactly rounded operations only."""
    e = np.rint(x / LN2)
    r = x - e * LN2
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
