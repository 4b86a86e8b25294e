# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab dump`: the kernel's counters of idle states, in one text file."""

import argparse
import signal
import sys
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.waiting import InterruptedSession
from cpuidle_lab.dump import runs, script
from cpuidle_lab.host.machine import Host

NAME = "dump"
HELP = "write this machine's counters of idle states into one text file, for diff"
EPILOG = """\
examples:
  cpuidle-lab dump -o before.txt
  cpuidle-lab dump -o good.txt -n 5 -- hackbench -l 20000
                                     before and after each of five runs, in one file
  cpuidle-lab dump --print >dump.sh  a shell script for machines without Python
  cpuidle-lab diff before.txt after.txt
  cpuidle-lab machines before.txt    its idle states

It needs root for energies and power domains alone, which are left out otherwise. The file holds no
host name, user name or serial number, and not the command. An existing file is never replaced.

exit codes: the command's own; without a command 0; 1 there are no idle states, or the command
cannot run, 2 wrong usage, 128 + N ended by signal N (Ctrl-C: 130). Complete runs are kept.
"""

_RUNS_MAX = 10_000


def packages(_args: argparse.Namespace) -> tuple[str, ...]:
    """Return the Python packages that are enough."""
    return ()


def _count(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= _RUNS_MAX:
        return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 1 to {_RUNS_MAX}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("-o", "--output", type=Path, metavar="FILE",
        help="a new file (default: standard output; with a COMMAND dump.txt)")  # fmt: skip
    add("-n", "--runs", type=_count, metavar="N", help="runs of the COMMAND (default: 1)")
    add("--print", action="store_true", dest="by_hand", help="print a shell script that dumps")
    add("workload", nargs="*", metavar="-- COMMAND", help="dump before and after this")


def run(args: argparse.Namespace) -> int:
    """Dump, or print the script."""
    if args.by_hand:
        print(script.SCRIPT, end="")
        return 0
    if args.runs and not args.workload:
        raise UserError("-n needs a COMMAND to run", USAGE)
    host = Host()
    if not args.workload:
        runs.dump(host, args.output)
        return 0
    output = args.output or Path("dump.txt")
    try:
        code = runs.dump_around(host, output, args.workload, args.runs or 1)
    except InterruptedSession as interruption:
        name = signal.Signals(interruption.number).name
        kept = f"complete runs are in {output}" if output.exists() else "no run was complete"
        print(f"cpuidle-lab: interrupted by {name}: {kept}", file=sys.stderr)
        return 128 + interruption.number
    if code:
        print(f"cpuidle-lab: the command ended with {code}", file=sys.stderr)
    return code
