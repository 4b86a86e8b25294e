# SPDX-License-Identifier: GPL-2.0
"""The charts of a comparison, as figures for plotly.js, in the manner of the report's."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cpuidle_lab.compare.figures import front, is_judged, lines
from cpuidle_lab.compare.model import Comparison, Result
from cpuidle_lab.replay.candidates import (
    BAYES,
    BEST_KIND,
    LIMIT_KIND,
    MAINLINE_KIND,
    ORACLE,
    OWN_KIND,
    RECORDED_KIND,
)
from cpuidle_lab.replay.engine import length_of
from cpuidle_lab.replay.recorded import RECORDED
from cpuidle_lab.view import drawing
from cpuidle_lab.view.drawing import Chart, Layout, Trace, safe

Counts = npt.NDArray[np.int64]

# Classes of length that make one step of the chart: two to each power of two.
_STEP = 2
# Most recordings that get a panel each.
_PANELS = 24

# Differences of energy, in %, that fill a panel at least.
_LEAST_ROOM = 1.0

# Characters of a panel's title.
_TITLE = 34

# A step that loses less than this share of the greatest is not to be seen.
_VISIBLE = 0.003
_LIMIT_SYMBOLS = {ORACLE: "star-open", BAYES: "diamond-open"}
# Mainline is dashed: where a governor of ours does the same, both are to be seen.
_DASHES = {
    OWN_KIND: "solid", MAINLINE_KIND: "dash", LIMIT_KIND: "dot", RECORDED_KIND: "longdash",
}  # fmt: skip
_LIMIT_COLOUR = "#888888"
# Of what happened.
_RECORDED_LOOK = ("#666666", "x")


def looks(comparison: Comparison) -> dict[str, tuple[str, str]]:
    """Return colour and symbol of each governor; the limits are grey."""
    apart = (LIMIT_KIND, RECORDED_KIND)
    others = [name for name, kind in comparison.governors.items() if kind not in apart]
    found = {name: drawing.look(n) for n, name in enumerate(others)} | {RECORDED: _RECORDED_LOOK}
    return found | {name: (_LIMIT_COLOUR, symbol) for name, symbol in _LIMIT_SYMBOLS.items()}


def _panels(comparison: Comparison) -> list[tuple[str, list[list[Result]]]]:
    """Return titles, and for each governor its results: all recordings, then each of some."""
    sources = comparison.sources
    labels = [name for name, kind in comparison.governors.items() if kind != BEST_KIND]
    alone = [
        (source.label, [[comparison.results[source.label, name]] for name in labels])
        for source in sources
    ]
    if len(sources) == 1:
        return alone
    every = [[item for item in comparison.of_governor(name) if is_judged(item)] for name in labels]
    return [("mean of all recordings", every), *(alone if len(sources) <= _PANELS else [])]


def _energies(comparison: Comparison) -> list[tuple[str, dict[str, tuple[float, float]]]]:
    """Return for each panel a governor's p99 latency in us, and its energy in % of the oracle's."""
    panels: list[tuple[str, dict[str, tuple[float, float]]]] = []
    if len(comparison.sources) > 1:
        panels.append(
            (
                "mean of all recordings",
                {
                    line.label: (p99, 100 + line.mean_regret)
                    for line in lines(comparison)
                    if line.kind != BEST_KIND
                    and line.mean_regret is not None
                    and (p99 := line.values["latency_p99_us"]) is not None
                },
            )
        )
    if len(comparison.sources) <= _PANELS:
        for source in comparison.sources:
            points = {
                item.label: (p99, 100 + value)
                for item in comparison.of_trace(source.label)
                if item.kind != BEST_KIND
                and (value := item.regret) is not None
                and (p99 := item.outcome.latency_us(0.99)) is not None
            }
            panels.append((source.label, points))
    return [(title, points) for title, points in panels if points]


def _steps(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Return the border of what the front's points beat: to the right of and above them."""
    ordered = sorted({points[n] for n in front(points)})
    xs = [max(x, drawing.LEAST_US) for x, _ in ordered]
    ys = [y for _, y in ordered]
    return [xs[0], *xs, 1e5], [1e4, *ys, ys[-1]]


