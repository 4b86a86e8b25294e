# SPDX-License-Identifier: GPL-2.0
"""The benchmark as tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cpuidle_lab.compare import terminal as comparison_terminal
from cpuidle_lab.compare.model import Comparison
from experiments.bench.losses import REGRET, Figure

# Width where there is no terminal: enough for every column.
_PLAIN_WIDTH = 200


def console() -> Console:
    """Return where to print: plain text if the output is no terminal."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)


def number(value: float | None, digits: int = 0) -> str:
    """Return a number as people read it; a question mark where there is none."""
    return "?" if value is None else f"{value:,.{digits}f}"


def table(
    out: Console,
    title: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: Sequence[int],
) -> None:
    """Print a table; columns are aligned to the right but for those in `left`."""
    shown = Table(
        title=Text(title),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD if out.is_terminal else box.ASCII2,
        pad_edge=False,
    )
    for place, head in enumerate(heads):
        wrap = place == len(heads) - 1
        shown.add_column(head, justify="left" if place in left else "right", no_wrap=not wrap)
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    out.print(shown)


def _governors(out: Console, part: dict[str, Any]) -> None:
    reference = part["reference"]
    heads = (
        "governor",
        "instr.",
        f"ratio to\n{reference}",
        "to its\ndefault",
        "worst\nstream",
        "ns\nin all",
        "the engine's\nshare, at most",
        "what is\nleft",
        f"ratio to\n{reference}",
        "worst stream",
    )
    for group in dict.fromkeys(row["group"] for row in part["rows"]):
        rows = [row for row in part["rows"] if row["group"] == group]
        title = f"A decision and its outcome; {group}, mean of {rows[0]['streams']} streams"
        cells = [
            (
                row["governor"],
                number(row["instructions"]),
                number(row["instructions_ratio"], 2),
                number(row["default_ratio"], 2) if ":" in row["governor"] else "",
                number(row["worst_instructions"]),
                number(row["total_ns"], 1),
                number(row["engine_ns"], 1),
                number(row["own_ns"], 1),
                number(row["ns_ratio"], 2),
                row["worst_stream"],
            )
            for row in rows
        ]
        table(out, title, heads, cells, (0, 9))
    if not part["counted"]:
        out.print("note: instructions were not counted: valgrind is missing (apt install valgrind)")
    out.print(
        "ns: CPU time, noisy, to be compared within one run only. By the clock mainline pays for "
        "what stands in for the kernel around it;\ninstructions do not have that.\n"
    )


def gate_costs(out: Console, part: Mapping[str, Any]) -> None:
    """Print what the gate adds to a decision.

    Args:
        out: where to print.
        part: as of gate.measure().
    """
    title = (
        f"select in the kernel {part['kernel']}, learning from the last period and the tick's "
        f"answer included; {part['workload']} on {part['machine']}; instructions"
    )
    heads = ("case", "mean", "median", "max", "decisions", f"gate adds to {part['base']}")
    cells = [
        (
            case["case"],
            number(case["mean"]),
            number(case["median"]),
            number(case["max"]),
            number(case["decisions"]),
            "" if case["added"] is None else f"{case['added']:+,.0f}",
        )
        for case in part["cases"]
    ]
    table(out, title, heads, cells, (0,))


def _met(value: float | None, target: float) -> str:
    if value is None:
        return "unknown"
    return "met" if value >= target else "MISSED"


def _speed(value: float | None, target: float, digits: int = 1) -> tuple[str, str, str]:
    millions = None if value is None else value / 1e6
    return number(millions, digits), number(target / 1e6, 0), _met(value, target)


def _throughput(out: Console, parts: dict[str, dict[str, Any]]) -> None:
    rows: list[tuple[str, str, str, str, str]] = []
    if "reader" in parts:
        part = parts["reader"]
        speed = _speed(part["events_per_s"], part["target_events_per_s"])
        what = f"reader: events, of {part['events']:,}"
        rows.append((what, *speed, number(part["instructions_per_event"])))
    if "replay" in parts:
        part = parts["replay"]
        of = f"{part['governor']}, {part['states']} states, {part['stream']}"
        speed = _speed(part["periods_per_s"], part["target_periods_per_s"])
        rows.append(
            (f"replay: idle periods, {of}", *speed, number(part["instructions_per_period"]))
        )
        speed = _speed(part["periods_per_s_with_reading"], part["target_periods_per_s"])
        rows.append(("replay: the same, with reading the columns", *speed, ""))
    if rows:
        heads = ("what", "millions a\nsecond", "target", "", "instr. of\neach")
        table(out, "Throughput, by the CPU time of one core", heads, rows, (0, 3))


def _loss(one: Figure) -> str:
    digits = 1 if one.figure == REGRET else 0
    return f"{one.where} {number(one.ours, digits)} ({number(one.mainline, digits)})"


def _losses(out: Console, figures: Sequence[Figure], parts: Iterable[str]) -> None:
    worse: dict[tuple[str, str, str], list[Figure]] = {}
    for one in figures:
        if one.worse:
            worse.setdefault((one.governor, one.figure, one.than), []).append(one)
    lost = sum(map(len, worse.values()))
    out.print(Text(f"Where we lose: {lost} of {len(figures)} figures are worse than mainline's",
                   style="bold"))  # fmt: skip
    if not figures:
        out.print(f"nothing of {', '.join(parts)} can be compared with mainline")
    elif not worse:
        out.print("nowhere in what was measured")
    else:
        cells = [
            (governor, figure, than, "; ".join(map(_loss, found)))
            for (governor, figure, than), found in worse.items()
        ]
        heads = ("ours", "worse in", "than", "where: ours (mainline's)")
        table(out, "", heads, cells, (0, 1, 2, 3))


def show(
    parts: dict[str, dict[str, Any]], figures: Sequence[Figure], comparison: Comparison | None
) -> None:
    """Print every part that was measured, then where ours lose.

    Args:
        parts: as bench.json has them.
        figures: as losses.compared() gives them.
        comparison: the regrets over the corpus, if there are any.
    """
    out = console()
    if "governors" in parts:
        _governors(out, parts["governors"])
    if "gate" in parts:
        gate_costs(out, parts["gate"])
    _throughput(out, parts)
    if comparison is not None:
        comparison_terminal.show_tables(comparison)
        out.print()
    elif "corpus" in parts:
        out.print(f"corpus: {parts['corpus']['missing']}\n")
    _losses(out, figures, parts)
