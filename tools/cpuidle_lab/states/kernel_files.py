# SPDX-License-Identifier: GPL-2.0
"""The files of a kernel that a new governor changes, out of Debian's linux-source package."""

import json
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base import apt
from cpuidle_lab.base.cache import CACHE
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.states.linux_source import DEFAULT_SUITE, NEWEST, STAMP, SUITES, unpack

KCONFIG = "drivers/cpuidle/Kconfig"
MAKEFILE = "drivers/cpuidle/governors/Makefile"
DOCUMENT = "Documentation/admin-guide/pm/cpuidle.rst"
CHANGED = (KCONFIG, MAKEFILE, DOCUMENT)


@dataclass(frozen=True)
class KernelFiles:
    """Texts of a kernel's files.

    Attributes:
        origin: where they are from, for people.
        texts: by path below the top of the tree.
    """

    origin: str
    texts: dict[str, str]


def fetch(version: str = NEWEST, cache: Path = CACHE) -> KernelFiles:
    """Return the files of a kernel; they are downloaded if they are not in the cache.

    Args:
        version: of the kernel, two numbers.
        cache: directory to keep things in.

    Raises:
        UserError: Debian has no such kernel, the download failed, or a file is missing.
    """
    folder = cache / "linux-source" / f"{version}-files"
    with apt.locked(folder):
        if not (folder / STAMP).is_file():
            _fetch_into(folder, version, cache)
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
        texts = {path: (folder / Path(path).name).read_text(encoding="utf-8") for path in CHANGED}
    return KernelFiles(f"linux-source-{version} {stamp['package_version']}", texts)


def _fetch_into(folder: Path, version: str, cache: Path) -> None:
    suite = SUITES.get(version, DEFAULT_SUITE)
    (deb,) = apt.download(
        [f"linux-source-{version}"], suite, folder, cache_dir=cache / "apt" / suite
    )
    apt.say_on_stderr(f"reading files of {deb.name}")
    wanted = [f"linux-source-{version}/{path}" for path in CHANGED]
    unpack(deb, version, folder, ["--occurrence=1", *wanted])
    package_version = deb.name.split("_")[1].replace("%3a", ":")
    deb.unlink()
    missing = [path for path in CHANGED if not (folder / Path(path).name).is_file()]
    if missing:
        raise UserError(f"linux-source-{version} has no {missing[0]} where it is expected")
    temporary = folder / f"{STAMP}.new"
    temporary.write_text(json.dumps({"package_version": package_version}) + "\n", encoding="utf-8")
    temporary.replace(folder / STAMP)
