# SPDX-License-Identifier: GPL-2.0
"""Checks of a kernel: version, headers, options, and programs in BPF."""

from collections.abc import Iterator

from cpuidle_lab.base.findings import FAIL, OK, WARN, Finding
from cpuidle_lab.host.doctor.subject import Check, Subject
from cpuidle_lab.host.machine import parse_version

OLDEST_KERNEL = (6, 1)

# Option of the kernel, status without it, what it is for.
_OPTIONS = (
    ("CONFIG_MODULES", FAIL, "loading any module"),
    ("CONFIG_CPU_IDLE", FAIL, "idle governors"),
    ("CONFIG_KPROBES", FAIL, "finding the functions that the kernel does not export"),
    ("CONFIG_KALLSYMS_ALL", FAIL, "finding the kernel's governor list"),
    ("CONFIG_TRACEPOINTS", FAIL, "the trace events"),
    ("CONFIG_DEBUG_FS", WARN, "tunables in debugfs; the module's parameters still set them"),
)

# The emulated machine is built with the module, but on x86 only.
_EMULATOR = "cpuidle_emul, which DKMS builds with the module"
_X86_OPTIONS = tuple(
    (f"CONFIG_{name}", FAIL, _EMULATOR) for name in ("HIGH_RES_TIMERS", "POWERCAP")
)
_NOT_X86 = ("CONFIG_ARM64", "CONFIG_PPC64")


def _kernel(subject: Subject) -> Iterator[Finding]:
    good = parse_version(subject.kernel) >= OLDEST_KERNEL
    yield Finding(
        "kernel",
        OK if good else FAIL,
        f"{subject.kernel}{'' if subject.is_running else ' (not the running one)'}",
        "" if good else "boot Linux 6.1 or newer",
    )


def _headers(subject: Subject) -> Iterator[Finding]:
    directory = f"/lib/modules/{subject.kernel}"
    tree = subject.machine.tree
    if not tree.exists(directory):
        yield Finding(
            "headers",
            FAIL,
            f"{directory} is missing: this kernel is not installed",
            f"sudo apt install linux-image-{subject.kernel} linux-headers-{subject.kernel}",
        )
    elif tree.exists(f"{directory}/build/Makefile"):
        yield Finding("headers", OK, f"{directory}/build")
    elif tree.exists(f"{directory}/build"):
        yield Finding(
            "headers",
            FAIL,
            f"{directory}/build is incomplete",
            f"sudo apt install --reinstall linux-headers-{subject.kernel}",
        )
    else:
        yield Finding(
            "headers",
            FAIL,
            f"{directory}/build is missing",
            f"sudo apt install linux-headers-{subject.kernel}",
        )


def _options(subject: Subject) -> Iterator[Finding]:
    config = subject.machine.kernel_config(subject.kernel)
    if config is None:
        yield Finding(
            "config",
            WARN,
            "the kernel's configuration is nowhere to be read",
            f"install the package that holds /boot/config-{subject.kernel}",
        )
        return
    x86 = not any(config.get(name) == "y" for name in _NOT_X86)
    for option, without, purpose in (*_OPTIONS, *(_X86_OPTIONS if x86 else ())):
        if config.get(option) == "y":
            yield Finding(option, OK, "y")
        else:
            yield Finding(option, without, f"not set, needed for {purpose}", "boot Debian's kernel")


def _programs(subject: Subject) -> Iterator[Finding]:
    exported = subject.machine.tree.read(f"/lib/modules/{subject.kernel}/build/Module.symvers")
    if exported is None:
        return  # the headers are not there, and another finding says so
    if "\t__register_bpf_struct_ops\t" in exported:
        yield Finding("BPF", OK, "the kernel takes governors as programs (cpuidle-lab bpf)")
    else:
        yield Finding(
            "BPF",
            WARN,
            "the kernel takes no governors as programs; all else works",
            "boot Linux 6.12 or newer to use cpuidle-lab bpf",
        )


CHECKS: tuple[Check, ...] = (_kernel, _headers, _options, _programs)
