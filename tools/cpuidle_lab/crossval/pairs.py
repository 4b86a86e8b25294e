# SPDX-License-Identifier: GPL-2.0
"""Predictions and facts: what replay says of a governor on the intervals that another one met.

A pair is a workload on a machine, the governor A that recorded it, and the governor B that is
replayed on that recording and has one of its own. Several seeds give several of each; their means
are compared, and the spread of the facts stands beside them.
"""

import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from os import cpu_count
from pathlib import Path
from typing import TypeVar

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.crossval import own
from cpuidle_lab.crossval.loop import Loop
from cpuidle_lab.crossval.moved import Moved, moved, shares
from cpuidle_lab.crossval.parts import Part, overslept
from cpuidle_lab.replay import recorded
from cpuidle_lab.replay.engine import Outcome
from cpuidle_lab.states.table import StateTable

T = TypeVar("T")

# Fewer intervals in a phase say nothing.
LEAST_INTERVALS = 200


@dataclass(frozen=True)
class Figures:
    """Figures of a governor, recorded or predicted.

    Attributes:
        regret: idle-energy regret, %.
        power_mw: modelled energy by idle time, without exit latencies.
        energy_uj: modelled energy of the intervals.
        p50: state from which the median wake-up came, by exit latency.
        p99: state of the 99th percentile.
        p99_us: its exit latency.
        decisions_per_s: decisions by time of the phase.
        residency: share of the idle time in each state, %.
        idle_ns: idle time of the recording, 0 of a prediction.
        overslept_ns: idle time in overslept intervals, which were left out.
    """

    regret: float
    power_mw: float
    energy_uj: float
    p50: str
    p99: str
    p99_us: float
    decisions_per_s: float
    residency: tuple[float, ...]
    idle_ns: int = 0
    overslept_ns: int = 0

    @classmethod
    def of(cls, outcome: Outcome, part: Part) -> "Figures":
        """Return the figures of an outcome on the intervals of a phase."""
        table = outcome.table
        states = dict(zip(table.exit_latency_ns, table.names, strict=True))
        named = {share: outcome.latency_us(share) or 0.0 for share in (0.5, 0.99)}
        time = outcome.state_ns[: table.count]
        total = float(time.sum()) or 1.0
        return cls(
            regret=outcome.regret or 0.0,
            power_mw=outcome.cost_pj / outcome.idle_ns if outcome.idle_ns else 0.0,
            energy_uj=outcome.cost_pj / 1e6,
            p50=states.get(round(named[0.5] * 1000), "?"),
            p99=states.get(round(named[0.99] * 1000), "?"),
            p99_us=named[0.99],
            decisions_per_s=outcome.decisions / part.seconds,
            residency=tuple(100 * float(value) / total for value in time),
        )

    @classmethod
    def recorded(cls, part: Part) -> "Figures":
        """Return the figures of a phase as it was recorded."""
        late, total = overslept(part)
        return replace(cls.of(recorded.outcome(part), part), idle_ns=total, overslept_ns=late)


@dataclass(frozen=True)
class Pair:
    """One prediction beside the fact, over all seeds.

    Attributes:
        workload: what ran.
        machine: its idle states, as they tell machines apart.
        kernel: series of the kernel.
        recorded: label of the governor A whose recordings were replayed.
        replayed: label of the governor B.
        predicted: figures of B by replay, one for each seed.
        real: figures of B by its own recordings, likewise.
        moved: how A's intervals differ from B's.
        weight: of Loop, mean of A's recordings.
    """

    workload: str
    machine: str
    kernel: str
    recorded: str
    replayed: str
    predicted: tuple[Figures, ...]
    real: tuple[Figures, ...]
    moved: Moved = field(default_factory=Moved)
    weight: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        """Workload, machine and kernel, which its recordings have in common."""
        return self.workload, self.machine, self.kernel

    @property
    def deepest(self) -> str:
        """Name and exit latency of the deepest state."""
        name, latency_us, _ = self.machine.split()[-1].rsplit(":", 2)
        return f"{name} {latency_us} us"

    @property
    def own(self) -> bool:
        """B is A."""
        return self.recorded == self.replayed

    @property
    def predicted_regret(self) -> float:
        """Mean regret by replay, %."""
        return statistics.fmean(one.regret for one in self.predicted)

    @property
    def real_regret(self) -> float:
        """Mean regret of the recordings, %."""
        return statistics.fmean(one.regret for one in self.real)

    @property
    def error(self) -> float:
        """Prediction less fact, points of regret."""
        return self.predicted_regret - self.real_regret

    @property
    def size(self) -> float:
        """Size of the error, points.

        On its own recordings the mean over the seeds: two errors do not make up for each other.
        """
        if not self.own:
            return abs(self.error)
        both = zip(self.predicted, self.real, strict=True)
        return statistics.fmean(abs(replayed.regret - fact.regret) for replayed, fact in both)

    @property
    def spread(self) -> float:
        """Standard deviation over the seeds of the regret of B's recordings, points; 0 of one."""
        values = [one.regret for one in self.real]
        return statistics.stdev(values) if len(values) > 1 else 0.0

    @property
    def judged_error(self) -> float:
        """The error, points; 0 where it lies within the spread of the seeds."""
        return 0.0 if not self.own and self.size <= self.spread else self.size


