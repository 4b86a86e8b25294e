# SPDX-License-Identifier: GPL-2.0
"""Charts of domains: what kept each from sleep over time, and the energy that CPUs cost it."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from cpuidle_lab.domains.account import Account, Array
from cpuidle_lab.domains.blame import AWAKE, SHALLOW, SHORT
from cpuidle_lab.domains.observed import Part
from cpuidle_lab.domains.replayed import Replayed
from cpuidle_lab.figures.pictures import SLICES
from cpuidle_lab.view.drawing import (
    GOVERNOR_COLOURS,
    ROW_PX,
    Chart,
    Layout,
    Trace,
    axes,
    axis_key,
    each_axis,
    grid_of_panels,
    legend_entry,
    safe,
    stack_panels,
)

# Conditions of a domain, from a CPU that runs to a sleep that pays, with the colours.
CONDITIONS = {
    "a CPU ran": "#d1495b",
    "a CPU was not deep enough": "#e69f00",
    "all were, too short to pay": "#a463c9",
    "all were, long enough": "#1fa774",
}

_KINDS = {AWAKE: "a CPU ran", SHALLOW: "a CPU was not deep enough", SHORT: "a sleep was ended"}
_KIND_COLOURS = {AWAKE: "#d1495b", SHALLOW: "#e69f00", SHORT: "#a463c9"}
_PJ_PER_MJ = 1e9


def condition(found: Account) -> Array:
    """Return the condition of each stretch, by its place in CONDITIONS."""
    return np.where(found.pays, 3, np.where(found.vote > 0, 2, found.idle.astype(np.int64)))


def in_slices(found: Account, slices: int = SLICES) -> Array:
    """Return the time of each condition (rows) in each slice of the span (columns), ns.

    The running totals of each condition are read at the edges of the slices: between the edges of
    stretches they are straight lines.
    """
    edges, kind = found.edges_ns.astype(np.float64), condition(found)
    cuts = np.linspace(edges[0], edges[-1], slices + 1)
    totals = (
        np.concatenate([[0.0], np.cumsum(np.where(kind == k, found.length_ns, 0))])
        for k in range(len(CONDITIONS))
    )
    return np.stack([np.diff(np.interp(cuts, edges, total)) for total in totals])


def slices(parts: Sequence[Part]) -> dict[str, list[tuple[int, int, str]]]:
    """Return the conditions of each domain over time: begin, end (ns) and name, by domain.

    Stretches of one condition that follow each other are one.
    """
    names = list(CONDITIONS)
    found: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for part in parts:
        for name, slept in part.domains.items():
            kind, edges = condition(slept.account), slept.account.edges_ns
            starts = np.flatnonzero(np.diff(kind, prepend=-1))
            ends = np.append(starts[1:], len(kind))
            found[f"domain {name}"] += [
                (int(edges[begin]), int(edges[end]), names[kind[begin]])
                for begin, end in zip(starts, ends, strict=True)
            ]
    return dict(found)


def _title(part: Part) -> str:
    return " ".join(filter(None, (part.governor, part.workload))) or "whole recording"


def strips(parts: Sequence[Part]) -> Chart:
    """Show over time what most of each slice was, a panel for each phase, a row for each domain."""
    shown = [part for part in parts if part.domains]
    layout = grid_of_panels([_title(part) for part in shown], 1, rows_gap=0.0)
    heights = [len(part.domains) * ROW_PX for part in shown]
    height = 70 + sum(heights) + 60 * len(shown)
    stack_panels(layout, heights, height - 92, 36)
    count, scale = len(CONDITIONS), []
    for k, colour in enumerate(CONDITIONS.values()):
        scale += [(k / count, colour), ((k + 1) / count, colour)]
    data: list[Trace] = []
    for n, part in enumerate(shown):
        times = {name: in_slices(slept.account) for name, slept in part.domains.items()}
        span_ns = (part.last_ns - part.first_ns) / SLICES
        most = {name: np.argmax(each, axis=0) for name, each in times.items()}
        share = {name: 100 * each.max(axis=0) / span_ns for name, each in times.items()}
        names = list(CONDITIONS)
        data.append(
            {
                "type": "heatmap",
                "z": [each.tolist() for each in most.values()],
                "y": [safe(name) for name in most],
                "x": [round(span_ns * (slot + 0.5) / 1e6, 3) for slot in range(SLICES)],
                "text": [
                    [f"{names[k]}, {of:.0f} % of it" for k, of in zip(kinds, share[name],
                     strict=True)] for name, kinds in most.items()
                ],
                "ygap": 3,
                "zmin": -0.5,
                "zmax": count - 0.5,
                "colorscale": scale,
                "showscale": False,
                **axes(n),
                "hovertemplate": "<b>%{y}</b><br>%{x:.1f} ms: %{text}<extra></extra>",
            }
        )  # fmt: skip
    data += [_entry(name, colour) for name, colour in CONDITIONS.items()]
    _names_beside(layout)
    each_axis(layout, "x", {"showgrid": False, "ticksuffix": " ms", "zeroline": False})
    return Chart(
        "strips",
        "Domains over time",
        f"The condition that most of a slice was, of {SLICES} slices; green is sleep that pays.",
        data,
        layout,
        height,
    )


def _entry(name: str, colour: str) -> Trace:
    """Return an entry of the legend."""
    return {"type": "scatter", "mode": "markers", "x": [None], "y": [None], "name": name,
            "marker": {"symbol": "square", "size": 12, "color": colour},
            "hoverinfo": "skip"}  # fmt: skip


def _names_beside(layout: Layout) -> None:
    each_axis(layout, "y", {"autorange": "reversed", "showgrid": False, "automargin": True,
                            "type": "category", "ticksuffix": "  "})  # fmt: skip


def blamed(parts: Sequence[Part]) -> Chart | None:
    """Show the energy beyond the deepest level by CPU, in each phase; nothing if it is 0."""
    panels = []
    for part in parts:
        energies: defaultdict[tuple[str, str], float] = defaultdict(float)
        for name, slept in part.domains.items():
            for share in [] if slept.broken else slept.shares:
                energies[f"{name}, CPU {share.cpu}", share.kind] += share.energy_pj / _PJ_PER_MJ
        if sum(energies.values()) > 0:
            panels.append((_title(part), energies))
    if not panels:
        return None
    layout = grid_of_panels([title for title, _ in panels], 1, rows_gap=0.0)
    rows = [sorted({row for row, _ in energies}) for _, energies in panels]
    height = 70 + sum(len(each) * ROW_PX for each in rows) + 60 * len(panels)
    stack_panels(layout, [len(each) * ROW_PX for each in rows], height - 92, 36)
    data: list[Trace] = []
    seen: set[str] = set()
    for n, ((_, energies), names) in enumerate(zip(panels, rows, strict=True)):
        for kind, words in _KINDS.items():
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "y": [safe(name) for name in names],
                    "x": [round(energies[name, kind], 6) for name in names],
                    "marker": {"color": _KIND_COLOURS[kind]},
                    **legend_entry(words, seen),
                    **axes(n),
                    "hovertemplate": "<b>%{y}</b><br>" + words + ": %{x:.3f} mJ<extra></extra>",
                }
            )
        layout[axis_key(n, "x")].update({"ticksuffix": " mJ", "tickformat": ",~f"})
    layout["barmode"] = "stack"
    _names_beside(layout)
    return Chart(
        "blamed",
        "CPUs that kept domains from sleep",
        "Modelled energy beyond a domain that is always at its deepest level.",
        data,
        layout,
        height,
    )


def regrets(found: Replayed) -> Chart | None:
    """Show the two parts of each governor's regret; nothing where no regret is known."""
    known = [(row.label, regret) for row in found.rows if (regret := found.regret(row))]
    if not known:
        return None
    layout = grid_of_panels(["regret of the machine"], 1)
    labels = [safe(label) for label, _ in known]
    parts = (("own errors", 1), ("not knowing the neighbours", 2))
    data: list[Trace] = [
        {
            "type": "bar",
            "orientation": "h",
            "y": labels,
            "x": [round(regret[place], 4) for _, regret in known],
            "name": name,
            "marker": {"color": GOVERNOR_COLOURS[n]},
            "hovertemplate": "<b>%{y}</b><br>" + name + ": %{x:.2f} %<extra></extra>",
        }
        for n, (name, place) in enumerate(parts)
    ]
    layout["barmode"] = "relative"
    layout["margin"] = {"t": 56, "b": 52}
    _names_beside(layout)
    each_axis(layout, "x", {"ticksuffix": " %"})
    against = "the joint oracle" if found.joint.is_exact else "a lower bound of it"
    return Chart(
        "regrets",
        "Regret of the machine",
        f"Modelled energy of CPUs and domains together beyond {against}.",
        data,
        layout,
        120 + ROW_PX * len(known),
    )
