# SPDX-License-Identifier: GPL-2.0
"""The report's charts of bars: idle time and energy by state, reasons, wakers."""

from collections.abc import Callable

from cpuidle_lab.figures.group import Group
from cpuidle_lab.figures.metrics import definitions
from cpuidle_lab.report.model import Report
from cpuidle_lab.view.drawing import (
    REASON_COLOURS,
    ROW_PX,
    Chart,
    Layout,
    Trace,
    axes,
    axis_key,
    axis_name,
    each_axis,
    grid_of_panels,
    legend_entry,
    percentages,
    safe,
    stack_panels,
)

_POLLING_COLOUR = "#d9534f"
_SHALLOW_TO_DEEP = ((242, 190, 75), (121, 190, 121), (47, 151, 176), (58, 97, 200), (99, 60, 168))


def _mix(low: tuple[int, ...], high: tuple[int, ...], share: float) -> str:
    parts = (round(a + (b - a) * share) for a, b in zip(low, high, strict=True))
    return "#" + "".join(f"{part:02x}" for part in parts)


def state_colours(report: Report) -> dict[str, str]:
    """Return the colour of each idle state: red polls, then from amber (shallow) to violet."""
    polling = report.polling_states()
    resting = [name for name in report.states() if name not in polling]
    colours = dict.fromkeys(polling, _POLLING_COLOUR)
    for number, name in enumerate(resting):
        at = number / max(1, len(resting) - 1) * (len(_SHALLOW_TO_DEEP) - 1)
        low = min(int(at), len(_SHALLOW_TO_DEEP) - 2)
        colours[name] = _mix(_SHALLOW_TO_DEEP[low], _SHALLOW_TO_DEEP[low + 1], at - low)
    return colours


def rows_by_workload(
    report: Report, wanted: Callable[[Group], bool]
) -> tuple[list[str], list[list[Group]]]:
    """Return the workloads that have a wanted group, and these groups of each."""
    names, groups = [], []
    for name, members in report.sections().items():
        kept = [group for group in members if wanted(group)]
        if kept:
            names.append(name)
            groups.append(kept)
    return names, groups


def stacked_bars(
    report: Report,
    wanted: Callable[[Group], bool],
    parts: Callable[[Group], dict[str, float]],
    colours: dict[str, str],
    unit: str,
) -> tuple[list[Trace], Layout, int]:
    """Return stacked horizontal bars, a panel for each workload and a bar for each governor."""
    sections, members = rows_by_workload(report, wanted)
    count = sum(len(groups) for groups in members)
    usable = count * ROW_PX + len(sections) * 38
    height = usable + 92
    layout = grid_of_panels(sections, 1, rows_gap=0.0)
    stack_panels(layout, [len(groups) * ROW_PX + 6 for groups in members], usable, 8)
    data: list[Trace] = []
    seen: set[str] = set()
    for n, groups in enumerate(members):
        layout["annotations"][n]["yshift"] = 2
        shown = [parts(group) for group in groups]
        for rank, (name, colour) in enumerate(colours.items()):
            if not any(part.get(name) for part in shown):
                continue
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "legendrank": rank,
                    **legend_entry(name, seen),
                    **axes(n),
                    "x": [round(part.get(name, 0.0), 4) for part in shown],
                    "y": [safe(group.governor) for group in groups],
                    "marker": {"color": colour, "line": {"width": 0}},
                    "hovertemplate": f"<b>%{{y}}</b>, {safe(sections[n])}<br>{safe(name)}: "
                    f"%{{x:.1f}} {unit}<extra></extra>",
                }
            )
    each_axis(
        layout,
        "y",
        {"autorange": "reversed", "showgrid": False, "automargin": True, "ticksuffix": "  "},
    )
    each_axis(layout, "x", {"showticklabels": False})
    layout["barmode"] = "stack"
    layout["bargap"] = 0.18
    layout["legend"]["traceorder"] = "normal"
    if sections:
        last = len(sections) - 1
        layout[axis_key(last, "x")].update({"showticklabels": True, "title": {"text": unit}})
        for n in range(last):
            layout[axis_key(n, "x")]["matches"] = axis_name(last, "x")
    return data, layout, height


