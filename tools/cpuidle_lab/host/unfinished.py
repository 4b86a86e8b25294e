# SPDX-License-Identifier: GPL-2.0
"""Changes that a killed session leaves behind: noted by it, mended by the next one.

The note of a session is /run/cpuidle-lab-capture-PID. Its lines are the directory of the unfinished
trace and the trace clock as it was, "" where the session leaves that alone.
"""

import contextlib
import os
import re
from pathlib import Path

from cpuidle_lab.base import files
from cpuidle_lab.host.machine import TRACEFS, Host

TRACE_CLOCK = f"{TRACEFS}/trace_clock"

# The clock that a session sets.
CLOCK = "mono"

_RUN = "/run"
_NAME = "cpuidle-lab-capture-"


def is_alive(machine: Host, pid: str) -> bool:
    """Tell whether a process is a capture."""
    words = machine.tree.read_bytes(f"/proc/{pid}/cmdline") or b""
    return b"cpuidle" in words and b"capture" in words


def clock_of(machine: Host) -> str:
    """Return the trace clock, "" if the kernel does not tell."""
    found = re.search(r"\[([\w-]+)\]", machine.tree.read(TRACE_CLOCK) or "")
    return found[1] if found else ""


def _path(machine: Host, pid: str) -> Path:
    return machine.tree.path(f"{_RUN}/{_NAME}{pid}")


def note(machine: Host, directory: Path, clock: str) -> None:
    """Note what this session will leave if it is killed; without /run it goes on all the same."""
    path = _path(machine, str(os.getpid()))
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{directory}\n{clock}\n")


def forget(machine: Host) -> None:
    """Remove the note: this session has restored everything."""
    with contextlib.suppress(OSError):
        _path(machine, str(os.getpid())).unlink()


def mend(machine: Host) -> None:
    """Restore what sessions that are gone left behind.

    Raises:
        UserError: the kernel refuses the clock.
    """
    for name in machine.tree.names(_RUN):
        pid = name.removeprefix(_NAME)
        if pid == name or not pid.isdecimal() or is_alive(machine, pid):
            continue
        first, _, clock = (machine.tree.read(f"{_RUN}/{name}") or "").partition("\n")
        if clock and clock_of(machine) == CLOCK:
            machine.tree.write(TRACE_CLOCK, clock)
        if (directory := Path(first)).name.startswith(files.SCRATCH):
            files.sweep(directory)
        _path(machine, pid).unlink(missing_ok=True)
