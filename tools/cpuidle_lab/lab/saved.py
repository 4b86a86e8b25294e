# SPDX-License-Identifier: GPL-2.0
"""Machines that have booted, kept in the cache; a run goes on from one in place of a boot.

Only in real time: where runs must be the same to the bit, they boot.

The guest's memory is a file. A run maps it privately, so it costs nothing until it is written to.
The state of the devices is a stream of QEMU's migration, without the memory. What a run has of its
own, its script, files and modules, lies in a device's memory, another file. It is shared when the
machine is saved, and private afterwards: QEMU neither saves such a memory nor asks for it.
"""

import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.errors import UserError
from cpuidle_lab.lab.programs import Program

GIVEN = Program("given", "tools/cpuidle_lab/lab/guest/given.c")
# Of the device's memory: a page with the size of what is given, and all of it.
PAGE, GIVEN_BYTES = 4096, 256 << 20
# How long QEMU may take to save or load a machine.
LIMIT_S = 60
POLL_S = 0.02
# Files of a saved machine.
STATE, MEMORY = "state", "memory"
# What QEMU calls a machine that pvpanic has stopped.
STOPPED = "(guest-panicked)"


@dataclass(frozen=True)
class Saved:
    """A machine that stops after its boot, to be saved, or goes on from there.

    Attributes:
        folder: holds the machine.
        given: file that becomes the device's memory; see give().
        goes_on: it is loaded; else it boots and is saved.
    """

    folder: Path
    given: Path
    goes_on: bool = True

    def options(self, memory_mib: int) -> list[str]:
        """Return QEMU's options for a guest with so much memory."""
        share = "off" if self.goes_on else "on"
        ram = f"memory-backend-file,id=ram,size={memory_mib}M,mem-path={self.folder / MEMORY}"
        given = f"memory-backend-file,id=given,size={GIVEN_BYTES},mem-path={self.given}"
        return [
            *("-object", f"{ram},share={share}", "-machine", "memory-backend=ram"),
            *("-object", f"{given},share={share}"),
            *("-device", "ivshmem-plain,memdev=given,master=on"),
            *("-device", "pvpanic", "-action", "panic=pause"),
            *(("-incoming", "defer") if self.goes_on else ()),
        ]

    def load(self, monitor: "Monitor") -> None:
        """Load the machine into a QEMU that waits for it.

        Raises:
            UserError: QEMU refuses it.
        """
        monitor.tell("migrate_set_capability x-ignore-shared on")
        monitor.tell(f'migrate_incoming "file:{self.folder / STATE}"')
        if not monitor.wait("info status", STOPPED, LIMIT_S):
            raise UserError(
                f"QEMU cannot load a machine that has booted ({monitor.complaint()}); "
                f"remove {self.folder}"
            )

    def save(self, monitor: "Monitor", limit_s: float) -> None:
        """Save the machine as soon as the guest has stopped it, and end QEMU.

        Args:
            monitor: of the QEMU in which it boots.
            limit_s: how long the boot may take.

        Raises:
            UserError: the guest does not stop in time, or QEMU cannot save it. Where QEMU ends, it
                is for others to say why.
        """
        if not monitor.wait("info status", STOPPED, limit_s):
            raise UserError(f"the guest does not boot within {limit_s:.0f} s")
        monitor.tell("migrate_set_capability x-ignore-shared on")
        monitor.tell(f'migrate "file:{self.folder / STATE}"')
        if not monitor.wait("info migrate", "Migration status: completed", LIMIT_S):
            raise UserError(f"QEMU cannot save the machine: {monitor.complaint()}")
        monitor.tell("quit")


@dataclass(frozen=True)
class Monitor:
    """QEMU's monitor.

    Attributes:
        process: QEMU, whose input it is.
        log: file that receives what it answers.
        check: called while it is waited for; raises where the machine is to end.
    """

    process: "subprocess.Popen[bytes]"
    log: Path
    check: Callable[[], None]

    def tell(self, command: str) -> None:
        """Give a command; if QEMU has ended, wait() finds out."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{command}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            return

    def wait(self, question: str, answer: str, limit_s: float) -> bool:
        """Ask again and again until QEMU answers with a text, or ends.

        Args:
            question: command of the monitor.
            answer: the text.
            limit_s: how long.

        Returns:
            Whether it did so in time.
        """
        end = time.monotonic() + limit_s
        start = self.log.stat().st_size
        while self.process.poll() is None and time.monotonic() < end:
            self.tell(question)
            time.sleep(POLL_S)
            self.check()
            if answer in self._words(start):
                return True
        return self.process.poll() is not None

    def _words(self, start: int) -> str:
        with self.log.open("rb") as stream:
            stream.seek(start)
            return stream.read().decode(errors="replace")

    def complaint(self) -> str:
        """Return QEMU's last line of its own; the monitor echoes each command letter by letter."""
        lines = re.findall(r"qemu-system\S*: (.*)", self._words(0))
        return lines[-1].strip() if lines else "none"


def give(archive: bytes, target: Path) -> None:
    """Write the file that given.c reads.

    Args:
        archive: cpio archive.
        target: the file.

    Raises:
        UserError: the archive is too large.
    """
    if len(archive) > GIVEN_BYTES - PAGE:
        raise UserError(f"the guest's files take more than {GIVEN_BYTES >> 20} MiB")
    with target.open("wb") as stream:
        stream.write(f"{len(archive)}\n".encode())
        stream.seek(PAGE)
        stream.write(archive)
        stream.truncate(GIVEN_BYTES)
