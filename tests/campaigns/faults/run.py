# SPDX-License-Identifier: GPL-2.0
"""Each allocation of a call fails once, at load, switch, tunables and hints: clean errors alone.

Boots the kernel with checkers. Every call must either succeed or fail with a clean error, after
which nothing of it is left: no file, no governor, no hint, no memory.
"""

import argparse
import tempfile
from pathlib import Path

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.lab import LabResult, LabRun, programs, run_lab
from experiments import proofs
from tests.campaigns.storm import sabotage, verdict
from tests.lab.hints_guest import program

SCRIPT = Path(__file__).parent / "faults.sh"
FAILNTH = programs.Program(
    "failnth",
    "tests/campaigns/faults/failnth.c",
    ("tests/lab/hints/call.h", "module/uapi/cpuidle_latency.h"),
)

EXAMPLES = {"": "", "-o build/faults": "leaves the guest's files and log there"}


def inject(folder: Path, fault: str, limit_s: float, title: str) -> LabResult:
    """Run all sweeps in the guest.

    Args:
        folder: receives the guest's files.
        fault: name of a fault to put into the module, or empty.
        limit_s: for the guest, in seconds.
        title: shown as progress.

    Raises:
        UserError: the guest's kernel died, or the time is up.
    """
    run = LabRun(
        script=verdict.LEFT + SCRIPT.read_text(),
        kernel="debug",
        cpus=2,
        files={"lab/bin/hint": program("hint"), **programs.file(FAILNTH)},
        memory_mib=2048,
        real_time=True,
        time_limit_s=limit_s,
        changes=sabotage.changes(fault),
    )
    return run_lab(run, folder, title)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, time_limit=3600, output=None, sabotage="")


def run(args: argparse.Namespace) -> int:
    """Inject, show; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="faults-", dir=TOP / "build") as scratch:
        folder = args.output or Path(scratch) / "lab"
        result = inject(folder, args.sabotage, args.time_limit, "Failing allocations")
        found = verdict.judge(result, verdict.SPLAT)
    print(result.output.strip())
    if found.failure:
        print("\n".join([found.failure, *(f"    {line}" for line in found.report)]))
    return 1 if found.failure else 0
