# SPDX-License-Identifier: GPL-2.0
"""The project's own C programs, linked statically: the guest needs no library."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.cache import TOP, cached
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.packages import COMPILER, remedy

_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread")


@dataclass(frozen=True)
class Program:
    """A program and what it is made of.

    Attributes:
        name: as the guest calls it.
        source: its source, below the top of the tree.
        headers: of the project, that it includes.
        says_version: it is compiled with the project's version.
    """

    name: str
    source: str
    headers: tuple[str, ...] = ()
    says_version: bool = False

    def flags(self) -> list[str]:
        """Return the compiler's options."""
        version = (TOP / "VERSION").read_text().strip() if self.says_version else ""
        return [*_FLAGS, *([f'-DVERSION="{version}"'] if version else [])]


WAKEBENCH = Program("wakebench", "tools/cpuidle_lab/lab/guest/wakebench.c")
SLEEPERS = Program("sleepers", "tools/cpuidle_lab/lab/guest/sleepers.c")
# Plays clones of recorded workloads.
PLAYER = Program("player", "tools/cpuidle_lab/lab/guest/player.c")
LATNICE = Program(
    "latnice",
    "tools/latnice/latnice.c",
    ("module/uapi/cpuidle_latency.h",),
    says_version=True,
)


# Runs on the host.
TSC = Program("tsc", "tools/cpuidle_lab/lab/tsc.c")


def compiled(program: Program) -> Path:
    """Return a program's file; compiled at the first use.

    Raises:
        UserError: there is no compiler, or it refuses the program.
    """

    def build(target: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            raise UserError(f"{program.name} must be compiled first: {remedy(*COMPILER)}")
        command = [compiler, *program.flags(), "-o", str(target / program.name)]
        command.append(str(TOP / program.source))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), "")
            raise UserError(f"{program.name} does not compile: {first or done.stderr.strip()}")

    sources = (program.source, *program.headers)
    parts: list[str | bytes] = [*program.flags()]
    parts += [(TOP / name).read_bytes() for name in sources]
    return cached(program.name, parts, f"Compiling {program.name}", build) / program.name


def file(program: Program) -> dict[str, bytes]:
    """Return the file that the guest needs for a program, by path.

    Raises:
        UserError: see compiled().
    """
    return {f"usr/bin/{program.name}": compiled(program).read_bytes()}
