# SPDX-License-Identifier: GPL-2.0
"""The report's charts, as figures for plotly.js."""

import math
from collections.abc import Callable, Sequence

from cpuidle_lab.figures.group import DECISIONS, Group
from cpuidle_lab.figures.metrics import definitions
from cpuidle_lab.report.model import BUSY, SLICES, Report, timeline, weights_over_time
from cpuidle_lab.view.drawing import (
    BUSY_COLOUR,
    HEAT,
    LEAST_REGRET,
    LEAST_US,
    REASON_COLOURS,
    ROW_PX,
    SIDEWAYS,
    Chart,
    Layout,
    Trace,
    axis_key,
    axis_name,
    each_axis,
    grid_of_panels,
    heat_panels,
    latency_ticks,
    legend_above,
    look,
    percentages,
    raster,
    regret_axis,
    safe,
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


def governor_looks(report: Report) -> dict[str, tuple[str, str]]:
    """Colour and symbol of each governor."""
    return {name: look(n) for n, name in enumerate(report.governors)}


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
    top = 1.0
    data: list[Trace] = []
    seen: set[str] = set()
    for n, groups in enumerate(members):
        share = (len(groups) * ROW_PX + 6) / usable
        layout["annotations"][n]["y"] = top - 24 / usable
        layout["annotations"][n]["yshift"] = 2
        bottom = top - 24 / usable - share
        layout[axis_key(n, "y")]["domain"] = [max(0.0, bottom), max(0.0, top - 24 / usable)]
        top = bottom - 8 / usable
        shown = [parts(group) for group in groups]
        for rank, (name, colour) in enumerate(colours.items()):
            if not any(part.get(name) for part in shown):
                continue
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "legendrank": rank,
                    "name": safe(name),
                    "legendgroup": safe(name),
                    "showlegend": name not in seen,
                    "xaxis": axis_name(n, "x"),
                    "yaxis": axis_name(n, "y"),
                    "x": [round(part.get(name, 0.0), 4) for part in shown],
                    "y": [safe(group.governor) for group in groups],
                    "marker": {"color": colour, "line": {"width": 0}},
                    "hovertemplate": f"<b>%{{y}}</b>, {safe(sections[n])}<br>{safe(name)}: "
                    f"%{{x:.1f}} {unit}<extra></extra>",
                }
            )
            seen.add(name)
    each_axis(
        layout,
        "y",
        {"autorange": "reversed", "showgrid": False, "automargin": True, "ticksuffix": "  "},
    )
    each_axis(layout, "x", {"showticklabels": False})
    layout["barmode"] = "stack"
    layout["bargap"] = 0.18
    layout["margin"] = {"t": 40, "b": 52}
    layout["legend"] = {
        "orientation": "h",
        "y": 1 + 8 / usable,
        "yanchor": "bottom",
        "x": 0,
        "traceorder": "normal",
    }
    if sections:
        last = len(sections) - 1
        layout[axis_key(last, "x")].update({"showticklabels": True, "title": {"text": unit}})
        for n in range(last):
            layout[axis_key(n, "x")]["matches"] = axis_name(last, "x")
    return data, layout, height


def _regrets(groups: Sequence[Group]) -> list[float]:
    return [value for group in groups if (value := group.judged_regret) is not None]


def _points(groups: Sequence[Group]) -> list[tuple[Group, float, float, float]]:
    """Return what can be shown of a workload: group, regret, p99 and the place on the axis.

    Latencies are few, so governors often share one; they are put side by side.
    """
    shown = [
        (group, regret, p99)
        for group in groups
        if (regret := group.judged_regret) is not None
        and (p99 := group.values["latency_p99_us"]) is not None
    ]
    points = []
    for group, regret, p99 in shown:
        equal = [other for other, _, latency in shown if latency == p99]
        shift = equal.index(group) - (len(equal) - 1) / 2
        points.append((group, regret, p99, max(p99, LEAST_US) * SIDEWAYS**shift))
    return points


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
                    "xaxis": axis_name(n, "x"),
                    "yaxis": axis_name(n, "y"),
                    "name": name,
                    "legendgroup": name,
                    "showlegend": name not in seen,
                    "marker": {"color": colour, "symbol": symbol, "size": 13},
                    "hovertemplate": f"<b>{name}</b><br>regret {regret:.1f} %<br>"
                    f"p99 wake-up latency {p99:g} us<extra></extra>",
                }
            )
            seen.add(name)
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
    )


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
                "xaxis": axis_name(n, "x"),
                "yaxis": axis_name(n, "y"),
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


def latency(report: Report) -> Chart:
    """Cumulative distribution of the modelled wake-up latency."""
    looks = governor_looks(report)
    sections, members = rows_by_workload(
        report, lambda g: bool(g.state_pj) and g.machine is not None
    )
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
                    "name": safe(group.governor),
                    "legendgroup": safe(group.governor),
                    "showlegend": group.governor not in seen,
                    "xaxis": axis_name(n, "x"),
                    "yaxis": axis_name(n, "y"),
                    "x": [0.32, *(max(LEAST_US, us) for us, _ in points), 10 * most],
                    "y": [0, *(round(share, 4) for _, share in points), 100],
                    "hovertemplate": f"<b>{safe(group.governor)}</b><br>%{{y:.1f}} % of the "
                    "wake-ups within %{x:g} us<extra></extra>",
                }
            )
            seen.add(group.governor)
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
    assert group.machine is not None
    total, reached = sum(group.entries), 0
    points = []
    for latency_ns, entries in sorted(
        zip(group.machine.exit_latency_ns, group.entries, strict=True)
    ):
        reached += entries
        if entries and total:
            points.append((latency_ns / 1000, 100 * reached / total))
    return points or [(0.0, 0.0)]


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
    """Which step of the algorithm decided."""
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


def _short(ns: float) -> float:
    return round(ns / 1e6, 3)


def weights(report: Report) -> Chart | None:
    """Show rows over time: a column of panels for each workload, a panel for each row."""
    found = [
        (group, result)
        for group in report.groups
        if (result := weights_over_time(report.trace_of(group), group)) is not None
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
                    "xaxis": axis_name(n, "x"),
                    "yaxis": axis_name(n, "y"),
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
    top, data = 1.0, []
    for n, groups in enumerate(sections.values()):
        share = (len(groups) * ROW_PX) / usable
        layout["annotations"][n]["y"] = top - 24 / usable
        layout[axis_key(n, "y")]["domain"] = [
            max(0.0, top - 24 / usable - share),
            top - 24 / usable,
        ]
        top -= (24 + 36) / usable + share
        rows, shown, labels = [], [], []
        for group in groups:
            cpu, slices = timeline(group)
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
                "xaxis": axis_name(n, "x"),
                "yaxis": axis_name(n, "y"),
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
    each_axis(layout, "x", {"showgrid": False, "ticksuffix": " ms", "zeroline": False})
    layout["margin"] = {"t": 40, "b": 52}
    layout["legend"] = {"orientation": "h", "y": 1 + 8 / usable, "yanchor": "bottom", "x": 0}
    return Chart(
        "timeline",
        "Timeline",
        definitions()["timeline"].description
        + " One CPU of each run: the one with most idle periods.",
        data,
        layout,
        height,
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
        charts += [reasons(report), chosen_ideal(report), weights(report)]
    if any(group.wakers for group in report.groups):
        charts.append(wakers(report))
    charts.append(strips(report))
    return [chart for chart in charts if chart is not None]
