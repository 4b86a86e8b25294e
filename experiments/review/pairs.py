# SPDX-License-Identifier: GPL-2.0
"""Searches between all versions of menu and TEO in Debian's packages, and the newest against ours.

The list has no report of most pairs. So there is no verdict: the table tells what a search finds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from cpuidle_lab.base.cache import digest
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.tables import Cell, Section, Table
from cpuidle_lab.lab.mainline import SERIES
from cpuidle_lab.review import base as bases
from experiments.experiment import Job, run_jobs
from experiments.memo import Memo
from experiments.review.known import Known
from experiments.review.rating import shown
from experiments.review.row import Effort, Task, judge, key, task

PART = "pairs"
_NAMES = ("menu", "teo")
OURS = "wteo"
# Not that of the table of known changes: the same pairs stand there, too.
_SEED = 2
# Their budget is CPU time, so they do not disturb each other.
_THREADS = 2


def versions(name: str) -> list[list[str]]:
    """Return the packaged kernels by the sources of a governor, the oldest first.

    Args:
        name: menu or teo.

    Raises:
        UserError: a kernel's sources are not there.
    """
    found: dict[tuple[str | None, ...], list[str]] = {}
    for kernel in SERIES:
        files = bases.files_of(kernel, {})
        found.setdefault((files[f"{name}.c"], files.get("gov.h")), []).append(kernel)
    return [*found.values()]


def _named(name: str, kernels: Sequence[str]) -> str:
    return f"{name}@{kernels[-1]}"


def pairs() -> list[tuple[str, str]]:
    """Return the pairs, kernels of the same sources once, by the newest of them.

    Raises:
        UserError: see versions().
    """
    found: list[tuple[str, str]] = []
    for name in _NAMES:
        names = [_named(name, kernels) for kernels in versions(name)]
        found += [*combinations(names, 2), (names[-1], OURS)]
    return found


def alike() -> str:
    """Return which kernels count as one.

    Raises:
        UserError: see versions().
    """
    found = [f"{name} of {' and '.join(kernels)}" for name in _NAMES
             for kernels in versions(name) if len(kernels) > 1]  # fmt: skip
    return f"The sources of {' and of '.join(found)} are the same, and count once." if found else ""


def _work(one: Task, budget_s: float) -> Callable[[], Any]:
    return lambda: judge(one, Effort(seconds=budget_s, seed=_SEED))


def searched(budget_s: float, memo: Memo, meter: Meter) -> dict[tuple[str, str], Any]:
    """Return what is found of each pair.

    Args:
        budget_s: CPU time of a pair.
        memo: where figures are kept.
        meter: shows progress.

    Raises:
        UserError: a kernel's sources are not there.
    """
    jobs = {}
    for pair in pairs():
        one = task(Known("", "", (), pair=pair), [], {})
        jobs[pair] = Job(digest([PART, str(budget_s), str(_SEED), key(one, 0)]),
                         _work(one, budget_s))  # fmt: skip
    told = run_jobs([*jobs.values()], memo, meter, "Searching between versions", _THREADS)
    return dict(zip(jobs, told, strict=True))


def _said(found: Mapping[str, Any], kind: str) -> str:
    return ", ".join(one["objective"] for one in shown(found, kind)) or "none"


def _rows(found: Mapping[tuple[str, str], Any]) -> Iterator[list[Cell]]:
    for (before, after), told in found.items():
        name = f"{before}, {after}"
        if told["died"]:
            yield [name, told["died"], None, None, None]
            continue
        share = 100 * told["differ"] / max(1, told["periods"])
        yield [name, _said(told, "harm"), _said(told, "gain"), f"{share:.2g}", told["streams"]]


def section(
    found: Mapping[tuple[str, str], Any], witness: Callable[[Mapping[str, Any]], str]
) -> Section:
    """Return the tables of the pairs: kinds of harm and gain, and their smallest streams.

    Args:
        found: of searched().
        witness: returns a stream and its figures as text.
    """
    heads = ("before, after", "harm", "gain", "decisions that differ, %", "streams tried")
    streams: list[list[Cell]] = [
        [f"{before}, {after}", kind, witness(one)]
        for (before, after), told in found.items()
        if not told["died"]
        for kind in ("harm", "gain")
        for one in shown(told, kind)
    ]
    tables = [Table("Searches between versions", heads, [*_rows(found)]),
              Table("Their harm and gain", ("before, after", "", "smallest stream"),
                    streams)]  # fmt: skip
    return Section(PART, "Searches between versions", tables=tables)
