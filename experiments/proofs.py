# SPDX-License-Identifier: GPL-2.0
"""Proofs and campaigns: programs that say whether a promise is held, and the page of all of them.

Such a program is a file `tests/proofs/NAME/run.py` or `tests/campaigns/NAME/run.py`. The first line
of its docstring is the promise. It has EXAMPLES, add_options(parser), and run(args), which returns
the exit code. Nothing else names them: the command, the Makefile and the page find what is there.
"""

import argparse
import ast
import importlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import date
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import DOCUMENT, marked, write_whole
from tests import long
from tests.campaigns.storm import sabotage

PAGE = TOP / "docs" / "proofs.md"
# The last run of each command; the rows of the matrix.
RUNS, MATRIX = (TOP / "docs" / "proofs" / f"{name}.json" for name in ("runs", "matrix"))
_TEMPLATE = Path(__file__).with_suffix(".md")

# Options with which a run says nothing of the promise.
_UNJUDGED = ("list", "costs", "sabotage")

NO_RUN = "no run recorded"

_ENDING = """\
exit codes: 0 the promise is held, 1 it is missed or something cannot be measured, 2 wrong usage,
130 interrupted
"""

# Options that several proofs have: flags, and what argparse is told of them.
_SHARED: Mapping[str, tuple[Sequence[str], Mapping[str, Any]]] = {
    "seed": (["--seed"], {"type": int, "help": "of all that is drawn"}),
    "kernel": (["--kernel"], {"metavar": "SERIES", "help": "Debian's kernel"}),
    "cpus": (["--cpus"], {"type": int, "help": "of the machine"}),
    "time_limit": (
        ["--time-limit"],
        {"type": float, "metavar": "S", "help": "of a boot, by the host's clock"},
    ),
    "output": (
        ["-o", "--output"],
        {"type": Path, "metavar": "PATH", "help": "keep here what the run makes"},
    ),
    "sabotage": (
        ["--sabotage"],
        {"choices": ("", *sabotage.FAULTS), "help": "put this fault into the module"},
    ),
    "json": (["--json"], {"action": "store_true", "help": "print the result as JSON"}),
}


class Proof(Protocol):
    """Members of the module of a proof, beside its docstring.

    Attributes:
        EXAMPLES: options, and what they are for.
    """

    EXAMPLES: Mapping[str, str]

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options of this proof."""

    def run(self, args: argparse.Namespace) -> int:
        """Return the exit code: 0 the promise is held, 1 it is missed."""


@cache
def found() -> dict[str, Path]:
    """Return the programs by name, in alphabetical order."""
    folders = (TOP / "tests" / kind for kind in ("proofs", "campaigns"))
    paths = {path.parent.name: path for folder in folders for path in folder.glob("*/run.py")}
    return dict(sorted(paths.items()))


def named(words: Sequence[str]) -> str:
    """Return the proof that the first of some words names, options apart; "" if it names none."""
    first = next((word for word in words if not word.startswith("-")), "")
    return first if first in found() else ""


def _docstring(name: str) -> str:
    return ast.get_docstring(ast.parse(found()[name].read_text(encoding="utf-8"))) or ""


def promise(name: str) -> str:
    """Return a proof's promise, a line without its full stop; the program is not loaded."""
    return _docstring(name).partition("\n")[0].removesuffix(".")


def kind(name: str) -> str:
    """Return "proof", or "campaign" for one that runs at length."""
    return found()[name].parents[1].name.removesuffix("s")


def load(name: str) -> Proof:
    """Return the program of a proof."""
    parts = found()[name].relative_to(TOP).with_suffix("").parts
    return cast(Proof, importlib.import_module(".".join(parts)))


def shared(parser: argparse.ArgumentParser, **defaults: Any) -> None:
    """Declare options that several proofs have.

    Args:
        parser: of a proof.
        defaults: of the options of _SHARED that this proof has, by name.
    """
    for name, default in defaults.items():
        flags, about = _SHARED[name]
        told = default.relative_to(TOP) if isinstance(default, Path) else default
        told = "a new one, printed" if name == "seed" and told is None else told
        shown = f"{about['help']} (default: {told})" if told else about["help"]
        parser.add_argument(*flags, **{**about, "default": default, "help": shown})


