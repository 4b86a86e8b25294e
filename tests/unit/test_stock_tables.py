# SPDX-License-Identifier: GPL-2.0
"""Idle states of recordings without the module: given by the user, missing, or of each CPU."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.recording import columns, state_tables
from cpuidle_lab.recording import trace as tr
from cpuidle_lab.recording.formats.writer import Event, Writer
from cpuidle_lab.recording.stock import context_of
from cpuidle_lab.states.table import CPUS_MAX, CpuTable
from tests.unit.kernel_events import EXIT, KERNEL, MS, Kernel, bare
from tests.unit.synthetic import Session

ONE = "stock machine cpus=1 tick_ns=4000000 states=POLL:0:0:4000,C1:2:2:1500,C6:133:600:100"
GONE = "no line 'stock machine' tells the idle states of CPU {}: {} idle periods are left out"

COMPARE = ["--governors", "teo_ng", "--no-mainline", "--no-instructions", "--json"]


# ---- Given by the user ----


@pytest.mark.parametrize("command", ["export", "compare", "report"])
def test_a_machine_is_refused_where_the_module_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    session = Session()
    session.phase("wteo", "bursts", 8_000_000)
    path = session.trace.write(tmp_path / "own.dat")
    more = ["--parquet", str(tmp_path / "out")] if command == "export" else ["--json"]
    assert main([command, str(path), "--machine", "icx", *more]) == 1
    words = capsys.readouterr().err.splitlines()[-1]
    assert words.startswith("cpuidle-lab: error: ")
    assert "has the module's decisions and idle states; leave out --machine" in words
    assert not (tmp_path / "out").exists()
    assert main([command, str(path), *more]) == 0


def test_columns_of_decisions_refuse_a_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = Kernel()
    for _ in range(5):
        kernel.idle(1, 300_000, sleep=MS, delta=MS)
    columns.write(kernel.write(tmp_path / "a.dat"), tmp_path / "a")
    assert main(["compare", str(tmp_path / "a"), "--machine", "skx", *COMPARE]) == 1
    assert "has idle states of its own; leave out --machine" in capsys.readouterr().err


def test_columns_of_a_foreign_trace_take_a_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    columns.write(bare(tmp_path, ()), tmp_path / "bare")
    assert main(["compare", str(tmp_path / "bare"), *COMPARE]) == 1
    assert "give them with --machine" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "bare"), "--machine", "skx", *COMPARE]) == 0
    with columns.opened(tmp_path / "bare", state_tables.given("skx")) as recording:
        assert list(recording.state_tables) == recording.cpus


def test_a_machine_stands_in_for_a_line_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bare(tmp_path, ("stock machine cpus=0 states=POLL", KERNEL))
    words = ["export", str(path), "--parquet", str(tmp_path / "out")]
    assert main(words) == 1
    assert "give the idle states with --machine" in capsys.readouterr().err
    assert main([*words, "--machine", "skx"]) == 0
    assert columns.Recording(tmp_path / "out").kernel == "6.12.9"


# ---- Missing ----


def two_cpus(path: Path, *, probes: bool, line: str = ONE) -> Path:
    """Write a recording of CPU 0 and 1, of which one line tells the idle states."""
    kernel = Kernel((line, KERNEL))
    for _ in range(4):
        if probes:
            kernel.idle(2, 900_000, sleep=770_000, delta=400_000, expiry=True)
        else:
            kernel.add(100_000, "cpu_idle", state=2, cpu_id=0)
            kernel.add(900_000, "cpu_idle", state=EXIT, cpu_id=0)
    with Writer(path) as writer:
        for event in kernel.events:
            writer.add(event)
            if event.name != "print":
                values = {**event.values, **({"cpu_id": 1} if event.name == "cpu_idle" else {})}
                writer.add(Event(1, event.ts, event.name, values, event.text))
    return path


@pytest.mark.parametrize("probes", [True, False])
@pytest.mark.parametrize(("line", "gone"), [(ONE, 0), (ONE.replace("cpus=1", "cpus=0"), 1)])
def test_a_cpu_without_idle_states_is_named_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], probes: bool, line: str, gone: int
) -> None:
    path = two_cpus(tmp_path / "a.dat", probes=probes, line=line)
    said = GONE.format(gone, 4)
    with columns.opened(path) as recording:
        assert recording.cpus == [1 - gone]
        assert recording.kind == (columns.TRACE if probes else columns.CPU_IDLE)
        assert recording.stock and recording.stock["left_out"] == {str(gone): 4}
    assert main(["replay", "--check", str(path)]) == 1
    assert said in capsys.readouterr().out
    assert main(["export", str(path), "--parquet", str(tmp_path / "out")]) == 0
    assert said in capsys.readouterr().out
    assert main(["compare", str(path), *COMPARE]) == 0
    assert said in json.dumps(json.loads(capsys.readouterr().out))
    html = tmp_path / "out.html"
    assert main(["report", str(path), "-o", str(html)]) == 0
    assert said in " ".join(capsys.readouterr().out.split())
    assert f"idle states of CPU {gone}" in html.read_text()
    assert main(["report", str(path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["traces"]
    assert [said in one for one in found["omissions"]] == [True]


def test_all_cpus_take_a_machine_that_is_given(tmp_path: Path) -> None:
    path = two_cpus(tmp_path / "a.dat", probes=True)
    with columns.opened(path, state_tables.given("skx")) as recording:
        assert recording.cpus == [0, 1]
        assert recording.stock and recording.stock["left_out"] == {}


def test_a_recording_of_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    path = two_cpus(tmp_path / "a.dat", probes=False, line=ONE.replace("cpus=1", "cpus=7"))
    words = "tells the idle states of CPU 0-1: 8 idle"
    with pytest.raises(UserError, match=words):
        columns.write(path, tmp_path / "out")
    with pytest.raises(UserError, match=words):
        tr.load(path)


# ---- Of each CPU ----


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("others", [True, False])
def test_each_cpu_has_its_own_latency_request_and_disabled_states(
    tmp_path: Path, given: bool, others: bool
) -> None:
    """Also where the user gives the idle states, and of a CPU that no line names."""
    path = two_cpus(tmp_path / "a.dat", probes=True)
    lines = [ONE.replace(" states", " latency_req_us=20 disabled=0x4 states")]
    if others:
        lines.append(ONE.replace("cpus=1", "cpus=0"))
    told = context_of(path, enumerate(lines))
    assert told
    if given:
        told = replace(told, given=[CpuTable(0, CPUS_MAX, told.tables[0].table)])
    columns.write(path, tmp_path / "out", context=told)
    rows = columns.Recording(tmp_path / "out").table("period")
    found = rows.select("cpu", "latency_req_ns", "disabled").unique().sort("cpu").rows()
    known = [(0, tr.TIME_MAX, 0)] if given or others else []
    assert found == [*known, (1, 20_000, 4)]