def check(parts: Sequence[Part]) -> None:
    """Refuse recordings that cannot be set beside each other.

    Raises:
        UserError: with what is wrong.
    """
    for part in parts:
        if part.judged < LEAST_INTERVALS:
            raise UserError(
                f"{part.path}: {part.workload} under {part.recorder.label} has {part.judged} idle "
                f"intervals with a regret; below {LEAST_INTERVALS} a prediction says nothing"
            )
    for (workload, machine, kernel), by_label in grouped(parts).items():
        if len(by_label) < 2:
            raise UserError(
                f"{workload} with the states {machine} on {kernel} was recorded under "
                f"{', '.join(by_label)} alone; a prediction needs a governor with a recording of "
                "its own, of the same workload, machine and kernel"
            )


def _states(table: StateTable) -> str:
    """Return name, exit latency and target residency in us of each state: NAME:N:N."""
    times = zip(table.exit_latency_ns, table.target_residency_ns, strict=True)
    both = zip(table.names, times, strict=True)
    return " ".join(f"{name}:{exit // 1000}:{pays // 1000}" for name, (exit, pays) in both)


def grouped(parts: Iterable[Part]) -> dict[tuple[str, str, str], dict[str, dict[str, Part]]]:
    """Return phases by workload, machine and kernel, then governor, then recording.

    Raises:
        UserError: a recording holds the same twice.
    """
    groups: dict[tuple[str, str, str], dict[str, dict[str, Part]]] = {}
    for part in parts:
        key = part.workload, _states(part.state_tables[part.cpus[0]]), part.kernel
        seeds = groups.setdefault(key, {}).setdefault(part.recorder.label, {})
        if str(part.path) in seeds:
            raise UserError(f"{part.path}: holds {part.workload} under {part.recorder.label} twice")
        seeds[str(part.path)] = part
    return groups


def count(parts: Iterable[Part]) -> int:
    """Return how many replays pairs() makes."""
    groups: dict[tuple[str, Path], int] = {}
    for part in parts:
        key = part.workload, part.path
        groups[key] = groups.get(key, 0) + 1
    return sum(number * number for number in groups.values())


def pairs(
    parts: Iterable[Part],
    progress: Callable[[int], None] = lambda _count: None,
) -> list[Pair]:
    """Return all pairs.

    Args:
        parts: the phases. Those of one recording have one seed.
        progress: called with the number of replays done.

    Raises:
        UserError: a governor cannot be replayed.
    """
    with ThreadPoolExecutor(cpu_count() or 1) as pool:
        return [
            pair
            for key, by_label in grouped(parts).items()
            for pair in _pairs(key, by_label, pool, progress)
        ]


def _pairs(
    key: tuple[str, str, str],
    by_label: Mapping[str, Mapping[str, Part]],
    pool: ThreadPoolExecutor,
    progress: Callable[[int], None],
) -> Iterator[Pair]:
    """Yield the pairs of one workload, machine and kernel."""

    def predict(mine: Part, theirs: Part) -> Figures:
        outcome = own.play(mine, theirs, restore=mine is theirs)
        progress(1)
        return Figures.of(outcome, mine)

    def of_all(do: Callable[[Part], T]) -> dict[str, dict[str, T]]:
        return {
            label: dict(zip(seeds, pool.map(do, seeds.values()), strict=True))
            for label, seeds in by_label.items()
        }

    real, places, loops = of_all(Figures.recorded), of_all(shares), of_all(Loop.of)
    for a, b in itertools.product(by_label, repeat=2):
        both = [seed for seed in by_label[a] if seed in by_label[b]]
        if not both:
            raise UserError(f"{key[0]}: no recording has both {a} and {b}; record them in one")
        played = [[by_label[label][seed] for seed in both] for label in (a, b)]
        yield Pair(
            *key,
            recorded=a,
            replayed=b,
            predicted=tuple(pool.map(predict, *played)),
            real=tuple(real[b][seed] for seed in both),
            moved=moved(*([places[label][seed] for seed in both] for label in (a, b))),
            weight=statistics.fmean(loops[a][seed].weight for seed in both),
        )
