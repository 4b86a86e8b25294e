# SPDX-License-Identifier: GPL-2.0
"""A build of each kind, whose long tool is a stand-in; processes of their own, which can die.

    building.py STAGES

STAGES has a directory for each kind, where build/ stands for the tree's, and bin/ has the stand-in.
"""

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import rich.progress  # noqa: F401 - before the processes part

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tools"), str(TOP / "packaging")]

import roots  # noqa: E402

from cpuidle_lab.base import apt, cache  # noqa: E402
from cpuidle_lab.base.errors import UserError  # noqa: E402
from cpuidle_lab.lab import built, images  # noqa: E402
from cpuidle_lab.lab import roots as debian  # noqa: E402

VERSION = "6.12.9+deb13-amd64"
FULL, FAILS, HANGS = "full", "fails", "hangs"

# In the place of each tool. $WAY is FULL, FAILS or HANGS. As mmdebstrap, it mounts /proc.
STAND_IN = """#!/bin/sh
exec 9>>"$STAGE/alive"
flock -s 9
# /proc is that of the outer PID namespace, and so is the number.
read -r pid _ </proc/self/stat
for half in "$STAGE"/build/.*-*/ "$STAGE"/build/cache/.*-*/; do [ ! -d "$half" ] || break; done
case ${0##*/} in mmdebstrap)
    mkdir "$half/proc"
    mount -t proc proc "$half/proc" ;;
esac
case $WAY in
full) dd if=/dev/zero of="$half/fill" bs=64k ;;
hangs)
    [ "${0##*/}" = dpkg-deb ] || sleep 100 >/dev/null &
    echo "$pid" >"$STAGE/tool.new"
    mv "$STAGE/tool.new" "$STAGE/tool"
    exec sleep 100 ;;
esac
exit 1
"""


Patch = Callable[[object, str, object], None]


def _runtime(_: Path, __: Patch) -> object:
    return images.runtime()


def _root(_: Path, __: Patch) -> object:
    return images.build_root(images.flavour_of("6.12"), VERSION)


def _kernel(_: Path, patch: Patch) -> object:
    patch(images, "newest_kernel", lambda _: VERSION)
    patch(images, "kernel_packages", lambda *_: [Path("linux-image.deb")])
    return images.kernel("6.12")


def _modules(stage: Path, patch: Patch) -> object:
    patch(images, "kernel", lambda _: images.Kernel(VERSION, stage, stage))
    patch(images, "build_root", lambda *_: stage / "root.tar.zst")
    return images.modules("6.12")


def _source(_: Path, patch: Patch) -> object:
    patch(apt, "private_root", lambda *_: Path())
    patch(apt, "update", lambda *_, **__: None)
    patch(apt, "candidate", lambda *_: "1")
    patch(apt, "download", lambda *_, **__: [Path("linux-source.deb")])
    return built.source_tree("6.12")


def _own_kernel(stage: Path, patch: Patch) -> object:
    patch(built, "_check_tools", lambda _: None)
    patch(built, "source_tree", lambda _: stage)
    return built.build_tree("rt")


def _own_modules(stage: Path, patch: Patch) -> object:
    patch(built, "build_tree", lambda _: stage)
    return built.modules("rt")


def _packages(stage: Path, patch: Patch) -> object:
    patch(roots, "tool_root", lambda *_: stage / "root.tar.zst")
    roots.build_debs(stage / "bin", stage / "build" / "deb")
    return None


# The tool that takes long, and what builds with it.
KINDS: dict[str, tuple[str, Callable[[Path, Patch], object]]] = {
    "guest-root": ("mmdebstrap", _runtime),
    "build-root": ("mmdebstrap", _root),
    "kernel": ("dpkg-deb", _kernel),
    "modules": ("zstd", _modules),
    "source": ("dpkg-deb", _source),
    "own-kernel": ("make", _own_kernel),
    "own-modules": ("make", _own_modules),
    "packages": ("zstd", _packages),
}


def left(stage: Path) -> list[str]:
    """Return what a build has left, besides logs and locks, and what is mounted there."""
    kept = ("cache", "apt")
    found = [
        path.name
        for folder in (stage / "build", stage / "build" / "cache", stage / "tmp")
        for path in folder.iterdir()
        if path.suffix not in (".log", ".lock") and path.name not in kept
    ]
    return found + mounted(stage)


def mounted(stage: Path) -> list[str]:
    """Return the places below a stage's build/ where something is mounted."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if f"{stage}/build/" in line]


def build(kind: str, stage: Path) -> None:
    """Build; write the error, and what is left, each on a line of the file `result`."""
    for module in (cache, images, built, debian, roots):
        setattr(module, "CACHE", stage / "build" / "cache")  # noqa: B010
    os.environ |= {"STAGE": str(stage), "PATH": f"{stage}/bin:{os.environ['PATH']}"}
    tempfile.tempdir = str(stage / "tmp")
    (stage / "builder").write_text(str(os.getpid()))
    try:
        KINDS[kind][1](stage, setattr)
    except (UserError, OSError) as error:
        (stage / "result").write_text(f"{error}\n{left(stage)}")


def main() -> int:
    """Build all at once, each in a process of its own."""
    for kind in KINDS:
        if os.fork() == 0:
            try:
                build(kind, Path(sys.argv[1]) / kind)
            except BaseException:
                traceback.print_exc()
            os._exit(0)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return 0


if __name__ == "__main__":
    sys.exit(main())
