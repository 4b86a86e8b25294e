# SPDX-License-Identifier: GPL-2.0
"""Tables, the same in the terminal, in JSON and in the document."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console

from cpuidle_lab.evidence.plots import Plot
from cpuidle_lab.view.terminal import grid

Cell = str | float | int | None


@dataclass(frozen=True)
class Table:
    """Figures in rows.

    Attributes:
        title: what they are.
        heads: titles of the columns.
        rows: cells; numbers are shown with `digits`, None as a dash.
        digits: places after the decimal point.
        note: what a reader must know, "" if nothing.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    digits: int = 1
    note: str = ""

    def text(self) -> list[list[str]]:
        """Return all cells as text."""
        return [[show(cell, self.digits) for cell in row] for row in self.rows]

    @property
    def right(self) -> list[bool]:
        """Tell for each column whether it holds numbers."""
        return [
            any(isinstance(row[n], int | float) for row in self.rows)
            for n in range(len(self.heads))
        ]

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [" | ".join(self.heads), "|".join("--:" if r else "---" for r in self.right)]
        lines += [" | ".join(cell.replace("|", "\\|") for cell in row) for row in self.text()]
        text = "\n".join(f"| {line} |" if "--" not in line[:3] else f"|{line}|" for line in lines)
        return text + (f"\n\n{self.note}" if self.note else "")

    def print(self, out: Console) -> None:
        """Print the table."""
        heads = list(zip(self.heads, self.right, strict=True))
        out.print(grid(out, self.title, heads, self.text(), self.note))


@dataclass(frozen=True)
class Verdict:
    """Verdict on a promise.

    Attributes:
        state: HELD, MISSED, or why there is no figure.
        promise: what was promised.
        figures: by which it is held or missed; of an open one, what to do.
    """

    state: str
    promise: str
    figures: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.state, self.promise, self.figures) if part)


HELD, MISSED, OPEN, ABSENT = "held", "MISSED", "not measured", "not available"


@dataclass
class Section:
    """Findings of one part of a measurement.

    Attributes:
        part: its name on the command line.
        title: heading.
        verdicts: on each promise.
        tables: the figures.
        plots: pictures of them.
        data: everything, for JSON.
    """

    part: str
    title: str
    verdicts: list[Verdict] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    data: dict[str, object] = field(default_factory=dict)

    def markdown(self, folder: str) -> str:
        """Return the section for a document whose pictures are in `folder`, without its title."""
        parts = ["\n".join(f"- {line}" for line in self.verdicts)]
        for table in self.tables:
            text = f"\n\n{table.markdown()}" if table.rows else ": none."
            parts.append(f"**{table.title}**{text}")
        parts += [f"![{plot.title}]({folder}/{plot.name}.svg)" for plot in self.plots]
        return "\n\n".join(part for part in parts if part)

    def print(self, out: Console) -> None:
        """Print the tables and the verdicts."""
        for table in self.tables:
            table.print(out)
        for line in self.verdicts:
            out.print(str(line), markup=False, soft_wrap=True)


def show(cell: Cell, digits: int) -> str:
    """Return a cell as text."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        text = f"{cell:,.{digits}f}"
        return text if any(c in "123456789" for c in text) else text.removeprefix("-")
    return f"{cell:,}" if isinstance(cell, int) else cell


def verdict(held: bool, promise: str, figures: str) -> Verdict:
    """Return whether a promise is held."""
    return Verdict(HELD if held else MISSED, promise, figures)
