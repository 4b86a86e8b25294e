# SPDX-License-Identifier: GPL-2.0
"""Files reach a run by the memory of a device; QEMU's monitor answers, or not."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cpuidle_lab.base import cache
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.lab import LabRun, emulator, images
from cpuidle_lab.lab.machine import VirtualMachine
from cpuidle_lab.lab.monitor import Monitor
from cpuidle_lab.lab.programs import compiled
from cpuidle_lab.lab.run import booted_of, has_booted, may_go_on
from cpuidle_lab.lab.saved import GIVEN, PAGE, STATE, Saved, give


def read(file: Path) -> "subprocess.CompletedProcess[bytes]":
    port = file.with_name("port")
    port.touch()
    return subprocess.run([compiled(GIVEN), file, port], capture_output=True, check=False)


@pytest.mark.parametrize("size", [0, 1, PAGE, 3 * PAGE + 5])
def test_the_guest_reads_what_it_is_given(size: int, tmp_path: Path) -> None:
    archive = bytes(n * 7 % 251 for n in range(size))
    give(archive, tmp_path / "given")
    done = read(tmp_path / "given")
    assert (done.returncode, done.stdout, done.stderr) == (0, archive, b"")
    assert (tmp_path / "port").read_bytes() == bytes(0x505) + b"\1"


@pytest.mark.parametrize(
    ("content", "said"), [(None, b"No such file"), (b"9999\n" + bytes(PAGE), b"more than")]
)
def test_a_memory_that_is_none_is_one_sentence(
    content: bytes | None, said: bytes, tmp_path: Path
) -> None:
    if content:
        (tmp_path / "given").write_bytes(content)
    done = read(tmp_path / "given")
    assert done.returncode == 1 and said in done.stderr and done.stderr.count(b"\n") == 1


# Answers "later" twice, then "ready"; ends by "quit".
MONITOR = """
n=0
while read -r line; do
    [ "$line" != quit ] || exit 0
    [ "$line" = status ] || continue
    n=$((n + 1))
    [ $n -gt 2 ] && echo ready || echo later
