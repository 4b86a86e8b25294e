# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab doctor`: say whether this machine can run the module.

Every check is a generator that yields findings; the table at the end of the
checks names them all. What is needed fails, what only limits the use warns.
"""

import argparse
import json
import lzma
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.version import __version__
from cpuidle_lab.host import energy
from cpuidle_lab.host.machine import (
    CPUIDLE,
    DEBUGFS,
    MODULE,
    TRACEFS,
    Machine,
    parse_version,
    trace_cmd_is_usable,
)
from cpuidle_lab.host.sysfs import cpu_list

NAME = "doctor"
HELP = "check that this machine can run the module; each finding has its remedy"
EPILOG = """\
examples:
  sudo cpuidle-lab doctor                the running kernel
  cpuidle-lab doctor --kernel 6.12.107+deb13-amd64
                                         another installed kernel, before booting it
  cpuidle-lab doctor --trace trace.dat   check a recording, and replay on it
  cpuidle-lab doctor --json | jq .can_run

exit codes: 0 the module can run, 1 something must be done first, 2 wrong usage
"""

OK = "ok"
WARN = "warn"
FAIL = "fail"

# Colours of a terminal, by status, and of remedies: SGR codes.
_COLOURS = {OK: "32", WARN: "33", FAIL: "1;31"}
_REMEDY_COLOUR = "36"

OLDEST_KERNEL = (6, 1)

_GLOBAL_VARIABLE = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
_SHIM_VARIABLE = "605dab50-e046-4300-abb6-3dd810dd8b23"
_EFIVARS = "/sys/firmware/efi/efivars"
_DKMS_CERTIFICATE = "/var/lib/dkms/mok.pub"
_SIGNATURE = b"~Module signature appended~\n"  # how a signed module ends

_DKMS_INSTALL = f"sudo dkms install cpuidle-lab/{__version__}"
# A build makes the key where there is none yet, and signs; an install alone does neither.
_SIGN = (
    f"sudo apt install mokutil openssl; sudo dkms build --force cpuidle-lab/{__version__}; "
    f"{_DKMS_INSTALL} --force"
)
_ENROL = f"{_SIGN}; sudo mokutil --import {_DKMS_CERTIFICATE}; reboot and choose 'Enroll MOK'"
_EMULATE = "sudo modprobe cpuidle_emul machine=skx gives this machine idle states to choose from"

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


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: what was looked at.
        status: OK, WARN (usable, with a limit) or FAIL (the module cannot run).
        found: what is there.
        remedy: what to do about it; "" if nothing need be done.
    """

    check: str
    status: str
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class Subject:
    """What is examined: a machine, and a kernel that it runs or could boot."""

    machine: Machine
    kernel: str

    @property
    def is_running(self) -> bool:
        """Whether the kernel examined is the one that runs."""
        return self.kernel == self.machine.kernel()


def _check_kernel(subject: Subject) -> Iterator[Finding]:
    good = parse_version(subject.kernel) >= OLDEST_KERNEL
    yield Finding(
        "kernel",
        OK if good else FAIL,
        f"{subject.kernel}{'' if subject.is_running else ' (not the running one)'}",
        "" if good else "boot Linux 6.1 or newer",
    )


def _check_headers(subject: Subject) -> Iterator[Finding]:
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


def _check_options(subject: Subject) -> Iterator[Finding]:
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


def _check_programs(subject: Subject) -> Iterator[Finding]:
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


def _efi_byte(machine: Machine, name: str) -> int:
    # An EFI variable begins with four bytes of attributes.
    data = machine.tree.read_bytes(f"{_EFIVARS}/{name}-{_GLOBAL_VARIABLE}") or b""
    return data[4] if len(data) > 4 else 0


def _dkms_key_is_enrolled(machine: Machine) -> bool:
    certificate = machine.tree.read_bytes(_DKMS_CERTIFICATE)
    enrolled = machine.tree.read_bytes(f"{_EFIVARS}/MokListRT-{_SHIM_VARIABLE}")
    return bool(certificate and enrolled and certificate in enrolled)


