# SPDX-License-Identifier: GPL-2.0
"""Entry points of an installed command, whose files are read and never written to.

What commands make goes to a directory of the user, ~/.cache/cpuidle-lab/VERSION. A wheel comes with
its Python packages, so that each command runs with the Python that has it. `make install` brings
none: a command that needs some makes an environment in that directory.
"""

import os
import sys
from pathlib import Path

from cpuidle_lab.base.version import __version__

TOOLS = Path(__file__).resolve().parents[1]


def _prepare() -> None:
    """Name the user's directory, and leave nothing beside the files."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    os.environ["CPUIDLE_LAB_BUILD"] = str(caches / "cpuidle-lab" / __version__)
    # Of processes that commands start, too.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TOOLS), *([others] if others else [])])


def main() -> int:
    """Run the command line with this Python, which has what the wheel needs."""
    _prepare()
    from cpuidle_lab import cli

    return cli.main()


def main_of_prefix() -> int:
    """Run the command line with this Python if it is enough, else in an environment."""
    _prepare()
    from cpuidle_lab import cli, without_venv

    return cli.main(enter=without_venv.enter)
