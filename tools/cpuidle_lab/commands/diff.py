# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab diff`: counters of idle states before and after, on one kernel or several."""

import argparse
import json
import sys
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError, printable
from cpuidle_lab.base.files import check, marked, write_all, write_whole

NAME = "diff"
HELP = "compare dumps of idle-state counters: before and after, one kernel beside another"
EPILOG = """\
examples:
  cpuidle-lab diff before.txt after.txt        one kernel: two dumps are before and after
  cpuidle-lab diff good.before good.after bad.before bad.after --mail
                                               two kernels, as a mail of 72 columns
  cpuidle-lab diff good.txt bad.txt            two files of cpuidle-lab dump -n 5 -- COMMAND
  cpuidle-lab diff g1.before g1.after g2.before g2.after --against b*.txt
                                               several runs on each side
  cpuidle-lab diff --since-boot 6.6.txt 6.12.txt
  cpuidle-lab diff before.txt after.txt --by cpu -o page.html

It reads dumps of cpuidle-lab, of grep, head, tail and cat on the files of cpuidle, of cpupower
idle-info, and text of turbostat, packed or not: docs/dumps.md. The differences are from the first
side. A figure that cannot be known is a dash, with its reason below.

exit codes: 0 done, 1 a dump cannot be read or matched, 2 wrong usage
"""


def packages(_args: argparse.Namespace) -> tuple[str, ...]:
    """Return the Python packages that are enough."""
    return ("rich",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("dumps", nargs="+", type=Path, metavar="DUMP", help="pairs of before and after")
    add("--against", nargs="+", type=Path, action="append", default=[], metavar="DUMP",
        help="pairs of another side; may be repeated")  # fmt: skip
    add("--since-boot", action="store_true", help="each dump counts from boot")
    add("--names", type=lambda text: text.split(","), default=[], metavar="NAME,NAME",
        help="of the sides (default: kernel and governor, or the files' names)")  # fmt: skip
    add("--by", choices=("type", "package", "cpu"), action="append", default=[],
        help="tables by state for each of these, too")  # fmt: skip
    add("--mail", action="store_true", help="print plain text of 72 columns")
    add("-o", "--output", type=Path, metavar="FILE", help="write an HTML page")
    add("--json", action="store_true", help="print everything as JSON")
    add("--csv", type=Path, metavar="DIR", help="write tables of CSV into DIR")


def run(args: argparse.Namespace) -> int:
    """Read the dumps, and show the comparison in each form that is asked for."""
    from cpuidle_lab.dump import dump_page, dump_text, export, mail, report

    if args.mail and args.json:
        raise UserError("give one of --mail and --json", USAGE)
    mine = marked(dump_page.GENERATOR)
    if args.output is not None:
        check(args.output, mine)
    found = report.build(args.dumps, args.against, args.since_boot, args.names)
    kinds = ("all", *args.by)
    if args.output is not None:
        write_whole(args.output, dump_page.render(found, kinds), mine)
    if args.csv is not None:
        write_all(args.csv, export.as_csv(found))
    if args.json:
        json.dump(export.as_json(found), sys.stdout, indent=2, allow_nan=False)
        print()
    elif args.mail:
        print(mail.render(found, kinds), end="")
    else:
        dump_text.show(found, kinds)
        for written in filter(None, (args.output, args.csv)):
            print(printable(f"written: {written}"))
    return 0
