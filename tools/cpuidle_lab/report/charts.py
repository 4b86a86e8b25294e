# SPDX-License-Identifier: GPL-2.0
"""The report's charts, as figures for plotly.js: regret and latency here, the others beside it."""

import math
from collections.abc import Sequence

from cpuidle_lab.figures.group import DECISIONS, Group
from cpuidle_lab.report.bars import energy, reasons, residency, rows_by_workload, wakers
from cpuidle_lab.report.model import Report
from cpuidle_lab.report.over_time import strips, weights
from cpuidle_lab.view.drawing import (
    LEAST_REGRET,
    LEAST_US,
    Chart,
    Layout,
    Trace,
    axes,
    axis_key,
    beside,
    each_axis,
    grid_of_panels,
    heat_panels,
    latency_ticks,
    legend_above,
    legend_entry,
    look,
    raster,
    regret_axis,
    safe,
)


def governor_looks(report: Report) -> dict[str, tuple[str, str]]:
    """Colour and symbol of each governor."""
    return {name: look(n) for n, name in enumerate(report.governors)}


def _regrets(groups: Sequence[Group]) -> list[float]:
    return [value for group in groups if (value := group.judged_regret) is not None]


def _points(groups: Sequence[Group]) -> list[tuple[Group, float, float, float]]:
    """Return what can be shown of a workload: group, regret, p99 and the place on the axis."""
    shown = [
        (group, regret, p99)
        for group in groups
        if (regret := group.judged_regret) is not None
        and (p99 := group.values["latency_p99_us"]) is not None
    ]
    places = beside([p99 for _, _, p99 in shown])
    return [(*point, place) for point, place in zip(shown, places, strict=True)]


def _not_shown(report: Report) -> str:
    unknown = [g.governor for g in report.groups if g.values["regret"] is None]
    text = f" Regret unknown: {', '.join(dict.fromkeys(unknown))}." if unknown else ""
    return text + "".join(f" {line}." for line in report.left_out())


def headline(report: Report) -> Chart:
    """Show regret against p99 wake-up latency, a panel for each workload."""
    looks = governor_looks(report)
    panels = {name: p for name, groups in report.sections().items() if (p := _points(groups))}
    columns, height, gap = raster(len(panels), 250)
    layout = grid_of_panels(list(panels), columns, gap=0.04, rows_gap=gap)
    axis = regret_axis(_regrets(report.groups))
    floor = LEAST_REGRET if "type" in axis else -math.inf
    data: list[Trace] = []
    seen: set[str] = set()
    for n, points in enumerate(panels.values()):
        for group, regret, p99, place in points:
            colour, symbol = looks[group.governor]
            name = safe(group.governor)
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": [place],
                    "y": [max(regret, floor)],
                    **axes(n),
                    **legend_entry(group.governor, seen),
                    "marker": {"color": colour, "symbol": symbol, "size": 13},
                    "hovertemplate": f"<b>{name}</b><br>regret {regret:.1f} %<br>"
                    f"p99 wake-up latency {p99:g} us<extra></extra>",
                }
            )
    each_axis(layout, "x", latency_ticks(max((d["x"][0] for d in data), default=1.0)))
    each_axis(layout, "y", axis)
    for n in range(len(panels)):
        layout[axis_key(n, "x")]["title"] = {"text": "p99 wake-up latency, us"}
        if n % columns == 0:
            layout[axis_key(n, "y")]["title"] = {"text": "regret, %"}
    legend_above(layout, height)
    return Chart(
        "headline",
        "Energy lost, against wake-up latency",
        "Lower and further left is better. Regret is the modelled idle energy spent above that of "
        "an oracle that knows the future; no governor reaches 0. Governors of equal latency stand "
        f"a little apart.{_not_shown(report)}",
        data,
        layout,
        height,
    )


# A row has its label on the left, and the name of a workload on the right.
_ROWS_PX = 480


def regret_rows(report: Report) -> Chart:
    """Regret of every workload, a row for each governor."""
    looks = governor_looks(report)
    order = [s.governor for s in report.summaries() if s.worst_regret is not None][::-1]
    axis = regret_axis(_regrets(report.groups))
    floor = LEAST_REGRET if "type" in axis else -math.inf
    data: list[Trace] = []
    for governor in order:
        mine = [
            (value, report.section(group))
            for group in report.groups
            if group.governor == governor and (value := group.judged_regret) is not None
        ]
        colour, _ = looks[governor]
        values = [value for value, _ in mine]
        worst = max(values)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [max(min(values), floor), max(worst, floor)],
                "y": [safe(governor)] * 2,
                "line": {"color": colour, "width": 3},
                "opacity": 0.45,
                "showlegend": False,
                "hoverinfo": "skip",
            }
        )
        data.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "x": [max(v, floor) for v in values],
                "y": [safe(governor)] * len(values),
                "text": [
                    f"  {safe(name)} {value:.0f} %" if value == worst else ""
                    for value, name in mine
                ],
                "textposition": "middle right",
                "showlegend": False,
                "cliponaxis": False,
                "customdata": [safe(name) for _, name in mine],
                "marker": {
                    "color": colour,
                    "size": [15 if value == worst else 9 for value in values],
                },
                "hovertemplate": "<b>%{y}</b>, %{customdata}<br>regret %{x:.1f} %<extra></extra>",
            }
        )
    layout: Layout = {
        "xaxis": axis | {"title": {"text": "regret, %"}},
        "yaxis": {"automargin": True, "showgrid": False, "ticksuffix": "  "},
        "margin": {"t": 16, "b": 48, "r": 150},
    }
    return Chart(
        "regret",
        "The worst workload of each governor",
        "One dot for each workload; the large one is the worst. A good mean can hide harm.",
        data,
        layout,
        90 + 40 * max(1, len(order)),
        least_px=_ROWS_PX,
    )


