#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Run the lab twice and compare the traces bit by bit, then once with another seed."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TOP / "tools"), str(TOP)]

from cpuidle_lab.base.errors import FAILURE  # noqa: E402
from cpuidle_lab.lab import LabRun, run_lab, workloads  # noqa: E402
from cpuidle_lab.lab.session import TRACE, Phase, Session, sha256  # noqa: E402
from tests import runner  # noqa: E402

EPILOG = """\
examples:
  run.py
  run.py --kernel 7.2 --governor teo_ng

exit codes: 0 equal seeds give equal traces and another seed another, 1 they do not,
2 wrong usage
"""

WORKLOADS = ("cyclictest-500us", "hackbench-pipe", "stress-timer")


def trace_hash(args: argparse.Namespace, seed: int) -> str:
    """Return the hash of the trace of one run."""
    found = [workloads.find(name) for name in WORKLOADS]
    phases = [Phase(args.governor, each.name, each.shell(1, seed)) for each in found]
    script = Session("skx", phases).script()
    run = LabRun(script=script, kernel=args.kernel, cpus=args.cpus, seed=seed)
    with tempfile.TemporaryDirectory(dir=TOP / "build", prefix="determinism-") as directory:
        result = run_lab(run, Path(directory) / "results").check()
        return sha256(result.files / TRACE)


def compare(args: argparse.Namespace) -> int:
    """Run thrice, compare."""
    hashes = []
    for seed in (args.seed, args.seed, args.seed + 1):
        hashes.append(trace_hash(args, seed))
        print(f"seed {seed}: sha256 of trace.dat {hashes[-1]}", flush=True)
    first, second, other = hashes
    print("same seed:    ", "identical" if first == second else "DIFFERENT")
    print("another seed: ", "another trace" if first != other else "THE SAME TRACE")
    return 0 if first == second != other else FAILURE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the lab; return the exit code."""
    parser = runner.parser(__doc__, EPILOG)
    parser.add_argument("--kernel", default="6.12", help="series (default: %(default)s)")
    parser.add_argument("--cpus", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--governor", default="wteo", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=42, help="default: %(default)s")
    args = parser.parse_args(argv)
    return runner.run("determinism", lambda: compare(args))


if __name__ == "__main__":
    sys.exit(main())
