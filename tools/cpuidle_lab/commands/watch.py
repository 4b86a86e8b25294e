# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab watch`: the idle states, live, and what shadow governors would have chosen."""

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cpuidle_lab import __version__
from cpuidle_lab.commands.capture import InterruptedSession, Waiter
from cpuidle_lab.host import Machine
from cpuidle_lab.watch import (
    CpuView,
    Tally,
    View,
    check_shadows,
    compare,
    look,
    set_shadows,
    shadow_list,
)

NAME = "watch"
HELP = "show each CPU's idle states live, and the decisions of shadow governors"
EPILOG = """\
examples:
  cpuidle-lab watch                              idle states of each CPU, every 2 s
  sudo cpuidle-lab watch --shadow wteo,menu_ng   with two shadows beside the current governor
  sudo cpuidle-lab watch --json --count 10 | jq '.governors[] | {governor, regret}'

The idle states need no permission and no module. Shadow governors decide on the same idle periods
without effect, while a governor of cpuidle_lab is current (docs/tracing.md). Shares of time are
those since the last refresh. The shadows' figures count from their start; their regret is modelled,
one idle period at a time. --shadow replaces the list of shadows; watch restores the old list at the
end, also after Ctrl-C.

Without a terminal one table is printed after one interval; with --json one line for each.

exit codes: 0 done (without --count, Ctrl-C is the regular end), 1 something is missing, 2 wrong
usage, 128 + N ended early by signal N (Ctrl-C: 130)
"""

_INTERVAL_S = 2.0
_LONGEST_INTERVAL_S = 3600.0

# Width where there is no terminal: enough for ten states.
_PLAIN_WIDTH = 160


def _parse_interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= _LONGEST_INTERVAL_S:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds from 0.1 to 3600")
    return seconds


def _parse_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 10**9):
        raise argparse.ArgumentTypeError(f"'{text}' is no number of refreshes")
    return int(text)


def _parse_shadows(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if not all(name and name == name.strip() and " " not in name for name in names):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of governors such as wteo,menu_ng")
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"'{text}' names a governor twice")
    return names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--interval",
        type=_parse_interval,
        default=_INTERVAL_S,
        metavar="S",
        help=f"seconds between two refreshes (default: {_INTERVAL_S:g})",
    )
    parser.add_argument("--count", type=_parse_count, metavar="N", help="stop after N refreshes")
    parser.add_argument(
        "--shadow",
        type=_parse_shadows,
        metavar="LIST",
        help="governors that decide beside the one in use, such as wteo,menu_ng",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, a line for each refresh")


# Views as text.


def _percent(share: float | None, digits: int = 1) -> str:
    return "?" if share is None else f"{100 * share:.{digits}f}"


def _new_table(console: Console) -> Table:
    style = box.SIMPLE_HEAD if console.is_terminal else box.ASCII2
    return Table(box=style, pad_edge=False)


def _governor_table(tallies: list[Tally], console: Console) -> Table:
    table = _new_table(console)
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
    table = _new_table(console)
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


def as_json(view: View, machine: Machine) -> dict[str, object]:
    """Return a view as JSON; shares are parts of one, regret 0.1 means 10 %."""
    return {
        "command": NAME,
        "version": __version__,
        "kernel": machine.kernel(),
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        **asdict(view),
        "governors": [
            {
                "governor": tally.governor,
                "role": tally.role,
                "decisions": tally.decisions,
                "agree": tally.share(tally.agree),
                "deeper": tally.share(tally.deeper),
                "shallower": tally.share(tally.shallower),
                "regret": tally.regret,
            }
            for tally in view.governors
        ],
    }


# Where views go.


@contextlib.contextmanager
def _json_lines(machine: Machine) -> Iterator[Callable[[View], None]]:
    yield lambda view: print(json.dumps(as_json(view, machine)), flush=True)


@contextlib.contextmanager
def _terminal() -> Iterator[Callable[[View], None]]:
    console = Console(highlight=False)
    with Live(Text("waiting for the first interval"), console=console, auto_refresh=False) as live:
        yield lambda view: live.update(render(view, console), refresh=True)


@contextlib.contextmanager
def _plain() -> Iterator[Callable[[View], None]]:
    console = Console(highlight=False, width=_PLAIN_WIDTH)
    yield lambda view: console.print(render(view, console))


def watch(
    machine: Machine, waiter: Waiter, args: argparse.Namespace, show: Callable[[View], None]
) -> None:
    """Show the machine again and again; the list of shadows is as before at the end.

    Args:
        machine: the machine.
        waiter: waits for the next refresh.
        args: the command's options; without `count` it goes on until a signal comes.
        show: called with each view.

    Raises:
        UserError: the shadows cannot be set, or not be restored.
        InterruptedSession: a signal came.
    """
    with contextlib.ExitStack() as undo:
        if args.shadow:
            check_shadows(machine, args.shadow)
            undo.callback(set_shadows, machine, shadow_list(machine))
            set_shadows(machine, args.shadow)
        before = look(machine)
        shown = 0
        while args.count is None or shown < args.count:
            waiter.wait(args.interval)
            now = look(machine)
            show(compare(machine, before, now))
            before = now
            shown += 1


def run(args: argparse.Namespace) -> int:
    """Show the machine until the count is reached or somebody ends it."""
    machine = Machine()
    is_live = sys.stdout.isatty() and not args.json
    open_ended = args.count is None and (is_live or args.json)
    if not open_ended and args.count is None:
        args.count = 1
    target = _json_lines(machine) if args.json else _terminal() if is_live else _plain()
    try:
        with Waiter() as waiter, target as show:
            watch(machine, waiter, args, show)
    except InterruptedSession as interruption:
        if not (open_ended and interruption.number == signal.SIGINT):
            return 128 + interruption.number
    return 0
