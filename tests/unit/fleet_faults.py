# SPDX-License-Identifier: GPL-2.0
"""The task of a fleet with faults that the name of a recording asks for."""

import os
import signal
from pathlib import Path
from typing import Any

from cpuidle_lab.fleet import task

# In the name of a recording: its process is killed each time; only the first time; fetching it
# times out the first time.
DEADLY, UNLUCKY, SLOW = "deadly", "unlucky", "slow"


def _is_first(job: task.Job) -> bool:
    """Tell whether a recording is worked on for the first time."""
    mark = Path(job.folder) / "work" / f"{Path(job.url).name}.seen"
    if mark.exists():
        return False
    mark.touch()
    return True


def work(job: task.Job) -> dict[str, Any]:
    """Do a task, or fail."""
    name = Path(job.url).name
    if DEADLY in name or (UNLUCKY in name and _is_first(job)):
        os.kill(os.getpid(), signal.SIGKILL)
    if SLOW in name and _is_first(job):
        raise TimeoutError("fetching it took longer than 1 s")
    return task.work(job)
