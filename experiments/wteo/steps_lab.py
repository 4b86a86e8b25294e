# SPDX-License-Identifier: GPL-2.0
"""Worth of each step of a governor to programs in the lab.

One module has the governor and, beside it, the governor without each step, each under a name of its
own. So all of them have their turns in the same boot of a program.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from math import sqrt
from statistics import fmean, variance
from typing import Any

from cpuidle_lab.base.progress import Meter
from cpuidle_lab.lab.turns import JudgedProgram, Size
from cpuidle_lab.replay.candidates import Candidate
from experiments import added
from experiments.boots import figures
from experiments.memo import Memo
from experiments.wteo.programs import KERNEL, cell
from experiments.wteo.steps import Step, edited

_INCLUDE = re.compile(r"^#include.*$", re.MULTILINE)


# Each of the governors has so many turns in a boot.
FULL = Size(seeds=2, seconds=2)
QUICK = Size(seeds=1, seconds=1)


@dataclass(frozen=True)
class InLab:
    """Extent of the runs in the lab.

    Attributes:
        programs: each in a boot of its own.
        size: how much of each.
        boots: boot what is not known.
    """

    programs: Sequence[JudgedProgram]
    size: Size
    boots: bool


def alias(name: str, number: int) -> str:
    """Return what a governor is called without its step of a number, from 0 on."""
    return f"{name}_s{number:02}"


def renamed(text: str, name: str, other: str) -> str:
    """Return C source in which a governor has another name; the files that it includes keep theirs.

    Args:
        text: the source.
        name: of the governor, as its identifiers have it between underscores.
        other: what takes its place.
    """
    included = iter(_INCLUDE.findall(text))
    text = re.sub(rf"(?<![A-Za-z0-9]){name}(?![A-Za-z0-9])", other, text)
    return _INCLUDE.sub(lambda _: next(included), text)


def changes(name: str, steps: Sequence[Step]) -> dict[str, str]:
    """Return files of the modules' sources, by path, that add a governor without each step.

    Args:
        name: of the governor.
        steps: of steps.listed(); the first one is alias(name, 0).

    Raises:
        UserError: a step is not in the sources, or the lists are not understood.
    """
    names = [alias(name, number) for number in range(len(steps))]
    return added.changes({
        other: {file: renamed(text, name, other) for file, text in edited(name, step).items()}
        for other, step in zip(names, steps, strict=True)
    })  # fmt: skip


def _differences(runs: Sequence[Mapping[str, Any]], whole: str, label: str) -> list[float]:
    """Return the points of regret above the whole governor's, in each round of one program."""
    regret = {(run["governor"], run["seed"]): run["regret"] for run in runs}
    seeds = sorted({run["seed"] for run in runs})
    pairs = [(regret[label, seed], regret[whole, seed]) for seed in seeds]
    return [mine - base for mine, base in pairs if mine is not None and base is not None]


def points(
    runs: Sequence[Mapping[str, Any]], whole: str, label: str
) -> tuple[float, float | None] | None:
    """Return the points of mean regret above the whole governor's, and their standard error.

    Each program counts the same. The error is that of the mean of the programs' means, each with
    the variance of its own rounds; None where a program has a single round.

    Args:
        runs: attributes of turns.ProgramRun.
        whole: label of the whole governor.
        label: of the other one.

    Returns:
        None if no program has a regret.
    """
    by_program = sorted(runs, key=lambda run: str(run["program"]))
    groups = groupby(by_program, key=lambda run: run["program"])
    found = [_differences(list(mine), whole, label) for _, mine in groups]
    found = [each for each in found if each]
    if not found:
        return None
    mean = fmean(fmean(each) for each in found)
    if any(len(each) < 2 for each in found):
        return mean, None
    return mean, sqrt(sum(variance(each) / len(each) for each in found)) / len(found)


def measure(
    whole: Candidate,
    steps: Sequence[Step],
    in_lab: InLab,
    memo: Memo,
    meter: Meter,
) -> dict[str, tuple[float, float | None]]:
    """Return points() by the names of steps; empty where a boot is not known.

    Args:
        whole: the governor with all steps.
        steps: what is removed.
        in_lab: what runs.
        memo: where figures are kept.
        meter: shows progress.

    Raises:
        UserError: a module does not build, a program failed in the guest, or events were lost.
    """
    name = whole.governor.name
    labels = [f"{name} without {step.name}" for step in steps]
    others = [
        Candidate(label, replace(whole.governor, spec=alias(name, number)), whole.settings)
        for number, label in enumerate(labels)
    ]
    added = changes(name, steps)
    governors = [whole, *others]
    plan = [partial(cell, one, governors, in_lab.size, added) for one in in_lab.programs]
    known = figures(plan, [KERNEL], in_lab.boots, memo, meter, "Removing steps in the lab")
    if not all(known):
        return {}
    runs = [run for found in known for run in found]
    worth = {
        step.name: points(runs, whole.label, label)
        for step, label in zip(steps, labels, strict=True)
    }
    return {step: told for step, told in worth.items() if told}
