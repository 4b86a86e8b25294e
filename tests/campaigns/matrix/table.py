# SPDX-License-Identifier: GPL-2.0
"""The table of what was tried on which kernel, in a section of a document.

A row says when it was run and on which commit; rows that are not run now stay as they are.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import headed, write_whole

BEGIN = "<!-- written by make matrix: begin -->"
END = "<!-- written by make matrix: end -->"

OK = "ok"
FAIL = "**fail**"
ABSENT = "n/a"
UNTRIED = "not run"

WAYS = ("build", "W=1", "clang", "sparse")
STEPS = ("load", "switch", "tune", "hints", "capture", "unload")
COLUMNS = ("row", "kernel", "idle states", *WAYS, *STEPS, "run")


@dataclass(frozen=True)
class Cell:
    """Result of one step.

    Attributes:
        word: one of OK, FAIL, ABSENT, UNTRIED.
        reason: one line; of OK and UNTRIED there is none.
    """

    word: str
    reason: str = ""


@dataclass
class Outcome:
    """Result of one row.

    Attributes:
        row: its name.
        kernel: the kernel's release string.
        states: driver and idle states that it was run with.
        cells: by step; a step that is missing was not run.
    """

    row: str
    kernel: str = "?"
    states: str = "?"
    cells: dict[str, Cell] = field(default_factory=dict)

    def failed(self) -> bool:
        """Return whether any step failed, or the row ended before all were done."""
        return any(self._cell(step).word in (FAIL, UNTRIED) for step in (*WAYS, *STEPS))

    def line(self, run: str) -> str:
        """Return the row of the table; `run` says when and on what it was run."""
        words = [self._cell(step).word for step in (*WAYS, *STEPS)]
        return f"| {' | '.join([self.row, self.kernel, self.states, *words, run])} |"

    def notes(self) -> list[str]:
        """Return the reasons, one a line."""
        given = [(step, self._cell(step)) for step in (*WAYS, *STEPS)]
        return [
            f"- {self.row}, {step}, {cell.word}: {one_line(cell.reason)}"
            for step, cell in given
            if cell.reason
        ]

    def _cell(self, step: str) -> Cell:
        return self.cells.get(step, Cell(UNTRIED))


def one_line(text: str, limit: int = 160) -> str:
    """Return the first line of a text, shortened, without what means something in a table.

    Paths of this machine and addresses have no place in a document.
    """
    first = (text.strip().splitlines() or ["?"])[0].replace("|", "/").replace("<", "&lt;")
    first = re.sub(r"\w+://\S+", "…", first.replace(f"{TOP}/", ""))
    return first if len(first) <= limit else first[: limit - 1] + "…"


def section(document: Path) -> tuple[str, str, str]:
    """Return a document's text before, in and after its section.

    Raises:
        UserError: it has none.
    """
    text = document.read_text(encoding="utf-8")
    match = re.fullmatch(f"(.*{BEGIN}\n)(.*)({END}.*)", text, re.DOTALL)
    if match is None:
        raise UserError(f"{document} has no section between '{BEGIN}' and '{END}'")
    return match[1], match[2], match[3]


def merged(old: str, order: Sequence[str], outcome: Outcome, run: str) -> str:
    """Return the text of the section.

    Args:
        old: its text so far.
        order: names of all rows there are; others are dropped.
        outcome: of the row that was run now.
        run: when, and on which commit.
    """
    lines, notes = _parsed(old, order)
    lines[outcome.row] = outcome.line(run)
    notes[outcome.row] = outcome.notes()
    head = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    rows = [lines.get(name, Outcome(name).line("never")) for name in order]
    reasons = [note for name in order for note in notes.get(name, ())]
    return "\n".join([*head, *rows, *(["", *reasons] if reasons else []), ""])


def _parsed(old: str, order: Sequence[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    lines: dict[str, str] = {}
    notes: dict[str, list[str]] = {}
    for line in old.splitlines():
        for name in order:
            if line.startswith(f"| {name} |") and line.count("|") == len(COLUMNS) + 1:
                lines[name] = line
            elif line.startswith(f"- {name}, "):
                notes.setdefault(name, []).append(line)
    return lines, notes


def write(document: Path, order: Sequence[str], outcome: Outcome, run: str) -> None:
    """Rewrite a row in a document's section; see merged().

    Raises:
        UserError: it has none, or cannot be written.
    """
    before, old, after = section(document)
    text = before + merged(old, order, outcome, run) + after
    write_whole(document, text, headed(text))
