# SPDX-License-Identifier: GPL-2.0
"""Names of packages on the system at hand, for messages about what is missing."""

import re
from pathlib import Path

OS_RELEASE = "/etc/os-release"

# Systems by the words of ID and ID_LIKE in /etc/os-release, and their commands.
_COMMANDS = {"debian": "apt install", "fedora": "dnf install", "arch": "pacman -S"}

COMPILER = ("gcc", "libc6-dev")
TRACE_LIBRARIES = ("pkg-config", "libtracecmd-dev", "libtraceevent-dev", "libtracefs-dev")

# Debian's names of packages, and what others call them; "" is part of another package.
_FEDORA = {
    "clang-19": "clang19",
    "debian-archive-keyring": "debian-keyring",
    "libbpf-dev": "libbpf-devel",
    "libc6-dev": "glibc-devel",
    "libelf-dev": "elfutils-libelf-devel",
    "libtracecmd-dev": "libtracecmd-devel",
    "libtraceevent-dev": "libtraceevent-devel",
    "libtracefs-dev": "libtracefs-devel",
    "llvm-19": "llvm19",
    "pahole": "dwarves",
    "pkg-config": "pkgconf-pkg-config",
}
_ARCH = {
    "clang-19": "clang19",
    "libbpf-dev": "libbpf",
    "libc6-dev": "",
    "libelf-dev": "libelf",
    "libtracecmd-dev": "trace-cmd",
    "libtraceevent-dev": "libtraceevent",
    "libtracefs-dev": "libtracefs",
    "llvm-19": "llvm19",
    "pkg-config": "pkgconf",
}
_NAMES = {"fedora": _FEDORA, "arch": _ARCH}


def system(os_release: str) -> str:
    """Return the family of a system, a key of the table of commands; "" if it has none.

    Args:
        os_release: text of /etc/os-release.
    """
    fields = dict(re.findall(r"^(ID|ID_LIKE)=[\"']?(.*?)[\"']?$", os_release, re.MULTILINE))
    words = f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".split()
    return next((word for word in words if word in _COMMANDS), "")


def remedy(*packages: str, os_release: str | None = None, prefix: str = "") -> str:
    """Return the command that installs packages, or a sentence where there is none.

    Args:
        packages: Debian's names, options of apt among them.
        os_release: text of /etc/os-release; None reads this machine's.
        prefix: before the command: "sudo ".
    """
    if os_release is None:
        path = Path(OS_RELEASE)
        os_release = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    found = system(os_release)
    if found == "debian":
        return f"{prefix}{_COMMANDS[found]} {' '.join(packages)}"
    names = [name for name in packages if not name.startswith("-")]
    if not found:
        return f"install {', '.join(names)} with the package manager of this system"
    theirs = [_NAMES[found].get(name, name) for name in names]
    return f"{prefix}{_COMMANDS[found]} {' '.join(filter(None, theirs))}"
