# SPDX-License-Identifier: GPL-2.0
"""Tables and progress in the terminal; plain text where the output is no terminal."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from cpuidle_lab.base.errors import printable
from cpuidle_lab.base.progress import live_line

# Width where there is no terminal: enough for every column.
_PLAIN_WIDTH = 200


def console() -> Console:
    """Return where to print: plain text if the output is no terminal."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)


@contextmanager
def meter(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show how far a part of the work is, and the time left; nothing where there is no terminal.

    Yields:
        What counts; for any thread.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    lock = threading.Lock()
    with live_line(*columns) as line:
        task = line.add_task(title, total=total or None)

        def count(steps: int) -> None:
            with lock:
                line.advance(task, steps)

        yield count


def print_note(out: Console, note: str, *, soft_wrap: bool = False) -> None:
    """Print a note on one line; names in it may hold control bytes, line ends among them."""
    text = printable(f"note: {note}").replace("\n", "\\x0a")
    out.print(Text(text, style="dim"), soft_wrap=soft_wrap)


def new_table(out: Console, title: str = "", note: str = "") -> Table:
    """Return a table to be printed on `out`: thin lines in a terminal, else plain characters.

    Args:
        out: where it will be printed.
        title: above it; "" is none.
        note: below it; "" is none.
    """
    return Table(
        title=Text(printable(title)) if title else None,
        title_justify="left",
        title_style="bold",
        caption=Text(printable(note)) if note else None,
        caption_justify="left",
        box=box.SIMPLE_HEAD if out.is_terminal else box.ASCII2,
        pad_edge=False,
    )


def grid(
    out: Console,
    title: str,
    heads: Sequence[tuple[str, bool]],
    rows: Iterable[Sequence[str]],
    note: str = "",
) -> Table:
    """Return a table to be printed on `out`.

    Args:
        out: a terminal gets thin lines, anything else plain characters.
        title: above it; "" is none.
        heads: title of each column, and whether it is aligned to the right.
        rows: cells.
        note: below it.
    """
    found = new_table(out, title, note)
    for head, right in heads:
        found.add_column(head, justify="right" if right else "left")
    for row in rows:
        found.add_row(*(Text(printable(cell)) for cell in row))
    return found


@dataclass(frozen=True)
class Column:
    """A column of a table: its title, a text for each row, and where the texts stand."""

    title: str
    cells: list[str]
    justify: Literal["left", "right"] = "right"

    @property
    def width(self) -> int:
        """Cells of the terminal that it takes, those between columns included."""
        lines = [*self.title.split("\n"), *self.cells]
        return max(cell_len(line) for line in lines) + 3


def print_columns(out: Console, title: str, columns: list[Column], rules: set[int]) -> None:
    """Print a table; as several where it is too wide, each with the first column.

    Args:
        out: where to.
        title: above it.
        columns: the columns.
        rules: rows above which there is a line.
    """
    first, *rest = columns
    while rest:
        room = out.width - first.width
        count = 0
        while count < len(rest) and (room := room - rest[count].width) >= 0:
            count += 1
        shown = [first, *rest[: max(1, count)]]
        rest = rest[max(1, count) :]
        table = new_table(out, title)
        for column in shown:
            table.add_column(Text(printable(column.title)), justify=column.justify, no_wrap=True)
        for row in range(len(first.cells)):
            if row in rules:
                table.add_section()
            table.add_row(*(Text(printable(column.cells[row])) for column in shown))
        out.print(table)
        title = ""
