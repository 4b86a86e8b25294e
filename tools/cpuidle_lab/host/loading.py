# SPDX-License-Identifier: GPL-2.0
"""Loading of the project's module for a time, where the machine has it installed."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from cpuidle_lab.host.machine import Host


@contextmanager
def module(machine: Host, load: bool = True) -> Iterator[None]:
    """Load the module if it can be, and unload it again."""
    loaded = load and machine.module_version() is None and _modprobe("cpuidle_lab")
    try:
        yield
    finally:
        if loaded:
            _modprobe("--remove", "cpuidle_lab")


def _modprobe(*words: str) -> bool:
    try:
        return not subprocess.run(["modprobe", *words], capture_output=True, check=False).returncode
    except OSError:
        return False
