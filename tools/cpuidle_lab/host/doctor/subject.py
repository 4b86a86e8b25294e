# SPDX-License-Identifier: GPL-2.0
"""The subject of the doctor's checks: a machine and a kernel."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cpuidle_lab.base.findings import Finding
from cpuidle_lab.host.machine import Machine


@dataclass(frozen=True)
class Subject:
    """A machine to be examined, and a kernel that it runs or could boot."""

    machine: Machine
    kernel: str

    @property
    def is_running(self) -> bool:
        """The kernel examined is the one that runs."""
        return self.kernel == self.machine.kernel()


Check = Callable[[Subject], Iterator[Finding]]
