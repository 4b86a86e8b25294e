# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab study`: whether a governor holds what it promises."""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import DOCUMENT, check, marked
from cpuidle_lab.base.version import __version__

if TYPE_CHECKING:
    from cpuidle_lab.evidence.tables import Section
    from experiments.wteo.plan import Plan

NAME = "study"
HELP = "measure each promise of a governor, and write the page of evidence"
EPILOG = """\
examples:
  cpuidle-lab study wteo                        everything, into docs/experiments/wteo.md
  cpuidle-lab study wteo --only regret,cost --machines skx,power9
                                                these parts, in the terminal alone
  cpuidle-lab study wteo:learning_rate=100 --only regret --json | jq '.sections[].verdicts'

parts:
  regret    mean regret, the gap that is closed, harm on any stream
  unseen    the same on variations of the streams, with other times
  front     energy against wake-up latency
  learning  after a reset, after a change of regime, with stale rows
  cost      instructions, memory and divisions of a decision
  robust    wrong powers, odd state tables, drivers that demote or refuse
  machines  tables of drivers/idle/intel_idle.c, of device trees, and of recorded machines
  kernel    real programs in the lab; boots it with --lab only
  ablation  one step removed, one tunable moved at a time; with --lab in the lab, too

Figures are kept in build/study, under a hash of the intervals, the machine, the tunables and the
sources of the decision logic. A rerun measures only what has changed.

exit codes: 0 done (also with missed promises), 1 a measurement failed, 2 wrong usage,
130 interrupted
"""

FOLDER = TOP / "docs" / "experiments"


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("subject", metavar="NAME[:TUNABLE=VALUE]...", help="the governor that is judged")
    add("--only", metavar="PART[,PART]", help="these parts (default: all)")
    add("--quick", action="store_true", help="small sizes, to see that it works")
    add("--machines", metavar="NAME[,NAME]", help="state tables (default: skx,skl,power9,spr)")
    add("--full", action="store_true", help="all state tables of the emulator")
    add("--count", type=_positive, metavar="N", help="intervals of each stream (default: 50000)")
    add("--streams", metavar="NAME[,NAME]", help="of synth's (default: all)")
    add("--variations", type=_positive, metavar="N", help="of each stream, unseen (default: 3)")
    add("--regimes", metavar="NAME,NAME[,NAME]", help="streams that change into each other: those "
        "of which no interval depends on another (default: 5 of synth's)")  # fmt: skip
    add("--corpus", type=Path, metavar="DIR", default=TOP / "build" / "corpus",
        help="directory of traces (default: build/corpus)")  # fmt: skip
    add("--lab", action="store_true", help="boot the lab for what it has not recorded yet: minutes")
    add("--programs", metavar="NAME[,NAME]", help="of those in the lab (default: all)")
    add("--all-rows", action="store_true", help="list every stream that exceeds a limit")
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write the document there (default: docs/experiments/NAME.md if all is measured)",
    )
    add("--json", action="store_true", help="print everything as JSON, no table")


def _list(text: str | None) -> list[str] | None:
    if text is None:
        return None
    found = [item.strip() for item in text.split(",")]
    if not all(found):
        raise UserError(f"'{text}': a name is missing before or after a comma", USAGE)
    return list(dict.fromkeys(found))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _print(
    args: argparse.Namespace, sections: Sequence["Section"], plan: "Plan", start: str
) -> None:
    from cpuidle_lab.view.terminal import console

    if args.json:
        whole = {
            "command": shlex.join(["cpuidle-lab", *sys.argv[1:]]),
            "version": __version__,
            "kernel": os.uname().release,
            "start": start,
            "end": _now(),
            "subject": plan.subject,
            "sections": [
                {"part": one.part, "verdicts": [asdict(line) for line in one.verdicts], **one.data}
                for one in sections
            ],
        }
        json.dump(whole, sys.stdout, indent=2)
        print()
        return
    out = console()
    for section in sections:
        out.print(f"\n== {section.title}", style="bold", markup=False)
        section.print(out)


def _command(args: argparse.Namespace) -> str:
    """Return the command that writes the same page, without what selects a part."""
    words = ["cpuidle-lab", "study", args.subject]
    words += ["--full"] if args.full else []
    for name in ("machines", "count", "streams", "variations", "regimes", "programs"):
        if (value := getattr(args, name)) is not None:
            words += [f"--{name}", str(value)]
    return shlex.join([*words, *(["--quick"] if args.quick else [])])


def _target(args: argparse.Namespace, plan: "Plan") -> Path | None:
    """Return where the document goes: nowhere if only a part was asked for.

    Raises:
        UserError: see files.check().
    """
    target: Path | None = args.output
    sizes = (args.count, args.variations, args.regimes)
    asked = (args.only, args.machines, args.streams, args.programs, *sizes)
    if target is None and not args.quick and asked == (None,) * len(asked):
        if ":" in plan.subject:
            return None
        target = FOLDER / f"{plan.subject}.md"
        FOLDER.mkdir(parents=True, exist_ok=True)
    if target:
        check(target, marked(DOCUMENT))
    return target


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    # Here, so that the other commands need not load what only this one needs.
    from cpuidle_lab.view.terminal import phase
    from experiments.memo import Memo
    from experiments.wteo import page
    from experiments.wteo.plan import Plan, measure

    start = _now()
    plan = Plan.of(
        subject=args.subject,
        parts=_list(args.only),
        machines=_list(args.machines),
        streams=_list(args.streams),
        count=args.count,
        variations=args.variations,
        regimes=_list(args.regimes),
        quick=args.quick,
        full=args.full,
        corpus=args.corpus,
        everything=args.all_rows,
        lab=args.lab,
        programs=_list(args.programs),
    )
    target = _target(args, plan)
    with Memo() as memo:
        sections = measure(plan, phase, memo)
    _print(args, sections, plan, start)
    if target:
        written = page.write(plan, sections, _command(args), target)
        if not args.json:
            print(f"written: {written[0]} and {len(written) - 1} pictures")
    return 0
