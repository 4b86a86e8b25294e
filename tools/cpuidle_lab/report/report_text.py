# SPDX-License-Identifier: GPL-2.0
"""The report in the terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cpuidle_lab.figures.group import Group
from cpuidle_lab.figures.metrics import definitions
from cpuidle_lab.recording.trace import losses
from cpuidle_lab.report.model import Report, known_columns
from cpuidle_lab.view.terminal import console, new_table, print_note

_WAKERS_SHOWN = 3

_MAIN = {
    "regret": "regret",
    "power_mw": "power",
    "oracle_mw": "oracle",
    "measured_mj": "measured",
    "measured_mw": "measured",
    "emulated_mj": "emulated",
    "emulated_mw": "emulated",
    "latency_p50_us": "p50",
    "latency_p99_us": "p99",
    "latency_max_us": "max",
    "tick_wakeups": "tick",
    "above": "above",
    "below": "below",
    "decisions_per_s": "decisions",
}


def _show(key: str, value: float | None) -> str:
    return "?" if value is None else definitions()[key].show(value)


def _summary(report: Report, out: Console) -> Table:
    table = new_table(out, "Governors, the least worst regret first")
    table.add_column("governor")
    for name in ("worst regret %", "mean regret %", "worst p99 us"):
        table.add_column(name, justify="right")
    table.add_column("worst workload")
    for line in report.summaries():
        table.add_row(
            Text(line.governor),
            _show("regret", line.worst_regret),
            _show("regret", line.mean_regret),
            _show("latency_p99_us", line.worst_p99_us),
            Text(line.worst_workload),
        )
    return table


def _wakers(report: Report, out: Console) -> Table:
    table = new_table(out, definitions()["wakers"].title)
    for name in ("workload", "governor", "% of idle periods, the most frequent"):
        table.add_column(name)
    for group in filter(lambda group: group.wakers, report.groups):
        total = sum(group.wakers.values())
        most = list(group.wakers.items())[:_WAKERS_SHOWN]
        shown = ", ".join(f"{name} {_show('wakers', 100 * n / total)}" for name, n in most)
        table.add_row(Text(report.section(group)), Text(group.governor), Text(shown))
    return table


def _residency(group: Group) -> str:
    time = sum(group.residency_ns)
    shares = zip(group.names, group.residency_ns, strict=True)
    return " ".join(f"{name} {100 * ns / time:.0f}" for name, ns in shares if time and ns)


def _section(name: str, groups: list[Group], out: Console) -> Table:
    metrics = definitions()
    table = new_table(out, name)
    table.add_column("governor")
    keys = known_columns(list(_MAIN), groups)
    for key in keys:
        table.add_column(f"{_MAIN[key]}\n{metrics[key].unit}", justify="right")
    table.add_column("residency\n% of idle time")
    for group in groups:
        values = (_show(key, group.values[key]) for key in keys)
        table.add_row(Text(group.governor), *values, Text(_residency(group)))
    return table


def show(report: Report) -> None:
    """Print the tables; plain text where the output is no terminal."""
    out = console()
    out.print(_summary(report, out))
    shown = report.on_page()
    for name, groups in shown.sections().items():
        out.print(_section(name, groups, out))
    if any(group.wakers for group in shown.groups):
        out.print(_wakers(shown, out))
    notes = dict.fromkeys(
        f"{group.governor}: {note}" for group in report.groups for note in group.notes
    )
    notes |= dict.fromkeys(report.left_out())
    if len(shown.groups) < len(report.groups):
        notes[
            f"{len(shown.groups):,} of {len(report.groups):,} runs are in the tables; --json and "
            "--csv have all"
        ] = None
    for item in report.traces:
        for line in [*losses(item.integrity), *item.omissions]:
            notes[f"{item.path}: {line}"] = None
    notes |= dict.fromkeys(report.energy_sources())
    notes |= dict.fromkeys(report.prediction_errors())
    for note in notes:
        print_note(out, note)
    out.print(
        Text("p50, p99, max: modelled wake-up latency; power: modelled idle power; ?: unknown")
    )
