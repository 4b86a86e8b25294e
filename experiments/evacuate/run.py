# SPDX-License-Identifier: GPL-2.0
"""Boots the lab once and makes the table of 2009 again.

build/venv/bin/python -m experiments.evacuate.run -o page.md
"""

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

from cpuidle_lab.files import write_whole
from cpuidle_lab.lab import LabRun, programs, run_lab
from cpuidle_lab.lab.cache import TOP
from experiments.evacuate import table

HERE = Path(__file__).parent
RECORDS = programs.Program("records", "experiments/evacuate/records.c")
ORIGINAL_S, USUAL_S = 30, 1
TIME_LIMIT_S = 3600


def lab_run(seconds: int, kernel: str) -> LabRun:
    """Return the boot.

    Args:
        seconds: of virtual time, for each run of the program.
        kernel: its series.
    """
    script = f"SECONDS_EACH={seconds}\n{(HERE / 'guest.sh').read_text()}"
    return LabRun(
        script=script,
        kernel=kernel,
        cpus=table.CPUS,
        packages=2,
        files=programs.file(RECORDS),
        time_limit_s=TIME_LIMIT_S,
    )


def measure(seconds: int, kernel: str) -> tuple[table.Found, str]:
    """Return the figures and the kernel's release.

    Raises:
        UserError: something failed in the guest.
    """
    with tempfile.TemporaryDirectory(prefix="evacuate-", dir=TOP / "build") as folder:
        run = lab_run(seconds, kernel)
        result = run_lab(run, Path(folder) / "results", "Evacuating CPUs by three methods").check()
        return table.read(result.output, result.files), result.kernel_version


def run(options: argparse.Namespace) -> str:
    """Measure; return the page.

    Args:
        options: `original`: runs of the length of 2009, 30 s; `kernel`: series of the guest's.
    """
    seconds = ORIGINAL_S if options.original else USUAL_S
    found, kernel = measure(seconds, options.kernel)
    return table.page(found, options.command, kernel)


def main() -> int:
    """Write the page to a file, or print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--original", action="store_true", help="runs of 30 s, as in 2009")
    parser.add_argument("--kernel", default="6.12", help="default: %(default)s")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: print it")
    options = parser.parse_args()
    words = ["python", "-m", "experiments.evacuate.run", *sys.argv[1:]]
    options.command = shlex.join(words)
    page = run(options)
    if options.output:
        write_whole(options.output, page)
    else:
        print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
