# SPDX-License-Identifier: GPL-2.0
"""Leaves one idle state enabled at a time, and puts the machine back, also after a failure.

Before the first change the old settings go to a file below /run. It is removed once they are back.
After a kill the next run finds the file, and mends. A boot clears both the file and the settings.
"""

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.sysfs import Tree

RUN = "/run"
STATE = f"{RUN}/cpuidle-lab-calibrate.json"
LOCK = f"{RUN}/cpuidle-lab-calibrate.lock"

_CPUS = "/sys/devices/system/cpu"
_SETTING = re.compile(rf"{_CPUS}/cpu\d+/cpuidle/state\d+/disable")


def online(tree: Tree) -> list[int]:
    """Return the CPUs that are online and have idle states."""
    names = (re.fullmatch(r"cpu(\d+)", name) for name in tree.names(_CPUS))
    cpus = sorted(int(match[1]) for match in names if match)
    return [
        cpu
        for cpu in cpus
        if tree.read(f"{_CPUS}/cpu{cpu}/online") in (None, "1")
        and tree.exists(f"{_CPUS}/cpu{cpu}/cpuidle/state0")
    ]


def setting(cpu: int, state: int) -> str:
    """Return the file that disables a state of a CPU."""
    return f"{_CPUS}/cpu{cpu}/cpuidle/state{state}/disable"


@contextlib.contextmanager
def alone(tree: Tree) -> Iterator[None]:
    """Keep other calibrations out.

    Raises:
        UserError: one is running, or /run cannot be written.
    """
    try:
        handle = os.open(tree.path(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError(f"{LOCK}: cannot be opened; calibrate needs root (use sudo)") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError("another calibration is running; wait for it") from None
        yield
    finally:
        os.close(handle)


def mend(tree: Tree) -> int:
    """Put back what an earlier calibration could not; return the number of settings.

    Raises:
        UserError: the file of the old settings is damaged, or the kernel refuses one.
    """
    text = tree.read(STATE)
    if text is None:
        return 0
    try:
        old = json.loads(text)
        settings = {str(name): str(value) for name, value in old["settings"].items()}
    except (ValueError, KeyError, AttributeError, TypeError):
        settings = {}
    if not settings or not all(
        _SETTING.fullmatch(name) and value in "01" for name, value in settings.items()
    ):
        raise UserError(
            f"{STATE}: is damaged; write the state/disable files back by hand and remove it"
        )
    _restore(tree, settings)
    return len(settings)


def _restore(tree: Tree, settings: dict[str, str]) -> None:
    """Write the old settings back; a CPU that went offline has none. Then forget them."""
    failed = []
    for name, value in settings.items():
        if tree.exists(name) and tree.read(name) != value:
            try:
                tree.write(name, value)
            except UserError as error:
                failed.append(error.message)
    if failed:
        raise UserError(f"{failed[0]}; {len(failed)} settings are kept in {STATE}")
    tree.path(STATE).unlink(missing_ok=True)


def _remember(tree: Tree, settings: dict[str, str]) -> None:
    path = tree.path(STATE)
    temporary = path.with_suffix(".new")
    with temporary.open("w") as stream:
        json.dump({"settings": settings}, stream)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


class Isolation:
    """The idle states of all CPUs, of which one at a time is left enabled."""

    def __init__(self, tree: Tree, cpus: list[int], states: int) -> None:
        self._tree = tree
        self._cpus = cpus
        self._states = states

    def only(self, state: int) -> None:
        """Leave one state enabled on every CPU.

        Raises:
            UserError: the kernel refuses.
        """
        for cpu in self._cpus:
            # Enabled first: no CPU is ever without a state.
            for k in sorted(range(self._states), key=lambda k: k != state):
                name, value = setting(cpu, k), str(int(k != state))
                self._tree.write(name, value)
                if self._tree.read(name) != value:
                    raise UserError(f"{name}: does not keep the value {value}")


@contextlib.contextmanager
def isolation(tree: Tree, cpus: list[int], states: int) -> Iterator[Isolation]:
    """Let the block choose the states that are enabled, and put the old settings back.

    Raises:
        UserError: a setting cannot be read, or not be put back.
        OSError: the old settings cannot be kept in /run; nothing is changed then.
    """
    settings = {}
    for cpu in cpus:
        for state in range(states):
            value = tree.read(setting(cpu, state))
            if value is None or not tree.may_write(setting(cpu, state)):
                raise UserError(
                    f"{setting(cpu, state)}: cannot be written; calibrate needs root (use sudo)"
                )
            settings[setting(cpu, state)] = value
    _remember(tree, settings)
    try:
        yield Isolation(tree, cpus, states)
    finally:
        _restore(tree, settings)
