# SPDX-License-Identifier: GPL-2.0
"""Pictures of a comparison: a row for each idle state, a mark for each side."""

from collections.abc import Iterator, Sequence

from cpuidle_lab.dump import groups
from cpuidle_lab.dump.figures import METRICS, Row
from cpuidle_lab.dump.report import Report
from cpuidle_lab.dump.sheets import letter
from cpuidle_lab.evidence.plots import Line, Plot

# Figures that are drawn, and the one whose percentage each is; None: it is a percentage itself.
DRAWN = {"time": None, "entries": None, "aboves": "idles", "belows": "idles"}

# Marks of the sides stand apart by this part of a row.
_APART = 0.22

# Letters of a side's name that have room in the legend.
_NAME = 20


def _percent(row: Row, key: str, at: int) -> float | None:
    """Return what is drawn of a side, in percent; None where a figure is withheld."""
    value, whole = row.values[key][at].mean, DRAWN[key]
    if whole is None or value is None:
        return value
    every = row.values[whole][at].mean
    return 100 * value / every if every else None


def _line(report: Report, rows: Sequence[Row], key: str, at: int) -> Line:
    name = report.sides[at].name
    short = name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
    shift = (at - (len(report.sides) - 1) / 2) * min(_APART, 1 / len(report.sides))
    told = [(_percent(row, key, at), number + shift) for number, row in enumerate(rows)]
    points = [(value, place) for value, place in told if value is not None]
    return Line(f"{letter(at)}: {short}", points, joined=False)


def pictures(report: Report, kinds: Sequence[str]) -> Iterator[Plot]:
    """Yield the pictures of the groups of some kinds, each CPU's apart.

    A figure that is withheld has no mark, and a picture without marks is left out.

    Args:
        report: the comparison.
        kinds: of groups.
    """
    wanted: dict[tuple[str, str], list[Row]] = {}
    for row in report.rows:
        if row.kind in kinds and row.kind != groups.CPU and row.state != groups.EVERY:
            wanted.setdefault((row.kind, row.group), []).append(row)
    for rows in wanted.values():
        for key, whole in DRAWN.items():
            lines = [_line(report, rows, key, at) for at in range(len(report.sides))]
            if not any(line.points for line in lines):
                continue
            axis = "% of the state's entries" if whole else "%"
            title = f"{key}, {rows[0].title}: {METRICS[key].about}"
            yield Plot(key, title, axis, "", lines, categories=[row.state for row in rows])
