# SPDX-License-Identifier: GPL-2.0
"""What `cpuidle-lab calibrate` needs in the guest of the lab."""

import subprocess
import tempfile
from pathlib import Path

from tests.lab.test_capture import PYTHON, command_files

TOP = Path(__file__).resolve().parents[3]
PACKAGE = TOP / "tools" / "cpuidle_lab"

MAIN = """
import sys
from cpuidle_lab.cli import main
sys.exit(main())
"""

FUNCTIONS = f"""
. /lab/functions
export PYTHONPATH=/lab/tools
mkdir -p /run
calibrate() {{ {PYTHON} /lab/main.py calibrate "$@"; }}
settings() {{ cat /sys/devices/system/cpu/cpu*/cpuidle/state*/disable | tr -d '\\n'; }}
"""


def files() -> dict[str, bytes]:
    """Return the files that let calibrate run in the guest, by path."""
    own = [f"calibrate/{path.stem}" for path in (PACKAGE / "calibrate").glob("*.py")]
    found = command_files("cli", "files", "commands/calibrate", *own, main=MAIN)
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
