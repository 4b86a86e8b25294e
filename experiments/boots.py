# SPDX-License-Identifier: GPL-2.0
"""Common parts of experiments in the lab: hashes of a boot, and boots without figures."""

import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import TOP, digest
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.lab import LabRun, corpus, keys, run_lab
from cpuidle_lab.lab.parallel import at_once
from cpuidle_lab.lab.run import LabResult
from experiments.experiment import (
    NOT_BOOTED,
    ORIGINAL,
    Experiment,
    Job,
    Request,
    checked,
    run_jobs,
)
from experiments.memo import Memo

__all__ = [
    "NOT_BOOTED",
    "boot_together",
    "boots",
    "figures",
    "key_of",
    "limit_s",
    "refusals",
    "sources",
]

Read = Callable[[LabResult], Any]

# The disk of a boot is as large as its memory, at most 2 GiB; images and results come on top.
_NEEDED_BYTES = 3 << 30


# The original's sizes are up to so many times the usual ones, and so is the time of a boot.
_ORIGINAL_TIMES = 1000


def limit_s(scale: str, usual_s: float) -> float:
    """Return the limit of wall-clock time for a boot.

    Args:
        scale: of the run.
        usual_s: limit at other scales than the original's.
    """
    return usual_s * (_ORIGINAL_TIMES if scale == ORIGINAL else 1)


def sources(code: Iterable[Path]) -> dict[str, str]:
    """Return hashes of what made the figures of boots, by name.

    Args:
        code: what plans the boots and reads their results.
    """
    return {
        "modules": corpus.modules_hash(),
        "plan": digest(path.read_bytes() for path in code),
    }


def refusals(request: Request) -> list[str]:
    """Return why the lab cannot be booted for an experiment, as sentences."""
    free = shutil.disk_usage(TOP).free
    needed = _NEEDED_BYTES * min(at_once(), request.seeds)
    if not request.lab or free >= needed:
        return []
    return [f"{free >> 20} MiB are free in {TOP}, boots of the lab need {needed >> 20}"]


def key_of(run: LabRun, code: Iterable[Path]) -> str:
    """Return a hash of all that a boot's figures depend on.

    Args:
        run: the boot.
        code: what reads its results.
    """
    return digest(["lab", keys.key_of(run), *(path.read_bytes() for path in code)])


def job(run: LabRun, code: Sequence[Path], read: Read, title: str) -> Job:
    """Return a boot as a part of a plan, which comes to what is read of the results."""

    def work() -> Any:
        with scratch(TOP / "build") as folder:
            return read(run_lab(run, folder / "results", title).check())

    return checked(lambda: key_of(run, code), work)


def figures(
    plan: Sequence[Callable[[], Job]],
    kernels: Collection[str],
    boot: bool,
    memo: Memo,
    meter: Meter,
    title: str,
) -> list[Any]:
    """Return what each boot came to; None where it is not known and nothing is to boot.

    As many machines run at once as the host has room for.

    Args:
        plan: each makes a part, with its key. A key needs the lab's images, so none is made where
            nothing is to boot and the images are not there.
        kernels: of the boots.
        boot: boot what is not in the memo.
        memo: where figures are kept.
        meter: shows progress.
        title: of the phase.
    """
    if not boot and not all(keys.can_be_known(kernel) for kernel in kernels):
        return [None] * len(plan)
    jobs = [part() for part in plan]
    if boot and memo.put_off is None:
        return run_jobs(jobs, memo, meter, title, at_once())
    known = [memo.get(one.key) for one in jobs]
    if boot and memo.put_off is not None:
        memo.put_off |= {
            one.key: one.work for one, figure in zip(jobs, known, strict=True) if figure is None
        }
    return known


def boot_together(
    experiments: Sequence[Experiment], request: Request, memo: Memo, meter: Meter
) -> None:
    """Boot what several experiments lack, in one plan; the rest of them is measured before.

    So no processor waits for the last boot of each experiment.
    """
    memo.put_off = {}
    for one in experiments:
        one.measure(request, memo, meter)
    missing, memo.put_off = memo.put_off, None
    memo.fill(missing, meter, "Booting for all experiments", at_once())


def boots(
    runs: Sequence[LabRun],
    read: Read | Sequence[Read],
    code: Sequence[Path],
    request: Request,
    memo: Memo,
    meter: Meter,
    title: str,
) -> list[Any]:
    """Return figures() of runs. Each may have its own `read`.

    Raises:
        UserError: all came to the same, so their seeds change nothing, and no spread is known.
    """
    reads = [read] * len(runs) if callable(read) else read
    plan = [partial(job, run, code, one, title) for run, one in zip(runs, reads, strict=True)]
    found = figures(plan, {run.kernel for run in runs}, request.lab, memo, meter, title)
    if len(found) > 1 and found[0] is not None and all(one == found[0] for one in found):
        raise UserError(f"{title}: all {len(found)} seeds came to the same, to the last digit")
    return found
