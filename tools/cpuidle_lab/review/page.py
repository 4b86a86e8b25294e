# SPDX-License-Identifier: GPL-2.0
"""The result as an HTML page with plots, which needs no network and no script."""

from collections.abc import Sequence
from html import escape

from cpuidle_lab.evidence.plots import Line, Plot, svg
from cpuidle_lab.review.effect import FIGURES, FigureChange
from cpuidle_lab.review.mail import closing, lines_of
from cpuidle_lab.review.result import ReviewResult
from cpuidle_lab.view.html_page import Part, generator, render, table, table_cell, table_head

COMMAND = "review"
GENERATOR = generator(COMMAND)
_ROWS = 60


def _plot(cells: Sequence[FigureChange], figure: str) -> str:
    """Return a picture of a figure before and after, over all places."""
    mine = [cell for cell in cells if cell.figure == figure]
    mine = sorted(mine, key=lambda cell: -abs(cell.change))[:_ROWS][::-1]
    if not mine:
        return ""
    sides = {
        side: [(value, float(row)) for row, cell in enumerate(mine)
               for value in getattr(cell, side)] for side in ("before", "after")
    }  # fmt: skip
    lines = [Line(side, points, joined=False) for side, points in sides.items()]
    title = f"{figure}: the {len(mine)} places where it changes most"
    return svg(Plot(figure, title, f"{figure}, {FIGURES[figure][0]}", "", lines,
                    categories=[cell.where for cell in mine]))  # fmt: skip


def _word(result: ReviewResult, cell: FigureChange) -> str:
    return "worse" if result.is_worse(cell) else "better" if result.is_better(cell) else ""


def _cells(result: ReviewResult) -> str:
    heads = [table_head(title) for title in ("place", "figure", "before", "after", "")]
    rows = [
        [table_cell(escape(cell.where)), table_cell(cell.figure),
         *(table_cell(", ".join(f"{value:.4g}" for value in one), "number")
           for one in (cell.before, cell.after)),
         table_cell(_word(result, cell))]
        for cell in result.cells
    ]  # fmt: skip
    return table(heads, rows)


def _parts(result: ReviewResult, number: int) -> list[Part]:
    text = escape("\n".join([*lines_of(result), "", *closing(result)]))
    pictures = "\n".join(_plot(result.cells, figure) for figure in ("regret", "energy", "p99"))
    title = escape(f"{result.before}, {result.after}")
    found = [Part(f"verdict-{number}", title, f"<pre>{text}</pre>")]
    if result.cells:
        found += [
            Part(f"pictures-{number}", "Pictures", pictures),
            Part(f"cells-{number}", "All figures", _cells(result)),
        ]
    return found


def page(results: Sequence[ReviewResult], title: str) -> str:
    """Return the page of all governors of a review.

    Args:
        results: one for each governor.
        title: of the page, plain text.
    """
    parts = [part for n, result in enumerate(results, 1) for part in _parts(result, n)]
    facts = f"<p>{escape(' '.join(result.sentence for result in results))}</p>"
    return render(COMMAND, title, facts, parts, [], "energy and power are modelled")
