# SPDX-License-Identifier: GPL-2.0
"""Debian's newest kernel beside the one whose governors are compared with.

What Debian has is read from the package lists at hand, which a download of sources has fetched:
nothing here needs a network but `debian_has(refresh=True)`.
"""

import re
from pathlib import Path

from cpuidle_lab.base import apt
from cpuidle_lab.base.cache import CACHE
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.states.linux_source import DEFAULT_SUITE, NEWEST

_PACKAGE = re.compile(r"linux-source-(\d+\.\d+)")


def number(series: str) -> tuple[int, ...]:
    """Return a series as numbers, to be compared: "7.10" is newer than "7.9"."""
    return tuple(map(int, series.split(".")))


def debian_has(refresh: bool = False, cache: Path = CACHE) -> str:
    """Return the series of Debian's newest linux-source package, "" if no list is at hand.

    Args:
        refresh: fetch the lists if they are older than a day.
        cache: directory of the lists.

    Raises:
        UserError: a list cannot be fetched, or apt fails.
    """
    root = cache / "apt" / DEFAULT_SUITE
    conf = root / "etc" / "apt.conf"
    if refresh:
        with apt.locked(root):
            conf = apt.private_root(DEFAULT_SUITE, root)
            apt.update(conf)
    if not conf.is_file():
        return ""
    names = apt.apt(conf, ["apt-cache", "pkgnames", "linux-source-"]).split()
    found = [match[1] for match in map(_PACKAGE.fullmatch, names) if match]
    return max(found, key=number, default="")


def newer(cache: Path = CACHE) -> str:
    """Return a sentence where Debian has a newer kernel than NEWEST, "" else."""
    try:
        series = debian_has(cache=cache)
    except (OSError, UserError):
        return ""
    if not series or number(series) <= number(NEWEST):
        return ""
    return f"Debian has Linux {series}; menu and teo are those of {NEWEST} (`make newest`)"
