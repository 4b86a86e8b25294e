# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab demo`: every governor under the same real programs, in one boot and one report."""

import argparse
import shlex
import sys
from pathlib import Path

from cpuidle_lab.base import files
from cpuidle_lab.base.cache import BUILD
from cpuidle_lab.base.errors import printable
from cpuidle_lab.base.settings import Setting
from cpuidle_lab.figures.output import now
from cpuidle_lab.lab import LabRun, run_lab, workloads
from cpuidle_lab.lab.session import OUR_EVENTS, STOCK, TRACE, PhasePlan, Session

NAME = "demo"
HELP = "boot a stock Debian kernel in virtual time, run every governor, write a report"
EPILOG = """\
examples:
  cpuidle-lab demo
  cpuidle-lab demo --machine gnr --kernel 7.2 -o build/demo-gnr

The first run makes the images (some minutes); they are kept in build/cache.

exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted
"""

DEFAULT_OUTPUT = BUILD / "demo"

# The kernel's own, recorded by probes.
STOCK_GOVERNOR = "menu"

# gate without hints decides as the governor below it does, and records it: menu once more.
# wteo learns faster than by default, because it is seen for seconds only.
GOVERNORS = {
    STOCK_GOVERNOR: (),
    "gate": (Setting("gate", "base", "menu"),),
    "menu_ng": (),
    "teo_ng": (),
    "wteo": (Setting("wteo", "learning_rate", "100"),),
}

# name -> seconds
WORKLOADS = {
    "cyclictest-470us": 2,
    "cyclictest-1700us": 3,
    "hackbench-pipe": 4,
    "stress-cpu": 2,
    "stress-timer": 3,
}

EVENTS = (OUR_EVENTS, "power:cpu_idle")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--kernel", default="6.12", metavar="SERIES", help="series (default: %(default)s)"
    )
    parser.add_argument("--machine", default="skx", metavar="MACHINE", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=DEFAULT_OUTPUT,
        metavar="DIR",
        help="default: build/demo",
    )


def session(machine: str, seed: int) -> Session:
    """Return the demo's phases: each governor with each workload."""
    found = [(workloads.find(name), seconds) for name, seconds in WORKLOADS.items()]
    phases = [
        PhasePlan(governor, each.name, each.shell(seconds, seed), tunables)
        for governor, tunables in GOVERNORS.items()
        for each, seconds in found
    ]
    stock = [phase for phase in phases if phase.governor == STOCK_GOVERNOR]
    return Session(machine, [each for each in phases if each not in stock], EVENTS, stock=stock)


def next_steps(output: Path, trace: Path) -> str:
    """Return what to look at when the demo is over."""
    return f"""
What to look at next:
  {output / "report.html"}   the comparison, in any browser
  trace-cmd report {trace} | less
                               every decision with its reason; KernelShark opens the file too
  ./cpuidle-lab lab --help     your own kernel, machine, governor, tunables and workload
  ./cpuidle-lab doctor         whether this machine can run the module itself"""


def run(args: argparse.Namespace) -> int:
    """Run the session, write the report, say what to look at."""
    # Here, so that the other commands need not load what only the report needs.
    from cpuidle_lab.report import model, report_page, report_text

    page, own = args.output / "report.html", files.marked(report_page.GENERATOR)
    lab = LabRun(session(args.machine, args.seed).script(), kernel=args.kernel, seed=args.seed)
    title = f"Running {len(GOVERNORS)} governors on a {args.machine} with Debian's {args.kernel}"
    result = run_lab(lab, args.output, title).check()
    trace = result.files / TRACE
    command = shlex.join(["cpuidle-lab", *sys.argv[1:]])
    report = model.build([result.files / STOCK, trace], command, now(), together=True)
    files.write_whole(page, report_page.render(report), own)
    report_text.show(report)
    print(printable(f"written: {page}"))
    if not report.broken:
        print(next_steps(args.output, trace))
    return int(report.broken)
