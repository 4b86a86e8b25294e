# SPDX-License-Identifier: GPL-2.0
"""Views of the running machine as text and tables: what `cpuidle-lab watch` shows."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cpuidle_lab.view.terminal import new_table
from cpuidle_lab.view.watch import CpuView, Tally, View

# Width where there is no terminal: enough for ten states.
_PLAIN_WIDTH = 160


def _percent(share: float | None, digits: int = 1) -> str:
    return "?" if share is None else f"{100 * share:.{digits}f}"


def _governor_table(tallies: list[Tally], console: Console) -> Table:
    table = new_table(console)
    table.add_column("governor")
    for head in ("decisions", "agree\n%", "deeper\n%", "shallower\n%", "modelled\nregret %"):
        table.add_column(head, justify="right")
    for tally in tallies:
        counts = (tally.agree, tally.deeper, tally.shallower)
        table.add_row(
            Text(f"{tally.governor} ({'in use' if tally.role == 'active' else 'shadow'})"),
            str(tally.decisions),
            *(_percent(tally.share(count)) for count in counts),
            _percent(tally.regret),
        )
    return table


def _mean(cpus: list[CpuView]) -> CpuView:
    """Return the mean over CPUs that have the same states as the first; the rest is left out."""
    alike = [cpu for cpu in cpus if list(cpu.idle) == list(cpus[0].idle)]
    decided = [cpu.decisions_per_s for cpu in alike if cpu.decisions_per_s is not None]
    limits = [cpu.limit_us for cpu in cpus if cpu.limit_us is not None]
    return CpuView(
        -1,
        sum(cpu.entries_per_s for cpu in alike) / len(alike),
        {name: sum(cpu.idle[name] for cpu in alike) / len(alike) for name in cpus[0].idle},
        sum(cpu.awake for cpu in alike) / len(alike),
        min(limits) if limits else None,
        sum(decided) / len(decided) if decided else None,
    )


def _cpu_table(cpus: list[CpuView], console: Console) -> Table:
    names = list(dict.fromkeys(name for cpu in cpus for name in cpu.idle))
    with_decisions = any(cpu.decisions_per_s is not None for cpu in cpus)
    with_limits = any(cpu.limit_us is not None for cpu in cpus)
    table = new_table(console)
    heads = ["CPU", "awake\n%", *(f"{name}\n%" for name in names), "idle\nentries/s"]
    heads += ["decisions\n/s"] * with_decisions + ["hint\nus"] * with_limits
    for head in heads:
        table.add_column(head, justify="right")
    for cpu in [_mean(cpus), *cpus] if len(cpus) > 1 else cpus:
        cells = ["mean" if cpu.cpu < 0 else str(cpu.cpu), _percent(cpu.awake)]
        cells += [_percent(cpu.idle[name]) if name in cpu.idle else "" for name in names]
        cells.append(f"{cpu.entries_per_s:.0f}")
        if with_decisions:
            cells.append("?" if cpu.decisions_per_s is None else f"{cpu.decisions_per_s:.0f}")
        if with_limits:
            cells.append("" if cpu.limit_us is None else str(cpu.limit_us))
        table.add_row(*cells)
    return table


def render(view: View, console: Console) -> Group:
    """Return a view as text and tables for this console."""
    name = view.governor or "unknown"
    over = f" over {view.base}" if view.base else ""
    parts: list[Text | Table] = [
        Text(f"governor: {name}{over}; the last {view.seconds:.1f} s", style="bold")
    ]
    if view.governors:
        parts.append(_governor_table(view.governors, console))
    if view.cpus:
        parts.append(_cpu_table(view.cpus, console))
    if view.note:
        parts.append(Text(f"note: {view.note}", style="dim"))
    return Group(*parts)


@contextlib.contextmanager
def terminal() -> Iterator[Callable[[View], None]]:
    """Yield what shows a view in place of the one before."""
    console = Console(highlight=False)
    with Live(Text("waiting for the first interval"), console=console, auto_refresh=False) as live:
        yield lambda view: live.update(render(view, console), refresh=True)


@contextlib.contextmanager
def plain() -> Iterator[Callable[[View], None]]:
    """Yield what prints a view below the one before."""
    console = Console(highlight=False, width=_PLAIN_WIDTH)
    yield lambda view: console.print(render(view, console))
