# SPDX-License-Identifier: GPL-2.0
"""The limits: the oracle has no regret, and bayes reaches the floor where that is known."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from cpuidle_lab.recording import columns, state_tables, synth
from cpuidle_lab.recording.draw import Draw, Floats
from cpuidle_lab.recording.laws import FAR_NS, MS, STREAMS, US, S
from cpuidle_lab.recording.trace import TIME_MAX
from cpuidle_lab.replay import library
from cpuidle_lab.replay.engine import INTERVAL_TYPES, Array, Run
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable
from tests.unit.synthetic import no_answers

OTHERS = ("teo_ng", "menu_ng", "wteo")
MACHINES = ("skx", "skl", "power9")

Columns = dict[str, Array]


def play(governor: str, machine: StateTable, intervals: Columns) -> dict[str, Array]:
    with Run(library.governor(governor), machine) as run:
        return run.play(intervals, True)


def regret(chosen: dict[str, Array]) -> float:
    """Return it in percent."""
    return float(100 * (chosen["cost_pj"].sum() / chosen["oracle_pj"].sum() - 1))


@cache
def stream(name: str, machine: str, count: int) -> Columns:
    states = state_tables.find(machine, 250)
    made = synth.make(name, count, 1, max(states.exit_latency_ns))
    return columns.in_memory(synth.frame(made).select(*INTERVAL_TYPES))


# ---- The oracle. ----


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", STREAMS)
def test_the_oracle_has_exactly_no_regret(name: str, machine: str) -> None:
    chosen = play("oracle", state_tables.find(machine, 250), stream(name, machine, 2000))
    assert chosen["oracle_pj"].all()
    assert (chosen["cost_pj"] == chosen["oracle_pj"]).all()
    assert (chosen["decisions"] >= 1).all()


# ---- bayes where the floor is known in closed form. ----
#
# No polling state, and a tick so long that none ever comes: nothing is decided twice. Exit
# latencies are 0, so that intervals are what they are whatever was decided before. A cost is then a
# function of the state and the length, the best choice before a length is known is that of least
# expected cost, and floor = min_k E[cost_k] / E[min_k cost_k].

COUNT = 100_000
# While it learns it may be worse: the first tenth is left out.
LEARNED = COUNT // 10


@cache
def deaf(name: str) -> StateTable:
    """Return a machine on which nothing is decided twice."""
    machine = state_tables.find(name, 250)
    return StateTable(
        names=machine.names[1:],
        exit_latency_ns=tuple(0 for _ in machine.names[1:]),
        target_residency_ns=(0, *machine.target_residency_ns[2:]),
        power_uw=machine.power_uw[1:],
        polling=machine.polling[1:],
        tick_ns=10**15,
    )


def envelope(machine: StateTable) -> list[tuple[float, float, float, float]]:
    """Return (from, to, entry, power) of the state that is best between these lengths."""
    model = model_of(machine)
    ends = [*machine.target_residency_ns[1:], math.inf]
    begins = machine.target_residency_ns
    return [
        (begin, end, entry, power)
        for begin, end, entry, power in zip(
            begins, ends, model.entry_pj, model.power_mw, strict=True
        )
        if begin < end
    ]


def least(machine: StateTable, mean_ns: float) -> float:
    """Return the least expected cost of a choice before the length is known, by its mean."""
    model = model_of(machine)
    return min(e + p * mean_ns for e, p in zip(model.entry_pj, model.power_mw, strict=True))


def known(machine: StateTable, length_ns: float) -> float:
    """Return the cost of the best choice for a known length: the same formula."""
    return least(machine, length_ns)


def exponential(
    machine: StateTable, mean_ns: float, timer_ns: float = math.inf
) -> tuple[float, float]:
    """Return floor and oracle for min(memoryless, timer), in pJ for each interval.

    With f(x) = exp(-x / m) / m: integral of f from a to b is exp(-a/m) - exp(-b/m), and that of
    x f(x) is (a + m) exp(-a/m) - (b + m) exp(-b/m). What is left at the timer lasts until then.
    """

    def outlast(x: float) -> float:
        return math.exp(-x / mean_ns)

    def moment(x: float) -> float:
        return 0.0 if x == math.inf else (x + mean_ns) * outlast(x)

    oracle = 0.0
    for begin, end, entry, power in envelope(machine):
        if begin < (end := min(end, timer_ns)):
            oracle += entry * (outlast(begin) - outlast(end))
            oracle += power * (moment(begin) - moment(end))
    if timer_ns < math.inf:
        oracle += outlast(timer_ns) * known(machine, timer_ns)
    return least(machine, mean_ns * (1 - outlast(timer_ns))), oracle


def uniform(machine: StateTable, low_ns: float, high_ns: float) -> tuple[float, float]:
    """Return them for any length from `low_ns` to `high_ns`, as often."""
    oracle = 0.0
    for begin, end, entry, power in envelope(machine):
        a, b = max(begin, low_ns), min(end, high_ns)
        if a < b:
            oracle += (entry * (b - a) + power * (b * b - a * a) / 2) / (high_ns - low_ns)
    return least(machine, (low_ns + high_ns) / 2), oracle


def values(machine: StateTable, *lengths: tuple[float, float]) -> tuple[float, float]:
    """Return them for a few lengths: (share, length)."""
    mean = sum(share * length for share, length in lengths)
    return least(machine, mean), sum(share * known(machine, length) for share, length in lengths)


@dataclass(frozen=True)
class Closed:
    """A law whose floor is known in closed form.

    Attributes:
        lengths: makes the intervals, and their timers.
        floor: returns expected cost of the floor and of the oracle, pJ.
    """

    lengths: Callable[[Draw], tuple[Floats, Floats]]
    floor: Callable[[StateTable], tuple[float, float]]


FAR = np.full(COUNT, float(FAR_NS))


def two_timers(draw: Draw) -> tuple[Floats, Floats]:
    timer = np.where(draw.unit(COUNT) < 0.5, 300.0 * US, 3.0 * MS)
    return np.minimum(draw.poisson(MS, COUNT), timer), timer


def floor_of_two_timers(machine: StateTable) -> tuple[float, float]:
    short, long = (exponential(machine, MS, timer) for timer in (300 * US, 3 * MS))
    return (short[0] + long[0]) / 2, (short[1] + long[1]) / 2


CLOSED = {
    "exponential 1 ms": Closed(
        lambda draw: (np.minimum(draw.poisson(MS, COUNT), FAR), FAR),
        lambda machine: exponential(machine, MS),
    ),
    "exponential 100 us": Closed(
        lambda draw: (draw.poisson(100 * US, COUNT), FAR),
        lambda machine: exponential(machine, 100 * US),
    ),
    "uniform to 3 ms": Closed(
        lambda draw: (3 * MS * draw.unit(COUNT), FAR),
        lambda machine: uniform(machine, 0, 3 * MS),
    ),
    "20 us or 5 ms": Closed(
        lambda draw: (np.where(draw.unit(COUNT) < 0.9, 20.0 * US, 5.0 * MS), FAR),
        lambda machine: values(machine, (0.9, 20 * US), (0.1, 5 * MS)),
    ),
    "periodic 900 us": Closed(
        lambda draw: (np.full(COUNT, 900.0 * US), FAR),
        lambda machine: values(machine, (1, 900 * US)),
    ),
    "exponential 1 ms, timer 700 us": Closed(
        lambda draw: (
            np.minimum(draw.poisson(MS, COUNT), 700 * US),
            np.full(COUNT, 700.0 * US),
        ),
        lambda machine: exponential(machine, MS, 700 * US),
    ),
    "exponential 1 ms, timer 300 us or 3 ms": Closed(two_timers, floor_of_two_timers),
}


def intervals_of(length_ns: Floats, timer_ns: Floats) -> Columns:
    length = np.maximum(1, np.rint(length_ns)).astype(np.int64)
    count = len(length)
    gap = np.full(count, 20 * US)
    return {
        "start_ns": (S + np.cumsum(length + gap) - length - gap).astype(np.uint64),
        "length_ns": length,
        "timer_ns": np.rint(timer_ns).astype(np.int64),
        "tick_phase_ns": np.zeros(count, np.int64),
        "busy_ns": gap,
        "latency_req_ns": np.full(count, TIME_MAX),
        "disabled": np.zeros(count, np.uint32),
        "flags": np.zeros(count, np.uint8),
        "last_index": np.full(count, columns.NO_STATE, np.uint8),
        **no_answers(count),
    }


def ratio_with_error(cost: Floats, oracle: Floats) -> tuple[float, float]:
    """Return sum(cost) / sum(oracle) and its standard error, from a hundred batches."""
    parts = np.array_split(cost, 100), np.array_split(oracle, 100)
    costs, oracles = (np.array([part.sum() for part in side]) for side in parts)
    ratio = float(cost.sum() / oracle.sum())
    error = np.std(costs - ratio * oracles, ddof=1) * math.sqrt(100) / oracle.sum()
    return ratio, float(error)


@pytest.mark.parametrize("machine", ["skx", "skl"])
@pytest.mark.parametrize("law", CLOSED)
def test_bayes_reaches_a_floor_in_closed_form(law: str, machine: str) -> None:
    closed, states = CLOSED[law], deaf(machine)
    chosen = play("bayes", states, intervals_of(*closed.lengths(Draw(5, law))))
    assert (chosen["decisions"] == 1).all()
    cost, oracle = chosen["cost_pj"][LEARNED:], chosen["oracle_pj"][LEARNED:]
    ratio, error = ratio_with_error(cost.astype(float), oracle.astype(float))
    floor_cost, oracle_cost = closed.floor(states)
    floor = floor_cost / oracle_cost
    print(
        f"| {law} | {machine} | {100 * (floor - 1):.2f} | {100 * (ratio - 1):.2f} | "
        f"{400 * error:.2f} | {100 * (ratio / floor - 1):+.3f} |"
    )
    # The closed form is right about the oracle ...
    assert oracle.mean() == pytest.approx(oracle_cost, rel=0.02)
    # ... no governor is below the floor but by chance: four standard errors ...
    assert ratio >= floor - 4 * error - 1e-9
    # ... and bayes is at most 2 % above it.
    assert ratio <= 1.02 * floor + 4 * error


def test_a_governor_that_is_not_at_the_floor_is_seen() -> None:
    law, states = CLOSED["exponential 1 ms"], deaf("skx")
    cost, oracle = law.floor(states)
    chosen = play("teo_ng", states, intervals_of(*law.lengths(Draw(5, "seen"))))
    assert 1 + regret(chosen) / 100 > 1.1 * cost / oracle


# ---- bayes among the others. ----


@pytest.mark.parametrize("machine", MACHINES)
def test_no_governor_is_better_than_bayes_on_the_mean(machine: str) -> None:
    states = state_tables.find(machine, 250)
    means = {
        governor: np.mean(
            [regret(play(governor, states, stream(name, machine, 8000))) for name in STREAMS]
        )
        for governor in (*OTHERS, "bayes")
    }
    assert min(means, key=lambda governor: means[governor]) == "bayes", means


FLOORS = [name for name in STREAMS if synth.make(name, 1, 1).conditional]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", FLOORS)
def test_bayes_is_not_above_the_floor_of_a_one_shot_choice(name: str, machine: str) -> None:
    states = state_tables.find(machine, 250)
    count = 10_000
    floor = synth.floor_regret(synth.make(name, count, 1), states)
    assert floor is not None
    chosen = play("bayes", states, stream(name, machine, count))
    last = {column: found[count // 2 :] for column, found in chosen.items()}
    # Learning at first, and again after each change, takes part of the stream.
    slow = {"bursts": 1.25, "regimes-60": 1.15, "regimes-500": 1.06, "drift": 1.05}
    assert 1 + regret(last) / 100 <= slow.get(name, 1.03) * (1 + floor / 100)


# ---- What is not known. ----


def changed_after(intervals: Columns, position: int) -> Columns:
    """Return other intervals from `position` on; what is known at its beginning stays."""
    other = {name: column.copy() for name, column in intervals.items()}
    other["length_ns"][position:] = np.minimum(
        other["length_ns"][position:] * 7 + 3, other["timer_ns"][position:]
    )
    other["timer_ns"][position + 1 :] = other["length_ns"][position + 1 :]
    return other


def same_until(governor: str, name: str, position: int) -> bool:
    states = state_tables.find("skx", 250)
    intervals = stream(name, "skx", 4000)
    one = play(governor, states, intervals)
    two = play(governor, states, changed_after(intervals, position))
    before = slice(position + 1)
    assert (one["index"] != two["index"]).any(), "the change must make a difference later on"
    return all(
        bool((one[column][before] == two[column][before]).all())
        for column in ("index", "stop_tick", "reason")
    )


PLACES = range(900, 3300, 300)
UNSURE = ("bimodal-even", "heavy-tail", "poisson-1ms", "requests")


@pytest.mark.parametrize("name", UNSURE)
def test_bayes_does_not_see_the_future(name: str) -> None:
    assert all(same_until("bayes", name, position) for position in PLACES)


def test_whoever_sees_the_future_is_found_out() -> None:
    assert not all(same_until("oracle", "heavy-tail", position) for position in PLACES)


def test_bayes_repeats_itself() -> None:
    states, intervals = state_tables.find("skl", 250), stream("self-similar", "skl", 3000)
    one, two = (play("bayes", states, intervals) for _ in range(2))
    assert all((one[column] == two[column]).all() for column in one)


def test_chunks_make_no_difference() -> None:
    states, intervals = state_tables.find("skl", 250), stream("requests", "skl", 3000)
    whole = play("bayes", states, intervals)
    with Run(library.governor("bayes"), states) as run:
        parts = [
            run.play(columns.sliced(intervals, start, start + 777), True)
            for start in range(0, 3000, 777)
        ]
    for column, found in whole.items():
        assert (np.concatenate([part[column] for part in parts]) == found).all()


@pytest.mark.parametrize("governor", ["bayes", "oracle"])
def test_limits_keep_to_what_is_allowed(governor: str) -> None:
    states = state_tables.find("skl", 250)
    rng = Draw(3, "allowed")
    intervals = dict(stream("heavy-tail", "skl", 4000))
    disabled = (rng.unit(4000) * 512).astype(np.uint32) & 0x1FE
    limit = (rng.unit(4000) * 300 * US).astype(np.int64)
    intervals |= {"disabled": disabled, "latency_req_ns": limit}
    index = play(governor, states, intervals)["index"]
    assert len(set(index.tolist())) > 3
    assert not (disabled >> index & 1).any()
    assert (np.array(states.exit_latency_ns)[index] <= limit).all()
