# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab ab`: governors in turns on this machine, and whether they differ."""

import argparse
import json
import math
import re
import shlex
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cpuidle_lab.ab.record import Log, Session, load
from cpuidle_lab.ab.session import NAME as _NAME
from cpuidle_lab.ab.session import Plan, measure
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.settings import add_settings
from cpuidle_lab.base.waiting import InterruptedSession
from cpuidle_lab.host.machine import Host

NAME = _NAME
HELP = "compare governors on this machine: one command under each in turn, many rounds"
EPILOG = """\
examples:
  sudo cpuidle-lab ab --governors teo_ng,wteo -- hackbench -l 20000
  sudo cpuidle-lab ab --governors menu,teo_ng,wteo --set wteo.learning_rate=80 --duration 60
  sudo cpuidle-lab ab --governors teo_ng,wteo --metric 'Time: ([0-9.]+)' --better lower \\
      -- hackbench -l 20000
  cpuidle-lab ab --read ab.jsonl             print the result again, also of a session cut short

Each round runs the command once under each governor, in a random order. The other governors are
compared with the first one within rounds. At the end ab restores governor and tunables, also after
Ctrl-C and when the command fails. It changes nothing else. docs/ab.md lists what to switch off.

exit codes: 0 done, 1 something is missing or the command failed, 2 wrong usage, 128 + N ended by
signal N (Ctrl-C: 130). The file holds every complete run in any case.
"""

_ROUNDS = 10
_FEWEST_ROUNDS = 3
_MOST_ROUNDS = 10_000
_LONGEST_S = 1e6
_MOST_SEED = 2**32 - 1


# The command line.


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds from 0 to a million")
    return seconds


def _parse_count(text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and int(text[:12]) <= most and len(text) <= 12):
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 0 to {most}")
    return int(text)


