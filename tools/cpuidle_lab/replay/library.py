# SPDX-License-Identifier: GPL-2.0
"""The governors that can be replayed, in libraries compiled at their first use.

One library holds the project's own governors, from the same files that the module is made of, and
the limits; one more for each kernel holds its governors, unmodified, from Debian's linux-source
package or from a kernel tree.
"""

import ctypes
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cpuidle_lab.errors import USAGE, UserError
from cpuidle_lab.host import project_governors
from cpuidle_lab.lab.cache import TOP, cached
from cpuidle_lab.linux_source import GOVERNORS as MAINLINE_FILES
from cpuidle_lab.linux_source import NEWEST, fetch

STATE_MAX = 10
TUNABLE_MAX = 24
LENGTH_CLASSES = 256

LIMITS = ("oracle", "bayes")
MAINLINE = ("menu", "teo", "ladder", "haltpoll")

_NATIVE = TOP / "tools" / "native"
_COMMON = ("engine.c", "points.c")
_FLAGS = ("-std=gnu11", "-O2", "-g", "-fPIC", "-Wall", "-Wextra", "-Wno-unused-parameter",
          "-Wno-sign-compare", "-Wno-missing-field-initializers")  # fmt: skip
# Thread-local data without a call; there is room for one such library, so only ours has it.
_OWN_FLAGS = (*_FLAGS, "-ftls-model=initial-exec")
# As the kernel compiles its own: signed numbers wrap. Its warnings are not our business.
_KERNEL_FLAGS = ("-std=gnu11", "-O2", "-g", "-fPIC", "-w", "-fno-strict-overflow")


class CTunable(ctypes.Structure):
    """struct cil_tunable."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("unit", ctypes.c_char_p),
        ("what", ctypes.c_char_p),
        ("why", ctypes.c_char_p),
        ("min", ctypes.c_uint32),
        ("max", ctypes.c_uint32),
        ("default", ctypes.c_uint32),
        ("names", ctypes.POINTER(ctypes.c_char_p)),
    )


class CPolicy(ctypes.Structure):
    """The head of struct cil_policy; what follows are functions."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("state_size", ctypes.c_uint32),
        ("tunables", ctypes.POINTER(CTunable)),
        ("tunable_count", ctypes.c_uint32),
    )


@dataclass(frozen=True)
class TunableInfo:
    """A tunable of a governor.

    Attributes:
        name: as in debugfs.
        unit: of its value, "" if it has none.
        what: what it does.
        min: least value accepted.
        max: greatest value accepted.
        default: value unless it is set.
        names: accepted in place of the values from 0 on; empty if it is a plain number.
    """

    name: str
    unit: str
    what: str
    min: int
    max: int
    default: int
    names: tuple[str, ...]

    def parse(self, text: str) -> int:
        """Return the value that a text means.

        Raises:
            UserError: it means none, or lies outside of the range.
        """
        if text in self.names:
            return self.names.index(text)
        try:
            value = int(text, 0)
        except ValueError:
            value = -1
        if not self.min <= value <= self.max:
            known = f" or {', '.join(self.names)}" if self.names else ""
            raise UserError(
                f"'{text}' is no value of {self.name}: {self.min} to {self.max}{known}", USAGE
            )
        return value


@dataclass(frozen=True)
class Governor:
    """A governor that can be replayed.

    Attributes:
        spec: as given on the command line.
        name: of its policy.
        library: holds its code.
        policy: address of its struct cil_policy.
        state_size: bytes of its state.
        tunables: what can be set.
    """

    spec: str
    name: str
    library: ctypes.CDLL
    policy: int
    state_size: int
    tunables: tuple[TunableInfo, ...]

    def values(self, settings: Mapping[str, str | int] | None = None) -> tuple[int, ...]:
        """Return the values of all tunables, in the order of the governor's table.

        Args:
            settings: those that differ from the default.

        Raises:
            UserError: a tunable or a value is unknown.
        """
        known = {tunable.name: tunable for tunable in self.tunables}
        values = {tunable.name: tunable.default for tunable in self.tunables}
        for name, text in (settings or {}).items():
            if name not in known:
                has = f"it has {', '.join(known)}" if known else "it has none"
                raise UserError(f"{self.spec} has no tunable '{name}'; {has}", USAGE)
            values[name] = known[name].parse(str(text))
        return tuple(values.values())


