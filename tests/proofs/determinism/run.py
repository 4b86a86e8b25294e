# SPDX-License-Identifier: GPL-2.0
"""The same lab run twice gives the same trace, to the bit; another seed gives another trace."""

import argparse
import tempfile
from pathlib import Path

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import FAILURE
from cpuidle_lab.lab import LabRun, run_lab, workloads
from cpuidle_lab.lab.session import TRACE, PhasePlan, Session, sha256
from experiments import proofs

EXAMPLES = {"": "", "--kernel 7.2 --governor teo_ng": ""}

WORKLOADS = ("cyclictest-500us", "hackbench-pipe", "stress-timer")


def trace_hash(args: argparse.Namespace, seed: int) -> str:
    """Return the hash of the trace of one run."""
    found = [workloads.find(name) for name in WORKLOADS]
    phases = [PhasePlan(args.governor, each.name, each.shell(1, seed)) for each in found]
    script = Session("skx", phases).script()
    boot = LabRun(script=script, kernel=args.kernel, cpus=args.cpus, seed=seed)
    with tempfile.TemporaryDirectory(dir=TOP / "build", prefix="determinism-") as directory:
        result = run_lab(boot, Path(directory) / "results").check()
        return sha256(result.files / TRACE)


def run(args: argparse.Namespace) -> int:
    """Run thrice, compare; return the exit code."""
    hashes = []
    for seed in (args.seed, args.seed, args.seed + 1):
        hashes.append(trace_hash(args, seed))
        print(f"seed {seed}: sha256 of trace.dat {hashes[-1]}", flush=True)
    first, second, other = hashes
    print("same seed:    ", "identical" if first == second else "DIFFERENT")
    print("another seed: ", "another trace" if first != other else "THE SAME TRACE")
    return 0 if first == second != other else FAILURE


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, kernel="6.12", cpus=2, seed=42)
    parser.add_argument("--governor", default="wteo", help="default: %(default)s")
