# SPDX-License-Identifier: GPL-2.0
"""Checks of signatures of modules, and of lockdown."""

import lzma
from collections.abc import Iterator

from cpuidle_lab.base.findings import FAIL, OK, WARN, Finding
from cpuidle_lab.base.version import __version__
from cpuidle_lab.host.doctor.subject import Check, Subject
from cpuidle_lab.host.machine import MODULE, Machine

_GLOBAL_VARIABLE = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
_SHIM_VARIABLE = "605dab50-e046-4300-abb6-3dd810dd8b23"
_EFIVARS = "/sys/firmware/efi/efivars"
_DKMS_CERTIFICATE = "/var/lib/dkms/mok.pub"
_SIGNATURE = b"~Module signature appended~\n"  # how a signed module ends

DKMS_INSTALL = f"sudo dkms install cpuidle-lab/{__version__}"
# A build makes the key where there is none yet, and signs; an install alone does neither.
_SIGN = (
    f"sudo apt install mokutil openssl; sudo dkms build --force cpuidle-lab/{__version__}; "
    f"{DKMS_INSTALL} --force"
)
_ENROL = f"{_SIGN}; sudo mokutil --import {_DKMS_CERTIFICATE}; reboot and choose 'Enroll MOK'"


def _efi_byte(machine: Machine, name: str) -> int:
    # An EFI variable begins with four bytes of attributes.
    data = machine.tree.read_bytes(f"{_EFIVARS}/{name}-{_GLOBAL_VARIABLE}") or b""
    return data[4] if len(data) > 4 else 0


def _dkms_key_is_enrolled(machine: Machine) -> bool:
    certificate = machine.tree.read_bytes(_DKMS_CERTIFICATE)
    enrolled = machine.tree.read_bytes(f"{_EFIVARS}/MokListRT-{_SHIM_VARIABLE}")
    return bool(certificate and enrolled and certificate in enrolled)


def _dkms_key_is_pending(machine: Machine) -> bool:
    # File that mokutil --import leaves for the next boot.
    certificate = machine.tree.read_bytes(_DKMS_CERTIFICATE)
    pending = machine.tree.read_bytes(f"{_EFIVARS}/MokNew-{_SHIM_VARIABLE}")
    return bool(certificate and pending and certificate in pending)


def installed_module(subject: Subject) -> str | None:
    """Return the file of the module as DKMS or a build has installed it; None if there is none."""
    directory = f"/lib/modules/{subject.kernel}"
    for place in ("updates/dkms", "updates", "extra"):
        for name in subject.machine.tree.names(f"{directory}/{place}"):
            if name.startswith("cpuidle_lab.ko"):
                return f"{directory}/{place}/{name}"
    return None


def _is_unsigned(subject: Subject) -> bool:
    path = installed_module(subject)
    data = subject.machine.tree.read_bytes(path) if path else None
    if data is None or not path or not path.endswith((".ko", ".xz")):
        return False  # nothing that could be told
    try:
        plain = lzma.decompress(data) if path.endswith(".xz") else data
    except lzma.LZMAError:
        return True
    return not plain.endswith(_SIGNATURE)


def _demands_for_signatures(subject: Subject) -> list[str]:
    machine = subject.machine
    config = machine.kernel_config(subject.kernel) or {}
    demands = (
        (_efi_byte(machine, "SecureBoot") == 1, "Secure Boot is on"),
        (
            machine.tree.read("/sys/module/module/parameters/sig_enforce") in ("Y", "1"),
            "module.sig_enforce is on",
        ),
        (config.get("CONFIG_MODULE_SIG_FORCE") == "y", "the kernel was built to demand them"),
        (machine.lockdown() != "none", "the kernel is locked down"),
    )
    return [text for holds, text in demands if holds]


def _signatures(subject: Subject) -> Iterator[Finding]:
    machine = subject.machine
    reasons = _demands_for_signatures(subject)
    if not reasons:
        yield Finding("signatures", OK, "unsigned modules may be loaded")
    elif machine.tree.exists(MODULE):
        yield Finding("signatures", OK, f"{', '.join(reasons)}; the module is loaded all the same")
    elif _dkms_key_is_enrolled(machine):
        found = f"{', '.join(reasons)}; the key of DKMS is enrolled"
        if _is_unsigned(subject):
            found += ", but the installed module is not signed"
            yield Finding("signatures", FAIL, found, _SIGN)
        else:
            yield Finding("signatures", OK, found)
    elif machine.tree.exists(_DKMS_CERTIFICATE) and not machine.tree.read_bytes(_DKMS_CERTIFICATE):
        yield Finding(
            "signatures",
            WARN,
            f"{', '.join(reasons)}; only root can tell whether the key of DKMS is enrolled",
            "sudo cpuidle-lab doctor",
        )
    elif _dkms_key_is_pending(machine):
        yield Finding(
            "signatures",
            FAIL,
            f"{', '.join(reasons)}; the key of DKMS waits to be enrolled",
            "reboot and choose 'Enroll MOK'",
        )
    else:
        yield Finding(
            "signatures",
            FAIL,
            f"{', '.join(reasons)}; no key of DKMS is enrolled, so the module will be refused",
            _ENROL,
        )


def _lockdown(subject: Subject) -> Iterator[Finding]:
    level = subject.machine.lockdown()
    limits = {
        "integrity": "debugfs is closed: no state dumps, no reset; capture --stock is allowed",
        "confidentiality": "debugfs, tracing and probes are closed: no state dumps, no capture, "
        "nor capture --stock",
    }
    if level in limits:
        yield Finding(
            "lockdown",
            WARN,
            f"{level}: {limits[level]}",
            f"set tunables by {MODULE}/parameters/GOVERNOR, or turn Secure Boot off",
        )
    else:
        yield Finding("lockdown", OK, level)


CHECKS: tuple[Check, ...] = (_signatures, _lockdown)
