# SPDX-License-Identifier: GPL-2.0
"""What `cpuidle-lab calibrate` needs in the guest of the lab."""

import subprocess
import tempfile
from pathlib import Path

from tests.lab.test_capture import PYTHON, command_files

TOP = Path(__file__).resolve().parents[3]
PACKAGE = TOP / "tools" / "cpuidle_lab"

# The command line of the command alone: the whole of it needs packages from outside Debian.
MAIN = """
import argparse, sys
from cpuidle_lab.commands import calibrate
from cpuidle_lab.errors import UserError
parser = argparse.ArgumentParser()
calibrate.add_arguments(parser)
try:
    sys.exit(calibrate.run(parser.parse_args()))
except UserError as error:
    print(f"cpuidle-lab: error: {error.message}", file=sys.stderr)
    sys.exit(error.exit_code)
"""

FUNCTIONS = f"""
. /lab/functions
export PYTHONPATH=/lab/tools
mkdir -p /run
calibrate() {{ {PYTHON} /lab/main.py "$@"; }}
settings() {{ cat /sys/devices/system/cpu/cpu*/cpuidle/state*/disable | tr -d '\\n'; }}
"""


def files() -> dict[str, bytes]:
    """Return the files that let calibrate run in the guest, by path."""
    own = [f"calibrate/{path.stem}" for path in (PACKAGE / "calibrate").glob("*.py")]
    found = command_files("files", "commands/calibrate", *own, main=MAIN)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                "make",
                "-s",
                "-C",
                str(TOP / "tools/calibrate"),
                f"BUILD={folder}",
                "LDFLAGS=-static",
            ],
            check=True,
        )
        program = Path(folder) / "calibrate-wake"
        found["usr/lib/cpuidle-lab/calibrate-wake"] = program.read_bytes()
    return found
