# SPDX-License-Identifier: GPL-2.0
"""Programs in the lab on machines of four CPUs, with the idle states that a tree fits."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import TOP, digest
from cpuidle_lab.base.files import scratch
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.lab import LabRun, corpus, run_lab
from cpuidle_lab.lab.session import TRACE
from experiments import boots
from experiments.domains.machines import CPUS
from experiments.domains.machines import TREES as TABLES
from experiments.experiment import Job, Request, checked
from experiments.memo import Memo

# A tree whose hardware enters each sleep, and one whose hardware demotes. A program on four CPUs
# takes minutes, so there is one seed.
TREES = ("xeon", "client")
# Programs of the corpus that several CPUs share, and seconds of each.
SECONDS = {"hackbench-pipe": 5, "pgbench-44": 3}
# Records each interval; the governors are replayed.
RECORDER = "teo_ng"
SEED = 42

Program = tuple[str, str]


def plan() -> list[Program]:
    """Return tree and program of each boot."""
    return [(tree, name) for tree in TREES for name in SECONDS]


def boot(tree: str, name: str) -> LabRun:
    """Return the boot of a program."""
    made = corpus.Recipe(TABLES[tree], RECORDER, name, SECONDS[name], SEED, CPUS)
    return LabRun(made.script(), seed=made.seed, cpus=CPUS, files=made.files(), time_limit_s=1800)


def measure(
    request: Request,
    play: Callable[[Path, str], Any],
    code: Sequence[Path],
    governors: Sequence[str],
    memo: Memo,
    meter: Meter,
) -> dict[Program, Any]:
    """Return figures of each program; none where nothing is known and the lab is not to boot.

    Args:
        request: of the experiment.
        play: returns the figures of a recording and a tree.
        code: what they depend on.
        governors: digests of those that are replayed.
        memo: where figures are kept.
        meter: shows progress.
    """

    def job(one: Program) -> Job:
        run = boot(*one)

        def work() -> Any:
            with scratch(TOP / "build") as folder:
                files = run_lab(run, folder / "results", " ".join(one)).check().files
                return play(files / TRACE, one[0])

        return checked(lambda: digest([boots.key_of(run, code), *governors]), work)

    every = plan()
    made = [partial(job, one) for one in every]
    kernels = {LabRun.kernel}
    told = boots.figures(made, kernels, request.lab, memo, meter, "Booting programs")
    return {one: figures for one, figures in zip(every, told, strict=True) if figures}