def pareto(comparison: Comparison) -> Chart:
    """Energy against p99 wake-up latency, with the Pareto front."""
    panels = _energies(comparison)
    styles, kinds = looks(comparison), comparison.governors
    columns, height, gap = drawing.raster(len(panels), 260)
    layout = drawing.grid_of_panels([title for title, _ in panels], columns, gap=0.05, rows_gap=gap)
    data: list[Trace] = []
    seen: set[str] = set()
    most = 1.0
    for n, (_, points) in enumerate(panels):
        apart = (LIMIT_KIND, RECORDED_KIND)
        real = [point for name, point in points.items() if kinds[name] not in apart]
        energies = [energy for _, energy in points.values()]
        low, high = min(energies), max(energies)
        room = max(high - low, _LEAST_ROOM)
        layout[drawing.axis_key(n, "y")]["range"] = [low - 0.08 * room, low + 1.12 * room]
        if real:
            xs, ys = _steps(real)
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "x": xs,
                    "y": ys,
                    "line": {"shape": "hv", "width": 1.5, "dash": "dot", "color": "#888888"},
                    "hoverinfo": "skip",
                    **drawing.axes(n),
                    **drawing.legend_entry("Pareto front", seen),
                }
            )
        places = drawing.beside([latency for latency, _ in points.values()])
        for place, (name, (latency, energy)) in zip(places, points.items(), strict=True):
            most = max(most, latency)
            colour, symbol = styles[name]
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": [place],
                    "y": [energy],
                    "marker": {"color": colour, "symbol": symbol, "size": 13},
                    "hovertemplate": f"<b>{safe(name)}</b><br>energy {energy:.1f} % of the "
                    f"oracle's<br>p99 wake-up latency {latency:g} us<extra></extra>",
                    **drawing.axes(n),
                    **drawing.legend_entry(name, seen),
                }
            )
    drawing.each_axis(layout, "x", drawing.latency_ticks(most))
    for n in range(len(panels)):
        layout[drawing.axis_key(n, "x")]["title"] = {"text": "p99 wake-up latency, us"}
        if n % columns == 0:
            layout[drawing.axis_key(n, "y")]["title"] = {"text": "energy, % of the oracle's"}
    drawing.legend_above(layout, height)
    return Chart(
        "pareto",
        "Energy against wake-up latency",
        "Lower and further left is better. Modelled idle energy; the oracle's is 100. A governor "
        "on the dotted line is beaten by none in both; those above and right of it are. The grey "
        "ones are limits that no kernel can run, the cross is what was recorded. Governors of "
        "equal latency stand a little apart. Of a range of regrets the middle is shown.",
        data,
        layout,
        height,
    )


def lost_by_length(results: Sequence[Result]) -> tuple[list[float], list[float]]:
    """Return lengths in us, and the energy lost in intervals of at least that length.

    The second is in % of the oracle's energy, the mean over the results, so its sum is the mean
    regret. Intervals of a step are shorter than the next length. Both are empty without energy.
    """
    each = [
        100 * (item.outcome.length_pj - item.outcome.length_oracle_pj) / item.outcome.oracle_pj
        for item in results
        if item.outcome.oracle_pj
    ]
    if not each:  # no interval has a cost
        return [], []
    steps = np.mean(each, axis=0).reshape(-1, _STEP).sum(axis=1)
    lengths = [length_of(n * _STEP) / 1000 for n in range(len(steps))]
    return lengths, [float(value) for value in steps]


def _same_table(comparison: Comparison) -> list[tuple[str, float]]:
    """Return names and target residencies in us if all CPUs have the same."""
    state_tables = {m for source in comparison.sources for m in source.state_tables.values()}
    if len(state_tables) != 1:
        return []
    (table,) = state_tables
    pairs = zip(table.names, table.target_residency_ns, strict=True)
    return [(name, target / 1000) for name, target in pairs if target]


