# SPDX-License-Identifier: GPL-2.0
"""What `cpuidle-lab calibrate` needs in the guest of the lab."""

import subprocess
import tempfile
from pathlib import Path

from tests.lab.test_capture import PYTHON, guest_python

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

_MODULES = (
    "__init__.py", "energy.py", "errors.py", "files.py", "host.py", "sysfs.py",
    "commands/__init__.py", "commands/capture.py", "commands/calibrate.py",
)  # fmt: skip

FUNCTIONS = f"""
. /lab/functions
export PYTHONPATH=/lab/tools
mkdir -p /run
calibrate() {{ {PYTHON} /lab/main.py "$@"; }}
settings() {{ cat /sys/devices/system/cpu/cpu*/cpuidle/state*/disable | tr -d '\\n'; }}
"""


def files() -> dict[str, bytes]:
    """Return the files that let calibrate run in the guest, by path."""
    found = guest_python() | {"lab/main.py": MAIN.encode()}
    modules = [*_MODULES, *(f"calibrate/{p.name}" for p in (PACKAGE / "calibrate").glob("*.py"))]
    for name in modules:
        found[f"lab/tools/cpuidle_lab/{name}"] = (PACKAGE / name).read_bytes()
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
