# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab evacuate`: keep some CPUs idle while a command runs."""

import argparse
import json
import signal
import subprocess
import sys

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.settings import seconds
from cpuidle_lab.base.waiting import InterruptedSession, Waiter, end_process
from cpuidle_lab.host import evacuation
from cpuidle_lab.host.machine import Host
from cpuidle_lab.host.sysfs import cpu_list, parse_cpus

NAME = "evacuate"
HELP = "keep some CPUs of this machine idle while a command runs, then give them back"
EPILOG = """\
examples:
  sudo cpuidle-lab evacuate --max-capacity 75 -- make -j
  sudo cpuidle-lab evacuate --cpu-list 4-7 --duration 60
  sudo cpuidle-lab evacuate --max-capacity 50 --method cpuset -- COMMAND
                                     without the module, by cpusets
  cpuidle-lab evacuate --max-capacity 50 --dry-run --json
                                     the CPUs that would go; changes nothing

The CPUs come back at the end of the command, at a signal, and if this tool is killed.
docs/evacuate.md compares the methods.

exit codes: the command's own; without a command 0; 1 the CPUs cannot be evacuated, 2 wrong usage,
128 + N ended by signal N (Ctrl-C: 130). Without --duration and COMMAND, Ctrl-C is the regular end.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("--max-capacity", type=int, default=100, metavar="PCT",
        help="share of the online CPUs that stays in use, 1 to 100")  # fmt: skip
    add("--cpu-list", default="", metavar="LIST", help="evacuate these CPUs: 4-7,9")
    add("--method", choices=evacuation.METHODS, default=evacuation.MODULE_METHOD,
        help="default: %(default)s")  # fmt: skip
    add("--duration", type=seconds, metavar="S", help="without a command: for so many seconds")
    add("--dry-run", action="store_true", help="print the CPUs that would go, change nothing")
    add("--json", action="store_true", help="print the result as JSON")
    add("command", nargs="*", metavar="COMMAND", help="run this meanwhile")


def packages(_args: argparse.Namespace) -> list[str]:
    """Return the Python packages that a call needs: none."""
    return []


def wish_of(args: argparse.Namespace) -> evacuation.Wish:
    """Return the wish that the arguments describe.

    Raises:
        UserError: they describe none.
    """
    try:
        cpus = tuple(parse_cpus(args.cpu_list))
    except ValueError:
        raise UserError(f"'{args.cpu_list}' is no list of CPUs such as 4-7,9", USAGE) from None
    if not 1 <= args.max_capacity <= 100:
        raise UserError("--max-capacity is a percentage from 1 to 100", USAGE)
    if args.max_capacity == 100 and not cpus:
        raise UserError("give --max-capacity or --cpu-list", USAGE)
    if args.duration is not None and args.command:
        raise UserError("--duration stands in place of COMMAND", USAGE)
    return evacuation.Wish(args.max_capacity, cpus)


def show(cpus: list[int], args: argparse.Namespace) -> None:
    """Print the CPUs that are evacuated: to standard error, since COMMAND has the output."""
    text = cpu_list(cpus)
    if args.json:
        found = {"method": args.method, "evacuated_cpus": text, "count": len(cpus)}
        print(json.dumps(found), file=sys.stdout if not args.command else sys.stderr, flush=True)
    elif args.dry_run:
        print(f"would be evacuated: {text or 'no CPU'}", flush=True)
    elif sys.stderr.isatty():
        print(f"evacuated: {text or 'no CPU'}", file=sys.stderr, flush=True)


def run_command(command: list[str], waiter: Waiter) -> int:
    """Run the command to its end; return the exit code.

    Raises:
        UserError: it cannot be run.
        InterruptedSession: a signal came; the command has ended.
    """
    try:
        process = subprocess.Popen(command, start_new_session=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"cannot run {command[0]}: {reason}") from error
    try:
        waiter.wait(None, process)
    except InterruptedSession as interruption:
        end_process(process, signal.Signals(interruption.number))
        raise
    finally:
        status = end_process(process, signal.SIGTERM)
    return status if status >= 0 else 128 - status


def run(args: argparse.Namespace) -> int:
    """Evacuate, run the command, give the CPUs back."""
    wish = wish_of(args)
    machine = Host()
    if args.dry_run:
        show(evacuation.choose(machine.tree, wish), args)
        return 0
    with Waiter() as waiter, evacuation.evacuated(machine, wish, args.method) as cpus:
        show(cpus, args)
        if args.command:
            return run_command(args.command, waiter)
        try:
            waiter.wait(args.duration)
        except InterruptedSession as interruption:
            if args.duration is not None or interruption.number != signal.SIGINT:
                raise
        return 0
