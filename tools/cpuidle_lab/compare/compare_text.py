# SPDX-License-Identifier: GPL-2.0
"""A comparison in the terminal."""

from rich.text import Text

from cpuidle_lab.compare.figures import (
    Line,
    headline,
    is_check,
    is_worse,
    lines,
    notes,
    show,
    show_mean,
    show_range,
    show_regret,
)
from cpuidle_lab.compare.model import Comparison
from cpuidle_lab.replay.candidates import BAYES, BEST_KIND, LIMIT_KIND, RECORDED_KIND
from cpuidle_lab.view.terminal import Column, console, print_columns, print_note

_COLUMNS = {
    "latency_p50_us": "p50\nus",
    "latency_p99_us": "p99\nus",
    "latency_max_us": "max\nus",
    "above": "above\n%",
    "below": "below\n%",
    "tick_wakeups": "ticks\n%",
}


def title_of(comparison: Comparison, line: Line) -> str:
    """Return how a governor is called in a table."""
    if line.label == BAYES:
        return f"{line.label} (floor estimate)"
    if line.kind == RECORDED_KIND:
        names = {item.governor for item in comparison.of_governor(line.label)}
        return f"{line.label} ({', '.join(sorted(names))})"
    return f"{line.label} (check)" if is_check(comparison, line.label) else line.label


def first_replayed(comparison: Comparison, found: list[Line]) -> int:
    """Return the number of the first line below the recorded governor and its check."""
    above = [line.kind == RECORDED_KIND or is_check(comparison, line.label) for line in found]
    return above.index(False) if False in above else len(above)


def _summary(comparison: Comparison, found: list[Line]) -> list[Column]:
    several = len(comparison.sources) > 1
    columns = [Column("governor", [title_of(comparison, line) for line in found], "left")]
    title = "mean\nregret %" if several else "regret\n%"
    columns.append(Column(title, [show_mean(line) for line in found]))
    if any(line.low is not None for line in found):
        columns.append(Column("95 %\ninterval", [show_range(x.low, x.high) for x in found]))
    if several:
        worst = [show("worst_regret", line.worst_regret) for line in found]
        columns.append(Column("worst\nregret %", worst))
        columns.append(Column("worst\ntrace", [line.worst_trace for line in found], "left"))
    for key, title in _COLUMNS.items():
        columns.append(Column(title, [show(key, line.values[key]) for line in found]))
    if comparison.counted:
        counts = [
            ""
            if line.kind in (LIMIT_KIND, RECORDED_KIND)
            else show("instructions", line.values["instructions"])
            for line in found
        ]
        columns.append(Column("instr.", counts))
    return columns


def _by_trace(comparison: Comparison, found: list[Line]) -> list[Column]:
    columns = [Column("trace", [source.label for source in comparison.sources], "left")]
    for line in found:
        cells = []
        for result in comparison.of_governor(line.label):
            worse = is_worse(comparison, result) and line.kind != LIMIT_KIND
            cells.append("!" * worse + show_regret(result))
        columns.append(Column(line.label, cells))
    return columns


def show_tables(comparison: Comparison) -> None:
    """Print the tables; plain text where the output is no terminal."""
    out = console()
    found, sources = lines(comparison), comparison.sources
    out.print(Text(headline(comparison), style="bold"))
    out.print()
    several = len(comparison.sources) > 1
    where = f"over {len(sources)} recordings" if several else f"on {sources[0].label}"
    kinds = [line.kind for line in found]
    rules = {kinds.index(kind) for kind in (BEST_KIND, LIMIT_KIND) if kind in kinds}
    if RECORDED_KIND in kinds:
        rules.add(first_replayed(comparison, found))
    title = f"Governors {where}, the least regret first"
    print_columns(out, title, _summary(comparison, found), rules)
    if several:
        title = "Regret in %, by recording; ! is worse than the best mainline"
        print_columns(out, title, _by_trace(comparison, found), set())
    for note in notes(comparison):
        print_note(out, note)
    out.print(
        Text(
            "p50, p99, max: modelled wake-up latency; instr.: instructions per decision; all "
            "energy is modelled; ?: unknown"
        )
    )
