# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment`: reports of others, repeated, and promises of this project."""

import argparse
import json
import shlex
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import FAILURE, USAGE, UserError
from cpuidle_lab.base.settings import directory
from experiments import proofs

if TYPE_CHECKING:
    from experiments.experiment import Experiment, Findings, Request

NAME = "experiment"
HELP = "repeat what others have reported, measure promises, run the proofs and campaigns"
EPILOG = """\
examples:
  cpuidle-lab experiment --list
  cpuidle-lab experiment --list wteo           its parts and choices
  cpuidle-lab experiment teo-livelock          into docs/experiments/teo-livelock.md
  cpuidle-lab experiment wteo --only regret,cost --with machines=skx,power9
  cpuidle-lab experiment wteo --only regret --with governor=menu_ng --json | jq '.[].sections'
  cpuidle-lab experiment harm-1.yaml           a case that `review` has written
  cpuidle-lab experiment cede --bisect         the kernel at which the figure changes
  cpuidle-lab experiment cede --bisect --tree mine=~/linux --commits v6.18..v6.19
  sudo cpuidle-lab experiment cyclic --here    on this machine; needs two governors and root
  cpuidle-lab experiment --all --quick --json | jq '.[] | {name, state}'
  cpuidle-lab experiment equality --help       a proof or campaign: it has options of its own

Regressions are replayed with the governors of Debian's linux-source packages (6.1, 6.12, 7.2, 7.3)
and of the kernel trees that are given. Experiments that boot machines run with --lab only; without
it they show what is known already. A run that was stopped goes on where it was.

--quick, --here, --only, --with and cases of files write no page unless --output says where. Figures
are kept in build/experiments, under a hash of all that they depend on; a rerun measures what has
changed.

exit codes: 0 done (also where ours differ, or a promise is missed), 1 something cannot be measured,
2 wrong usage, 130 interrupted
"""


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 to 1000")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options, or those of the proof that is named."""
    words = getattr(parser, "words", ())[1:]
    if name := proofs.named(words):
        proofs.add_arguments(name, words, parser)
        return
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME",
        help="of the experiments, or the file of a case; a proof runs alone")  # fmt: skip
    what = parser.add_mutually_exclusive_group().add_argument
    what("--list", action="store_true",
         help="list the experiments; with NAME its parts and choices")  # fmt: skip
    what("--all", action="store_true", help="run each of them, without proofs and campaigns")
    what("--bisect", action="store_true", help="name the kernel at which the figure changes")
    size = parser.add_mutually_exclusive_group().add_argument
    size("--quick", action="store_true", help="small sizes and one seed")
    size("--original", action="store_true", help="the original's sizes: may take days in the lab")
    add("--only", metavar="PART[,PART]", default="",
        help="these parts of the experiment (default: all)")  # fmt: skip
    add("--with", action="append", metavar="NAME=VALUE", default=[], dest="chosen",
        help="another value of one of the experiment's choices")  # fmt: skip
    add("--seeds", type=_positive, metavar="N",
        help="rounds (default: 5; with --quick 1, with --original 25)")  # fmt: skip
    add("--lab", action="store_true", help="boot the lab for figures that are missing")
    add("--here", action="store_true",
        help="on this machine, each of its governors in turns; needs root")  # fmt: skip
    add("--tree", action="append", metavar="LABEL=PATH", default=[],
        help="a kernel tree; with --bisect after the packaged kernels")  # fmt: skip
    add("--commits", metavar="A..B",
        help="with --bisect: each commit of the git tree that touched the governors")  # fmt: skip
    add("--corpus", type=directory, metavar="DIR", default=TOP / "build" / "corpus",
        help="directory of recordings (default: build/corpus)")  # fmt: skip
    add("--mails", type=directory, metavar="DIR", default=TOP / "build" / "mails",
        help="mails of linux-pm, for review (default: build/mails)")  # fmt: skip
    add("--kernel", metavar="SERIES", default="",
        help="of the lab's guest, for experiments that have a choice: latency-nice")  # fmt: skip
    add("-o", "--output", type=Path, metavar="DIR",
        help="where the pages go (default: docs/experiments)")  # fmt: skip
    add("--json", action="store_true", help="print the results as JSON, no table")


def _trees(words: Sequence[str]) -> dict[str, Path]:
    found = {}
    for word in words:
        label, equals, path = word.partition("=")
        if not equals:
            label, path = Path(word).name, word
        if not label:
            raise UserError(f"--tree: '{word}' is no [LABEL=]PATH", USAGE)
        found[label] = directory(path)
    return found


def _chosen(words: Sequence[str]) -> dict[str, str]:
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not value:
            raise UserError(f"--with: '{word}' is no NAME=VALUE", USAGE)
        found[name] = value
    return found