def _dkms_key_is_pending(machine: Machine) -> bool:
    # What mokutil --import leaves for the next boot.
    certificate = machine.tree.read_bytes(_DKMS_CERTIFICATE)
    pending = machine.tree.read_bytes(f"{_EFIVARS}/MokNew-{_SHIM_VARIABLE}")
    return bool(certificate and pending and certificate in pending)


def _installed_module(subject: Subject) -> str | None:
    directory = f"/lib/modules/{subject.kernel}"
    for place in ("updates/dkms", "updates", "extra"):
        for name in subject.machine.tree.names(f"{directory}/{place}"):
            if name.startswith("cpuidle_lab.ko"):
                return f"{directory}/{place}/{name}"
    return None


def _is_unsigned(subject: Subject) -> bool:
    path = _installed_module(subject)
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


def _check_signatures(subject: Subject) -> Iterator[Finding]:
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


def _check_lockdown(subject: Subject) -> Iterator[Finding]:
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


def _check_cpuidle(subject: Subject) -> Iterator[Finding]:
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


def _check_virtualisation(subject: Subject) -> Iterator[Finding]:
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


def _check_tools(subject: Subject) -> Iterator[Finding]:
    machine = subject.machine
    if machine.tool("dkms"):
        yield Finding("dkms", OK, machine.tool_version("dkms") or "installed")
    else:
        yield Finding(
            "dkms",
            WARN,
            "not installed: the module is not rebuilt for a new kernel",
            "sudo apt install dkms",
        )
    version = machine.tool_version("trace-cmd")
    if version is None:
        yield Finding("trace-cmd", WARN, "not installed: no capture", "sudo apt install trace-cmd")
    elif not trace_cmd_is_usable(version):
        yield Finding(
            "trace-cmd",
            WARN,
            f"{version or 'unknown version'}: 3.1 or newer is needed to capture",
            "install a newer trace-cmd",
        )
    else:
        yield Finding("trace-cmd", OK, version)


def _check_mounts(subject: Subject) -> Iterator[Finding]:
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


def _check_energy(subject: Subject) -> Iterator[Finding]:
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


def _check_module(subject: Subject) -> Iterator[Finding]:
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
    installed = _installed_module(subject) is not None
    yield Finding(
        "module",
        WARN,
        "cpuidle_lab is installed, not loaded" if installed else "cpuidle_lab is not installed",
        "sudo modprobe cpuidle_lab"
        if installed
        else f"in the project's directory: sudo make dkms-sources; {_DKMS_INSTALL}",
    )


def _check_permission(subject: Subject) -> Iterator[Finding]:
    if os.geteuid() == 0:
        yield Finding("permission", OK, "root")
    else:
        yield Finding(
            "permission",
            WARN,
            "not root: the key of DKMS and the contents of debugfs and tracefs were not checked",
            "sudo cpuidle-lab doctor",
        )


# In this order they are shown. The first four look at the kernel that was
# asked about, the others at the machine as it runs.
_KERNEL_CHECKS: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    _check_kernel,
    _check_headers,
    _check_options,
    _check_programs,
)
_MACHINE_CHECKS: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    _check_signatures,
    _check_lockdown,
    _check_cpuidle,
    _check_virtualisation,
    _check_tools,
    _check_mounts,
    _check_energy,
    _check_module,
    _check_permission,
)


def examine(machine: Machine, kernel: str | None = None) -> list[Finding]:
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
    return [finding for check in (*_KERNEL_CHECKS, *_MACHINE_CHECKS) for finding in check(subject)]


def can_run(findings: list[Finding]) -> bool:
    """Return whether nothing stands against running the module."""
    return all(finding.status != FAIL for finding in findings)


