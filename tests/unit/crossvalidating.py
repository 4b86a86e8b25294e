# SPDX-License-Identifier: GPL-2.0
"""Recordings and pairs that tests of cross-validation share."""

from pathlib import Path
from typing import Any

from cpuidle_lab.crossval.pairs import Figures, Pair
from tests.unit.synthetic import Session

MS = 1_000_000


def record(path: Path, *phases: tuple[str, str], seed: int = 1, length: int = 400 * MS) -> Path:
    """Write a recording with phases (governor, workload)."""
    session = Session(seed=seed)
    for governor, workload in phases:
        session.phase(governor, workload, length)
    return session.trace.write(path)


BOTH = (("teo_ng", "bursts"), ("wteo", "bursts"))


def figures(regret: float, p99: str = "C6", overslept_ns: int = 0) -> Figures:
    times = 10**9, overslept_ns
    return Figures(regret, 100.0, 1.0, "C1", p99, 133.0, 10.0, (50.0, 50.0), *times)


def pair(
    recorded: str, replayed: str, predicted: list[float], real: list[float], **more: Any
) -> Pair:
    """Return a pair of given regrets, one for each seed."""
    return Pair(
        workload=more.get("workload", "bursts"),
        machine="POLL:0:0 C1:2:2 C6:133:600",
        kernel=more.get("kernel", "6.12"),
        recorded=recorded,
        replayed=replayed,
        predicted=tuple(figures(value, more.get("p99", "C6")) for value in predicted),
        real=tuple(figures(value, overslept_ns=more.get("late", 0)) for value in real),
    )
