# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab domains`: what keeps packages, clusters and modules awake."""

import argparse
import json
import shlex
import sys
from html import escape
from pathlib import Path

from cpuidle_lab.base.errors import printable
from cpuidle_lab.base.files import check, marked, write_whole
from cpuidle_lab.figures.output import now

NAME = "domains"
HELP = "show how long packages and clusters could have slept, and which CPUs kept them awake"
EPILOG = """\
examples:
  cpuidle-lab domains trace.dat --domains xeon
                                     one package; CPUs and causes that kept it awake, by energy
  cpuidle-lab domains trace.dat --machine before.txt --domains mt8196
                                     of a stock recording, with the idle states of a dump
  cpuidle-lab domains trace.dat --domains xeon --governors menu@7.3,teo@7.3,wteo
                                     what governors would have cost, CPUs and domains together
  cpuidle-lab domains trace.dat --domains mine.yaml --json | jq '.phases[].domains'
                                     domains of a machine file
  cpuidle-lab domains trace.dat --domains xeon -o domains.html
                                     a page, too: the domains over time, and the CPUs in the way

DOMAINS is a tree that comes along (xeon, ecore-modules, client, mt8196, zen2-server, power9-smt4),
dts:NAME[@SERIES] of the kernel's device trees, lpi:DUMP of a machine with ACPI _LPI (lpi:this is
this one), or a machine file with `domains`. power:cpu_idle of all CPUs is enough; with events of
irq and timer (capture --stock) the causes have names. Energies are modelled. docs/domains.md
explains the figures.

exit codes: 0 done, 1 a file is no trace, the tree does not fit it, or a figure contradicts itself,
2 wrong usage
"""


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is no number of reasons")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("trace", type=Path, metavar="TRACE", help="recording of several CPUs")
    parser.add_argument(
        "--domains",
        required=True,
        metavar="DOMAINS",
        help="the machine's domains: a name, or a file",
    )
    parser.add_argument(
        "--machine",
        metavar="MACHINE",
        help="idle states of recordings without the module: see cpuidle-lab machines",
    )
    parser.add_argument(
        "--governors",
        metavar="NAME[@KERNEL][:TUNABLE=VALUE]...[,...]",
        help="replay these on all CPUs together",
    )
    parser.add_argument(
        "--top",
        type=_natural,
        default=8,
        metavar="N",
        help="reasons to show of each domain (default: %(default)s)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write one HTML file, too"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON, no table")


def run(args: argparse.Namespace) -> int:
    """Read the trace and print the figures."""
    # Here, so that the other commands need not load what only this one needs.
    from cpuidle_lab.domains import domains_page, domains_text, export, observed, replayed
    from cpuidle_lab.recording import state_tables
    from cpuidle_lab.replay import candidates

    ours = marked(domains_page.GENERATOR)
    if args.output is not None:
        check(args.output, ours)
    command = shlex.join(["cpuidle-lab", *sys.argv[1:]])
    made = f"{now()}: <code>{escape(command)}</code>"
    given = state_tables.given(args.machine) if args.machine else ()
    if args.governors is not None:
        named = candidates.listed(args.governors)
        played = replayed.replay(args.trace, args.domains, named, given)
        page = domains_page.render_governors(played, made) if args.output else ""
        told, is_broken = export.of_governors(played), bool(played.broken)
    else:
        found = observed.observe(args.trace, args.domains, given)
        page = domains_page.render(found, args.top, made) if args.output else ""
        told, is_broken = export.as_json(found), found.broken
    if args.output is not None:
        write_whole(args.output, page, ours)
    if args.json:
        json.dump(told, sys.stdout, indent=2)
        print()
        return int(is_broken)
    if args.governors is not None:
        domains_text.show_governors(played)
    else:
        domains_text.show(found, args.top)
    if args.output is not None:
        print(printable(f"written: {args.output}"))
    return int(is_broken)
