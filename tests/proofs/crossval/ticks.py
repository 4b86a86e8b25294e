#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Share of hidden ticks that are inferred wrongly, by recordings in which it is known.

ticks.py TRACE... prints two tables of the periods under governors that see the tick. The first is
of kept ticks that were the next event: how many came though the period ended so much earlier than
they were due, or did not come though it lasted until then. The second is of timers while the tick
is stopped: whether the kernel told of a tick.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

import polars as pl

from cpuidle_lab.recording import columns

EARLY_US = (20, 10, 5, 3, 1, 0)
# As TICK_EARLY_NS of periods.c and CIL_GRID_TOLERANCE_NS of grid.h.
DUE_NS, GRID_NS = 5_000, 10_000
HIDDEN, ENTERED, STOPPED = 2, 0, 1


def periods(path: Path) -> pl.DataFrame:
    """Return the periods of a recording that did not poll, with the grid of their CPU's tick."""
    found = []
    with columns.opened(path) as recording:
        for cpu in recording.cpus:
            machine = recording.state_tables[cpu]
            polls = [k for k, polling in enumerate(machine.polling) if polling]
            intervals = pl.concat(recording.frames("interval", cpu))
            phase = intervals.filter(pl.col("tick_phase_ns") >= 0)["tick_phase_ns"].median()
            rows = pl.concat(recording.frames("period", cpu)).filter(
                pl.col("out_kind") == ENTERED, pl.col("tick") != HIDDEN,
                ~pl.col("out_index").is_in(polls),
            )  # fmt: skip
            off = (pl.col("now_ns").cast(pl.Int64) + pl.col("sleep_length_ns") - phase).mod(
                machine.tick_ns
            )
            found.append(
                rows.select(
                    "tick", "sleep_length_ns", "delta_tick_ns",
                    lasted=pl.col("residency_ns").cast(pl.Int64),
                    stopped=(pl.col("stop_tick") == 1) | (pl.col("flags") & STOPPED != 0),
                    on_grid=(off <= GRID_NS) | (off >= machine.tick_ns - GRID_NS),
                )
            )  # fmt: skip
    return pl.concat(found)


def main() -> None:
    """Print the tables."""
    every = pl.concat([periods(path) for path in map(Path, sys.argv[1:])])
    kept = every.filter(~pl.col("stopped"), pl.col("delta_tick_ns") < pl.col("sleep_length_ns"))
    print(f"{kept.height:,} periods with a kept tick as the next event\n")
    print("| taken to have come from so many us before it is due | came before | did not |")
    print("|--:|--:|--:|")
    for early in EARLY_US:
        late = pl.col("lasted") + early * 1000 >= pl.col("delta_tick_ns")
        wrong = kept.filter(tick=1).filter(~late).height, kept.filter(tick=0).filter(late).height
        print(f"| {early} | {wrong[0]} | {wrong[1]} |")
    due = pl.col("lasted") + DUE_NS >= pl.col("sleep_length_ns")
    timers = every.filter("stopped", due, pl.col("sleep_length_ns") > 0)
    print("\n| a timer that was due while the tick is stopped | a tick was told | none |")
    print("|---|--:|--:|")
    for name, on_grid in (("on the grid of the tick", True), ("elsewhere", False)):
        told = timers.filter(on_grid=on_grid)["tick"]
        print(f"| {name} | {(told == 1).sum()} | {(told == 0).sum()} |")


if __name__ == "__main__":
    main()
