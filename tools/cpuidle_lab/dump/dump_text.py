# SPDX-License-Identifier: GPL-2.0
"""A comparison in the terminal."""

from collections.abc import Sequence

from cpuidle_lab.dump import sheets
from cpuidle_lab.dump.report import Report
from cpuidle_lab.view.terminal import console, grid


def show(report: Report, kinds: Sequence[str]) -> None:
    """Print warnings, tables and limits.

    Args:
        report: the comparison.
        kinds: groups that have tables by state.
    """
    out = console()

    def say(text: str) -> None:
        out.print(text, markup=False, soft_wrap=True)

    for line in sheets.sides(report):
        say(line)
    for text in sheets.warnings(report):
        say(f"warning: {text}")
    for sheet in (
        *sheets.overall(report),
        *sheets.changes(report),
        *sheets.by_state(report, kinds),
        *sheets.spent(report),
    ):
        heads = [
            (head, n >= sheet.left and head != "meaning") for n, head in enumerate(sheet.heads)
        ]
        out.print(grid(out, sheet.title, heads, sheet.rows, "\n".join(sheet.notes)))
    for text in report.limits:
        say(f"not said: {text}")
