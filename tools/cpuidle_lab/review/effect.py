# SPDX-License-Identifier: GPL-2.0
"""Figures before and after, by law, table and condition, and on recordings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from cpuidle_lab.recording.laws import STREAMS
from cpuidle_lab.replay.engine import INTERVAL_TYPES, Outcome, Run
from cpuidle_lab.review.play import SIDES, Pair, Played
from cpuidle_lab.review.stream import CONDITIONS, PLAIN, Condition, SpecIntervals, of_law
from cpuidle_lab.review.sweep import Progress
from cpuidle_lab.review.tables import Named, shown
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable

COUNT, SEEDS = 3000, 3

# Figures of a cell, their units, and the sign of "worse".
FIGURES = {
    "regret": ("%", 1),
    "energy": ("mJ an interval, modelled", 1),
    "p50": ("us", 1),
    "p99": ("us", 1),
    "above": ("%", 0),
    "below": ("%", 0),
    "ticks": ("/s", 0),
    "asked": ("%", 0),
}


@dataclass(frozen=True)
class FigureChange:
    """A figure at one place.

    Attributes:
        where: law, table and condition; or a recording.
        figure: of FIGURES.
        before, after: one for each seed, on the same streams.
        n: intervals of a seed.
    """

    where: str
    figure: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    n: int

    @property
    def change(self) -> float:
        """Middle of the differences."""
        return median(b - a for a, b in zip(self.before, self.after, strict=True))

    def beyond(self, limit: float) -> bool:
        """Return whether the figure rose by more than a limit with every seed."""
        return all(b - a > limit for a, b in zip(self.before, self.after, strict=True))

    def lower(self, limit: float) -> bool:
        """Return whether the figure fell by more than a limit with every seed."""
        return all(a - b > limit for a, b in zip(self.before, self.after, strict=True))

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"where": self.where, "figure": self.figure, "before": list(self.before),
                "after": list(self.after), "n": self.n}  # fmt: skip


@dataclass(frozen=True)
class Effect:
    """Figures of all places.

    Attributes:
        cells: the figures.
        bounds: medians of bounds().
        left: places for which there was no time.
    """

    cells: list[FigureChange]
    bounds: tuple[float, float]
    left: int

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        cells = [cell.as_json() for cell in self.cells]
        return {"cells": cells, "bounds": self.bounds, "left": self.left}


def values(outcome: Outcome, wall_ns: float) -> dict[str, float]:
    """Return the figures of an outcome, by name."""
    intervals = max(1, outcome.intervals)
    return {
        "regret": outcome.regret or 0.0,
        "energy": outcome.cost_pj / 1e9 / intervals,
        "p50": outcome.latency_us(0.5) or 0.0,
        "p99": outcome.latency_us(0.99) or 0.0,
        "above": outcome.share(outcome.above) or 0.0,
        "below": outcome.share(outcome.below) or 0.0,
        "ticks": 1e9 * outcome.ticks / max(wall_ns, 1),
        "asked": 100 * outcome.asked / max(1, outcome.decisions),
    }


def _of(one: Played) -> dict[str, float]:
    return values(one.outcome, one.wall_ns)


def _places() -> Iterator[tuple[Named, Condition, str]]:
    """Yield all laws on the tables shown, then under the other conditions on the first."""
    tables = shown()
    for table, law in product(tables, STREAMS):
        yield table, PLAIN, law
    for condition, law in product(CONDITIONS[1:], STREAMS):
        yield tables[0], condition, law


def bounds(stream: SpecIntervals) -> tuple[float, float]:
    """Return the regret of the shallowest state alone and of the deepest alone, %.

    The oracle is not bound by requests, and neither is asked again while the CPU is idle.
    """
    lengths = stream.length_ns[stream.skip :].astype(float)
    model = model_of(stream.table)
    states = list(zip(model.entry_pj, model.power_mw, strict=True))
    costs = np.array([entry * len(lengths) + power * lengths.sum() for entry, power in states])
    oracle = np.min([entry + power * lengths for entry, power in states], axis=0).sum()
    regrets = 100 * (costs / oracle - 1)
    return float(regrets[0]), float(regrets[-1])


def measure(pair: Pair, seed: int, go_on: Progress) -> Effect:
    """Return all figures, as many as there is time for.

    Args:
        pair: the governors.
        seed: of the streams; each place has SEEDS of them.
        go_on: as of sweep().
    """
    found: list[FigureChange] = []
    limits: list[tuple[float, float]] = []
    places = list(_places())
    for number, (table, condition, law) in enumerate(places):
        told: dict[str, list[list[float]]] = {name: [[], []] for name in FIGURES}
        for turn in range(SEEDS):
            stream = of_law(law, table.states, condition, COUNT, seed + turn)
            limits.append(bounds(stream))
            for side, one in enumerate(pair.both(stream)):
                for name, value in _of(one).items():
                    told[name][side].append(value)
        where = ", ".join((law, table.name, *((condition.name,) if condition != PLAIN else ())))
        found += [
            FigureChange(where, name, tuple(both[0]), tuple(both[1]), COUNT)
            for name, both in told.items()
        ]
        if not go_on((number + 1) / len(places)):
            break
    shallowest, deepest = (median(values) for values in zip(*limits, strict=True))
    return Effect(found, (shallowest, deepest), len(places) - len(limits) // SEEDS)


# ---- Recordings ----


def save(path: Path, cpus: Sequence[tuple[StateTable, Mapping[str, Any]]]) -> None:
    """Write the intervals of the CPUs of a recording for on_recording()."""
    columns = {
        f"{number}/{name}": values
        for number, (_, chunk) in enumerate(cpus)
        for name, values in chunk.items()
    }
    np.savez(path, **columns)


def on_recording(
    pair: Pair, name: str, path: Path, tables: Sequence[StateTable]
) -> list[FigureChange]:
    """Return the figures of both governors on a recording.

    Args:
        pair: the governors.
        name: of the recording.
        path: its intervals, from save().
        tables: idle states of each CPU.
    """
    found: dict[str, list[float]] = {figure: [] for figure in FIGURES}
    total = 0
    with np.load(path) as columns:
        for side in SIDES:
            who = pair.sides[side]
            outcome = Outcome(side, max(tables, key=lambda table: table.count))
            span = 0.0
            for number, table in enumerate(tables):
                chunk = {key: columns[f"{number}/{key}"] for key in INTERVAL_TYPES}
                starts = chunk["start_ns"]
                span += float(starts[-1] - starts[0])
                with Run(who.governor, table, dict(who.settings), number) as run:
                    run.play(chunk, choices=False)
                    outcome.add(run.totals(), table)
            total = outcome.intervals
            for figure, value in values(outcome, span).items():
                found[figure].append(value)
    return [
        FigureChange(name, figure, (both[0],), (both[1],), total) for figure, both in found.items()
    ]
