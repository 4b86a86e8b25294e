# SPDX-License-Identifier: GPL-2.0
"""Checks of idle states, drivers and governors."""

from collections.abc import Iterator

from cpuidle_lab.base.findings import FAIL, OK, WARN, Finding
from cpuidle_lab.host.doctor.subject import Check, Subject
from cpuidle_lab.host.machine import CPUIDLE, Machine
from cpuidle_lab.host.sysfs import cpu_list

_EMULATE = "sudo modprobe cpuidle_emul machine=skx gives this machine idle states to choose from"


def _cpuidle(subject: Subject) -> Iterator[Finding]:
    machine = subject.machine
    if machine.tree.read("/sys/module/cpuidle/parameters/off") == "1":
        yield Finding(
            "cpuidle",
            FAIL,
            "switched off on the kernel's command line",
            _drop_word("cpuidle.off=1"),
        )
        return
    if not machine.tree.exists(CPUIDLE):
        yield Finding("cpuidle", FAIL, "the kernel has no cpuidle", "boot Debian's kernel")
        return
    yield Finding("cpuidle", OK, "on")
    yield _driver(machine)
    yield Finding(
        "governors",
        OK,
        f"{machine.governor() or 'none'} is in use; offered: {' '.join(machine.governors())}",
    )


def _drop_word(word: str) -> str:
    return f"remove {word} from the command line in /etc/default/grub; sudo update-grub; reboot"


def _driver(machine: Machine) -> Finding:
    for word in ("idle=poll", "nohlt"):
        if word in machine.command_line():
            return Finding(
                "idle states",
                WARN,
                f"{word} on the kernel's command line: no governor is ever asked",
                _drop_word(word),
            )
    driver = machine.driver()
    kinds = machine.idle_states()
    if driver is None or not kinds:
        found = "no idle driver" if driver is None else f"{driver} without idle states"
        return Finding("idle states", WARN, f"{found}: no governor is ever asked", _EMULATE)
    listing = "; ".join(
        (f"CPU {cpu_list(cpus)}: " if len(kinds) > 1 else "") + ", ".join(map(str, states))
        for states, cpus in kinds.items()
    )
    if all(len(states) == 1 for states in kinds):
        return Finding(
            "idle states",
            WARN,
            f"{driver}: only {listing}: no governor is ever asked",
            "look for a limit on idle states in the firmware's set-up or on the command line",
        )
    return Finding("idle states", OK, f"{driver}: {listing}")


def _virtualisation(subject: Subject) -> Iterator[Finding]:
    machine = subject.machine
    flags = machine.tree.read("/proc/cpuinfo") or ""
    if not any(
        "hypervisor" in line.split() for line in flags.splitlines() if line.startswith("flags")
    ):
        yield Finding("virtualisation", OK, "none: the idle states are the hardware's")
        return
    vendor = machine.tree.read("/sys/class/dmi/id/sys_vendor") or "an unknown hypervisor"
    emulated = machine.driver() == "cpuidle_emul"
    yield Finding(
        "virtualisation",
        OK if emulated else WARN,
        f"guest of {vendor}: residencies and energy say nothing about hardware",
        "" if emulated else "measure on hardware, or in the lab: cpuidle-lab lab --help",
    )


CHECKS: tuple[Check, ...] = (_cpuidle, _virtualisation)
