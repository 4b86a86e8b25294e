# SPDX-License-Identifier: GPL-2.0
"""Checks of signatures of modules, and of lockdown."""

import lzma
from collections.abc import Iterator

from cpuidle_lab.base.findings import FAIL, OK, WARN, Finding
from cpuidle_lab.base.version import __version__
from cpuidle_lab.host.doctor.subject import Check, Subject, install
from cpuidle_lab.host.machine import MODULE, Host

_GLOBAL_VARIABLE = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
_SHIM_VARIABLE = "605dab50-e046-4300-abb6-3dd810dd8b23"
# Variables of the shim: keys that are enrolled, and those that mokutil leaves for the next boot.
_ENROLLED, _PENDING = "MokListRT", "MokNew"
_EFIVARS = "/sys/firmware/efi/efivars"
_DKMS_CERTIFICATE = "/var/lib/dkms/mok.pub"
_SIGNATURE = b"~Module signature appended~\n"  # how a signed module ends

DKMS_INSTALL = f"sudo dkms install cpuidle-lab/{__version__}"
# A build makes the key where there is none yet, and signs; an install alone does neither.
_SIGN = f"sudo dkms build --force cpuidle-lab/{__version__}; {DKMS_INSTALL} --force"
_ENROL = f"sudo mokutil --import {_DKMS_CERTIFICATE}; reboot and choose 'Enroll MOK'"


def _efi_byte(machine: Host, name: str) -> int:
    # An EFI variable begins with four bytes of attributes.
    data = machine.tree.read_bytes(f"{_EFIVARS}/{name}-{_GLOBAL_VARIABLE}") or b""
    return data[4] if len(data) > 4 else 0


def _dkms_key_is_in(machine: Host, variable: str) -> bool:
    """Return whether an EFI variable of the shim holds the key of DKMS."""
    certificate = machine.tree.read_bytes(_DKMS_CERTIFICATE)
    keys = machine.tree.read_bytes(f"{_EFIVARS}/{variable}-{_SHIM_VARIABLE}")
    return bool(certificate and keys and certificate in keys)


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
    config = subject.config or {}
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
    demands = ", ".join(_demands_for_signatures(subject))
    status, found, remedy = (
        _judged(subject) if demands else (OK, "unsigned modules may be loaded", "")
    )
    yield Finding("signatures", status, f"{demands}; {found}" if demands else found, remedy)


def _judged(subject: Subject) -> tuple[str, str, str]:
    """Return status, text and remedy where signatures are demanded."""
    machine = subject.machine
    sign = f"{install(subject, 'mokutil', 'openssl')}; {_SIGN}"
    if machine.tree.exists(MODULE):
        return OK, "the module is loaded all the same", ""
    if _dkms_key_is_in(machine, _ENROLLED):
        found = "the key of DKMS is enrolled"
        if _is_unsigned(subject):
            return FAIL, f"{found}, but the installed module is not signed", sign
        return OK, found, ""
    if machine.tree.exists(_DKMS_CERTIFICATE) and not machine.tree.read_bytes(_DKMS_CERTIFICATE):
        found = "only root can tell whether the key of DKMS is enrolled"
        return WARN, found, "sudo cpuidle-lab doctor"
    if _dkms_key_is_in(machine, _PENDING):
        return FAIL, "the key of DKMS waits to be enrolled", "reboot and choose 'Enroll MOK'"
    found = "no key of DKMS is enrolled, so the module will be refused"
    return FAIL, found, f"{sign}; {_ENROL}"


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
