# SPDX-License-Identifier: GPL-2.0
"""Keeps CPUs of this machine idle: by the module, or by cpusets without it.

All ways undo themselves when this process dies, however it dies. The module forgets a lease when
its file is closed. A change of cpusets has a guardian: a shell that waits for the end of a pipe and
then undoes the change.
"""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.cache import TOP, cached
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.packages import COMPILER, remedy
from cpuidle_lab.host.machine import LAB, MODULE, Host
from cpuidle_lab.host.slices import CGROUPS, SYSTEMD, guarded, without
from cpuidle_lab.host.sysfs import Tree, cpu_list, parse_cpus, why

MODULE_METHOD, CPUSET_METHOD = "module", "cpuset"
METHODS = (MODULE_METHOD, CPUSET_METHOD)

PARTITION = f"{CGROUPS}/cpuidle-lab-evacuated"
EVACUATED = f"{LAB}/evacuate/evacuated_cpus"

_CPUS = "/sys/devices/system/cpu"
_POLICY = "module/evacuate/policy"
_SOURCES = (f"{_POLICY}/order.c", f"{_POLICY}/order.h", "governors/common/types.h")
_FULL_CAPACITY = 1024

# Ends with the pipe; Ctrl-C at a terminal must not end it before.
GUARDIAN = """
trap '' HUP INT QUIT TERM
read -r line
for task in $(cat "$1/cgroup.procs"); do echo "$task" >"$2/cgroup.procs"; done 2>/dev/null
echo member >"$1/cpuset.cpus.partition"
rmdir "$1"
"""


@dataclass(frozen=True)
class Wish:
    """The CPUs that shall go.

    Attributes:
        max_capacity_pct: share of the online CPUs that stays, 1 to 100.
        cpus: CPUs that are named; they count among those that go.
    """

    max_capacity_pct: int = 100
    cpus: tuple[int, ...] = ()


class _Cpu(ctypes.Structure):
    """struct evacuate_cpu of module/evacuate/policy/order.h."""

    _fields_ = (
        ("key", ctypes.c_uint64),
        ("cpu", ctypes.c_uint32),
        ("core", ctypes.c_uint32),
        ("package", ctypes.c_uint32),
        ("capacity", ctypes.c_uint32),
        ("asked", ctypes.c_bool),
        ("isolated", ctypes.c_bool),
    )


class _Wish(ctypes.Structure):
    """struct evacuate_wish of module/evacuate/policy/order.h."""

    _fields_ = tuple(
        (name, ctypes.c_uint32) for name in ("boot_cpu", "max_capacity_pct", "cooling", "order")
    )


