# SPDX-License-Identifier: GPL-2.0
"""Summary of a Parquet directory: rows of each table, and missing events."""

from collections.abc import Iterator
from dataclasses import asdict

from cpuidle_lab.base.errors import printable
from cpuidle_lab.recording.columns.layout import CPU_IDLE, INTERRUPTS
from cpuidle_lab.recording.columns.recording import Recording
from cpuidle_lab.recording.stock import omissions, stock_line


def as_json(recording: Recording) -> dict[str, object]:
    """Return the facts of a recording as JSON can have them."""
    return {
        "directory": str(recording.path),
        "kind": recording.kind,
        "kernel": recording.kernel,
        "cpus": recording.cpus,
        "rows": {name: recording.rows(name) for name in sorted(recording.parts)},
        "integrity": asdict(recording.integrity),
        "unplaced": recording.unplaced,
        "stock": recording.stock,
    }


def text(recording: Recording) -> str:
    """Return the facts of a recording as lines."""
    return "\n".join(_lines(recording))


def _lines(recording: Recording) -> Iterator[str]:
    lost = recording.integrity
    for name in sorted(recording.parts):
        yield f"{name:10} {recording.rows(name):12,} rows"
    yield f"{lost.events:,} events"
    if recording.kind == CPU_IDLE:
        yield "only power:cpu_idle was recorded: the inputs of the governor are unknown"
    elif recording.kind == INTERRUPTS:
        yield "interrupts tell what ended idle periods: not all inputs of the governor are known"
    elif recording.stock:
        yield stock_line(recording.stock)
    yield from omissions(recording.stock or {})
    if recording.unplaced:
        yield f"{recording.unplaced} decisions came before the first cpuidle_lab:cil_config event"
    if lost.complete:
        yield "nothing is missing"
    else:
        yield (
            f"missing: {lost.lost_known} events lost by the kernel (and {lost.lost_unknown} times "
            f"an unknown number), {lost.decisions_missing} decisions in {lost.gaps} gaps, "
            f"{lost.without_decision} outcomes without decision, "
            f"{lost.implausible} implausible outcomes"
        )
    yield printable(f"written: {recording.path}")
