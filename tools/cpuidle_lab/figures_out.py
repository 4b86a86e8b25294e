# SPDX-License-Identifier: GPL-2.0
"""The forms in which `report` and `compare` give their figures: a page, JSON, tables of CSV."""

import argparse
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from cpuidle_lab.errors import USAGE, UserError
from cpuidle_lab.files import is_page_of, write_whole


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
        help="idle states of recordings without the module (see cpuidle-lab machines)",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON, no table")
    parser.add_argument("--csv", type=Path, metavar="DIR", help="write tables of CSV into DIR")
    parser.add_argument(
        "--force", action="store_true", help="overwrite FILE even if it is another command's"
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
        UserError: it cannot be written, or another program has written it.
    """
    html: Path | None = args.output
    if html is None and not args.json and args.csv is None:
        html = args.traces[0].resolve().parent / page
    if html is not None:
        _check(html, generator, args.force)
    return html


def _check(path: Path, generator: str, force: bool) -> None:
    if not path.parent.is_dir():
        raise UserError(f"{path.parent}: no such directory")
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"{path.parent}: not writable; choose another place with -o")
    if path.is_dir():
        raise UserError(f"{path} is a directory")
    if not force and path.exists() and not is_page_of(path, generator):
        raise UserError(
            f"{path} exists and was not written by this command; choose another name or --force",
            USAGE,
        )


def write_tables(folder: Path, tables: Mapping[Path, str]) -> None:
    """Write tables into a directory, which is made if it is missing.

    Args:
        folder: the directory.
        tables: text of each, by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in tables.items():
        write_whole(folder / name, text)
