# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab replay`: the recorded decisions, made again."""

import argparse
import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from cpuidle_lab.base.errors import FAILURE, USAGE, UserError

if TYPE_CHECKING:
    from cpuidle_lab.recording.columns import Recording
    from cpuidle_lab.replay.candidates import Candidate

NAME = "replay"
HELP = "make recorded decisions again: as the kernel did, or as other governors would have"
EPILOG = """\
examples:
  cpuidle-lab replay trace.dat --check          does replay decide as the kernel did?
  cpuidle-lab replay trace.dat --same-points --governors menu_ng,wteo:learning_rate=80

Governors are those of the project, the limits (oracle, bayes), and the kernel's own, compiled from
Debian's linux-source package or a kernel tree: menu, teo, ladder, haltpoll @ SERIES or PATH.

Both ways decide at the points of the recording, with its inputs, and learn from its outcomes.
--check takes any recording, and names its gaps first. It also plays the recording with the
governors that made it, from the state that they began with. It fails if their energy differs from
the recorded one by more than 1 %, and where there are no decisions of the module. `cpuidle-lab
compare` predicts the effect of the choices of other governors. docs/replay.md has more.

exit codes: 0 done, 1 the recording cannot be replayed or checked, or --check found a difference,
2 wrong usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("trace", type=Path, metavar="TRACE", help="recording; docs/formats.md has the formats")
    way = parser.add_mutually_exclusive_group(required=True).add_argument
    way("--check", action="store_true", help="make the recorded decisions again and compare them")
    way("--same-points", action="store_true", help="let --governors decide at these points instead")
    add(
        "--governors",
        metavar="NAME[@KERNEL][:TUNABLE=VALUE]...[,...]",
        help="governors that decide (with --check, default: all that were recorded)",
    )
    add("--jobs", type=int, metavar="N", help="processes (default: one for each processor)")
    add("--json", action="store_true", help="print the results as JSON")


def _agreements(recording: "Recording", chosen: list["Candidate"], args: argparse.Namespace) -> int:
    from cpuidle_lab.replay.agreement import agreement
    from cpuidle_lab.view.terminal import meter

    with meter("Replaying", len(chosen) * recording.rows("period")) as count:
        found = [agreement(recording, one.governor, dict(one.settings), count) for one in chosen]
    if args.json:
        print(json.dumps([vars(one) for one in found], indent=2))
        return 0
    for one in found:
        total = max(1, one.decisions)
        print(
            f"{one.governor}: of {one.decisions:,} decisions {100 * one.same / total:.1f} % the "
            f"same state, {100 * one.deeper / total:.1f} % deeper, "
            f"{100 * one.shallower / total:.1f} % shallower"
        )
    return 0


def _check(recording: "Recording", chosen: list["Candidate"], args: argparse.Namespace) -> int:
    from cpuidle_lab.crossval.examination import examine

    found = examine(recording, args.trace, [one.governor.name for one in chosen], args.jobs)
    print(json.dumps(found.as_json(), indent=2) if args.json else found.text())
    return 0 if found.passed else FAILURE


def run(args: argparse.Namespace) -> int:
    """Read, replay, print."""
    from cpuidle_lab.recording import columns, reader
    from cpuidle_lab.replay.candidates import listed
    from cpuidle_lab.view.terminal import meter

    if args.same_points and not args.governors:
        raise UserError("--same-points wants --governors NAME[,NAME]", USAGE)
    if args.jobs is not None and args.jobs <= 0:
        raise UserError("--jobs must be above 0", USAGE)
    chosen = listed(args.governors) if args.governors else []
    if args.check and any(one.settings for one in chosen):
        raise UserError("--check takes the recorded tunables; leave them out of --governors", USAGE)
    with ExitStack() as stack:
        with reader.watched(meter, "Reading", 1):
            recording = stack.enter_context(columns.opened(args.trace))
        return (_check if args.check else _agreements)(recording, chosen, args)
