# SPDX-License-Identifier: GPL-2.0
"""`teo_ng` and `menu_ng` decide as mainline's unmodified `teo.c` and `menu.c`: state and tick.

Compiles the kernel's unmodified sources in userspace, drives them and our governors with the
same stream of random and adversarial idle periods, and compares every decision: the idle state,
whether the tick may be stopped, and whether the sleep length was asked for.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.states.linux_source import NEWEST, fetch
from experiments import proofs
from tests.gcov import read
from tests.proofs.equality.compare import Comparison, Verdict
from tests.proofs.equality.harness import (
    BUILD,
    CLAIMS,
    COVERAGE,
    SANITIZE,
    SPEED,
    Build,
    Kind,
)
from tests.proofs.equality.mutants import run_mutants

PERIODS = 10_000_000
# Most mutants are found within hundreds of periods.
MUTANT_PERIODS = 2_000_000
COVERAGE_PERIODS = 3_000_000
COVERAGE_NEEDED = 95.0

EXAMPLES = {
    "": "ten million idle periods each",
    "--seed 7 --periods 100000000": "more of them, others",
    "--teo ~/linux/drivers/cpuidle/governors/teo.c --only teo": "another source",
    "--mutants": "is a change of the kernel's source noticed?",
    "--coverage": "which of its branches are reached?",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, seed=1, kernel=NEWEST, json=False)
    add = parser.add_argument
    add("--periods", type=int, metavar="N",
        help=f"idle periods (default: {PERIODS}; fewer for mutants and coverage)")  # fmt: skip
    add("--teo", type=Path, metavar="PATH", help="teo.c (default: Debian's)")
    add("--menu", type=Path, metavar="PATH", help="menu.c (default: Debian's)")
    add("--only", choices=sorted(CLAIMS), help="compare with this governor of the kernel only")
    add("--governors", metavar="LIST", help="compare only these of the project")
    add("--counts", action="store_true", help="count the kinds of events in the stream")
    kind = parser.add_mutually_exclusive_group().add_argument
    kind("--mutants", action="store_true", help="change the kernel's source")
    kind("--coverage", action="store_true", help="count the branches reached")
    kind("--sanitize", action="store_true", help="watch for undefined behaviour")


def choose(args: argparse.Namespace) -> dict[str, list[str]]:
    """Return which claims to test: governor of the kernel to policies."""
    chosen: dict[str, list[str]] = {}
    wanted = args.governors.split(",") if args.governors else []
    known = {claim.split(":")[0] for claims in CLAIMS.values() for claim in claims}
    for name in wanted:
        if name not in known:
            raise UserError(f"{name} does not claim to equal a governor of the kernel", USAGE)
    for governor, claims in CLAIMS.items():
        if args.only in (None, governor):
            kept = [c for c in claims if not wanted or c.split(":")[0] in wanted]
            if kept:
                chosen[governor] = kept
    if not chosen:
        raise UserError("none of these claims to equal that governor of the kernel", USAGE)
    return chosen


def find_sources(args: argparse.Namespace, governors: Sequence[str]) -> tuple[dict[str, Path], str]:
    """Return the kernel's sources, and where they are from in words."""
    given = {"teo": args.teo, "menu": args.menu}
    sources = {name: given[name].resolve() for name in governors if given[name]}
    for path in sources.values():
        if not path.is_file():
            raise UserError(f"there is no file {path}")
    origin = "given sources"
    if len(sources) < len(governors):
        mainline = fetch(args.kernel)
        origin = f"linux-source-{args.kernel} {mainline.package_version}"
        for name in governors:
            sources.setdefault(name, mainline.folder / f"{name}.c")
    return sources, origin


@contextmanager
def prepared(kind: Kind, chosen: dict[str, list[str]]) -> Iterator[Build]:
    """Build everything but the kernel's governors, in a folder that vanishes at the end."""
    names = list(dict.fromkeys(c.split(":")[0] for claims in chosen.values() for c in claims))
    BUILD.mkdir(parents=True, exist_ok=True)
    with scratch(BUILD) as folder:
        build = Build(kind, names, folder)
        build.ours()
        yield build


def compare_all(
    program: Path, chosen: dict[str, list[str]], seed: int, periods: int
) -> list[Verdict]:
    """Compare with each governor of the kernel, at the same time."""
    with ExitStack() as stack:
        running = [
            stack.enter_context(Comparison(program, name, claims, seed, periods))
            for name, claims in chosen.items()
        ]
        return [comparison.result() for comparison in running]


