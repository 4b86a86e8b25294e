# SPDX-License-Identifier: GPL-2.0
"""Machines that have booted, kept in the cache; a run goes on from one in place of a boot.

Where time is virtual, all runs from one machine are the same to the bit, and so are all machines:
nothing may wake QEMU's main thread at a time of the host's, neither while the machine boots nor
after it was loaded. A thread that wakes there may end the turn of a CPU.

The guest's memory is a file. A run maps it privately, so it costs nothing until it is written to.
The state of the devices is a stream of QEMU's migration, without the memory. The script, files and
modules of a run lie in a device's memory, another file. It is shared when the machine is saved, and
private afterwards: QEMU neither saves such a memory nor asks for it.
"""

from dataclasses import dataclass
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.lab.monitor import Monitor
from cpuidle_lab.lab.programs import Program

GIVEN = Program("given", "tools/cpuidle_lab/lab/guest/given.c")
# Of the device's memory: a page with the size of its content, all of it, and the longest content.
PAGE, GIVEN_BYTES = 4096, 256 << 20
GIVEN_MOST = GIVEN_BYTES - PAGE
# Files of a saved machine. EVENTS has the lines of EVENT, while it boots.
STATE, MEMORY, EVENTS = "state", "memory", "events"
EVENT = "runstate_set"
# Limit for QEMU to save or load a machine, and the time between two looks at a boot.
LIMIT_S = 60
BOOT_POLL_S = 0.2
# QEMU's words for a machine that pvpanic has stopped, and for a migration that is done.
STOPPED = "(guest-panicked)"
DONE = "Migration status: completed"
# A machine that was loaded would announce itself to networks, five times in a second of the host's.
QUIET = "migrate_set_parameter announce-rounds 0"


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
            *(("-incoming", "defer") if self.goes_on else self._events()),
        ]

    def _events(self) -> tuple[str, ...]:
        """Return the options for EVENTS: questions to the monitor would wake QEMU."""
        return "-D", str(self.folder / EVENTS), "-trace", EVENT

    def load(self, monitor: Monitor) -> None:
        """Load the machine into a QEMU that waits for it.

        Raises:
            UserError: QEMU refuses it.
        """
        monitor.tell(QUIET)
        monitor.tell("migrate_set_capability x-ignore-shared on")
        monitor.tell(f'migrate_incoming "file:{self.folder / STATE}"')
        if not monitor.wait("info migrate", DONE, LIMIT_S):
            raise UserError(
                f"QEMU cannot load a machine that has booted: {monitor.complaint()}; "
                f"remove {self.folder}"
            )

    def save(self, monitor: Monitor, limit_s: float) -> None:
        """Save the machine as soon as the guest has stopped it, and end QEMU.

        Args:
            monitor: of the QEMU in which it boots.
            limit_s: how long the boot may take.

        Raises:
            UserError: the guest does not stop in time, or QEMU cannot save it. Where QEMU ends, the
                folder has no STATE.
        """
        events = self.folder / EVENTS
        if not monitor.wait_for(events, STOPPED, limit_s, BOOT_POLL_S):
            raise UserError(f"the guest did not boot within {limit_s:.0f} s")
        events.unlink(missing_ok=True)
        monitor.tell("migrate_set_capability x-ignore-shared on")
        monitor.tell(f'migrate "file:{self.folder / STATE}"')
        if not monitor.wait("info migrate", DONE, LIMIT_S):
            raise UserError(f"QEMU cannot save the machine: {monitor.complaint()}")
        monitor.tell("quit")


def give(archive: bytes, target: Path) -> None:
    """Write the file that given.c reads.

    Args:
        archive: cpio archive of GIVEN_MOST bytes at most.
        target: the file.
    """
    with target.open("wb") as stream:
        stream.write(f"{len(archive)}\n".encode())
        stream.seek(PAGE)
        stream.write(archive)
        stream.truncate(GIVEN_BYTES)
