# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab report`: compare the governors of one or several recordings."""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cpuidle_lab.base.errors import printable
from cpuidle_lab.base.files import write_all, write_whole
from cpuidle_lab.figures.output import add_options, now, page_of, pages

if TYPE_CHECKING:
    from cpuidle_lab.domains.observed import Observed
    from cpuidle_lab.states.table import CpuTable
    from cpuidle_lab.view.drawing import Chart
    from cpuidle_lab.view.html_page import Part

NAME = "report"
HELP = "compare the governors in a trace: tables, and one HTML file that opens offline"
EPILOG = """\
examples:
  cpuidle-lab report trace.dat                  table here, pictures in report.html beside the trace
  cpuidle-lab report skx.dat icx.dat -o both.html
                                                several recordings side by side
  cpuidle-lab report --together stock.dat wteo.dat
                                                one session in parts: one table for a workload
  cpuidle-lab report trace.dat --json | jq '.runs[] | {governor, workload, regret: .metrics.regret}'
  cpuidle-lab report trace.dat --domains xeon   the package's sleep, and the CPUs in its way
  cpuidle-lab report trace.dat --csv tables/    metrics.csv, states.csv, reasons.csv, wakers.csv, …

Record with: trace-cmd record -e cpuidle_lab -e power:cpu_idle, or without the module with
cpuidle-lab capture --stock. Lines such as
"phase governor=wteo workload=idle" and "phase end" in trace_marker delimit the runs; without them
the trace is divided by governor. `cpuidle-lab capture` and the lab write them.

With --json or --csv the HTML file is written only where -o asks for it.

exit codes: 0 done, 1 a file is no trace or is damaged, or a figure contradicts itself, 2 wrong
usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "traces", nargs="+", type=Path, metavar="TRACE",
        help="recording; docs/formats.md has the formats",
    )  # fmt: skip
    parser.add_argument(
        "--together", action="store_true",
        help="the recordings are parts of one session: compare across them by workload",
    )  # fmt: skip
    add_options(parser, "report.html")


def _domains(args: argparse.Namespace, given: "Sequence[CpuTable]") -> "list[Observed]":
    from cpuidle_lab.domains import observed

    domains = [observed.observe(path, args.domains, given) for path in args.traces]
    observed.tell_unlike(domains)
    return domains


def _section(domains: "list[Observed]") -> "list[tuple[Part, list[Chart]]]":
    from cpuidle_lab.domains import domains_page

    return domains_page.section(domains)


def run(args: argparse.Namespace) -> int:
    """Read the traces, print and write the figures."""
    # Here, so that the other commands need not load what only the report needs.
    from cpuidle_lab.recording import state_tables
    from cpuidle_lab.report import export, model, report_page, report_text
    from cpuidle_lab.view.terminal import meter

    start = now()
    command = shlex.join(["cpuidle-lab", *sys.argv[1:]])
    html = page_of(args, "report.html", report_page.GENERATOR)
    given = state_tables.given(args.machine) if args.machine else ()
    report = model.build(args.traces, command, start, given, together=args.together, meter=meter)
    domains = _domains(args, given) if args.domains else []
    if html is not None:
        page = report_page.render(report, _section(domains) if domains else [])
        write_whole(html, page, pages(args, report_page.GENERATOR))
    if args.csv is not None:
        write_all(args.csv, export.as_csv(report))
    is_broken = int(report.broken or any(each.broken for each in domains))
    if args.json:
        told = export.as_json(report, now())
        if args.domains:
            from cpuidle_lab.domains import export as domains_export

            told["domains"] = [domains_export.as_json(each) for each in domains]
        json.dump(told, sys.stdout, indent=2)
        print()
        return is_broken
    report_text.show(report)
    if domains:
        from cpuidle_lab.domains import domains_page, domains_text

        for each in domains:
            domains_text.show(each, domains_page.TOP)
    for written in filter(None, (html, args.csv)):
        print(printable(f"written: {written}"))
    return is_broken
