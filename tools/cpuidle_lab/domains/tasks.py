# SPDX-License-Identifier: GPL-2.0
"""Tasks behind wake-ups: those that ran, and those that ran where an interrupt was raised."""

from pathlib import Path

import numpy as np
import polars as pl

from cpuidle_lab.recording import cause_events, causes, reader
from cpuidle_lab.recording.cause_events import IPI, RAISED_NS, Array

Runs = tuple[Array, list[str]]


def _name(pid: int, comm: str | None) -> str:
    """Return the name of a task, "" for the idle task."""
    return (comm or f"task {pid}") if pid > 0 else ""


def runs(path: Path) -> dict[int, Runs]:
    """Return by CPU when tasks began to run (ns), and their names; "" is the idle task.

    Args:
        path: the recording; without sched:sched_switch nothing is returned.

    Raises:
        UserError: as read_chunks().
    """
    found: dict[int, list[pl.DataFrame]] = {}
    for piece in reader.read_chunks(path, ["switch"]):
        if isinstance(piece, reader.Chunk):
            found.setdefault(int(piece.frame["cpu"][0]), []).append(piece.frame)
    result = {}
    for cpu, pieces in found.items():
        rows = pl.concat(pieces)
        names = [_name(*row) for row in rows.select("next_pid", "next_comm").iter_rows()]
        result[cpu] = rows["ts"].cast(pl.Int64).to_numpy(), names
    return result


def _senders(cpu: int, p: causes.Periods, facts: cause_events.Facts) -> pl.DataFrame:
    """Return the interrupts between CPUs that ended idle periods of a CPU, named."""
    at = p.at[p.cause == IPI]
    names = np.asarray([f"IPI {causes.REASONS[int(n)]}" for n in p.reason[p.cause == IPI]], object)
    raised = facts.raised.get(cpu)
    for reason in np.unique(p.reason[p.cause == IPI]) if raised else ():
        assert raised is not None
        mine = raised[1] == reason
        when, pids = raised[0][mine], raised[2][mine]
        if not len(when):
            continue
        n = np.searchsorted(when, at, "right") - 1
        near = (n >= 0) & (at - when[np.maximum(n, 0)] < RAISED_NS)
        near &= p.reason[p.cause == IPI] == reason
        for k in np.flatnonzero(near):
            pid = int(pids[n[k]])
            sender = _name(pid, facts.tasks.get(pid)) or "an idle CPU"
            names[k] = f"{names[k]} from {sender}"
    return pl.DataFrame(
        {"cpu": [cpu] * len(at), "at": at, "sender": names.tolist()},
        schema={"cpu": pl.UInt16, "at": pl.Int64, "sender": pl.String},
    )


def senders(path: Path) -> pl.DataFrame:
    """Return what interrupts between CPUs mean, and whose they are: cpu, at (ns), sender.

    The events of the ipi system tell the task that ran where the interrupt was raised. Without
    them there is the meaning alone, where an event of its own tells it.

    Args:
        path: the recording.

    Raises:
        UserError: as read_chunks().
    """
    empty = pl.DataFrame(schema={"cpu": pl.UInt16, "at": pl.Int64, "sender": pl.String})
    facts = cause_events.facts_of(path)
    if facts is None:
        return empty
    found = [
        _senders(cpu, causes.of_cpu(cpu, events, facts, hrtimers=False)[0], facts)
        for cpu, events in cause_events.by_cpu(path)
    ]
    told = pl.concat([empty, *found]).filter(pl.col("sender") != "IPI unknown")
    return told.unique(["cpu", "at"], maintain_order=True)
