# SPDX-License-Identifier: GPL-2.0
"""Where ours are worse than mainline's: every figure that can be compared, and no excuse."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cpuidle_lab.compare.spec import BEST_MAINLINE, OWN_KIND

INSTRUCTIONS = "instructions"
TIME = "ns, by the clock (noisy)"
MODULE = "instructions, in the kernel"
REGRET = "regret %"


@dataclass(frozen=True)
class Figure:
    """One figure of ours beside mainline's; less is better.

    Attributes:
        governor: ours.
        figure: what is compared.
        where: on which streams, or on which trace.
        ours: the figure.
        mainline: mainline's.
        than: who has that.
        worse: whether ours is worse.
    """

    governor: str
    figure: str
    where: str
    ours: float
    mainline: float
    than: str
    worse: bool


def _costs(part: dict[str, Any]) -> Iterator[Figure]:
    than = part["reference"]
    references = {row["group"]: row for row in part["rows"] if row["governor"] == than}
    for row in part["rows"]:
        if row["kind"] != OWN_KIND:
            continue
        for key, figure in (("instructions", INSTRUCTIONS), ("own_ns", TIME)):
            ours, mainline = row[key], references[row["group"]][key]
            if ours is not None and mainline is not None:
                yield Figure(
                    row["governor"], figure, row["group"], ours, mainline, than, ours > mainline
                )


def _module(part: dict[str, Any]) -> Iterator[Figure]:
    mainline = next(case for case in part["cases"] if case["governor"] == "menu")
    for case in part["cases"]:
        if case is not mainline:
            ours, theirs = case["mean"], mainline["mean"]
            yield Figure(
                case["case"], MODULE, part["workload"], ours, theirs, "menu", ours > theirs
            )


def _regrets(part: dict[str, Any]) -> Iterator[Figure]:
    regrets = part.get("regrets", [])
    best = {one["trace"]: one["regret"] for one in regrets if one["governor"] == BEST_MAINLINE}
    for one in regrets:
        ours, mainline = one["regret"], best.get(one["trace"])
        if one["kind"] == OWN_KIND and ours is not None and mainline is not None:
            yield Figure(
                one["governor"],
                REGRET,
                one["trace"],
                ours,
                mainline,
                BEST_MAINLINE,
                one["worse_than_best_mainline"],
            )


_PARTS = {"governors": _costs, "gate": _module, "corpus": _regrets}


def compared(parts: dict[str, dict[str, Any]]) -> list[Figure]:
    """Return every figure that was measured of ours and of mainline's.

    Args:
        parts: of the benchmark, as bench.json has them.
    """
    return [figure for name, of in _PARTS.items() if name in parts for figure in of(parts[name])]
