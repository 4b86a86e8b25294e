# SPDX-License-Identifier: GPL-2.0
"""A machine as the idle governors see it: its kernel, idle states, governors and our module."""

import codecs
import gzip
import re
import shutil
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.sysfs import Tree, why

CPUS = "/sys/devices/system/cpu"
CPUIDLE = f"{CPUS}/cpuidle"
CURRENT_GOVERNOR = f"{CPUIDLE}/current_governor"
MODULE = "/sys/module/cpuidle_lab"
DEBUGFS = "/sys/kernel/debug"
TRACEFS = "/sys/kernel/tracing"
LAB = f"{DEBUGFS}/cpuidle_lab"

# Governors that the module once had, and where each is now. packaging/cpuidle-lab-restore has the
# same table.
MOVED = {
    "wteo_rfc": "the module no longer has the governor wteo_rfc: the experiment weighted-teo runs "
    "it in the lab, and compare and replay still have it",
}

# Files of a governor's debugfs directory that are no tunables.
_NO_TUNABLES = frozenset({"defaults", "reset", "state", "hints"})

_BINARIES = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

_TOOL_TIMEOUT_S = 20


def parse_version(text: str) -> tuple[int, int]:
    """Return the first two numbers of a version such as `6.12.107+deb13-amd64`.

    Raises:
        ValueError: `text` does not begin with two numbers.
    """
    match = re.match(r"(\d+)\.(\d+)", text)
    if not match:
        raise ValueError(text)
    return int(match[1]), int(match[2])


@dataclass(frozen=True)
class IdleState:
    """One idle state of a CPU, as the kernel shows it.

    Attributes:
        name: the driver's name for it.
        exit_latency_us: worst case from the wake-up to the first instruction.
        target_residency_us: shortest stay that pays.
        disabled: whether it is disabled.
        description: the driver's, such as "MWAIT 0x20".
        faults: values that cannot be, which are 0 here: name and text.
    """

    name: str
    exit_latency_us: int
    target_residency_us: int
    disabled: bool
    description: str = ""
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        off = " (disabled)" if self.disabled else ""
        wrong = f" ({', '.join(self.faults)})" if self.faults else ""
        return f"{self.name} {self.exit_latency_us}/{self.target_residency_us} us{off}{wrong}"


