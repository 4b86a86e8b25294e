# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab replay`: what a governor would have done on a recording."""

import argparse
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpuidle_lab.errors import FAILURE, USAGE, UserError

if TYPE_CHECKING:
    from cpuidle_lab.columns import Recording
    from cpuidle_lab.replay.engine import Outcome
    from cpuidle_lab.replay.library import Governor

NAME = "replay"
HELP = "what would a governor have done on this recording, and how far is it from the best?"
EPILOG = """\
examples:
  cpuidle-lab replay trace.dat --governor wteo
  cpuidle-lab replay trace.dat --governor wteo --set learning_rate=80 --set latency_bias=500
  cpuidle-lab replay trace.dat --governor menu@7.2 --governor teo@6.12 --governor oracle
  cpuidle-lab replay trace.dat --governor teo@/usr/src/linux
  cpuidle-lab replay trace.dat --check          does replay decide as the kernel did?
  cpuidle-lab replay trace.dat --governor menu_ng --same-points

Governors are those of the project, the limits (oracle, bayes), and the kernel's own, compiled from
Debian's linux-source package or a kernel tree: menu, teo, ladder, haltpoll @ SERIES or PATH. A
recording is a trace.dat with cpuidle_lab events, or a directory of columns (columns, synth).

Without further options the intervals of the recording are played, and the governor's own choices
decide when it is asked again (counterfactual). docs/replay.md says what that cannot know.

--check also plays the recording with the governors that made it, from the state that they began
with, and fails where their energy differs from the recorded one by more than 1 %.

exit codes: 0 done, 1 the recording cannot be replayed or --check found a difference, 2 wrong usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("trace", type=Path, metavar="TRACE", help="trace.dat, or a directory of columns")
    add("--governor", action="append", default=[], metavar="NAME", help="who decides; repeatable")
    add("--set", action="append", default=[], metavar="TUNABLE=VALUE", help="of that governor")
    add("--check", action="store_true", help="make the recorded decisions again and compare them")
    add("--same-points", action="store_true", help="decide at the recorded decisions only")
    add("--jobs", type=int, metavar="N", help="threads (default: one for each processor)")
    add("--json", action="store_true", help="print the results as JSON")


def settings_of(words: list[str]) -> dict[str, str]:
    """Return the tunables of "NAME=VALUE" words.

    Raises:
        UserError: a word has another form.
    """
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name or not value:
            raise UserError(f"'{word}' is not TUNABLE=VALUE (learning_rate=80)", USAGE)
        found[name] = value
    return found


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar with the time left on a terminal; yield what counts, for any thread."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    lock = threading.Lock()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(title, total=total or None)

        def count(rows: int) -> None:
            with lock:
                bar.advance(task, rows)

        yield count


def as_json(outcome: "Outcome") -> dict[str, Any]:
    """Return what a governor came to, units in the names."""
    names = outcome.machine.names
    return {
        "governor": outcome.governor,
        "regret_percent": outcome.regret,
        "energy_pj": outcome.cost_pj,
        "oracle_pj": outcome.oracle_pj,
        "latency_p50_us": outcome.latency_us(0.5),
        "latency_p99_us": outcome.latency_us(0.99),
        "latency_max_us": outcome.latency_us(1),
        "above_percent": outcome.share(outcome.above),
        "below_percent": outcome.share(outcome.below),
        "intervals": outcome.intervals,
        "skipped": outcome.skipped,
        "decisions": outcome.decisions,
        "asked": outcome.asked,
        "tick_wakeups": outcome.ticks,
        "poll_time_limits": outcome.polls,
        "entries": dict(zip(names, outcome.entries.tolist(), strict=False)),
        "residency_ns": dict(zip(names, outcome.state_ns.tolist(), strict=False)),
    }


def _number(value: float | None, digits: int = 1) -> str:
    return "unknown" if value is None else f"{value:,.{digits}f}"


def show_outcomes(outcomes: list["Outcome"]) -> None:
    """Print one line for each governor."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("governor", no_wrap=True)
    for title in ("regret %", "energy mJ", "p50 us", "p99 us", "max us", "above %", "below %",
                  "ticks %", "decisions", "intervals"):  # fmt: skip
        table.add_column(title, justify="right", no_wrap=True)
    for one in outcomes:
        table.add_row(
            one.governor,
            _number(one.regret, 2),
            _number(one.cost_pj / 1e9, 3),
            *(_number(one.latency_us(share)) for share in (0.5, 0.99, 1)),
            *(_number(one.share(count)) for count in (one.above, one.below, one.ticks)),
            f"{one.decisions:,}",
            f"{one.intervals:,}",
        )
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)
    skipped = max(one.skipped for one in outcomes)
    if skipped:
        console.print(f"left out: {skipped:,} intervals whose end, or whose inputs, are unknown")
    console.print("Energy and latency are modelled; ends of intervals are assumed unmoved.")


