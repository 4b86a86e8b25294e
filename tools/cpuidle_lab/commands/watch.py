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
from pathlib import Path

from cpuidle_lab.base.files import headed, write_whole
from cpuidle_lab.base.version import __version__
from cpuidle_lab.base.waiting import InterruptedSession, Waiter
from cpuidle_lab.host.machine import Host
from cpuidle_lab.view import openmetrics
from cpuidle_lab.view.watch import (
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
  sudo cpuidle-lab watch --interval 15 --openmetrics /var/lib/prometheus/node-exporter/idle.prom
                                                 metrics for node_exporter (docs/viewers.md)

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


def _parse_metrics(text: str) -> Path:
    path = Path(text)
    if path.suffix != ".prom":
        raise argparse.ArgumentTypeError(f"'{text}': node_exporter reads files named *.prom alone")
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}': is no file in a directory that exists")
    return path


def packages(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the Python packages that are enough: only tables need one."""
    return () if args.openmetrics or args.json else ("rich",)


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
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print JSON, a line for each refresh")
    output.add_argument(
        "--openmetrics",
        type=_parse_metrics,
        metavar="FILE",
        help="write metrics for Prometheus to FILE at each refresh, and print nothing",
    )


def as_json(view: View, machine: Host) -> dict[str, object]:
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


@contextlib.contextmanager
def _json_lines(machine: Host) -> Iterator[Callable[[View], None]]:
    yield lambda view: print(json.dumps(as_json(view, machine)), flush=True)


@contextlib.contextmanager
def _shadows(machine: Host, names: tuple[str, ...] | None) -> Iterator[None]:
    """Have shadows decide; the list of shadows is as before at the end."""
    with contextlib.ExitStack() as undo:
        if names:
            check_shadows(machine, names)
            undo.callback(set_shadows, machine, shadow_list(machine))
            set_shadows(machine, names)
        yield


def write_metrics(machine: Host, waiter: Waiter, args: argparse.Namespace) -> None:
    """Write the metrics again and again, at once for the first time.

    Args:
        machine: the machine.
        waiter: waits for the next time.
        args: the command's options; without `count` it goes on until a signal comes.

    Raises:
        UserError: the shadows cannot be set, or not be restored.
        OSError: the file cannot be written; it is as before then.
        InterruptedSession: a signal came.
    """
    with _shadows(machine, args.shadow):
        written = 0
        while True:
            text = openmetrics.text(look(machine), machine.kernel())
            write_whole(args.openmetrics, text, headed(text))
            written += 1
            if written == args.count:
                return
            waiter.wait(args.interval)


def watch(
    machine: Host, waiter: Waiter, args: argparse.Namespace, show: Callable[[View], None]
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
    with _shadows(machine, args.shadow):
        before = look(machine)
        shown = 0
        while args.count is None or shown < args.count:
            waiter.wait(args.interval)
            now = look(machine)
            show(compare(machine, before, now))
            before = now
            shown += 1


def _tables(is_live: bool) -> contextlib.AbstractContextManager[Callable[[View], None]]:
    from cpuidle_lab.view import live

    return live.terminal() if is_live else live.plain()


def run(args: argparse.Namespace) -> int:
    """Show the machine until the count is reached or a signal comes."""
    machine = Host()
    is_live = sys.stdout.isatty() and not args.json
    open_ended = args.count is None and bool(is_live or args.json or args.openmetrics)
    if not open_ended and args.count is None:
        args.count = 1
    try:
        if args.openmetrics:
            with Waiter() as waiter:
                write_metrics(machine, waiter, args)
            return 0
        target = _json_lines(machine) if args.json else _tables(is_live)
        with Waiter() as waiter, target as show:
            watch(machine, waiter, args, show)
    except InterruptedSession as interruption:
        if not (open_ended and interruption.number == signal.SIGINT):
            raise
    return 0