def _parse_governors(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or any("/" in name or " " in name for name in names):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of governors such as teo_ng,wteo")
    return names


def _parse_metric(text: str) -> str:
    try:
        groups = re.compile(text).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {error}") from error
    if groups != 1:
        raise argparse.ArgumentTypeError(f"'{text}' needs one group, the number: such as (\\d+)")
    return text


def packages(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the Python packages that are enough: only the result needs some."""
    return () if args.runs_only else ("numpy", "rich")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--governors",
        type=_parse_governors,
        default=(),
        metavar="LIST",
        help="two or more, such as teo_ng,wteo; the first is what the others are compared with",
    )
    parser.add_argument(
        "--rounds",
        type=lambda text: _parse_count(text, _MOST_ROUNDS),
        default=_ROUNDS,
        metavar="N",
        help=f"default: {_ROUNDS}",
    )
    add_settings(parser)
    parser.add_argument(
        "--seed",
        type=lambda text: _parse_count(text, _MOST_SEED),
        default=1,
        metavar="N",
        help="of the order and of the resampling (default: 1)",
    )
    parser.add_argument(
        "--settle",
        type=_parse_seconds,
        default=2.0,
        metavar="S",
        help="seconds between a switch and its run (default: 2)",
    )
    parser.add_argument(
        "--duration", type=_parse_seconds, metavar="S", help="without COMMAND: seconds of each run"
    )
    parser.add_argument(
        "--metric",
        type=_parse_metric,
        metavar="REGEX",
        help="the command prints a number: this expression's group, where it matches last",
    )
    parser.add_argument("--better", choices=("higher", "lower"), help="numbers (default: higher)")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("ab.jsonl"),
        metavar="FILE",
        help="every single run (default: ab.jsonl)",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing FILE")
    parser.add_argument("--read", type=Path, metavar="FILE", help="show the result in this file")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--runs-only", action="store_true", help="write FILE; its result is left to --read"
    )
    parser.add_argument("workload", nargs="*", metavar="-- COMMAND", help="run this")


def plan_of(args: argparse.Namespace) -> Plan:
    """Return the plan that the command line asks for.

    Raises:
        UserError: it asks for nonsense.
    """
    governors = args.governors
    twice = next((name for name in governors if governors.count(name) > 1), None)
    wrong = {
        "give at least two governors, such as --governors teo_ng,wteo": len(governors) < 2,
        f"--governors names {twice} twice": twice is not None,
        f"at least {_FEWEST_ROUNDS} rounds are needed": args.rounds < _FEWEST_ROUNDS,
        "give either --duration or a COMMAND": bool(args.workload) == (args.duration is not None),
        "--duration 0 measures nothing": args.duration == 0,
        "--metric needs a COMMAND": args.metric is not None and not args.workload,
        "--better needs --metric": args.better is not None and args.metric is None,
    }
    for message, is_wrong in wrong.items():
        if is_wrong:
            raise UserError(message, USAGE)
    return Plan(
        governors=governors,
        rounds=args.rounds,
        settings=tuple(args.settings),
        seed=args.seed,
        settle_s=args.settle,
        seconds=args.duration,
        command=tuple(args.workload),
        metric=args.metric,
        better=args.better or "higher",
    )


# The output.


def as_json(session: Session) -> dict[str, Any]:
    """Return a session with its result as one document."""
    from cpuidle_lab.ab.estimates import summarize
    from cpuidle_lab.ab.sentences import sentence
    from cpuidle_lab.base.resampling import LEVEL, METHOD, RESAMPLES

    summary = summarize(session)
    head = {key: value for key, value in session.head.items() if key != "kind"}
    end = dict(session.end or {"end": None, "complete": False, "changed": []})
    end.pop("kind", None)
    return {
        **head,
        **end,
        "rounds": summary.rounds,
        "intervals": {"method": METHOD, "level": LEVEL, "resamples": RESAMPLES},
        "figures": {
            figure.key: {
                "label": figure.label,
                "unit": figure.unit,
                "better": figure.better,
                "governors": {
                    name: asdict(summary.estimates[figure.key, name]) for name in session.governors
                },
            }
            for figure in summary.figures
        },
        "comparisons": [
            {
                "figure": item.figure.key,
                "governor": item.governor,
                "reference": item.reference,
                "kind": item.figure.kind,
                "change": None if item.change is None else asdict(item.change),
                "verdict": item.verdict,
                "better": item.is_better,
                "text": sentence(item),
            }
            for item in summary.comparisons
        ],
        "notes": summary.notes,
        "runs": [asdict(run) for run in session.runs],
    }


def _show(path: Path, is_json: bool) -> int:
    # Not at the top: measuring needs the standard library only.
    from cpuidle_lab.ab import ab_text, estimates

    session = load(path)
    if is_json:
        print(json.dumps(as_json(session), indent=2, allow_nan=False))
    elif not session.rounds:
        raise UserError(f"{path} has no complete round")
    else:
        ab_text.show(session, estimates.summarize(session))
    return 0


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def _kept(log: Log) -> str:
    if not log.runs:
        return "no run was complete"
    return f"complete runs: cpuidle-lab ab --read {shlex.quote(str(log.path))}"


def run(args: argparse.Namespace) -> int:
    """Measure and say what came of it, or read what was measured."""
    if args.read is not None:
        if args.governors or args.workload:
            raise UserError("--read shows a file and measures nothing", USAGE)
        return _show(args.read, args.json)
    plan = plan_of(args)
    log = Log(args.output, args.force)
    try:
        measure(Host(), plan, sys.argv, log, _say)
    except InterruptedSession as interruption:
        name = signal.Signals(interruption.number).name
        print(
            f"cpuidle-lab: interrupted by {name}: the system is as before; {_kept(log)}",
            file=sys.stderr,
        )
        return 128 + interruption.number
    except UserError as error:
        if not log.runs:
            raise
        raise UserError(f"{error.message}; {_kept(log)}", error.exit_code) from error
    return 0 if args.runs_only else _show(log.path, args.json)
