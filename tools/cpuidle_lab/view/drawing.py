# SPDX-License-Identifier: GPL-2.0
"""Elements of charts: colours, axes, grids of panels, bars.

Colours of text, axes and grid are left to the page, which knows light and dark.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Trace = dict[str, Any]
Layout = dict[str, Any]

# Told apart by people who see colours differently, on light and on dark.
GOVERNOR_COLOURS = (
    "#3987e5",
    "#e69f00",
    "#d1495b",
    "#1fa774",
    "#a463c9",
    "#8d6e4f",
    "#35b6c6",
    "#c2607f",
    "#7f9a1f",
    "#6674d8",
)
SYMBOLS = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "cross",
    "x",
    "star",
    "triangle-down",
    "pentagon",
    "hexagon",
)
BUSY_COLOUR = "rgba(128,128,128,0.22)"
REASON_COLOURS = (
    "#3987e5",
    "#e69f00",
    "#1fa774",
    "#d1495b",
    "#a463c9",
    "#35b6c6",
    "#8d6e4f",
    "#c2607f",
    "#7f9a1f",
    "#6674d8",
    "#999999",
    "#b5651d",
)
HEAT = ((0.0, "rgba(57,135,229,0.03)"), (1.0, "rgba(57,135,229,0.85)"))

# A latency of 0 (the polling state) has no place on a logarithmic axis.
LEAST_US = 0.5

# Nor has a regret of 0. The axis becomes logarithmic where the greatest is so many times the
# median.
LEAST_REGRET = 0.1
_DWARFED = 8

# Markers of equal latency are moved apart by this factor.
SIDEWAYS = 1.18

ROW_PX = 24
_PANELS_PER_ROW = 4


@dataclass
class Chart:
    """One chart of a page.

    Attributes:
        key: its name in the page.
        title: headline.
        caption: how to read it, one or two sentences.
        data: traces of plotly.js.
        layout: layout of plotly.js.
        height: pixels.
        wide: takes the whole width of the page.
        least_px: width below which it is scrolled, as its labels need; panels need more.
    """

    key: str
    title: str
    caption: str
    data: list[Trace]
    layout: Layout
    height: int
    wide: bool = True
    least_px: int = 0


def safe(text: str) -> str:
    """Return text of a trace as plotly.js may show it: never as markup."""
    return html.escape("".join(c if c.isprintable() else "?" for c in text), quote=False)


def axis_name(number: int, letter: str) -> str:
    """Return the name of the n-th axis, as traces refer to it: x, x2, x3."""
    return letter if number == 0 else f"{letter}{number + 1}"


def axis_key(number: int, letter: str) -> str:
    """Return the layout's key of the n-th axis: xaxis, xaxis2."""
    return f"{letter}axis" if number == 0 else f"{letter}axis{number + 1}"


