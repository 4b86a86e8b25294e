# SPDX-License-Identifier: GPL-2.0
"""Number of a source's lines and branches that a run reached, by gcov."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.proofs.equality.harness import run


@dataclass(frozen=True)
class Missed:
    """A branch that was not taken.

    Attributes:
        line: number of its line.
        text: the line.
    """

    line: int
    text: str


@dataclass(frozen=True)
class Coverage:
    """Coverage of one source.

    Attributes:
        source: name of the file.
        lines: how many have code.
        reached: how many of them ran.
        branches: how many there are, as compiled without optimisation.
        taken: how many of them were taken.
        missed: the other branches.
        missed_lines: numbers of the other lines.
    """

    source: str
    lines: int
    reached: int
    branches: int
    taken: int
    missed: list[Missed]
    missed_lines: list[int]

    @property
    def percent(self) -> float:
        """Share of the branches that were taken, in percent."""
        return 100.0 * self.taken / self.branches if self.branches else 100.0

    @property
    def line_percent(self) -> float:
        """Share of the lines that ran, in percent."""
        return 100.0 * self.reached / self.lines if self.lines else 100.0


def read(objects: Sequence[Path], source: Path) -> Coverage:
    """Return what was counted for a source.

    Args:
        objects: those that it was compiled into; a header may be in several, and then a line
            or branch counts that was reached in any of them.
        source: the file.

    Raises:
        UserError: gcov failed.
    """
    lines: dict[int, int] = {}
    branches: dict[tuple[int, int], int] = {}
    for item in objects:
        command = ["gcov", "--branch-probabilities", "--json-format", "--stdout", str(item)]
        for file in json.loads(run(command, cwd=item.parent))["files"]:
            if Path(file["file"]).name != source.name:
                continue
            for line in file["lines"]:
                number = line["line_number"]
                lines[number] = lines.get(number, 0) + line["count"]
                for index, branch in enumerate(line["branches"]):
                    at = number, index
                    branches[at] = branches.get(at, 0) + branch["count"]
    text = source.read_text(encoding="utf-8").splitlines()
    return Coverage(
        source.name,
        len(lines),
        sum(count > 0 for count in lines.values()),
        len(branches),
        sum(count > 0 for count in branches.values()),
        [Missed(at[0], text[at[0] - 1].strip()) for at, count in branches.items() if not count],
        sorted(number for number, count in lines.items() if not count),
    )
