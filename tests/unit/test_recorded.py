# SPDX-License-Identifier: GPL-2.0
"""Recorded idle periods are charged as replayed ones are."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.figures import analysis
from cpuidle_lab.recording import columns as co
from cpuidle_lab.recording import trace
from cpuidle_lab.replay import engine, recorded
from cpuidle_lab.states.costs import model_of
from tests.unit.intervals_model import EXIT, MACHINE, TICK, TIME_MAX, Decided, add, made
from tests.unit.synthetic import demo, no_answers
from tests.unit.test_replay import Probe
from tests.unit.tracedat import Trace

US = 1_000
# Between the end of a tick and the next decision.
HANDLER = 2 * US


def session(lengths: list[int], index: int, *, keep: bool) -> list[Decided]:
    """Return what a governor does that takes one state, and stops the tick always or never."""
    found: list[Decided] = []
    now = 10**9
    for length in lengths:
        end, left = now + length, 1
        while now < end:
            to_tick = TICK - now % TICK
            tick = keep and to_tick < end - now
            stay = (to_tick if tick else end - now) + EXIT[index]
            found.append(
                Decided(
                    seq=len(found) + 1, now=now, sleep=10**9, delta=to_tick, index=index,
                    entered=index, stop_tick=int(not keep), left=left, residency=stay,
                    tick=int(tick),
                )
            )  # fmt: skip
            now += stay + HANDLER * tick
            left = 0
        now += 200 * US
    return found


# A governor that decides the same in any case is played as it was recorded.
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("index", [1, 2])
def test_a_simple_governor_is_charged_the_same(tmp_path: Path, index: int, keep: bool) -> None:
    lengths = np.random.default_rng(3).integers(200 * US, 20_000 * US, 200).tolist()
    trace_ = Trace()
    add(trace_, 0, session(lengths, index, keep=keep), free=True)
    recording = made(trace_, tmp_path)
    rows = recording.table("interval")
    assert rows.height == len(lengths)
    assert not (rows["flags"] & (co.CUT | co.OVERSLEPT) != 0).any()
    # One that ends while the CPU is awake after a tick ended with that tick, as far as is known.
    short = np.array(lengths) - rows["length_ns"].to_numpy()
    assert ((short == 0) | keep & (short > 0) & (short <= EXIT[index] + HANDLER)).all()
    assert (short > 0).any() == keep
    told = recorded.outcome(recording)
    played = engine.counterfactual(recording, Probe(10**9 * keep, index).governor)
    model = model_of(MACHINE)
    entries = int(recording.table("period")["out_index"].eq(index).sum())
    cost = entries * model.entry_pj[index] + model.power_mw[index] * int(rows["length_ns"].sum())
    assert told.cost_pj == pytest.approx(cost)
    assert played.cost_pj == pytest.approx(told.cost_pj)
    assert played.oracle_pj == pytest.approx(told.oracle_pj)
    for name in ("intervals", "decisions", "ticks", "idle_ns"):
        assert getattr(played, name) == getattr(told, name), name
    assert (told.ticks > 100) == keep


# The report's regret is that of the recording as a whole.
def test_the_report_says_the_same(tmp_path: Path) -> None:
    trace_ = Trace()
    lengths = np.random.default_rng(4).integers(200 * US, 20_000 * US, 100).tolist()
    add(trace_, 0, session(lengths, 1, keep=True), free=True)
    recording = made(trace_, tmp_path)
    (group,) = analysis.analyse(trace.load(tmp_path / "t.dat"))
    found = recorded.outcome(recording)
    assert found.regret is not None and found.regret > 1
    assert group.values["regret"] == pytest.approx(found.regret)
    assert group.values["intervals"] == found.intervals + found.skipped == 100


def interval(**changes: object) -> dict[str, np.ndarray]:
    """Return one interval of 1 ms in two periods, in memory."""
    values: dict[str, object] = {
        "periods": 2, "start_ns": 10**9, "length_ns": 1000 * US, "timer_ns": TIME_MAX,
        "tick_phase_ns": -1, "busy_ns": 0, "latency_req_ns": TIME_MAX, "disabled": 0, "flags": 0,
        "last_index": 0,
    }  # fmt: skip
    return {name: np.array([value]) for name, value in (values | changes).items()} | no_answers(1)


def stays(**changes: list[int]) -> dict[str, np.ndarray]:
    """Return its periods: 300 us in C1 until a tick, then C6."""
    values = {
        "now_ns": [10**9, 10**9 + 300 * US], "residency_ns": [297 * US, 833 * US],
        "disabled": [0, 0], "index": [1, 2], "out_index": [1, 2], "by_tick": [1, 0],
        "poll_time_limit": [0, 0],
    }  # fmt: skip
    return {name: np.array(value) for name, value in (values | changes).items()}


# E + P * time of each state, each until the next was chosen; by hand: C1 costs 600 mW * 2 us to
# enter, C6 another 350 mW * 600 us.
def test_costs_by_hand() -> None:
    entry = (0.0, 1.2e6, 211.2e6)
    assert model_of(MACHINE).entry_pj == entry
    with recorded.Judge(MACHINE) as judge:
        each, verdict = judge.judge(interval(), stays())
        totals = judge.totals()
    spent = [entry[1] + 400 * 300 * US, entry[2] + 50 * 700 * US]
    assert verdict["cost_pj"].tolist() == pytest.approx(spent)
    assert each["cost_pj"].tolist() == pytest.approx([sum(spent)])
    # For 1 ms C6 is cheaper than C1, 261.2 to 401.2 uJ; for the 700 us that were left, too.
    assert each["oracle_pj"].tolist() == pytest.approx([entry[2] + 50 * 1000 * US])
    assert verdict["ideal"].tolist() == [2, 2]
    # C6 was too shallow nowhere; C1 was not long enough for C6.
    assert (verdict["above"].tolist(), verdict["below"].tolist()) == ([0, 0], [0, 0])
    assert (totals.ticks, totals.decisions, totals.intervals) == (1, 2, 1)


@pytest.mark.parametrize("flags", [co.CUT, co.OVERSLEPT, co.UNKNOWN])
def test_what_cannot_be_judged_costs_nothing(flags: int) -> None:
    with recorded.Judge(MACHINE) as judge:
        each, _ = judge.judge(interval(flags=flags), stays())
        totals = judge.totals()
    assert (each["cost_pj"].tolist(), each["oracle_pj"].tolist()) == ([0], [0])
    assert (totals.skipped, totals.intervals, totals.cost_pj) == (1, 0, 0)


@pytest.mark.parametrize("periods", [0, 1, 3])
def test_periods_of_other_intervals_are_refused(periods: int) -> None:
    with (
        recorded.Judge(MACHINE) as judge,
        pytest.raises(ValueError, match="not those of the intervals"),
    ):
        judge.judge(interval(periods=periods), stays())


# Parts of the tables end in different places, and their columns are read piece by piece.
def test_parts_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = demo(tmp_path / "t.dat", length=10_000_000)
    with co.opened(path) as recording:
        whole = recorded.outcome(recording)
    monkeypatch.setattr("cpuidle_lab.recording.columns.writer.PART_ROWS", 37)
    with co.opened(path) as recording:
        assert len(recording.parts["period"]) > 10
        pieces = recorded.outcome(recording)
    assert pieces.intervals == whole.intervals > 500
    assert pieces.cost_pj == pytest.approx(whole.cost_pj, rel=1e-12)


def four_intervals(tmp_path: Path) -> co.Recording:
    trace_ = Trace()
    add(trace_, 0, session([1000 * US] * 4, 1, keep=False), free=True)
    return made(trace_, tmp_path)


def test_missing_periods_are_a_sentence(tmp_path: Path) -> None:
    recording = four_intervals(tmp_path)
    recording.parts["period"] = []
    with pytest.raises(UserError, match="'period' lacks some of what its intervals hold"):
        recorded.outcome(recording)


def test_an_interval_without_periods_is_a_sentence(tmp_path: Path) -> None:
    recording = four_intervals(tmp_path)
    table = recording.path / "interval/00000.parquet"
    frame = pl.read_parquet(table)
    none = pl.lit(0, frame.schema["periods"])
    frame.with_columns(periods=none).write_parquet(table)
    with pytest.raises(UserError, match="'interval' has one without idle periods"):
        recorded.outcome(recording)


def test_a_cpu_without_a_state_table_is_a_sentence(tmp_path: Path) -> None:
    recording = four_intervals(tmp_path)
    assert recorded.outcome(recording).intervals
    recording.state_tables = {}
    with pytest.raises(UserError, match="the idle states of CPU 0 are unknown"):
        recorded.outcome(recording)
    recording.cpus = []
    with pytest.raises(UserError, match="no CPU whose idle states are known"):
        recorded.outcome(recording)