done
"""


@contextmanager
def monitor(folder: Path, script: str) -> Iterator[Monitor]:
    log = folder / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=stream)
    try:
        yield Monitor(process, log, lambda: None)
    finally:
        process.kill()
        process.communicate()


def test_the_monitor_is_asked_until_it_answers(tmp_path: Path) -> None:
    with monitor(tmp_path, MONITOR) as one:
        assert one.wait("status", "ready", 30)
        # A shell that is slow has more questions to answer.
        said = one.log.read_text().split()
        assert said[:3] == ["later", "later", "ready"] and {*said[3:]} <= {"ready"}
        one.tell("quit")
        assert one.process.wait(30) == 0
        one.tell("status")  # nothing is there to be told
        assert one.wait("status", "other", 30)  # why it ended is for others to say


def test_an_answer_that_does_not_come_takes_no_longer_than_it_may(tmp_path: Path) -> None:
    with monitor(tmp_path, MONITOR) as one:
        assert not one.wait("status", "other", 0.1)


def test_a_failure_ends_the_wait(tmp_path: Path) -> None:
    with monitor(tmp_path, "while read -r _; do echo 'Migration status: failed'; done") as one:
        assert not one.wait("status", "other", 3600)


def test_a_command_that_fails_is_a_complaint(tmp_path: Path) -> None:
    with monitor(tmp_path, "while read -r _; do echo 'Error: no such file'; done") as one:
        assert not one.wait("status", "other", 3600)
        assert one.complaint() == "no such file"


def test_qemus_own_last_line_is_its_complaint(tmp_path: Path) -> None:
    text = "echo '(qemu) mimigmigrate'; echo 'qemu-system-x86_64: no room'; echo '(qemu) q'"
    with monitor(tmp_path, text) as one:
        one.process.wait(30)
        assert one.complaint() == "no room"


def test_only_a_machine_that_is_saved_shares_its_memory(tmp_path: Path) -> None:
    for goes_on in (False, True):
        words = Saved(tmp_path, tmp_path / "given", goes_on).options(64)
        backends = [word for word in words if word.startswith("memory-backend-file")]
        assert len(backends) == 2
        assert all(word.endswith(",share=off") == goes_on for word in backends)
        assert ("-incoming" in words) == goes_on
        assert ("-trace" in words) != goes_on


def test_a_file_is_looked_at_until_it_has_the_text(tmp_path: Path) -> None:
    script = "sleep 0.1; echo later >file; sleep 0.1; echo ready >>file; cat >asked"
    with monitor(tmp_path, f"cd {tmp_path}; {script}") as one:
        assert one.wait_for(tmp_path / "file", "ready", 30, 0.05)
        assert not one.wait_for(tmp_path / "file", "other", 0.2, 0.05)
        assert not (tmp_path / "asked").read_text()


def test_a_qemu_that_ends_ends_the_wait_for_a_file(tmp_path: Path) -> None:
    with monitor(tmp_path, "exit 1") as one:
        assert one.wait_for(tmp_path / "file", "ready", 30, 0.05)


@pytest.mark.parametrize(
    ("run", "may"),
    [
        (LabRun("", real_time=True), True),
        (LabRun("", real_time=True, cpus=4, kernel="7.2", seed=3), True),
        (LabRun("", kernel="6.1"), True),  # which starts two CPUs in real time alone
        (LabRun(""), True),
        (LabRun("", real_time=False, cpus=1, turn_us=0), True),
        (LabRun("", real_time=True, kernel="debug"), False),
        (LabRun("", real_time=True, options=("nohz_full=1",)), False),
        (LabRun("", real_time=True, memory_mib=2048), False),
        (LabRun("", real_time=True, packages=2), False),
        (LabRun("", real_time=True, threads=2), False),
        (LabRun("", memory_mib=2048), False),
    ],
)
def test_which_runs_go_on(run: LabRun, may: bool) -> None:
    assert may_go_on(run) == may


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> images.Kernel:
    """Return a kernel of nothing; nothing is fetched."""
    for name in ("image", "modules", "runtime"):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.setattr(cache, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(images, "runtime", lambda: tmp_path / "runtime")
    monkeypatch.setattr(emulator, "x86", list)
    monkeypatch.setattr(emulator, "version", lambda: "1")
    return images.Kernel("6.12", tmp_path / "image", tmp_path / "modules")


@pytest.mark.parametrize("real_time", [False, True])
@pytest.mark.parametrize("name", ["image", "modules", "runtime"])
def test_other_parts_are_another_machine(
    name: str, real_time: bool, kernel: images.Kernel, tmp_path: Path
) -> None:
    usual = LabRun("", real_time=real_time)
    before = booted_of(usual, kernel)
    assert before == booted_of(usual, kernel)
    (tmp_path / name).write_bytes(b"other")
    assert before != booted_of(usual, kernel)


def test_a_machine_that_ends_while_it_boots_is_not_kept(
    kernel: images.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(machine: VirtualMachine, _said: object) -> None:
        machine.console.write_text("no port\n")

    monkeypatch.setattr(VirtualMachine, "run", ends)
    (tmp_path / "cache").mkdir()
    with pytest.raises(UserError, match=r"ended while it booted; .*\n *no port"):
        has_booted(LabRun("", real_time=True), kernel)
    assert not list((tmp_path / "cache").glob("booted*"))

    def saves(machine: VirtualMachine, _said: object) -> None:
        assert machine.saved and not machine.saved.goes_on
        (machine.saved.folder / STATE).touch()

    monkeypatch.setattr(VirtualMachine, "run", saves)
    assert [path.name for path in has_booted(LabRun("", real_time=True), kernel).iterdir()] == [
        STATE
    ]
