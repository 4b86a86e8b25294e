# SPDX-License-Identifier: GPL-2.0
"""Governors of kernels as modules of this machine: built, loaded, and removed again.

They are those of the lab, with a way out of the kernel's list. To load one needs the standard
library alone.
"""

import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.packages import remedy
from cpuidle_lab.host.machine import Host
from cpuidle_lab.lab import mainline

_LEAVE = Path(__file__).with_name("leave.h")
# Folders of the tree that the shim includes.
_INCLUDED = ("module", "governors")


def sources(governors: Collection[str]) -> dict[str, str]:
    """Return files of the modules' sources, by path, as mainline.changes(), with a way out.

    Raises:
        UserError: a kernel's sources cannot be had.
    """
    found = mainline.changes(governors)
    for governor in governors:
        head = f'#include "{mainline.SHIM.name}"\n'
        place = f"{mainline.module_of(governor)}/module.c"
        found[place] = found[place].replace(head, f'{head}#include "{_LEAVE.name}"\n')
    return found | {_LEAVE.name: _LEAVE.read_text(encoding="utf-8")}


def kernel_folder(machine: Host) -> Path:
    """Return the directory against which modules of the running kernel are built.

    Raises:
        UserError: it is not there, or this is no source tree.
    """
    if not (TOP / "Kbuild").is_file():
        raise UserError("--here needs the project's source tree")
    release = machine.kernel()
    folder = machine.tree.path(f"/lib/modules/{release}/build")
    if not (folder / "Makefile").is_file():
        headers = remedy(f"linux-headers-{release}")
        raise UserError(f"modules of {release} need its headers: {headers}")
    return folder


def build(governors: Collection[str], kernel: Path, folder: Path) -> list[Path]:
    """Return the modules of governors, which are built in a folder.

    Args:
        governors: of kernels, as of mainline.guest_name().
        kernel: of kernel_folder().
        folder: empty.

    Raises:
        UserError: one does not compile; the message has the compiler's first error.
    """
    if not governors:
        return []
    files = sources(governors)
    for part in _INCLUDED:
        files |= {str(path.relative_to(TOP)): path.read_text(encoding="utf-8")
                  for path in (TOP / part).rglob("*.[ch]")}  # fmt: skip
    names = [mainline.module_of(one) for one in governors]
    lines = ["ccflags-y += -I$(src) -I$(src)/module"]
    lines += [f"obj-m += {name}.o\n{name}-y := {name}/module.o" for name in names]
    for name, text in (files | {"Kbuild": "\n".join([*lines, ""])}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    command = ["make", "-C", str(kernel), f"M={folder}", "modules"]
    config = kernel / "include/config/auto.conf"
    if config.is_file() and "\nCONFIG_CC_IS_CLANG=y" in config.read_text(errors="replace"):
        command.append("LLVM=1")
    _run(command, "the modules do not compile")
    return [folder / f"{name}.ko" for name in names]


def _run(command: Sequence[str], what: str) -> None:
    """Run a command.

    Raises:
        UserError: it fails; the message has its first error.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserError(f"{what}: there is no {command[0]}") from None
    if done.returncode:
        said = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        first = next((line for line in said if "error" in line.lower()), (said or ["no reason"])[0])
        raise UserError(f"{what}: {first}")


@contextmanager
def loaded(machine: Host, modules: Sequence[Path]) -> Iterator[None]:
    """Load modules, whose governors are then offered; the governor in use stays in use.

    Raises:
        UserError: the kernel refuses one; those before it are removed.
    """
    before = machine.governor()
    there: list[str] = []
    try:
        for module in modules:
            _run(["insmod", str(module)], f"the kernel does not take {module.name}")
            there.append(module.stem)
        # A kernel prefers the governor with the highest rating.
        if machine.governor() != before:
            machine.set_governor(before)
        yield
    finally:
        for name in reversed(there):
            _run(["rmmod", name], f"{name} stays loaded")
