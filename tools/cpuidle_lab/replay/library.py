# SPDX-License-Identifier: GPL-2.0
"""The governors that can be replayed, in libraries compiled at their first use.

One library holds the project's own governors, from the same files that the module is made of, and
the limits; one more for each kernel holds its governors, unmodified, from Debian's linux-source
package or from a kernel tree.
"""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from cpuidle_lab.base import abi
from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.host.machine import MOVED, project_governors
from cpuidle_lab.replay import build
from cpuidle_lab.states.linux_source import NEWEST

STATE_MAX = abi.constant("CIL_STATE_MAX")
TUNABLE_MAX = abi.constant("CIL_TUNABLE_MAX")
LENGTH_CLASSES = abi.constant("RP_LENGTH_CLASSES")

LIMITS = ("oracle", "bayes")
MAINLINE = ("menu", "teo", "ladder", "haltpoll")

# There may be many of these.
_VARIANT = replace(build.LIBRARY, own_flags=("-shared",))


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
        folder: where its sources are, if these are not the project's; see variant().
    """

    spec: str
    name: str
    library: ctypes.CDLL
    policy: int
    state_size: int
    tunables: tuple[TunableInfo, ...]
    folder: Path | None = None

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


@cache
def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.rp_policy_count.restype = ctypes.c_uint32
    library.rp_policy.restype = ctypes.POINTER(abi.struct("cil_policy"))
    library.rp_open.restype = ctypes.c_void_p
    library.rp_copy.restype = ctypes.c_void_p
    quiet = (
        "close",
        "drive",
        "conceal",
        "play",
        "judge",
        "restore",
        "forget_totals",
        "totals",
        "breaches",
        "repeat",
        "checks",
    )
    for name in (f"rp_{word}" for word in quiet):
        getattr(library, name).restype = None
    return library


def _tunable(raw: ctypes.Structure) -> TunableInfo:
    names = tuple(raw.names[n].decode() for n in range(raw.max + 1)) if raw.names else ()
    return TunableInfo(
        raw.name.decode(),
        raw.unit.decode(),
        raw.what.decode(),
        raw.min,
        raw.max,
        getattr(raw, "def"),
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


def variant(spec: str, name: str, folder: Path) -> Governor:
    """Return one of the project's governors as other sources make it.

    Args:
        spec: what it is called.
        name: of the governor.
        folder: a copy of governors/; the library is compiled into it at the first use.

    Raises:
        UserError: it does not compile.
    """
    path = folder / _VARIANT.file
    if not path.exists():
        build.compile_own(_VARIANT, folder, folder)
    found = _find(spec, name, path)
    assert found is not None
    return replace(found, folder=folder)


def emitted(name: str, source: Path, folder: Path) -> Governor:
    """Return a governor that is written for the kernel, in the stand-in for the kernel.

    Args:
        name: of the governor.
        source: its file.
        folder: directory that gets the library, a new one for each.

    Raises:
        UserError: it does not compile.
    """
    build.compile_emitted(build.LIBRARY, name, source, folder)
    found = _find(f"{name}@{source.name}", name, folder / build.LIBRARY.file)
    assert found is not None
    return found


def known() -> list[str]:
    """Return what can be given as a governor, kernels by example."""
    mainline = [f"{name}@{NEWEST}" for name in MAINLINE]
    return [*project_governors(TOP), *LIMITS, *mainline]


def own() -> list[str]:
    """Return the project's governors, those that the module no longer has among them."""
    return [*project_governors(TOP), *MOVED]


@cache
def governor(spec: str) -> Governor:
    """Return a governor.

    Args:
        spec: a governor of the project ("wteo"), the same at a commit ("wteo@HEAD~3"), a limit
            ("oracle", "bayes"), or a governor of a kernel ("menu@7.2", "teo@/usr/src/linux").

    Raises:
        UserError: there is none such.
    """
    name, at, kernel = spec.partition("@")
    if at and name in MAINLINE:
        found = _find(spec, name, _packaged(kernel))
        if not found:
            raise UserError(f"the kernel {kernel} has no governor {name}")
        return found
    if at and kernel and name in project_governors(TOP):
        folder = build.at_commit(_VARIANT, kernel)
        if not (folder / name).is_dir():
            raise UserError(f"{kernel} has no governor {name}")
        return variant(spec, name, folder)
    if at or name not in (*own(), *LIMITS, "base"):
        raise UserError(f"unknown governor '{spec}'; there are {', '.join(known())}", USAGE)
    found = _find(spec, name, _ours())
    assert found is not None
    return found


# To find a library that is made takes 15 ms: all sources are hashed.


@cache
def _ours() -> Path:
    """Return the library of the project's governors, as their sources were at first."""
    return build.own(build.LIBRARY)


def _packaged(kernel: str) -> Path:
    """Return the library of a kernel's governors; a tree may be edited meanwhile."""
    return build.mainline(build.LIBRARY, kernel) if "/" in kernel else _of_series(kernel)


@cache
def _of_series(kernel: str) -> Path:
    return build.mainline(build.LIBRARY, kernel)
