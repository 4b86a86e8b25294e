# SPDX-License-Identifier: GPL-2.0
"""Speed and memory of the trace reader."""

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from cpuidle_lab.base import memory
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.recording import reader
from cpuidle_lab.recording.columns import READ

# Of so many runs the fastest counts: whatever else the machine does only slows it down.
RUNS = 3


def reader_speed(path: Path, counted: Path | None = None) -> dict[str, float | int | str | None]:
    """Measure `trace-columns`: everything that columns are made of, written to /dev/null.

    Args:
        path: a trace.dat, better a large one.
        counted: a smaller one to count the instructions on, where perf cannot and valgrind takes
            its time; None is `path` itself.

    Returns:
        events: in `path`; cpu_s and wall_s: user and system time, and time, of the fastest run;
        events_per_s: events by cpu_s, which is that of one core; instructions_per_event and
        instructions_by ("perf", "valgrind", or None twice); peak_rss_kb, of which the mapped file
        is a part that the kernel can take back, and peak_anonymous_kb, which it cannot.

    Raises:
        UserError: the reader refuses the file.
    """
    events = events_of(path)
    runs = [measured(path) for _ in range(RUNS)]
    cpu, wall = min(run[0] for run in runs), min(run[1] for run in runs)
    instructions, by = _instructions(counted or path)
    count = events_of(counted) if counted else events
    return {
        "events": events,
        "cpu_s": round(cpu, 3),
        "wall_s": round(wall, 3),
        "events_per_s": round(events / cpu) if cpu else None,
        "instructions_per_event": round(instructions / count, 1) if instructions else None,
        "instructions_by": by,
        "peak_rss_kb": max(run[2] for run in runs),
        "peak_anonymous_kb": max(run[3] for run in runs),
    }


def _command(path: Path) -> list[str]:
    return [str(reader.native_reader()), str(path), *READ]


def events_of(path: Path) -> int:
    """Return the number of events in a trace."""
    for piece in reader.read_chunks(path, ["lost"]):
        if isinstance(piece, reader.Ending):
            return piece.events
    raise UserError(f"{path}: cannot be read")


def measured(path: Path) -> tuple[float, float, int, int]:
    """Return what measure() returns of the reader.

    Raises:
        UserError: the reader refuses the file.
    """
    *found, code = measure(_command(path))
    if code:
        raise UserError(f"{path}: the reader failed")
    cpu, wall, peak, anonymous = found
    return cpu, wall, int(peak), int(anonymous)


def measure(command: Sequence[str]) -> tuple[float, float, int, int, int]:
    """Run a command with its descendants.

    Returns:
        CPU time and time in s; the peak of all memory of one process, and of the anonymous memory
        of all together, in KiB; the exit code.
    """
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    ended = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.01):
            peak = max(peak, memory.taken_bytes(process.pid) // 1024)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    ended.set()
    watcher.join()
    cpu = usage.ru_utime + usage.ru_stime
    return cpu, wall, usage.ru_maxrss, peak, process.returncode


def _instructions(path: Path) -> tuple[int | None, str | None]:
    """Count the reader's instructions in user space, with whatever can."""
    if shutil.which("perf"):
        done = _quiet(["perf", "stat", "-x,", "-e", "instructions:u", *_command(path)])
        found = re.search(r"^(\d+),", done, re.MULTILINE)
        if found:
            return int(found[1]), "perf"
    if shutil.which("valgrind"):
        options = ["--tool=callgrind", "--callgrind-out-file=/dev/null"]
        found = re.search(r"Collected : (\d+)", _quiet(["valgrind", *options, *_command(path)]))
        if found:
            return int(found[1]), "valgrind"
    return None, None


def _quiet(command: list[str]) -> str:
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    return done.stderr
