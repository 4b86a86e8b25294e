# SPDX-License-Identifier: GPL-2.0
"""The trace reader: what it reads, what it reports as missing, what it refuses."""

import os
import random
import re
import subprocess
from pathlib import Path

import polars as pl
import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording import reader
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.native import compile_reader
from tests.unit import fuzz_trace
from tests.unit.synthetic import NUMBER, Session
from tests.unit.tracedat import GOVERNORS, Trace

S64_MAX = 2**63 - 1
CONFIG = {
    "generation": 3,
    "tick_ns": 4_000_000,
    "governor": 2,
    "states": 3,
    "polling": 1,
    "exit_latency_ns": [0, 2_000, 133_000],
    "target_residency_ns": [0, 2_000, 600_000],
    "power_mw": [1000, 400, 50],
    "names": "POLL,C1,C6",
    "base": "",
    "tunables": "learning_rate=50",
    "kernel": "6.12.0-test",
}


def config(trace: Trace, cpu: int = 0, ts: int = 1_000, **changes: object) -> None:
    trace.put(cpu, ts, "config", {**CONFIG, "seq": 1, "cpu": cpu, **changes})


def period(trace: Trace, seq: int, *, cpu: int = 0, index: int = 1, residency: int = 500) -> None:
    ts = seq * 10_000
    trace.add(cpu, ts, "decision", seq=seq, now_ns=ts, index=index, hint_ns=-1, governor=2)
    trace.add(cpu, ts + 5_000, "outcome", seq=seq, residency_ns=residency, index=index, governor=2)


def small(path: Path, order: str = "<") -> Path:
    trace = Trace(2, order)
    for cpu in (0, 1):
        config(trace, cpu)
        for seq in range(1, 4):
            period(trace, seq, cpu=cpu)
    return trace.write(path)


# Every field arrives, whatever the byte order of the machine that recorded.
@pytest.mark.parametrize("order", ["<", ">"])
def test_fields(tmp_path: Path, order: str) -> None:
    trace = Trace(2, order)
    config(trace)
    decision = {
        "seq": 2**40, "now_ns": 9_000, "latency_req_ns": S64_MAX, "hint_ns": -1,
        "sleep_length_ns": -5, "delta_tick_ns": 77, "generation": 2**32 - 1, "disabled": 6,
        "governor": 3, "flags": 15, "index": 2, "stop_tick": 1, "reason": 49, "row": 255,
        "base_index": 7, "left": 1,
    }  # fmt: skip
    outcome = {"seq": 2**40, "now_ns": 1, "residency_ns": 123, "governor": 3, "kind": 0,
               "index": 1, "tick": 2, "poll_time_limit": 1}  # fmt: skip
    weights = {"seq": 5, "governor": 2, "row": 1, "columns": 3, "weights": [1, 2, 9997] + [0] * 7}
    hint = {"limit_ns": 2_000, "pid": 4711, "cpu": -1, "what": 2, "comm": "cyclictest"}
    tunable = {"generation": 4, "governor": 2, "name": "half_life_ms", "value": "100"}
    state = {"seq": 1, "offset": 0, "total": 6, "governor": 2, "data": b"\0\1\2\3\4\5"}
    trace.put(1, 2_000, "decision", decision)
    trace.put(1, 3_000, "outcome", outcome)
    trace.put(0, 4_000, "weights", weights)
    trace.put(0, 5_000, "hint", hint)
    trace.put(0, 6_000, "tunable", tunable)
    trace.put(0, 7_000, "state", state)
    trace.add(0, 8_000, "cpu_idle", state=2**32 - 1, cpu_id=1)
    trace.mark(0, 9_000, "phase end")
    tables = tr.load(trace.write(tmp_path / "t.dat"), with_state=True).tables

    def row(name: str) -> dict[str, object]:
        (found,) = tables[name].rows(named=True)
        return found

    assert row("decision") == {"ts": 2_000, "cpu": 1, **decision}
    assert row("outcome") == {"ts": 3_000, "cpu": 1, **outcome}
    assert row("weights") == {"ts": 4_000, "cpu": 0, **weights}
    del hint["cpu"]
    assert row("hint") == {"ts": 5_000, "cpu": 0, "hint_cpu": -1, **hint}
    assert row("tunable") == {"ts": 6_000, "cpu": 0, **tunable}
    assert row("state") == {"ts": 7_000, "cpu": 0, **state}
    assert row("cpu_idle") == {"ts": 8_000, "cpu": 0, "state": 2**32 - 1, "idle_cpu": 1}
    assert row("marker")["text"] == "phase end\n"
    written = row("config")
    assert {key: written[key] for key in CONFIG if key not in ("exit_latency_ns", "power_mw")} == {
        key: value + [0] * 7 if isinstance(value, list) else value
        for key, value in CONFIG.items()
        if key not in ("exit_latency_ns", "power_mw")
    }


