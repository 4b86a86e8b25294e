# SPDX-License-Identifier: GPL-2.0
"""How many branches of the kernel's governors the stream of idle periods reaches."""

import json
from dataclasses import dataclass
from pathlib import Path

from tests.equality.harness import run


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
    """The branches of one source.

    Attributes:
        source: name of the file.
        branches: how many there are, as compiled without optimisation.
        taken: how many were taken.
        missed: the others.
    """

    source: str
    branches: int
    taken: int
    missed: list[Missed]

    @property
    def percent(self) -> float:
        """Share of the branches that were taken, in percent."""
        return 100.0 * self.taken / self.branches if self.branches else 0.0


def read(item: Path, source: Path) -> Coverage:
    """Return what was counted for a source that was compiled into an object.

    Raises:
        UserError: gcov failed.
    """
    text = run(
        ["gcov", "--branch-probabilities", "--json-format", "--stdout", item], cwd=item.parent
    )
    lines = source.read_text(encoding="utf-8").splitlines()
    branches = taken = 0
    missed = []
    for file in json.loads(text)["files"]:
        if Path(file["file"]).name != source.name:
            continue
        for line in file["lines"]:
            for branch in line["branches"]:
                branches += 1
                if branch["count"]:
                    taken += 1
                    continue
                number = line["line_number"]
                missed.append(Missed(number, lines[number - 1].strip()))
    return Coverage(source.name, branches, taken, missed)
