# SPDX-License-Identifier: GPL-2.0
"""Governors of the kernel as modules of the lab: those that Debian's kernels do not have.

TEO is in none of them, and the governors of 6.1 are wanted on a kernel with two CPUs. They are
built unmodified, from Debian's linux-source package or a kernel tree, beside the project's modules.
"""

import hashlib
from collections.abc import Collection
from pathlib import Path

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.replay.build import kernel_folder

# Kernels whose governors are in a package of Debian's, oldest first.
SERIES = ("6.1", "6.12", "7.2", "7.3")
SHIM = Path(__file__).with_name("guest") / "mainline.h"
# Files of the modules' tree that name what is built: each of these modules adds to them.
_KBUILD, _DKMS = "Kbuild", "dkms.conf"


def guest_name(governor: str) -> str:
    """Return the name that a governor has in the guest.

    Args:
        governor: as on the command line, without tunables: "teo@6.12", or "teo@/path/of/tree",
            whose name has a part of its source's hash.

    Raises:
        UserError: the tree has no governors.
    """
    name, _, kernel = governor.partition("@")
    if "/" not in kernel:
        return governor
    text = (kernel_folder(kernel) / f"{name}.c").read_bytes()
    return f"{name}@{hashlib.sha256(text).hexdigest()[:6]}"


def module_of(governor: str) -> str:
    """Return the name of the module that has a governor.

    Args:
        governor: as of guest_name().

    Raises:
        UserError: see guest_name().
    """
    return "cpuidle_" + guest_name(governor).replace("@", "_").replace(".", "_")


def changes(governors: Collection[str]) -> dict[str, str]:
    """Return files of the modules' sources, by path, that build a module for each governor.

    Args:
        governors: as of guest_name().

    Raises:
        UserError: a kernel's sources cannot be had.
    """
    if not governors:
        return {}
    found = {SHIM.name: SHIM.read_text()}
    added = {name: (TOP / name).read_text() for name in (_KBUILD, _DKMS)}
    # Each module of dkms.conf has a number.
    first = added[_DKMS].count("BUILT_MODULE_NAME[")
    for number, governor in enumerate(sorted(governors), first):
        name, _, kernel = governor.partition("@")
        module = module_of(governor)
        theirs = kernel_folder(kernel)
        found[f"{module}/module.c"] = (
            f'#define CIL_NAME "{guest_name(governor)}"\n'
            f'#include "{SHIM.name}"\n#include "{name}.c"\n'
        )
        for file in (theirs / f"{name}.c", theirs / "gov.h"):
            if file.is_file():
                found[f"{module}/{file.name}"] = file.read_text()
        added[_KBUILD] += f"\nobj-m += {module}.o\n{module}-y := {module}/module.o\n"
        added[_DKMS] += f'\nBUILT_MODULE_NAME[{number}]="{module}"\n'
        added[_DKMS] += f'DEST_MODULE_LOCATION[{number}]="/updates/dkms"\n'
    return found | added