# Names that the trace gives to numbers are used; numbers without a name are shown as such.
def test_symbols(tmp_path: Path) -> None:
    trace = tr.load(small(tmp_path / "t.dat"))
    for number, name in GOVERNORS.items():
        assert trace.name_of("decision", "governor", number) == name
    assert trace.name_of("decision", "reason", 200) == "reason 200"


# More rows than a chunk of the stream holds arrive in order and in full.
def test_chunks(tmp_path: Path) -> None:
    trace = Trace()
    count = 70_000
    for number in range(count):
        trace.add(0, number, "cpu_idle", state=number, cpu_id=0)
    frame = tr.load(trace.write(tmp_path / "t.dat")).tables["cpu_idle"]
    assert frame["state"].to_list() == list(range(count))
    assert frame["ts"].to_list() == list(range(count))


# Periods join a decision with the outcome of the same CPU and number; one without stays alone.
def test_periods(tmp_path: Path) -> None:
    trace = Trace(2)
    config(trace)
    for cpu in (0, 1):
        period(trace, 1, cpu=cpu, residency=100 + cpu)
        period(trace, 2, cpu=cpu, residency=200 + cpu)
    trace.add(0, 30_000, "decision", seq=3, index=2)
    loaded = tr.load(trace.write(tmp_path / "t.dat"))
    rows = loaded.periods().select("cpu", "seq", "out_residency_ns").rows()
    assert rows == [(0, 1, 100), (0, 2, 200), (0, 3, None), (1, 1, 101), (1, 2, 201)]
    assert loaded.integrity.without_outcome == 1
    assert loaded.integrity.complete


# Gaps in the sequence and what the kernel counted are both reported, and nothing is filled in.
def test_lost_events(tmp_path: Path) -> None:
    trace = Trace(2)
    config(trace)
    for seq in (1, 2, 6, 7, 9):
        period(trace, seq)
    period(trace, 1, cpu=1)
    trace.add(1, 50_000, "cpu_idle", state=0, cpu_id=1, lost=12)
    trace.add(1, 60_000, "cpu_idle", state=0, cpu_id=1, lost=-1)
    trace.add(1, 70_000, "outcome", seq=5, residency_ns=1, index=0)
    loaded = tr.load(trace.write(tmp_path / "t.dat"))
    integrity = loaded.integrity
    assert (integrity.gaps, integrity.decisions_missing) == (2, 4)
    assert (integrity.lost_known, integrity.lost_unknown) == (12, 1)
    assert integrity.without_decision == 1
    assert not integrity.complete
    assert loaded.periods().height == 6


# A residency that cannot have been is left out and counted.
def test_implausible_residency(tmp_path: Path) -> None:
    trace = Trace()
    config(trace)
    period(trace, 1, residency=500)
    period(trace, 2, residency=2**63)
    loaded = tr.load(trace.write(tmp_path / "t.dat"))
    assert loaded.integrity.implausible == 1
    assert loaded.periods()["out_residency_ns"].to_list() == [500, None]


def refused(path: Path, *words: str) -> None:
    """Demand a refusal in one sentence that names the file and holds the words."""
    with pytest.raises(UserError) as caught:
        tr.load(path)
    assert caught.value.exit_code == 1
    assert "\n" not in caught.value.message
    for word in (str(path), *words):
        assert word in caught.value.message


def test_what_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "x"
    refused(path, "No such file")
    path.write_bytes(b"")
    refused(path, "is empty")
    path.write_bytes(b"#!/bin/sh\n" * 1000)
    refused(path, "is not a trace.dat")
    path.write_bytes(b"\x17\x08\x44tracing6\0" + bytes(range(256)) * 20)
    refused(path, "damaged")
    refused(tmp_path, "is a directory; give the trace.dat")
    os.mkfifo(tmp_path / "fifo")
    refused(tmp_path / "fifo", "is not a regular file")


def test_no_idle_periods(tmp_path: Path) -> None:
    trace = Trace()
    trace.mark(0, 1_000, "hello")
    refused(trace.write(tmp_path / "t.dat"), "no idle periods", "trace-cmd record")


def test_decisions_without_config(tmp_path: Path) -> None:
    trace = Trace()
    period(trace, 1)
    refused(trace.write(tmp_path / "t.dat"), "cpuidle_lab:cil_config")


# A trace of a module with other fields is refused by the name of the field.
@pytest.mark.parametrize(
    ("event", "field"), [("decision", "reason"), ("outcome", "tick"), ("config", "polling")]
)
def test_missing_field(tmp_path: Path, event: str, field: str) -> None:
    trace = Trace()
    known = trace.events[event].fields
    trace.events[event].fields = [item for item in known if item.name != field]
    trace.events[event].symbols.pop(field, None)
    trace.add(0, 1_000, "cpu_idle", state=0, cpu_id=0)
    refused(trace.write(tmp_path / "t.dat"), f"cpuidle_lab:cil_{event}", f"'{field}'")


