# SPDX-License-Identifier: GPL-2.0
"""Builds the program that compares governors, in a folder of its own for each run."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError

HERE = TOP / "tests/proofs/equality"
SHIM = TOP / "tools/native/mainline"
BUILD = TOP / "build/equality"

# Policies that claim to decide as a governor of the kernel, with their tunable.
CLAIMS: Mapping[str, Sequence[str]] = {
    "teo": ("teo_ng",),
    "menu": ("menu_ng",),
}

OURS = [
    "-std=gnu11",
    "-g",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    "-Wno-sign-compare",
    "-Wno-missing-field-initializers",
]
# As the kernel compiles it: signed numbers wrap.
MAINLINE = ["-std=gnu11", "-g", "-w", "-fno-strict-overflow", f"-I{SHIM}/include"]


@dataclass(frozen=True)
class Kind:
    """A way to build.

    Attributes:
        ours: flags for the policies and the comparison.
        mainline: flags for the kernel's governors.
        link: flags for the linker.
    """

    ours: Sequence[str] = ("-O2",)
    mainline: Sequence[str] = ("-O2",)
    link: Sequence[str] = ()


SPEED = Kind()
COVERAGE = Kind(mainline=("-O0", "--coverage"), link=("--coverage",))
SANITIZE = Kind(
    ours=("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    link=("-fsanitize=address,undefined",),
)


def run(command: Sequence[str | Path], cwd: Path | None = None) -> str:
    """Run a tool of the build and return what it printed.

    Raises:
        UserError: it is not installed, or failed.
    """
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    except FileNotFoundError:
        raise UserError(f"{command[0]} is missing: apt install gcc") from None
    if done.returncode:
        raise UserError(f"{' '.join(map(str, command))} failed:\n{done.stderr.strip()}")
    return done.stdout


@dataclass
class Build:
    """One built program.

    Attributes:
        kind: how it is built.
        policies: names of the policies that are linked in.
        folder: where its objects are.
    """

    kind: Kind
    policies: Sequence[str]
    folder: Path
    objects: list[Path] = field(default_factory=list)

    def compile(self, source: Path, flags: Sequence[str], name: str = "") -> Path:
        """Compile a file; the object is named after it, or as told."""
        target = self.folder / f"{name or source.stem}.o"
        compiler = os.environ.get("CC", "gcc")
        run([compiler, *flags, "-c", source, "-o", target], cwd=self.folder)
        return target

    def ours(self) -> None:
        """Compile everything but the kernel's governors."""
        flags = [*OURS, *self.kind.ours]
        listed = ", ".join(f"&{name}_policy" for name in self.policies)
        self.objects = [
            self.compile(SHIM / "mainline.c", flags),
            self.compile(HERE / "stream.c", flags),
            self.compile(HERE / "compare.c", [*flags, f"-DPOLICIES={listed}"]),
        ]
        folders = [TOP / "governors/common", *(TOP / "governors" / p for p in self.policies)]
        for folder in folders:
            for source in sorted(folder.glob("*.c")):
                if not source.stem.endswith("_kunit"):
                    self.objects.append(self.compile(source, flags))

    def mainline(self, source: Path) -> Path:
        """Compile a governor of the kernel."""
        return self.compile(
            source, [*MAINLINE, *self.kind.mainline, f"-I{source.parent}"], f"kernel_{source.stem}"
        )

    def link(self, mainline: Sequence[Path], name: str = "compare") -> Path:
        """Link the program with these objects of the kernel's governors."""
        target = self.folder / name
        run(
            [os.environ.get("CC", "gcc"), *self.kind.link, *self.objects, *mainline, "-o", target],
            cwd=self.folder,
        )
        return target
