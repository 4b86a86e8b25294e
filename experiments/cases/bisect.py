# SPDX-License-Identifier: GPL-2.0
"""Finds the kernel, or the commit, at which the figure of a case changes."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.states.linux_source import GOVERNORS
from experiments.cases import figures
from experiments.cases.case import Case, play_cells
from experiments.cases.schema import Cell
from experiments.memo import Memo

FOLDER = "drivers/cpuidle/governors"
COMMITS_MAX = 200


@dataclass(frozen=True)
class Step:
    """A kernel on the way.

    Attributes:
        label: a series, the label of a tree, or a commit with its subject.
        figure: median of the seeds; None: not available.
        bad: it has the fault; None: not known.
        note: why there is no figure.
    """

    label: str
    figure: float | None = None
    bad: bool | None = None
    note: str = ""


def _git(tree: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(tree), *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UserError(f"{tree}: git {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


def commits(tree: Path, span: str) -> dict[str, Path]:
    """Return trees of the commits that touched the governors, oldest first, by what they are.

    Args:
        tree: a git repository of the kernel.
        span: "A..B"; A itself comes first.

    Raises:
        UserError: git failed, or there are too many of them.
    """
    first, dots, _ = span.partition("..")
    if not dots or not first or first.startswith("-"):
        raise UserError(f"--commits: '{span}' is no A..B", USAGE)
    log = _git(tree, "log", "--reverse", "--format=%h %s", span, "--", FOLDER).splitlines()
    if len(log) > COMMITS_MAX:
        raise UserError(f"{span}: {len(log)} commits touched the governors; at most {COMMITS_MAX}")
    start = _git(tree, "log", "-1", "--format=%h %s", first).strip()
    return {line: _extracted(tree, line.split()[0]) for line in [start, *log]}


def _extracted(tree: Path, commit: str) -> Path:
    target = TOP / "build" / "experiments" / "trees" / commit
    folder = target / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    there = _git(tree, "ls-tree", "--name-only", commit, f"{FOLDER}/").split()
    for name in GOVERNORS:
        if f"{FOLDER}/{name}" in there:
            text = _git(tree, "show", f"{commit}:{FOLDER}/{name}")
            (folder / name).write_text(text, encoding="utf-8")
    return target


def bisect(
    case: Case, kernels: Mapping[str, str], seeds: int, memo: Memo, meter: Meter
) -> list[Step]:
    """Return what each kernel comes to.

    Replay costs so little that each is played, not only those between a good and a bad one: a
    figure can change more than once.

    Args:
        case: a case that says what is bad.
        kernels: series, or paths of trees, by label, oldest first.
        seeds: rounds.
        memo: where figures are kept.
        meter: shows progress.

    Raises:
        UserError: the case does not say what is bad.
    """
    described = case.described
    how = described.bisect
    if not how:
        raise UserError(f"{case.name}: is not of a kernel's version; its file has no 'bisect'")
    cells = [Cell(f"{how.governor}@{kernel}", how.stream) for kernel in kernels.values()]
    found = play_cells(described, cells, seeds, memo, meter)
    steps = []
    for label, played in zip(kernels, found, strict=True):
        if isinstance(played, str):
            steps.append(Step(label, note=played))
            continue
        value = median(figures.value(described.figure, one, described.machine) for one in played)
        steps.append(Step(label, value, how.bad[0] <= value <= how.bad[1]))
    return steps


def changes(steps: Sequence[Step]) -> list[str]:
    """Return where the figure changes, as sentences."""
    known = [step for step in steps if step.bad is not None]
    if not known:
        return ["no kernel could be played"]
    found = []
    for before, after in pairwise(known):
        if before.bad != after.bad:
            what = "the fault appears" if after.bad else "the fault is gone"
            found.append(f"{what} between {before.label} and {after.label}")
    if found:
        return found
    return ["each of these kernels has the fault" if known[0].bad else "none has the fault"]
