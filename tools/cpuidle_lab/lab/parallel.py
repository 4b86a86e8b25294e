# SPDX-License-Identifier: GPL-2.0
"""Machines side by side: as many as there are host CPUs for machines in virtual time.

An interruption reaches the main thread alone, and a machine may run for an hour. So machines look
whether they are to end; see machine.end_machines.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

from cpuidle_lab.lab.machine import end_machines, host_cpus

T = TypeVar("T")

# How late an interruption is seen, s.
_LOOK_S = 0.5


@contextmanager
def threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """Yield threads for boots and replays.

    Where what follows raises, work that was not begun is dropped, and machines that run are ended.

    Args:
        number: of threads.
    """
    pool = ThreadPoolExecutor(number)
    try:
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
    with threads(len(host_cpus())) as pool:
        jobs = [pool.submit(one) for one in work]
        for job in completed(jobs):
            job.result()
        return [job.result() for job in jobs]
