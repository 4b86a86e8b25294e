# SPDX-License-Identifier: GPL-2.0
"""Clones and predictions beside the facts: rows, tables, a picture, and what is missed."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cpuidle_lab.clone import judge
from cpuidle_lab.clone.believe import Belief
from cpuidle_lab.evidence import plots
from cpuidle_lab.evidence.tables import Table

# A smaller regret is drawn as this, %.
LEAST_SHOWN = 0.1

# Of a clone under a governor that did not make its recording, points.
CROSS_POINTS, NEAR_POINTS = 2.0, 5.0
# Of figures of governors that did not record: shares that hold their uncertainty, have a figure,
# and have the right sign; and the mean uncertainty, half of replay's error in docs/measured.
HELD_LEAST, SAID_LEAST, RIGHT_LEAST, WIDTH_MOST = 0.95, 0.75, 0.98, 5.35 / 2
# Workloads that timers wake; none of their figures may be withheld.
TIMERS = ("cyclictest", "stress-timer", "idle")


@dataclass(frozen=True)
class Line:
    """A clone under a governor.

    Attributes:
        workload: what ran.
        source: governor whose recording was rebuilt.
        check: the clone beside the recordings.
        replayed: regret by replay of that recording, %.
        belief: of a governor whose recordings do not check the clone.
        own_regret: of the workload under the source, %.
    """

    workload: str
    source: str
    check: judge.Check
    replayed: float
    belief: Belief | None = None
    own_regret: float = 0.0

    @property
    def faults(self) -> list[str]:
        """Limits that it misses: those of the gates, and of another governor's regret."""
        found = [] if self.belief else list(self.check.faults())
        if (
            self.crossed
            and not found
            and abs(self.check.error) > max(CROSS_POINTS, self.check.doubt)
        ):
            found = [f"it is {self.check.error:+.1f} points off"]
        return found

    @property
    def crossed(self) -> bool:
        """The clone is of another governor's recording."""
        return self.check.regime != self.source

    @property
    def said(self) -> Belief | None:
        """Figure of a governor that did not record; None if it is withheld."""
        return None if self.belief is None or self.belief.withheld else self.belief

    @property
    def said_error(self) -> float:
        """That regret less that of the workload, points."""
        return self.said.regret - self.check.real.regret if self.said else 0.0

    @property
    def holds(self) -> bool:
        """The fact lies within the uncertainty of what is said."""
        return self.said is not None and abs(self.said_error) <= self.said.off

    @property
    def apart(self) -> float:
        """Regret of the workload less that under the recording's governor, points."""
        return self.check.real.regret - self.own_regret

    @property
    def replay_error(self) -> float:
        """Regret by replay less that of the workload, points."""
        return self.replayed - self.check.real.regret

    def sentences(self) -> list[str]:
        """Return a sentence for each limit that it misses."""
        return [f"{self.workload}, clone of {self.source}: {fault}" for fault in self.faults]

    def text(self) -> str:
        """Return a line for those who wait."""
        one = self.check
        regrets = [" ".join(f"{regret:.1f}" for regret in told.regrets)
                   for told in (one.real, one.clone)]  # fmt: skip
        lengths = " and ".join(
            f"{statistics.fmean(told.lengths_s):.3f}" for told in (one.real, one.clone)
        )
        powers = " and ".join(
            " ".join(f"{power:.1f}" for power in told.powers_mw) for told in (one.real, one.clone)
        )
        return (f"{self.workload}: {one.regime} {regrets[0]}; clone of {self.source} {regrets[1]}; "
                f"replay {self.replayed:.1f}; moved {one.moved:.1f} %, by chance "
                f"{one.chance:.1f} %; {lengths} s; {powers} mW")  # fmt: skip

    def cells(self) -> list[str | float | None]:
        """Return its row."""
        one = self.check
        return [
            self.workload, self.source, one.regime, one.real.regret, one.real.spread,
            self.replayed, one.clone.regret, one.clone.spread, one.moved, one.chance,
            "missed" if self.faults else "held", *self._belief(),
        ]  # fmt: skip

    def _belief(self) -> tuple[str, float | None]:
        if self.belief is None:
            return "", None
        return "withheld" if self.belief.withheld else self.belief.by, self.belief.off


_HEADS = (
    "workload", "clone of", "under", "regret %", "spread", "by replay", "of the clone", "spread",
    "moved %", "by chance %", "limits", "figure by", "+-",
)  # fmt: skip
_WORKLOADS = (
    "workload", "replay", "clone", "moved %", "gates", "figures of others", "within +-", "mean +-",
)  # fmt: skip


