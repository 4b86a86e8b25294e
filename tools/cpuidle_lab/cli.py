# SPDX-License-Identifier: GPL-2.0
"""The command `cpuidle-lab`: finds the subcommands and turns errors into exit codes."""

import argparse
import errno
import importlib
import os
import pkgutil
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Protocol, cast

from cpuidle_lab import __version__, commands
from cpuidle_lab.errors import FAILURE, INTERRUPTED, UserError


class Command(Protocol):
    """What a module in commands/ provides."""

    NAME: str
    HELP: str
    EPILOG: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""

    def run(self, args: argparse.Namespace) -> int:
        """Do the work; return the exit code."""


def discover() -> Iterator[Command]:
    """Yield every module of commands/, in alphabetical order."""
    for info in sorted(pkgutil.iter_modules(commands.__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{commands.__name__}.{info.name}")
        yield cast(Command, module)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with all subcommands."""
    parser = argparse.ArgumentParser(
        prog="cpuidle-lab",
        description="CPU idle governors for the stock Linux kernel, and the tools to judge them.",
        epilog="CPUIDLE_LAB_DEBUG=1 in the environment shows a traceback where a command fails.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in discover():
        sub = subparsers.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.HELP,
            epilog=command.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(sub)
        sub.set_defaults(subcommand=command)
    return parser


def describe_os_error(error: OSError) -> str:
    """Return one sentence for an error of the operating system."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        # What went wrong with each of several files; the first will do.
        found = re.match(r"\[Errno (\d+)\] (.*?): '(.*?)'", error.args[0][0][2])
        if found:
            error = OSError(int(found[1]), found[2], found[3])
    text = error.strerror or str(error)
    where = f"{error.filename}: " if error.filename else ""
    remedy = "; free some space and try again" if error.errno == errno.ENOSPC else ""
    return f"{where}{text}{remedy}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: the arguments without the program's name; None takes those of the process.
    """
    try:
        args = build_parser().parse_args(argv)
        code: int = args.subcommand.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read our output left; keep Python from complaining again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except KeyboardInterrupt:
        print("\ncpuidle-lab: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (UserError, OSError) as error:
        if os.environ.get("CPUIDLE_LAB_DEBUG"):
            raise
        message = error.message if isinstance(error, UserError) else describe_os_error(error)
        print(f"cpuidle-lab: error: {message}", file=sys.stderr)
        return error.exit_code if isinstance(error, UserError) else FAILURE
