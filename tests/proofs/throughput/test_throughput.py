# SPDX-License-Identifier: GPL-2.0
"""The figures of the reader and of replay are those of what is played; a missed target is said."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from cpuidle_lab.cli import main
from cpuidle_lab.recording import columns, state_tables
from cpuidle_lab.replay import instructions
from cpuidle_lab.replay.engine import counterfactual
from cpuidle_lab.replay.library import governor
from experiments.wteo.streams import shortened
from tests.proofs.throughput import commands, measure, run
from tests.proofs.throughput.commands import (
    CHECKPOINTS,
    MANY_CPUS,
    PHASED,
    STOCK,
    WHOLE,
    Found,
    RecordingShape,
)

EVENTS, INTERVALS = 3000, 25_000
COMPARE = next(one for one in commands.COMMANDS if one.name == "compare")


def cost(events: int, wall_s: float, peak_bytes: int) -> Found:
    return Found(COMPARE.name, RecordingShape(events).title, events, wall_s, wall_s, peak_bytes)


def missed(*found: Found) -> list[str]:
    return [one.promise for one in commands.verdicts(found) if one.state == "MISSED"]


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "FOLDER", tmp_path / "throughput")
    monkeypatch.setattr(run, "FULL", (EVENTS, INTERVALS))
    monkeypatch.setattr(measure, "COUNTED_EVENTS", 2000)
    monkeypatch.setattr(commands, "measured", lambda *_: [cost(10**6, 1.5, 1 << 20)])
    monkeypatch.setattr(commands, "COMMANDS", (COMPARE,))


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


def test_commands_are_judged_line_by_line() -> None:
    good = cost(1_000_000, 2.9, 1 << 30)
    assert missed(good) == []
    assert missed(replace(good, peak_bytes=(1 << 30) + 1)) == [
        "compare, 1,000,000, 1,000 phases: at most 1 GiB"
    ]
    (slow,) = missed(replace(good, wall_s=3.1, cpu_s=3.1))
    assert slow.endswith("500,000 events a second after 1 s")
    growth = "compare: twice the events take at most 2.2 times as long"
    assert growth not in missed(good, cost(4_000_000, 2.9 * 2.2**2 - 0.1, 1))
    assert growth in missed(good, cost(4_000_000, 2.9 * 2.2**2 + 0.1, 1))


def test_every_kind_of_recording_is_made(tmp_path: Path) -> None:
    kinds = commands.shapes([20_000, 10_000])
    assert [(one.events, one.kind) for one in kinds] == [
        (10_000, PHASED), (20_000, PHASED), (10_000, WHOLE), (10_000, MANY_CPUS),
        (10_000, CHECKPOINTS), (10_000, STOCK),
    ]  # fmt: skip
    for shape in (kinds[0], *kinds[2:]):
        with columns.opened(commands.recording(tmp_path, shape)) as found:
            assert found.integrity.complete and found.integrity.events >= shape.events
            assert found.cpus == list(range(shape.cpus))
            marks = found.table("marker").filter(pl.col("text").str.contains("^phase gov")).height
            assert marks == 0 if shape.kind in (WHOLE, STOCK) else marks >= 1
            assert bool(found.rows("state")) == (shape.kind == CHECKPOINTS)


def test_work_of_others_is_no_time_of_a_command() -> None:
    assert (
        missed(cost(1_000_000, 2.9, 1)) == missed(replace(cost(1_000_000, 9, 1), cpu_s=2.9)) == []
    )


def test_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    """The short form of the proof: 1 and 4 million events."""
    peaks = []
    for events in (1_000_000, 4_000_000):
        shape = RecordingShape(events)
        found = commands.run(COMPARE, shape, commands.recording(tmp_path, shape), tmp_path)
        peaks.append(found.peak_bytes)
    assert peaks[1] <= commands.MOST_BYTES
    assert peaks[1] < peaks[0] + (64 << 20)
