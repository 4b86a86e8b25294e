# SPDX-License-Identifier: GPL-2.0
"""QEMU of the lab's Debian release, where the host's may be too old.

Unpacked, not installed, and run with its own libraries.
"""

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from cpuidle_lab.base.cache import cached
from cpuidle_lab.lab import images

DATA = "usr/share/qemu"


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """Return a root with packages of that release, and all that they depend on.

    Args:
        name: it is kept in the cache under.
        packages: of QEMU, and what else is to be there.

    Raises:
        UserError: Debian's archive cannot be used.
    """

    def build(target: Path) -> None:
        images.extracted(packages, target)

    title = f"Getting Debian {images.RUNTIME_RELEASE}'s {packages[0]}"
    return cached(name, [images.RUNTIME_RELEASE, *packages], title, build) / "root"


def command(root: Path, program: str) -> list[str]:
    """Return the command that runs a program of an unpacked root."""
    libraries = ":".join(str(root / folder) for folder in images.LIBRARY_FOLDERS)
    return [str(root / images.LOADER), "--library-path", libraries, str(root / "usr/bin" / program)]


def x86() -> list[str]:
    """Return the command of the QEMU for machines of x86-64.

    QEMU before 8.1 may go on with what it translated of code that is patched meanwhile: the guest
    dies of a breakpoint that its kernel had removed.
    """
    root = unpacked("emulator-x86", ["qemu-system-x86"])
    return [*command(root, "qemu-system-x86_64"), "-L", str(root / DATA)]


@cache
def version() -> str:
    """Return the first line that it says of its version."""
    done = subprocess.run([*x86(), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.partition("\n")[0]
