# SPDX-License-Identifier: GPL-2.0
"""The figures of domains as a page."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape

from cpuidle_lab.domains import charts, domains_text
from cpuidle_lab.domains.domains_text import Grid
from cpuidle_lab.domains.observed import Observed
from cpuidle_lab.domains.replayed import Replayed
from cpuidle_lab.view.drawing import Chart
from cpuidle_lab.view.html_page import (
    Part,
    chart_card,
    generator,
    pictures,
    summary,
    table,
    table_cell,
    table_head,
)
from cpuidle_lab.view.html_page import render as page

COMMAND = "domains"
GENERATOR = generator(COMMAND)

# Reasons to show of each domain, where no option says it.
TOP = 8

_CAPTION = (
    "Could: all CPUs of the domain were idle. Allowed: all were in states deep enough for a state "
    "of the domain. Paid: they were so for at least its target residency."
)
_CAPTION_OF_GOVERNORS = (
    "Regret: modelled energy of CPUs and domains together beyond the joint oracle. Own: beyond an "
    "oracle of each CPU alone. Neighbours: the rest, not knowing when the others wake up."
)


def html_table(found: Grid) -> str:
    """Return a table of text as HTML."""
    kinds = ["" if right else "text" for _, right in found.heads]
    heads = [
        table_head(name, kind=kind) for (name, _), kind in zip(found.heads, kinds, strict=True)
    ]
    rows = (
        [table_cell(escape(cell), kind) for cell, kind in zip(row, kinds, strict=True)]
        for row in found.rows
    )
    return table(heads, rows)


def notes_list(notes: Iterable[str]) -> str:
    """Return notes as a list; nothing if there are none."""
    lines = "".join(f"<li>{escape(note)}.</li>" for note in notes)
    return f"<ul class='soft'>{lines}</ul>" if lines else ""


def _cards(found: Observed, top: int) -> str:
    return "\n".join(
        f'<div class="card table"><h3>{escape(each.title)}</h3>{html_table(each)}</div>'
        for each in domains_text.kept_awake(found, top)
    )


def _charts(found: Observed) -> list[Chart]:
    drawn = [charts.strips(found.parts), charts.blamed(found.parts)]
    return [chart for chart in drawn if chart is not None]


def _page(
    heading: str, first: Part, parts: Sequence[Part], shown: Sequence[Chart], made: str
) -> str:
    facts = '<p class="facts">All energy is modelled, not measured.</p>'
    return page(COMMAND, heading, facts, [first, pictures(shown), *parts], shown, made)


def render(found: Observed, top: int, made: str) -> str:
    """Return the page of a recording.

    Args:
        found: the figures.
        top: reasons to show of each domain.
        made: HTML of the footer: when and by which command.
    """
    content = html_table(domains_text.asleep(found)) + notes_list(domains_text.notes(found))
    cards = _cards(found, top)
    parts = [Part("awake", "Kept awake", cards)] if cards else []
    first = summary("At a glance", _CAPTION, content)
    return _page(f"Domains of {found.path.name}", first, parts, _charts(found), made)


def render_governors(found: Replayed, made: str) -> str:
    """Return the page of a replay of governors.

    Args:
        found: the figures.
        made: HTML of the footer: when and by which command.
    """
    notes = notes_list(domains_text.governor_notes(found))
    content = html_table(domains_text.governors(found)) + notes
    drawn = charts.regrets(found)
    heading = f"Governors on all CPUs of {found.source.path.name}"
    first = summary("At a glance", _CAPTION_OF_GOVERNORS, content)
    return _page(heading, first, [], [drawn] if drawn else [], made)


def section(each: Sequence[Observed | Replayed]) -> list[tuple[Part, list[Chart]]]:
    """Return the section of domains on another command's page, with its charts.

    Args:
        each: of each recording; none: there is no section.
    """
    content, shown = [], []
    for n, found in enumerate(each):
        if isinstance(found, Observed):
            grid, notes = domains_text.asleep(found), domains_text.notes(found)
            drawn, path, caption = _charts(found), found.path, _CAPTION
        else:
            grid, notes = domains_text.governors(found), domains_text.governor_notes(found)
            one = charts.regrets(found)
            drawn, path, caption = [one] if one else [], found.source.path, _CAPTION_OF_GOVERNORS
        mine = [replace(chart, key=f"{chart.key}-{n}") for chart in drawn]
        content.append(
            f'<div class="card table"><h3>{escape(str(path))}</h3><p>{caption}</p>'
            f"{html_table(grid)}{notes_list(notes)}</div>{''.join(map(chart_card, mine))}"
        )
        if isinstance(found, Observed):
            content.append(_cards(found, TOP))
        shown += mine
    return [(Part("domains", "Domains", "\n".join(content)), shown)] if content else []
