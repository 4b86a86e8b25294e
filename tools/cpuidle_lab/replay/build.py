# SPDX-License-Identifier: GPL-2.0
"""Compiles the governors for userspace: the project's own, and those of a kernel, unmodified.

What is made of them is a Product: the library that replays (library.py), and the program in which
instructions are counted (instructions.py).
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cpuidle_lab.base import abi
from cpuidle_lab.base.cache import TOP, cached
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.packages import COMPILER, remedy
from cpuidle_lab.host.machine import project_governors
from cpuidle_lab.states.linux_source import GOVERNORS as MAINLINE_FILES
from cpuidle_lab.states.linux_source import at_hand, fetch

NATIVE = TOP / "tools" / "native"
# Of governors that the module no longer has, one folder each.
FORMER = NATIVE / "former"

_SHIM = NATIVE / "mainline"
# Without fused operations, which arm64 has, figures are those of x86-64 to the digit.
_FLAGS = ("-std=gnu11", "-ffp-contract=off", "-O2", "-g", "-Wall", "-Wextra",
          "-Wno-unused-parameter", "-Wno-sign-compare",
          "-Wno-missing-field-initializers")  # fmt: skip
# As the kernel compiles its own: signed numbers wrap. Its warnings are not our business.
_KERNEL_FLAGS = ("-std=gnu11", "-O2", "-g", "-w", "-fno-strict-overflow")
# The parts of the replay library that a kernel's governors are driven by.
_DRIVERS = [
    *(NATIVE / "replay" / name for name in ("engine.c", "play.c", "points.c", "trail.c")),
    TOP / "governors" / "gate" / "gate.c",
]


@dataclass(frozen=True)
class Product:
    """Library or program that is linked from governors.

    Attributes:
        file: its name.
        title: what it is, for people.
        flags: of every compilation.
        own_flags: further ones with the project's governors.
        kernel_flags: further ones of the link with a kernel's governors.
        own: sources that it has beside the project's governors.
        kernel: sources that it has beside a kernel's governors.
        headers: what these include.
    """

    file: str
    title: str
    flags: tuple[str, ...]
    own_flags: tuple[str, ...] = ()
    kernel_flags: tuple[str, ...] = ()
    own: tuple[Path, ...] = ()
    kernel: tuple[Path, ...] = ()
    headers: tuple[Path, ...] = ()


# Thread-local data of our own without a call: there is room for one such library.
LIBRARY = Product(
    file="replay.so",
    title="the replay library",
    flags=("-fPIC",),
    own_flags=("-shared", "-ftls-model=initial-exec"),
    kernel_flags=("-shared",),
)

_COUNT = NATIVE / "count"
COUNTER = Product(
    file="count",
    title="the counter of instructions",
    flags=("-fPIE", "-fno-tree-vectorize"),
    kernel_flags=("-Wl,--wrap=cpuidle_register_governor",),
    own=(_COUNT / "main.c", _COUNT / "policy.c"),
    kernel=(_COUNT / "main.c", _COUNT / "kernel.c"),
    headers=(_COUNT / "count.h",),
)


def _compiler() -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        raise UserError(f"the governors must be compiled first: {remedy(*COMPILER)}")
    return compiler


def _compile(*words: str | Path) -> None:
    done = subprocess.run([_compiler(), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr)
        raise UserError(f"the governors do not compile: {first.strip()}")


def _check_layout(target: Path) -> None:
    """Have the compiler confirm what abi.py reads from the headers."""
    source = target / "layout.c"
    source.write_text(abi.assertions(), encoding="utf-8")
    _compile("-std=gnu11", "-fsyntax-only", f"-I{TOP}", source)


def _ingredients(product: Product, sources: Sequence[Path]) -> list[str | bytes]:
    folders = (NATIVE / "replay", _SHIM, FORMER, TOP / "governors")
    headers = [path for folder in folders for path in sorted(folder.rglob("*.h"))]
    headers += [NATIVE / name for name in ("grid.h", "stay.h")]
    # Files count by their contents, wherever they lie: an installation brings what was made.
    placeless = replace(product, own=(), kernel=(), headers=())
    found: list[str | bytes] = [abi.assertions(), repr(placeless), *_FLAGS, *_KERNEL_FLAGS]
    for path in (*headers, *product.headers, *sources):
        found += [path.name, path.read_bytes()]
    return found


def _own_sources(product: Product, folder: Path) -> list[Path]:
    folders = [folder / name for name in ("common", "gate", *project_governors(TOP))]
    governors = [
        path
        for one in (*folders, *sorted(FORMER.iterdir()))
        for path in sorted(one.glob("*.c"))
        if not path.name.endswith("_kunit.c")
    ]
    return [*sorted((NATIVE / "replay").glob("*.c")), *governors, *product.own]


def compile_own(product: Product, folder: Path, target: Path) -> None:
    """Make a product of governors and the limits.

    Args:
        product: what.
        folder: with the governors' folders, as governors/ of the project.
        target: directory that gets the file.

    Raises:
        UserError: they do not compile.
    """
    flags = (*_FLAGS, *product.flags, *product.own_flags)
    _compile(*flags, "-o", target / product.file, *_own_sources(product, folder), "-lm")


def own(product: Product) -> Path:
    """Return a product with the project's own governors and the limits."""
    sources = _own_sources(product, TOP / "governors")

    def build(target: Path) -> None:
        _check_layout(target)
        compile_own(product, TOP / "governors", target)

    name = f"{Path(product.file).stem}-own"
    ingredients = _ingredients(product, sources)
    return cached(name, ingredients, f"Compiling {product.title}", build) / product.file


