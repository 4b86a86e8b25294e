# SPDX-License-Identifier: GPL-2.0
"""The governors' unit tests reach 95 % of the lines and 90 % of the branches of each file.

Builds the cases for gcov without optimisation, runs them, and prints the share of lines and of
branches for each source and header of the decision logic. Fails if a share over all of them is low.
"""

import argparse
import json
import subprocess

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from experiments import proofs
from tests.gcov import Coverage, read
from tests.logic import logic
from tests.proofs.equality import harness

NEEDED_LINES = 95.0
NEEDED_BRANCHES = 90.0
OBJECTS = TOP / "build/unit/cov"
FOLDERS = ("governors", "tools/native/former")

EXAMPLES = {"": "", "--missed": "with each line and branch that was not reached"}


def measure() -> dict[str, Coverage]:
    """Build and run the cases; return what they reached by source, relative to the top.

    Raises:
        UserError: they do not build, or a case fails.
    """
    harness.run(["make", "-s", "-C", TOP / "kunit", "MODE=cov"])
    for old in OBJECTS.rglob("*.gcda"):
        old.unlink()
    done = subprocess.run([OBJECTS / "run-kunit"], capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"a case fails:\n{done.stdout}{done.stderr}")
    everything = sorted(OBJECTS.rglob("*.gcda"))
    found = {}
    for source in logic():
        name = source.relative_to(TOP).as_posix()
        own = [(OBJECTS / name).with_suffix(".gcda")]
        coverage = read(own if source.suffix == ".c" else everything, source)
        if coverage.lines:
            found[name] = coverage
    return found


def total(found: dict[str, Coverage]) -> tuple[float, float]:
    """Return the shares of lines and of branches over all sources, in percent."""
    items = found.values()
    return (
        100.0 * sum(c.reached for c in items) / sum(c.lines for c in items),
        100.0 * sum(c.taken for c in items) / sum(c.branches for c in items),
    )


def low(found: dict[str, Coverage]) -> list[str]:
    """Return the sources and the shares that are too low, a sentence each."""
    shares = [(name, c.line_percent, c.percent) for name, c in found.items()]
    return [
        f"{name}: {lines:.1f} % of the lines, {branches:.1f} % of the branches"
        for name, lines, branches in [*shares, ("all", *total(found))]
        if lines < NEEDED_LINES or branches < NEEDED_BRANCHES
    ]


def table(found: dict[str, Coverage]) -> str:
    """Return the shares for people."""
    rows = [
        f"  {name:32} {c.line_percent:5.1f} % of {c.lines:4}   {c.percent:5.1f} % of {c.branches:4}"
        for name, c in found.items()
    ]
    lines, branches = total(found)
    rows.append(f"  {'all':32} {lines:5.1f} %           {branches:5.1f} %")
    return "\n".join(["reached by the unit tests: lines, branches", *rows])


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, json=False)
    parser.add_argument("--missed", action="store_true", help="print what was not reached, too")


def run(args: argparse.Namespace) -> int:
    """Measure, show; return the exit code."""
    found = measure()
    wrong = low(found)
    if args.json:
        lines, branches = total(found)
        everything = {
            name: {
                "lines": c.lines,
                "lines_percent": round(c.line_percent, 2),
                "branches": c.branches,
                "branches_percent": round(c.percent, 2),
                "missed_lines": c.missed_lines,
                "missed_branches": [vars(missed) for missed in c.missed],
            }
            for name, c in found.items()
        }
        result = {"passed": not wrong, "lines_percent": lines, "branches_percent": branches}
        print(json.dumps({**result, "sources": everything}, indent=1))
        return 1 if wrong else 0
    print(table(found))
    for name, c in found.items() if args.missed else ():
        for number in c.missed_lines:
            print(f"line not reached: {name}:{number}")
        for missed in c.missed:
            print(f"branch not taken: {name}:{missed.line}: {missed.text}")
    for sentence in wrong:
        print(f"LOW {sentence}")
    return 1 if wrong else 0
