# SPDX-License-Identifier: GPL-2.0
"""Waiting for processes, for time and for the signals that end a session."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

_GRACE_S = 5.0

Process = subprocess.Popen[bytes]


class InterruptedSession(Exception):  # noqa: N818 - no error, the user wanted it
    """A signal ended the session early."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Terminated(KeyboardInterrupt):
    """SIGTERM came; all that ends by Ctrl-C ends by it, too."""

    number = signal.SIGTERM


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    raise Terminated


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM raise Terminated, unless the program has a handler of its own.

    Signals reach the main thread; in others it does nothing.
    """
    is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not is_default or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Waiter:
    """Waits for processes, time and the signals that end a session, without polling.

    As a context it takes those signals over, so that `wait` alone acts on them; what is left of
    them at its end is dropped. A signal that was ignored before (nohup) stays ignored. One that
    ended the session leaves all ignored: a second Ctrl-C comes too late to end anything else.
    """

    def __enter__(self) -> "Waiter":
        self._pending: list[int] = []
        self._reader, writer = socket.socketpair()
        self._writer = writer
        for end in (self._reader, writer):
            end.setblocking(False)
        self._fd_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        self._handlers_before = {
            number: signal.signal(number, self._note)
            for number in (*_ENDING, signal.SIGCHLD)
            if number == signal.SIGCHLD or signal.getsignal(number) != signal.SIG_IGN
        }
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_over = kind is not None and issubclass(kind, InterruptedSession)
        for number, handler in self._handlers_before.items():
            is_late = is_over and number != signal.SIGCHLD
            signal.signal(number, signal.SIG_IGN if is_late else handler)
        signal.set_wakeup_fd(self._fd_before)
        self._reader.close()
        self._writer.close()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self._pending.append(number)

    def wait(self, seconds: float | None, *processes: Process) -> None:
        """Return when one of the processes has ended, or after so many seconds.

        Raises:
            InterruptedSession: one of the signals that end a session came first.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while all(process.poll() is None for process in processes):
            if self._pending:
                raise InterruptedSession(self._pending.pop(0))
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            select.select([self._reader], [], [], left)
            with contextlib.suppress(BlockingIOError):
                self._reader.recv(4096)


def end_process(process: Process, first: signal.Signals) -> int:
    """End a process and what it has started: ask, then insist. Return its exit status."""
    for number in (first, signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_GRACE_S)
    return process.wait()
