# SPDX-License-Identifier: GPL-2.0
"""Replay plays what is written in docs/replay.md, and nothing else."""

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cpuidle_lab import cli
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording import columns
from cpuidle_lab.recording.columns import Recording, Writer
from cpuidle_lab.recording.trace import TIME_MAX
from cpuidle_lab.replay import build, engine, library, points, tunables
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable
from tests.unit.synthetic import Session

TICK_NS = 4_000_000
PHASE_NS = 1_234_567
OWN = ("teo_ng", "menu_ng", "wteo")


def machine(*states: tuple[int, int, int], polling: bool = True, tick: int = TICK_NS) -> StateTable:
    """Return a machine of (exit latency us, target residency us, power mW)."""
    return StateTable(
        names=tuple(f"S{k}" for k in range(len(states))),
        exit_latency_ns=tuple(1000 * latency for latency, _, _ in states),
        target_residency_ns=tuple(1000 * residency for _, residency, _ in states),
        power_uw=tuple(1000 * power for _, _, power in states),
        polling=tuple(polling and k == 0 for k in range(len(states))),
        tick_ns=tick,
    )


SKX = machine((0, 0, 4000), (2, 2, 1400), (10, 20, 900), (133, 600, 100))
NO_POLLING = machine((1, 1, 1000), (100, 500, 100), polling=False)

Frame = dict[str, Any]


def intervals(lengths: Any, busy_ns: int = 300_000, timer_ns: Any = 10**9, **given: Any) -> Frame:
    """Return intervals of these lengths (ns), each followed by a busy time."""
    length = np.asarray(lengths, np.int64)
    count = len(length)
    start = 10**9 + np.concatenate([[0], np.cumsum(length + busy_ns)[:-1]])
    frame: Frame = {
        "cpu": np.zeros(count, np.uint16),
        "first_seq": np.arange(count, dtype=np.uint64),
        "periods": np.ones(count, np.uint32),
        "start_ns": start.astype(np.uint64),
        "length_ns": length,
        "timer_ns": np.maximum(length, timer_ns),
        "tick_phase_ns": np.full(count, PHASE_NS),
        "busy_ns": np.full(count, busy_ns),
        "latency_req_ns": np.full(count, TIME_MAX),
        "hint_ns": np.full(count, -1),
        "disabled": np.zeros(count, np.uint32),
        "flags": np.zeros(count, np.uint8),
        "index": np.zeros(count, np.uint8),
        "last_index": np.zeros(count, np.uint8),
        "governor": np.zeros(count, np.uint8),
    }
    return frame | given


def mixed(count: int, seed: int = 1) -> Frame:
    """Return intervals that make every part of the engine work."""
    random = np.random.default_rng(seed)
    lengths = np.exp(random.uniform(np.log(500), np.log(30_000_000), count)).astype(np.int64)
    timers = np.where(random.random(count) < 0.5, lengths, lengths + random.integers(1, 10**7))
    return intervals(
        lengths,
        timer_ns=timers,
        latency_req_ns=np.where(random.random(count) < 0.1, 15_000, TIME_MAX),
        disabled=np.where(random.random(count) < 0.1, 4, 0).astype(np.uint32),
        flags=np.where(random.random(count) < 0.1, columns.CONTINUED, 0).astype(np.uint8),
    )


