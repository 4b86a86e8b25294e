# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab tune`: search a governor's tunables for less energy and less wake-up latency."""

import argparse
import json
import os
import sys
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import scratch

NAME = "tune"
HELP = "search a governor's tunables for less regret and less wake-up latency"
EPILOG = """\
examples:
  cpuidle-lab tune *.dat --governor wteo
                                all tunables; a third of the traces judge the result
  cpuidle-lab tune a.dat --governor menu_ng --hold-out b.dat --tunable history_size=2:32
                                one of them, in a range; b.dat judges
  cpuidle-lab tune *.dat --governor wteo --storage mysql+pymysql://me@host/tune
                                the same on any number of machines, which share the trials

A trace is a trace.dat or a Parquet directory. Each setting is replayed on every trace that is
not held out. The two goals are the mean regret against the oracle and the mean 99th percentile of
the modelled wake-up latency. Held-out traces are replayed only with the points of the front.

Trials stay in build/tune, or in the database of --storage. After Ctrl-C or a crash the same command
continues. docs/tune.md has the method.

exit codes: 0 done, 1 a trace, the database or a process failed, 2 wrong usage, 130 interrupted
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE", help="a recording")
    parser.add_argument("--governor", required=True, metavar="NAME", help="governor to tune")
    parser.add_argument(
        "--tunable",
        action="append",
        default=[],
        metavar="NAME[=LOW:HIGH]",
        help="search only this one, or a range of it; can be repeated (default: all but seeds)",
    )
    parser.add_argument(
        "--trials", type=int, default=200, help="settings to try in all (default: 200)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="of the search and of what is held out (default: 1)",
    )
    parser.add_argument(
        "--hold-out", nargs="+", type=Path, default=[], metavar="TRACE", help="traces that judge"
    )
    parser.add_argument(
        "--hold-out-share",
        type=float,
        default=1 / 3,
        metavar="SHARE",
        help="part of the traces that judges, whole ones; of a single trace the end of its time "
        "(default: a third)",
    )
    parser.add_argument(
        "--storage", metavar="URL", help="database of the trials (default: a file in build/tune)"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="forget the trials of earlier runs of this search"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes (default: one for each processor)",
    )
    parser.add_argument(
        "--pick",
        choices=("knee", "energy", "latency"),
        default="knee",
        help="which point of the front to set (default: knee, nearest to the best of both)",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON, no table")


def run(args: argparse.Namespace) -> int:
    """Read the traces, search, judge and print."""
    for name, least in (("trials", 1), ("jobs", 1), ("seed", 0)):
        if getattr(args, name) < least:
            raise UserError(f"--{name} must be at least {least}", USAGE)
    if not 0 < args.hold_out_share < 1:
        raise UserError("--hold-out-share must be between 0 and 1", USAGE)
    # Here, so that the other commands need not load what only the search needs.
    from cpuidle_lab.tune.job import Job

    with scratch() as folder:
        result = Job(args, folder).run()
    if args.json:
        json.dump(result.as_json(), sys.stdout, indent=2)
        print()
    else:
        result.show()
    return 0
