# SPDX-License-Identifier: GPL-2.0
"""The phases of a recording: which governor ran when, under which workload.

A marker is the line "phase governor=NAME workload=NAME" written to trace_marker; "phase end" or the
next marker ends the phase. " request_us=N" tells of a latency request that the recorder holds.
"""

import re
from dataclasses import dataclass

import polars as pl

_MARK = re.compile(r"phase\s+(?:(end)\b|(.*))", re.DOTALL)


@dataclass(frozen=True)
class Phase:
    """A part of the recording, from one marker to the next.

    Attributes:
        governor: as the marker says, None without markers.
        workload: likewise, "" without markers.
        start_ns: time of its beginning.
        end_ns: time of its end.
        request_us: latency request that held meanwhile, as the marker says; None: none.
    """

    governor: str | None
    workload: str
    start_ns: int
    end_ns: int
    request_us: int | None = None


def phases_of(marks: pl.DataFrame, end_ns: int) -> list[Phase]:
    """Return the phases that markers delimit, in their order; none without markers.

    Args:
        marks: the table of markers: `ts` and `text`.
        end_ns: where a phase without an end ends.
    """
    found: list[Phase] = []
    running: tuple[int, dict[str, str]] | None = None
    if marks.height:
        marks = marks.filter(pl.col("text").str.contains(r"^\s*phase\s"))
    rows = marks.sort("ts").select("ts", "text").rows() if marks.height else []
    for ts, text in [*rows, (end_ns, "phase end")]:
        match = _MARK.match(text.strip())
        if not match:
            continue
        if running:
            start, words = running
            asked = words.get("request_us", "")
            request_us = int(asked) if asked.isdecimal() else None
            named = words.get("governor"), words.get("workload", "")
            found.append(Phase(*named, start, ts, request_us))
        words = dict(word.split("=", 1) for word in (match[2] or "").split() if "=" in word)
        running = (ts, words) if "governor" in words else None
    return found
