# SPDX-License-Identifier: GPL-2.0
"""Files and functions for `cpuidle-lab calibrate` in the guest of the lab."""

import subprocess
import tempfile
from pathlib import Path

from tests.lab.guest_python import PYTHON, command_files, guest_ctypes

TOP = Path(__file__).resolve().parents[3]

FUNCTIONS = f"""
. /lab/functions
export PYTHONPATH=/lab/tools
mkdir -p /run
calibrate() {{ {PYTHON} /lab/main.py calibrate "$@"; }}
settings() {{ cat /sys/devices/system/cpu/cpu*/cpuidle/state*/disable | tr -d '\\n'; }}
"""


def files() -> dict[str, bytes]:
    """Return the files that let calibrate run in the guest, by path."""
    found = command_files() | guest_ctypes()
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
