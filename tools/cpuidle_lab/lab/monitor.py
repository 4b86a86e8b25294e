# SPDX-License-Identifier: GPL-2.0
"""QEMU's monitor: commands by its input, answers in a file."""

import contextlib
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# A line of QEMU, of the command that starts it, of the loader of its libraries, or of the monitor
# about a command that failed.
_OF_A_PROGRAM = r"^(?:\(qemu\) )?(?:qemu-system\S*|setpriv|/\S+|Error): (.*)"
_FAILED = re.compile(r"failed|^Error: ", re.MULTILINE)


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
        """Ask again and again until QEMU answers with a text, or with a failure, or ends.

        Args:
            question: command of the monitor.
            answer: the text.
            limit_s: how long.
            every_s: time between two questions.

        Returns:
            Whether it answered with the text in time, or ended.
        """
        start = self.log.stat().st_size

        def look() -> bool | None:
            words = self._words(start)
            return True if answer in words else False if _FAILED.search(words) else None

        return self._wait(lambda: self.tell(question), look, limit_s, every_s)

    def wait_for(self, file: Path, text: str, limit_s: float, every_s: float) -> bool:
        """Look at a file until it has a text, or QEMU ends; QEMU itself is left alone.

        Args:
            file: need not be there yet.
            text: the text to find.
            limit_s: how long.
            every_s: time between two looks.

        Returns:
            Whether it has the text in time, or QEMU ended.
        """

        def look() -> bool | None:
            return (file.is_file() and text in file.read_text(errors="replace")) or None

        return self._wait(lambda: None, look, limit_s, every_s)

    def _wait(
        self,
        ask: Callable[[], None],
        look: Callable[[], bool | None],
        limit_s: float,
        every_s: float,
    ) -> bool:
        """Ask and look until there is a result, the time is up, or QEMU ends."""
        end = time.monotonic() + limit_s
        while self.process.poll() is None and time.monotonic() < end:
            ask()
            time.sleep(every_s)
            self.check()
            found = look()
            if found is not None:
                return found
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
