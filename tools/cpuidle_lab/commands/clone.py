# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab clone`: rebuild a recorded workload, and run it in the lab under each governor."""

import argparse
import json
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from cpuidle_lab.base.errors import FAILURE, USAGE, UserError, printable

if TYPE_CHECKING:
    from cpuidle_lab.clone.believe import Belief
    from cpuidle_lab.clone.events import PhaseEvents
    from cpuidle_lab.clone.judge import Verdict
    from cpuidle_lab.clone.program import Program
    from cpuidle_lab.clone.session import Place, Regime
    from cpuidle_lab.crossval.parts import Part

NAME = "clone"
HELP = "rebuild the workload of a recording, and run it under other governors in the lab"
EPILOG = """\
examples:
  cpuidle-lab clone trace.dat -o my.clone            the workload as a program, in text
  cpuidle-lab lab --clone my.clone --governor wteo   run it
  cpuidle-lab clone trace.dat other.dat --governors menu,teo,wteo
                                                     rebuild, check, run, compare

Replay keeps the recorded intervals; a clone's tasks answer the governor. The recording needs the
events of `capture --clone` or `lab --causes`. The clone is run under the governors and latency
requests that recorded, too, two at least. Where it differs from a recording it gives no figure.
A figure comes from clone or replay, the one that may be off by less. Beyond 10 points it is
withheld.
Several recordings of one governor tell the scatter of the program itself. Of those of the first
governor three at most are rebuilt, and their clones take turns.

exit codes: 0 done, 1 failed, or the workload is not rebuilt well enough, 2 wrong usage,
130 interrupted
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("trace", type=Path, metavar="TRACE", help="trace.dat with the events that a clone needs")
    add("others", nargs="*", type=Path, metavar="TRACE",
        help="the same workload under other governors, to check the clone by")  # fmt: skip
    add("-o", "--output", type=Path, metavar="FILE",
        help="write the program of the first recording")  # fmt: skip
    add("--scrub", action="store_true", help="without names of tasks and workload")
    add("--governors", metavar="LIST", help="run the clone under these; menu is the kernel's own")
    add("--workload", metavar="NAME", help="of several in the recording (default: the first)")
    add("--from", dest="source", metavar="GOVERNOR",
        help="rebuild the phase that it recorded (default: the first)")  # fmt: skip
    add("--pin", action="store_true",
        help="keep tasks on their CPU that stayed on one, as taskset does")  # fmt: skip
    add("--machine", metavar="MACHINE", help="idle states (default: the recording's)")
    add("--kernel", default="6.12", metavar="SERIES", help="default: %(default)s")
    add("--hardware", action="store_true", help="the recording is of a real machine")
    add("--json", action="store_true", help="print the results as JSON")


def run(args: argparse.Namespace) -> int:
    """Rebuild, play, judge, show."""
    from cpuidle_lab.clone import calibrate, events, session

    if not (args.governors or args.output):
        raise UserError("give --governors to compare, or -o to write the program", USAGE)
    wanted = [_governor(name) for name in args.governors.split(",")] if args.governors else []
    phases = events.phases(events.read(args.trace), args.trace)
    phase = _phase(args, phases)
    place = session.Place(args.machine or str(args.trace), args.kernel)
    if args.output:
        program, notes = _rebuilt(args, phase, args.trace)
        made = calibrate.without(program, session.calibrated(place))
        _write(args.output, made.scrubbed() if args.scrub else made)
        if not args.json:
            left = "; ".join([*notes, *program.left_out])
            print(
                printable(f"written: {args.output}, {len(program.tasks)} tasks; left out: {left}")
            )
    return _compare(args, phase, phases, wanted, place) if wanted else 0


def _rebuilt(
    args: argparse.Namespace, phase: "PhaseEvents", path: Path
) -> tuple["Program", list[str]]:
    """Return the program of a phase, and a sentence if less than the whole is rebuilt."""
    from cpuidle_lab.clone import build, events

    part, sentence = events.part_of(phase)
    program = build.build(part, path, shared=not args.hardware, pin=args.pin)
    return program, [sentence] if sentence else []


def _write(path: Path, program: "Program") -> None:
    from cpuidle_lab.base.files import headed, write_whole

    text = program.text()
    write_whole(path, text, headed(text))


def _governor(name: str) -> "Regime":
    """Return a governor of the lab with its tunables.

    Raises:
        UserError: there is none of that name.
    """
    from cpuidle_lab.clone.session import OTHERWISE, Regime
    from cpuidle_lab.lab.session import GOVERNORS

    name = name.strip()
    known = [each for each in GOVERNORS if each != "ladder"]
    if name not in (*known, *OTHERWISE):
        raise UserError(f"unknown governor '{name}'; there are {', '.join(known)}, teo", USAGE)
    return OTHERWISE.get(name, Regime(name))


def _phase(args: argparse.Namespace, phases: Sequence["PhaseEvents"]) -> "PhaseEvents":
    """Return the phase that the arguments choose.

    Raises:
        UserError: there is none.
    """
    workload = args.workload or phases[0].workload
    mine = [phase for phase in phases if phase.workload == workload]
    chosen = [phase for phase in mine if args.source in (None, phase.governor)]
    if not chosen:
        has = ", ".join(f"{phase.workload} under {phase.governor}" for phase in phases)
        raise UserError(f"{args.trace}: has no such phase; it has {has}", USAGE)
    return chosen[0]


def _alike(
    first: "PhaseEvents", phases: Sequence["PhaseEvents"], path: Path, others: Sequence[Path]
) -> tuple[list[tuple["PhaseEvents", Path]], list[str]]:
    """Return the phases that are rebuilt, with their files, and sentences on those that cannot be.

    Args:
        first: the phase that is rebuilt in any case.
        phases: of its file.
        path: that file.
        others: further files that have a phase of the same regime.
    """
    from cpuidle_lab.clone import events, session

    found, notes = [(phase, path) for phase in phases], list[str]()
    for other in others:
        try:
            found += [(phase, other) for phase in events.phases(events.read(other), other)]
        except UserError as error:
            notes.append(f"one recording is not rebuilt, and checks the clone alone: {error}")
    wants = first.workload, first.governor, first.request_us
    more = [(phase, file) for phase, file in found if phase is not first
            and (phase.workload, phase.governor, phase.request_us) == wants]  # fmt: skip
    return [(first, path), *more][: session.REBUILT_MOST], notes


def _real(args: argparse.Namespace, workload: str) -> dict[str, list["Part"]]:
    """Return the phases of a workload by the label of the regime that recorded."""
    from cpuidle_lab.crossval.parts import parts
    from cpuidle_lab.recording.columns import opened

    found: dict[str, list[Part]] = {}
    for path in (args.trace, *args.others):
        with opened(path) as recording:
            for part in parts(recording, path):
                if part.workload == workload:
                    found.setdefault(part.regime, []).append(part)
    return found


def _compare(
    args: argparse.Namespace,
    phase: "PhaseEvents",
    phases: Sequence["PhaseEvents"],
    wanted: Sequence["Regime"],
    place: "Place",
) -> int:
    """Play the clones of a phase and of those alike; show the results; return the exit code."""
    from cpuidle_lab.clone import believe, judge, session

    real = _real(args, phase.workload)
    recorders = {label: session.Regime.of(found[0]) for label, found in real.items()}
    wants = phase.governor, phase.request_us
    own = next(
        (label for label, one in recorders.items() if (one.governor, one.request_us) == wants),
        None,
    )
    if own is None:
        raise UserError(f"{args.trace}: no decisions of {phase.governor} are in it")
    for label in recorders:
        series = label.partition("@")[2].partition(",")[0]
        if series not in ("", place.kernel):
            raise UserError(f"{label} recorded: give --kernel {series}", USAGE)
    every = dict.fromkeys([recorders[own], *recorders.values(), *wanted])
    others = [part.path for part in real[own] if part.path != args.trace]
    alike, unread = _alike(phase, phases, args.trace, list(dict.fromkeys(others)))
    rebuilt = [_rebuilt(args, *one) for one in alike]
    notes = list(dict.fromkeys(sentence for _, parts in rebuilt for sentence in parts))
    clones = session.corrected({recorders[own]: [program for program, _ in rebuilt]}, place)
    (played,) = session.played([*clones.values()], list(every), place)
    found = judge.verdict(own, real, played, whole=not notes)
    wants_figure = [label for label in found.clones if label not in real]
    beliefs = believe.believed(own, real, found, wants_figure)
    told = [*notes, *unread]
    if args.json:
        print(json.dumps(_as_json(found, beliefs, told), indent=2))
    else:
        left = dict.fromkeys(text for program, _ in rebuilt for text in program.left_out)
        _show(found, beliefs, [*told, *(f"left out: {sentence}" for sentence in left)])
    refused = found.why and not beliefs
    return FAILURE if refused or any(one.withheld for one in beliefs.values()) else 0


def _as_json(found: "Verdict", beliefs: Mapping[str, "Belief"], notes: Sequence[str]) -> object:
    return {
        "why": found.why,
        "notes": list(notes),
        "checks": [
            {"governor": one.regime, "recorded": one.real.regret,
             "recorded_spread": one.real.spread, "clone": one.clone.regret,
             "spread": one.clone.spread, "moved": one.moved, "chance": one.chance}
            for one in found.checks
        ],
        "figures": {
            label: {"by": one.by, "regret": one.regret, "uncertainty": one.off,
                    "power_mw": one.power_mw, "p99_us": one.p99_us}
            for label, one in beliefs.items() if not one.withheld
        },
        "withheld": {
            label: one.off if isfinite(one.off) else None
            for label, one in beliefs.items() if one.withheld
        },
    }  # fmt: skip


def _reason(belief: "Belief") -> str:
    from cpuidle_lab.clone.believe import OFF_MOST

    if not isfinite(belief.off):
        return "no other recording shows how far one may be off"
    return f"one may be {belief.off:.1f} points off by {belief.by}, more than {OFF_MOST:g}"


def _show(found: "Verdict", beliefs: Mapping[str, "Belief"], notes: Sequence[str]) -> None:
    """Print the checks, then the figures or why there are none."""
    from cpuidle_lab.view.terminal import console, grid

    out = console()
    checks = [
        [one.regime, f"{one.real.regret:.1f}", f"{one.real.spread:.1f}",
         f"{one.clone.regret:.1f}", f"{one.clone.spread:.1f}", f"{one.moved:.0f}",
         f"{one.chance:.0f}"]
        for one in found.checks
    ]  # fmt: skip
    heads = [("recorded under", False), ("regret %", True), ("spread", True),
             ("clone's %", True), ("spread", True), ("moved %", True),
             ("by chance", True)]  # fmt: skip
    out.print(grid(out, "The clone beside its recordings", heads, checks))
    if found.why:
        print(f"No figure by the clone: {found.why}.")
    rows = [
        [label, one.by, f"{one.regret:.1f}", f"{one.off:.1f}", f"{one.power_mw:.0f}",
         f"{one.p99_us:g}"]
        for label, one in beliefs.items() if not one.withheld
    ]  # fmt: skip
    if rows:
        heads = [("governor", False), ("by", False), ("regret %", True), ("+-", True),
                 ("idle power mW", True), ("p99 us", True)]  # fmt: skip
        out.print(grid(out, "Governors that did not record", heads, rows))
    for label, one in beliefs.items():
        if one.withheld:
            print(f"No figure of {label}: {_reason(one)}.")
    for note in notes:
        print(f"note: {note}")
