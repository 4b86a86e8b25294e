# SPDX-License-Identifier: GPL-2.0
"""The command as a process of its own, and what tests of it wait for and read."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "tools"


def start(
    *arguments: str, stdout: int = subprocess.PIPE, **variables: str
) -> subprocess.Popen[str]:
    """Start `cpuidle-lab` with arguments; the machine is in the environment.

    Args:
        arguments: the command and its options.
        stdout: as for Popen.
        variables: added to the environment.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "cpuidle_lab", *arguments],
        env=os.environ | {"PYTHONPATH": str(PACKAGE)} | variables,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `cpuidle-lab` with arguments to its end."""
    return subprocess.run(
        [sys.executable, "-m", "cpuidle_lab", *arguments],
        env=os.environ | {"PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        check=False,
    )


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until a condition holds, or fail."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"this did not happen within {seconds} s"
        time.sleep(0.02)


def error(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line on stderr."""
    text = capsys.readouterr().err
    assert text.count("\n") == 1, text
    assert text.startswith("cpuidle-lab: error: ")
    return text


def contents(root: Path, but: Collection[str]) -> dict[str, str]:
    """Return the contents of all files below a folder, except those with the names in `but`."""
    return {
        str(path.relative_to(root)): path.read_text().strip()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in but
    }
