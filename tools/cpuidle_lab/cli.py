# SPDX-License-Identifier: GPL-2.0
"""The command `cpuidle-lab`: finds the subcommands and turns errors into exit codes."""

import argparse
import errno
import importlib
import io
import itertools
import os
import pkgutil
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, Protocol, TextIO, cast

from cpuidle_lab import commands
from cpuidle_lab.base import memory
from cpuidle_lab.base.errors import FAILURE, INTERRUPTED, USAGE, UserError, printable
from cpuidle_lab.base.files import first_of, inputs
from cpuidle_lab.base.suggestions import did_you_mean
from cpuidle_lab.base.version import __version__
from cpuidle_lab.base.waiting import InterruptedSession, Terminated, sigterm_interrupts

# Beside tools/ in the tree; not installed.
EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"

# Options that say where something is written.
OUTPUTS = frozenset({"output", "csv", "page", "parquet", "perfetto", "openmetrics", "directory"})

_STDOUT = 1

# Below the list of commands.
ENDINGS = (
    "A command replaces only files that it has written, and never an input; else it exits with 2.",
    "It exits with 130 after Ctrl-C, and with 143 after SIGTERM.",
    "CPUIDLE_LAB_DEBUG=1 shows a traceback where a command fails.",
)

# Commands under their headings, in the order of the list; others come last.
A_MACHINE = "a machine"
GROUPS = (
    (A_MACHINE, ("doctor", "calibrate", "capture", "dump", "watch", "ab", "kit", "evacuate")),
    ("recordings and dumps",
     ("report", "compare", "fleet", "domains", "replay", "clone", "diff", "crossval", "tune",
      "export", "machines")),
    ("the lab", ("demo", "lab", "corpus", "synth")),
    ("governors", ("new", "bpf", "review", "patch")),
    ("the project's promises, in the tree only", ("experiment",)),
)  # fmt: skip

# Commands, and options of one, that have gone, with their successors, for one release.
SUCCESSORS = {
    "bench": "experiment gate --lab",
    "columns": "export --parquet DIR TRACE",
    "doctor --trace": "replay --check TRACE",
    "study": "experiment wteo",
}


# Python packages that a wheel brings only when it is asked to, and the extra that has each.
EXTRAS = {
    "dask": "fleet", "distributed": "fleet", "fsspec": "fleet", "optuna": "tune",
    "perfetto": "perfetto", "pymysql": "tune", "sqlalchemy": "tune",
}  # fmt: skip


class Command(Protocol):
    """The contents of a module in commands/.

    A module may have packages(args), too: the Python packages that such a call needs. Without it,
    each call needs all of tools/requirements.txt.
    """

    NAME: str
    HELP: str
    EPILOG: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""

    def run(self, args: argparse.Namespace) -> int:
        """Do the work; return the exit code."""


def discover(wanted: str = "") -> Iterator[Command]:
    """Yield every module of commands/, in alphabetical order; only `wanted` if it is there.

    In the tree those of experiments/commands/ are among them.
    """
    packages = [commands]
    if EXPERIMENTS.is_dir():
        if str(EXPERIMENTS.parent) not in sys.path:
            # In front: packages of other projects may be named tests, too.
            sys.path.insert(0, str(EXPERIMENTS.parent))
        packages.append(importlib.import_module("experiments.commands"))
    found = {
        info.name: f"{package.__name__}.{info.name}"
        for package in packages
        for info in pkgutil.iter_modules(package.__path__)
    }
    for name in [wanted] if wanted in found else sorted(found):
        yield cast(Command, importlib.import_module(found[name]))


class Parser(argparse.ArgumentParser):
    """A parser that says which word may have been meant; a part of an option is no option."""

    words: Sequence[str] = ()

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **{**kwargs, "allow_abbrev": False})

    @property
    def _options(self) -> list[str]:
        return [word for action in self._actions for word in action.option_strings]

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write a help text; argparse itself is silent where that fails."""
        if file is sys.stdout:
            print(message, end="", flush=True)
        else:
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, with a near choice; exit with 2."""
        if found := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            choices = [choice.strip("' ") for choice in found[2].split(",")]
            message += did_you_mean(found[1], choices)
        if "required" in message:
            given = itertools.takewhile(lambda word: word != "--", self.words)
            options = [word.partition("=")[0] for word in given if word.startswith("--")]
            if unknown := [word for word in options if word not in self._options]:
                message += f"; {unknown[0]} is unknown{did_you_mean(unknown[0], self._options)}"
        super().error(printable(message))

    def refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Print the usage and say that these words are unknown; exit with 2."""
        near = "".join(did_you_mean(word.partition("=")[0], self._options) for word in unknown[:1])
        self.error(f"unrecognized arguments: {' '.join(unknown)}{near}")


def build_parser(wanted: str = "") -> Parser:
    """Return the parser with all subcommands, or with `wanted` alone if it is one."""
    found = list(discover(wanted))
    parser = Parser(
        prog="cpuidle-lab",
        description="CPU idle governors for the stock Linux kernel, and the tools to judge them.",
        epilog=listing(found),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(
        metavar="COMMAND",
        required=True,
        help="see below; COMMAND --help has examples",
    )
    for command in found:
        sub = subparsers.add_parser(
            command.NAME,
            description=command.HELP,
            epilog=command.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(sub)
        sub.set_defaults(subcommand=command, parser=sub)
    return parser


def listing(found: Sequence[Command]) -> str:
    """Return the commands under their headings, one a line."""
    left = {command.NAME: command.HELP for command in found}
    lines = []
    for title, names in GROUPS:
        group = [f"  {name:12}{left.pop(name)}" for name in names if name in left]
        lines += [f"{title}:", *group, ""] if group else []
    if left:
        lines += ["others:", *(f"  {name:12}{about}" for name, about in left.items()), ""]
    return "\n".join([*lines, *ENDINGS])


def refuse_gone(words: Sequence[str]) -> None:
    """Name the successor of a command, or of an option, that has gone, or where a command is.

    Raises:
        UserError: the command line has one.
    """
    if words[:1] == ["experiment"] and not EXPERIMENTS.is_dir():
        raise UserError("experiment is a command of the project's source tree alone", USAGE)
    named = {word.partition("=")[0] for word in words}
    for gone, successor in SUCCESSORS.items():
        command, *options = gone.split()
        if words[:1] == [command] and named.issuperset(options):
            raise UserError(f"{gone} is now: cpuidle-lab {successor}", USAGE)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the parsed command line, or exit with the usage of the subcommand."""
    words = sys.argv[1:] if argv is None else argv
    Parser.words = words
    refuse_gone(words)
    args, unknown = build_parser(*words[:1]).parse_known_args(words)
    if unknown:
        args.parser.refuse(unknown)
    if Path("-") in (getattr(args, name, None) for name in OUTPUTS):
        raise UserError("an output is a file or a directory, and - is neither; name one", USAGE)
    for name in ("machine", "domains"):  # of a variable of the shell that is not set
        if getattr(args, name, None) == "":
            raise UserError(f"--{name} names nothing", USAGE)
    return args


