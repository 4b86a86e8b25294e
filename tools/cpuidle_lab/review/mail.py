# SPDX-License-Identifier: GPL-2.0
"""The result as a mail that answers the patch: plain text, 72 columns, at most 100 lines."""

import shlex
from collections.abc import Mapping, Sequence
from statistics import median
from textwrap import wrap
from typing import Any

from cpuidle_lab.base.errors import printable
from cpuidle_lab.review.booted import LabChange
from cpuidle_lab.review.effect import FIGURES, SEEDS, FigureChange
from cpuidle_lab.review.hunt import OBJECTIVES
from cpuidle_lab.review.result import ReviewResult
from cpuidle_lab.review.stream import phases_text, table_text

WIDTH, LINES = 72, 100
# In the first line, so that a review replaces only its own.
MARK = "cpuidle-lab review: "
# Lines of a list, and witnesses of gain: as many as there is room for.
_ROOM = ((6, 3), (6, 1), (4, 1), (3, 1), (3, 0))
_UNKNOWN = (
    "Energy and power are modelled, by target residencies. Replay does not know power limits, "
    "frequency, real exit latencies, nor that a late wake-up delays work."
)
_NAME = 36
_OF_SEEDS = f"median of {SEEDS} streams +- half of their range"
# Columns of parts beside each other.
_PARTS = 4


def _wrapped(text: str, first: str = "", later: str = "") -> list[str]:
    return wrap(printable(text), WIDTH, initial_indent=first, subsequent_indent=later or first,
                break_on_hyphens=False)  # fmt: skip


def _titled(title: str, lines: Sequence[str]) -> list[str]:
    return ["", title, *lines] if lines else []


def _base(result: ReviewResult) -> list[str]:
    base = result.base
    head = _wrapped(f"{MARK}{result.before} before, {result.after} after.")
    if base is None:
        return head
    text = f"Applied to {base.kernel} ({base.how})"
    text += ", in reverse" if result.reverse else ""
    text += f"; {', '.join(base.notes)}" if base.notes else ", without fuzz"
    lines = head + _wrapped(f"{text}.")
    if result.not_judged:
        lines += _wrapped(f"Not judged: {', '.join(result.not_judged)}.")
    return lines


def _decision(told: Mapping[str, Any]) -> str:
    tick = "stops" if told["stops_tick"] else "keeps"
    return f"{told['state']}, {tick} the tick, is woken in {told['woken_in']}"


def _decisions(result: ReviewResult) -> list[str]:
    sweep = result.sweep
    if not sweep:
        return []
    total = sweep["total"]
    share = 100 * (result.share or 0)
    counts = f"{total['differ']:,} of {total['periods']:,} idle periods ({share:.3f} %)"
    lines = _wrapped(f"{counts} have a decision that differs.")
    shares = sorted(((one["differ"] / one["periods"], name) for name, one in sweep["kinds"].items()
                     if one["differ"]), reverse=True)  # fmt: skip
    if shares:
        most = ", ".join(f"{name} {100 * share:.1f} %" for share, name in shares[:4])
        lines += _wrapped(f"Most on: {most}.")
    if spec := sweep.get("spec"):
        parting = sweep["parting"]
        lines += ["Smallest counterexample:", *_wrapped(table_text(spec), "  ")]
        lines += _wrapped(phases_text(spec), "  ")
        was, now = (_decision(parting[side]) for side in ("before", "after"))
        lines += _wrapped(f"interval {parting['interval']}: was {was}; now {now}", "  ", "    ")
    return lines


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _spread(values: Sequence[float]) -> str:
    half = (max(values) - min(values)) / 2
    return f"{_number(median(values))} +-{_number(half)}" if len(values) > 1 else _number(values[0])


def _cells(cells: Sequence[FigureChange], most: int) -> list[str]:
    if not cells:
        return []
    lines = [f"  {'':{_NAME}} {'before':>13} {'after':>13}"]
    for cell in cells[:most]:
        where = printable(f"{cell.figure} {cell.where}")[:_NAME]
        lines.append(
            f"  {where:{_NAME}} {_spread(cell.before):>13} {_spread(cell.after):>13}".rstrip()
        )
    if len(cells) > most:
        lines.append(f"  and {len(cells) - most} more")
    return lines


