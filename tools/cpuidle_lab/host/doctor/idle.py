# SPDX-License-Identifier: GPL-2.0
"""Checks of idle states, drivers and governors."""

import re
from collections.abc import Iterable, Iterator, Sequence

from cpuidle_lab.base.findings import FAIL, OK, WARN, Finding
from cpuidle_lab.host.doctor.subject import Check, Subject
from cpuidle_lab.host.machine import CPUIDLE, CPUS, Host, IdleState
from cpuidle_lab.host.sysfs import cpu_list

_EMULATE = "sudo modprobe cpuidle_emul machine=skx gives this machine idle states to choose from"

_UNASKED = "no governor is ever asked"

# Methods of entry, as drivers describe idle states; psci_idle names no method.
_METHOD = re.compile(r"\b(MWAIT|HLT|IOPORT|WFI)\b")


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
    yield from _states(machine)
    yield Finding(
        "governors",
        OK,
        f"{machine.governor() or 'none'} is in use; offered: {' '.join(machine.governors())}",
    )


def _drop_word(word: str) -> str:
    return f"remove {word} from the command line in /etc/default/grub; sudo update-grub; reboot"


def _states(machine: Host) -> Iterator[Finding]:
    for word in ("idle=poll", "nohlt"):
        if word in machine.command_line():
            found = f"{word} on the kernel's command line: {_UNASKED}"
            yield Finding("idle states", WARN, found, _drop_word(word))
            return
    driver, kinds = machine.driver(), machine.idle_states()
    if driver is None or not kinds:
        found = "no idle driver" if driver is None else f"{driver} without idle states"
        yield Finding("idle states", WARN, f"{found}: {_UNASKED}", _EMULATE)
        return
    listing = _by_cpus((cpus, map(str, states)) for states, cpus in kinds.items())
    if all(len(states) == 1 for states in kinds):
        remedy = "look for a limit on idle states in the firmware's set-up or on the command line"
        yield Finding("idle states", WARN, f"{driver}: only {listing}: {_UNASKED}", remedy)
    else:
        yield Finding("idle states", OK, f"{driver}: {listing}")
    wrong = [
        (cpus, [f"{fault} of {one.name}" for one in states for fault in one.faults])
        for states, cpus in kinds.items()
    ]
    if any(texts for _, texts in wrong):
        remedy = "correct the driver's table or the firmware: figures would be of other idle states"
        yield Finding("values of states", WARN, f"no such can be: {_by_cpus(wrong)}", remedy)
    methods = [(cpus, _methods(driver, states)) for states, cpus in kinds.items()]
    if any(texts for _, texts in methods):
        yield Finding("entry method", OK, _by_cpus(methods))
    off = [(cpus, [one.name for one in states if one.disabled]) for states, cpus in kinds.items()]
    if any(names for _, names in off):
        remedy = f"write 0 to {CPUS}/cpuN/cpuidle/stateK/disable, unless this is wanted"
        yield Finding("disabled states", WARN, _by_cpus(off), remedy)


def _by_cpus(tables: Iterable[tuple[list[int], Iterable[str]]]) -> str:
    """Return the texts of each table of idle states behind its CPUs, which one table does without.

    Args:
        tables: CPUs, and texts of their idle states; a table without texts is left out.
    """
    found = [(cpu_list(cpus), ", ".join(texts)) for cpus, texts in tables]
    if len(found) == 1:
        return found[0][1]
    return "; ".join(f"CPU {cpus}: {text}" for cpus, text in found if text)


def _methods(driver: str, states: Sequence[IdleState]) -> list[str]:
    """Return each method of entry that sysfs shows, with the names of its idle states."""
    found: dict[str, list[str]] = {}
    for state in states:
        shown = _METHOD.search(state.description)
        if shown or driver == "psci_idle":
            found.setdefault(shown[0] if shown else "PSCI", []).append(state.name)
    return [f"{method} for {' '.join(names)}" for method, names in found.items()]


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