# Traces that contradict themselves.
def test_lies(tmp_path: Path) -> None:
    def lie(**changes: object) -> Path:
        trace = Trace()
        values = {**CONFIG, "seq": 1, **changes}
        trace.put(0, 1_000, "config", values)
        period(trace, 1)
        return trace.write(tmp_path / "lie.dat")

    refused(lie(states=11), "11 idle states")
    refused(lie(states=0), "0 idle states")
    refused(lie(states=1), "idle state 1", "does not have")
    refused(lie(exit_latency_ns=[0, -2, 3]), "impossible times")
    refused(lie(target_residency_ns=[0, 2, 2**63 - 1]), "impossible times")
    refused(lie(tick_ns=0), "tick of 0 ns")
    refused(lie(target_residency_ns=[0, 5_000, 2_000]), "not sorted")
    assert tr.load(lie(target_residency_ns=[0, 5_000, 5_000])).state_tables[0].count == 3
    assert tr.load(lie(names="")).state_tables[0].names == ("state 0", "state 1", "state 2")

    trace = Trace()
    config(trace)
    config(trace, power_mw=[5, 5, 5])
    period(trace, 1)
    refused(trace.write(tmp_path / "t.dat"), "changed while it was recorded")

    trace = Trace()
    config(trace)
    period(trace, 1)
    period(trace, 1)
    refused(trace.write(tmp_path / "t.dat"), "decision 1 of CPU 0 comes after 1")


def test_time_runs_backwards(tmp_path: Path) -> None:
    trace = Trace()
    for number in range(1_000):
        trace.add(0, 1_000_000 + number, "cpu_idle", state=0, cpu_id=0)
    path = trace.write(tmp_path / "t.dat")
    data = bytearray(path.read_bytes())
    last_page = len(data) - 4096
    data[last_page : last_page + 8] = (5).to_bytes(8, "little")
    path.write_bytes(data)
    refused(path, "time runs backwards on CPU 0")


# Ten states are read; so is one.
@pytest.mark.parametrize("count", [1, 10])
def test_state_count(tmp_path: Path, count: int) -> None:
    trace = Trace()
    values = [10 * k for k in range(count)]
    config(trace, states=count, exit_latency_ns=values, target_residency_ns=values,
           power_mw=values, names=",".join(f"S{k}" for k in range(count)))  # fmt: skip
    period(trace, 1, index=count - 1)
    machine = tr.load(trace.write(tmp_path / "t.dat")).state_tables[0]
    assert machine.count == count
    assert machine.exit_latency_ns == tuple(values)


# A file cut anywhere gives either what is left of it or one sentence.
@pytest.mark.parametrize("clock", ["x86-tsc", "counter"])
def test_a_clock_that_does_not_count_ns_is_refused(tmp_path: Path, clock: str) -> None:
    session = Session(cpus=1)
    session.phase("menu", "cyclictest", 5_000_000)
    names = ["local", "mono", "counter", "x86-tsc"]
    session.trace.clock = " ".join(f"[{name}]" if name == "mono" else name for name in names)
    assert tr.load(session.trace.write(tmp_path / "mono.dat")).tables["cpu_idle"].height
    session.trace.clock = " ".join(f"[{name}]" if name == clock else name for name in names)
    with pytest.raises(UserError, match=f"the clock {clock}, which does not count ns"):
        tr.load(session.trace.write(tmp_path / "other.dat"))


def test_truncation(tmp_path: Path) -> None:
    data = small(tmp_path / "whole.dat").read_bytes()
    path = tmp_path / "cut.dat"
    headers = len(data) - 2 * 4096
    for size in [*range(0, headers, 397), headers, headers + 1, headers + 4096, len(data) - 1]:
        path.write_bytes(data[:size])
        refused(path)


# Damage anywhere never gets further than one sentence.
def test_random_damage(tmp_path: Path) -> None:
    source = random.Random(7)
    data = small(tmp_path / "whole.dat").read_bytes()
    path = tmp_path / "damaged.dat"
    for _ in range(60):
        path.write_bytes(fuzz_trace.damage(data, source))
        try:
            tr.load(path)
        except UserError as error:
            assert "\n" not in error.message


# A reader that dies, whatever the reason, is a sentence: here a crash and a stream cut short.
@pytest.mark.parametrize("script", ["kill -SEGV $$", "printf 1234", "exit 0"])
def test_reader_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = tmp_path / "reader"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(reader, "native_reader", lambda: program)
    refused(small(tmp_path / "t.dat"), "damaged")


