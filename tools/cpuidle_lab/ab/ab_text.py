# SPDX-License-Identifier: GPL-2.0
"""An `ab` session in the terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cpuidle_lab.ab.estimates import Comparison, Figure, Summary
from cpuidle_lab.ab.record import Session
from cpuidle_lab.ab.sentences import digits, sentence, unit, verdict
from cpuidle_lab.base.resampling import METHOD, RESAMPLES, Estimate
from cpuidle_lab.view.terminal import console, new_table, print_note


def _value(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _interval(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return "?"
    return f"{_value(found.low)} … {_value(found.high)}"


def _against(comparison: Comparison | None) -> tuple[str, str, str]:
    if comparison is None:
        return "", "", ""
    change = comparison.change
    if change is None:
        return "?", "?", verdict(comparison)
    decimals = digits(change)

    def show(value: float | None) -> str:
        return "?" if value is None else f"{value:+.{decimals}f}"

    interval = f"{show(change.low)} … {show(change.high)}" if change.low is not None else "?"
    return f"{show(change.mean)} {unit(comparison)}", interval, verdict(comparison)


def _rows(table: Table, figure: Figure, governors: tuple[str, ...], summary: Summary) -> None:
    compared = {item.governor: item for item in summary.comparisons if item.figure is figure}
    head = f"{figure.label}, {figure.unit}" if figure.unit else figure.label
    for name in governors:
        found = summary.estimates[figure.key, name]
        table.add_row(
            Text(head if name == governors[0] else ""),
            Text(name),
            _value(found.mean),
            _value(found.median),
            _interval(found),
            *_against(compared.get(name)),
            end_section=name == governors[-1],
        )


def _table(session: Session, summary: Summary, out: Console) -> Table:
    table = new_table(out)
    for name in ("figure", "governor"):
        table.add_column(name)
    reference = session.governors[0]
    for name in (
        "mean",
        "median",
        "95 % interval\nof the mean",
        f"against\n{reference}",
        "95 % interval",
    ):
        table.add_column(name, justify="right")
    table.add_column("")
    for figure in summary.figures:
        _rows(table, figure, session.governors, summary)
    return table


def _on(value: bool | None) -> str:
    return "unknown" if value is None else "on" if value else "off"


def _machine_line(session: Session) -> str:
    here = session.machine
    parts = [
        here.cpu or "CPU unknown",
        f"CPUs {here.cpus or 'unknown'}",
        f"kernel {session.head['kernel']}",
        f"microcode {here.microcode or 'unknown'}",
        f"idle driver {here.idle_driver or 'unknown'}",
        f"frequency {'; '.join(map(str, here.frequency)) or 'unknown'}",
        f"turbo {_on(here.turbo)}",
        f"SMT {here.smt or 'unknown'}",
    ]
    return ", ".join(parts)


def show(session: Session, summary: Summary) -> None:
    """Print the sentences, the table and the notes; plain text where there is no terminal."""
    out = console()
    for comparison in summary.comparisons:
        words = sentence(comparison)
        if words:
            out.print(Text(words, style="bold"), soft_wrap=True)
    out.print(_table(session, summary, out))
    out.print(Text(_machine_line(session)), soft_wrap=True)
    count = len(summary.comparisons)
    out.print(
        Text(
            f"95 % intervals by {METHOD}, {RESAMPLES} resamples of the rounds, seed "
            f"{session.head['plan']['seed']}. Each stands for itself: of {count} comparisons "
            f"without any difference, {count * 0.05:.1g} would show one by chance, on average."
        ),
        soft_wrap=True,
    )
    for note in summary.notes:
        print_note(out, note, soft_wrap=True)
