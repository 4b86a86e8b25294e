# SPDX-License-Identifier: GPL-2.0
"""The answers on a fleet as texts, and in the terminal."""

from collections import Counter

from rich.text import Text

from cpuidle_lab.base.errors import printable
from cpuidle_lab.fleet.answers import Answers, Harm, Line, Range, Rollout
from cpuidle_lab.view.terminal import console, grid, print_note

# Rows of a list that the terminal shows; the page and answers.json have all.
SHOWN = 10

Head = tuple[str, bool]

LINE_HEADS: list[Head] = [
    ("kind", False), ("service", False), ("governor", False), ("machines", True),
    ("regret %", True), ("95 %", True), ("energy against base %", True), ("95 %", True),
    ("mW", True), ("p99 us", True), ("95 %", True), ("above %", True), ("below %", True),
    ("package deep %", True), ("95 %", True),
]  # fmt: skip
HARM_HEADS: list[Head] = [
    ("machine", False), ("service", False), ("governor", False), ("energy %", True),
    ("shown by", False),
]  # fmt: skip
FAILED_HEADS: list[Head] = [("recording", False), ("reason", False)]


def number(value: float | None, digits: int = 1) -> str:
    """Return a figure as text, "?" if it is unknown, and no -0.0."""
    if value is None:
        return "?"
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if not any(digit in text for digit in "123456789") else text


def values(one: Range) -> str:
    """Return a figure as text: a range where recordings leave it open."""
    here, there = number(one.value), number(one.far)
    return here if here == there else f"{here} to {there}"


def interval(one: Range) -> str:
    """Return an interval as text, "" if there is none."""
    return "" if one.low is None else f"{number(one.low)} to {number(one.high)}"


def line_cells(line: Line) -> list[str]:
    """Return a line of the table of governors."""
    low, high = number(line.p99_low_us), number(line.p99_high_us)
    return [
        line.kind, line.service or "-", line.governor, str(line.machines),
        values(line.regret), interval(line.regret),
        "base" if line.change.value is None else values(line.change), interval(line.change),
        number(line.power_mw), number(line.p99_us),
        "" if line.p99_low_us is None else f"{low} to {high}",
        number(line.above), number(line.below),
        "" if line.deep.value is None else values(line.deep), interval(line.deep),
    ]  # fmt: skip


def harm_cells(harm: Harm) -> list[str]:
    """Return a line of the list of harm."""
    return [harm.machine, harm.service or "-", harm.governor, f"+{number(harm.change)}",
            harm.command]  # fmt: skip


def rollout(one: Rollout, answers: Answers) -> list[str]:
    """Return sentences on a roll-out."""
    said = f"{one.governor} in place of {answers.base}: saves {values(one.saved)} % of modelled " \
           f"idle energy"  # fmt: skip
    said += f" (95 % over machines: {interval(one.saved)})" if interval(one.saved) else ""
    found = [said]
    if one.kwh.value is not None:
        found.append(
            f"  a year: {values(one.kwh)} kWh modelled ({interval(one.kwh) or 'no interval'})"
        )
    if one.error is not None:
        whose = "on these services" if one.known else "over its workloads, none of these services"
        found.append(f"  predictions err by {number(one.error)} points on average, as make "
                     f"crossval found {whose}")  # fmt: skip
    if one.more == 0:
        found.append("  decided: the interval leaves out 0")
    elif one.more is not None:
        found.append(f"  undecided: some {one.more:,} machines more would decide it, if the mean "
                     "stays")  # fmt: skip
    else:
        found.append("  undecided: too few machines, or no difference")
    if one.top is not None:
        found.append(f"  the best 1 % of the machines have {number(one.top)} % of all gains")
    return found


def headline(answers: Answers) -> str:
    """Return the answer in one sentence."""
    best = max(
        answers.rollouts, key=lambda one: one.saved.value if one.saved.value is not None else -1e9,
        default=None,
    )  # fmt: skip
    if best is None:
        return f"{answers.counted} recordings of {answers.machines} machines, one governor alone"
    harmed = len({(one.machine, one.service) for one in answers.harmed
                  if one.governor == best.governor})  # fmt: skip
    return (
        f"{best.governor} saves {values(best.saved)} % of the modelled idle energy of "
        f"{answers.machines} machines in place of {answers.base}; {harmed} get worse by more than "
        f"{answers.limit:g} %"
    )


def reasons(answers: Answers) -> list[tuple[str, str]]:
    """Return the recordings that do not count, those of the rarest reasons first."""
    times = Counter(answers.failed.values())
    every = answers.failed.items()
    return sorted(every, key=lambda pair: (times[pair[1]], pair[1], pair[0]))


def show(answers: Answers) -> None:
    """Print the answers; plain text where the output is no terminal."""
    out = console()
    out.print(Text(printable(headline(answers)), style="bold"))
    out.print(grid(out, "Governors by kind and service", LINE_HEADS,
                   map(line_cells, answers.lines)))  # fmt: skip
    for one in answers.rollouts:
        for said in rollout(one, answers):
            out.print(Text(printable(said)))
    for title, heads, rows in (
        (f"Worse by more than {answers.limit:g} %, worst first", HARM_HEADS,
         [harm_cells(harm) for harm in answers.harmed]),
        ("Recordings that do not count", FAILED_HEADS,
         [list(pair) for pair in reasons(answers)]),
    ):  # fmt: skip
        if rows:
            more = len(rows) - SHOWN
            note = f"{more} more are on the page and in answers.json" if more > 0 else ""
            out.print(grid(out, title, heads, rows[:SHOWN], note))
    for note in answers.notes:
        print_note(out, note)