def _means(result: ReviewResult) -> list[str]:
    """Return the mean of each figure over all cells."""
    lines = []
    for figure, (unit, _) in FIGURES.items():
        cells = [cell for cell in result.cells if cell.figure == figure]
        if not cells:
            continue
        before, after = (sum(median(getattr(cell, side)) for cell in cells) / len(cells)
                         for side in ("before", "after"))  # fmt: skip
        name = f"{figure}, {unit}"
        lines.append(f"  {name:{_NAME}} {_number(before):>13} {_number(after):>13}")
    for name, bound in zip(("shallowest", "deepest"), result.bounds, strict=False):
        lines.append(f"  {f'{name} state alone, median %':{_NAME}} {_number(bound):>13}")
    return lines


def _witnesses(
    witnesses: Sequence[Mapping[str, Any]], result: ReviewResult, kind: str
) -> list[str]:
    lines: list[str] = []
    for number, one in enumerate(witnesses, 1):
        name, score = one["real"]
        lines += _wrapped(f"{number}. {table_text(one['spec'])}", "", "   ")
        lines += _wrapped(phases_text(one["spec"]), "   ")
        before, after = one["before"], one["after"]
        figures = (f"regret {_number(before['regret'])} -> {_number(after['regret'])} %, "
                   f"power {_number(before['power_mw'])} -> {_number(after['power_mw'])} mW "
                   f"(modelled), exit latency {_number(before['latency_us'])} -> "
                   f"{_number(after['latency_us'])} us, ticks {_number(before['ticks_per_s'])} -> "
                   f"{_number(after['ticks_per_s'])} /s")  # fmt: skip
        lines += _wrapped(figures, "   ")
        if score >= OBJECTIVES[one["objective"]].least:
            lines += _wrapped(f"on the table of {name}, too", "   ")
        if played := result.played.get(f"{kind}-{number}"):
            lines += _wrapped(f"in the lab: {' -> '.join(played.values())}", "   ")
        if file := result.files.get(f"{kind}-{number}"):
            lines += _wrapped(f"case: {file}", "   ")
    return lines


def _listed(result: ReviewResult, most: int) -> list[str]:
    """Return the list's cases whose figures change, those that change most first."""
    differ = [one for one in result.listed if one.differs]
    if not result.listed:
        return []
    lines = [f"  {len(differ)} of {len(result.listed)} figures change."]
    for one in differ[:most]:
        where = f"{one.case}, {one.where}" if one.where else one.case
        figures = f"{_number(one.before)} -> {_number(one.after)} {one.unit}"
        lines += _wrapped(f"{where}: {figures}", "  ", "    ")
    if len(differ) > most:
        lines.append(f"  and {len(differ) - most} more")
    return lines


def _lab(changes: Sequence[LabChange], rounds: str, most: int) -> list[str]:
    """Return the programs' figures that differ, the worse ones first."""
    differ = [one for one in changes if one.differs]
    if not changes:
        return []
    count, programs = len(changes[0].before), len({one.program for one in changes})
    lines = _wrapped(f"{len(differ)} of {len(changes)} figures of {programs} programs differ "
                     f"beyond the spread of {count} {rounds} and by 1 %.", "  ")  # fmt: skip
    if differ:
        lines.append(f"  {'':{_NAME}} {'before':>13} {'after':>13}")
    for one in differ[:most]:
        where = f"{'worse' if one.worse else 'better'} {one.figure} {one.program}"[:_NAME]
        lines.append(
            f"  {where:{_NAME}} {_spread(one.before):>13} {_spread(one.after):>13}".rstrip()
        )
    if len(differ) > most:
        lines.append(f"  and {len(differ) - most} more")
    return lines


def _contract(result: ReviewResult) -> list[str]:
    lines = []
    for one in result.contract:
        if one["held"]:
            continue
        before = "before, too" if not one["held_before"] else "new"
        lines += _wrapped(f"broken ({before}): {one['rule']} {one['why']}".rstrip(), "  ", "    ")
    held = sum(one["held"] for one in result.contract)
    return [*lines, f"  {held} of {len(result.contract)} rules are held"] if result.contract else []


def _cost(result: ReviewResult) -> list[str]:
    lines = [
        f"  {count} states: {told['before']:.0f} -> {told['after']:.0f} instructions a decision"
        for count, told in result.instructions.items()
    ]
    return lines + [line for text in result.checkers for line in _wrapped(text, "  ", "    ")]


def _died(result: ReviewResult) -> list[str]:
    if not result.died:
        return []
    spec = result.died["spec"]
    if spec is None:
        return ["No input is known by which it does so again."]
    return [
        "Smallest input:",
        *_wrapped(table_text(spec), "  "),
        *_wrapped(phases_text(spec), "  "),
    ]


