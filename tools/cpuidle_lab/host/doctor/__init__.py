# SPDX-License-Identifier: GPL-2.0
"""The doctor: checks whether a machine can run the module.

Each check is a generator of findings. A lack of what the module needs fails; a limit of its use
warns.
"""

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.findings import FAIL, Finding
from cpuidle_lab.host.doctor import idle, signatures, use
from cpuidle_lab.host.doctor import kernel as kernels
from cpuidle_lab.host.doctor.subject import Subject
from cpuidle_lab.host.machine import Host, parse_version

# In the order of the output. The first look at the given kernel, the others at the machine as it
# runs.
_CHECKS = (*kernels.CHECKS, *signatures.CHECKS, *idle.CHECKS, *use.CHECKS)


def examine(machine: Host, kernel: str | None = None) -> list[Finding]:
    """Examine a machine.

    Args:
        machine: where to look.
        kernel: release of the kernel to examine; None takes the running one.

    Raises:
        UserError: `kernel` is no kernel release, or the machine does not tell its own.
    """
    release = machine.kernel() if kernel is None else kernel
    try:
        parse_version(release)
    except ValueError:
        raise UserError(
            f"'{release}' is no kernel release such as 6.12.107+deb13-amd64 (see uname -r)",
            USAGE,
        ) from None
    subject = Subject(machine, release)
    return [finding for check in _CHECKS for finding in check(subject)]


def can_run(findings: list[Finding]) -> bool:
    """Return whether nothing stands against running the module."""
    return all(finding.status != FAIL for finding in findings)