def library() -> Path:
    """Return the library with the order of evacuation, the same source as the module's.

    Raises:
        UserError: there is no compiler.
    """

    def build(target: Path) -> None:
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(target / "order.so")]
        try:
            subprocess.run([*command, str(TOP / _SOURCES[0])], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UserError(
                f"the order of CPUs must be compiled first: {remedy(*COMPILER)}"
            ) from error

    recipe: list[str | bytes] = [(TOP / name).read_bytes() for name in _SOURCES]
    folder = cached("evacuation-order", recipe, "Compiling the order of evacuation", build)
    return folder / "order.so"


def _first(tree: Tree, name: str, cpu: int) -> int:
    """Return the first CPU of a list in a file; the CPU itself if there is none."""
    return (parse_cpus(tree.read(name) or "") or [cpu])[0]


def online_cpus(tree: Tree) -> list[int]:
    """Return the numbers of the online CPUs."""
    return parse_cpus(tree.read(f"{_CPUS}/online") or "0")


def choose(tree: Tree, wish: Wish) -> list[int]:
    """Return the CPUs that go by a wish, in the order of the module.

    Raises:
        UserError: the wish names an offline CPU or all CPUs, or there is no compiler.
    """
    online = online_cpus(tree)
    named = set(wish.cpus)
    if not named <= set(online):
        raise UserError(f"not online: CPU {cpu_list(sorted(named - set(online)))}", USAGE)
    if named == set(online):
        raise UserError("one CPU must stay", USAGE)
    isolated = set(parse_cpus(tree.read(f"{_CPUS}/isolated") or ""))
    cpus = (_Cpu * len(online))()
    for described, cpu in zip(cpus, online, strict=True):
        topology = f"{_CPUS}/cpu{cpu}/topology"
        described.cpu = cpu
        described.core = _first(tree, f"{topology}/core_cpus_list", cpu)
        described.package = _first(tree, f"{topology}/package_cpus_list", cpu)
        capacity = tree.read(f"{_CPUS}/cpu{cpu}/cpu_capacity")
        described.capacity = int(capacity or _FULL_CAPACITY)
        described.asked = cpu in named
        described.isolated = cpu in isolated
    wanted = _Wish(boot_cpu=online[0], max_capacity_pct=wish.max_capacity_pct)
    go = ctypes.CDLL(str(library())).evacuate_choose(cpus, len(online), ctypes.byref(wanted))
    return sorted(described.cpu for described in cpus[:go])


@contextlib.contextmanager
def _by_module(machine: Host, wish: Wish) -> Iterator[list[int]]:
    lease = machine.tree.path(f"{LAB}/evacuate/lease")
    if not machine.tree.exists(MODULE):
        raise UserError(
            "cpuidle_lab is not loaded: sudo modprobe cpuidle_lab, or use --method cpuset"
        )
    try:
        # Closed at an exec, so that no child keeps the lease alive.
        file = os.open(lease, os.O_WRONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UserError(f"cannot open {lease}: {why(error)}") from error
    try:
        for line in _lines(wish):
            os.write(file, line.encode())
        yield parse_cpus(machine.tree.read(EVACUATED) or "")
    except OSError as error:
        raise UserError(f"the kernel refuses to evacuate: {why(error)}") from error
    finally:
        os.close(file)


def _lines(wish: Wish) -> Iterator[str]:
    if wish.max_capacity_pct != Wish.max_capacity_pct:
        yield f"max_capacity_pct={wish.max_capacity_pct}"
    if wish.cpus:
        yield f"evacuate_cpus={cpu_list(wish.cpus)}"


def _make_partition(tree: Tree, cpus: list[int]) -> None:
    if "cpuset" not in (tree.read(f"{CGROUPS}/cgroup.controllers") or "").split():
        raise UserError(f"{CGROUPS} has no controller cpuset of cgroup v2")
    if "cpuset" not in (tree.read(f"{CGROUPS}/cgroup.subtree_control") or "").split():
        tree.write(f"{CGROUPS}/cgroup.subtree_control", "+cpuset")
    try:
        tree.path(PARTITION).mkdir()
    except FileExistsError:
        raise UserError(f"{PARTITION} exists: another evacuation runs, or was left") from None
    except OSError as error:
        raise UserError(f"cannot make {PARTITION}: {why(error)}") from error


@contextlib.contextmanager
def _in_partition(tree: Tree, cpus: list[int]) -> Iterator[None]:
    """Put the CPUs into an isolated partition in which no task is."""
    _make_partition(tree, cpus)
    with guarded(GUARDIAN, [str(tree.path(PARTITION)), str(tree.path(CGROUPS))]):
        tree.write(f"{PARTITION}/cpuset.cpus", cpu_list(cpus))
        tree.write(f"{PARTITION}/cpuset.cpus.partition", "isolated")
        state = tree.read(f"{PARTITION}/cpuset.cpus.partition")
        if state != "isolated":
            raise UserError(f"the kernel refuses the partition: {state}")
        yield


@contextlib.contextmanager
def _by_cpuset(machine: Host, wish: Wish) -> Iterator[list[int]]:
    """Take the CPUs from all tasks: through systemd where it runs, else by a partition."""
    tree = machine.tree
    cpus = choose(tree, wish)
    if not cpus:
        yield []
        return
    way = without if tree.exists(SYSTEMD) else _in_partition
    with way(tree, cpus):
        yield cpus


def evacuated(
    machine: Host, wish: Wish, method: str
) -> contextlib.AbstractContextManager[list[int]]:
    """Keep CPUs idle while the context lasts.

    Args:
        machine: the running one.
        wish: the CPUs that shall go.
        method: one of METHODS.

    Returns:
        a context whose value is the list of evacuated CPUs.

    Raises:
        UserError: on entry, if the machine refuses; nothing has changed then.
    """
    return (_by_module if method == MODULE_METHOD else _by_cpuset)(machine, wish)