def _counterfactuals(
    recording: "Recording", chosen: list["Governor"], args: argparse.Namespace
) -> int:
    from cpuidle_lab.crossval import trust
    from cpuidle_lab.replay.engine import counterfactual

    settings = settings_of(args.set)
    outcomes = []
    with progress("Replaying", len(chosen) * recording.rows("interval")) as count:
        for one in chosen:
            outcomes.append(
                counterfactual(recording, one, settings, jobs=args.jobs, progress=count)
            )
    if args.json:
        print(json.dumps([as_json(one) for one in outcomes], indent=2))
        return 0
    show_outcomes(outcomes)
    for line in trust.remarks(recording, args.trace):
        print(line)
    return 0


def _agreements(recording: "Recording", chosen: list["Governor"], args: argparse.Namespace) -> int:
    from cpuidle_lab.replay import points

    settings = settings_of(args.set)
    with progress("Replaying", len(chosen) * recording.rows("period")) as count:
        found = [points.agreement(recording, one, settings, count) for one in chosen]
    if args.json:
        print(json.dumps([vars(one) for one in found], indent=2))
        return 0
    for one in found:
        total = max(1, one.decisions)
        print(
            f"{one.governor}: of {one.decisions:,} decisions {100 * one.same / total:.1f} % the "
            f"same state, {100 * one.deeper / total:.1f} % deeper, "
            f"{100 * one.shallower / total:.1f} % shallower"
        )
    return 0


def _check(recording: "Recording", chosen: list["Governor"], args: argparse.Namespace) -> int:
    from cpuidle_lab.crossval import trust
    from cpuidle_lab.replay import points

    names = [one.name for one in chosen] or points.recorded_policies(recording)
    found = []
    with progress("Replaying", len(names)) as count:
        for name in names:
            told = args.trace, points.fidelity_of, recording.path, name, args.jobs
            found.append(points.apart(*told))
            count(1)
    if args.json:
        print(json.dumps([one.as_json() for one in found], indent=2))
    else:
        for one in found:
            for line in one.lines():
                print(line)
    own, why = trust.trust(recording, args.trace)
    if not args.json:
        for each in own:
            print(each.line())
        if why:
            print(f"energy was not compared: {why}")
    if any(each.doubtful for each in own):
        return FAILURE
    return 0 if all(one.identical == one.compared for one in found) else 1


def run(args: argparse.Namespace) -> int:
    """Read, replay, print."""
    from cpuidle_lab import columns
    from cpuidle_lab.replay.library import governor

    if args.check and args.same_points:
        raise UserError("give one of --check and --same-points", USAGE)
    if not args.governor and not args.check:
        raise UserError("give --governor NAME, or --check", USAGE)
    if args.set and (len(args.governor) != 1 or args.check):
        raise UserError("--set goes with exactly one --governor, and not with --check", USAGE)
    if args.jobs is not None and args.jobs <= 0:
        raise UserError("--jobs must be above 0", USAGE)
    chosen = [governor(name) for name in dict.fromkeys(args.governor)]
    for one in chosen:
        one.values(settings_of(args.set))
    with columns.opened(args.trace) as recording:
        if args.check:
            return _check(recording, chosen, args)
        if args.same_points:
            return _agreements(recording, chosen, args)
        return _counterfactuals(recording, chosen, args)
