# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab compare`: what any governor would have done on some recordings."""

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
    from cpuidle_lab.domains.replayed import Replayed
    from cpuidle_lab.replay.candidates import Candidate
    from cpuidle_lab.states.table import CpuTable
    from cpuidle_lab.view.drawing import Chart
    from cpuidle_lab.view.html_page import Part

NAME = "compare"
HELP = "replay governors on recordings, and rank them beside an oracle and a floor estimate"
EPILOG = """\
examples:
  cpuidle-lab compare trace.dat           table here, pictures in compare.html beside the trace
  cpuidle-lab compare corpus/*.dat --governors wteo,menu_ng,teo@6.12
                                                kernels' own governors: menu, teo, ladder, haltpoll
  cpuidle-lab compare bursts/ --governors wteo,wteo:learning_rate=50:half_life_ms=500
                                                tunables after colons
  cpuidle-lab compare *.dat --json | jq '.summary[] | {label, mean_regret, worst_trace}'
  cpuidle-lab compare trace.dat --domains xeon  regret of the machine, packages included
  cpuidle-lab compare *.dat --csv tables/       governors.csv: a row for each on each recording

TRACE is a trace.dat of trace-cmd with the cpuidle_lab events or made by capture --stock, or a
Parquet directory. Of power:cpu_idle alone, governors are replayed without timers. The table
also shows the newest kernel's menu and teo, the better of them on each recording (best mainline),
bayes (an estimate of the floor, from past and timers) and the oracle. docs/compare.md explains the
result.

With --json or --csv the HTML file is written only where -o asks for it.

exit codes: 0 done, 1 a recording cannot be replayed, or a figure contradicts itself, 2 wrong usage
"""


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no number of decisions")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "traces", nargs="+", type=Path, metavar="TRACE", help="trace.dat, or Parquet directory"
    )
    parser.add_argument(
        "--governors",
        metavar="NAME[@KERNEL][:TUNABLE=VALUE]...[,...]",
        help="governors to replay (default: all governors of the project)",
    )
    parser.add_argument(
        "--no-mainline", action="store_true", help="without the newest kernel's menu and teo"
    )
    parser.add_argument(
        "--no-instructions", action="store_true", help="do not count instructions (valgrind)"
    )
    parser.add_argument(
        "--worst",
        type=_natural,
        default=20,
        metavar="N",
        help="worst decisions to show for each governor and trace (default: %(default)s)",
    )
    add_options(parser, "compare.html")


def _domains(
    args: argparse.Namespace, candidates: "list[Candidate]", given: "Sequence[CpuTable]"
) -> "list[Replayed]":
    from cpuidle_lab.domains import observed, replayed

    domains = [replayed.replay(path, args.domains, candidates, given) for path in args.traces]
    observed.tell_unlike(domains)
    return domains


def _section(domains: "list[Replayed]") -> "list[tuple[Part, list[Chart]]]":
    from cpuidle_lab.domains import domains_page

    return domains_page.section(domains)


def run(args: argparse.Namespace) -> int:
    """Replay, print and write the figures."""
    # Here, so that the other commands need not load what only this one needs.
    from cpuidle_lab.compare import compare_page, compare_text, export, model
    from cpuidle_lab.recording import state_tables
    from cpuidle_lab.replay import candidates as spec
    from cpuidle_lab.view.terminal import meter

    start = now()
    html = page_of(args, "compare.html", compare_page.GENERATOR)
    candidates = spec.parse(args.governors, not args.no_mainline)
    given = state_tables.given(args.machine) if args.machine else ()
    comparison = model.build(
        args.traces,
        candidates,
        meter,
        bad=args.worst,
        count=not args.no_instructions,
        command=shlex.join(["cpuidle-lab", *sys.argv[1:]]),
        start=start,
        given=given,
    )
    domains = _domains(args, candidates, given) if args.domains else []
    if html is not None:
        page = compare_page.render(comparison, _section(domains) if domains else [])
        write_whole(html, page, pages(args, compare_page.GENERATOR))
    if args.csv is not None:
        write_all(args.csv, export.as_csv(comparison))
    is_broken = int(comparison.broken or any(each.broken for each in domains))
    if args.json:
        told = export.as_json(comparison, now())
        if args.domains:
            from cpuidle_lab.domains import export as domains_export

            told["domains"] = [domains_export.of_governors(each) for each in domains]
        json.dump(told, sys.stdout, indent=2)
        print()
        return is_broken
    compare_text.show_tables(comparison)
    if domains:
        from cpuidle_lab.domains import domains_text

        for each in domains:
            domains_text.show_governors(each)
    for written in filter(None, (html, args.csv)):
        print(printable(f"written: {written}"))
    return is_broken
