#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""By how much recorded polls that were woken outlast their limit, and their timer.

polls.py TRACE... prints a table with a row for each recording. Times are in us. The limit is that
of a CPU with all states enabled.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

import polars as pl

from cpuidle_lab.recording import columns
from cpuidle_lab.states.table import StateTable

# As cpuidle_poll_time() of the kernel.
POLL_MIN_NS, TICKS = 10_000, 16


def limit_ns(machine: StateTable) -> int:
    """Return for how long a CPU polls at most, in ns."""
    most = machine.tick_ns // TICKS
    pays = (ns for ns in machine.target_residency_ns[1:] if ns >= POLL_MIN_NS)
    return min(next(pays, most), most)


def main() -> None:
    """Print the table."""
    print(
        "| recording | limit | woken within | woken beyond | beyond by, median "
        "| ended by a timer | later by, median |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")
    for path in map(Path, sys.argv[1:]):
        with columns.opened(path) as recording:
            machine = recording.state_tables[recording.cpus[0]]
            if not machine.polling[0]:
                continue
            frames, intervals = (
                [one for cpu in recording.cpus for one in recording.frames(table, cpu)]
                for table in ("period", "interval")
            )
        limit = limit_ns(machine)
        woken = pl.concat(frames).filter(out_index=0, out_kind=0, poll_time_limit=0)["residency_ns"]
        beyond = woken.filter(woken > limit) - limit
        by = f"{float(str(beyond.median())) / 1000:.1f}" if len(beyond) else ""
        whole = pl.concat(intervals).filter(pl.col("flags") & columns.TIMER != 0, periods=1)
        timed = whole.filter(pl.col("timer_ns") > 0, last_index=0)
        late = timed["length_ns"] - timed["timer_ns"]
        later = f"{float(str(late.median())) / 1000:.1f}" if len(late) else ""
        name = path.name.removesuffix(".trace.dat")
        print(
            f"| {name} | {limit / 1000:g} | {(woken <= limit).sum()} | {len(beyond)} | {by} "
            f"| {len(late)} | {later} |"
        )


if __name__ == "__main__":
    main()
