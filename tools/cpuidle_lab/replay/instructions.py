# SPDX-License-Identifier: GPL-2.0
"""Cost of a decision: instructions of select and update, counted by valgrind.

A program (tools/native/count) plays some intervals of a recording, and valgrind's callgrind counts
what runs inside of the governor, and nothing else: not the replay, and not what makes a governor of
the kernel a policy. The program is linked from the same sources as the library, but without
position-independent code, so that no governor pays for how a shared library finds its data, and
without vectors, which a kernel does not use.
"""

import contextlib
import ctypes
import json
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from cpuidle_lab.base.cache import CACHE, digest
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.recording.columns import Columns, Recording, joined, sliced
from cpuidle_lab.replay import build
from cpuidle_lab.replay.engine import (
    INTERVAL_TYPES,
    Array,
    Settings,
    c_machine,
    c_model,
    check_table,
    fitting,
)
from cpuidle_lab.replay.library import LIMITS, TUNABLE_MAX, Governor
from cpuidle_lab.states.table import StateTable

SAMPLE = 2000

# Figures by a hash of program, governor and intervals: callgrind takes a second for each.
FIGURES = CACHE / "instructions"
KEPT_FIGURES = 4096

_COLLECTED = re.compile(r"Collected : (\d+)")

_found: dict[object, float | None] = {}
_building = threading.Lock()


def program(governor: Governor, product: build.Product = build.COUNTER) -> Path:
    """Return the program in which a governor's instructions are counted, or one like it."""
    _, _, kernel = governor.spec.partition("@")
    with _building:
        if governor.folder:
            found = governor.folder / product.file
            if not found.exists():
                build.compile_own(product, governor.folder, governor.folder)
            return found
        return build.mainline(product, kernel) if kernel else build.own(product)


def _middle(recording: Recording, sample: int) -> tuple[int, Columns]:
    """Return the CPU with most intervals, and `sample` of them from the middle."""
    cpu = max(recording.cpus, key=lambda cpu: recording.rows("interval", cpu))
    skip = max(0, recording.rows("interval", cpu) - sample) // 2
    parts: list[Columns] = []
    for chunk in recording.intervals(cpu, list(INTERVAL_TYPES)):
        rows = len(chunk["flags"])
        parts.append(sliced(chunk, skip, skip + sample))
        sample -= len(parts[-1]["flags"])
        skip = max(0, skip - rows)
        if sample <= 0:
            break
    return cpu, joined(parts)


def write_chunk(
    path: Path,
    governor: Governor,
    table: StateTable,
    cpu: int,
    chunk: Mapping[str, Array],
    settings: Settings | None,
) -> None:
    """Write the input of tools/native/count: the intervals of a CPU."""
    values = governor.values(settings)
    columns = fitting(chunk, INTERVAL_TYPES)
    with path.open("wb") as stream:
        stream.write(bytes(c_machine(table, cpu)))
        stream.write(bytes(c_model(table)))
        stream.write(bytes((ctypes.c_uint32 * TUNABLE_MAX)(*values)))
        stream.write(len(columns["flags"]).to_bytes(8, "little"))
        for column in columns.values():
            stream.write(column.tobytes())


def write(
    path: Path, governor: Governor, recording: Recording, settings: Settings | None, sample: int
) -> None:
    """Write the input of tools/native/count, from the middle of a recording."""
    cpu, chunk = _middle(recording, sample)
    table = recording.state_tables.get(cpu)
    if table is None:
        raise UserError(f"{recording.path}: the idle states of CPU {cpu} are unknown")
    check_table(str(recording.path), table)
    write_chunk(path, governor, table, cpu, chunk, settings)


def _count(governor: Governor, fill: Callable[[Path], None]) -> float | None:
    """Count, or return the figure that is kept of the same program, governor and intervals."""
    counter = program(governor)
    with scratch() as folder:
        data = folder / "intervals"
        fill(data)
        place = FIGURES / digest([counter.read_bytes(), governor.name, data.read_bytes()])
        if not place.exists():
            _keep(place, _counted(governor, counter, data))
    figure: float | None = json.loads(place.read_text())
    return figure


def _keep(place: Path, figure: float | None) -> None:
    """Write a figure, whole or not at all; those that were written first go."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False) as stream:
        json.dump(figure, stream)
    Path(stream.name).rename(place)
    with contextlib.suppress(FileNotFoundError):  # another process removes some, too
        written = sorted(place.parent.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for old in written[:-KEPT_FIGURES]:
            old.unlink()


def _counted(governor: Governor, counter: Path, data: Path) -> float | None:
    command: list[str | Path] = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--collect-atstart=no",
        "--toggle-collect=count_select",
        "--toggle-collect=count_update",
        counter,
        governor.name,
        data,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    collected = _COLLECTED.search(done.stderr)
    if done.returncode or not collected:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UserError(f"counting the instructions of {governor.spec} failed: {last}")
    decisions = int(done.stdout)
    return int(collected[1]) / decisions if decisions else None


def of_intervals(
    governor: Governor,
    table: StateTable,
    chunk: Mapping[str, Array],
    settings: Settings | None = None,
) -> float | None:
    """Return the mean instructions of a decision on some intervals of one CPU.

    Args:
        governor: who decides.
        table: the CPU's idle states.
        chunk: columns, as of engine.INTERVAL_TYPES.
        settings: tunables that differ from the default.

    Returns:
        None as per_decision() does.

    Raises:
        UserError: a tunable is unknown, or the program cannot be compiled or run.
    """
    if not can_count(governor):
        return None
    return _count(governor, lambda path: write_chunk(path, governor, table, 0, chunk, settings))


def can_count(governor: Governor) -> bool:
    """Tell whether there is valgrind, and a kernel could run the governor."""
    return governor.spec not in LIMITS and shutil.which("valgrind") is not None


def prepare(governor: Governor) -> None:
    """Compile what per_decision() needs, so that it need not."""
    if can_count(governor):
        program(governor)


def per_decision(
    governor: Governor,
    recording: Recording,
    settings: Mapping[str, str | int] | None = None,
    sample: int = SAMPLE,
) -> float | None:
    """Return the mean instructions of a decision: of select, and of update after it.

    The governor starts afresh and plays intervals from the middle of the CPU that has most of them.
    The answer is remembered for the life of the process.

    Args:
        governor: who decides.
        recording: its intervals.
        settings: tunables that differ from the default.
        sample: how many intervals.

    Returns:
        None where valgrind is missing, no decision was made, or no kernel could run the governor.

    Raises:
        UserError: a tunable is unknown, or the program cannot be compiled or run.
    """
    if not can_count(governor):
        return None
    key = governor.spec, governor.values(settings), recording.path, sample
    if key not in _found:
        _found[key] = _count(
            governor, lambda path: write(path, governor, recording, settings, sample)
        )
    return _found[key]