def _gates(lines: Iterable[Line]) -> list[str]:
    """Return what the gates say of a workload, a clause each."""
    return [fault for line in lines if not line.belief for fault in line.check.faults()]


def passes(lines: Sequence[Line]) -> bool:
    """Tell whether both clones of a workload pass the gates."""
    return bool(lines) and not _gates(lines)


def whole(lines: Sequence[Line]) -> Table:
    """Return the table of all rows."""
    return Table("", _HEADS, [line.cells() for line in lines], 1)


def by_workload(lines: Sequence[Line]) -> Table:
    """Return a row for each workload: its gates, its cross errors, and what is said of others."""
    rows: list[list[str | float | None]] = []
    for name in dict.fromkeys(line.workload for line in lines):
        mine = [line for line in lines if line.workload == name]
        crossed = [line for line in mine if line.crossed and not line.belief]
        asked = [line for line in mine if line.belief]
        said = [line for line in asked if line.said]
        held = sum(line.holds for line in said)
        rows.append([
            name,
            *(", ".join(f"{each:+.1f}" for each in errors) for errors in (
                [line.replay_error for line in crossed], [line.check.error for line in crossed])),
            max((line.check.moved for line in mine if not line.belief), default=None),
            "held" if passes(mine) else "missed",
            f"{len(said)} of {len(asked)}" if asked else "",
            f"{held} of {len(said)}" if said else "",
            statistics.fmean(line.said.off for line in said if line.said) if said else None,
        ])  # fmt: skip
    return Table("", _WORKLOADS, rows, 1)


def uncertain(rows: Sequence[Line]) -> list[str]:
    """Print how good figures of governors are that did not record; return what is missed."""
    asked = [line for line in rows if line.belief]
    said = [line for line in asked if line.said]
    if not asked:
        return []
    if not said:
        return ["all figures of other governors are withheld"]
    held = sum(line.holds for line in said)
    width = statistics.fmean(line.said.off for line in said if line.said)
    apart = [line for line in said if abs(line.apart) > CROSS_POINTS]
    right = sum((line.apart + line.said_error) * line.apart > 0 for line in apart)
    error, usual = (
        statistics.fmean(map(abs, errors))
        for errors in zip(*((line.said_error, line.replay_error) for line in said), strict=True)
    )
    timers = {line.workload for line in asked if not line.said and line.workload.startswith(TIMERS)}
    print(f"of {len(asked)} figures of other governors {len(asked) - len(said)} are withheld; "
          f"{held} of {len(said)} hold their uncertainty, which is {width:.2f} points on average; "
          f"the mean error is {error:.2f} points, by replay alone {usual:.2f}; the sign is right "
          f"in {right} of {len(apart)} differences beyond {CROSS_POINTS:g} points")  # fmt: skip
    limits = (
        (held >= HELD_LEAST * len(said), f"fewer than {HELD_LEAST:.0%} hold their uncertainty"),
        (width <= WIDTH_MOST, f"the mean uncertainty is above {WIDTH_MOST:g} points"),
        (len(said) >= SAID_LEAST * len(asked), f"fewer than {SAID_LEAST:.0%} have a figure"),
        (right >= RIGHT_LEAST * len(apart), f"the sign is right in fewer than {RIGHT_LEAST:.0%}"),
        (not timers, f"of workloads by timers figures are withheld: {', '.join(sorted(timers))}"),
    )
    return [sentence for holds, sentence in limits if not holds]


def plot(lines: Sequence[Line]) -> plots.Plot:
    """Return the picture: regret of another governor, predicted against recorded."""
    crossed = [line for line in lines if line.crossed]
    refused = {(line.workload, line.source) for line in lines if _gates([line])}
    kinds: dict[str, list[tuple[float, float]]] = {"replay": [], "clone": [], "clone, refused": []}
    for line in crossed:
        real, is_refused = line.check.real.regret, (line.workload, line.source) in refused
        kinds["replay"].append((real, line.replayed))
        kinds["clone, refused" if is_refused else "clone"].append((real, line.check.clone.regret))
    values = [value for dots in kinds.values() for dot in dots for value in dot]
    low, high = max(LEAST_SHOWN, min(values)), max(values)
    marks = [
        plots.Line(kind, [(max(x, low), max(y, low)) for x, y in dots], joined=False)
        for kind, dots in kinds.items() if dots
    ]  # fmt: skip
    return plots.Plot(
        "clone",
        "Regret of another governor than the recording's",
        "recorded, %",
        "predicted, %",
        [*marks, plots.Line("equal", [(low, low), (high, high)])],
        log_x=True,
        log_y=True,
    )
