# SPDX-License-Identifier: GPL-2.0
"""The export for Perfetto, read back with the message definitions of Perfetto's package.

Its trace processor is a binary that the package would download; these tests do not need it.
"""

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

import cpuidle_lab
from cpuidle_lab.cli import main
from cpuidle_lab.figures.frames import Frames
from cpuidle_lab.view.perfetto import ARGUMENTS, OUTCOME, track
from tests.unit import synthetic
from tests.unit.test_kernelshark import stock

PACKAGE = Path(cpuidle_lab.__file__).parents[1]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.demo(tmp_path_factory.mktemp("session") / "trace.dat", 8_000_000)


@pytest.fixture(scope="module")
def frames(recording: Path) -> Frames:
    return cpuidle_lab.open(recording)


def packets(path: Path) -> list[TracePacket]:
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    return list(trace.packet)


@pytest.fixture(scope="module")
def exported(recording: Path) -> list[TracePacket]:
    target = recording.with_name("idle.pftrace")
    assert main(["export", "--perfetto", str(target), str(recording)]) == 0
    return packets(target)


def tracks(exported: list[TracePacket]) -> dict[str, list[TracePacket]]:
    """Return the events of each track, by its name, in the order of the file."""
    names = {
        packet.track_descriptor.uuid: packet.track_descriptor.name
        for packet in exported
        if packet.HasField("track_descriptor")
    }
    found: dict[str, list[TracePacket]] = {name: [] for name in names.values()}
    for packet in exported:
        if packet.HasField("track_event"):
            found[names[packet.track_event.track_uuid]].append(packet)
    return found


def arguments(packet: TracePacket) -> dict[str, Any]:
    return {
        item.name: getattr(item, item.WhichOneof("value"))
        for item in packet.track_event.debug_annotations
    }


def test_the_sequence_is_one_and_each_cpu_in_the_order_of_time(exported: list[TracePacket]) -> None:
    assert {packet.trusted_packet_sequence_id for packet in exported} == {1}
    assert exported[0].sequence_flags == TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    events = [packet for packet in exported if packet.HasField("track_event")]
    for cpu in (0, 1):
        mine = {track(kind, cpu) for kind in (1, 2, 3)}
        times = [event.timestamp for event in events if event.track_event.track_uuid in mine]
        assert times == sorted(times)


def test_each_cpu_has_its_tracks(exported: list[TracePacket], frames: Frames) -> None:
    descriptors = [p.track_descriptor for p in exported if p.HasField("track_descriptor")]
    root = descriptors[0]
    assert {item.parent_uuid for item in descriptors[1:]} == {root.uuid}
    assert [item.name for item in descriptors[1:]] == [
        f"CPU {cpu} {kind}" for cpu in (0, 1) for kind in ("idle", "decisions", "regret")
    ]
    assert len({item.uuid for item in descriptors}) == 7
    assert [item.HasField("counter") for item in descriptors[1:]] == [False, False, True] * 2


@pytest.mark.parametrize("cpu", [0, 1])
def test_slices_are_the_idle_periods(exported: list[TracePacket], frames: Frames, cpu: int) -> None:
    events = tracks(exported)[f"CPU {cpu} idle"]
    begins, ends = events[::2], events[1::2]
    assert {p.track_event.type for p in begins} == {TrackEvent.TYPE_SLICE_BEGIN}
    assert {p.track_event.type for p in ends} == {TrackEvent.TYPE_SLICE_END}
    rows = frames.idle.filter(pl.col("cpu") == cpu)
    assert [p.timestamp for p in begins] == rows["start_ns"].to_list()
    assert [p.timestamp for p in ends] == rows["end_ns"].to_list()
    assert [p.track_event.name for p in begins] == rows["state"].to_list()
    outcome = {row["seq"]: row for row in frames.decisions.filter(pl.col("cpu") == cpu).to_dicts()}
    for packet, seq in zip(begins, rows["seq"], strict=True):
        want = {name: outcome[seq][name] for name in ("governor", "seq", *OUTCOME)} if seq else {}
        assert arguments(packet) == {k: v for k, v in want.items() if v is not None}


