# SPDX-License-Identifier: GPL-2.0
"""The forms in which `report` and `compare` give their figures: a page, JSON, tables of CSV."""

import argparse
import os
from datetime import UTC, datetime
from pathlib import Path

from cpuidle_lab.base.files import PAGE, Foreign, check, marked


def add_options(parser: argparse.ArgumentParser, page: str) -> None:
    """Declare the options.

    Args:
        parser: of the command.
        page: name of the HTML file that is written by default.
    """
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help=f"the HTML file (default: {page} beside the first TRACE)",
    )
    parser.add_argument(
        "--machine",
        metavar="MACHINE",
        help="idle states of recordings without the module: see cpuidle-lab machines, "
        "or RANGE=MACHINE,... by CPU (0-3=A.yaml,4-5=B.yaml)",
    )
    parser.add_argument(
        "--domains",
        metavar="DOMAINS",
        help="packages and clusters, too: see cpuidle-lab domains",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON, no table")
    parser.add_argument("--csv", type=Path, metavar="DIR", help="write tables of CSV into DIR")
    parser.add_argument(
        "--force",
        action="store_true",
        help="overwrite FILE if it is another command's page, too",
    )


def now() -> str:
    """Return the time for people and programs."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def page_of(args: argparse.Namespace, page: str, generator: str) -> Path | None:
    """Return the HTML file that is to be written, if any.

    Args:
        args: with the options of add_options().
        page: name of the file by default; it goes beside the first recording.
        generator: mark of the command's own pages, which it may overwrite.

    Raises:
        UserError: see files.check().
    """
    html: Path | None = args.output
    if html is None and not args.json and args.csv is None:
        html = Path(os.path.realpath(args.traces[0])).parent / page
        if not args.traces[0].exists():  # which its reader says
            return html
    if html is not None:
        check(html, pages(args, generator))
    return html


def pages(args: argparse.Namespace, generator: str) -> Foreign:
    """Return what takes the command's own pages, with --force each page of this program."""
    mine, any_page = marked(generator), marked(PAGE)

    def foreign(path: Path) -> str:
        """Tell of another command's page that --force replaces it."""
        return mine(path) and (any_page(path) or "is another command's (--force replaces it)")

    return any_page if args.force else foreign
