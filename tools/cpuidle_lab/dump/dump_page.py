# SPDX-License-Identifier: GPL-2.0
"""A comparison as one HTML page."""

from collections.abc import Sequence
from html import escape

from cpuidle_lab.dump import sheets
from cpuidle_lab.dump.figures import METRICS
from cpuidle_lab.dump.pictures import pictures
from cpuidle_lab.dump.report import Report
from cpuidle_lab.dump.sheets import Sheet
from cpuidle_lab.evidence.plots import svg
from cpuidle_lab.view import html_page
from cpuidle_lab.view.html_page import Part, table, table_cell, table_head

COMMAND = "diff"
GENERATOR = html_page.generator(COMMAND)


def _table(sheet: Sheet) -> str:
    title = f"<h3>{escape(sheet.title)}</h3>" if sheet.title else ""
    notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in sheet.notes)
    rows = [[table_cell(escape(text)) for text in row] for row in sheet.rows]
    return f"{title}{table(map(table_head, sheet.heads), rows)}{notes}"


def _part(key: str, title: str, tables: Sequence[Sheet]) -> list[Part]:
    if not tables:
        return []
    return [Part(key, title, f'<div class="card wide">{"".join(map(_table, tables))}</div>')]


def _card(key: str, title: str, content: str) -> Part:
    return Part(key, title, f'<div class="card">{content}</div>')


def _drawn(report: Report, kinds: Sequence[str]) -> list[Part]:
    """Return the section of the pictures; they need no script."""
    found = "".join(f'<div class="scroll">{svg(plot)}</div>' for plot in pictures(report, kinds))
    note = "A figure that is withheld has no mark; the tables have the reason."
    return [_card("pictures", "Pictures", f"<p>{note}</p>{found}")] * bool(found)


def _list(texts: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def render(report: Report, kinds: Sequence[str]) -> str:
    """Return the page.

    Args:
        report: the comparison.
        kinds: groups that have tables by state.
    """
    warned = sheets.warnings(report)
    meanings = "".join(
        f"<dt>{escape(sheets.heading(metric))}{f', {metric.unit}' if metric.unit else ''}</dt>"
        f"<dd>{escape(metric.about)}</dd>"
        for metric in METRICS.values()
    )
    parts = [
        *([_card("warnings", "Warnings", _list(warned))] * bool(warned)),
        *_drawn(report, kinds),
        *_part("overall", "All states", list(sheets.overall(report))),
        *_part("changes", "Differences", list(sheets.changes(report))),
        *_part("states", "By idle state", list(sheets.by_state(report, kinds))),
        *_part("spent", "Energies", list(sheets.spent(report))),
        _card("limits", "Not said by these figures", _list(report.limits)),
        _card("definitions", "What the figures mean", f"<dl>{meanings}</dl>"),
    ]
    facts = "<br>".join(map(escape, sheets.sides(report)))
    heading = " and ".join(side.name for side in report.sides)
    return html_page.render(COMMAND, heading, facts, parts, (), "counters of the kernel's sysfs")