Make = Callable[..., Recording]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Return what turns intervals and a machine into a recording."""
    made = 0

    def build(frame: Frame, on: StateTable = SKX, kind: str = columns.SYNTH) -> Recording:
        nonlocal made
        made += 1
        target = tmp_path / f"recording{made}"
        cpus = sorted({int(cpu) for cpu in frame["cpu"]})
        meta = {
            "kind": kind,
            "source": "test",
            "kernel": "",
            "machines": {str(cpu): columns.describe(on) for cpu in cpus},
        }
        whole = pl.DataFrame(frame)
        with Writer(target, meta) as writer:
            for cpu in cpus:
                writer.add("interval", whole.filter(pl.col("cpu") == cpu))
        return Recording(target)

    yield build


def play(recording: Recording, name: str, **options: Any) -> engine.Outcome:
    settings = options.pop("settings", None)
    return engine.counterfactual(recording, library.governor(name), settings, **options)


def test_the_oracle_has_no_regret_and_nobody_has_less(make: Make) -> None:
    recording = make(mixed(3000))
    assert play(recording, "oracle").regret == pytest.approx(0, abs=1e-9)
    for name in (*OWN, "menu@7.2", "teo@7.2", "ladder@7.2", "haltpoll@7.2"):
        regret = play(recording, name).regret
        assert regret is not None and regret > 0, name


@pytest.mark.parametrize(("own", "kernels"), [("teo_ng", "teo@7.2"), ("menu_ng", "menu@7.2")])
def test_ours_and_the_kernels_are_the_same_here_too(make: Make, own: str, kernels: str) -> None:
    recording = make(mixed(5000, seed=2))
    ours = play(recording, own, choices=True)
    theirs = play(recording, kernels, choices=True)
    for name in ("index", "stop_tick", "decisions", "cost_pj"):
        assert (ours.choices[0][name] == theirs.choices[0][name]).all(), name
    assert ours.asked == theirs.asked


def test_a_cpu_without_intervals_needs_no_idle_states(make: Make) -> None:
    recording = make(mixed(100))
    alone = play(recording, "wteo").cost_pj
    recording.cpus.append(1)
    assert play(recording, "wteo").cost_pj == alone


def test_costs_are_those_of_the_model(make: Make) -> None:
    # Deep for 2 ms: E = (1000 - 100) * 500 us, then 100 mW; no tick, no polling.
    quiet = machine((1, 1, 1000), (100, 500, 100), polling=False, tick=10**8)
    one = play(make(intervals([2_000_000]), quiet), "oracle")
    entry = 900 * 500_000
    assert one.cost_pj == pytest.approx(entry + 100 * 2_000_000)
    assert one.latency_us(0.5) == 100
    assert one.entries.tolist()[:2] == [0, 1]


def test_the_best_state_is_that_of_the_latency_request_and_the_enabled(make: Make) -> None:
    frame = intervals([5_000_000, 5_000_000, 5_000_000])
    frame["latency_req_ns"] = np.array([TIME_MAX, 5_000, TIME_MAX])
    frame["disabled"] = np.array([0, 0, 0b1000], np.uint32)
    found = play(make(frame), "oracle", choices=True).choices[0]
    assert found["ideal"].tolist() == [3, 1, 2]


def test_a_kept_tick_wakes_and_asks_again(make: Make) -> None:
    # TEO keeps the tick where it expects short stays: let it learn them, then sleep long.
    frame = intervals([*[30_000] * 200, 11_000_000])
    found = play(make(frame), "teo_ng", choices=True)
    # 11 ms hold two or three ticks, and the first of them stops the tick at the latest.
    assert found.choices[0]["decisions"][-1] > 1
    assert found.ticks >= 1


def test_polling_ends_at_its_limit(make: Make) -> None:
    frame = intervals([100_000], latency_req_ns=np.array([0]))
    found = play(make(frame), "menu_ng", choices=True)
    # The limit is the target residency of the first state of at least 10 us: 20 us.
    assert found.choices[0]["decisions"].tolist() == [5]
    assert found.polls == 4
    assert found.latency_us(1) == 0


def test_an_exit_latency_leaves_what_follows_as_it_was(make: Make) -> None:
    # 1 us between two intervals, and 100 us to wake from the first: the second one moves with it.
    frame = intervals([5_000_000, 50_000, 5_000_000], busy_ns=1_000)
    found = play(make(frame, NO_POLLING), "oracle", choices=True)
    assert found.choices[0]["decisions"].tolist() == [1, 1, 1]
    assert found.regret == pytest.approx(0, abs=1e-9)


def test_everybody_is_charged_for_the_same_intervals(make: Make) -> None:
    lengths = np.random.default_rng(6).exponential(200_000, 3000).astype(np.int64) + 1
    frame = intervals(lengths, busy_ns=20_000)
    # A governor that woke slower recorded them: here they are met earlier, too.
    frame["start_ns"] += np.random.default_rng(7).integers(0, 60_000, 3000).astype(np.uint64)
    frame["start_ns"].sort()
    recording = make(frame)
    found = {name: play(recording, name) for name in (*library.LIMITS, *OWN, "teo@7.2")}
    for name, one in found.items():
        assert one.idle_ns == lengths.sum(), name
        assert one.oracle_pj == pytest.approx(found["oracle"].oracle_pj), name
        assert one.regret is not None and one.regret > -1e-9, name
        assert one.intervals == 3000


def test_what_is_not_known_is_left_out(make: Make) -> None:
    frame = intervals([1_000_000] * 4)
    frame["flags"] = np.array([0, columns.CUT, columns.GAP, 0], np.uint8)
    found = play(make(frame), "menu_ng")
    assert (found.skipped, found.intervals) == (1, 3)


# ---- What the kernel answers in replay. ----


class Probe:
    """A governor that notes its inputs, and keeps the tick so many times."""

    def __init__(self, keep: int = 0, index: int = 0) -> None:
        self.governor = library.governor(f"menu@{PROBE}")
        self._number("keep").value = keep
        self._number("index").value = index
        self._number("count").value = 0

    def _number(self, name: str) -> ctypes.c_int:
        return ctypes.c_int.in_dll(self.governor.library, f"probe_{name}")

    @property
    def told(self) -> list[tuple[int, int, bool]]:
        """Return sleep length, the same with the tick, and whether that was stopped."""
        return [(row[0], row[1], bool(row[2])) for row in self._rows()]

    @property
    def residencies(self) -> list[int]:
        """Return how long each idle period was, but for the last one."""
        return [row[3] for row in self._rows()[1:]]

    def _rows(self) -> Any:
        table = (ctypes.c_longlong * 4 * 64).in_dll(self.governor.library, "probe_told")
        return table[: self._number("count").value]


PROBE = Path(__file__).parent / "probe"
MS = 1_000_000
# No polling, and all but nothing until the CPU runs again.
QUICK = machine((1, 1, 1000), (100, 500, 100), polling=False)
# From the tick to the next question: the way out of the first state, and the tick's handler.
BACK = 1_000 + 2_000
ANSWERS = ("at", "timer", "served", "back", "phase")
START = 10**9


def asked(
    length_ns: int,
    timer_ns: int,
    answers: list[tuple[int, int]],
    *,
    keep: int = 0,
    flags: int = 0,
    phase: int = (10**9 + MS) % TICK_NS,
    on: StateTable = QUICK,
    served: int = 0,
    back: int = 2_000,
    grid: int = -1,
) -> tuple[list[tuple[int, int, bool]], ctypes.Structure]:
    """Return what a governor is told in one interval, whose first tick comes after 1 ms.

    Args:
        length_ns: of the interval.
        timer_ns: the first answer.
        answers: later ones: when, since the beginning, and the time to the timer then.
        keep: so many decisions keep the tick.
        flags: of the interval.
        phase: of the tick.
        on: the machine.
        served: how much longer the recorder's state lasted at each answer.
        back: from the end of its state to its decision.
        grid: of the tick, as the kernel told at each answer.
    """
    probe = Probe(keep)
    frame = intervals([length_ns], flags=np.array([flags], np.uint8))
    frame["timer_ns"] = np.array([timer_ns])
    frame["tick_phase_ns"] = np.array([phase])
    frame["answers"] = np.array([len(answers)], np.uint32)
    frame["answer_at_ns"] = np.array([START + at for at, _ in answers], np.uint64)
    frame["answer_timer_ns"] = np.array([timer for _, timer in answers], np.int64)
    frame["answer_served_ns"] = np.full(len(answers), served)
    frame["answer_back_ns"] = np.full(len(answers), back)
    frame["answer_phase_ns"] = np.full(len(answers), grid)
    with engine.Run(probe.governor, on) as run:
        run.play(frame, False)
        return probe.told, run.totals()


def test_the_first_answer_is_the_recorded_one() -> None:
    assert asked(6 * MS, 10 * MS, [])[0] == [(10 * MS, MS, False)]
    assert asked(6 * MS, TIME_MAX, [])[0] == [(TIME_MAX - START, MS, False)]
    # It was overdue when the kernel told of it.
    assert asked(6 * MS, 0, [])[0] == [(0, 0, False)]


# menu multiplies the time in 64 bits: told 2^63-1 it came to 0, and polled in half of the periods.
# No interval is shorter than a state that pays, and menu keeps the last 8: it polls that often.
@pytest.mark.parametrize("name", ["menu@6.12", "menu@7.2", "menu_ng"])
def test_menu_does_not_poll_for_want_of_a_timer(make: Make, name: str) -> None:
    lengths = np.random.default_rng(3).choice([30_000, 2_000_000, 9_000_000], 3000)
    frame = intervals(lengths, timer_ns=TIME_MAX, tick_phase_ns=np.full(3000, -1))
    assert play(make(frame), name).entries[0] <= 8


def test_a_tick_whose_grid_is_unknown_does_not_come() -> None:
    told, totals = asked(6 * MS, 10 * MS, [], keep=5, phase=-1)
    assert told == [(10 * MS, 10 * MS, False)]
    assert totals.ticks == 0


# Where a timer and a tick are so near to each other that the grid does not tell which was first,
# the recording does: no tick came with this end, so none came before it.
@pytest.mark.parametrize(
    ("length", "flags", "decisions"),
    [
        (MS, columns.TIMER, 1),
        (MS + 9_999, columns.TIMER, 1),
        (MS + 10_000, columns.TIMER, 2),
        (MS + 9_999, 0, 2),
    ],
)
def test_a_timer_beside_a_tick(length: int, flags: int, decisions: int) -> None:
    told, totals = asked(length, length, [], keep=1, flags=flags)
    assert (len(told), totals.ticks) == (decisions, decisions - 1)


# A timer that was moved while the CPU was awake is where it was moved to.
def test_later_answers_are_followed() -> None:
    told, _ = asked(9 * MS, 10 * MS, [(MS, 6 * MS), (5 * MS, 7 * MS)], keep=2)
    assert told == [
        (10 * MS, MS, False),
        (6 * MS - BACK, 4 * MS - BACK, False),
        (7 * MS - BACK, 4 * MS - BACK, False),
    ]
    # Until then the old answer holds.
    told, _ = asked(9 * MS, 10 * MS, [(MS + 30_000, 6 * MS)], keep=1)
    assert told[1][0] == 9 * MS - BACK


# A timer that passed without ending the interval was moved: a governor is not told 0.
@pytest.mark.parametrize(
    ("answers", "flags", "sleep"),
    [
        ([(3 * MS, 4 * MS)], 0, 6 * MS),
        # The first of the two is not due yet at 1 ms.
        ([(3 * MS, MS), (3 * MS, 5 * MS)], 0, 3 * MS),
        ([], columns.TIMER, 5 * MS),
        ([], 0, TIME_MAX - START - MS),
    ],
)
def test_a_timer_that_has_passed(answers: list[tuple[int, int]], flags: int, sleep: int) -> None:
    told, _ = asked(6 * MS, MS + 1_000, answers, keep=1, flags=flags)
    assert len(told) == 2
    assert told[1][0] == sleep - BACK


# It is about to be served. wteo had polled and then entered a state of 10 ms before 12 us of
# cyclictest, for it was told of no timer when its poll had ended.
@pytest.mark.parametrize(
    ("timer", "answers", "sleeps"),
    [
        (0, [], [0, 0, 0]),
        (0, [(3 * MS, 4 * MS)], [0, 0, 2 * MS - BACK]),
        (10 * MS, [(MS, 0)], [10 * MS, 0, 0]),
    ],
)
def test_what_is_overdue_stays_so_until_the_next_answer(
    timer: int, answers: list[tuple[int, int]], sleeps: list[int]
) -> None:
    told, _ = asked(9 * MS, timer, answers, keep=2)
    assert [sleep for sleep, *_ in told] == sleeps


# Where the kernel answered with the tick because it had to go on, it does so again: there is no
# timer, and the governor cannot stop that tick. It ends the interval.
def test_a_held_tick() -> None:
    told, totals = asked(MS, columns.TIMER_TICK - MS, [], flags=columns.TICKED)
    assert told == [(MS, MS, False)]
    assert (totals.intervals, totals.ticks) == (1, 0)
    # A later answer, when this governor has not stopped its tick, either.
    held = (MS, columns.TIMER_TICK - 4 * MS)
    told, totals = asked(5 * MS, 10 * MS, [held], keep=1, flags=columns.TICKED)
    assert told == [(10 * MS, MS, False), (4 * MS - BACK, 4 * MS - BACK, False)]
    assert totals.ticks == 1


# The governor of the recording kept the tick, and was told of it; this one has stopped it.
def test_a_held_tick_is_no_answer_where_the_tick_was_stopped() -> None:
    # State 0 polls, until 20 us have passed, so the governor is asked again.
    held = [(15_000, columns.TIMER_TICK - (MS - 15_000))]
    told, _ = asked(35_000, 10 * MS, held, on=SKX)
    never = TIME_MAX - START - 20_000
    assert told == [(10 * MS, MS, False), (never, never, True)]
    told, _ = asked(35_000, 10 * MS, held, keep=2, on=SKX)
    assert told[1] == (MS - 20_000, MS - 20_000, False)


# The end came with the last tick before it; a timer of a task, with one 70 us before it,
# counted from where the CPU has left its state.
@pytest.mark.parametrize(
    ("late", "flags", "decisions"),
    [
        (70_000, columns.TICKED, 1),
        (4 * MS - 10_000, columns.TICKED, 1),
        (4 * MS - 9_999, columns.TICKED, 2),
        (71_000, columns.TICKED | columns.TIMER, 1),
        (71_001, columns.TICKED | columns.TIMER, 2),
        (70_000, 0, 2),
        (0, 0, 1),
    ],
)
def test_an_end_that_came_with_the_tick(late: int, flags: int, decisions: int) -> None:
    told, totals = asked(MS + late, 10 * MS, [], keep=1, flags=flags)
    assert len(told) == decisions
    assert totals.ticks == decisions - 1


# The recorder went on from the tick: the one that came with the end did so on the way out of the
# state. A timer may come between such a tick and the next decision, so there the answer says
# nothing.
@pytest.mark.parametrize(
    ("at", "flags", "decisions"),
    [
        (MS, columns.TICKED, 2),
        (MS - 10_000, columns.TICKED, 2),
        (MS - 10_001, columns.TICKED, 1),
        (MS + 10_001, columns.TICKED, 1),
        (MS, columns.TICKED | columns.TIMER, 1),
    ],
)
def test_an_end_that_came_with_a_tick_after_the_wake_up(
    at: int, flags: int, decisions: int
) -> None:
    late = 4 * MS - 20_000 if not flags & columns.TIMER else 50_000
    told, totals = asked(MS + late, 10 * MS, [(at, 8 * MS)], keep=1, flags=flags)
    assert len(told) == decisions
    assert totals.ticks == decisions - 1


# Where a tick woke the recorder, too, replay knows when, how long it was served, and the way back.
def test_the_recorded_way_back_from_a_tick() -> None:
    came = [(MS + 8_000, 8 * MS)]
    told, _ = asked(9 * MS, 10 * MS, came, keep=1, served=30_000, back=5_000)
    # 1 us of exit latency.
    at = MS + 8_000 + 30_000 + 1_000 + 5_000
    assert told[1][0] == MS + 8_000 + 8 * MS - at
    far = [(MS + 10_001, 8 * MS)]
    told, _ = asked(9 * MS, 10 * MS, far, keep=1, served=30_000, back=5_000)
    assert told[1][0] == 10 * MS - MS - BACK
    # The kernel told the grid more exactly then.
    phase = (START + MS + 8_000 + 2_000) % TICK_NS
    told, _ = asked(9 * MS, 10 * MS, came, keep=2, served=30_000, back=5_000, grid=phase)
    assert told[1][1] == 4 * MS + MS + 8_000 + 2_000 - at


# From 7.0 on the kernel tells of a cancelled timer that its clock is still programmed for. That is
# no tick: the governor hears of it, and is woken by the ticks alone.
def test_an_event_off_the_grid_is_told_and_is_no_tick() -> None:
    probe = Probe(9)
    frame = intervals([500_000, 6 * MS])
    start = int(frame["start_ns"][1])
    frame["timer_ns"] = np.array([10 * MS, 10 * MS])
    frame["tick_phase_ns"] = np.array([START + MS, start + 100_000]) % TICK_NS
    frame["answers"] = np.zeros(2, np.uint32)
    frame |= {f"answer_{name}_ns": np.zeros(0, np.int64) for name in ANSWERS}
    with engine.Run(probe.governor, QUICK) as run:
        run.play(frame, False)
        tick = (START + MS - start) % TICK_NS
        assert probe.told[1] == (10 * MS, 100_000, False)
        assert probe.told[2] == (10 * MS - tick - BACK, TICK_NS - BACK, False)
        assert run.totals().ticks == 1 + (tick + TICK_NS < 6 * MS)


# A selection that was aborted is made again, and the next one knows that no idle period followed.
def test_aborted_selections_are_made(make: Make) -> None:
    frame = intervals([40_000] * 40)
    frame["length_ns"][::2] = 0
    found = play(make(frame), "menu_ng", choices=True)
    assert (found.intervals, found.skipped, found.decisions) == (20, 0, 20)
    assert (found.choices[0]["decisions"][::2] == 0).all()
    without = play(make({name: values[1::2] for name, values in frame.items()}), "menu_ng")
    assert found.oracle_pj == without.oracle_pj
    assert found.cost_pj != without.cost_pj, "menu takes an aborted selection for a long interval"


# So the kernel measures such a poll as longer than the sleep length. Intervals that were slept are
# recorded as a little shorter, and teo took its own timer for an early wake-up. Those that were
# polled are recorded with the handler, or were ended by something else before the timer.
@pytest.mark.parametrize(
    ("recorder", "longer"), [(columns.NO_STATE, 500), (1, 500), (0, None)], ids=str
)
def test_a_timer_that_ends_a_poll_is_served_within_it(recorder: int, longer: int | None) -> None:
    probe = Probe()
    frame = intervals([5_000] * 5)
    frame["last_index"] = np.full(5, recorder, np.uint8)
    frame["timer_ns"] = np.array([5_014, 4_800, 3_400, 5_014, 9_000])
    frame["flags"] = np.array([columns.TIMER] * 3 + [0, 0], np.uint8)
    frame["answers"] = np.zeros(5, np.uint32)
    frame |= {f"answer_{name}_ns": np.zeros(0) for name in ANSWERS}
    with engine.Run(probe.governor, SKX) as run:
        run.play(frame, False)
        served = [5_014 + longer, 4_800 + longer] if longer else [5_000] * 2
        assert probe.residencies == [*served, 5_000, 5_000]


# The waker's work is done within the poll: the interval ends up to 10 us after the limit of 20.
@pytest.mark.parametrize(("length", "polls"), [(30_000, 0), (30_001, 1)])
def test_a_poll_that_was_woken_outlasts_its_limit(length: int, polls: int) -> None:
    assert asked(length, 10 * MS, [], on=SKX)[1].polls == polls


# Interrupts do not end a poll, but what a timer sends the CPU to is done before the poll's limit.
def test_a_timer_within_a_poll_ends_the_interval() -> None:
    told, totals = asked(60_000, 5_000, [], on=SKX, flags=columns.TIMER)
    assert (len(told), totals.polls) == (1, 0)
    told, totals = asked(60_000, 25_000, [], on=SKX, flags=columns.TIMER)
    assert totals.polls > 0


# It counts nowhere, though the governor meets it and learns from it.
def test_overslept_intervals_do_not_count() -> None:
    told, totals = asked(6 * MS, 10 * MS, [], flags=columns.OVERSLEPT)
    assert len(told) == 1
    assert (totals.skipped, totals.intervals, totals.decisions) == (1, 0, 0)
    assert (totals.cost_pj, totals.oracle_pj) == (0, 0)


# ---- All in all. ----


def test_chunks_threads_and_order_change_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = mixed(4000, seed=3)
    frame["cpu"] = np.repeat(np.arange(4, dtype=np.uint16), 1000)
    whole = {name: play(make(frame), name) for name in (*OWN, "teo@7.2", "bayes")}
    monkeypatch.setattr("cpuidle_lab.recording.columns.writer.PART_ROWS", 77)
    pieces = make(frame)
    assert len(pieces.parts["interval"]) > 40
    for name, before in whole.items():
        for jobs in (1, 4):
            after = play(pieces, name, jobs=jobs)
            assert after.cost_pj == before.cost_pj, name
            assert (after.heat == before.heat).all(), name


def test_tunables_are_used(make: Make) -> None:
    recording = make(mixed(4000, seed=4))
    default = play(recording, "wteo")
    biased = play(recording, "wteo", settings={"latency_bias": 5000})
    assert biased.cost_pj > default.cost_pj


def test_a_power_cpu_idle_recording_is_for_the_oracle_only(make: Make) -> None:
    frame = intervals([50_000, 800_000], flags=np.full(2, columns.UNKNOWN, np.uint8))
    recording = make(frame, kind=columns.CPU_IDLE)
    with pytest.raises(UserError, match=r"only power:cpu_idle events.*cannot be replayed"):
        play(recording, "wteo")


@pytest.mark.parametrize(
    "states",
    [
        ((1, 1, 10),),
        tuple((k, k, 100 - k) for k in range(10)),
        ((0, 0, 10), (5, 5, 9), (5, 5, 8)),
        ((0, 0, 0), (5, 5, 0)),
    ],
)
def test_odd_machines_are_played(make: Make, states: Any) -> None:
    recording = make(mixed(50), machine(*states))
    for name in (*library.LIMITS, *OWN):
        found = play(recording, name)
        assert found.intervals == 50, name


def test_absurd_columns_do_no_harm() -> None:
    # Recordings with such columns are refused; the library must cope all the same.
    frame = mixed(200, seed=5)
    frame["start_ns"] = frame["start_ns"][::-1].copy()
    frame["length_ns"] = frame["length_ns"] * np.where(np.arange(200) % 3, 1, -1)
    frame["timer_ns"] = np.full(200, np.iinfo(np.int64).min)
    frame["tick_phase_ns"] = np.full(200, np.iinfo(np.int64).max)
    counts = np.random.default_rng(5).integers(0, 3, 200).astype(np.uint32)
    wild = np.array([0, 1, 2**63, 2**64 - 1, 10**9], np.uint64)
    frame |= {
        "answers": counts,
        "answer_at_ns": np.resize(wild, counts.sum()),
        **{
            name: np.resize(wild, counts.sum()).astype(np.int64)
            for name in columns.ANSWERS
            if name != "answer_at_ns"
        },
    }
    for name in (*library.LIMITS, *OWN):
        with engine.Run(library.governor(name), SKX) as run:
            run.play(frame, True)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nonsense", "unknown governor 'nonsense'; there are teo_ng"),
        ("wteo@7.2", "'7.2' is no commit"),
        ("menu@seven", "'seven' is no series of kernels"),
        ("menu@/nonsense", "/nonsense is no kernel tree"),
    ],
)
def test_unknown_governors_are_named(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        library.governor(spec)


def test_a_governor_that_a_tree_lacks_is_named(tmp_path: Path) -> None:
    """Trees with the same governors have one library, wherever they are."""
    for name in ("one", "two"):
        folder = tmp_path / name / "drivers/cpuidle/governors"
        folder.mkdir(parents=True)
        (folder / "menu.c").write_text("#include <linux/cpuidle.h>\n")
        with pytest.raises(UserError, match="has no governor teo"):
            library.governor(f"teo@{tmp_path / name}")
    made = {build.mainline(build.LIBRARY, str(tmp_path / name)) for name in ("one", "two")}
    assert len(made) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["learning_rate"], "is no TUNABLE=VALUE"),
        (["learning_rate=0"], "'0' is no value of learning_rate: 1 to 100"),
        (["latency_bias=maybe"], "'maybe' is no value of latency_bias: 0 to 8192"),
        (["depth=3"], "wteo has no tunable 'depth'; it has learning_rate"),
    ],
)
def test_bad_tunables_are_named(
    make: Make, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = make(mixed(10))
    named = ":".join(["wteo", *words])
    command = ["replay", str(recording.path), "--same-points", "--governors", named]
    assert cli.main(command) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--same-points"], "--same-points wants --governors"),
        (["--check", "--governors", "wteo:learning_rate=9"], "leave them out"),
        (["--check", "--governors", "wteo,,menu_ng"], "a name is missing"),
        (["--check", "--jobs", "0"], "must be above 0"),
        (["--governors", "wteo", "--same-points"], "holds no decisions"),
    ],
)
def test_wrong_usage_is_one_sentence(
    make: Make, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = make(mixed(10))
    assert cli.main(["replay", str(recording.path), *arguments]) in (1, 2)
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert captured.out == ""


def test_another_governor_starts_afresh_after_each_gap(tmp_path: Path) -> None:
    """A kernel's governor, too, whose state no trace has."""
    session = Session(cpus=1)
    session.phase("wteo", "bursts", 50_000_000)
    columns.write(session.trace.write(tmp_path / "a.dat"), tmp_path / "a")
    table = tmp_path / "a/period/00000.parquet"
    rows = pl.read_parquet(table)
    lost = (pl.int_range(rows.height) == 9).cast(rows.schema["lost"])
    rows.with_columns(lost=lost).write_parquet(table)
    recording = Recording(tmp_path / "a")
    for name in ("menu@7.2", "teo_ng"):
        chosen = library.governor(name)
        decided = points.OtherPoints(recording, 0, chosen, tunables.Tunables(recording, chosen, {}))
        ((found, _),) = decided.chunks()
        assert np.flatnonzero(found["start"] == points.AFRESH).tolist() == [0, 9]
        assert np.count_nonzero(found["start"]) == 2