def is_enough(args: argparse.Namespace) -> bool:
    """Return whether this Python has what such a call needs, without the project's environment."""
    packages = getattr(args.subcommand, "packages", None)
    return packages is not None and all(find_spec(name) for name in packages(args))


def bound_of(command: Command) -> AbstractContextManager[None]:
    """Return the bound of a command's memory; none of those whose machine must stay as idle."""
    if command.NAME in dict(GROUPS)[A_MACHINE]:
        return nullcontext()
    return memory.bounded(getattr(command, "LOOK_S", memory.LOOK_S))


def named_inputs(args: argparse.Namespace) -> Iterator[Path]:
    """Yield the files and directories that a command line names, those of outputs apart."""
    for name, value in vars(args).items():
        words = value if isinstance(value, list) else [value]
        if name in ("machine", "domains"):  # a name is no file
            # "P-core=a.yaml,0-3=b.yaml"; "lpi:dump"
            pattern = "[=,]" if name == "machine" else "^lpi:"
            words = re.split(pattern, value or "")
            yield from (path for path in map(Path, words) if path.is_file())
        elif name not in OUTPUTS:
            yield from (word for word in words if isinstance(word, Path))


def run(args: argparse.Namespace) -> int:
    """Run the command and return its exit code.

    Raises:
        UserError: a Python package of an extra is missing, and all that the command raises.
    """
    try:
        code: int = args.subcommand.run(args)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise UserError(
            f"this needs the Python package {package}: pip install 'cpuidle-lab[{EXTRAS[package]}]'"
        ) from error
    return code


def describe_os_error(error: OSError) -> str:
    """Return one sentence for an error of the operating system."""
    error = first_of(error)
    text = error.strerror or str(error)
    # Of two names, the second one is that of the copy.
    name = error.filename2 or error.filename
    if error.errno == errno.EBADF and not name:
        return "standard output is closed"
    remedy = "; free some space and try again" if error.errno == errno.ENOSPC else ""
    where = f"{name}: " if name else ""
    return f"{where}{text}{remedy}"


class _Output(io.FileIO):
    """Standard output, whose errors have its name: they are raised wherever a buffer is full."""

    def write(self, data: Any, /) -> int:
        """Write, or raise an error that a folder in use does not take for its own."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise OSError(error.errno, error.strerror, "standard output") from None


def _named(stream: TextIO) -> TextIO:
    """Return a stream that tells its name in errors; the same one if it is no file."""
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # without a buffer by PYTHONUNBUFFERED
    if type(raw) is not io.FileIO or not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    named = _Output(raw.fileno(), "w", closefd=False)
    return io.TextIOWrapper(
        named if buffer is raw else io.BufferedWriter(named),
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def open_streams() -> None:
    """Make standard streams that all text can be written to, closed ones and ASCII included."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # else a file that is opened would get its number
            # A closed standard output takes nothing, so what is printed there is not lost silently.
            os.open(os.devnull, os.O_RDONLY if number == _STDOUT else os.O_RDWR)
    sys.stdout = _named(sys.stdout or os.fdopen(1, "w", closefd=False))
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def abandon_output() -> None:
    """Drop what standard output does not take; Python would complain about it again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: Sequence[str] | None = None, enter: Callable[[], NoReturn] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        argv: the arguments without the program's name; None takes those of the process.
        enter: runs the process's command line in the project's environment instead; None where
            this is the environment.
    """
    open_streams()
    try:
        try:
            args = parse(argv)
        except ModuleNotFoundError:  # the program of a proof declares its options
            if enter:
                enter()
            raise
        if enter and not is_enough(args):
            enter()
        with sigterm_interrupts(), bound_of(args.subcommand), inputs(named_inputs(args)):
            code = run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of the output has ended
        abandon_output()
        return FAILURE
    except (InterruptedSession, Terminated) as error:
        name = signal.Signals(error.number).name
        print(f"\ncpuidle-lab: interrupted by {name}", file=sys.stderr)
        return 128 + error.number
    except KeyboardInterrupt:
        print("\ncpuidle-lab: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (UserError, OSError) as error:
        if os.environ.get("CPUIDLE_LAB_DEBUG"):
            raise
        abandon_output()
        message = error.message if isinstance(error, UserError) else describe_os_error(error)
        print(f"cpuidle-lab: error: {printable(message)}", file=sys.stderr)
        return error.exit_code if isinstance(error, UserError) else FAILURE
