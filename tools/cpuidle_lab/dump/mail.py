# SPDX-License-Identifier: GPL-2.0
"""A comparison as a mail: plain text of 72 columns."""

import textwrap
from collections.abc import Iterator, Sequence

from cpuidle_lab.base.errors import printable
from cpuidle_lab.dump import groups, sheets
from cpuidle_lab.dump.report import Report
from cpuidle_lab.dump.sheets import Sheet

WIDTH = 72
# A name in the first column is cut to this.
_NAME = 24


def _plain(text: str) -> str:
    """Return text in ASCII, as all mailers show it."""
    return printable(text).encode("ascii", "backslashreplace").decode().replace("\n", " ")


def _wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(_plain(text), WIDTH, initial_indent=first, subsequent_indent=rest) or [""]


def _cut(text: str) -> str:
    return text if len(text) <= _NAME else f"{text[: _NAME - 3]}..."


def _widths(sheet: Sheet, columns: Sequence[int]) -> list[int]:
    return [max(len(line[n]) for line in (sheet.heads, *sheet.rows)) for n in columns]


def _parts(sheet: Sheet, keys: int) -> Iterator[list[int]]:
    """Yield the columns of each part of a table that is too wide: keys, then those that fit."""
    rest = list(range(keys, len(sheet.heads)))
    while rest:
        shown = list(range(keys))
        while rest and (len(shown) == keys or _fits(sheet, [*shown, rest[0]])):
            shown.append(rest.pop(0))
        yield shown


def _fits(sheet: Sheet, columns: Sequence[int]) -> bool:
    return sum(_widths(sheet, columns)) + 2 * (len(columns) - 1) <= WIDTH


def lines_of(sheet: Sheet) -> Iterator[str]:
    """Yield the lines of a table, in parts where it is too wide."""
    rows = tuple(tuple(_cut(_plain(text)) for text in row) for row in sheet.rows)
    sheet = Sheet(sheet.title, sheet.heads, rows, sheet.left, sheet.notes)
    if sheet.title:
        yield from _wrapped(sheet.title)
    for part, columns in enumerate(_parts(sheet, sheet.left)):
        if part:
            yield ""
        widths = _widths(sheet, columns)
        last = ""
        for line in (sheet.heads, *sheet.rows):
            # A name stands once above its lines.
            cells = [line[n] for n in columns]
            if cells[0] == last:
                cells[0] = ""
            last = line[0]
            yield "  ".join(
                text.ljust(width) if n < sheet.left or sheet.heads[n] == "meaning"
                else text.rjust(width)
                for n, text, width in zip(columns, cells, widths, strict=True)
            ).rstrip()  # fmt: skip
    for note in sheet.notes:
        yield from _wrapped(note, rest="  ")


def render(report: Report, kinds: Sequence[str] = (groups.ALL,)) -> str:
    """Return the mail.

    Args:
        report: the comparison.
        kinds: groups that have tables by state.
    """
    lines: list[str] = []
    for line in sheets.sides(report):
        lines += _wrapped(line, rest="   ")
    warned = sheets.warnings(report)
    lines += ["", "Warnings:"] if warned else []
    for text in warned:
        lines += _wrapped(text, "- ", "  ")
    tables = [
        *sheets.overall(report),
        *sheets.changes(report),
        *sheets.by_state(report, kinds),
        *sheets.spent(report),
    ]
    for sheet in tables:
        lines += ["", *lines_of(sheet)]
    lines += ["", "Not said by these figures:"]
    for text in report.limits:
        lines += _wrapped(text, "- ", "  ")
    return "\n".join([*lines, ""])
