# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab replay`: the recorded decisions, made again."""

import argparse
import json
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
Debian's linux-source package or a kernel tree: menu, teo, ladder, haltpoll @ SERIES or PATH. A
recording is a trace.dat with cpuidle_lab events, or its directory of columns.

Both ways decide at the points of the recording, with its inputs, and learn from its outcomes.
--check also plays the recording with the governors that made it, from the state that they began
with. It fails if their energy differs from the recorded one by more than 1 %. `cpuidle-lab compare`
predicts what follows from the choices of other governors. docs/replay.md has more.

exit codes: 0 done, 1 the recording cannot be replayed or --check found a difference, 2 wrong usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("trace", type=Path, metavar="TRACE", help="trace.dat, or a directory of columns")
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
    from cpuidle_lab.view.terminal import phase

    with phase("Replaying", len(chosen) * recording.rows("period")) as count:
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
    from cpuidle_lab.crossval import trust
    from cpuidle_lab.replay.fidelity import apart, fidelity_of
    from cpuidle_lab.replay.policies import recorded_policies
    from cpuidle_lab.view.terminal import phase

    names = [one.governor.name for one in chosen] or recorded_policies(recording)
    found = []
    with phase("Replaying", len(names)) as count:
        for name in names:
            told = args.trace, fidelity_of, recording.path, name, args.jobs
            found.append(apart(*told))
            count(1)
    own, why = trust.trust(recording, args.trace)
    if args.json:
        decisions = [one.as_json() for one in found]
        energy = [vars(each) | {"doubtful": each.doubtful} for each in own]
        result = {"decisions": decisions, "energy": energy, "energy_not_compared": why}
        print(json.dumps(result, indent=2))
    else:
        lines = [line for one in found for line in one.lines()] + [each.line() for each in own]
        print("\n".join([*lines, *([f"energy was not compared: {why}"] if why else [])]))
    if any(each.doubtful for each in own):
        return FAILURE
    return 0 if all(one.identical == one.compared for one in found) else 1


def run(args: argparse.Namespace) -> int:
    """Read, replay, print."""
    from cpuidle_lab.recording import columns
    from cpuidle_lab.replay.candidates import listed

    if args.same_points and not args.governors:
        raise UserError("--same-points wants --governors NAME[,NAME]", USAGE)
    if args.jobs is not None and args.jobs <= 0:
        raise UserError("--jobs must be above 0", USAGE)
    chosen = listed(args.governors) if args.governors else []
    if args.check and any(one.settings for one in chosen):
        raise UserError("--check takes the recorded tunables; leave them out of --governors", USAGE)
    with columns.opened(args.trace) as recording:
        return (_check if args.check else _agreements)(recording, chosen, args)
