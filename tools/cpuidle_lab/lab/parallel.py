# SPDX-License-Identifier: GPL-2.0
"""Machines side by side: as many as the host has CPUs and memory for.

An interruption reaches the main thread alone, and a machine may run for an hour. So machines look
whether they are to end; see machine.end_machines.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from cpuidle_lab.base.waiting import sigterm_interrupts
from cpuidle_lab.lab.machine import end_machines, host_cpus

T = TypeVar("T")

# Greatest delay until an interruption is seen, s.
_LOOK_S = 0.5

# Memory of one machine: the largest guest has 3 GiB, and QEMU needs some, too.
_MACHINE_MIB = 4096
_MEMORY = Path("/proc/meminfo")


def at_once() -> int:
    """Return how many machines in virtual time may run at once: at least one."""
    available_kib = re.search(r"^MemAvailable: +(\d+) kB", _MEMORY.read_text(), re.MULTILINE)
    room = int(available_kib[1]) // 1024 // _MACHINE_MIB if available_kib else 1
    return max(1, min(len(host_cpus()), room))


@contextmanager
def threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """Yield threads for boots and replays.

    Where what follows raises, work that was not begun is dropped, and machines that run are ended.
    SIGTERM interrupts it, as Ctrl-C does.

    Args:
        number: of threads.
    """
    pool = ThreadPoolExecutor(number)
    try:
        with sigterm_interrupts():
            yield pool
    except BaseException:
        with end_machines():
            pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def completed(jobs: Iterable[Future[T]]) -> Iterator[Future[T]]:
    """Yield jobs as they end.

    On a crowded host another thread may take the signal of an interruption, and the main thread
    sleeps on. So it looks from time to time.
    """
    waiting = set(jobs)
    while waiting:
        ended, waiting = wait(waiting, _LOOK_S, FIRST_COMPLETED)
        yield from ended


def side_by_side(work: Sequence[Callable[[], T]]) -> list[T]:
    """Return what each piece of work came to; pieces boot one machine each.

    Args:
        work: begun in this order.

    Raises:
        Exception: that of the piece that failed first; the others are ended.
    """
    with threads(at_once()) as pool:
        jobs = [pool.submit(one) for one in work]
        for job in completed(jobs):
            job.result()
        return [job.result() for job in jobs]