class Host:
    """The running machine, or a recorded one (see `sysfs.Tree`)."""

    def __init__(self, tree: Tree | None = None) -> None:
        self.tree = tree or Tree()

    # The kernel.

    def kernel(self) -> str:
        """Return the release of the running kernel, as `uname -r` prints it; "" if unknown."""
        return self.tree.read("/proc/sys/kernel/osrelease") or ""

    def kernel_config(self, kernel: str) -> dict[str, str] | None:
        """Return a kernel's build options, CONFIG_NAME to value; None if unknown.

        Args:
            kernel: its release. A kernel that is not the running one is known by files only.
        """
        for name in self._config_files(kernel):
            if found := _parse_config(self.tree.read_bytes(name) or b""):
                return found
        packed = self.tree.read_bytes("/proc/config.gz") if kernel == self.kernel() else None
        try:
            return _parse_config(gzip.decompress(packed)) or None if packed else None
        except (OSError, EOFError, zlib.error):
            return None

    def _config_files(self, kernel: str) -> list[str]:
        modules = f"/lib/modules/{kernel}"
        names = (f"/boot/config-{kernel}", f"{modules}/config", f"{modules}/build/.config")
        return [name for name in names if self.tree.exists(name)]

    def unusable_configs(self, kernel: str) -> dict[str, str]:
        """Return files that should have a kernel's options and have none, each with the reason."""
        found = {}
        for name in self._config_files(kernel):
            data = self.tree.read_bytes(name)
            if data is None:
                found[name] = "cannot be read"
            elif not _parse_config(data):
                found[name] = "has no line CONFIG_NAME=VALUE"
        return found

    def command_line(self) -> list[str]:
        """Return the words of the kernel's command line."""
        return (self.tree.read("/proc/cmdline") or "").split()

    def lockdown(self) -> str:
        """Return the lockdown level: `none`, `integrity` or `confidentiality`."""
        text = self.tree.read("/sys/kernel/security/lockdown") or "[none]"
        match = re.search(r"\[(\w+)\]", text)
        return match[1] if match else "none"

    def is_mounted(self, directory: str) -> bool:
        """Return whether a file system is mounted on `directory`."""
        lines = (self.tree.read("/proc/mounts") or "").splitlines()
        return any(line.split()[1:2] == [directory] for line in lines)

    # Idle states and governors.

    def driver(self) -> str | None:
        """Return the name of the cpuidle driver; None if there is none."""
        name = self.tree.read(f"{CPUIDLE}/current_driver")
        return None if name in (None, "", "none") else name

    def governors(self) -> list[str]:
        """Return the governors that the kernel offers."""
        return (self.tree.read(f"{CPUIDLE}/available_governors") or "").split()

    def governor(self) -> str:
        """Return the governor in use; "" if unknown."""
        return self.tree.read(CURRENT_GOVERNOR) or ""

    def set_governor(self, name: str) -> None:
        """Switch the machine to the governor `name`.

        Raises:
            UserError: the kernel does not offer it, or refuses.
        """
        self.require_governor(name)
        self.tree.write(CURRENT_GOVERNOR, name)

    def require_governor(self, name: str) -> None:
        """Raise a `UserError` that lists the governors unless `name` is one of them."""
        offered = self.governors()
        if name not in offered:
            raise UserError(
                MOVED.get(name)
                or f"the kernel offers no governor '{name}', only: {' '.join(offered) or 'none'}"
            )

    def idle_states(self) -> dict[tuple[IdleState, ...], list[int]]:
        """Return the idle states, shallowest first, with the CPUs that have them."""
        names = self.tree.names(CPUS)
        cpus = sorted(int(name[3:]) for name in names if re.fullmatch(r"cpu\d+", name))
        kinds: dict[tuple[IdleState, ...], list[int]] = {}
        for cpu in cpus:
            if states := self._idle_states(f"{CPUS}/cpu{cpu}/cpuidle"):
                kinds.setdefault(states, []).append(cpu)
        return kinds

    def _idle_states(self, directory: str) -> tuple[IdleState, ...]:
        numbers = sorted(
            int(name.removeprefix("state"))
            for name in self.tree.names(directory)
            if re.fullmatch(r"state\d+", name)
        )
        return tuple(self._idle_state(f"{directory}/state{number}") for number in numbers)

    def _idle_state(self, directory: str) -> IdleState:
        faults = []

        def number(name: str) -> int:
            text = self.tree.read(f"{directory}/{name}") or "0"
            if re.fullmatch(r"[0-9]{1,20}", text):
                return int(text)
            faults.append(f"{name} {text[:20]}")
            return 0

        return IdleState(
            name=self.tree.read(f"{directory}/name") or "?",
            exit_latency_us=number("latency"),
            target_residency_us=number("residency"),
            disabled=number("disable") != 0,
            description=self.tree.read(f"{directory}/desc") or "",
            faults=tuple(faults),
        )

    # Our module.

    def module_version(self) -> str | None:
        """Return the loaded module's version; "" if it does not tell, None if not loaded."""
        if not self.tree.exists(MODULE):
            return None
        return self.tree.read(f"{LAB}/version") or self.tree.read(f"{MODULE}/version") or ""

    def lab_governors(self) -> list[str]:
        """Return our governors: those with a directory in the module's debugfs."""
        return [name for name in self.tree.names(LAB) if self.tree.exists(f"{LAB}/{name}/reset")]

    def tunables(self, governor: str) -> list[str]:
        """Return the names of the tunables of one of our governors."""
        return [name for name in self.tree.names(f"{LAB}/{governor}") if name not in _NO_TUNABLES]

    def tunable(self, governor: str, name: str) -> str:
        """Return the value of a tunable.

        Raises:
            UserError: there is no such governor of ours, or no such tunable.
        """
        known = self.tunables(governor)
        if not known:
            raise UserError(
                MOVED.get(governor)
                or f"'{governor}' is no governor of cpuidle_lab with tunables; "
                f"there are: {' '.join(self.lab_governors()) or 'none'}"
            )
        if name not in known:
            raise UserError(f"{governor} has no tunable '{name}'; it has: {' '.join(known)}")
        value = self.tree.read(f"{LAB}/{governor}/{name}")
        if value is None:
            raise UserError(f"cannot read {LAB}/{governor}/{name}: run it with sudo")
        return value

    def set_tunable(self, governor: str, name: str, value: str) -> None:
        """Set a tunable.

        Raises:
            UserError: the value is refused, for example because it is outside the range.
        """
        self.tree.write(f"{LAB}/{governor}/{name}", value)

    def reset_learning(self, governor: str) -> None:
        """Let one of our governors start learning afresh on every CPU."""
        self.tree.write(f"{LAB}/{governor}/reset", "1")

    def checkpoint(self) -> None:
        """Let every CPU put a checkpoint into the trace now; a module without that does nothing."""
        if self.tree.exists(f"{LAB}/checkpoint"):
            self.tree.write(f"{LAB}/checkpoint", "1")

    # Programs.

    def tool(self, name: str) -> str | None:
        """Return where the program `name` lies; None if it is not installed."""
        if not self.tree.is_recorded:
            found = shutil.which(name)
            if found:
                return found
        for directory in _BINARIES:
            path = self.tree.path(f"{directory}/{name}")
            if path.is_file():
                return str(path)
        return None

    def tool_version(self, name: str) -> str | None:
        """Ask a program for its version; None if not installed, "" if it tells none."""
        program = self.tool(name)
        if program is None:
            return None
        try:
            done = subprocess.run(
                [program, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TOOL_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        match = re.search(r"\d+\.\d+[\w.]*", done.stdout + done.stderr)
        return match[0] if match else ""


def _parse_config(data: bytes) -> dict[str, str]:
    """Return the options of a configuration; an editor may have made UTF-16 of it."""
    form = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    if form != "utf-16" and b"\0" in data[:2]:  # without a mark
        form = "utf-16-be" if data.startswith(b"\0") else "utf-16-le"
    text = data.decode(form, errors="replace")
    pairs = (line.partition("=") for line in text.splitlines() if line.startswith("CONFIG_"))
    return {name: value.strip('"') for name, _, value in pairs}


def trace_cmd_is_usable(version: str) -> bool:
    """Return whether this version of trace-cmd is 3.1 or newer."""
    try:
        return parse_version(version) >= (3, 1)
    except ValueError:
        return False


def project_directory(start: Path) -> Path | None:
    """Return the project's directory at or above `start`; None if there is none."""
    for directory in (start, *start.parents):
        if (directory / "governors" / "common" / "policy.h").is_file():
            return directory
    return None


def project_governors(tree: Path) -> list[str]:
    """Return the governors that the sources in `tree` list, the gate not among them.

    Raises:
        UserError: the list is missing or not understood.
    """
    path = tree / "governors" / "governors.mk"
    try:
        text = path.read_text()
    except OSError as error:
        raise UserError(f"cannot read {path}: {why(error)}") from error
    match = re.search(r"^CIL_GOVERNORS\s*:?=(.*)$", text, re.MULTILINE)
    if not match:
        raise UserError(f"{path} is not understood: CIL_GOVERNORS is not set")
    return match[1].split()
