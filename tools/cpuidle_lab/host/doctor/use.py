# SPDX-License-Identifier: GPL-2.0
"""Checks of the module's use: programs, mounts, counters of energy, permission."""

import os
from collections.abc import Iterator

from cpuidle_lab.base.findings import OK, WARN, Finding
from cpuidle_lab.base.version import __version__
from cpuidle_lab.host import energy
from cpuidle_lab.host.doctor.signatures import DKMS_INSTALL, installed_module
from cpuidle_lab.host.doctor.subject import Check, Subject, install
from cpuidle_lab.host.machine import DEBUGFS, TRACEFS, trace_cmd_is_usable


def _tools(subject: Subject) -> Iterator[Finding]:
    machine = subject.machine
    if machine.tool("dkms"):
        yield Finding("dkms", OK, machine.tool_version("dkms") or "installed")
    else:
        yield Finding(
            "dkms",
            WARN,
            "not installed: the module is not rebuilt for a new kernel",
            install(subject, "dkms"),
        )
    version = machine.tool_version("trace-cmd")
    if version is None:
        yield Finding("trace-cmd", WARN, "not installed: no capture", install(subject, "trace-cmd"))
    elif not trace_cmd_is_usable(version):
        yield Finding(
            "trace-cmd",
            WARN,
            f"{version or 'unknown version'}: 3.1 or newer is needed to capture",
            "install a newer trace-cmd",
        )
    else:
        yield Finding("trace-cmd", OK, version)


def _mounts(subject: Subject) -> Iterator[Finding]:
    machine = subject.machine
    for kind, directory, purpose in (
        ("debugfs", DEBUGFS, "tunables and state dumps"),
        ("tracefs", TRACEFS, "capture"),
    ):
        if machine.is_mounted(directory):
            yield Finding(kind, OK, directory)
        else:
            yield Finding(
                kind,
                WARN,
                f"not mounted on {directory}: no {purpose}",
                f"sudo mount -t {kind} {kind} {directory}",
            )


def _energy(subject: Subject) -> Iterator[Finding]:
    readings, unreadable = energy.read_zones(subject.machine.tree)
    if unreadable:
        yield Finding(
            "powercap",
            WARN,
            f"cannot be read: {', '.join(unreadable)}: no measured energy",
            "sudo cpuidle-lab doctor; capture and ab want root, too",
        )
    elif readings:
        yield Finding("powercap", OK, ", ".join(reading.name for reading in readings))
    else:
        yield Finding("powercap", OK, "no energy counters: reports have modelled energy only")


def _module(subject: Subject) -> Iterator[Finding]:
    machine = subject.machine
    version = machine.module_version()
    if version is not None:
        same = version in ("", __version__)
        yield Finding(
            "module",
            OK if same else WARN,
            f"cpuidle_lab {version or '(version unknown)'} is loaded",
            "" if same else f"these tools are {__version__}: install the module that goes with it",
        )
        return
    installed = installed_module(subject) is not None
    yield Finding(
        "module",
        WARN,
        "cpuidle_lab is installed, not loaded" if installed else "cpuidle_lab is not installed",
        "sudo modprobe cpuidle_lab"
        if installed
        else f"in the project's directory: sudo make dkms-sources; {DKMS_INSTALL}",
    )


def _permission(subject: Subject) -> Iterator[Finding]:
    if os.geteuid() == 0:
        yield Finding("permission", OK, "root")
    else:
        yield Finding(
            "permission",
            WARN,
            "not root: the key of DKMS and the contents of debugfs and tracefs were not checked",
            "sudo cpuidle-lab doctor",
        )


CHECKS: tuple[Check, ...] = (_tools, _mounts, _energy, _module, _permission)
