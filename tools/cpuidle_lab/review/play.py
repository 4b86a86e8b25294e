# SPDX-License-Identifier: GPL-2.0
"""Two governors, replayed on the same streams."""

import json
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cpuidle_lab.recording import columns
from cpuidle_lab.replay.candidates import Candidate
from cpuidle_lab.replay.engine import Array, Outcome, Run
from cpuidle_lab.review.stream import SpecIntervals, columns_of
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable

SIDES = ("before", "after")
# Columns of a decision; where one differs, the governors decided otherwise.
COMPARED = ("index", "stop_tick", "decisions", "last")

POLL_MW = 1000.0

_BOX_SIZE = 1 << 20


class Box:
    """A note of what is being played, which outlives the process that plays.

    It is a file of fixed size: a counter, the length of the note, the note as JSON. The counter is
    odd as long as a governor plays.
    """

    def __init__(self, path: Path) -> None:
        with path.open("a+b") as stream:
            stream.truncate(_BOX_SIZE)
            self._memory = mmap.mmap(stream.fileno(), _BOX_SIZE)

    def note(self, side: str, recipe: Mapping[str, Any] | None) -> None:
        """Say what is played next."""
        data = json.dumps({"side": side, "recipe": recipe}).encode()
        if len(data) > _BOX_SIZE - 16:
            data = json.dumps({"side": side, "recipe": None}).encode()
        self._memory[8:16] = len(data).to_bytes(8, "little")
        self._memory[16 : 16 + len(data)] = data
        self._memory[0:8] = (self.count + 1 | 1).to_bytes(8, "little")

    def rest(self) -> None:
        """Say that the play is over."""
        self._memory[0:8] = (self.count + 1 & ~1).to_bytes(8, "little")

    @property
    def count(self) -> int:
        """Changes with each play, at its begin and at its end; odd within it."""
        return int.from_bytes(self._memory[0:8], "little")

    def read(self) -> dict[str, Any]:
        """Return the last note; {} without one, or where the governor wrote over it."""
        size = int.from_bytes(self._memory[8:16], "little")
        try:
            found = json.loads(self._memory[16 : 16 + min(size, _BOX_SIZE - 16)])
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class Played:
    """Result of a governor on the counted part of a stream.

    Attributes:
        outcome: totals, as of engine.Outcome.
        choices: what was decided in each interval, if it was wanted.
        wall_ns: time of the intervals, of work and of exit latencies.
        breaches: answers that no governor may give: range, disabled, latency, first.
    """

    outcome: Outcome
    choices: dict[str, Array]
    wall_ns: float
    breaches: Mapping[str, int]

    def alike(self, other: "Played") -> bool:
        """Return whether no figure of another governor on the same stream differs."""
        mine, others = self.outcome, other.outcome
        return (mine.cost_pj, mine.ticks, mine.latency_ns) == (
            others.cost_pj, others.ticks, others.latency_ns
        ) and np.array_equal(mine.state_ns, others.state_ns)  # fmt: skip

    @property
    def regret(self) -> float:
        """Percent beyond the oracle."""
        return self.outcome.regret or 0.0

    @property
    def power_mw(self) -> float:
        """Mean modelled power over wall time; no more than polling's."""
        most = model_of(self.outcome.table).power_mw[0]
        return float(min(self.outcome.cost_pj / max(self.wall_ns, 1), most))

    @property
    def late_us(self) -> float:
        """Mean exit latency of a wake-up."""
        waits = self.outcome.latency_ns
        spent = sum(ns * n for ns, n in waits.items())
        return float(spent / max(1, sum(waits.values())) / 1000)

    @property
    def ticks(self) -> float:
        """Ticks a second that woke the idle CPU."""
        return 1e9 * self.outcome.ticks / max(self.wall_ns, 1)

    @property
    def share(self) -> Array:
        """Share of idle time by state."""
        count = self.outcome.table.count
        return np.asarray(self.outcome.state_ns[:count] / max(self.outcome.idle_ns, 1))


def best_share(stream: SpecIntervals) -> Array:
    """Return the oracle's share of the counted time by state; requests are not kept."""
    lengths = stream.length_ns[stream.skip :].astype(float)
    model = model_of(stream.table)
    power, entry = np.array(model.power_mw), np.array(model.entry_pj)
    ideal = np.argmin(entry[:, None] + power[:, None] * lengths[None, :], axis=0)
    time = np.bincount(ideal, weights=lengths, minlength=stream.table.count)
    return np.asarray(time / max(lengths.sum(), 1))


def _wall_ns(outcome: Outcome, busy_ns: int, table: StateTable) -> float:
    exits = zip(outcome.entries.tolist(), table.exit_latency_ns, strict=False)
    return float(outcome.idle_ns + busy_ns + sum(count * ns for count, ns in exits))


class Pair:
    """Both governors; before is the first."""

    def __init__(self, before: Candidate, after: Candidate, box: Box) -> None:
        self.sides = {"before": before, "after": after}
        self.count = 0
        self._box = box

    def swapped(self) -> "Pair":
        """Return the same the other way round, in which a gain is a harm."""
        return Pair(self.sides["after"], self.sides["before"], self._box)

    @property
    def played(self) -> int:
        """Streams that both sides have played."""
        return self.count // len(SIDES)

    def one(
        self, side: str, stream: SpecIntervals, given: columns.Columns, *, choices: bool = False,
        costs: StateTable | None = None,
    ) -> Played:  # fmt: skip
        """Replay one side.

        Args:
            side: of SIDES.
            stream: the intervals.
            given: columns_of(stream).
            choices: keep each decision, those of the uncounted part, too.
            costs: the table that is charged by, if it is another.
        """
        who = self.sides[side]
        self.count += 1
        self._box.note(who.label, stream.recipe)
        outcome = Outcome(side, stream.table)
        parts = []
        with Run(who.governor, stream.table, dict(who.settings), costs=costs) as run:
            if stream.skip:
                parts.append(run.play(columns.sliced(given, 0, stream.skip), choices))
                run.forget_totals()
            parts.append(run.play(columns.sliced(given, stream.skip, stream.count), choices))
            outcome.add(run.totals(), stream.table)
            breaches = run.breaches()
        self._box.rest()
        told = {name: int(getattr(breaches, name)) for name, *_ in breaches._fields_}
        found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        busy = int(stream.busy_ns[stream.skip :].sum())
        return Played(outcome, found, _wall_ns(outcome, busy, stream.table), told)

    def both(self, stream: SpecIntervals, *, choices: bool = False) -> tuple[Played, Played]:
        """Replay both sides."""
        given = columns_of(stream)
        first, second = (self.one(side, stream, given, choices=choices) for side in SIDES)
        return first, second


def differing(first: Played, second: Played) -> Array:
    """Return for each interval whether the governors decided otherwise in it."""
    pairs = ((first.choices[name], second.choices[name]) for name in COMPARED)
    return np.asarray(np.any([a != b for a, b in pairs], axis=0))
