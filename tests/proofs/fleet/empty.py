# SPDX-License-Identifier: GPL-2.0
"""CPU time of the engine alone: tasks that do nothing, on two workers.

PYTHONPATH=tools:. build/venv/bin/python tests/proofs/fleet/empty.py 20 1000
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cpuidle_lab.base.memory import descendants
from cpuidle_lab.fleet import cluster
from cpuidle_lab.fleet.task import Done, Job
from tests.proofs.fleet import empty
from tests.proofs.fleet.measure import GOVERNORS, WORKERS

_LOOK_S = 0.2
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def nothing(job: Job) -> dict[str, Any]:
    """Answer as a task does that found its parts."""
    return asdict(Done("0" * 32, {label: f"results/00/{label}" for label in job.governors}))


@contextmanager
def _quiet(_title: str, _total: int) -> Iterator[Callable[[int], None]]:
    yield lambda _count: None


def _cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) * _TICK_S


def measure(tasks: int) -> float:
    """Return the CPU time of all processes, nearly to their ends."""
    spent: dict[int, float] = {}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK_S):
            for pid in descendants(os.getpid()):
                with suppress(OSError):
                    spent[pid] = _cpu_s(pid)

    watcher = threading.Thread(target=watch)
    watcher.start()
    before_s = time.process_time()
    jobs = {f"{n:06}": Job(f"/x/{n:06}", "", "/x", GOVERNORS, 60) for n in range(tasks)}
    # By its name, so that a worker finds it.
    cluster.run(jobs, _quiet, workers=WORKERS, task=empty.nothing)
    over.set()
    watcher.join()
    return time.process_time() - before_s + sum(spent.values())


def main() -> None:
    """Measure each number of tasks of the command line."""
    for count in map(int, sys.argv[1:]):
        print(f"{count:,} tasks: {measure(count):.2f} s of CPU time")


if __name__ == "__main__":
    main()
