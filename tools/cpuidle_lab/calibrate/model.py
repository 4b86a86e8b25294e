# SPDX-License-Identifier: GPL-2.0
"""From readings to figures of idle states: exit latencies, powers, entry energies, break-even.

Over any stretch of time the energy counter grows by

    E = P_busy * busy time + sum over states (P_k * time in k + E_k * entries of k)

Times and entries are the kernel's counts. With one state enabled, stretches with different rates of
wake-ups tell P_k and E_k apart, by least squares. Powers are in mW of one CPU, energies in nJ
(1 mW * 1 us), times in us. Needs the standard library only.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cpuidle_lab.calibrate.residency import ENOUGH

# Two-sided 95 % points of Student's t, by degrees of freedom from 1 on.
_T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)

# A state must draw this part less than a shallower one to be told from it.
_TOLD_APART = 0.01


@dataclass(frozen=True)
class Value:
    """A figure and how sure it is.

    Attributes:
        value: the mean over the repetitions.
        half: half the width of the 95 % confidence interval; infinite for a single repetition.
    """

    value: float
    half: float


def mean_of(values: Sequence[float]) -> Value:
    """Return the mean of repetitions with its 95 % confidence interval by Student's t."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return Value(mean, math.inf)
    freedom = len(values) - 1
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / freedom)
    t = _T95[min(freedom, len(_T95)) - 1]
    return Value(mean, t * deviation / math.sqrt(len(values)))


@dataclass(frozen=True)
class Stretch:
    """Counts over a stretch of time, of all CPUs together.

    Attributes:
        energy_nj: growth of the energy counter.
        time_us: time in the state that was enabled.
        entries: entries of it.
        busy_us: time in no state.
        other_us: time in other states.
        hardware: part of the time that each residency counter of the hardware counted.
    """

    energy_nj: float
    time_us: float
    entries: int
    busy_us: float
    other_us: float
    hardware: Mapping[str, float] = field(default_factory=dict)


def fit(stretches: Sequence[Stretch], busy_mw: float) -> tuple[float, float]:
    """Return power (mW) and entry energy (nJ) of a state by least squares.

    Args:
        stretches: with different rates of wake-ups.
        busy_mw: power of a CPU that does not sleep.

    Raises:
        ValueError: the stretches do not differ.
    """
    tt = sum(s.time_us**2 for s in stretches)
    tn = sum(s.time_us * s.entries for s in stretches)
    nn = sum(float(s.entries) ** 2 for s in stretches)
    rest = [s.energy_nj - busy_mw * s.busy_us for s in stretches]
    ty = sum(s.time_us * y for s, y in zip(stretches, rest, strict=True))
    ny = sum(s.entries * y for s, y in zip(stretches, rest, strict=True))
    determinant = tt * nn - tn * tn
    if determinant <= 1e-9 * tt * nn:
        raise ValueError("the stretches do not differ in their rates of wake-ups")
    return (ty * nn - ny * tn) / determinant, (ny * tt - ty * tn) / determinant


def quantile(values: Sequence[float], share: float) -> float:
    """Return the least value that at least this share of the values do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


@dataclass
class State:
    """A state: the driver's figures, and the measured ones.

    Attributes:
        name: its name.
        table_latency_us: exit latency in the driver's table.
        table_target_us: target residency there.
        late_us: lateness of wake-ups by "timer"/"ipi" and "asleep"/"awake"; all of them, us.
        share: part of the idle time that was in this state while it alone was enabled.
        hardware: part of the time that each residency counter of the hardware counted, where the
            CPUs wake up most rarely.
        demoted: where the hardware's counter shows less than is due: both parts of the time.
        power_mw: measured; None without an energy counter.
        entry_nj: likewise, energy of entering and leaving it once.
        break_even_us: stay from which it costs less than the next shallower state that pays.
        pays_against: name of that state; "" for the shallowest.
        never_pays: no stay makes it the cheapest.
    """

    name: str
    table_latency_us: float
    table_target_us: float
    late_us: dict[str, list[float]] = field(default_factory=dict)
    share: float = 1.0
    hardware: Mapping[str, float] = field(default_factory=dict)
    demoted: tuple[float, float] | None = None
    power_mw: Value | None = None
    entry_nj: Value | None = None
    break_even_us: Value | None = None
    pays_against: str = ""
    never_pays: bool = False
    repetitions: list[tuple[float, float]] = field(default_factory=list)

    @property
    def entered(self) -> bool:
        """The CPUs were in this state while it alone was enabled."""
        return self.share >= ENOUGH and self.demoted is None


def latencies(state: State, shallowest: State, way: str) -> tuple[float, float] | None:
    """Return median and p99 of the exit latency, against the shallowest state's median, us."""
    mine, base = state.late_us.get(way), shallowest.late_us.get(way)
    if not mine or not base:
        return None
    zero = quantile(base, 0.5) - shallowest.table_latency_us
    return max(0.0, quantile(mine, 0.5) - zero), max(0.0, quantile(mine, 0.99) - zero)


def judge(states: Sequence[State]) -> None:
    """Fill in powers, entry energies and break-even points from the repetitions.

    A state pays against the deepest shallower one that pays. One that does not draw less, or whose
    break-even point is that of a deeper state or beyond it, never pays.
    """
    measured = [state for state in states if state.repetitions]
    for state in measured:
        state.power_mw = mean_of([power for power, _ in state.repetitions])
        state.entry_nj = mean_of([entry for _, entry in state.repetitions])
    paying: list[State] = []
    for state in measured:
        while paying:
            before = paying[-1]
            points = _break_even(before, state)
            state.never_pays = points is None
            if points is None:
                break
            state.break_even_us = mean_of(points)
            earlier = before.break_even_us
            if not earlier or state.break_even_us.value > earlier.value:
                break
            # Where this state begins to pay, the one before it did not pay yet.
            before.never_pays, before.break_even_us, before.pays_against = True, None, ""
            paying.pop()
        if not state.never_pays:
            state.pays_against = paying[-1].name if paying else ""
            paying.append(state)


def _break_even(before: State, state: State) -> list[float] | None:
    """Return the stay from which a state costs less than another, for each repetition."""
    assert before.power_mw and state.power_mw
    less = before.power_mw.value - state.power_mw.value
    unsure = _finite(before.power_mw.half) + _finite(state.power_mw.half)
    if less <= max(_TOLD_APART * before.power_mw.value, unsure):
        return None
    return [
        max(0.0, (mine - theirs) / (their_power - my_power))
        for (their_power, theirs), (my_power, mine) in zip(
            before.repetitions, state.repetitions, strict=True
        )
        if their_power > my_power
    ]


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
