# SPDX-License-Identifier: GPL-2.0
"""The subject of the doctor's checks: a machine and a kernel."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from cpuidle_lab.base.findings import Finding
from cpuidle_lab.base.packages import OS_RELEASE, remedy
from cpuidle_lab.host.machine import Host


@dataclass(frozen=True)
class Subject:
    """A machine to be examined, and a kernel that it runs or could boot."""

    machine: Host
    kernel: str

    @property
    def is_running(self) -> bool:
        """True if the kernel is the one that runs."""
        return self.kernel == self.machine.kernel()

    @cached_property
    def config(self) -> dict[str, str] | None:
        """Options of the kernel, CONFIG_NAME to value; None if unknown."""
        return self.machine.kernel_config(self.kernel)

    @cached_property
    def exported(self) -> str | None:
        """The table of the symbols that the kernel exports; None without its headers."""
        return self.machine.tree.read(f"/lib/modules/{self.kernel}/build/Module.symvers")


def install(subject: Subject, *packages: str) -> str:
    """Return the remedy for missing packages, as the machine's system has them."""
    return remedy(*packages, os_release=subject.machine.tree.read(OS_RELEASE) or "", prefix="sudo ")


Check = Callable[[Subject], Iterator[Finding]]
