#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Try the module on every kernel and architecture that it is meant for.

For each row: build the module in several ways, boot Debian's stock kernel with it, load it, switch
through its governors, tune them, capture a trace and replay it, unload. The table in README.md is
rewritten with the rows that were run.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TOP / "tools"), str(TOP)]

from cpuidle_lab.base.cache import step  # noqa: E402
from cpuidle_lab.base.errors import USAGE, UserError  # noqa: E402
from tests import runner  # noqa: E402
from tests.campaigns.matrix import rows, table  # noqa: E402

# Sources that a row's result depends on.
TRIED = ("Kbuild", "VERSION", "module", "governors", "emul", "tests/campaigns/matrix")

EPILOG = """\
examples:
  run.py                                     all rows, one after the other
  run.py --only 'POWER9 6.12' 'arm64 6.12'
  run.py --only 'x86-64 7.2' --dry-run       print the row, leave README.md as it is

exit code: 0 if all that was run passed, 1 if not, 2 usage
"""


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = runner.parser(__doc__, EPILOG)
    add = parser.add_argument
    add("--only", nargs="+", default=[], metavar="NAME", help="these rows alone")
    add("--list", action="store_true", help="print the names of the rows")
    add("--dry-run", action="store_true", help="print the table's rows, write no document")
    add("-o", "--output", type=Path, default=TOP / "README.md", metavar="FILE",
        help="document with the table (default: README.md)")  # fmt: skip
    args = parser.parse_args(argv)
    unknown = [name for name in args.only if name not in rows.ROWS]
    if unknown:
        parser.error(f"unknown row '{unknown[0]}'; there are: {', '.join(rows.ROWS)}")
    return args


def commit() -> str:
    """Return the commit that is tried, marked where files differ from it."""
    git = ["git", "--no-optional-locks", "-C", str(TOP)]
    try:
        found = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--", *TRIED],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return "no commit"
    return f"{found} and changes" if changed else found


def run_row(name: str) -> table.Outcome:
    """Run a row and print it."""
    folder = tempfile.TemporaryDirectory(prefix="matrix-", dir=TOP / "build")
    with folder as scratch, step(f"Row '{name}'") as said:
        outcome = rows.run(rows.ROWS[name], Path(scratch) / "results", said)
    print("\n".join([outcome.line(when()), *outcome.notes()]), flush=True)
    return outcome


def tried(name: str, document: Path | None) -> bool:
    """Run a row and write it into a document; return whether all of it passed.

    A row that could not be tried at all leaves the document as it is.
    """
    try:
        outcome = run_row(name)
    except UserError as error:
        print(f"matrix: {name} was not tried: {error.message}", file=sys.stderr)
        return False
    if document:
        table.write(document, list(rows.ROWS), outcome, when())
    return not outcome.failed()


def when() -> str:
    """Return the day and the commit."""
    return f"{time.strftime('%Y-%m-%d', time.gmtime())} {commit()}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print, write."""
    args = parse(argv)
    if args.list:
        print("\n".join(rows.ROWS))
        return 0
    return runner.run("matrix", lambda: work(args))


def work(args: argparse.Namespace) -> int:
    """Run the rows, write the table, return the exit code."""
    failed = False
    try:
        if not args.dry_run:
            table.section(args.output)  # before the hours, not after
        for name in args.only or rows.ROWS:
            failed |= not tried(name, None if args.dry_run else args.output)
    except OSError as error:
        raise UserError(str(error), USAGE) from error
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