def _limits(result: ReviewResult) -> list[str]:
    lines = _wrapped(_UNKNOWN)
    if not result.network:
        lines += _wrapped("The governors ran with the network open: the kernel does not allow "
                          "this user another.")  # fmt: skip
    return lines + [line for text in result.unreached for line in _wrapped(f"Not done: {text}.")]


def closing(result: ReviewResult) -> list[str]:
    """Return the limits of the findings, and a line for a patch that nothing speaks against."""
    thanks = "Tested-by: NAME <ADDRESS> # in replay, cpuidle-lab review"
    return _limits(result) + ([thanks] if result.base and not result.exit_code else [])


def lines_of(result: ReviewResult, room: tuple[int, int] = _ROOM[0]) -> list[str]:
    """Return the findings on one governor.

    Args:
        result: the findings.
        room: most lines of a list, and most witnesses of gain.
    """
    most, gains = room
    search = result.searched
    note = (f" ({search['evaluations']:,} streams tried, {search['by_chance']} by chance)"
            if search else "")  # fmt: skip
    return [
        *_base(result), "", *_wrapped(result.sentence), *_died(result),
        *_titled("Decisions", _decisions(result)),
        *_titled("Contract", _contract(result)),
        *_titled(f"Worse, worst first; {_OF_SEEDS}", _cells(result.worse, most)),
        *_titled(f"Better, best first; {_OF_SEEDS}", _cells(result.better, most)),
        *_titled("Mean of all cells", _means(result)),
        *_titled(f"Harm that a search found{note}", _witnesses(result.harm, result, "harm")),
        *_titled("In the lab, both as modules of one boot", _lab(result.lab, "seeds", most)),
        *_titled("On this machine, both as modules", _lab(result.here, "rounds", most)),
        *_titled("The list's cases, experiments/cases", _listed(result, most)),
        *_titled("Gain that a search found", _witnesses(result.gain[:gains], result, "gain")),
        *_titled("Cost of a decision, and checkers", _cost(result)),
    ]  # fmt: skip


def _mean(result: ReviewResult, figure: str, side: str) -> str:
    """Return the mean of a figure over all cells; "-": it was not measured."""
    values = [median(getattr(cell, side)) for cell in result.cells if cell.figure == figure]
    return _number(sum(values) / len(values)) if values else "-"


def columns(results: Sequence[ReviewResult]) -> list[str]:
    """Return the means of all cells before the first of several parts, and after each."""
    lines: list[str] = []
    governors = dict.fromkeys(one.after.partition(" ")[0] for one in results if one.column)
    for name in governors:
        parts = [one for one in results if one.after.partition(" ")[0] == name]
        rows = [["", "before", *(one.column for one in parts)],
                ["verdict", "", *(one.verdict for one in parts)]]  # fmt: skip
        rows += [
            [f"{figure}, {unit.partition(' ')[0]}", _mean(parts[0], figure, "before"),
             *(_mean(one, figure, "after") for one in parts)]
            for figure, (unit, _) in FIGURES.items()
        ]  # fmt: skip
        for at in range(2, len(rows[0]), _PARTS):
            lines += ["", f"{name}: means of all cells by part", *(
                f"  {row[0]:13}{row[1]:>8}{''.join(f'{one:>11}' for one in row[at : at + _PARTS])}"
                for row in rows)]  # fmt: skip
    return lines


def text_of(results: Sequence[ReviewResult], command: str) -> str:
    """Return the mail: at most LINES lines of WIDTH columns.

    Args:
        results: one for each governor, and for each part of a series.
        command: that makes it again.
    """
    tail = dict.fromkeys(line for result in results for line in closing(result))
    last = ["", *tail, "Again:", *_commands(command)]
    for room in _ROOM:
        lines = columns(results)[1:]
        for result in results:
            lines += ([""] if lines else []) + lines_of(result, room)
        if len(lines) + len(last) <= LINES:
            break
    else:
        lines = [*lines[: LINES - len(last) - 1], "The page and --json have the rest."]
    return "\n".join([*lines, *last, ""])


def _commands(command: str) -> list[str]:
    """Return a command over as many lines as it needs, to be pasted as it is."""
    lines, line = [], " "
    for word in map(shlex.quote, shlex.split(command)):
        if len(line) + len(word) + 3 > WIDTH and line.strip():
            lines.append(f"{line} \\")
            line = "   "
        line += f" {word}"
    return [*lines, line]