def grid_of_panels(
    titles: Sequence[str], columns: int, *, gap: float = 0.06, rows_gap: float = 0.12
) -> Layout:
    """Return a layout with a grid of panels, each with its title above it."""
    columns = max(1, min(columns, len(titles)))
    rows = max(1, -(-len(titles) // columns))
    wide, high = (1 - gap * (columns - 1)) / columns, (1 - rows_gap * (rows - 1)) / rows
    layout: Layout = {"annotations": []}
    for n, title in enumerate(titles):
        row, column = divmod(n, columns)
        left = column * (wide + gap)
        top = 1 - row * (high + rows_gap)
        layout[axis_key(n, "x")] = {"domain": [left, left + wide], "anchor": axis_name(n, "y")}
        layout[axis_key(n, "y")] = {
            "domain": [max(0.0, top - high), top],
            "anchor": axis_name(n, "x"),
        }
        layout["annotations"].append(
            {
                "text": "<br>".join(f"<b>{safe(line)}</b>" for line in title.split("\n")),
                "x": left,
                "y": top,
                "xref": "paper",
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
                "align": "left",
                "yshift": 4,
            }
        )
    return layout


def axes(number: int) -> Trace:
    """Return what puts a trace into the n-th panel."""
    return {"xaxis": axis_name(number, "x"), "yaxis": axis_name(number, "y")}


def legend_entry(name: str, seen: set[str]) -> Trace:
    """Return what makes traces of one name share an entry of the legend.

    Args:
        name: as shown.
        seen: the names that have an entry; this one is added.
    """
    entry = {"name": safe(name), "legendgroup": safe(name), "showlegend": name not in seen}
    seen.add(name)
    return entry


def beside(latencies_us: Sequence[float]) -> list[float]:
    """Return the places of points on the axis of latencies, those of equal latency side by side."""
    places = []
    for n, latency_us in enumerate(latencies_us):
        equal = [other for other, value in enumerate(latencies_us) if value == latency_us]
        shift = equal.index(n) - (len(equal) - 1) / 2
        places.append(float(max(latency_us, LEAST_US) * SIDEWAYS**shift))
    return places


def stack_panels(layout: Layout, heights_px: Sequence[int], usable_px: int, gap_px: int) -> None:
    """Put panels of unlike heights below each other, with the legend above them.

    Args:
        layout: a grid of one column.
        heights_px: of the panels, without their titles.
        usable_px: height of all of it.
        gap_px: below each panel.
    """
    top = 1.0
    for n, height_px in enumerate(heights_px):
        high = top - 24 / usable_px
        layout["annotations"][n]["y"] = high
        low = high - height_px / usable_px
        layout[axis_key(n, "y")]["domain"] = [max(0.0, low), max(0.0, high)]
        top = low - gap_px / usable_px
    layout["margin"] = {"t": 40, "b": 52}
    layout["legend"] = {"orientation": "h", "y": 1 + 8 / usable_px, "yanchor": "bottom", "x": 0}


def each_axis(layout: Layout, letter: str, settings: Layout) -> None:
    """Update the settings of all x or all y axes."""
    for key, axis in layout.items():
        if key.startswith(f"{letter}axis"):
            axis.update(settings)


def latency_ticks(most: float) -> Layout:
    """Return a logarithmic latency axis with a few round ticks up to `most` us."""
    decades = [v for v in (0.5, 1, 10, 100, 1000, 10000) if v <= most * 10]
    return {
        "type": "log",
        "tickvals": decades,
        "ticktext": ["0" if v == LEAST_US else f"{v:g}" for v in decades],
        "range": [-0.5, max(1.0, math.log10(most)) + 0.3],
    }


def raster(panels: int, panel_px: int) -> tuple[int, int, float]:
    """Return the columns, the height in pixels and the gap between rows for small panels."""
    columns = 5 if panels == 5 else min(_PANELS_PER_ROW, max(1, panels))
    rows = max(1, -(-panels // columns))
    inner = rows * panel_px + (rows - 1) * 80
    return columns, 120 + inner, 80 / inner


def legend_above(layout: Layout, height: int) -> None:
    """Put the legend above the titles of the panels, whatever the chart's height."""
    layout["margin"] = {"t": 64, "b": 56}
    layout["legend"] = {
        "orientation": "h",
        "x": 0,
        "y": 1 + 28 / (height - 120),
        "yanchor": "bottom",
    }


def regret_axis(values: Sequence[float]) -> Layout:
    """Return a linear axis for regrets; a logarithmic one where one dwarfs the others."""
    ordered = sorted(values) or [1.0]
    most, middle = max(ordered[-1], 1.0), ordered[len(ordered) // 2]
    if most <= _DWARFED * max(middle, LEAST_REGRET):
        return {"range": [-0.03 * most, 1.12 * most]}
    decades = [v for v in (0.1, 1, 10, 100, 1000, 10000, 100000) if v <= most * 10]
    return {
        "type": "log",
        "tickvals": decades,
        "ticktext": ["≤ 0.1" if v == LEAST_REGRET else f"{v:g}" for v in decades],
        "range": [-1.15, math.log10(most) + 0.3],
    }


def percentages(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """Return what part of the sum each value is, in percent; nothing if the sum is 0."""
    total = sum(values)
    return {name: 100 * value / total for name, value in zip(names, values, strict=True) if total}


def heat_panels(
    panels: Sequence[tuple[str, Sequence[str], Sequence[Sequence[int]]]],
    columns: int,
    rows_gap: float,
) -> tuple[list[Trace], Layout]:
    """Return heat maps of the state chosen (rows) and the ideal state, in % of the row.

    Args:
        panels: of each: its title, the names of the states, and counts by chosen and ideal state.
        columns: panels beside each other.
        rows_gap: part of the height between rows of panels.
    """
    layout = grid_of_panels([title for title, _, _ in panels], columns, gap=0.07, rows_gap=rows_gap)
    data: list[Trace] = []
    for n, (_, names, counts) in enumerate(panels):
        shares = [[100 * c / sum(row) if sum(row) else None for c in row] for row in counts]
        shown = [safe(name) for name in names]
        data.append(
            {
                "type": "heatmap",
                "z": shares,
                "x": shown,
                "y": shown,
                "xaxis": axis_name(n, "x"),
                "yaxis": axis_name(n, "y"),
                "zmin": 0,
                "zmax": 100,
                "colorscale": HEAT,
                "showscale": False,
                "xgap": 2,
                "ygap": 2,
                "text": [
                    ["" if v is None or v < 0.5 else f"{v:.0f}" for v in row] for row in shares
                ],
                "texttemplate": "%{text}",
                "meta": "ink-text",
                "customdata": counts,
                "hoverongaps": False,
                "hovertemplate": "chosen %{y}, ideal %{x}<br>%{z:.1f} % of the times it was chosen "
                "(%{customdata:,})<extra></extra>",
            }
        )
    each_axis(layout, "y", {"autorange": "reversed", "showgrid": False, "automargin": True})
    each_axis(layout, "x", {"showgrid": False, "title": {"text": "ideal"}, "type": "category"})
    for n in range(0, len(panels), columns):
        layout[axis_key(n, "y")]["title"] = {"text": "chosen"}
    return data, layout


def look(number: int) -> tuple[str, str]:
    """Return colour and symbol of the n-th governor."""
    return GOVERNOR_COLOURS[number % len(GOVERNOR_COLOURS)], SYMBOLS[number % len(SYMBOLS)]
