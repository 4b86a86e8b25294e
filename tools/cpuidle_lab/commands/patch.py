# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab patch`: write a governor as a series of patches for the kernel."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError

if TYPE_CHECKING:
    from cpuidle_lab.patch.governor import Emitted

NAME = "patch"
HELP = "write a governor of the project as a series of patches for the kernel"
EPILOG = """\
examples:
  cpuidle-lab patch wteo --base 7.3 -o series/ --evidence build/review/teo@7.3-wteo/mail.txt
  cpuidle-lab patch wteo --base ~/linux -o series/ --evidence mail.txt
  cpuidle-lab patch mygov -o series/ --no-evidence --author 'A. Name <name@example.org>'
  git am series/000[12]*

The series has a cover letter, the governor as one file with Kconfig, Makefile and documentation,
and its KUnit tests. The evidence is the mail that `cpuidle-lab review teo@7.3 wteo` writes. The
file is replayed beside the governor of the project, decision by decision, before it is written.

exit codes: 0 it is written, 1 it cannot be made, 2 wrong usage, 3 its decisions differ
"""

_DIFFERS = 3


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) > 10**9:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 0 to 10^9")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("governor", metavar="GOVERNOR", help="a governor of the project, or one that `new` made")
    add("--base", metavar="KERNEL", default="7.3",
        help="a series of Debian's kernels, or a git tree (default: %(default)s)")  # fmt: skip
    add("-o", "--output", type=Path, metavar="DIR", required=True,
        help="where the mails go: a new directory")  # fmt: skip
    add("--author", metavar="'NAME <ADDRESS>'", default="",
        help="of the series (default: user.name and user.email of git)")  # fmt: skip
    evidence = parser.add_mutually_exclusive_group(required=True)
    evidence.add_argument("--evidence", type=Path, metavar="FILE",
                          help="mail.txt of `cpuidle-lab review` about this governor")  # fmt: skip
    evidence.add_argument(
        "--no-evidence", action="store_true", help="say in the cover letter that there is none"
    )
    add("--periods", type=_number, metavar="N", default=100_000,
        help="idle periods to compare decisions in, 0: none (default: %(default)s)")  # fmt: skip


def _evidence(args: argparse.Namespace) -> str:
    """Return the mail of a review about the governor."""
    from cpuidle_lab.review.mail import MARK

    if args.no_evidence:
        return "No review was given (--no-evidence)."
    try:
        text: str = args.evidence.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{args.evidence}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise UserError(f"{args.evidence}: is no text in UTF-8") from None
    first = text.partition("\n")[0]
    if not first.startswith(MARK) or f"{args.governor} after." not in first:
        raise UserError(f"{args.evidence} is no mail of `cpuidle-lab review` in which "
                        f"{args.governor} comes after")  # fmt: skip
    return text


def _check(made: "Emitted", periods: int) -> bool:
    """Print whether the file decides as the project's governor."""
    from cpuidle_lab.patch import equal

    if not periods:
        return True
    found = equal.compare(made.name, made.text, made.constants, periods)
    print(f"decisions: {found.text}")
    if found.differ:
        print(f"patch: the forms of {made.name} differ, first on {found.smallest}; nothing is "
              "written", file=sys.stderr)  # fmt: skip
    return not found.differ


def run(args: argparse.Namespace) -> int:
    """Make the file, compare it, and write the series."""
    # Here, so that the other commands need not load what only this one needs.
    from cpuidle_lab.base.files import whole
    from cpuidle_lab.patch import governor, series

    author = series.author_of(args.author)
    evidence = _evidence(args)
    base = series.base_of(args.base, args.governor)
    made = governor.emit(TOP / "governors", args.governor, author.text)
    if not _check(made, args.periods):
        return _DIFFERS
    with whole(args.output, lambda _: "exists already") as target:
        mails = series.write(made, base, author, evidence, target)
    for mail in mails:
        print(args.output / mail)
    return 0
