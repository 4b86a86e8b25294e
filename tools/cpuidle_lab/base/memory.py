# SPDX-License-Identifier: GPL-2.0
"""A bound of the memory of a command: three quarters of what was free at its start.

A thread reads what the process and its descendants have touched. Limits of the kernel (setrlimit)
count address space, most of which libraries only reserve; beyond them polars ends the process
without a sentence.
"""

import os
import platform
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from cpuidle_lab.base.errors import FAILURE

SHARE = 0.75

# Memory is filled at some GB a second at most.
LOOK_S = 0.1

_PROC = Path("/proc")
# Number of the system call kcmp(2) by architecture, and its type for the memory of a process
# (linux/kcmp.h).
_KCMP = {"x86_64": 312, "aarch64": 272, "riscv64": 272, "loongarch64": 272, "ppc64le": 354}
_KCMP_VM = 1
_SHOW_CURSOR = "\x1b[?25h"


@cache
def _libc() -> Any:
    """Return the C library; None in a Python without ctypes, which does its work all the same."""
    with suppress(ImportError):
        import ctypes

        return ctypes.CDLL(None)
    return None


def _kilobytes(path: Path, name: str) -> int:
    """Return a line of a file of /proc in bytes; 0 where there is none."""
    with suppress(OSError):
        if found := re.search(rf"^{name}:\s+(\d+) kB", path.read_text(), re.MULTILINE):
            return 1024 * int(found[1])
    return 0


def free_bytes() -> int:
    """Return the memory that is free, or that the kernel can free without swapping."""
    return _kilobytes(_PROC / "meminfo", "MemAvailable")


def _children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found: list[int] = []
    # Any of them may end meanwhile, its directory with it.
    with suppress(OSError):
        for thread in (_PROC / str(pid) / "task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    return [one for child in _children(pid) for one in (child, *descendants(child))]


def _begins(child: int, parent: int) -> bool:
    """Tell whether a child runs in its parent's memory, which it does until its own program runs.

    Between vfork() and execve() the kernel shows the parent's memory as the child's, too.
    """
    number = _KCMP.get(platform.machine())
    libc = _libc()
    if number is None or libc is None:
        return False
    return int(libc.syscall(number, parent, child, _KCMP_VM, 0, 0)) == 0


def taken_bytes(pid: int) -> int:
    """Return the memory of a process and its descendants that the kernel cannot take back."""
    own = _kilobytes(_PROC / str(pid) / "status", "RssAnon")
    return own + sum(taken_bytes(one) for one in _children(pid) if not _begins(one, pid))


def _end(limit: int, free: int) -> None:
    """End this process and its descendants; what was being written is swept by the next one."""
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    cursor = _SHOW_CURSOR if sys.stderr.isatty() else ""
    message = (
        f"{cursor}cpuidle-lab: error: this needs more than {limit / 1e9:.1f} GB of memory, three "
        f"quarters of the {free / 1e9:.1f} GB that were free; free some, or give less at once\n"
    )
    with suppress(OSError):
        os.write(2, message.encode())
    os._exit(FAILURE)


@contextmanager
def bounded(look_s: float = LOOK_S) -> Iterator[None]:
    """End the process with one sentence where what follows takes too much memory.

    Nothing is bounded where /proc does not tell what is free.

    Args:
        look_s: time between looks at all processes.
    """
    free = free_bytes()
    limit = int(SHARE * free)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(look_s):
            if taken_bytes(os.getpid()) > limit:
                _end(limit, free)

    watcher = threading.Thread(target=watch, name="memory", daemon=True)
    if free:
        watcher.start()
    try:
        yield
    finally:
        ended.set()
        if free:
            watcher.join()
