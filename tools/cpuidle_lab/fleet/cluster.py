# SPDX-License-Identifier: GPL-2.0
"""Tasks on the processes of dask, which may die.

dask's scheduler keeps the queue, starts a process again that died, and gives its task to another.
A task under which LOSSES processes died is given up. A task has several recordings where there are
many, and each of them is tried alone if one fails. The scheduler of a local cluster listens on the
loopback address alone, since it unpickles all that reaches its port.
"""

import atexit
import errno
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from multiprocessing import current_process
from typing import Any

import dask
from distributed import Client, KilledWorker, LocalCluster, as_completed
from distributed.utils import get_mp_context

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.base.memory import free_bytes
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.fleet.task import Done, Job, work

LOOPBACK = "127.0.0.1"
LOSSES = 2
# Further tries of a task that raised an error: of the network, of a file system.
RETRIES = 2
# Part of the free memory that the workers of a local cluster may have together.
_MEMORY = 0.6
_CONNECT_S = 30
# Answers that are fetched at once: alone, one costs 6 ms of CPU time.
_TOGETHER = 64
# Recordings of a task, at most, since a task costs 5 ms; tasks of each process, at least.
_BATCH, _TURNS = 8, 16
_LOST = "the scheduler was lost; the same command goes on where it ended"
# Modules of a worker process.
_IMPORTS = ["distributed.nanny", work.__module__]

_SETTINGS = {
    "distributed.scheduler.allowed-failures": LOSSES - 1,
    # A worker has the task alone that it does: it is to blame if the process dies.
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.worker.daemon": False,
    # A process is started again by its nanny, however long the imports take on a busy machine.
    "distributed.deploy.lost-worker-timeout": "1 day",
    # Processes are forked from one that has the imports, so these cost their time once.
    "distributed.worker.multiprocessing-method": "forkserver",
    # Watching costs each process 6 % of a CPU by default, mostly for a dashboard that is not there.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.worker.memory.monitor-interval": "500ms",
    # Nothing is kept in a worker that could be moved to a disk.
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.target": False,
    "distributed.nanny.pre-spawn-environ": {
        "MALLOC_TRIM_THRESHOLD_": 65536, "OMP_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1,
        "POLARS_MAX_THREADS": 1,
        # A folder of the user's, such as dask/, is no module of ours.
        "PYTHONSAFEPATH": 1,
    },
}  # fmt: skip


@cache
def _place_socket() -> None:
    """Have the fork server's socket in a scratch directory, for as long as this process lives.

    That of multiprocessing itself, pymp-*, stays after a kill, and nothing tells its owner.
    """
    kept = ExitStack()
    folder = kept.enter_context(scratch())
    atexit.register(kept.close)
    current_process()._config["tempdir"] = str(folder)  # type: ignore[attr-defined]


@contextmanager
def _connected(scheduler: str, workers: int) -> Iterator[Client]:
    """Yield a client of a scheduler, or of a cluster of processes on this machine.

    Raises:
        UserError: the scheduler does not answer.
    """
    with ExitStack() as stack:
        # The next command removes what a killed one left there.
        place = {"temporary-directory": str(stack.enter_context(scratch()))}
        stack.enter_context(dask.config.set(_SETTINGS | place))
        if scheduler:
            try:
                client = Client(scheduler, timeout=_CONNECT_S)
            except OSError as error:
                raise UserError(f"{scheduler}: the scheduler does not answer: {error}") from error
            yield stack.enter_context(client)
            return
        _place_socket()
        get_mp_context().set_forkserver_preload(_IMPORTS)
        cluster = stack.enter_context(
            LocalCluster(
                host=LOOPBACK,
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=f"{LOOPBACK}:0",
                memory_limit=int(_MEMORY * free_bytes() / workers) or "auto",
                silence_logs=logging.CRITICAL,
            )
        )
        yield stack.enter_context(Client(cluster))


