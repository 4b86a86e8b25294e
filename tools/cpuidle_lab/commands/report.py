# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab report`: compare the governors of one or several recordings."""

import argparse
import json
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

from cpuidle_lab.errors import UserError
from cpuidle_lab.files import is_page_of, write_whole

NAME = "report"
HELP = "compare the governors in a trace: tables, and one HTML file that opens offline"
EPILOG = """\
examples:
  cpuidle-lab report trace.dat                  table here, pictures in report.html beside the trace
  cpuidle-lab report skx.dat icx.dat -o both.html
                                                several recordings side by side
  cpuidle-lab report trace.dat --json | jq '.runs[] | {governor, workload, regret: .metrics.regret}'
  cpuidle-lab report trace.dat --csv tables/    metrics.csv, states.csv, reasons.csv, wakers.csv, …

Record with: trace-cmd record -e cpuidle_lab -e power:cpu_idle, or without the module with
cpuidle-lab capture --stock. Lines such as
"phase governor=wteo workload=idle" and "phase end" in trace_marker delimit the runs; without them
the trace is divided by governor. `cpuidle-lab capture` and the lab write them.

With --json or --csv the HTML file is written only where -o asks for it.

exit codes: 0 done, 1 a file is no trace or is damaged, 2 wrong usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "traces", nargs="+", type=Path, metavar="TRACE", help="trace.dat of trace-cmd"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the HTML file (default: report.html beside TRACE)",
    )
    parser.add_argument(
        "--machine",
        metavar="MACHINE",
        help="idle states of traces without the module (see cpuidle-lab machines)",
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON, no table")
    parser.add_argument("--csv", type=Path, metavar="DIR", help="write CSV tables into DIR")
    parser.add_argument(
        "--force", action="store_true", help="overwrite FILE even if it is not one of our reports"
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _check_target(path: Path, force: bool) -> None:
    """Refuse to overwrite what is not ours.

    Raises:
        UserError: `path` exists and is no report, or its directory does not exist.
    """
    from cpuidle_lab.report.report_page import GENERATOR

    if not path.parent.is_dir():
        raise UserError(f"{path.parent}: no such directory")
    if force or not path.exists() or is_page_of(path, GENERATOR):
        return
    raise UserError(
        f"{path} exists and is not a cpuidle-lab report; choose another name or --force"
    )


def run(args: argparse.Namespace) -> int:
    """Read the traces, print and write the figures."""
    # Here, so that the other commands need not load what only the report needs.
    from cpuidle_lab import machines
    from cpuidle_lab.report import export, model, report_page, report_text

    start = _now()
    command = shlex.join(["cpuidle-lab", *sys.argv[1:]])
    html: Path | None = args.output
    if html is None and not args.json and args.csv is None:
        html = args.traces[0].parent / "report.html"
    if html is not None and html.parent.is_dir():
        _check_target(html, args.force)
    machine = machines.find(args.machine) if args.machine else None
    report = model.build(args.traces, command, start, machine)
    if html is not None:
        _check_target(html, args.force)
        write_whole(html, report_page.render(report))
    if args.csv is not None:
        args.csv.mkdir(parents=True, exist_ok=True)
        for name, text in export.as_csv(report).items():
            write_whole(args.csv / name, text)
    if args.json:
        json.dump(export.as_json(report, _now()), sys.stdout, indent=2)
        print()
        return 0
    report_text.show(report)
    for written in filter(None, (html, args.csv)):
        print(f"written: {written}")
    return 0