def length(comparison: Comparison) -> Chart:
    """Where the energy is lost: the excess over the oracle by length of the interval."""
    panels = _panels(comparison)
    styles = looks(comparison)
    columns, height, gap = drawing.raster(len(panels), 230)
    layout = drawing.grid_of_panels([title for title, _ in panels], columns, gap=0.05, rows_gap=gap)
    data: list[Trace] = []
    seen: set[str] = set()
    used: list[float] = []
    for n, (_, governors) in enumerate(panels):
        for results in governors:
            if not any(item.outcome.oracle_pj for item in results) or results[0].label == ORACLE:
                continue
            lengths, lost = lost_by_length(results)
            shown = [k for k, value in enumerate(lost) if abs(value) > _VISIBLE * max(lost)]
            if not shown:
                continue
            part = slice(max(0, shown[0] - 1), shown[-1] + 2)
            used += lengths[part]
            name = results[0].label
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "x": lengths[part],
                    "y": [round(value, 4) for value in lost[part]],
                    "line": {
                        "shape": "hv",
                        "width": 2,
                        "color": styles[name][0],
                        "dash": _DASHES[comparison.governors[name]],
                    },
                    "hovertemplate": f"<b>{safe(name)}</b><br>intervals from %{{x:.3g}} us: "
                    "%{y:.2f} % of the oracle's energy<extra></extra>",
                    **drawing.axes(n),
                    **drawing.legend_entry(name, seen),
                }
            )
    reach = {"range": [np.log10(min(used)), np.log10(max(used))]} if used else {}
    names = ["1 us", "100 us", "10 ms", "1 s", "100 s"]
    ticks = [100.0**k for k in range(len(names))]
    axis: Layout = {"type": "log", "tickvals": ticks, "ticktext": names, "tickangle": 0, **reach}
    drawing.each_axis(layout, "x", axis | {"title": {"text": "length of the interval"}})
    layout["shapes"] = [
        {
            "type": "line",
            "x0": target,
            "x1": target,
            "y0": 0,
            "y1": 1,
            "xref": drawing.axis_name(n, "x"),
            "yref": f"{drawing.axis_name(n, 'y')} domain",
            "line": {"width": 1, "dash": "dash", "color": "rgba(128,128,128,0.5)"},
        }
        for n in range(len(panels))
        for _, target in _same_table(comparison)
    ]
    for n in range(0, len(panels), columns):
        layout[drawing.axis_key(n, "y")]["title"] = {"text": "lost, % of oracle's energy"}
    drawing.legend_above(layout, height)
    targets = ", ".join(f"{name} {us:g} us" for name, us in _same_table(comparison))
    return Chart(
        "length",
        "Where the energy is lost",
        "Modelled energy above the oracle's, by the length of the idle interval, two steps to each "
        "doubling. The steps of a governor add up to its regret. Losses at short intervals come "
        "from states too deep, at long ones from states too shallow."
        + (f" Dashed: target residencies ({targets})." if targets else ""),
        data,
        layout,
        height,
    )


def _heats(comparison: Comparison) -> list[tuple[str, tuple[str, ...], Counts]]:
    """Return a title, the states and the counts, for each governor and names of states."""
    found: dict[tuple[str, tuple[str, ...]], Counts] = {}
    for result in comparison.results.values():
        if result.kind == BEST_KIND:
            continue
        names = result.outcome.table.names
        counts = result.outcome.heat[: len(names), : len(names)].astype(np.int64)
        found[result.label, names] = counts + found.get((result.label, names), 0)
    several = len({names for _, names in found}) > 1
    rank = list(comparison.governors)
    return [
        (_title(label) + (f"\n{' '.join(names)}" if several else ""), names, counts)
        for (label, names), counts in sorted(found.items(), key=lambda item: rank.index(item[0][0]))
    ]


def _title(label: str) -> str:
    return label if len(label) <= _TITLE else f"{label[: _TITLE - 1]}…"


def heat(comparison: Comparison) -> Chart:
    """Heat maps of the state chosen against the ideal state."""
    panels = _heats(comparison)
    kinds = len({names for _, names, _ in panels})
    columns = min(len(panels), 3 if kinds == 3 else 4)
    rows = -(-len(panels) // columns)
    inner = rows * 190 + (rows - 1) * 90
    shown = [(title, names, counts.tolist()) for title, names, counts in panels]
    data, layout = drawing.heat_panels(shown, columns, 90 / inner)
    layout["margin"] = {"t": 50, "b": 56}
    return Chart(
        "heat",
        "Chosen and ideal state",
        "For each state chosen (row), in which state an oracle would have been at that moment "
        "(column), in % of the row. Right of the diagonal the choice was too shallow, left of it "
        "too deep. All recordings together.",
        data,
        layout,
        inner + 106,
    )


def all_charts(comparison: Comparison) -> list[Chart]:
    """Return the charts in the order shown; those without data are left out."""
    charts = [length(comparison), heat(comparison)]
    return [pareto(comparison), *charts] if _energies(comparison) else charts
