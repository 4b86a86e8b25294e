# SPDX-License-Identifier: GPL-2.0
"""What a run is given by the memory of a device, and talks with QEMU's monitor."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cpuidle_lab.errors import UserError
from cpuidle_lab.lab import LabRun, saved
from cpuidle_lab.lab.programs import compiled
from cpuidle_lab.lab.run import may_go_on
from cpuidle_lab.lab.saved import GIVEN, PAGE, Monitor, Saved, give


def read(file: Path) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([compiled(GIVEN), file], capture_output=True, check=False)


@pytest.mark.parametrize("size", [0, 1, PAGE, 3 * PAGE + 5])
def test_the_guest_reads_what_it_is_given(size: int, tmp_path: Path) -> None:
    archive = bytes(n * 7 % 251 for n in range(size))
    give(archive, tmp_path / "given")
    done = read(tmp_path / "given")
    assert (done.returncode, done.stdout, done.stderr) == (0, archive, b"")


def test_what_cannot_be_given_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "GIVEN_BYTES", 2 * PAGE)
    give(bytes(PAGE), tmp_path / "given")
    with pytest.raises(UserError, match="take more than 0 MiB"):
        give(bytes(PAGE + 1), tmp_path / "more")
    assert not (tmp_path / "more").exists()


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
        assert one.log.read_text().split() == ["later", "later", "ready"]
        one.tell("quit")
        assert one.process.wait(30) == 0
        one.tell("status")  # nothing is there to be told
        assert one.wait("status", "other", 30)  # why it ended is for others to say


def test_an_answer_that_does_not_come_takes_no_longer_than_it_may(tmp_path: Path) -> None:
    with monitor(tmp_path, MONITOR) as one:
        assert not one.wait("status", "other", 0.1)


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


@pytest.mark.parametrize(
    ("run", "may"),
    [
        (LabRun("", real_time=True), True),
        (LabRun("", real_time=True, cpus=4, kernel="7.2", seed=3), True),
        (LabRun("", kernel="6.1"), True),  # which starts two CPUs in real time alone
        (LabRun("", real_time=False), False),
        (LabRun("", real_time=True, kernel="debug"), False),
        (LabRun("", real_time=True, options=("nohz_full=1",)), False),
        (LabRun("", real_time=True, memory_mib=2048), False),
        (LabRun("", real_time=True, packages=2), False),
        (LabRun("", real_time=True, threads=2), False),
    ],
)
def test_which_runs_go_on(run: LabRun, may: bool) -> None:
    assert may_go_on(run) == may