def residency(report: Report) -> Chart:
    """Share of the idle time by state."""
    colours = state_colours(report)
    ordered = {name: colours[name] for name in report.states()}
    data, layout, height = stacked_bars(
        report,
        lambda _: True,
        lambda group: percentages(group.names, group.residency_ns),
        ordered,
        "% of idle time",
    )
    return Chart(
        "residency",
        "Where the idle time was spent",
        "Each bar is all idle time of one governor. Deep states (blue, violet) save, but only if "
        "the stay is long enough.",
        data,
        layout,
        height,
        wide=False,
    )


def energy(report: Report) -> Chart:
    """Modelled idle power by state, with the oracle's."""
    colours = state_colours(report)
    ordered = {name: colours[name] for name in report.states()}

    def parts(group: Group) -> dict[str, float]:
        time = sum(group.residency_ns)
        return {
            name: value / time
            for name, value in zip(group.names, group.state_pj, strict=True)
            if time
        }

    data, layout, height = stacked_bars(
        report, lambda g: bool(g.state_pj), parts, ordered, "mW while idle"
    )
    _, members = rows_by_workload(report, lambda g: bool(g.state_pj))
    for n, groups in enumerate(members):
        known = [g for g in groups if g.values["oracle_mw"] is not None]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "oracle",
                "legendgroup": "oracle",
                "legendrank": len(ordered),
                "showlegend": n == 0,
                **axes(n),
                "x": [g.values["oracle_mw"] for g in known],
                "y": [safe(g.governor) for g in known],
                "marker": {
                    "symbol": "line-ns-open",
                    "size": 16,
                    "line": {"width": 3},
                    "color": "#888",
                },
                "meta": "ink-marker",
                "hovertemplate": "<b>%{y}</b><br>oracle: %{x:.1f} mW<extra></extra>",
            }
        )
    return Chart(
        "energy",
        "Modelled idle power",
        "What each governor's idle time costs per CPU, by the state it was spent in. The stroke "
        "is the oracle on the same intervals: what lies beyond it is regret.",
        data,
        layout,
        height,
        wide=False,
    )


def _by_name(
    report: Report, counts_of: Callable[[Group], dict[str, int]], axis: str
) -> tuple[list[Trace], Layout, int]:
    """Return bars that divide what is counted by name, the same name in the same colour."""
    totals: dict[str, int] = {}
    for group in report.groups:
        for name, count in counts_of(group).items():
            totals[name] = totals.get(name, 0) + count
    ordered = sorted(totals, key=lambda name: -totals[name])
    colours = {name: REASON_COLOURS[n % len(REASON_COLOURS)] for n, name in enumerate(ordered)}
    return stacked_bars(
        report,
        lambda group: bool(counts_of(group)),
        lambda group: percentages(
            list(counts_of(group)), list(map(float, counts_of(group).values()))
        ),
        colours,
        axis,
    )


def wakers(report: Report) -> Chart:
    """Show what ended the idle periods."""
    data, layout, height = _by_name(report, lambda group: group.wakers, "% of idle periods")
    metric = definitions()["wakers"]
    return Chart("wakers", metric.title, metric.description, data, layout, height + 30)


def reasons(report: Report) -> Chart:
    """Return the chart of the steps of the algorithm that decided."""
    data, layout, height = _by_name(report, lambda group: group.reasons, "% of decisions")
    return Chart(
        "reasons",
        "Why: the step that decided",
        "Every decision names the step of the governor's algorithm that made it. The steps are "
        "numbered in each governor's source.",
        data,
        layout,
        height + 30,
    )
