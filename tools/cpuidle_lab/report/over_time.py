# SPDX-License-Identifier: GPL-2.0
"""The report's charts over time: the states of a CPU, and the weights of wteo."""

from cpuidle_lab.figures.metrics import definitions
from cpuidle_lab.figures.pictures import BUSY, SLICES
from cpuidle_lab.report.bars import state_colours
from cpuidle_lab.report.model import Report
from cpuidle_lab.view.drawing import (
    BUSY_COLOUR,
    HEAT,
    ROW_PX,
    Chart,
    Trace,
    axes,
    axis_key,
    each_axis,
    grid_of_panels,
    safe,
    stack_panels,
)


def _short(ns: float) -> float:
    return round(ns / 1e6, 3)


def weights(report: Report) -> Chart | None:
    """Show rows over time: a column of panels for each workload, a panel for each row."""
    found = [
        (group, result)
        for group in report.groups
        if group.pictures
        and (result := group.pictures.rows_over_time(len(group.entries))) is not None
    ]
    if not found:
        return None
    most = max(len(numbers) for _, (_, numbers, _) in found)
    several = len({group.governor for group, _ in found}) > 1
    titles = []
    for row in range(most):
        for group, (cpu, numbers, _) in found:
            name = str(numbers[row]) if row < len(numbers) else ""
            head = f"{group.governor}, " if several else ""
            where = f"{head}{report.section(group)}, CPU {cpu}\n" if row == 0 else ""
            titles.append(f"{where}row {name}" if name else "")
    layout = grid_of_panels(titles, len(found), gap=0.05, rows_gap=0.22 / most)
    data: list[Trace] = []
    for at, (group, (_, numbers, rows)) in enumerate(found):
        span = (group.end_ns - group.start_ns) / SLICES
        times = [_short(span * (n + 1)) for n in range(SLICES)]
        for row, values in enumerate(rows):
            n = row * len(found) + at
            layout[axis_key(n, "x")]["range"] = [0, times[-1]]
            data.append(
                {
                    "type": "heatmap",
                    "x": times,
                    "y": [safe(name) for name in group.names],
                    "z": values,
                    "zmin": 0,
                    "zmax": 10000,
                    "colorscale": HEAT,
                    "hoverongaps": False,
                    **axes(n),
                    "showscale": False,
                    "hovertemplate": f"row {numbers[row]}, column %{{y}}<br>%{{x:.1f}} "
                    "ms: %{z}<extra></extra>",
                }
            )
    each_axis(layout, "y", {"autorange": "reversed", "showgrid": False, "type": "category"})
    each_axis(layout, "x", {"showgrid": False, "showticklabels": False})
    for n in range((most - 1) * len(found), most * len(found)):
        layout[axis_key(n, "x")].update({"showticklabels": True, "title": {"text": "ms"}})
    layout["margin"] = {"t": 56, "b": 52}
    return Chart(
        "weights",
        "The rows of wteo, learning",
        "One panel for each of the rows that learned most: what followed one condition (how far "
        "the timer was, and the two intervals before); wteo/state in debugfs tells which. In it, "
        "the columns over time: what the interval fitted. The bluer, the surer: weights from 0 to "
        "10000. Empty until the row is first learned.",
        data,
        layout,
        110 + most * (40 + 22 * most),
    )


# A strip has governor and CPU on its left; below, its times stand beside each other.
_STRIPS_PX = 480


def strips(report: Report) -> Chart:
    """Timeline: the main state of one CPU, slice by slice."""
    colours = state_colours(report)
    names = report.states()
    codes = {name: number + 1 for number, name in enumerate(names)}
    count = len(names) + 1
    scale = []
    for number, colour in enumerate([BUSY_COLOUR, *(colours[name] for name in names)]):
        scale += [(number / count, colour), ((number + 1) / count, colour)]
    sections = report.sections()
    height = 70 + len(report.groups) * ROW_PX + len(sections) * 60
    layout = grid_of_panels(list(sections), 1, rows_gap=0.0)
    usable = height - 92
    stack_panels(layout, [len(groups) * ROW_PX for groups in sections.values()], usable, 36)
    data: list[Trace] = []
    for n, groups in enumerate(sections.values()):
        rows, shown, labels = [], [], []
        for group in groups:
            if group.pictures is None:
                continue
            cpu, slices = group.pictures.main_states(len(group.entries))
            labels.append(f"{safe(group.governor)}, CPU {cpu}")
            rows.append([0 if k == BUSY else codes[group.names[k]] for k in slices])
            shown.append(["busy" if k == BUSY else safe(group.names[k]) for k in slices])
        span = max(group.end_ns - group.start_ns for group in groups) / SLICES
        data.append(
            {
                "type": "heatmap",
                "z": rows,
                "y": labels,
                "text": shown,
                "ygap": 3,
                "x": [_short(span * (slot + 0.5)) for slot in range(SLICES)],
                "zmin": -0.5,
                "zmax": count - 0.5,
                "colorscale": scale,
                "showscale": False,
                **axes(n),
                "hovertemplate": "<b>%{y}</b><br>%{x:.1f} ms: %{text}<extra></extra>",
            }
        )
    for name, colour in [("busy", BUSY_COLOUR), *((name, colours[name]) for name in names)]:
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [None],
                "y": [None],
                "name": safe(name),
                "marker": {"symbol": "square", "size": 12, "color": colour},
                "hoverinfo": "skip",
            }
        )
    each_axis(
        layout,
        "y",
        {
            "autorange": "reversed",
            "showgrid": False,
            "automargin": True,
            "type": "category",
            "ticksuffix": "  ",
        },
    )
    each_axis(layout, "x", {"showgrid": False, "ticksuffix": " ms", "zeroline": False,
                            "tickangle": 0, "nticks": 4})  # fmt: skip
    return Chart(
        "timeline",
        "Timeline",
        definitions()["timeline"].description
        + " One CPU of each run: the one with most idle periods.",
        data,
        layout,
        height,
        least_px=_STRIPS_PX,
    )
