# SPDX-License-Identifier: GPL-2.0
"""trace-cmd as the recorder of a session."""

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.waiting import Process, Waiter, end_process
from cpuidle_lab.host import scrub, unfinished
from cpuidle_lab.host.machine import TRACEFS, Host
from cpuidle_lab.host.probes import Way

OUR_EVENTS = "cpuidle_lab"

_TRACING_ON = f"{TRACEFS}/tracing_on"

_PR_SET_PDEATHSIG = 1

_START_TIMEOUT_S = 30.0
_START_POLL_S = 0.05


def _end_with_parent() -> None:
    """Let a child end as by Ctrl-C if this process is killed: else it records for ever."""
    # A Python without ctypes records all the same.
    with contextlib.suppress(ImportError, OSError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


class Recorder:
    """trace-cmd at work.

    It gets a session of its own: a Ctrl-C at the terminal must reach it only when the workload
    is over.

    Args:
        machine: the machine it traces.
        waiter: waits for it.
        directory: empty; the trace is written there.
        names_go: write a trace from which scrub() can remove the names.
    """

    def __init__(
        self, machine: Host, waiter: Waiter, directory: Path, names_go: bool = False
    ) -> None:
        self._machine = machine
        self._waiter = waiter
        self._tracing_before = machine.tree.read(_TRACING_ON)
        self._log = directory / "trace-cmd.log"
        self.trace = directory / "trace.dat"
        self.process: Process | None = None
        self._names_go = names_go
        self._is_asked = False

    def start(self, program: str, events: tuple[str, ...], way: Way | None = None) -> Process:
        """Start to record; return once the events are on.

        Args:
            program: trace-cmd.
            events: events to record beside ours; "EVENT -f FILTER" is some of an event.
            way: of a recording without the module.

        Raises:
            UserError: trace-cmd cannot record.
        """
        arguments = [program, "record", "-o", str(self.trace)]
        if self._names_go:
            arguments += ["--file-version", str(scrub.VERSION)]
        # The kernel's timers are due by this clock.
        arguments += ["-C", unfinished.CLOCK, *way.events] if way else ["-e", OUR_EVENTS]
        for event in events:
            arguments += ["-e", *event.split()]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._is_recording():
            self._waiter.wait(_START_POLL_S, self.process)
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise UserError(f"trace-cmd did not start to record: {self._last_words()}")
        return self.process

    def _is_recording(self) -> bool:
        # trace-cmd turns tracing off, then enables the events, then turns it on.
        tree = self._machine.tree
        return bool(tree.read(f"{TRACEFS}/set_event")) and tree.read(_TRACING_ON) == "1"

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        words = [line.strip() for line in lines if line.strip()]
        return words[-1] if words else "it said nothing"

    def finish(self) -> int:
        """Stop recording and wait for the trace, however long it takes to write.

        It can be called again after an InterruptedSession.

        Returns:
            the number of events that were lost.

        Raises:
            UserError: there is no trace.
        """
        assert self.process is not None
        if not self._is_asked:
            if self.process.poll() is not None:
                raise UserError(f"trace-cmd ended before the session: {self._last_words()}")
            os.killpg(self.process.pid, signal.SIGINT)
            self._is_asked = True
        self._waiter.wait(None, self.process)
        if self.process.returncode != 0 or not _has_content(self.trace):
            raise UserError(f"trace-cmd wrote no trace: {self._last_words()}")
        return sum(map(int, re.findall(r"(\d+) events lost", self._log.read_text())))

    def scrub(self) -> None:
        """Remove names from the trace, and compress it; finish() has made it.

        Raises:
            UserError: its form is not known.
        """
        assert self.process is not None
        scrub.scrub(self.trace)
        small = self.trace.with_suffix(".small")
        program = str(self.process.args[0])  # type: ignore[index]
        words = ["convert", "-i", str(self.trace), "-o", str(small), "--compression", "any"]
        with self._log.open("ab") as log:
            done = subprocess.run(
                [program, *words, "--file-version", "7"], stdout=log, stderr=log, check=False
            )
        if done.returncode == 0 and _has_content(small):
            small.replace(self.trace)

    def stop(self) -> None:
        """Turn tracing off, whatever became of trace-cmd, which restores it at its own end only."""
        if self.process is not None:
            end_process(self.process, signal.SIGINT)
        tree = self._machine.tree
        if tree.read(f"{TRACEFS}/set_event"):
            tree.write(f"{TRACEFS}/events/enable", "0")
        if self._tracing_before not in (None, tree.read(_TRACING_ON)):
            tree.write(_TRACING_ON, self._tracing_before or "")


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0
