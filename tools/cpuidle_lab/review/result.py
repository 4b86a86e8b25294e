# SPDX-License-Identifier: GPL-2.0
"""The verdict on a pair of governors, and its form as JSON."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.review.base import Base
from cpuidle_lab.review.booted import LabChange
from cpuidle_lab.review.effect import FIGURES, FigureChange
from cpuidle_lab.review.listed import CaseChange

WORSE, BETTER, MIXED, SAME, UNJUDGED = "worse", "better", "mixed", "same", "not judged"
EXIT_WORSE = 3

DEFAULT_LIMITS = "regret=2,p99=0"


def limits_of(text: str) -> dict[str, float]:
    """Return the limits of "regret=2,p99=0": how much a figure may rise.

    Raises:
        UserError: a figure is unknown, or a value is no number.
    """
    known = [name for name, (_, sign) in FIGURES.items() if sign]
    found = {}
    for word in text.split(","):
        name, equals, value = word.strip().partition("=")
        if not equals or name not in known:
            raise UserError(f"--limit: '{word}' is no FIGURE=RISE of {', '.join(known)}", USAGE)
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = math.nan
        if math.isnan(found[name]):
            raise UserError(f"--limit: '{value}' is no number", USAGE)
    return found


def _counted(where: str, changes: Sequence[LabChange]) -> str:
    """Return how many figures are worse and better; "": there are none."""
    worse, better = (sum(one.worse is is_so for one in changes if one.differs)
                     for is_so in (True, False))  # fmt: skip
    return f"{where} {worse} figures are worse and {better} better" if changes else ""


@dataclass
class ReviewResult:
    """Findings on one governor, before and after.

    Attributes:
        before, after: labels.
        limits: how much a figure may rise.
        command: that makes the review again.
        seed: of all draws.
        base: what the patch was applied to; None: two governors were given.
        reverse: the patch was taken back.
        not_judged: changed paths that replay has not.
        contract: verdicts on rules.
        sweep: of worker.Worker.sweep(); {}: not reached.
        cells: figures before and after.
        bounds: median regret of the shallowest state alone and of the deepest; (): not measured.
        harm, gain: witnesses of the search.
        searched: evaluations, and candidates that held by chance.
        died: how the governor fails, and the smallest spec.
        checkers: findings of checkers, before and after, as lines.
        instructions: by number of states and side.
        unreached: parts that there was no time for, or that failed, with the reason.
        files: cases that were written, by what they show.
        listed: figures of the list's cases; []: they were not played.
        lab: figures of programs in the lab; []: they were not run.
        here: figures of a program on this machine; []: it was not run.
        played: by the name of a case what each governor came to in the lab.
        network: the process had no network.
        column: head of its column in a table of several; "": it is none of several.
    """

    before: str
    after: str
    limits: Mapping[str, float]
    command: str = ""
    seed: int = 1
    base: Base | None = None
    reverse: bool = False
    not_judged: list[str] = field(default_factory=list)
    contract: list[dict[str, Any]] = field(default_factory=list)
    sweep: dict[str, Any] = field(default_factory=dict)
    cells: list[FigureChange] = field(default_factory=list)
    bounds: tuple[float, ...] = ()
    harm: list[dict[str, Any]] = field(default_factory=list)
    gain: list[dict[str, Any]] = field(default_factory=list)
    searched: dict[str, int] = field(default_factory=dict)
    died: dict[str, Any] = field(default_factory=dict)
    checkers: list[str] = field(default_factory=list)
    instructions: dict[str, Any] = field(default_factory=dict)
    unreached: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    listed: list[CaseChange] = field(default_factory=list)
    lab: list[LabChange] = field(default_factory=list)
    here: list[LabChange] = field(default_factory=list)
    played: dict[str, dict[str, str]] = field(default_factory=dict)
    network: bool = True
    column: str = ""

    @property
    def share(self) -> float | None:
        """Share of intervals with a decision that differs; None: not compared."""
        total = self.sweep.get("total", {})
        return total["differ"] / total["periods"] if total.get("periods") else None

    @property
    def same(self) -> bool:
        """No decision differs in what was compared."""
        return self.share == 0 and not self.harm and not self.gain and not self.died

    @property
    def broken(self) -> list[dict[str, Any]]:
        """Rules that are broken now and were not before."""
        return [one for one in self.contract if not one["held"] and one["held_before"]]

    def is_worse(self, cell: FigureChange) -> bool:
        """Return whether a figure rose beyond its limit with every seed."""
        return cell.figure in self.limits and cell.beyond(self.limits[cell.figure])

    def is_better(self, cell: FigureChange) -> bool:
        """Return whether a figure fell beyond its limit with every seed."""
        return cell.figure in self.limits and cell.lower(self.limits[cell.figure])

    @property
    def worse(self) -> list[FigureChange]:
        """Figures that are worse, the worst of a kind first."""
        found = [cell for cell in self.cells if self.is_worse(cell)]
        return sorted(found, key=lambda cell: (cell.figure != "regret", -cell.change))

    @property
    def better(self) -> list[FigureChange]:
        """Figures that are better, the best of a kind first."""
        found = [cell for cell in self.cells if self.is_better(cell)]
        return sorted(found, key=lambda cell: (cell.figure != "regret", cell.change))

    @property
    def verdict(self) -> str:
        """One of WORSE, BETTER, MIXED, SAME, UNJUDGED."""
        booted = [one for one in (*self.lab, *self.here) if one.differs]
        harmed = any(one.worse for one in booted)
        lost = bool(self.died or self.broken or self.worse or self.harm or harmed)
        won = bool(self.better or self.gain or not all(one.worse for one in booted))
        if lost:
            return MIXED if won and not self.died else WORSE
        if won:
            return BETTER
        return UNJUDGED if self.share is None else SAME

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        total = self.sweep.get("total", {})
        if self.died:
            return f"{self.after} {self.died['verdict']} in replay."
        if self.verdict == UNJUDGED:
            return "Nothing could be judged."
        among = f"in {total['differ']:,} of {total['periods']:,} idle periods" if total else ""
        if self.same:
            return f"No decision differs in {total['periods']:,} idle periods."
        figures = len({cell.where for cell in self.cells})
        worse, better = (len({cell.where for cell in cells}) for cells in (self.worse, self.better))
        text = f"Decisions differ {among}" if total.get("differ") else f"Decisions agree {among}"
        cells = f"of {figures} cells {worse} are worse and {better} better" if figures else ""
        rules = f"{len(self.broken)} rules are broken" if self.broken else ""
        search = f"the search found {len(self.harm)} harms and {len(self.gain)} gains"
        verdict = self.verdict.capitalize()
        if self.verdict == SAME:
            verdict = "No figure differs beyond the limits"
        booted = (_counted("in the lab", self.lab), _counted("on this machine", self.here))
        rest = [part for part in (cells, rules, search if self.searched else "", *booted) if part]
        return f"{verdict}. {text}; {'; '.join(rest)}."

    @property
    def exit_code(self) -> int:
        """0: nothing is worse, 1: not judged, 3: something is worse."""
        return {WORSE: EXIT_WORSE, MIXED: EXIT_WORSE, UNJUDGED: 1}.get(self.verdict, 0)

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain data; energy and power are modelled."""
        counterexample = None
        if spec := self.sweep.get("spec"):
            counterexample = {
                "file": self.files.get("counterexample"),
                "intervals": sum(phase["count"] for phase in spec["phases"]),
                "states": len(spec["states"]), "parting": self.sweep["parting"],
            }  # fmt: skip
        base = self.base
        effect = [
            {**cell.as_json(), "unit": FIGURES[cell.figure][0], "worse": self.is_worse(cell),
             "better": self.is_better(cell)} for cell in self.cells
        ]  # fmt: skip
        return {
            "before": self.before, "after": self.after, "column": self.column or None,
            "command": self.command,
            "base": {"kernel": base.kernel, "how": base.how, "fuzz": list(base.notes),
                     "reverse": self.reverse} if base else None,
            "applies": True if base else None,
            "not_judged": self.not_judged,
            "same": self.same, "differs_share": self.share,
            "compared": self.sweep.get("total"), "kinds": self.sweep.get("kinds", {}),
            "counterexample": counterexample,
            "contract": self.contract, "effect": effect, "bounds": list(self.bounds),
            "harm": self._told(self.harm, "harm"), "gain": self._told(self.gain, "gain"),
            "searched": self.searched, "died": self.died or None,
            "cases": [one.as_json() for one in self.listed],
            "lab": [one.as_json() for one in self.lab],
            "here": [one.as_json() for one in self.here],
            "checkers": self.checkers, "instructions": self.instructions,
            "unreached": self.unreached, "limits": dict(self.limits), "verdict": self.verdict,
        }  # fmt: skip

    def _told(self, witnesses: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
        return [{"case": self.files.get(f"{kind}-{n}"), **one,
                 "lab": self.played.get(f"{kind}-{n}")}
                for n, one in enumerate(witnesses, 1)]  # fmt: skip