def latency(report: Report) -> Chart:
    """Cumulative distribution of the modelled wake-up latency."""
    looks = governor_looks(report)
    sections, members = rows_by_workload(report, lambda g: bool(g.state_pj) and g.table is not None)
    columns, height, gap = raster(len(sections), 220)
    layout = grid_of_panels(sections, columns, gap=0.04, rows_gap=gap)
    data: list[Trace] = []
    seen: set[str] = set()
    most = 1.0
    for n, groups in enumerate(members):
        for group in groups:
            points = latency_points(group)
            most = max(most, points[-1][0])
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "line": {"shape": "hv", "width": 2.5, "color": looks[group.governor][0]},
                    **legend_entry(group.governor, seen),
                    **axes(n),
                    "x": [0.32, *(max(LEAST_US, us) for us, _ in points), 10 * most],
                    "y": [0, *(round(share, 4) for _, share in points), 100],
                    "hovertemplate": f"<b>{safe(group.governor)}</b><br>%{{y:.1f}} % of the "
                    "wake-ups within %{x:g} us<extra></extra>",
                }
            )
    each_axis(layout, "x", latency_ticks(most) | {"title": {"text": "at most, us"}})
    each_axis(layout, "y", {"range": [0, 103]})
    for n in range(0, len(sections), columns):
        layout[axis_key(n, "y")]["title"] = {"text": "% of wake-ups"}
    legend_above(layout, height)
    return Chart(
        "latency",
        "Wake-up latency",
        "Share of the wake-ups whose modelled latency (exit latency of the state entered) is at "
        "most so much. A curve further up and to the left wakes faster.",
        data,
        layout,
        height,
    )


def latency_points(group: Group) -> list[tuple[float, float]]:
    """Return the distribution: latency in us, and the percentage of wake-ups within it."""
    assert group.table is not None
    total, reached = sum(group.entries), 0
    points = []
    for latency_ns, entries in sorted(zip(group.table.exit_latency_ns, group.entries, strict=True)):
        reached += entries
        if entries and total:
            points.append((latency_ns / 1000, 100 * reached / total))
    return points or [(0.0, 0.0)]


def chosen_ideal(report: Report) -> Chart:
    """Heat maps of chosen against ideal state, a panel for each governor over all workloads."""
    panels: dict[str, tuple[list[str], list[list[int]]]] = {}
    for group in report.groups:
        if not group.chosen_ideal:
            continue
        kind = group.governor
        if kind in panels and panels[kind][0] != group.names:
            kind = f"{group.governor}, {report.section(group)}"
        _, sums = panels.setdefault(
            kind, (group.names, [[0] * len(group.names) for _ in group.names])
        )
        for row, counts in zip(sums, group.chosen_ideal, strict=True):
            for k, count in enumerate(counts):
                row[k] += count
    columns = min(5, max(1, len(panels)))
    shown = [(title, names, sums) for title, (names, sums) in panels.items()]
    data, layout = heat_panels(shown, columns, 0.26)
    rows = -(-len(panels) // columns)
    layout["margin"] = {"t": 40, "b": 56}
    return Chart(
        "heat",
        "Chosen and ideal state",
        "For each state chosen (row), in which state an oracle would have been (column), in % of "
        "the row. A perfect governor fills the diagonal; right of it the choice was too shallow, "
        "left too deep.",
        data,
        layout,
        100 + 230 * max(1, rows),
    )


def all_charts(report: Report) -> list[Chart]:
    """Return the charts in the order shown; those without data are left out."""
    decided = any(group.source == DECISIONS for group in report.groups)
    charts: list[Chart | None] = []
    if _regrets(report.groups):
        charts += [headline(report), regret_rows(report)]
    charts += [residency(report)]
    if any(group.state_pj for group in report.groups):
        charts += [energy(report), latency(report)]
    if decided:
        charts += [reasons(report)]
    if any(group.chosen_ideal for group in report.groups):
        charts += [chosen_ideal(report)]
    if decided:
        charts += [weights(report)]
    if any(group.wakers for group in report.groups):
        charts.append(wakers(report))
    charts.append(strips(report))
    return [chart for chart in charts if chart is not None]