def _request(args: argparse.Namespace) -> "Request":
    from experiments.experiment import ORIGINAL, QUICK, SEEDS, USUAL, Request, listed

    scale = QUICK if args.quick else ORIGINAL if args.original else USUAL
    seeds = args.seeds or SEEDS[scale]
    return Request(scale, seeds, args.lab, _trees(args.tree), args.corpus, args.mails, args.kernel,
                   args.here, listed(args.only) if args.only else (),
                   _chosen(args.chosen))  # fmt: skip


def _list(everything: Sequence["Experiment"], args: argparse.Namespace) -> int:
    from cpuidle_lab.view.terminal import console, grid
    from experiments.experiment import choices, parts

    others = () if args.names else proofs.found()
    if args.json:
        told = [
            {
                "name": one.name,
                "title": one.title,
                "claim": one.claim,
                "lab": one.in_lab,
                "parts": parts(one),
                "choices": choices(one),
            }
            for one in everything
        ]
        told += [
            {"name": name, "title": proofs.promise(name), "kind": proofs.kind(name)}
            for name in others
        ]
        print(json.dumps(told, indent=2))
        return 0
    out = console()
    heads = [("experiment", False), ("", False), ("title", False)]
    rows = [[one.name, "lab" if one.in_lab else "", one.title] for one in everything]
    rows += [[name, proofs.kind(name), proofs.promise(name)] for name in others]
    out.print(grid(out, "", heads, rows))
    for one in everything if args.names else ():
        known = {f"--only {name}": title for name, title in parts(one).items()}
        known |= {f"--with {name}=": about for name, about in choices(one).items()}
        if known:
            heads = [(one.name, False), ("", False)]
            out.print(grid(out, "", heads, [list(row) for row in known.items()]))
    return 0


def _bisect(args: argparse.Namespace) -> int:
    from cpuidle_lab.lab.mainline import SERIES
    from cpuidle_lab.view.terminal import console, grid, meter
    from experiments.cases.bisect import bisect, changes, commits
    from experiments.cases.case import Case
    from experiments.experiment import chosen, number
    from experiments.memo import Memo

    request = _request(args)
    told: dict[str, Any] = {}
    for one in chosen(args.names):
        if not isinstance(one, Case):
            raise UserError(f"{one.name}: is not replayed, so there is nothing to bisect", USAGE)
        kernels = {series: series for series in SERIES}
        if args.commits:
            if len(request.trees) != 1:
                raise UserError("--commits wants one --tree, a git repository", USAGE)
            tree = next(iter(request.trees.values()))
            kernels = {name: str(path) for name, path in commits(tree, args.commits).items()}
        else:
            kernels |= {name: str(path.resolve()) for name, path in request.trees.items()}
        with Memo() as memo:
            steps = bisect(one, kernels, request.seeds, memo, meter)
        told[one.name] = {"kernels": [asdict(s) for s in steps], "changes": changes(steps)}
        if args.json:
            continue
        out = console()
        heads = [("kernel", False), ("figure", True), ("", False)]
        rows = [
            [s.label, "-" if s.figure is None else number(s.figure), _verdict(s.bad, s.note)]
            for s in steps
        ]
        out.print(grid(out, one.title, heads, rows))
        for line in changes(steps):
            out.print(f"{one.name}: {line}", markup=False, soft_wrap=True)
    if args.json:
        print(json.dumps(told, indent=2))
    return 0


def _verdict(bad: bool | None, note: str) -> str:
    return note if bad is None else "has the fault" if bad else ""


def _command(args: argparse.Namespace, one: "Experiment") -> str:
    """Return the command that makes a page again."""
    words = ["cpuidle-lab", NAME, one.name]
    words += ["--quick"] if args.quick else ["--original"] if args.original else []
    words += ["--seeds", str(args.seeds)] if args.seeds else []
    words += ["--only", args.only] if args.only else []
    words += [word for value in args.chosen for word in ("--with", value)]
    words += ["--here"] if args.here else ["--lab"] if one.in_lab else []
    words += ["--kernel", args.kernel] if args.kernel else []
    for tree in args.tree:
        label = tree.partition("=")[0] if "=" in tree else Path(tree).name
        words += ["--tree", f"{label}=PATH"]
    # Such a run writes no page by itself.
    words += ["-o", "DIR"] if _is_partial(args) else []
    return shlex.join(words)


def _is_partial(args: argparse.Namespace) -> bool:
    """Return whether a run has other figures than the pages of docs/experiments."""
    from experiments.experiment import is_file

    files = any(map(is_file, args.names))
    return bool(args.quick or args.here or args.only or args.chosen or files)


