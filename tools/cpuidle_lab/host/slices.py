# SPDX-License-Identifier: GPL-2.0
"""Takes CPUs from all units of systemd at once, by their property AllowedCPUs.

systemd owns the hierarchy of cgroups on a machine that it started. A partition made beside its
units would be lost at its next change, so its own interface is used.
"""

import contextlib
import fcntl
import os
import subprocess
import time
from collections.abc import Iterator, Sequence

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.sysfs import Tree, cpu_list, parse_cpus, why

SYSTEMD = "/run/systemd/system"
CGROUPS = "/sys/fs/cgroup"
PRESENT = "/sys/devices/system/cpu/present"
ONLINE = "/sys/devices/system/cpu/online"
LOCK = "/run/cpuidle-lab-evacuate.lock"

# systemd answers before it has written to the cgroup.
_TAKES_EFFECT_S = 2.0
_TOOL_TIMEOUT_S = 30

# Ends with the pipe. An empty list may leave the cgroup as it is, so all CPUs come before it.
GUARDIAN = """
trap '' HUP INT QUIT TERM
read -r line
all=$1
shift
while [ $# -gt 1 ]; do
    [ -n "$2" ] || systemctl set-property --runtime "$1" "AllowedCPUs=$all"
    systemctl set-property --runtime "$1" "AllowedCPUs=$2"
    shift 2
done
"""


@contextlib.contextmanager
def guarded(script: str, arguments: Sequence[str], *held: int) -> Iterator[None]:
    """Run a script of the shell when the context ends, or when this process dies.

    Args:
        script: waits for the end of its standard input before it undoes anything.
        arguments: of the script.
        held: file descriptors that stay open as long as the script runs.
    """
    guardian = subprocess.Popen(
        ["sh", "-c", script, "sh", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=held,
    )
    try:
        yield
    finally:
        assert guardian.stdin is not None
        guardian.stdin.close()
        guardian.wait()


def units(tree: Tree) -> list[str]:
    """Return systemd's units at the top of the hierarchy: together they have all its processes."""
    names = [path.name for path in tree.path(CGROUPS).glob("*.*") if path.is_dir()]
    return sorted(name for name in names if name.endswith((".slice", ".scope")))


def _systemctl(*arguments: str) -> str:
    command = ["systemctl", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=_TOOL_TIMEOUT_S
        )
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip() or f"exit code {error.returncode}").splitlines()[-1]
        raise UserError(f"systemctl {arguments[0]} fails: {said}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"systemctl {arguments[0]} fails: {error}") from error
    return done.stdout.strip()


def _take_lock(tree: Tree) -> int:
    try:
        file = os.open(tree.path(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(f"cannot open {LOCK}: {why(error)}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise UserError("another evacuation by cpuset runs") from None
    return file


def _is_without(tree: Tree, unit: str, stay: set[int]) -> bool:
    text = tree.read(f"{CGROUPS}/{unit}/cpuset.cpus.effective")
    return bool(text) and set(parse_cpus(text or "")) <= stay


def _restrict(tree: Tree, unit: str, stay: set[int]) -> None:
    """Leave some CPUs to a unit, and wait until that is so."""
    _systemctl("set-property", "--runtime", unit, f"AllowedCPUs={cpu_list(sorted(stay))}")
    end_s = time.monotonic() + _TAKES_EFFECT_S
    while not _is_without(tree, unit, stay):
        if time.monotonic() > end_s:
            raise UserError(f"{unit} keeps its CPUs; {CGROUPS} needs cgroup v2's cpuset")
        time.sleep(0.01)


def _left_to(unit: str, allowed: str, online: set[int], cpus: Sequence[int]) -> set[int]:
    """Return the CPUs that stay for a unit.

    Args:
        unit: of systemd, for the message.
        allowed: its property AllowedCPUs, empty for all.
        online: all CPUs that it may have.
        cpus: those that go.

    Raises:
        UserError: none stays.
    """
    own = set(parse_cpus(allowed.replace(" ", ","))) or online
    stay = own - set(cpus)
    if not stay & online:
        raise UserError(f"{unit} may use no other CPU: its AllowedCPUs is {allowed}")
    return stay


@contextlib.contextmanager
def without(tree: Tree, cpus: Sequence[int]) -> Iterator[None]:
    """Keep all units of systemd off some CPUs while the context lasts.

    Args:
        tree: of the machine.
        cpus: those that go; at least one online CPU stays.

    Raises:
        UserError: on entry, if systemd or a unit cannot; nothing has changed then.
    """
    online = set(parse_cpus(tree.read(ONLINE) or "0"))
    lock = _take_lock(tree)
    try:
        names = units(tree)
        if not names:
            raise UserError(f"systemd has no unit in {CGROUPS}: cgroup v2 is needed")
        before = {
            name: _systemctl("show", "--property=AllowedCPUs", "--value", name) for name in names
        }
        stay = {name: _left_to(name, text, online, cpus) for name, text in before.items()}
        words = [word for pair in before.items() for word in pair]
        with guarded(GUARDIAN, [tree.read(PRESENT) or cpu_list(sorted(online)), *words], lock):
            for name in names:
                _restrict(tree, name, stay[name])
            yield
    finally:
        os.close(lock)
