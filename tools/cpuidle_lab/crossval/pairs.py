# SPDX-License-Identifier: GPL-2.0
"""Predictions and facts: what replay says of a governor on the intervals that another one met.

A pair is a workload on a machine, the governor A that recorded it, and the governor B that is
replayed on that recording and has one of its own. Several seeds give several of each; their means
are compared, and the spread of the facts stands beside them.
"""

import statistics
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path

from cpuidle_lab.crossval import own
from cpuidle_lab.crossval.parts import Part
from cpuidle_lab.errors import UserError
from cpuidle_lab.replay import recorded
from cpuidle_lab.replay.engine import Outcome

# Fewer intervals in a phase say nothing.
LEAST_INTERVALS = 200


@dataclass(frozen=True)
class Figures:
    """What a governor came to, or would have.

    Attributes:
        regret: idle-energy regret, %.
        power_mw: modelled energy by idle time, without exit latencies.
        energy_uj: modelled energy of the intervals.
        p50: state from which the median wake-up came, by exit latency.
        p99: state of the 99th percentile.
        p99_us: its exit latency.
        decisions_per_s: decisions by time of the phase.
        residency: share of the idle time in each state, %.
        overslept: intervals that were left out because the CPU overslept, % of all.
    """

    regret: float
    power_mw: float
    energy_uj: float
    p50: str
    p99: str
    p99_us: float
    decisions_per_s: float
    residency: tuple[float, ...]
    overslept: float = 0.0

    @classmethod
    def of(cls, outcome: Outcome, seconds: float) -> "Figures":
        """Return the figures of an outcome; `seconds` is the length of its phase."""
        machine = outcome.machine
        states = dict(zip(machine.exit_latency_ns, machine.names, strict=True))
        named = {share: outcome.latency_us(share) or 0.0 for share in (0.5, 0.99)}
        time = outcome.state_ns[: machine.count]
        total = float(time.sum()) or 1.0
        return cls(
            regret=outcome.regret or 0.0,
            power_mw=outcome.cost_pj / outcome.idle_ns if outcome.idle_ns else 0.0,
            energy_uj=outcome.cost_pj / 1e6,
            p50=states.get(round(named[0.5] * 1000), "?"),
            p99=states.get(round(named[0.99] * 1000), "?"),
            p99_us=named[0.99],
            decisions_per_s=outcome.decisions / seconds,
            residency=tuple(100 * float(value) / total for value in time),
            overslept=100 * outcome.skipped / (outcome.intervals + outcome.skipped)
            if outcome.skipped
            else 0.0,
        )


@dataclass(frozen=True)
class Pair:
    """One prediction beside the fact, over all seeds.

    Attributes:
        workload: what ran.
        machine: names of its idle states, as they tell machines apart.
        kernel: series of the kernel.
        recorded: label of the governor A whose recordings were replayed.
        replayed: label of the governor B.
        predicted: figures of B by replay, one for each seed.
        real: figures of B by its own recordings, likewise.
    """

    workload: str
    machine: str
    kernel: str
    recorded: str
    replayed: str
    predicted: tuple[Figures, ...]
    real: tuple[Figures, ...]

    @property
    def own(self) -> bool:
        """Whether B is A."""
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
    def spread(self) -> float:
        """Standard deviation over the seeds of the regret of B's recordings, points; 0 of one."""
        values = [one.regret for one in self.real]
        return statistics.stdev(values) if len(values) > 1 else 0.0

    @property
    def judged_error(self) -> float:
        """The error, points; 0 where it lies within the spread of the seeds."""
        return 0.0 if not self.own and abs(self.error) <= self.spread else abs(self.error)


def check(parts: Sequence[Part]) -> None:
    """Refuse recordings that cannot be set beside each other.

    Raises:
        UserError: with what is wrong.
    """
    for part in parts:
        if part.count < LEAST_INTERVALS:
            raise UserError(
                f"{part.path}: {part.workload} under {part.recorder.label} has {part.count} idle "
                f"intervals; below {LEAST_INTERVALS} a prediction says nothing"
            )
    for (workload, machine, kernel), by_label in grouped(parts).items():
        if len(by_label) < 2:
            raise UserError(
                f"{workload} with the states {machine} on {kernel} was recorded under "
                f"{', '.join(by_label)} alone; a prediction needs a governor with a recording of "
                "its own, of the same workload, machine and kernel"
            )


def grouped(parts: Iterable[Part]) -> dict[tuple[str, str, str], dict[str, dict[str, Part]]]:
    """Return phases by workload, machine and kernel, then governor, then recording.

    Raises:
        UserError: a recording holds the same twice.
    """
    groups: dict[tuple[str, str, str], dict[str, dict[str, Part]]] = {}
    for part in parts:
        machine = " ".join(part.machines[part.cpus[0]].names)
        key = part.workload, machine, part.kernel
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
    found: list[Pair] = []
    with ThreadPoolExecutor(cpu_count() or 1) as pool:
        for (workload, machine, kernel), by_label in grouped(parts).items():

            def facts(part: Part) -> Figures:
                return Figures.of(recorded.outcome(part), part.seconds)

            real = {
                label: dict(zip(seeds, pool.map(facts, seeds.values()), strict=True))
                for label, seeds in by_label.items()
            }
            for a, mine in by_label.items():
                for b, theirs in by_label.items():
                    both = [seed for seed in mine if seed in theirs]
                    if not both:
                        raise UserError(
                            f"{workload}: no recording has both {a} and {b}; record them in one"
                        )

                    def predict(seed: str, mine=mine, theirs=theirs) -> Figures:  # type: ignore[no-untyped-def]
                        outcome = own.play(mine[seed], theirs[seed])
                        progress(1)
                        return Figures.of(outcome, mine[seed].seconds)

                    found.append(
                        Pair(
                            workload,
                            machine,
                            kernel,
                            a,
                            b,
                            tuple(pool.map(predict, both)),
                            tuple(real[b][seed] for seed in both),
                        )
                    )
    return found
