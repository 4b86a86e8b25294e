# SPDX-License-Identifier: GPL-2.0
"""Runs of `fleet` on recordings made for it: answers, CPU time, memory."""

import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.memory import descendants, taken_bytes
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.recording import synth
from cpuidle_lab.recording.laws import STREAMS

GOVERNORS = ("menu_ng", "teo_ng", "wteo")
MACHINES = ("skx", "spr", "power9")
WORKERS = 2
# One recording in so many is damaged; recordings of a machine.
DAMAGED, OF_MACHINE = 50, 4
_LOOK_S = 0.2
_PR_SET_CHILD_SUBREAPER = 36

# A single process replays each second recording, from the first or the second on.
_SINGLE = """
import sys
from cpuidle_lab.fleet import inputs, task
source, folder, first, governors = sys.argv[1:]
for item in inputs.find([source], None)[0][int(first)::2]:
    task.work(task.Job(item.url, "", folder, tuple(governors.split(",")), 60))
"""


@dataclass(frozen=True)
class Run:
    """Result of a run.

    Attributes:
        answers: text of its answers.json.
        cpu_s: CPU time of all its processes.
        useful_s: that of its tasks alone, as the command tells.
        early_bytes, late_bytes: most memory in its second and last quarter of recordings.
        kills: workers that were killed.
    """

    answers: str
    cpu_s: float
    useful_s: float
    early_bytes: int
    late_bytes: int
    kills: int


def _damage(path: Path, number: int) -> None:
    """Damage a recording in one of four ways."""
    meta = path / "meta.json"
    part = next((path / "interval").iterdir())
    way = number % 4
    if way == 0:
        meta.write_text(meta.read_text()[:100])
    elif way == 1:
        part.write_bytes(part.read_bytes()[:200])
    elif way == 2:
        part.unlink()
    else:
        meta.write_text("[]")


def make(folder: Path, count: int, length: int, meter: Meter) -> int:
    """Write recordings.

    Args:
        folder: of the recordings, with machines.csv beside it.
        count: how many.
        length: intervals of each.
        meter: shows progress.

    Returns:
        Number of damaged ones.
    """
    names = sorted(STREAMS)
    folder.mkdir()
    rows = ["recording,machine,kind"]
    with meter("Making recordings", count) as done:
        for n in range(count):
            machine = MACHINES[n // OF_MACHINE % len(MACHINES)]
            path = folder / f"{n:05}"
            synth.write(names[n % len(names)], path, machine_name=machine, hz=250, count=length,
                        seed=n)  # fmt: skip
            if n % DAMAGED == DAMAGED - 1:
                _damage(path, n // DAMAGED)
            rows.append(f"{n:05},m{n // OF_MACHINE},{machine}")
            done(1)
    folder.with_name("machines.csv").write_text("\n".join(rows) + "\n")
    return count // DAMAGED


def _cpu_s(started: list["subprocess.Popen[bytes]"]) -> float:
    """Wait for processes and those that they left behind; return the CPU time of all.

    A server of forks ends after its user, so orphans come to this process.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for process in started:
        assert process.wait() == 0, process.args
    with suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def adopt_orphans() -> None:
    """Have processes whose parents ended become children of this one (Linux).

    Raises:
        OSError: the kernel refuses.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def single(source: Path, folder: Path) -> float:
    """Return the CPU time of two processes that share the recordings, without dask."""
    for name in ("work", "index", "intervals", "results"):
        (folder / name).mkdir(parents=True)
    words = [str(source), str(folder)]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _SINGLE, *words, str(first), ",".join(GOVERNORS)],
            env=os.environ | {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        for first in range(WORKERS)
    ]
    return _cpu_s(started)


def _workers(pid: int) -> list[int]:
    """Return the worker processes of a run: those that the server of forks has made."""
    return sorted(worker for child in descendants(pid) for worker in descendants(child))


def fleet(source: Path, folder: Path, count: int, *, kill: bool) -> Run:
    """Run the command.

    Args:
        source: the recordings.
        folder: for the results.
        count: number of recordings.
        kill: kill a worker when half of the recordings are done.
    """
    metadata = source.with_name("machines.csv")
    process = subprocess.Popen(
        [sys.executable, "-m", "cpuidle_lab", "fleet", str(source), "--metadata", str(metadata),
         "--governors", ",".join(GOVERNORS), "--workers", str(WORKERS), "-o", str(folder)],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    # A terminal's worth of text, which the pipe holds.

    most = dict.fromkeys(range(5), 0)
    kills = 0
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        done = sum(1 for _ in folder.glob("index/*")) if folder.is_dir() else 0
        quarter = 4 * done // count
        most[quarter] = max(most[quarter], taken_bytes(process.pid))
        workers = _workers(process.pid)
        if kill and not kills and 2 * done >= count and workers:
            os.kill(workers[0], signal.SIGKILL)
            kills += 1
        time.sleep(_LOOK_S)
    cpu_s = _cpu_s([process])
    told = re.search(rb"([0-9.]+) s\s+of\s+CPU\s+time", process.stdout.read())
    assert told, "the command tells no CPU time"
    answers = (folder / "answers.json").read_text()
    return Run(answers, cpu_s, float(told[1]), most[1], max(most[3], most[4]), kills)
