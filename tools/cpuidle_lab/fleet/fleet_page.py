# SPDX-License-Identifier: GPL-2.0
"""The answers on a fleet as a page."""

from collections.abc import Iterable, Sequence
from html import escape

from cpuidle_lab.fleet.answers import Answers
from cpuidle_lab.fleet.fleet_text import (
    FAILED_HEADS,
    HARM_HEADS,
    LINE_HEADS,
    Head,
    harm_cells,
    headline,
    line_cells,
    reasons,
    rollout,
)
from cpuidle_lab.view import html_page as base
from cpuidle_lab.view.html_page import Part

COMMAND = "fleet"
GENERATOR = base.generator(COMMAND)


def _table(heads: Sequence[Head], rows: Iterable[Sequence[str]]) -> str:
    kinds = ["" if right else "text" for _, right in heads]
    made = [
        base.table_head(title, kind=kind) for (title, _), kind in zip(heads, kinds, strict=True)
    ]
    cells = (
        [base.table_cell(escape(text), kind) for text, kind in zip(row, kinds, strict=True)]
        for row in rows
    )
    return f'<div class="card table">{base.table(made, cells)}</div>'


def render(answers: Answers, command: str) -> str:
    """Return the page."""
    said = "".join(
        f"<p>{'<br>'.join(escape(line) for line in rollout(one, answers))}</p>"
        for one in answers.rollouts
    )
    notes = "".join(f"<li>{escape(note)}.</li>" for note in answers.notes)
    parts = [
        base.summary("Roll-outs", "Modelled energy, not measured. Intervals are over machines.",
                     f"{said}<ul class='soft'>{notes}</ul>"),
        Part("kinds", "By kind and service",
             _table(LINE_HEADS, map(line_cells, answers.lines))),
        Part("worse", "Machines that get worse",
             _table(HARM_HEADS, map(harm_cells, answers.harmed))),
        Part("failed", "Recordings that do not count",
             _table(FAILED_HEADS, reasons(answers))),
    ]  # fmt: skip
    facts = (
        f'<p class="facts">{answers.counted:,} of {answers.recordings:,} recordings count, of '
        f"{answers.machines:,} machines.</p>"
    )
    return base.render(
        COMMAND, headline(answers), facts, parts, [], f"<code>{escape(command)}</code>"
    )
