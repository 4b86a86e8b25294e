# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab compare`: what any governor would have done on some recordings."""

import argparse
import json
import os
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

from cpuidle_lab.errors import USAGE, UserError
from cpuidle_lab.files import is_page_of, write_whole

NAME = "compare"
HELP = "replay governors on recordings, and rank them beside an oracle and a floor estimate"
EPILOG = """\
examples:
  cpuidle-lab compare trace.dat           table here, pictures in compare.html beside the trace
  cpuidle-lab compare corpus/*.dat --governors wteo,menu_ng,teo@6.12
                                                kernels' own governors: menu, teo, ladder, haltpoll
  cpuidle-lab compare bursts/ --governors wteo,wteo:learning_rate=50:half_life_ms=500
                                                tunables after colons
  cpuidle-lab compare *.dat --json | jq '.summary[] | {label, mean_regret, worst_trace}'
  cpuidle-lab compare *.dat --csv compare.csv   one row for each governor on each recording

TRACE is a trace.dat of trace-cmd with the cpuidle_lab events or made by capture --stock, or a
directory of columns. Of power:cpu_idle alone, governors are replayed without timers. The table
also shows the newest kernel's menu and teo, the better of them on each recording (best mainline),
bayes (an estimate of the floor, from past and timers) and the oracle. docs/compare.md explains the
result.

With --json or --csv the HTML file is written only where -o asks for it.

exit codes: 0 done, 1 a recording cannot be replayed, 2 wrong usage
"""


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no number of decisions")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "traces", nargs="+", type=Path, metavar="TRACE", help="trace.dat, or directory of columns"
    )
    parser.add_argument(
        "--governors",
        metavar="NAME[@KERNEL][:TUNABLE=VALUE]...[,...]",
        help="governors to replay (default: all governors of the project)",
    )
    parser.add_argument(
        "--no-mainline", action="store_true", help="without the newest kernel's menu and teo"
    )
    parser.add_argument(
        "--no-instructions", action="store_true", help="do not count instructions (valgrind)"
    )
    parser.add_argument(
        "--worst",
        type=_natural,
        default=20,
        metavar="N",
        help="worst decisions to show for each governor and trace (default: %(default)s); 0 keeps "
        "memory small where a recording is huge",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the HTML file (default: compare.html beside the first TRACE)",
    )
    parser.add_argument(
        "--machine",
        metavar="MACHINE",
        help="idle states of recordings without the module (see cpuidle-lab machines)",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON, no table")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the figures as CSV")
    parser.add_argument(
        "--force", action="store_true", help="overwrite FILE even if it is not one of our pages"
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _check_html(path: Path, force: bool) -> None:
    """Refuse to overwrite what is not ours.

    Raises:
        UserError: `path` exists and is no such page, or its directory does not exist.
    """
    from cpuidle_lab.compare.compare_page import GENERATOR

    _check_folder(path)
    if force or not path.exists() or is_page_of(path, GENERATOR):
        return
    raise UserError(
        f"{path} exists and was not written by compare; choose another name or --force", USAGE
    )


def _check_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise UserError(f"{path.parent}: no such directory")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"{path.parent}: not writable; choose another place with -o")
    if path.is_dir():
        raise UserError(f"{path} is a directory")


def run(args: argparse.Namespace) -> int:
    """Replay, print and write the figures."""
    # Here, so that the other commands need not load what only this one needs.
    from cpuidle_lab import machines
    from cpuidle_lab.compare import compare_page, compare_text, export, model, spec
    from cpuidle_lab.view.terminal import phase

    start = _now()
    html: Path | None = args.output
    if html is None and not args.json and args.csv is None:
        html = args.traces[0].resolve().parent / "compare.html"
    if html is not None:
        _check_html(html, args.force)
    if args.csv is not None:
        _check_folder(args.csv)
    comparison = model.build(
        args.traces,
        spec.parse(args.governors, not args.no_mainline),
        phase,
        bad=args.worst,
        count=not args.no_instructions,
        command=shlex.join(["cpuidle-lab", *sys.argv[1:]]),
        start=start,
        machine=machines.find(args.machine) if args.machine else None,
    )
    if html is not None:
        write_whole(html, compare_page.render(comparison))
    if args.csv is not None:
        write_whole(args.csv, export.as_csv(comparison))
    if args.json:
        json.dump(export.as_json(comparison, _now()), sys.stdout, indent=2)
        print()
        return 0
    compare_text.show_tables(comparison)
    for written in filter(None, (html, args.csv)):
        print(f"written: {written}")
    return 0