def _sentence(error: BaseException) -> str:
    """Return why a task was given up.

    Raises:
        OSError: the disk of the results is full, which is no recording's fault.
    """
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        raise error
    if isinstance(error, KilledWorker):
        return f"{LOSSES} processes that read or replayed it were killed or crashed"
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    reason = getattr(error, "strerror", None) or text
    return f"{reason} ({1 + RETRIES} tries)"


def _each(task: Callable[[Job], dict[str, Any]], jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """Do the tasks of a batch, one after the other."""
    return [task(job) for job in jobs]


def _batches(names: Sequence[str], workers: int) -> list[Sequence[str]]:
    """Return the recordings that go to a process together, several times for each process."""
    size = max(1, min(_BATCH, len(names) // (_TURNS * workers)))
    return [names[first : first + size] for first in range(0, len(names), size)]


def _told(client: Client, held: Mapping[Sequence[str], Any]) -> dict[str, Done]:
    """Fetch the answers of batches that ended; one of several recordings that failed has none.

    Raises:
        UserError: the scheduler is gone.
        OSError: the disk is full.
    """
    by_number = dict(enumerate(held.items()))
    try:
        answers: dict[int, Any] = client.gather(
            {n: future for n, (_, future) in by_number.items()}, errors="skip"
        )
    except (CancelledError, OSError) as error:
        raise UserError(_LOST) from error
    found: dict[str, Done] = {}
    for n, answer in answers.items():
        names, future = by_number[n]
        if answer:
            found |= {name: Done(**one) for name, one in zip(names, answer, strict=True)}
        elif future.status != "error":  # now, or when its worker died with the answer
            raise UserError(_LOST)
        else:
            sentence = _sentence(future.exception())
            if len(names) == 1:
                found[names[0]] = Done(sentence=sentence)
    return found


def _done(
    client: Client,
    batches: Sequence[Sequence[str]],
    jobs: Mapping[str, Job],
    task: Callable[[Job], dict[str, Any]],
    advance: Callable[[int], None],
) -> dict[str, Done]:
    """Do batches of tasks.

    Raises:
        UserError: the scheduler is gone.
        OSError: the disk is full.
    """
    found: dict[str, Done] = {}
    work = [[jobs[name] for name in names] for names in batches]
    futures = client.map(partial(_each, task), work, pure=False, retries=RETRIES)
    by_key = {future.key: tuple(names) for future, names in zip(futures, batches, strict=True)}
    stream: Any = as_completed(futures)
    del futures  # a future that is done is to be forgotten
    held: dict[Sequence[str], Any] = {}
    for future in stream:
        names = by_key[future.key]
        held[names] = future
        if future.status != "finished" or len(held) == _TOGETHER:
            found |= _told(client, held)
            held = {}
        if future.status == "finished" or len(names) == 1:
            advance(len(names))
    return found | _told(client, held)


def run(
    jobs: Mapping[str, Job],
    meter: Meter,
    *,
    scheduler: str = "",
    workers: int = 0,
    task: Callable[[Job], dict[str, Any]] = work,
) -> dict[str, Done]:
    """Do all tasks.

    Args:
        jobs: by name of the recording.
        meter: shows progress.
        scheduler: address of a scheduler; "" is a cluster of processes on this machine.
        workers: processes of that cluster; 0 is one for each processor.
        task: what they do; returns Done as a dictionary.

    Returns:
        By name, what each came to; one that was given up has a sentence.

    Raises:
        UserError: the scheduler does not answer, or is gone.
        OSError: the disk is full.
    """
    count = workers or os.cpu_count() or 1
    names: Sequence[str] = list(jobs)
    with _connected(scheduler, count) as client, meter("Replaying", len(jobs)) as advance:
        if scheduler:
            count = max(1, len(client.nthreads()))
        found = _done(client, _batches(names, count), jobs, task, advance)
        # One recording of a batch failed: each is alone, so that the guilty one is known.
        alone = [[name] for name in names if name not in found]
        found |= _done(client, alone, jobs, task, advance)
    return {name: found[name] for name in names}
