# SPDX-License-Identifier: GPL-2.0
"""A comparison in the terminal, and the progress towards it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from cpuidle_lab.compare.figures import (
    Line,
    headline,
    is_worse,
    lines,
    notes,
    regret,
    show,
    show_range,
)
from cpuidle_lab.compare.model import Comparison
from cpuidle_lab.compare.spec import BAYES, BEST_KIND, LIMIT_KIND

# Width where there is no terminal: enough for every column.
_PLAIN_WIDTH = 200

_COLUMNS = {
    "latency_p50_us": "p50\nus",
    "latency_p99_us": "p99\nus",
    "latency_max_us": "max\nus",
    "above": "above\n%",
    "below": "below\n%",
    "tick_wakeups": "ticks\n%",
}


@contextmanager
def phase(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how far a part of the work is, and the time left; nothing where there is no terminal."""
    console = Console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with progress:
        task = progress.add_task(title, total=total)
        yield lambda count: progress.advance(task, count)


def title_of(line: Line) -> str:
    """Return how a governor is called in a table."""
    return f"{line.label} (floor estimate)" if line.label == BAYES else line.label


@dataclass(frozen=True)
class _Column:
    """A column of a table: its title, a text for each row, and where the texts stand."""

    title: str
    cells: list[str]
    justify: Literal["left", "right"] = "right"

    @property
    def width(self) -> int:
        """Cells of the terminal that it takes, those between columns included."""
        lines = [*self.title.split("\n"), *self.cells]
        return max(cell_len(line) for line in lines) + 3


def _print(console: Console, title: str, columns: list[_Column], rules: set[int]) -> None:
    """Print a table; as several where it is too wide, each with the first column.

    Args:
        console: where to.
        title: above it.
        columns: the columns.
        rules: rows above which there is a line.
    """
    first, *rest = columns
    while rest:
        room = console.width - first.width
        count = 0
        while count < len(rest) and (room := room - rest[count].width) >= 0:
            count += 1
        shown = [first, *rest[: max(1, count)]]
        rest = rest[max(1, count) :]
        table = Table(
            title=Text(title) if title else None,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD if console.is_terminal else box.ASCII2,
            pad_edge=False,
        )
        for column in shown:
            table.add_column(Text(column.title), justify=column.justify, no_wrap=True)
        for row in range(len(first.cells)):
            if row in rules:
                table.add_section()
            table.add_row(*(Text(column.cells[row]) for column in shown))
        console.print(table)
        title = ""


def _summary(comparison: Comparison, found: list[Line]) -> list[_Column]:
    several = len(comparison.sources) > 1
    columns = [_Column("governor", [title_of(line) for line in found], "left")]
    title = "mean\nregret %" if several else "regret\n%"
    columns.append(_Column(title, [show("mean_regret", line.mean_regret) for line in found]))
    if any(line.low is not None for line in found):
        columns.append(_Column("95 %\ninterval", [show_range(x.low, x.high) for x in found]))
    if several:
        worst = [show("worst_regret", line.worst_regret) for line in found]
        columns.append(_Column("worst\nregret %", worst))
        columns.append(_Column("worst\ntrace", [line.worst_trace for line in found], "left"))
    for key, title in _COLUMNS.items():
        columns.append(_Column(title, [show(key, line.values[key]) for line in found]))
    if comparison.counted:
        counts = [
            "" if line.kind == LIMIT_KIND else show("instructions", line.values["instructions"])
            for line in found
        ]
        columns.append(_Column("instr.", counts))
    return columns


def _by_trace(comparison: Comparison, found: list[Line]) -> list[_Column]:
    columns = [_Column("trace", [source.label for source in comparison.sources], "left")]
    for line in found:
        cells = []
        for result in comparison.of_governor(line.label):
            worse = is_worse(comparison, result) and line.kind != LIMIT_KIND
            cells.append("!" * worse + show("regret", regret(result)))
        columns.append(_Column(line.label, cells))
    return columns


def show_tables(comparison: Comparison) -> None:
    """Print the tables; plain text where the output is no terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_PLAIN_WIDTH)
    found, sources = lines(comparison), comparison.sources
    console.print(Text(headline(comparison), style="bold"))
    console.print()
    several = len(comparison.sources) > 1
    where = f"over {len(sources)} recordings" if several else f"on {sources[0].label}"
    kinds = [line.kind for line in found]
    rules = {kinds.index(kind) for kind in (BEST_KIND, LIMIT_KIND) if kind in kinds}
    title = f"Governors {where}, the least regret first"
    _print(console, title, _summary(comparison, found), rules)
    if several:
        title = "Regret in %, by recording; ! is worse than the best mainline"
        _print(console, title, _by_trace(comparison, found), set())
    for note in notes(comparison):
        console.print(Text(f"note: {note}", style="dim"))
    console.print(
        Text(
            "p50, p99, max: modelled wake-up latency; instr.: instructions per decision; all "
            "energy is modelled; ?: unknown"
        )
    )