def _run(command: Sequence[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr)
        raise UserError(f"the replay library does not compile: {first.strip()}")


def _compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc")
    if not found:
        raise UserError("the replay library must be compiled first: apt install gcc libc6-dev")
    return found


def _own_sources() -> list[Path]:
    folders = ["common", "gate", *project_governors(TOP)]
    governors = [
        path
        for folder in folders
        for path in sorted((TOP / "governors" / folder).glob("*.c"))
        if not path.name.endswith("_kunit.c")
    ]
    return [*sorted((_NATIVE / "replay").glob("*.c")), *governors]


def _ingredients(sources: Sequence[Path], flags: Sequence[str]) -> list[str | bytes]:
    folders = (_NATIVE / "replay", _NATIVE / "mainline", TOP / "governors")
    headers = [path for folder in folders for path in sorted(folder.rglob("*.h"))]
    found: list[str | bytes] = [*flags]
    for path in (*headers, *sources):
        found += [path.name, path.read_bytes()]
    return found


def own_library() -> Path:
    """Return the library with the project's own governors and the limits."""
    sources = _own_sources()

    def build(target: Path) -> None:
        _run([_compiler(), *_OWN_FLAGS, "-shared", "-o", target / "replay.so", *sources, "-lm"])

    title = "Compiling the governors for replay"
    return cached("replay-own", _ingredients(sources, _OWN_FLAGS), title, build) / "replay.so"


def mainline_library(kernel: str) -> Path:
    """Return the library with a kernel's own governors.

    Args:
        kernel: a series of Debian ("7.2"), or the path of a kernel tree.

    Raises:
        UserError: there is no such kernel, or its governors do not compile.
    """
    if "/" in kernel:
        folder = Path(kernel).expanduser() / "drivers/cpuidle/governors"
        if not (folder / "menu.c").is_file():
            raise UserError(f"{kernel} is no kernel tree: it has no {folder.name}/menu.c")
    else:
        if not re.fullmatch(r"\d+\.\d+", kernel):
            raise UserError(f"'{kernel}' is no series of kernels (7.2) and no path", USAGE)
        folder = fetch(kernel).folder
    theirs = [folder / name for name in MAINLINE_FILES if (folder / name).is_file()]
    kernel_sources = [path for path in theirs if path.suffix == ".c"]
    shim = _NATIVE / "mainline"
    ours = [*sorted(shim.glob("*.c")), *(_NATIVE / "replay" / name for name in _COMMON)]
    ours.append(TOP / "governors" / "gate" / "gate.c")

    def build(target: Path) -> None:
        objects = []
        for source in kernel_sources:
            objects.append(target / f"kernel-{source.stem}.o")
            include = [f"-I{shim / 'include'}", f"-I{source.parent}"]
            _run([_compiler(), *_KERNEL_FLAGS, *include, "-c", source, "-o", objects[-1]])
        _run([_compiler(), *_FLAGS, "-shared", "-o", target / "replay.so", *objects, *ours])

    tag = re.sub(r"[^\w.]+", "-", kernel).strip("-")
    ingredients = _ingredients([*theirs, *ours], [*_FLAGS, *_KERNEL_FLAGS])
    title = f"Compiling the governors of {kernel} for replay"
    return cached(f"replay-mainline-{tag}", ingredients, title, build) / "replay.so"


@cache
def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.rp_policy_count.restype = ctypes.c_uint32
    library.rp_policy.restype = ctypes.POINTER(CPolicy)
    library.rp_open.restype = ctypes.c_void_p
    library.rp_class_length.restype = ctypes.c_double
    for name in ("rp_close", "rp_play", "rp_totals", "rp_repeat", "rp_checks"):
        getattr(library, name).restype = None
    return library


def _tunable(raw: CTunable) -> TunableInfo:
    names = tuple(raw.names[n].decode() for n in range(raw.max + 1)) if raw.names else ()
    return TunableInfo(
        raw.name.decode(),
        raw.unit.decode(),
        raw.what.decode(),
        raw.min,
        raw.max,
        raw.default,
        names,
    )


def _find(spec: str, name: str, path: Path) -> Governor | None:
    library = _load(path)
    for number in range(library.rp_policy_count()):
        found = library.rp_policy(number)
        if not found or found.contents.name.decode() != name:
            continue
        policy = found.contents
        tunables = tuple(_tunable(policy.tunables[n]) for n in range(policy.tunable_count))
        address = ctypes.cast(found, ctypes.c_void_p).value
        assert address is not None
        return Governor(spec, name, library, address, policy.state_size, tunables)
    return None


def known() -> list[str]:
    """Return what can be given as a governor, kernels by example."""
    mainline = [f"{name}@{NEWEST}" for name in MAINLINE]
    return [*project_governors(TOP), *LIMITS, *mainline]


@cache
def governor(spec: str) -> Governor:
    """Return a governor.

    Args:
        spec: a governor of the project ("wteo"), a limit ("oracle", "bayes"), or a governor of a
            kernel ("menu@7.2", "teo@/usr/src/linux").

    Raises:
        UserError: there is none such.
    """
    name, at, kernel = spec.partition("@")
    if at and name in MAINLINE:
        found = _find(spec, name, mainline_library(kernel))
        if not found:
            raise UserError(f"the kernel {kernel} has no governor {name}")
        return found
    if at or name not in (*project_governors(TOP), *LIMITS, "base"):
        raise UserError(f"unknown governor '{spec}'; there are {', '.join(known())}", USAGE)
    found = _find(spec, name, own_library())
    assert found is not None
    return found