def _folder(args: argparse.Namespace) -> Path | None:
    """Return where pages go; None: nowhere.

    Raises:
        UserError: no file can be made there.
    """
    from experiments.pages import FOLDER

    if args.output is None and _is_partial(args):
        return None
    folder: Path = args.output or FOLDER
    if _is_partial(args) and folder.resolve() == FOLDER.resolve():
        raise UserError(
            f"{folder}: has the pages of the lab and of whole runs; give another folder", USAGE
        )
    if not folder.is_dir():
        raise UserError(f"{folder}: no such directory", USAGE)
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UserError(f"{folder}: no page can be written: {error.strerror}") from None
    return folder


def _print(one: "Experiment", result: "Findings") -> None:
    from cpuidle_lab.view.terminal import console, grid

    out = console()
    heads = [("", False), ("original", False), ("ours", False), ("", False)]
    rows = [[row.what, row.reported, row.figures(), row.state or row.note] for row in result.rows]
    out.print(grid(out, f"{one.name}: {one.title}", heads, rows))
    for section in result.sections:
        for table in section.tables:
            table.print(out)


def _run(args: argparse.Namespace, found: Sequence["Experiment"]) -> int:
    from cpuidle_lab.base.waiting import InterruptedSession
    from cpuidle_lab.host.machine import Host
    from cpuidle_lab.view.terminal import meter
    from experiments import boots, here, pages
    from experiments.experiment import as_json, check, kernels
    from experiments.memo import Memo

    request, folder = _request(args), _folder(args)
    for one in found:
        check(one, request)
    room = boots.refusals(request)
    choice = ["it has no choice of --kernel"] if request.kernel else []
    machine = Host()
    lacking = {
        one.name: why for one in found
        if (why := here.refusals(one, request, machine) if request.here else
            [*one.refusals(request), *(room if one.in_lab else ()),
             *(() if kernels(one) else choice)])
    }  # fmt: skip
    if lacking and not args.all:
        raise UserError("; ".join(f"{name}: {', '.join(why)}" for name, why in lacking.items()))
    for name, why in lacking.items():
        print(f"{name}: left out: {', '.join(why)}", file=sys.stderr)
    told: list[Mapping[str, Any]] = []
    able = [one for one in found if one.name not in lacking]
    # Root keeps no figures: their owner could not add to them later.
    with nullcontext() if request.here else Memo() as memo:
        if memo is not None and request.lab and len(able) > 1:
            boots.boot_together(able, request, memo, meter)
        for one in able:
            if memo is None:
                assert isinstance(one, here.Portable)
                try:
                    result = here.measure(one, request, machine, meter)
                except InterruptedSession as interruption:
                    name = signal.Signals(interruption.number).name
                    print(f"cpuidle-lab: interrupted by {name}: the system is as before",
                          file=sys.stderr)  # fmt: skip
                    return 128 + interruption.number
            else:
                result = one.measure(request, memo, meter)
            told.append({**as_json(one, result), "sections": [
                {"part": section.part, "verdicts": [asdict(line) for line in section.verdicts],
                 **section.data} for section in result.sections
            ]})  # fmt: skip
            if not args.json:
                _print(one, result)
            if folder:
                print(_written(one, result, request, args, folder / f"{one.name}.md"),
                      file=sys.stderr)  # fmt: skip
    if folder:
        pages.write_index(folder)
    if args.json:
        print(json.dumps(told, indent=2))
    return FAILURE if lacking and not told else 0


def _written(
    one: "Experiment",
    result: "Findings",
    request: "Request",
    args: argparse.Namespace,
    target: Path,
) -> str:
    """Write a page, unless it has figures that are missing now; say which."""
    from experiments import pages

    if gone := pages.lost(result, target):
        notes = dict.fromkeys(row.note for row in result.rows if row.note and not row.measured)
        return f"kept: {target}: it has {len(gone)} figures more ({'; '.join(notes)})"
    return f"written: {pages.write(one, result, request, _command(args, one), target)[0]}"


def run(args: argparse.Namespace) -> int:
    """List, bisect, or measure and write the pages; or run a proof."""
    if "proof" in args:
        return proofs.run(args)
    from experiments.experiment import chosen, found

    if args.list:
        return _list(chosen(args.names) if args.names else list(found().values()), args)
    if args.all == bool(args.names):
        raise UserError("name an experiment, or --all; --list shows what there is", USAGE)
    if args.here and (args.lab or args.kernel or args.bisect):
        raise UserError("--here is on this machine: without --lab, --kernel and --bisect", USAGE)
    if (args.only and len(args.names) != 1) or (args.chosen and args.all):
        raise UserError("--only is for one experiment, --with for those that are named", USAGE)
    if (args.only or args.chosen) and (args.here or args.bisect):
        raise UserError("--only and --with exclude --here and --bisect", USAGE)
    if args.commits and not args.bisect:
        raise UserError("--commits is for --bisect", USAGE)
    if args.bisect:
        return _bisect(args)
    return _run(args, list(found().values()) if args.all else chosen(args.names))
