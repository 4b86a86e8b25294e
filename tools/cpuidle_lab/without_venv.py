# SPDX-License-Identifier: GPL-2.0
"""Entry point of `python -m cpuidle_lab.without_venv`, where build/venv is missing or out of date.

What Python alone is enough for runs at once: help, the version, doctor. Another command makes the
environment, and runs in it.
"""

import os
import pwd
import subprocess
import sys
from typing import Any, NoReturn

from cpuidle_lab.base.cache import BUILD, TOP
from cpuidle_lab.cli import main


def owner() -> dict[str, Any]:
    """Return what lets sudo make the environment as the tree's owner."""
    tree = TOP.stat()
    if os.geteuid() or not tree.st_uid or "SUDO_UID" not in os.environ:
        return {}
    try:
        home = pwd.getpwuid(tree.st_uid).pw_dir
    except KeyError:  # a user of another machine, whose clone is mounted here
        home = "/"
    group = {"group": tree.st_gid, "extra_groups": []}
    return {"user": tree.st_uid, "env": {**os.environ, "HOME": home}, **group}


def enter() -> NoReturn:
    """Make the environment, become the same command in it."""
    made = subprocess.run(
        [TOP / "tools" / "setup.sh", "python"], stdout=sys.stderr, check=False, **owner()
    )
    if made.returncode:
        sys.exit(made.returncode)
    python = str(BUILD / "venv" / "bin" / "python")
    os.execv(python, [python, "-P", "-m", "cpuidle_lab", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main(enter=enter))
