# SPDX-License-Identifier: GPL-2.0
"""Checks of a kernel: version, headers, options, compiler, and programs in BPF."""

import re
from collections.abc import Iterator

from cpuidle_lab.base.findings import FAIL, OK, WARN, Finding
from cpuidle_lab.host.doctor.subject import Check, Subject, install
from cpuidle_lab.host.machine import parse_version

OLDEST_KERNEL = (6, 1)

# Releases of Debian's and Ubuntu's kernels, after which their packages are named.
_PACKAGED = re.compile(
    r"\d+\.\d+\.\d+(\+deb\d+\w*|\+bpo)?(-\d+)?-((cloud|rt)-)?(amd64|arm64|powerpc64le)(-\d+k)?"
    r"|\d+\.\d+\.0-\d+-(generic|lowlatency)"
)

# Options that dkms.conf demands, with their use. A test compares both lists.
_EMULATOR = "cpuidle_emul, which DKMS builds with the module"
NEEDED = {
    "CONFIG_CPU_IDLE": "idle governors",
    "CONFIG_NO_HZ_COMMON": "the sleep length, which governors read",
    "CONFIG_KPROBES": "finding the functions that the kernel does not export",
    "CONFIG_KALLSYMS_ALL": "finding the kernel's governor list",
    "CONFIG_TRACEPOINTS": "the trace events",
    "CONFIG_CGROUPS": "hints of groups",
    "CONFIG_RT_MUTEXES": "the lock of the hints",
}
NEEDED_ON_X86 = {"CONFIG_HIGH_RES_TIMERS": _EMULATOR, "CONFIG_POWERCAP": _EMULATOR}
_NOT_X86 = ("CONFIG_ARM64", "CONFIG_PPC64")
_DEBUG_FS = "tunables in debugfs; the module's parameters still set them"

# Symbols that the module imports, and that few modules of the kernel use.
_IMPORTED = ("register_kprobe", "unregister_kprobe")


def _kernel(subject: Subject) -> Iterator[Finding]:
    good = parse_version(subject.kernel) >= OLDEST_KERNEL
    yield Finding(
        "kernel",
        OK if good else FAIL,
        f"{subject.kernel}{'' if subject.is_running else ' (not the running one)'}",
        "" if good else "boot Linux 6.1 or newer",
    )


def _headers(subject: Subject) -> Iterator[Finding]:
    tree, release = subject.machine.tree, subject.kernel
    directory = f"/lib/modules/{release}"
    packages = [f"linux-headers-{release}"]
    if tree.exists(f"{directory}/build/Makefile"):
        yield Finding("headers", OK, f"{directory}/build")
        return
    if not tree.exists(directory):
        found = f"{directory} is missing: this kernel is not installed"
        packages.insert(0, f"linux-image-{release}")
    elif tree.exists(f"{directory}/build"):
        found = f"{directory}/build is incomplete"
        packages.insert(0, "--reinstall")
    else:
        found = f"{directory}/build is missing"
    known = _PACKAGED.fullmatch(release)
    remedy = "install the headers that were made with this kernel; Debian has no package of them"
    yield Finding("headers", FAIL, found, install(subject, *packages) if known else remedy)


def _options(subject: Subject) -> Iterator[Finding]:
    config = subject.config
    if config is None:
        bad = subject.machine.unusable_configs(subject.kernel)
        found = "; ".join(f"{name} {why}" for name, why in bad.items())
        yield Finding(
            "config",
            WARN,
            found or "the kernel's configuration is nowhere to be read",
            f"copy the .config of this kernel to /boot/config-{subject.kernel}",
        )
        return
    x86 = not any(config.get(name) == "y" for name in _NOT_X86)
    needed = {"CONFIG_MODULES": "loading any module"} | NEEDED | (NEEDED_ON_X86 if x86 else {})
    for option, purpose in (needed | {"CONFIG_DEBUG_FS": _DEBUG_FS}).items():
        if config.get(option) in ("y", "m"):
            yield Finding(option, OK, config[option])
        else:
            status = FAIL if option in needed else WARN
            remedy = "boot a kernel that has it, such as Debian's"
            yield Finding(option, status, f"not set, needed for {purpose}", remedy)


def _compiler(subject: Subject) -> Iterator[Finding]:
    config = subject.config or {}
    if config.get("CONFIG_CC_IS_CLANG") != "y":
        return
    by = config.get("CONFIG_CC_VERSION_TEXT") or "clang"
    found = f"{by} built the kernel, so make modules builds with LLVM=1"
    missing = [name for name in ("clang", "ld.lld") if not subject.machine.tool(name)]
    if missing:
        found += f"; {' and '.join(missing)} not found"
    remedy = install(subject, "clang", "lld", "llvm") if missing else ""
    yield Finding("compiler", FAIL if missing else OK, found, remedy)


def _exports(subject: Subject) -> Iterator[Finding]:
    if (subject.config or {}).get("CONFIG_TRIM_UNUSED_KSYMS") != "y":
        return
    gone = [name for name in _IMPORTED if f"\t{name}\t" not in (subject.exported or "")]
    found = "CONFIG_TRIM_UNUSED_KSYMS: symbols that no module of the kernel uses are not exported"
    if subject.exported is not None and gone:
        found += f", {' and '.join(gone)} among them"
    yield Finding(
        "exports",
        FAIL if subject.exported is not None and gone else WARN,
        found,
        "boot a kernel without that option, such as Debian's",
    )


def _programs(subject: Subject) -> Iterator[Finding]:
    if subject.exported is None:
        return  # the headers are not there, and another finding says so
    if "\t__register_bpf_struct_ops\t" in subject.exported:
        yield Finding("BPF", OK, "the kernel takes governors as programs (cpuidle-lab bpf)")
    else:
        old = parse_version(subject.kernel) < (6, 12)
        needed = "Linux 6.12 or newer" if old else "a kernel with BPF_JIT and DEBUG_INFO_BTF"
        yield Finding(
            "BPF",
            WARN,
            "the kernel takes no governors as programs; all else works",
            f"boot {needed} to use cpuidle-lab bpf",
        )


CHECKS: tuple[Check, ...] = (_kernel, _headers, _options, _compiler, _exports, _programs)