def _coloured(text: str, code: str) -> str:
    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return f"\033[{code}m{text}\033[0m" if wanted and os.environ.get("TERM") != "dumb" else text


def _print_findings(findings: list[Finding]) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        status = _coloured(f"{finding.status:4}", _COLOURS[finding.status])
        print(f"{status}  {finding.check:{width}}  {finding.found}")
        if finding.remedy:
            print(f"{'':{width + 8}}{_coloured(f'→ {finding.remedy}', _REMEDY_COLOUR)}")


def _print_text(findings: list[Finding]) -> None:
    _print_findings(findings)
    failed = sum(finding.status == FAIL for finding in findings)
    warned = sum(finding.status == WARN for finding in findings)
    verdict = f"cannot run the module: {failed} to be mended" if failed else "can run the module"
    limits = f", {warned} warning{'' if warned == 1 else 's'}" if warned else ""
    print(f"\nThis machine {verdict}{limits}.")


def packages(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the Python packages that are enough: none for a machine, all for a recording."""
    return () if args.trace is None else ("numpy", "polars")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--kernel", metavar="VERSION", help="examine this installed kernel, not the running one"
    )
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="examine this recording, not the machine"
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def examine_trace(path: Path) -> list[Finding]:
    """Examine a recording: what is missing, what overslept, how its own governors replay.

    Raises:
        UserError: it cannot be read.
    """
    # Here, so that the machine can be examined where only Python is.
    from cpuidle_lab.crossval import targets, trust
    from cpuidle_lab.recording import columns
    from cpuidle_lab.recording.stock import omissions, stock_line

    with columns.opened(path) as recording:
        known = recording.kind == columns.TRACE
        kind = "decisions of the module" if known else "power:cpu_idle events alone"
        if known and recording.stock:
            kind = stock_line(recording.stock)
        remedy = "" if known else "capture --stock records what governors are told, then replay"
        found = [Finding("events", OK if known else WARN, kind, remedy)]
        found += [Finding("events", WARN, line) for line in omissions(recording.stock or {})]
        lost = recording.integrity
        found.append(
            Finding("complete", OK, f"{lost.events:,} events, none lost")
            if lost.complete
            else Finding("complete", WARN, "events were lost", "record into a larger buffer (-b)")
        )
        share = trust.overslept_share(recording)
        # More says that the clock or the emulator is at fault.
        status = OK if share <= 100 * targets.OVERSLEPT_SHARE else WARN
        remedy = (
            "" if status == OK else "these intervals have no regret; look for what delays timers"
        )
        found.append(Finding("overslept", status, f"{share:.3f} % of the idle time", remedy))
        held = (
            f"the tick had to go on at the beginning of {trust.held_share(recording):.1f} % of the "
        )
        found.append(Finding("tick", OK, f"{held}intervals"))
        own, why = trust.trust(recording, path)
        for one in own:
            status = WARN if one.doubtful else OK
            found.append(Finding("replay", status, one.line()))
        if why:
            found.append(Finding("replay", WARN, f"cannot be checked: {why}"))
        return found


def run(args: argparse.Namespace) -> int:
    """Examine the machine, or a recording, and print what was found."""
    if args.trace is not None:
        if args.kernel is not None:
            raise UserError("give one of --kernel and --trace", USAGE)
        findings = examine_trace(args.trace)
        if args.json:
            told = [asdict(finding) for finding in findings]
            print(
                json.dumps({"command": NAME, "trace": str(args.trace), "findings": told}, indent=2)
            )
        else:
            _print_findings(findings)
        return 0
    machine = Machine()
    findings = examine(machine, args.kernel)
    if args.json:
        print(
            json.dumps(
                {
                    "command": NAME,
                    "version": __version__,
                    "kernel": args.kernel or machine.kernel(),
                    "can_run": can_run(findings),
                    "findings": [asdict(finding) for finding in findings],
                },
                indent=2,
            )
        )
    else:
        _print_text(findings)
    return 0 if can_run(findings) else 1
