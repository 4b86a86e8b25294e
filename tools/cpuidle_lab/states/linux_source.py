# SPDX-License-Identifier: GPL-2.0
"""The cpuidle governors of a kernel, unmodified, out of Debian's linux-source package.

The kernel's own style checker comes along. `python -m cpuidle_lab.states.linux_source` prints its
path.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base import apt
from cpuidle_lab.base.cache import CACHE, is_full, shipped
from cpuidle_lab.base.errors import UserError

NEWEST = "7.3"
# Where Debian has which kernel; any other version is looked for in the last one.
SUITES = {"6.1": "bookworm", "6.12": "trixie", "7.2": "trixie-backports", "7.3": "trixie-backports"}
DEFAULT_SUITE = "trixie-backports"
GOVERNORS = ("teo.c", "menu.c", "ladder.c", "haltpoll.c", "gov.h")
SCRIPTS = ("checkpatch.pl", "spelling.txt", "const_structs.checkpatch")
# The newest series in Debian whose kernel-doc is one file, which is read, too.
KERNEL_DOC = "6.12"
# Says which package the files are from; written last.
STAMP = "stamp.json"
FILES = [f"drivers/cpuidle/governors/{name}" for name in GOVERNORS] + [
    f"scripts/{name}" for name in SCRIPTS
]


def _files(version: str) -> list[str]:
    """Return the files that are read of a kernel."""
    return FILES + (["scripts/kernel-doc"] if version == KERNEL_DOC else [])


def series(release: str) -> str:
    """Return the series of a kernel's release: "6.12" of "6.12.107+deb13-amd64"."""
    return ".".join(release.split(".")[:2])


@dataclass(frozen=True)
class Mainline:
    """The governors of one kernel.

    Attributes:
        folder: where its files are.
        package_version: version of the package that they are from.
    """

    folder: Path
    package_version: str


def unpack(deb: Path, version: str, folder: Path, options: Sequence[str]) -> None:
    """Unpack some files of a linux-source package into a folder, all at its top.

    Args:
        deb: the package.
        version: of the kernel.
        folder: where to.
        options: of tar, which files to take.

    Raises:
        UserError: the disk is full.
    """
    archive = f"./usr/src/linux-source-{version}.tar.xz"
    commands = (
        ["dpkg-deb", "--fsys-tarfile", str(deb)],
        ["tar", "-xOf", "-", archive],
        ["xz", "-dc", "-T0"],
        ["tar", "-xf", "-", "-C", str(folder), "--transform=s,.*/,,", *options],
    )
    processes: list[subprocess.Popen[bytes]] = []
    for command in commands:
        before = processes[-1].stdout if processes else subprocess.DEVNULL
        processes.append(
            subprocess.Popen(
                command, stdin=before, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        )
        if len(processes) > 1:
            previous = processes[-2].stdout
            assert previous is not None
            previous.close()
    processes[-1].communicate()
    for process in processes[:-1]:
        process.wait()
    if processes[-1].returncode and is_full(folder):
        raise UserError(f"{deb.name} cannot be unpacked: the disk is full")


def _extract(deb: Path, version: str, folder: Path) -> None:
    """Unpack the governors' sources of a linux-source package into a folder."""
    # tar stops reading once it has every file; an old kernel may lack one of them.
    wanted = [f"linux-source-{version}/{path}" for path in _files(version)]
    unpack(deb, version, folder, ["--occurrence=1", *wanted])
    if not all((folder / name).is_file() for name in ("teo.c", "menu.c")):
        raise UserError(f"{deb.name} has no teo.c and menu.c where they are expected")


def fetch(
    version: str = NEWEST, suite: str = "", cache: Path = CACHE, refresh: bool = False
) -> Mainline:
    """Return the governors of a kernel; they are downloaded if they are not at hand.

    Args:
        version: of the kernel, two numbers: "7.2".
        suite: Debian's suite to look in; the usual one for this version if empty.
        cache: directory to keep things in.
        refresh: download again although there are some in the cache.

    Raises:
        UserError: Debian has no such kernel there, or the download failed.
    """
    found = shipped(f"cache/linux-source/{version}")
    if found and cache == CACHE and not refresh and not suite:
        return _told(found)
    folder = cache / "linux-source" / version
    if _is_whole(folder, version) and not refresh:  # needs no lock, which another user may not take
        return _told(folder)
    with apt.locked(folder):
        if refresh or not _is_whole(folder, version):
            _fetch_into(folder, version, suite or SUITES.get(version, DEFAULT_SUITE), cache)
        return _told(folder)


def at_hand(version: str) -> bool:
    """Return whether the governors of a kernel are here, so that fetch() downloads nothing."""
    kept = CACHE / "linux-source" / version / STAMP
    return kept.is_file() or shipped(f"cache/linux-source/{version}") is not None


def _is_whole(folder: Path, version: str) -> bool:
    """Return whether a folder has the files that are read of a kernel now."""
    stamp = folder / STAMP
    if not stamp.is_file():
        return False
    return bool(json.loads(stamp.read_text(encoding="utf-8")).get("files") == _files(version))


def _told(folder: Path) -> Mainline:
    stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    return Mainline(folder, stamp["package_version"])


def _fetch_into(folder: Path, version: str, suite: str, cache: Path) -> None:
    stamp = folder / STAMP
    stamp.unlink(missing_ok=True)
    (deb,) = apt.download(
        [f"linux-source-{version}"], suite, folder, cache_dir=cache / "apt" / suite
    )
    apt.say_on_stderr(f"unpacking the governors of {deb.name}")
    _extract(deb, version, folder)
    package_version = deb.name.split("_")[1].replace("%3a", ":")
    deb.unlink()
    temporary = stamp.with_suffix(".new")
    told = {"package_version": package_version, "suite": suite, "files": _files(version)}
    temporary.write_text(json.dumps(told) + "\n", encoding="utf-8")
    temporary.replace(stamp)


def main() -> int:
    """Fetch, and print the folder."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python -m cpuidle_lab.states.linux_source --kernel 6.12",
    )
    parser.add_argument("--kernel", default=NEWEST, help="version (default: %(default)s)")
    parser.add_argument("--suite", default="", help="Debian suite (default: by the version)")
    parser.add_argument("--refresh", action="store_true", help="download again")
    args = parser.parse_args()
    try:
        print(fetch(args.kernel, args.suite, refresh=args.refresh).folder)
    except UserError as error:
        print(f"linux_source: error: {error.message}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
