# SPDX-License-Identifier: GPL-2.0
"""Lines of pytest's report besides verdicts: the state of the host, and the time by part."""

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

NO_ROOM = re.compile(r"No space left on device|the disk is full")
TOO_LATE = re.compile(r"TimeoutExpired|timed out|did not end within|Timeout")

# With less room than this, tests fail in many ways.
ROOM_BYTES = 256 << 20
# With more processes a CPU, time limits are short.
CROWDED = 2

SHOWN = 3


def trouble(said: str, source: str, folders: Iterable[Path]) -> str:
    """Return a sentence if a failure may come from the host alone, else "".

    Args:
        said: the error and the output of the test.
        source: of the test; what it names itself, it may only play.
        folders: that must have room.
    """
    free, folder = min((shutil.disk_usage(path).free, path) for path in folders)
    if free < ROOM_BYTES or _names(NO_ROOM, said, source):
        return (
            f"A disk is or was full ({free >> 20} MiB are free below {folder}): "
            "free some space and run this test again; the code may be right."
        )
    load, cpus = os.getloadavg()[0], os.cpu_count() or 1
    if load > CROWDED * cpus and _names(TOO_LATE, said, source):
        return (
            f"A time limit passed on a crowded host (load {load:.1f}, {cpus} CPUs): "
            "run this test again alone; the code may be right."
        )
    return ""


def _names(what: re.Pattern[str], said: str, source: str) -> bool:
    return any(found not in source for found in what.findall(said))


def times(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each folder of tests: its seconds, and those of its slowest files."""
    total: dict[str, float] = defaultdict(float)
    setup: dict[str, float] = defaultdict(float)
    files: dict[str, float] = defaultdict(float)
    for report in reports:
        file = report.nodeid.partition("::")[0]
        part = "/".join(Path(file).parts[:2]) if file.startswith("tests/") else file
        total[part] += report.duration
        files[file] += report.duration
        setup[part] += report.duration if report.when == "setup" else 0.0
    lines = []
    for part, seconds in sorted(total.items(), key=lambda item: -item[1]):
        own = sorted((-took, file) for file, took in files.items() if file.startswith(part))
        slowest = ", ".join(f"{Path(file).name} {-took:.0f}" for took, file in own[:SHOWN])
        lines.append(f"{part}: {seconds:.0f}, of them set-up {setup[part]:.0f}; {slowest}")
    return lines
