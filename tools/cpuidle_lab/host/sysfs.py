# SPDX-License-Identifier: GPL-2.0
"""Small text files of a machine: sysfs, procfs, debugfs, tracefs.

Everything that looks at a machine goes through a `Tree`, so that the tests can
look at a recorded one: the same files below another root directory.
"""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from cpuidle_lab.base.errors import UserError

ROOT_VARIABLE = "CPUIDLE_LAB_ROOT"

_WHY = {
    errno.EACCES: "permission denied: run it with sudo",
    errno.EPERM: "the kernel refuses it (not root, or locked down)",
    errno.ENOENT: "no such file",
    errno.EINVAL: "the kernel does not accept this value",
}


def why(error: OSError) -> str:
    """Say what an `OSError` means to the person at the keyboard."""
    known = _WHY.get(error.errno or 0)
    return known or (error.strerror or str(error)).lower()


def parse_cpus(text: str) -> list[int]:
    """Return the numbers of a list such as "0-3,7".

    Raises:
        ValueError: it is no such list.
    """
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(text)
        cpus.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(cpus)


def cpu_list(cpus: Sequence[int]) -> str:
    """Return numbers as the kernel writes a list of CPUs: "0-3,7"."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


class Tree:
    """The files below a root directory, named by their absolute paths.

    `Tree()` is this machine; the environment variable `CPUIDLE_LAB_ROOT` makes
    it a recorded one.
    """

    def __init__(self, root: Path | str | None = None) -> None:
        self.root = Path(root or os.environ.get(ROOT_VARIABLE) or "/")

    @property
    def is_recorded(self) -> bool:
        """The machine is a recorded one, not the running one."""
        return self.root != Path("/")

    def path(self, name: str) -> Path:
        """Return where the file `name` (absolute on the machine) lies."""
        return self.root / name.lstrip("/")

    def exists(self, name: str) -> bool:
        """Return whether `name` exists and may be seen."""
        try:
            return self.path(name).exists()
        except OSError:
            return False

    def read(self, name: str) -> str | None:
        """Return the text of `name` without surrounding blanks; None if unreadable."""
        data = self.read_bytes(name)
        return None if data is None else data.decode(errors="replace").strip()

    def read_bytes(self, name: str) -> bytes | None:
        """Return the contents of `name`; None if unreadable."""
        try:
            return self.path(name).read_bytes()
        except OSError:
            return None

    def write(self, name: str, text: str) -> None:
        """Write `text` to an existing file in a single write, as sysfs wants.

        Raises:
            UserError: the file is missing, or the kernel refuses the value.
        """
        try:
            self._write(name, text)
        except OSError as error:
            raise UserError(f"cannot write '{text}' to {name}: {why(error)}") from error

    def _write(self, name: str, text: str) -> None:
        descriptor = os.open(self.path(name), os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(descriptor, text.encode() + b"\n")
        finally:
            os.close(descriptor)

    def append(self, name: str, text: str) -> None:
        """Add a line to an existing file that others use, too.

        Raises:
            OSError: the file is missing, or the kernel refuses the line.
        """
        descriptor = os.open(self.path(name), os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, text.encode() + b"\n")
        finally:
            os.close(descriptor)

    def may_write(self, name: str) -> bool:
        """Return whether this process may write to `name`."""
        return os.access(self.path(name), os.W_OK)

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; empty if it cannot be listed."""
        return sorted(entry.name for entry in self._entries(directory))

    def _entries(self, directory: str) -> Iterator[Path]:
        try:
            yield from self.path(directory).iterdir()
        except OSError:
            return
