# SPDX-License-Identifier: GPL-2.0
"""The figures of the reader and of replay are those of what is played; a missed target is said."""

import json
from pathlib import Path

import pytest

from cpuidle_lab.cli import main
from cpuidle_lab.recording import state_tables
from cpuidle_lab.replay import instructions
from cpuidle_lab.replay.engine import counterfactual
from cpuidle_lab.replay.library import governor
from experiments.wteo.streams import shortened
from tests.proofs.throughput import measure, run

EVENTS, INTERVALS = 3000, 25_000


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "FOLDER", tmp_path / "throughput")
    monkeypatch.setattr(run, "FULL", (EVENTS, INTERVALS))
    monkeypatch.setattr(measure, "COUNTED_EVENTS", 2000)


def test_the_large_trace_is_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "throughput"
    folder.mkdir()
    made = measure.big_trace(folder, EVENTS)
    before = made.stat()
    other = made.with_name(f"reader-{EVENTS}-0123456789ab.dat")
    other.touch()
    assert measure.big_trace(folder, EVENTS) == made
    assert made.stat() == before and other.exists()
    made.unlink()
    assert measure.big_trace(folder, EVENTS) == made
    assert not other.exists()


def test_both_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "throughput", "--json"]) in (0, 1)
    found = json.loads(capsys.readouterr().out)
    assert found["reader"]["events"] >= EVENTS and found["reader"]["events_per_s"] > 0
    replay = found["replay"]
    assert replay["states"] == 7
    assert replay["periods_per_s"] > replay["target_periods_per_s"] / 100
    assert replay["periods_per_s_with_reading"] < replay["periods_per_s"] * 2

    states = shortened(state_tables.find("power9", 250), 7)
    recording = measure.write(tmp_path / "s", "poisson-1ms", INTERVALS, states, "")
    one = governor("teo_ng")
    own = instructions.per_decision(one, recording)
    assert own is not None
    assert own < replay["instructions_per_period"] < own + 2000
    assert counterfactual(recording, one).periods >= INTERVALS
    monkeypatch.setattr(measure, "COUNTED_INTERVALS", (10_000, 20_000))
    again = measure.engine_instructions(one, recording)
    assert again == pytest.approx(replay["instructions_per_period"], rel=0.05)


def test_a_missed_target_is_said_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "READER_EVENTS_PER_S", 1)
    monkeypatch.setattr(measure, "REPLAY_PERIODS_PER_S", 10**12)
    assert main(["experiment", "throughput"]) == 1
    assert "MISSED: replay" in capsys.readouterr().out
    monkeypatch.setattr(measure, "REPLAY_PERIODS_PER_S", 1)
    assert main(["experiment", "throughput"]) == 0
    assert "MISSED" not in capsys.readouterr().out