def show_verdict(verdict: Verdict, counts: bool) -> None:
    """Print a verdict for people."""
    for policy, periods in verdict.identical.items():
        print(f"{policy} = {verdict.mainline}: identical {periods} of {verdict.periods}")
    if verdict.different:
        print(
            f"{verdict.different} = {verdict.mainline}: DIFFERENT at idle period {verdict.at} "
            f"of {verdict.periods}, seed {verdict.seed}\n{verdict.text}"
        )
    if counts:
        for what, number in verdict.counts.items():
            print(f"  {what:45} {number:>12}")


def equality(
    args: argparse.Namespace, chosen: dict[str, list[str]], sources: dict[str, Path]
) -> dict[str, Any]:
    """Compare; with --sanitize on a build that watches for undefined behaviour."""
    with prepared(SANITIZE if args.sanitize else SPEED, chosen) as build:
        program = build.link([build.mainline(source) for source in sources.values()])
        verdicts = compare_all(program, chosen, args.seed, args.periods or PERIODS)
    if not args.json:
        for verdict in verdicts:
            show_verdict(verdict, args.counts)
    return {
        "passed": not any(verdict.different for verdict in verdicts),
        "comparisons": [verdict.as_dict() for verdict in verdicts],
    }


def mutation(
    args: argparse.Namespace, chosen: dict[str, list[str]], sources: dict[str, Path]
) -> dict[str, Any]:
    """Change the kernel's sources in many small ways; each must be noticed."""
    claims = {governor: kept[0] for governor, kept in chosen.items()}
    results = []
    periods = args.periods or MUTANT_PERIODS
    with prepared(SPEED, chosen) as build:
        for mutant, verdict in run_mutants(build, sources, claims, args.seed, periods):
            noticed = bool(verdict.different)
            results.append({"mutant": mutant.name, "noticed": noticed, "at": verdict.at})
            if not args.json:
                when = f"at {verdict.at:>8}" if noticed else "NOT NOTICED"
                print(f"{when:12} {mutant.name}", flush=True)
    missed = sum(not result["noticed"] for result in results)
    if not args.json:
        print(f"mutants noticed: {len(results) - missed} of {len(results)}")
    return {"passed": not missed, "mutants": results}


def coverage(
    args: argparse.Namespace, chosen: dict[str, list[str]], sources: dict[str, Path]
) -> dict[str, Any]:
    """Count the branches of the kernel's sources that the stream reaches."""
    with prepared(COVERAGE, chosen) as build:
        objects = {name: build.mainline(source) for name, source in sources.items()}
        program = build.link(list(objects.values()))
        # One after the other: they write to the same files.
        for governor, claims in chosen.items():
            compare_all(program, {governor: claims}, args.seed, args.periods or COVERAGE_PERIODS)
        found = [read([objects[name]], source) for name, source in sources.items()]
    if not args.json:
        for item in found:
            print(
                f"{item.source}: {item.percent:.1f} % of the branches reached "
                f"({item.taken} of {item.branches})"
            )
            for missed in item.missed:
                print(f"  not reached: line {missed.line}: {missed.text}")
    return {
        "passed": all(item.percent >= COVERAGE_NEEDED for item in found),
        "needed_percent": COVERAGE_NEEDED,
        "coverage": [
            {
                "source": item.source,
                "percent": round(item.percent, 2),
                "branches": item.branches,
                "taken": item.taken,
                "missed": [vars(missed) for missed in item.missed],
            }
            for item in found
        ],
    }


def run(args: argparse.Namespace) -> int:
    """Compare, change the sources or count; return the exit code.

    Raises:
        UserError: an option is out of range, or a source is missing.
    """
    if args.periods is not None and args.periods < 1:
        raise UserError("--periods must be at least 1", USAGE)
    if not 0 <= args.seed < 2**64:
        raise UserError("--seed must be between 0 and 2^64 - 1", USAGE)
    chosen = choose(args)
    sources, origin = find_sources(args, list(chosen))
    if not args.json:
        names = ", ".join(sorted(path.name for path in sources.values()))
        print(f"compared with {names} from {origin}", flush=True)
    job = mutation if args.mutants else coverage if args.coverage else equality
    result = job(args, chosen, sources)
    if args.json:
        print(json.dumps({"origin": origin, "seed": args.seed, **result}, indent=1))
    return 0 if result["passed"] else 1
