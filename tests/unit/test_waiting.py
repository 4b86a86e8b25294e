# SPDX-License-Identifier: GPL-2.0
"""Waiting for the signals that end a session."""

import os
import signal
import subprocess
import sys

from tests.unit.command import PACKAGE

# A session that a signal ends, and a second signal that comes when all is restored.
IMPATIENT = """
import os, signal
from cpuidle_lab.base.waiting import InterruptedSession, Waiter
try:
    with Waiter() as waiter:
        os.kill(os.getpid(), signal.SIGINT)
        waiter.wait(60)
except InterruptedSession:
    os.kill(os.getpid(), signal.SIGINT)
    print("told")
"""

COMPLETE = """
import os, signal
from cpuidle_lab.base.waiting import Waiter
with Waiter() as waiter:
    waiter.wait(0)
os.kill(os.getpid(), signal.SIGTERM)
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script that has the package."""
    variables = os.environ | {"PYTHONPATH": str(PACKAGE)}
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=variables, check=False
    )


def test_a_second_signal_after_the_end_changes_nothing() -> None:
    done = run(IMPATIENT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "told\n", "")


def test_signals_are_as_before_after_a_session_that_ended_by_itself() -> None:
    assert run(COMPLETE).returncode == -signal.SIGTERM
