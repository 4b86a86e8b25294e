# SPDX-License-Identifier: GPL-2.0
"""Trust in the predictions on a recording, said beside them.

A governor that is replayed on its own recording, from the state that it began with, should meet the
recorded energy. The difference is the error of the model. The errors for other governors were
measured by `make crossval`, workload by workload: measured.json.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.crossval.loop import Loop
from cpuidle_lab.crossval.own import Replay
from cpuidle_lab.crossval.parts import overslept, whole
from cpuidle_lab.recording.columns import TIMER_TICK, TRACE, Recording
from cpuidle_lab.recording.phases import phases_of
from cpuidle_lab.replay import recorded
from cpuidle_lab.replay.engine import Outcome
from cpuidle_lab.replay.fidelity import Apart, apart

MEASURED = Path(__file__).parent / "measured.json"

# Of the recorder's own energy, replayed; beyond it other figures of that recording are doubtful.
DOUBT = 0.01


def _share(recorded_pj: float, replayed_pj: float) -> float:
    return replayed_pj / recorded_pj - 1 if recorded_pj else 0.0


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of a phase; the rest of an Outcome takes 10 kB, and phases can be many.

    Attributes:
        cost_pj, oracle_pj, intervals: as of an Outcome.
    """

    cost_pj: float
    oracle_pj: float
    intervals: int

    @classmethod
    def of(cls, outcome: Outcome) -> "Energy":
        """Return that of a result."""
        return cls(outcome.cost_pj, outcome.oracle_pj, outcome.intervals)


@dataclass(frozen=True)
class Trust:
    """A governor replayed on its own recording, beside that recording.

    Attributes:
        recorder: its label.
        recorded_pj: modelled energy of the intervals, as recorded.
        replayed_pj: as replayed.
        oracle_pj: of the oracle.
        intervals: how many.
        worst: share of error of the phase that errs most.
        worst_workload: what ran in it.
    """

    recorder: str
    recorded_pj: float
    replayed_pj: float
    oracle_pj: float
    intervals: int
    worst: float
    worst_workload: str

    @classmethod
    def of(cls, recorder: str, phases: Sequence[tuple[Energy, Energy, str]]) -> "Trust":
        """Return how a governor comes out.

        Args:
            recorder: its label.
            phases: as recorded, as replayed, and what ran.
        """
        shares = [(_share(fact.cost_pj, mine.cost_pj), workload) for fact, mine, workload in phases]
        worst, workload = max(shares, key=lambda one: abs(one[0]))
        return cls(
            recorder,
            sum(fact.cost_pj for fact, _, _ in phases),
            sum(mine.cost_pj for _, mine, _ in phases),
            sum(fact.oracle_pj for fact, _, _ in phases),
            sum(fact.intervals for fact, _, _ in phases),
            worst,
            workload,
        )

    @property
    def share(self) -> float:
        """The error: replayed energy by recorded energy, less 1."""
        return _share(self.recorded_pj, self.replayed_pj)

    @property
    def regrets(self) -> tuple[float, float]:
        """Regret as recorded and as replayed, %."""
        if not self.oracle_pj:
            return 0.0, 0.0
        energies = self.recorded_pj, self.replayed_pj
        recorded_regret, replayed_regret = (100 * (one / self.oracle_pj - 1) for one in energies)
        return recorded_regret, replayed_regret

    @property
    def doubtful(self) -> bool:
        """True if a reader must be warned."""
        return abs(self.worst) > DOUBT

    def line(self) -> str:
        """Return one sentence."""
        recorded_regret, replayed_regret = self.regrets
        text = (
            f"the recorder itself, {self.recorder}: {100 * self.share:+.1f} % energy replayed "
            f"against recorded, regret {replayed_regret:.2f} against {recorded_regret:.2f} %"
        )
        if not self.doubtful:
            return text
        return (
            f"{text}; WARNING: {100 * self.worst:+.1f} % on {self.worst_workload or 'it'}, where "
            "the other figures err as much"
        )


def trust_of(columns: Path, path: Path) -> list[Trust]:
    """Return one Trust for each governor that recorded, of a Parquet directory."""
    found: dict[str, list[tuple[Energy, Energy, str]]] = {}
    with Replay() as replay:
        for part in whole(Recording(columns), path):
            fact, mine = Energy.of(recorded.outcome(part)), Energy.of(replay.play(part))
            found.setdefault(part.recorder.label, []).append((fact, mine, part.workload))
    return [Trust.of(label, phases) for label, phases in found.items()]


def trust(
    recording: Recording, path: Path, ready: Apart[list[Trust]] | None = None
) -> tuple[list[Trust], str]:
    """Return how the governors that recorded come out on their own recordings.

    Args:
        recording: what is read; its states are used in a process of its own.
        path: as the user knows it.
        ready: that process, if it has begun trust_of() before.

    Returns:
        One Trust for each; or none, and why.
    """
    if recording.kind != TRACE:
        return [], "no governor of the project recorded it"
    try:
        if ready:
            return ready.result(path), ""
        return apart(path, trust_of, recording.path, path), ""
    except UserError as error:
        return [], error.message.removeprefix(f"{path}: ")


@cache
def measured() -> dict[str, dict[str, Any]]:
    """Return what `make crossval` measured, by workload: points of regret, deepest state."""
    found: dict[str, dict[str, Any]] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return found


def known_error(workload: str) -> str:
    """Return how much predictions for a workload of the lab err, "" for others."""
    found = measured().get(workload)
    if not found:
        return ""
    return (
        f"another governor's regret on a recording of {workload} was predicted within "
        f"{found['mean']:.1f} points on average, {found['worst']:.1f} at worst "
        f"(found by make crossval on machines with the deepest state {found['deepest']}; for "
        "others it is a guess)"
    )


def overslept_share(recording: Recording) -> float:
    """Return the share of the idle time in overslept intervals, %."""
    late, total = overslept(recording)
    return 100 * late / total if total else 0.0


def held_share(recording: Recording) -> float:
    """Return the share of the intervals that began while the tick could not be stopped, %."""
    total = held = 0
    for cpu in recording.cpus:
        for chunk in recording.intervals(cpu, ["timer_ns"]):
            total += len(chunk["timer_ns"])
            held += int((chunk["timer_ns"] <= TIMER_TICK).sum())
    return 100 * held / total if total else 0.0


def remarks(recording: Recording, path: Path, ready: Apart[list[Trust]] | None = None) -> list[str]:
    """Return one sentence for each thing that a reader must know of a recording.

    Args:
        recording: as of trust().
        path: likewise.
        ready: likewise.
    """
    found, why = trust(recording, path, ready)
    said = [one.line() for one in found]
    if why and recording.kind == TRACE:
        said.append(f"the recorder itself cannot be replayed: {why}")
    marks = recording.table("marker")
    workloads = dict.fromkeys(phase.workload for phase in phases_of(marks, 2**63))
    said += [text for name in workloads if (text := known_error(name))]
    if recording.kind == TRACE:
        said.append(Loop.of(recording).line(measured().values()))
    return [text for text in said if text]
