# SPDX-License-Identifier: GPL-2.0
"""What a decision of each governor costs: instructions and time, beside mainline's.

Instructions are counted by valgrind and repeat to the last one. Time is the thread's CPU time of
replays in this process, all governors in turns, and holds the engine's own share; it is noisy.
"""

import os
import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from cpuidle_lab.bench.streams import Stream
from cpuidle_lab.compare import spec
from cpuidle_lab.compare.model import Phase
from cpuidle_lab.compare.spec import Candidate
from cpuidle_lab.linux_source import NEWEST
from cpuidle_lab.replay import instructions
from cpuidle_lab.replay.engine import Run
from cpuidle_lab.replay.library import Governor, governor

REFERENCE = f"teo@{NEWEST}"

# Beside these, mainline's menu and teo.
VARIANTS = (
    "teo_ng",
    "menu_ng",
    *(f"menu_ng:history_size={size}" for size in (16, 32, 64, 128)),
    "wteo",
    "wteo_rfc",
    *(f"wteo_rfc:history_size={size}" for size in (0, 17, 32)),
)

# The cheapest of each library: what the engine takes is at most what these take.
CHEAPEST_OURS, CHEAPEST_MAINLINE = "oracle", f"haltpoll@{NEWEST}"

ROUNDS = 15

Cell = tuple[str, str]  # governor, stream


def candidates(variants: Sequence[str]) -> list[Candidate]:
    """Return who is measured, the reference first.

    Raises:
        UserError: a variant is unknown.
    """
    found = [one for one in spec.parse(",".join(variants), True) if one.kind != spec.LIMIT_KIND]
    return sorted(found, key=lambda one: (one.label != REFERENCE, one.kind != spec.MAINLINE_KIND))


def count(
    found: Sequence[Candidate], streams: Sequence[Stream], phase: Phase
) -> dict[Cell, float | None]:
    """Return the mean instructions of a decision; nothing without valgrind."""
    if not shutil.which("valgrind"):
        return {}
    for one in found:
        instructions.prepare(one.governor)
    counts: dict[Cell, float | None] = {}
    with (
        phase("Counting instructions", len(found) * len(streams)) as done,
        ThreadPoolExecutor(os.cpu_count() or 1) as pool,
    ):
        jobs = {
            pool.submit(
                instructions.per_decision, one.governor, stream.recording, dict(one.settings)
            ): (one.label, stream.name)
            for one in found
            for stream in streams
        }
        try:
            for job in as_completed(jobs):
                counts[jobs[job]] = job.result()
                done(1)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return counts


def _play(one: Governor, stream: Stream, settings: Mapping[str, str]) -> float | None:
    """Return the CPU time of a decision in ns, engine included; None if none was made."""
    with Run(one, stream.machine, settings) as run:
        start = time.thread_time_ns()
        run.play(stream.intervals, choices=False)
        taken = time.thread_time_ns() - start
        decisions = run.totals().decisions
    return taken / decisions if decisions else None


def clock(
    found: Sequence[Candidate], streams: Sequence[Stream], rounds: int, phase: Phase
) -> dict[Cell, float | None]:
    """Return the time of a decision in ns, the median of all rounds, engine included."""
    played = [(one.label, one.governor, dict(one.settings)) for one in found]
    played += [(name, governor(name), {}) for name in (CHEAPEST_OURS, CHEAPEST_MAINLINE)]
    taken: dict[Cell, list[float]] = {}
    with phase("Taking the time", rounds * len(streams)) as done:
        for _ in range(rounds):
            for stream in streams:
                for label, one, settings in played:
                    ns = _play(one, stream, settings)
                    if ns is not None:
                        taken.setdefault((label, stream.name), []).append(ns)
                done(1)
    return {cell: statistics.median(values) for cell, values in taken.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _row(
    one: Candidate,
    streams: Sequence[Stream],
    counts: Mapping[Cell, float | None],
    times: Mapping[Cell, float | None],
) -> dict[str, Any]:
    """Return the figures of one governor over the streams of one group."""
    each = {stream.name: counts.get((one.label, stream.name)) for stream in streams}
    known = {name: value for name, value in each.items() if value is not None}
    worst = max(known, key=lambda name: known[name], default="")
    mainline = one.kind == spec.MAINLINE_KIND
    cheapest = CHEAPEST_MAINLINE if mainline else CHEAPEST_OURS
    total_ns = _mean([times.get((one.label, stream.name)) for stream in streams])
    engine_ns = _mean([times.get((cheapest, stream.name)) for stream in streams])
    own_ns = None
    if total_ns is not None and engine_ns is not None:
        own_ns = max(0.0, total_ns - engine_ns)
    return {
        "governor": one.label,
        "kind": one.kind,
        "group": streams[0].group,
        "streams": len(streams),
        "instructions": _mean(list(each.values())),
        "worst_instructions": known.get(worst),
        "worst_stream": worst,
        "total_ns": total_ns,
        "engine_ns": engine_ns,
        "own_ns": own_ns,
        "by_stream": {
            stream.name: {
                "instructions": each[stream.name],
                "total_ns": times.get((one.label, stream.name)),
            }
            for stream in streams
        },
    }


def table(
    found: Sequence[Candidate],
    streams: Sequence[Stream],
    counts: Mapping[Cell, float | None],
    times: Mapping[Cell, float | None],
) -> list[dict[str, Any]]:
    """Return one row for each group of streams and governor, with its ratios.

    They are to the reference, and of instructions to the same governor with its default tunables.
    """
    rows = []
    for group in dict.fromkeys(stream.group for stream in streams):
        members = [stream for stream in streams if stream.group == group]
        part = [_row(one, members, counts, times) for one in found]
        by_label = {row["governor"]: row for row in part}
        reference = by_label[REFERENCE]
        for row in part:
            default = by_label[row["governor"].partition(":")[0]]
            row["instructions_ratio"] = _ratio(row["instructions"], reference["instructions"])
            row["default_ratio"] = _ratio(row["instructions"], default["instructions"])
            row["ns_ratio"] = _ratio(row["own_ns"], reference["own_ns"])
        rows += part
    return rows


def measure(streams: Sequence[Stream], rounds: int, phase: Phase) -> dict[str, Any]:
    """Measure all governors on all streams.

    Returns:
        reference, rounds, streams, and rows as of table(); times in ns.

    Raises:
        UserError: something cannot be compiled or replayed.
    """
    found = candidates(VARIANTS)
    counts = count(found, streams, phase)
    times = clock(found, streams, rounds, phase)
    return {
        "reference": REFERENCE,
        "rounds": rounds,
        "counted": bool(counts),
        "streams": [
            {
                "name": stream.name,
                "group": stream.group,
                "states": stream.machine.count,
                "intervals": stream.recording.rows("interval"),
            }
            for stream in streams
        ],
        "rows": table(found, streams, counts, times),
    }
