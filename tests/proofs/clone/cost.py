# SPDX-License-Identifier: GPL-2.0
"""Cost of the events of calls: instructions and bytes by event, in virtual time."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from cpuidle_lab.base.files import scratch
from cpuidle_lab.clone.events import CALL_EVENTS, CLONE_EVENTS
from cpuidle_lab.evidence.tables import Table
from cpuidle_lab.lab import LabRun, run_lab

# Bytes that dd copies one by one: a read and a write each.
_COUNT = 20_000
_EVENTS = 4 * _COUNT

# The same events with a filter that drops all of those calls.
_DROPPED = tuple(f"{event.split()[0]} -f id==999" for event in CALL_EVENTS)

# Events by what is recorded.
_WAYS = {
    "no calls": CLONE_EVENTS,
    "calls that the filter drops": (*CLONE_EVENTS, *_DROPPED),
    "calls": (*CLONE_EVENTS, *CALL_EVENTS),
}
_HEADS = ("recorded", "events", "instructions by event", "bytes by event")
_LINE = re.compile(r" ([0-9]+)\.([0-9]{6}): tracing_mark_write: (begin|end)")


def _script() -> str:
    """Return the guest's script: it leaves the markers' lines, and the sizes of the buffer."""
    lines = [". /lab/functions", "dd if=/dev/zero of=/dev/null bs=1 count=100 2>/dev/null"]
    for number, recorded in enumerate(_WAYS.values()):
        lines += [
            f"trace_start 64 {shlex.join(recorded)}",
            "mark begin",
            f"dd if=/dev/zero of=/dev/null bs=1 count={_COUNT} 2>/dev/null",
            "mark end",
            "trace-cmd stop",
            f"grep tracing_mark_write $tracing/trace >/results/marks{number}",
            f"cat $tracing/per_cpu/cpu0/stats >/results/sizes{number}",
            "trace-cmd reset >/dev/null",
        ]
    return "\n".join(lines)


def _figures(folder: Path, number: int) -> tuple[int, int]:
    """Return the time between the markers, ns, and the bytes of the buffer."""
    marks = {name: int(s) * 10**9 + int(us) * 1000
             for s, us, name in _LINE.findall((folder / f"marks{number}").read_text())}  # fmt: skip
    sizes = dict(line.split(":") for line in (folder / f"sizes{number}").read_text().splitlines())
    return marks["end"] - marks["begin"], int(sizes["bytes"])


def table(kernel: str, seed: int) -> Table:
    """Measure, and return the table.

    Raises:
        UserError: the boot fails.
    """
    run = LabRun(_script(), kernel=kernel, cpus=1, seed=seed, real_time=False)
    with scratch() as folder:
        files = run_lab(run, folder / "results", "Measuring the cost of events").check().files
        found = [_figures(files, number) for number in range(len(_WAYS))]
    rows: list[Sequence[str | float | None]] = [
        [way, _EVENTS, (ns - found[0][0]) / _EVENTS, (size - found[0][1]) / _EVENTS]
        for way, (ns, size) in zip(_WAYS, found, strict=True)
    ]
    return Table("", _HEADS, rows[1:], 0)
