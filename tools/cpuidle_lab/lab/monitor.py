# SPDX-License-Identifier: GPL-2.0
"""QEMU's monitor: commands by its input, answers in a file."""

import contextlib
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# What QEMU, the command that starts it, or the loader of its libraries says.
_OF_A_PROGRAM = r"^(?:\(qemu\) )?(?:qemu-system\S*|setpriv|/\S+): (.*)"


@dataclass(frozen=True)
class Monitor:
    """The monitor of a QEMU.

    Attributes:
        process: QEMU, which reads commands.
        log: file that receives what it answers.
        check: called while it is waited for; raises where the machine is to end.
    """

    process: "subprocess.Popen[bytes]"
    log: Path
    check: Callable[[], None]

    def tell(self, command: str) -> None:
        """Give a command; if QEMU has ended, nothing happens."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{command}\n".encode())
            self.process.stdin.flush()

    def wait(self, question: str, answer: str, limit_s: float, every_s: float = 0.05) -> bool:
        """Ask again and again until QEMU answers with a text, or with "failed", or ends.

        Args:
            question: command of the monitor.
            answer: the text.
            limit_s: how long.
            every_s: time between two questions.

        Returns:
            Whether it answered with the text in time, or ended.
        """
        end = time.monotonic() + limit_s
        start = self.log.stat().st_size
        while self.process.poll() is None and time.monotonic() < end:
            self.tell(question)
            time.sleep(every_s)
            self.check()
            words = self._words(start)
            if answer in words:
                return True
            if "failed" in words:
                return False
        return self.process.poll() is not None

    def complaint(self) -> str:
        """Return the last line of a program, "" if there is none.

        The monitor's own lines are no complaints. It echoes each command letter by letter.
        """
        lines = re.findall(_OF_A_PROGRAM, self._words(0), re.MULTILINE)
        return lines[-1].strip() if lines else ""

    def _words(self, start: int) -> str:
        with self.log.open("rb") as stream:
            stream.seek(start)
            return stream.read().decode(errors="replace")
