# SPDX-License-Identifier: GPL-2.0
"""Reports of failures tell of a full disk and of a crowded host, and the summary of the time."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import reports

TOP = Path(__file__).resolve().parents[2]

TESTS = """
import errno

def test_real():
    raise OSError(errno.ENOSPC, "No space left on " + "device")

def test_played():
    assert "the disk is full" in "all is well"
"""


def told(said: str, source: str = "") -> str:
    return reports.trouble(said, source, [Path("/")])


@pytest.fixture(autouse=True)
def quiet_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.5, 0.5))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 40))


def test_a_full_disk_is_told_unless_the_test_plays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    error = "OSError: [Errno 28] No space left on device"
    assert "disk is or was full" in told(error)
    assert told(error, "raise OSError(28, 'No space left on device')") == ""
    assert told("assert 1 == 2") == ""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=5 << 20))
    assert "5 MiB are free" in told("assert 1 == 2")


def test_a_crowded_host_is_told_where_a_time_limit_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    error = "subprocess.TimeoutExpired: Command 'x' timed out after 5 seconds"
    assert told(error) == ""
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 1.0, 1.0))
    assert "load 99.0" in told(error)
    assert told("assert 1 == 2") == ""


def test_times_are_those_of_folders_and_their_slowest_files() -> None:
    def report(file: str, when: str, duration: float) -> SimpleNamespace:
        return SimpleNamespace(nodeid=f"tests/{file}::test", when=when, duration=duration)

    made = [
        report("unit/test_a.py", "setup", 2.0),
        report("unit/test_a.py", "call", 3.0),
        report("unit/test_b.py", "call", 4.0),
        report("lab/test_c.py", "call", 50.0),
    ]
    assert reports.times(made) == [  # type: ignore[arg-type]
        "tests/lab: 50, of them set-up 0; test_c.py 50",
        "tests/unit: 9, of them set-up 2; test_a.py 5, test_b.py 4",
    ]


def test_pytest_prints_both(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir", tmp_path, "-c", "/dev/null", tmp_path / "test_it.py"],
        env=os.environ | {"PYTHONPATH": f"{TOP}:{TOP}/tools"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.count("disk is or was full") == 1, done.stdout + done.stderr
    assert "seconds by part" in done.stdout and "test_it.py" in done.stdout
