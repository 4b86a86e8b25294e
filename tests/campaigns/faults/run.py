#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Let each allocation of a call fail, one after the other: at load, switch and hints.

Boots the kernel with checkers. Every call must either succeed or fail with a clean error, after
which nothing of it is left: no file, no governor, no hint, no memory.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TOP / "tools"), str(TOP)]

from cpuidle_lab.lab import LabResult, LabRun, programs, run_lab  # noqa: E402
from tests import runner  # noqa: E402
from tests.campaigns.storm import sabotage, verdict  # noqa: E402
from tests.lab.hints_guest import program  # noqa: E402

SCRIPT = Path(__file__).parent / "faults.sh"
FAILNTH = programs.Program(
    "failnth",
    "tests/campaigns/faults/failnth.c",
    ("tests/lab/hints/call.h", "module/uapi/cpuidle_latency.h"),
)

EPILOG = """\
examples:
  faults.py
  faults.py -o build/faults          leaves the guest's files and log there

exit code: 0 if all errors were clean, 1 if not, 2 usage
"""


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


def main(argv: Sequence[str] | None = None) -> int:
    """Inject faults and judge."""
    parser = runner.parser(__doc__, EPILOG)
    add = parser.add_argument
    add("--time-limit", type=float, default=3600, metavar="S", help="for the guest (default: 3600)")
    add("--sabotage", default="", choices=("", *sabotage.FAULTS), help="put this fault in")
    add("-o", "--output", type=Path, metavar="DIR", help="keep the guest's files and log here")
    args = parser.parse_args(argv)
    return runner.run("faults", lambda: work(args))


def work(args: argparse.Namespace) -> int:
    """Inject, show, return the exit code."""
    with tempfile.TemporaryDirectory(prefix="faults-", dir=TOP / "build") as scratch:
        folder = args.output or Path(scratch) / "lab"
        result = inject(folder, args.sabotage, args.time_limit, "Failing allocations")
        found = verdict.judge(result, verdict.SPLAT)
    print(result.output.strip())
    if found.failure:
        print("\n".join([found.failure, *(f"    {line}" for line in found.report)]))
    return 1 if found.failure else 0


if __name__ == "__main__":
    sys.exit(main())
