#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Compare with the governors of Debian's newest kernel from now on.

Writes its series into linux_source.py, prints what changed in menu.c, teo.c and gov.h, and proves
that ours decide as these do. Where nothing is newer, it says so.

exit code: 0 if ours decide alike, 1 if they do not, or something cannot be fetched
"""

import difflib
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TOP), str(TOP / "tools")]

from cpuidle_lab.base.errors import UserError  # noqa: E402
from cpuidle_lab.states import linux_source, newest  # noqa: E402

COMPARED = ("menu.c", "teo.c", "gov.h")
LINE = re.compile(r'^NEWEST = ".*"$', re.MULTILINE)


def changes(old: Path, new: Path) -> str:
    """Return what changed between two folders of governors, as a patch."""
    found: list[str] = []
    for name in COMPARED:
        before, after = ((folder / name).read_text().splitlines() for folder in (old, new))
        found += difflib.unified_diff(
            before, after, f"{old.name}/{name}", f"{new.name}/{name}", lineterm=""
        )
    return "\n".join(found)


def raised(text: str, series: str) -> str:
    """Return linux_source.py with another NEWEST."""
    return LINE.sub(f'NEWEST = "{series}"', text)


def main() -> int:
    """Raise NEWEST."""
    try:
        series = newest.debian_has(refresh=True)
        if newest.number(series or "0") <= newest.number(linux_source.NEWEST):
            print(f"Debian has nothing newer than {linux_source.NEWEST}")
            return 0
        folders = [linux_source.fetch(one).folder for one in (linux_source.NEWEST, series)]
    except UserError as error:
        print(f"newest: error: {error.message}", file=sys.stderr)
        return error.exit_code
    print(changes(*folders) or f"menu and teo of {series} are those of {linux_source.NEWEST}")
    path = Path(linux_source.__file__)
    path.write_text(raised(path.read_text(), series))
    print(f"NEWEST is {series}")
    command = ["./cpuidle-lab", "experiment", "equality", "--kernel", series]
    return subprocess.run(command, cwd=TOP, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
