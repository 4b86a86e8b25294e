# SPDX-License-Identifier: GPL-2.0
"""A command that takes too much memory ends with one sentence, with all that it has started."""

import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from cpuidle_lab import cli
from cpuidle_lab.base import memory

HEAD = """\
import os, subprocess, sys, time
from cpuidle_lab.base import memory
memory.free_bytes = lambda: memory.taken_bytes(os.getpid()) * 4 // 3 + (64 << 20)
fill = 'held = b"x" * (256 << 20); import time; time.sleep(60)'
"""
# The process itself, and a process that it has started.
GROWTH = {
    "own": "with memory.bounded(): exec(fill)",
    "child": "with memory.bounded(): subprocess.run([sys.executable, '-c', fill])",
}


def run(script: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, "-c", HEAD + script],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


@pytest.mark.parametrize("whose", GROWTH)
def test_too_much_memory_is_one_sentence(whose: str) -> None:
    done = run(GROWTH[whose])
    assert done.returncode == 1
    assert done.stderr.startswith("cpuidle-lab: error: this needs more than 0.")
    assert len(done.stderr.splitlines()) == 1


def test_enough_memory_is_not_bounded() -> None:
    done = run("with memory.bounded(): time.sleep(0.2)\nprint('done')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_descendants_are_counted() -> None:
    child = subprocess.Popen(["sh", "-c", "sleep 50 & wait"], start_new_session=True)
    try:
        end = time.monotonic() + 20
        while len(found := memory.descendants(os.getpid())) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        assert child.pid in found and len(found) >= 2
    finally:
        os.killpg(child.pid, 9)
        child.wait()


def test_a_child_that_begins_is_not_counted_twice() -> None:
    """Between vfork() and execve() the child's memory is the parent's."""
    script = (
        "import subprocess, time\nheld = b'x' * (256 << 20)\nprint(flush=True)\n"
        "end = time.monotonic() + 3\n"
        "while time.monotonic() < end: subprocess.run(['true'])\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline()
        found = []
        while process.poll() is None:
            found.append(memory.taken_bytes(process.pid))
    assert 256 << 20 < max(found) < 384 << 20


def test_no_process_is_bounded_where_nothing_tells_what_is_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "_PROC", tmp_path)
    assert memory.free_bytes() == 0
    with memory.bounded():
        pass


def test_commands_that_read_files_are_bounded() -> None:
    loose = {one.NAME for one in cli.discover() if isinstance(cli.bound_of(one), nullcontext)}
    records = {"doctor", "calibrate", "capture", "dump", "watch", "ab", "evacuate", "kit"}
    assert loose == records
