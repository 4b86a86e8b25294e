# SPDX-License-Identifier: GPL-2.0
"""The module works on every kernel and architecture that it is meant for.

For each row: build the module in several ways, boot Debian's stock kernel with it, load it, switch
through its governors, tune them, capture a trace and replay it, unload. With --record
docs/proofs.md has the rows that were run; the others stay.
"""

import argparse
import sys
import tempfile
from dataclasses import asdict
from datetime import date
from pathlib import Path

from cpuidle_lab.base.cache import TOP, step
from cpuidle_lab.base.errors import UserError
from experiments import proofs
from tests import long
from tests.campaigns.matrix import rows, table

EXAMPLES = {
    "": "all rows, one after the other",
    "--only 'POWER9 6.12' 'arm64 6.12'": "",
    "--list": "the names of the rows",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("--only", nargs="+", choices=rows.ROWS, default=list(rows.ROWS), metavar="NAME",
        help="these rows alone")  # fmt: skip
    add("--list", action="store_true", help="print the names of the rows")


def tried(name: str, record: bool) -> bool:
    """Run a row, print it, record it if that is wanted; return whether all of it passed.

    A row that could not be tried at all leaves the record as it is.
    """
    folder = tempfile.TemporaryDirectory(prefix="matrix-", dir=TOP / "build")
    tree = f"{date.today().isoformat()} {long.commit()}"
    try:
        with folder as scratch, step(f"Row '{name}'") as said:
            outcome = rows.run(rows.ROWS[name], Path(scratch) / "results", said)
    except UserError as error:
        print(f"matrix: {name} was not tried: {error.message}", file=sys.stderr)
        return False
    outcome.run = tree
    print("\n".join([" | ".join(outcome.words()), *outcome.notes()]), flush=True)
    if record:
        kept = {row["row"]: row for row in proofs.read(proofs.MATRIX)}
        kept[name] = asdict(outcome)
        everything = [kept.get(each, asdict(table.Outcome(each))) for each in rows.ROWS]
        proofs.write(proofs.MATRIX, everything)
    return not outcome.failed()


def run(args: argparse.Namespace) -> int:
    """Run the rows; return the exit code."""
    if args.list:
        print("\n".join(rows.ROWS))
        return 0
    passed = [tried(name, args.record) for name in args.only]
    return 0 if all(passed) else 1