@pytest.mark.parametrize("cpu", [0, 1])
def test_instants_carry_every_input(exported: list[TracePacket], frames: Frames, cpu: int) -> None:
    events = tracks(exported)[f"CPU {cpu} decisions"]
    rows = frames.decisions.filter(pl.col("cpu") == cpu).to_dicts()
    assert len(events) == len(rows) > 100
    for packet, row in zip(events, rows, strict=True):
        assert packet.track_event.type == TrackEvent.TYPE_INSTANT
        assert packet.timestamp == row["ts"]
        assert packet.track_event.name == f"{row['governor']}: {row['state']}"
        assert arguments(packet) == {name: row[name] for name in ARGUMENTS}


def test_the_inputs_are_those_of_the_event(frames: Frames, recording: Path) -> None:
    from cpuidle_lab.recording import trace

    raw = trace.load(recording).tables["decision"].sort("cpu", "seq")
    mine = frames.decisions.sort("cpu", "seq")
    same = ["seq", "ts", "now_ns", "latency_req_ns", "hint_ns", "sleep_length_ns", "delta_tick_ns"]
    for name in [*same, "index", "disabled", "generation"]:
        assert mine[name].to_list() == raw[name].to_list(), name
    # Nothing of the event is left out: what has no column of its own has its bits or its name.
    renamed = {"flags": "asked", "governor": "governor", "reason": "reason"}
    assert {renamed.get(name, name) for name in raw.columns} <= set(ARGUMENTS)


def test_the_counter_ends_with_the_regret(exported: list[TracePacket], frames: Frames) -> None:
    for cpu in (0, 1):
        events = tracks(exported)[f"CPU {cpu} regret"]
        assert {p.track_event.type for p in events} == {TrackEvent.TYPE_COUNTER}
        rows = frames.intervals.filter("judged", pl.col("cpu") == cpu)
        last = rows.filter(pl.struct("workload", "governor").rle_id() == pl.struct(
            "workload", "governor").rle_id().last())  # fmt: skip
        want = 100 * (float(last["cost_pj"].sum()) / float(last["oracle_pj"].sum()) - 1)
        assert events[-1].track_event.double_counter_value == pytest.approx(want)
        assert len(events) == rows.height


def test_a_stock_recording_has_slices_alone(tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert main(["export", "--perfetto", str(target), str(stock(tmp_path / "trace.dat"))]) == 0
    found = tracks(packets(target))
    assert {name: len(events) for name, events in found.items() if events} == {"CPU 0 idle": 100}
    assert found["CPU 0 idle"][2].track_event.name == "state 1"
    words = ["--perfetto", str(target), "--force", "--machine", "skx", str(tmp_path / "trace.dat")]
    assert main(["export", *words]) == 0
    assert tracks(packets(target))["CPU 0 idle"][2].track_event.name == "C1"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    assert main(["export", *arguments]) == code
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_bad_input_is_one_sentence(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "there"
    there.write_text("mine")
    target = str(tmp_path / "out")
    assert "exists" in refused(capsys, "--perfetto", str(there), str(recording), code=2)
    assert there.read_text() == "mine"
    assert "directory" in refused(capsys, "--perfetto", str(tmp_path), str(recording), code=2)
    assert "No such file" in refused(capsys, "--perfetto", target, str(tmp_path / "no"))
    assert "lies in the input" in refused(capsys, "--perfetto", target, str(tmp_path), code=2)
    there.write_bytes(recording.read_bytes()[:20_000])
    refused(capsys, "--perfetto", target, str(there))
    again = ["--force", "--perfetto", str(recording), str(recording)]
    assert "is an input" in refused(capsys, *again, code=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there"]


def test_a_full_disk_leaves_nothing(recording: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cpuidle_lab", "export", "--perfetto", tmp_path / "out", recording],
        env={"PYTHONPATH": str(PACKAGE), "PATH": "/usr/bin:/bin", "HOME": "/root"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert list(tmp_path.iterdir()) == []
