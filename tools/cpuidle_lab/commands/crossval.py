# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab crossval`: predictions of replay beside what the kernel then did."""

import argparse
import json
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cpuidle_lab.base.cache import BUILD
from cpuidle_lab.base.errors import FAILURE, USAGE, UserError
from cpuidle_lab.base.files import claimed, make_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpuidle_lab.crossval.parts import Part
    from cpuidle_lab.crossval.plan import Boot

NAME = "crossval"
HELP = "compare the regret that replay predicts with the regret of the kernel's recordings"
EPILOG = """\
examples:
  cpuidle-lab crossval build/demo/trace.dat       the phases of one recording
  cpuidle-lab crossval run1.dat run2.dat          the same session with two seeds
  cpuidle-lab crossval --record                   recordings made in the lab, all workloads
  cpuidle-lab crossval --record --only idle redis --seeds 2

A recording holds the same workloads under several governors, as phases; the lab's demo and capture
make such recordings. Each governor is replayed on each phase, and compared with the phase that it
recorded itself. docs/crossval.md has the targets of the errors, and explains the errors.

With --record, or -o, the results are in DIR: crossval.json, crossval.svg, crossval.md.

exit codes: 0 done, 1 a target is missed or a recording cannot be used, 2 wrong usage,
130 interrupted
"""

DEFAULT_OUTPUT = BUILD / "crossval"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("traces", nargs="*", type=Path, metavar="TRACE", help="trace.dat, or Parquet directory")
    add("--record", action="store_true", help="make the recordings in the lab")
    add("--only", nargs="+", default=[], metavar="WORKLOAD", help="with --record: these alone")
    add("--seeds", type=int, metavar="N", help="with --record: how many (default: 5; --full: 3)")
    add("--full", action="store_true", help="with --record: all workloads on all machines, on "
        "6.12 and 7.2")  # fmt: skip
    add("-o", "--output", type=Path, metavar="DIR", help="where results go (build/crossval)")
    add("--json", action="store_true", help="print the results as JSON")


def recordings(args: argparse.Namespace, boots: "Sequence[Boot]") -> list["Part"]:
    """Return all phases, recorded now or given.

    Args:
        args: the command's options.
        boots: to be recorded, with --record.

    Raises:
        UserError: a recording cannot be made or used.
    """
    from cpuidle_lab.crossval import parts
    from cpuidle_lab.lab.parallel import side_by_side
    from cpuidle_lab.recording import columns

    paths: list[Path] = args.traces
    if args.record:
        folder = (args.output or DEFAULT_OUTPUT) / "traces"
        make_folder(folder)
        paths = side_by_side([partial(boot.record, folder) for boot in boots])
    found = []
    for path in dict.fromkeys(paths):
        with columns.opened(path) as recording:
            found += parts.parts(recording, path)
    return found


def run(args: argparse.Namespace) -> int:
    """Record or read, replay, judge, write."""
    from cpuidle_lab.crossval import misses, pairs, plan, results, targets
    from cpuidle_lab.view.terminal import console, meter

    if bool(args.traces) == args.record:
        raise UserError("give recordings, or --record", USAGE)
    if not args.record and (args.only or args.seeds or args.full):
        raise UserError("--only, --seeds and --full go with --record", USAGE)
    if args.seeds is not None and args.seeds <= 0:
        raise UserError("--seeds must be above 0", USAGE)
    boots = list(plan.boots(full=args.full, only=args.only, seeds=args.seeds))
    output = args.output or (DEFAULT_OUTPUT if args.record else None)
    with claimed(output) if output else nullcontext():
        found = recordings(args, boots)
        pairs.check(found)
        with meter("Replaying", pairs.count(found)) as done:
            judged = pairs.pairs(found, done)
        verdicts = targets.judge(judged)
        errors = misses.intervals(found, judged)
        if output is not None:
            results.write(output, judged, verdicts, errors)
        if args.record and output is not None:
            plan.drop_older(output / "traces", {part.path for part in found})
    if args.json:
        print(json.dumps(targets.as_json(judged, verdicts), indent=2))
    else:
        out = console()
        results.section(judged, verdicts, errors).print(out)
        if output is not None:
            out.print(f"written: {output}/crossval.json, crossval.svg, crossval.md")
    return 0 if targets.held(verdicts) else FAILURE
