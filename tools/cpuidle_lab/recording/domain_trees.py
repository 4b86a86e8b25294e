# SPDX-License-Identifier: GPL-2.0
"""Trees of domains by any name: those of domain_files, and those of machines with ACPI _LPI.

lpi:this              the running machine, from sysfs
lpi:DUMP              a dump of sysfs (cpuidle-lab dump, grep)
"""

from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.machine import Host
from cpuidle_lab.recording.dumps import reading
from cpuidle_lab.recording.dumps.tables import MomentTree
from cpuidle_lab.states import domain_files, lpi
from cpuidle_lab.states.domains import Rule

_LPI = "lpi:"


def read(spec: str) -> tuple[list[Rule], domain_files.Cpus]:
    """Return the domains of a name: rules, and the CPUs of those that list theirs.

    Raises:
        UserError: there is none such, or it cannot be read.
    """
    if not spec.startswith(_LPI):
        return domain_files.read(spec)
    name = spec.removeprefix(_LPI)
    if name == "this":
        found = lpi.read(Host().tree, "this machine")
    else:
        dump = reading.read(Path(name))
        if not dump.moments:
            raise UserError(f"{name}: {dump.form} tells no latencies of idle states: take a dump")
        found = lpi.read(MomentTree(dump.moments[0]), name)
    return [rule for rule, _ in found], {rule.name: cpus for rule, cpus in found}
