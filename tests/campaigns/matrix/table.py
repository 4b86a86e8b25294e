# SPDX-License-Identifier: GPL-2.0
"""The table of the steps that were tried on each kernel."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.evidence.tables import Table

OK = "ok"
FAIL = "**fail**"
ABSENT = "n/a"
UNTRIED = "not run"

WAYS = ("build", "W=1", "clang", "sparse")
STEPS = ("load", "switch", "tune", "hints", "capture", "unload")
COLUMNS = ("row", "kernel", "idle states", *WAYS, *STEPS, "run")


@dataclass(frozen=True)
class StepResult:
    """The result of one step.

    Attributes:
        word: one of OK, FAIL, ABSENT, UNTRIED.
        reason: one line; of OK and UNTRIED there is none.
    """

    word: str
    reason: str = ""


@dataclass
class Outcome:
    """The result of one row.

    Attributes:
        row: its name.
        kernel: the kernel's release string.
        states: driver and idle states that it was run with.
        run: day and commit.
        cells: by step; a step that is missing was not run.
    """

    row: str
    kernel: str = "?"
    states: str = "?"
    run: str = "never"
    cells: dict[str, StepResult] = field(default_factory=dict)

    def failed(self) -> bool:
        """Return whether any step failed, or the row ended before all were done."""
        return any(self._cell(step).word in (FAIL, UNTRIED) for step in (*WAYS, *STEPS))

    def words(self) -> list[str]:
        """Return the row of the table."""
        cells = [self._cell(step).word for step in (*WAYS, *STEPS)]
        return [self.row, self.kernel, self.states, *cells, self.run]

    def notes(self) -> list[str]:
        """Return the reasons, one a line."""
        given = [(step, self._cell(step)) for step in (*WAYS, *STEPS)]
        return [
            f"- {self.row}, {step}, {cell.word}: {one_line(cell.reason)}"
            for step, cell in given
            if cell.reason
        ]

    def _cell(self, step: str) -> StepResult:
        return self.cells.get(step, StepResult(UNTRIED))


def one_line(text: str, limit: int = 160) -> str:
    """Return the first line of a text, shortened, without what means something in a table.

    Paths of this machine and addresses have no place in a document.
    """
    first = (text.strip().splitlines() or ["?"])[0].replace("|", "/").replace("<", "&lt;")
    first = re.sub(r"\w+://\S+", "…", first.replace(f"{TOP}/", ""))
    return first if len(first) <= limit else first[: limit - 1] + "…"


def markdown(kept: Iterable[Mapping[str, Any]]) -> str:
    """Return the table, and the reasons below it.

    Args:
        kept: outcomes as mappings.
    """
    outcomes = [
        Outcome(
            **{**row, "cells": {step: StepResult(**cell) for step, cell in row["cells"].items()}}
        )
        for row in kept
    ]
    rows = Table("", COLUMNS, [outcome.words() for outcome in outcomes]).markdown()
    notes = "\n".join(note for outcome in outcomes for note in outcome.notes())
    return f"{rows}\n\n{notes}" if notes else rows