def test_length_classes_begin_where_they_say() -> None:
    lengths = [1, 2, 3, 4, 5, 7, 8, 100, 1000, 10**6, 10**9]
    found = library.governor("oracle").library
    for length in lengths:
        number = found.rp_length_class(length)
        assert engine.length_of(number) <= length < max(engine.length_of(number + 1), length + 1), (
            length
        )


class CCost(ctypes.Structure):
    """struct cil_cost."""

    _fields_ = (("entry", ctypes.c_uint64), ("power", ctypes.c_uint32))


@pytest.mark.parametrize("known", [True, False])
def test_reports_and_governors_have_one_cost_model(known: bool) -> None:
    table = ((0, 0, 4000), (2, 2, 1400), (10, 20, 900), (85, 200, 250), (200, 200, 200))
    on = machine(*(state if known else (*state[:2], 0) for state in table))
    found = (CCost * 10)()
    governors = library.governor("wteo").library
    governors.cil_energy_init(found, ctypes.byref(engine.c_machine(on)))
    costs = model_of(on)
    most = costs.power_mw[0]
    for k in range(on.count):
        assert found[k].power / 65536 == pytest.approx(costs.power_mw[k] / most, abs=1e-3)
        assert found[k].entry / 65536 == pytest.approx(costs.entry_pj[k] / most, rel=1e-2)


def test_reports_charge_powers_as_given_even_if_they_hardly_fall() -> None:
    on = replace(machine((0, 0, 1), (2, 10, 1), (10, 20, 1)), power_uw=(1_000_000, 980_000, 400))
    costs = model_of(on)
    assert (costs.power_mw, costs.derived) == ((1000, 980, 0.4), False)
    assert costs.entry_pj == pytest.approx((0, 20 * 10_000, 20 * 10_000 + 979.6 * 20_000))
    model = engine.c_model(on)
    assert [model.power_mw[k] for k in range(3)] == [1000, 980, 0.4]
    assert [engine.c_machine(on).states[k].power_uw for k in range(3)] == [*on.power_uw]
    assert model_of(replace(on, power_uw=(980_000, 1_000_000, 400))).derived
