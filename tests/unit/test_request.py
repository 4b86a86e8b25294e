# SPDX-License-Identifier: GPL-2.0
"""The latency request of `cpuidle-lab capture --clone`, on a recorded machine."""

import os
import struct
from pathlib import Path

import pytest

from cpuidle_lab.cli import main
from cpuidle_lab.host import capture, request
from cpuidle_lab.host.machine import Host
from cpuidle_lab.host.sysfs import Tree
from tests.unit import recorded


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unfold a machine on which everything is in place; work in a directory beside it."""
    return recorded.enter("debian13", tmp_path, monkeypatch)


def with_states(root: Path, *latencies_us: int) -> Path:
    """Give the machine a file of requests, and its CPUs other exit latencies; return the file."""
    for states in root.glob("sys/devices/system/cpu/cpu*/cpuidle"):
        for number, latency in enumerate(latencies_us):
            (states / f"state{number}/latency").write_text(f"{latency}\n")
    file = root / request.FILE[1:]
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"")
    return file


def test_a_recording_for_a_clone_has_a_request_that_is_said_and_named(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = with_states(root, 0, 3)
    marks: list[str] = []
    write = Tree.write

    def note(tree: Tree, name: str, text: str) -> None:
        marks.append(text)
        write(tree, name, text)

    monkeypatch.setattr(Tree, "write", note)
    monkeypatch.setattr(capture, "_check_events", lambda *_: None)
    assert main(["capture", "--clone", "--", "sh", "-c", f"cp {file} held"]) == 0
    assert Path("held").read_bytes() == struct.pack("=i", 3)
    assert "a latency request of 3 us" in capsys.readouterr().err
    assert "phase governor=menu workload=sh request_us=3" in marks
    marks.clear()
    file.write_bytes(b"")
    for words in (["--clone", "--request", "none"], []):
        assert main(["capture", *words, "-o", f"{len(words)}.dat", "--", "true"]) == 0
        assert "latency request" not in capsys.readouterr().err
        assert file.read_bytes() == b""
    assert not [mark for mark in marks if "request_us" in mark]


def test_the_request_is_the_shallowest_state_beside_polling(root: Path) -> None:
    with_states(root, 0, 3)
    assert request.quick_us(Host(Tree(root))) == 3
    for off in root.glob("sys/devices/system/cpu/cpu*/cpuidle/state1/disable"):
        off.write_text("1\n")
    assert request.quick_us(Host(Tree(root))) != 3


def test_the_kernel_ends_a_request_with_the_process(root: Path) -> None:
    file = with_states(root)
    with request.held(Host(Tree(root)), 7):
        (held,) = (one for one in Path("/proc/self/fd").iterdir() if one.resolve() == file)
        assert not os.get_inheritable(int(held.name))
    assert not [one for one in Path("/proc/self/fd").iterdir() if one.resolve() == file]


@pytest.mark.parametrize("word", ["-3", "2us", "2000000000"])
def test_a_request_is_a_number_of_us_or_none(
    word: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["capture", f"--request={word}", "--", "true"])
    assert "neither a number of us nor none" in capsys.readouterr().err


def test_a_machine_that_takes_no_request_says_how_to_go_on(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["capture", "--request", "5", "--", "true"]) == 1
    assert "--request none records without one" in capsys.readouterr().err
    assert not list(Path().iterdir())