# Another process that ends it says nothing of the recording.
@pytest.mark.parametrize(
    ("name", "words"),
    [("KILL", "ended by SIGKILL; is there enough memory?"), ("TERM", "ended by SIGTERM")],
)
def test_reader_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    program = tmp_path / "reader"
    program.write_text(f"#!/bin/sh\nkill -{name} $$\n")
    program.chmod(0o755)
    monkeypatch.setattr(reader, "native_reader", lambda: program)
    refused(small(tmp_path / "t.dat"), words)


def test_reader_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "reader"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(reader, "native_reader", lambda: program)
    monkeypatch.setattr(reader, "READER_PATIENCE", 0.2)
    refused(small(tmp_path / "t.dat"), "damaged")


# An abandoned reading leaves no process behind.
def test_reader_is_ended(tmp_path: Path) -> None:
    before = children()
    pieces = reader.read_chunks(small(tmp_path / "t.dat"))
    assert isinstance(next(pieces), reader.Schema)
    assert len(children()) == len(before) + 1
    pieces.close()  # type: ignore[attr-defined]
    assert children() == before


def children() -> set[str]:
    """Return the numbers of this process' children, zombies included."""
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    return {child for task in tasks for child in (task / "children").read_text().split()}


# The reader says what to install where its libraries are missing.
def test_missing_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tool in ("cc", "pkg-config"):
        program = tmp_path / tool
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"apt install .*libtracecmd-dev"):
        compile_reader(tmp_path)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match=r"apt install .*libtracecmd-dev"):
        compile_reader(tmp_path)


# Compressed files of trace-cmd's newer format (version 7) read the same.
def test_version_7(tmp_path: Path) -> None:
    session = Session()
    for governor in NUMBER:
        session.phase(governor, "hackbench", 3_000_000)
    old = session.trace.write(tmp_path / "6.dat")
    new = tmp_path / "7.dat"
    command = ["trace-cmd", "convert", "--file-version", "7", "--compression", "any"]
    try:
        done = subprocess.run(
            [*command, "-i", str(old), "-o", str(new)], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("trace-cmd is not installed")
    assert done.returncode == 0, done.stderr
    first, second = tr.load(old).tables, tr.load(new).tables
    for name, frame in first.items():
        assert frame.equals(second[name]), name
    assert isinstance(first["decision"], pl.DataFrame) and first["decision"].height > 100


# trace-cmd's own text says the same of every decision and outcome.
def test_against_trace_cmd(tmp_path: Path) -> None:
    session = Session()
    for governor in NUMBER:
        session.phase(governor, "bursts", 10_000_000)
    path = session.trace.write(tmp_path / "t.dat")
    try:
        shown = subprocess.run(
            ["trace-cmd", "report", "-R", "-i", str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
    except FileNotFoundError:
        pytest.skip("trace-cmd is not installed")
    tables = tr.load(path).tables
    for name in ("decision", "outcome"):
        lines = re.findall(rf"\[(\d+)\] .*? cil_{name}: +(.*)", shown.stdout)
        theirs = [
            {
                "cpu": int(cpu),
                **{key: int(value) for key, value in re.findall(r"(\w+)=(-?\d+)", text)},
            }
            for cpu, text in lines
        ]
        ours = tables[name].sort("cpu", "seq").drop("ts").rows(named=True)
        assert ours == sorted(theirs, key=lambda row: (row["cpu"], row["seq"]))
        assert len(ours) > 50


# The reader itself, with AddressSanitizer and UBSan, finds nothing to say about damaged files.
@pytest.mark.full
def test_fuzz(tmp_path: Path) -> None:
    reader = fuzz_trace.compile_reader(tmp_path)
    findings = fuzz_trace.fuzz(reader, tmp_path, runs=100, seed=1)
    assert not findings, findings[0]


# The fuzzer would see a fault of ours.
@pytest.mark.full
def test_fuzz_can_fail(tmp_path: Path) -> None:
    change = ("columns.c", "calloc(CIL_CHUNK_ROWS, b->width)", "calloc(3, b->width)")
    reader = fuzz_trace.compile_reader(tmp_path, change=change)
    findings = fuzz_trace.fuzz(reader, tmp_path, runs=100, seed=1, stop_at_first=True)
    assert findings
    assert "heap-buffer-overflow" in findings[0]


def test_events_without_the_prefix_are_read_alike(tmp_path: Path) -> None:
    """Modules that were built before the events had a prefix recorded them so."""
    session = Session()
    session.phase("wteo", "bursts", 100_000_000)
    new = tr.load(session.trace.write(tmp_path / "new.dat"))
    for event in session.trace.events.values():
        event.name = event.name.removeprefix("cil_")
    old = tr.load(session.trace.write(tmp_path / "old.dat"))
    assert new.tables["decision"].height > 0
    for name, table in new.tables.items():
        assert table.equals(old.tables[name]), name
    assert new.symbols == old.symbols
