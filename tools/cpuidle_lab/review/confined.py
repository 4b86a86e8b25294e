# SPDX-License-Identifier: GPL-2.0
"""A process for foreign code: without network, with limits, and watched.

The process answers questions one after the other. It may crash or loop for ever: then it alone
ends, and the note of its last play (play.Box) tells by which input.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import TOP, stop_group
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.review.play import Box

# A play takes milliseconds; a governor that has used so much CPU time in one loops for ever. One
# that sleeps uses none. A machine that is busy may let a play wait, so this limit is far away.
_CPU_S, _WALL_S = 10.0, 900.0
_LOOK_S = 0.2
_ANSWER_MAX = 64 << 20

Told = Callable[[float, float], None]


class Died(Exception):  # noqa: N818 - a verdict
    """The process crashed, or was ended because it looped.

    Attributes:
        how: "crashes (SIGSEGV)" or "loops for ever".
        side: label of the governor that played; "" where none did.
        recipe: of the stream; None: unknown.
    """

    def __init__(self, how: str, side: str, recipe: dict[str, Any] | None) -> None:
        super().__init__(how)
        self.how, self.side, self.recipe = how, side, recipe


@cache
def without_network() -> list[str]:
    """Return the command that takes the network away; [] where the kernel does not allow that."""
    command = ["unshare", "--net"]
    if os.geteuid():
        command += ["--map-current-user"]
    try:
        done = subprocess.run([*command, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return []
    return [] if done.returncode else command


def environment() -> dict[str, str]:
    """Return the environment of a process that imports this package."""
    path = os.pathsep.join(filter(None, (str(TOP / "tools"), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path}


def network_is_closed() -> bool:
    """Return whether the process is without network."""
    return bool(without_network())


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process without its children, s."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")


class Confined:
    """A worker with two governors; to be closed by `with`.

    Args:
        before, after: the governors, as on the command line.
        folder: a scratch directory.
        told: called with the share that is done and the seconds that are left.
    """

    def __init__(self, before: str, after: str, folder: Path, told: Told) -> None:
        self._governors = {"before": before, "after": after}
        self._box_path = folder / "box"
        self._log = folder / "worker.log"
        self._told = told
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self._buffer = b""
        self._box = Box(self._box_path)
        self._ended = False

    def __enter__(self) -> "Confined":
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start(self) -> None:
        self._box.rest()
        ours, theirs = os.pipe()
        command = [*without_network(), sys.executable, "-m", "cpuidle_lab.review.worker",
                   str(self._box_path), str(theirs)]  # fmt: skip
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL, stderr=log, pass_fds=(theirs,), start_new_session=True,
                env=environment(),
            )  # fmt: skip
        os.close(theirs)
        self._answers, self._buffer = ours, b""
        self.ask("pair", **self._governors)

    def kill(self) -> None:
        """End the process from another thread; a question that waits raises Died."""
        self._ended = True
        if self._process is not None:
            self._process.kill()

    def _stop(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        stop_group(self._process, (signal.SIGKILL,))
        os.close(self._answers)
        self._process = None

    def ask(self, question: str, **arguments: Any) -> Any:
        """Return the answer to a question.

        Raises:
            Died: the process crashed or looped; a new one is ready.
            UserError: it could not answer.
        """
        assert self._process is not None and self._process.stdin is not None
        line = json.dumps([question, arguments]) + "\n"
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
            while "answer" not in (found := self._line()):
                if "error" in found:
                    raise UserError(str(found["error"]), int(found["code"]))
                self._told(float(found.get("done", 0)), float(found.get("left_s", 0)))
        except (BrokenPipeError, EOFError):
            raise self._died(question) from None
        return found["answer"]

    def _died(self, question: str, how: str = "") -> Exception:
        assert self._process is not None
        last = self._box.read()
        if not how:
            code = self._process.wait()
            # A child of unshare dies as a shell would tell it.
            number = -code if code < 0 else code - 128
            known = number in {one.value for one in signal.Signals}
            how = f"crashes ({signal.Signals(number).name})" if known else f"ends with {code}"
        self._stop()
        if self._ended:
            return Died("was ended", "", None)
        if question == "pair":
            lines = self._log.read_text(errors="replace").strip().splitlines() or [how]
            return UserError(f"the governors cannot be loaded: {lines[-1]}")
        self._start()
        recipe = last.get("recipe")
        return Died(how, str(last.get("side", "")), recipe if isinstance(recipe, dict) else None)

    def _line(self) -> dict[str, Any]:
        """Return the next line of the process, and end it where it loops.

        Raises:
            EOFError: it has ended.
        """
        assert self._process is not None
        count, began = self._box.count, (time.monotonic(), _cpu_s(self._process.pid))
        while b"\n" not in self._buffer:
            if select.select([self._answers], [], [], _LOOK_S)[0]:
                part = os.read(self._answers, 1 << 16)
                if not part or len(self._buffer) > _ANSWER_MAX:
                    raise EOFError
                self._buffer += part
                continue
            now = time.monotonic(), _cpu_s(self._process.pid)
            if count != self._box.count:
                count, began = self._box.count, now
            elif count % 2 and (now[0] - began[0] > _WALL_S or now[1] - began[1] > _CPU_S):
                raise self._died("play", "loops for ever")
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise EOFError
        return found
