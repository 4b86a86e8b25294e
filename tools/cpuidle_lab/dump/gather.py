# SPDX-License-Identifier: GPL-2.0
"""The files of a machine that a dump holds, read from it or by a shell script.

Needs nothing but Python itself, like all that records. No file here tells a host, a user or a
serial number.
"""

import struct
from collections.abc import Iterator

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.idle_states import ticks_per_second
from cpuidle_lab.host.machine import Host
from cpuidle_lab.host.sysfs import Tree
from cpuidle_lab.recording.dumps.model import CPUS, Moment, cpus_of, place_of

# Patterns of the shell. A file that cannot be read is left out.
PATTERNS = (
    "/proc/sys/kernel/osrelease",
    "/proc/uptime",
    f"{CPUS}/online",
    f"{CPUS}/cpuidle/*",
    f"{CPUS}/cpu[0-9]*/cpuidle/driver/name",
    f"{CPUS}/cpu[0-9]*/cpuidle/state*/*",
    f"{CPUS}/cpu[0-9]*/cpuidle/state*/s2idle/*",
    f"{CPUS}/cpu[0-9]*/topology/*_id",
    f"{CPUS}/cpu[0-9]*/cpu_capacity",
    f"{CPUS}/cpu[0-9]*/power/pm_qos_resume_latency_us",
    "/sys/devices/cpu_*/cpus",
    "/sys/class/powercap/*:*/name",
    "/sys/class/powercap/*:*/energy_uj",
    "/sys/class/powercap/*:*/max_energy_range_uj",
    "/sys/kernel/debug/pm_genpd/*/idle_states",
    "/sys/kernel/debug/pm_genpd/*/total_idle_time",
    "/sys/kernel/debug/pmc_core/package_cstate_show",
)
# Binary: an int, us.
REQUESTS = ("/dev/cpu_dma_latency", "/dev/cpu_wakeup_latency")


def _paths(tree: Tree) -> Iterator[str]:
    root = tree.root
    for pattern in PATTERNS:
        for path in sorted(root.glob(pattern.lstrip("/"))):
            yield f"/{path.relative_to(root)}"


def moment_of(host: Host, label: str = "") -> Moment:
    """Return what a machine tells now.

    Args:
        host: the machine.
        label: of the moment.

    Raises:
        UserError: no CPU has idle states.
    """
    states: dict[int, dict[int, dict[str, str]]] = {}
    facts: dict[int, dict[str, str]] = {}
    files: dict[str, str] = {}
    for path in _paths(host.tree):
        text = host.tree.read(path)
        if not text:
            continue
        place = place_of(path)
        if not place:
            files[path] = text
        elif place[1] is None:
            facts.setdefault(place[0], {})[place[2]] = text
        else:
            states.setdefault(place[0], {}).setdefault(place[1], {})[place[2]] = text
    for path in REQUESTS:
        data = host.tree.read_bytes(path) or b""
        if len(data) == struct.calcsize("=i"):
            files[path] = str(*struct.unpack("=i", data))
    if hz := ticks_per_second(host):
        files[f"/boot/config-{host.kernel()}"] = f"CONFIG_HZ={hz}"
    cpus, notes = cpus_of(states, facts)
    if not cpus:
        raise UserError("this machine shows no idle states (no cpuidle driver)")
    return Moment(cpus, files, label, notes=tuple(notes))