def add_arguments(name: str, words: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Make the parser of `experiment` that of a proof.

    Args:
        name: of the proof.
        words: of the command line; those that name no output are what a record is of.
        parser: declares nothing yet.
    """
    proof = load(name)
    command = f"cpuidle-lab experiment {name}"
    lines = [f"  {command} {options:40} {about}" for options, about in proof.EXAMPLES.items()]
    parser.prog, parser.description = command, _docstring(name)
    parser.epilog = "\n".join(["examples:", *map(str.rstrip, lines), "", _ENDING])
    parser.add_argument("proof", choices=[name], help=argparse.SUPPRESS)
    proof.add_options(parser)
    parser.add_argument("--record", action="store_true",
                        help="write verdict, date and commit to docs/proofs.md")  # fmt: skip
    kept = [word for word in words if word not in ("--record", "--json")]
    parser.set_defaults(recorded_as=shlex.join(kept))


def run(args: argparse.Namespace) -> int:
    """Run a proof, record its verdict if that is wanted, return its exit code.

    Raises:
        UserError: the run cannot be recorded, or something cannot be measured.
    """
    if args.record and any(getattr(args, name, None) for name in _UNJUDGED):
        raise UserError("--record is for a run that judges the promise", USAGE)
    commit = long.commit() if args.record else ""
    try:
        code = load(args.proof).run(args)
        if args.record:
            _record(args.recorded_as, code == 0, commit)
    finally:
        if args.record:
            write_page()
    return code


def _record(command: str, held: bool, commit: str) -> None:
    runs = {row["command"]: row for row in read(RUNS)}
    verdict, day = "held" if held else "MISSED", date.today().isoformat()
    runs[command] = {"command": command, "verdict": verdict, "day": day, "commit": commit}
    write(RUNS, [runs[command] for command in sorted(runs)])


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a record; none where there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows of a record, one a line."""
    lines = ",\n".join(json.dumps(row) for row in rows)
    write_whole(path, f"[\n{lines}\n]\n", marked("[\n{"))


def page() -> str:
    """Return the page of all proofs, made from the programs and their records."""
    from tests.campaigns.matrix import table

    text = _TEMPLATE.read_text(encoding="utf-8")
    text = text.replace("{{proofs}}", "\n".join(_rows()))
    text = text.replace("{{matrix}}", table.markdown(read(MATRIX)))
    return re.sub(r"\{\{(\S+)\}\}", lambda match: _tested(match[1]), text)


def write_page() -> None:
    """Write the page of all proofs."""
    write_whole(PAGE, page(), marked(DOCUMENT))


def _rows() -> list[str]:
    """Return the rows of the table: one for each recorded command, or one that says there is none.

    The name leads to what explains the proof.
    """
    runs = read(RUNS)
    lines = []
    for name, path in found().items():
        about = [TOP / "docs" / f"{name}.md", path.with_name("README.md")]
        where = next((each for each in about if each.exists()), path)
        link = f"[{name}]({Path('..') / where.relative_to(TOP)})".replace("(../docs/", "(")
        head = f"| {link} | {promise(name)} |"
        mine = [row for row in runs if named(shlex.split(row["command"])) == name]
        for row in mine:
            lines.append(f"{head} `{row['command']}` | {_verdict(row)} |")
            head = "| | |"
        if not mine:
            lines.append(f"{head} `{name}` | {NO_RUN} |")
    return lines


def _verdict(row: Mapping[str, str]) -> str:
    return f"{row['verdict']}, {row['day']}, {row['commit']}"


def _tested(pattern: str) -> str:
    """Return what tests/long.tsv says of tests: the failures, or the run that is longest ago."""
    rows = [row for row in long.load().values() if fnmatch(row.test, f"{pattern}*")]
    rows = [row for row in rows if row.verdict == "failed"] or rows
    if not rows:
        return NO_RUN
    row = min(rows, key=lambda row: row.day)
    verdict = {"passed": "held", "failed": "MISSED"}.get(row.verdict, row.verdict)
    return _verdict({"verdict": verdict, "day": row.day, "commit": row.commit})


if __name__ == "__main__":
    write_page()