def _git(*words: str) -> bytes:
    """Return the output of git in this repository.

    Raises:
        UserError: it failed.
    """
    done = subprocess.run(["git", "-C", str(TOP), *words], capture_output=True, check=False)
    if done.returncode:
        raise UserError(f"git {words[0]} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def at_commit(product: Product, commit: str) -> Path:
    """Return a copy of governors/ as it was at a commit, with a product of it.

    The engine, and the governors that the module no longer has, are today's. So the headers that
    they share with the governors must be, too.

    Args:
        product: what.
        commit: as git takes it.

    Raises:
        UserError: there is no such commit, its interface was another, or it does not compile.
    """
    if commit.startswith("-") or not (TOP / ".git").exists() or not shutil.which("git"):
        raise UserError(f"'{commit}' is no commit: {TOP} is no git repository, or has none", USAGE)
    try:
        name = _git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}").decode().strip()
    except UserError:
        raise UserError(f"'{commit}' is no commit of {TOP}", USAGE) from None
    if _git("diff", "--name-only", name, "--", "governors/common/*.h"):
        raise UserError(f"{commit}: the headers of governors/common were others, so its governors "
                        "do not fit to today's replay")  # fmt: skip

    def build(target: Path) -> None:
        archive = _git("archive", name, "governors")
        subprocess.run(["tar", "-x", "--strip-components=1", "-C", str(target)], input=archive,
                       check=True)  # fmt: skip
        compile_own(product, target, target)

    ingredients = [name, *_ingredients(product, _own_sources(product, TOP / "governors"))]
    title = f"Compiling {product.title} with the governors of {commit}"
    return cached(f"{Path(product.file).stem}-commit", ingredients, title, build)


def mainline(product: Product, kernel: str) -> Path:
    """Return a product with a kernel's own governors.

    Args:
        product: what.
        kernel: a series of Debian ("7.2"), or the path of a kernel tree.

    Raises:
        UserError: there is no such kernel, or its governors do not compile.
    """
    folder = kernel_folder(kernel)
    theirs = [folder / name for name in MAINLINE_FILES if (folder / name).is_file()]
    ours = [*sorted(_SHIM.glob("*.c")), *_DRIVERS, *product.kernel]
    include = (f"-I{_SHIM / 'include'}", f"-I{folder}")

    def build(target: Path) -> None:
        _check_layout(target)
        objects = []
        for source in (path for path in theirs if path.suffix == ".c"):
            objects.append(target / f"kernel-{source.stem}.o")
            _compile(*_KERNEL_FLAGS, *product.flags, *include, "-c", source, "-o", objects[-1])
        flags = (*_FLAGS, *product.flags, *product.kernel_flags)
        _compile(*flags, "-o", target / product.file, *objects, *ours)

    # Kernel trees share a name, wherever they are.
    tag = "tree" if "/" in kernel else kernel
    name = f"{Path(product.file).stem}-mainline-{tag}"
    title = f"Compiling {product.title} with the governors of {kernel}"
    return cached(name, _ingredients(product, [*theirs, *ours]), title, build) / product.file


def compile_emitted(product: Product, name: str, source: Path, target: Path) -> None:
    """Make a product of a governor that is written for the kernel.

    Args:
        product: what.
        name: of the governor.
        source: its file.
        target: directory that gets the product.

    Raises:
        UserError: it does not compile.
    """
    made = target / f"kernel-{name}.o"
    include = f"-I{_SHIM / 'include'}"
    _compile(*_KERNEL_FLAGS, *product.flags, include, "-c", source, "-o", made)
    flags = (*_FLAGS, *product.flags, *product.kernel_flags)
    ours = [*sorted(_SHIM.glob("*.c")), *_DRIVERS, *product.kernel]
    only = f"-DMAINLINE_GOVERNORS(X)=X({name})"
    _compile(*flags, only, "-o", target / product.file, made, *ours)


def kernel_folder(kernel: str) -> Path:
    """Return the folder of a kernel's governors.

    Args:
        kernel: a series of Debian ("7.2"), or the path of a kernel tree.

    Raises:
        UserError: there is no such kernel.
    """
    if "/" not in kernel:
        if not re.fullmatch(r"\d+\.\d+", kernel):
            raise UserError(f"'{kernel}' is no series of kernels (7.2) and no path", USAGE)
        if not at_hand(kernel):
            _compiler()  # before a download that would be of no use
        return fetch(kernel).folder
    folder = Path(kernel).expanduser() / "drivers/cpuidle/governors"
    if not (folder / "menu.c").is_file():
        raise UserError(f"{kernel} is no kernel tree: it has no {folder.name}/menu.c")
    return folder
