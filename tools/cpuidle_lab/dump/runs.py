# SPDX-License-Identifier: GPL-2.0
"""Dumps of this machine, alone or around the runs of a command."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cpuidle_lab.base import files
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.waiting import InterruptedSession, Waiter, end_process
from cpuidle_lab.dump.gather import moment_of
from cpuidle_lab.host.machine import Host
from cpuidle_lab.recording.dumps import own
from cpuidle_lab.recording.dumps.model import Moment


def _taken(_path: Path) -> str:
    return "exists already, and a dump is never replaced"


def dump(host: Host, output: Path | None) -> None:
    """Write a dump of this moment.

    Args:
        host: the machine.
        output: a new file; None is standard output.

    Raises:
        UserError: the file exists, or there are no idle states.
    """
    if output is not None:
        files.check(output, _taken)
    text = own.text_of([moment_of(host)])
    if output is None:
        sys.stdout.write(text)
    else:
        files.write_whole(output, text, _taken)


def dump_around(host: Host, output: Path, command: Sequence[str], runs: int) -> int:
    """Write dumps before and after each run of a command into one file.

    Args:
        host: the machine.
        output: a new file. It is written at the end, with all complete runs.
        command: program and arguments.
        runs: how many; a run that fails is the last, and is kept.

    Returns:
        the exit code of the last run.

    Raises:
        UserError: the file exists, there are no idle states, or the command cannot run.
        InterruptedSession: a signal came; complete runs are written.
    """
    files.check(output, _taken)
    moments: list[Moment] = []
    code = 0
    try:
        with Waiter() as waiter:
            for run in range(1, runs + 1):
                before = moment_of(host, f"before {run}")
                code = _run(command, waiter)
                moments += [before, moment_of(host, f"after {run}")]
                if code:
                    break
    finally:
        if moments:
            files.write_whole(output, own.text_of(moments), _taken)
    return code


def _run(command: Sequence[str], waiter: Waiter) -> int:
    """Run a command in a session of its own, of which nothing stays; return its exit code."""
    try:
        process = subprocess.Popen(command, start_new_session=True)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UserError(f"cannot run {command[0]}: {reason}") from error
    try:
        waiter.wait(None, process)
    except InterruptedSession as interruption:
        end_process(process, signal.Signals(interruption.number))
        raise
    finally:
        status = end_process(process, signal.SIGTERM)
    return status if status >= 0 else 128 - status
