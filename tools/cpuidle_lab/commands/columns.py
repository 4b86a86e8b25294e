# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab columns`: turn a trace into Parquet."""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cpuidle_lab.recording.columns import Recording

NAME = "columns"
HELP = "convert a trace into Parquet tables: idle periods, intervals, other events"
EPILOG = """\
examples:
  cpuidle-lab columns trace.dat -o trace.columns
  cpuidle-lab compare trace.columns --governors teo_ng
                                        each command that takes a trace takes its columns
  python3 -c 'import polars; print(polars.read_parquet("trace.columns/interval/*.parquet"))'

DIR is replaced if it holds columns alone, and left as it is if it holds anything else.
docs/replay.md describes the columns.

exit codes: 0 done, 1 the file is no trace or is damaged, 2 wrong usage, or DIR is something else
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "trace", type=Path, metavar="TRACE", help="recording; docs/stock.md has the formats"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", required=True, help="the directory to be made"
    )
    parser.add_argument(
        "--machine",
        metavar="MACHINE",
        help="idle states of a recording without the module: see cpuidle-lab machines, "
        "or RANGE=MACHINE,... by CPU (0-3=A.yaml,4-5=B.yaml)",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the columns and say what is in them."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from cpuidle_lab.base import files
    from cpuidle_lab.recording import columns, reader, state_tables, trace

    files.check(args.output, columns.foreign)
    given = state_tables.given(args.machine) if args.machine else ()
    told = trace.told_with(args.trace, given) if given else None
    reader.native_reader()  # compiled now, so that it does not count
    start = time.monotonic()
    console = Console(stderr=True)
    shown = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*shown, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("Reading")
        columns.write(
            args.trace,
            args.output,
            lambda rows: bar.update(task, description=f"Reading: {rows:,} rows"),
            told,
        )
    seconds = time.monotonic() - start
    recording = columns.Recording(args.output)
    if args.json:
        json.dump(_as_json(recording, seconds), sys.stdout, indent=2)
        print()
    else:
        _show(recording, seconds)
    return 0


def _as_json(recording: "Recording", seconds: float) -> dict[str, object]:
    events = recording.integrity.events
    return {
        "directory": str(recording.path),
        "kind": recording.kind,
        "kernel": recording.kernel,
        "cpus": recording.cpus,
        "rows": {name: recording.rows(name) for name in sorted(recording.parts)},
        "integrity": asdict(recording.integrity),
        "unplaced": recording.unplaced,
        "stock": recording.stock,
        "seconds": round(seconds, 3),
        "events_per_s": round(events / seconds) if seconds else None,
    }


def _show(recording: "Recording", seconds: float) -> None:
    from cpuidle_lab.recording.columns import CPU_IDLE
    from cpuidle_lab.recording.stock import omissions, stock_line

    lost = recording.integrity
    for name in sorted(recording.parts):
        print(f"{name:10} {recording.rows(name):12,} rows")
    print(f"{lost.events:,} events in {seconds:.1f} s: {lost.events / seconds / 1e6:.2f} million/s")
    if recording.kind == CPU_IDLE:
        print("only power:cpu_idle tells of it: what the governor knew is unknown")
    if recording.stock and recording.kind != CPU_IDLE:
        print(stock_line(recording.stock))
    for line in omissions(recording.stock or {}):
        print(line)
    if recording.unplaced:
        print(f"{recording.unplaced} decisions came before the first cpuidle_lab:config event")
    if lost.complete:
        print("nothing is missing")
    else:
        print(
            f"missing: {lost.lost_known} events lost by the kernel (and {lost.lost_unknown} times "
            f"an unknown number), {lost.decisions_missing} decisions in {lost.gaps} gaps, "
            f"{lost.without_decision} outcomes without decision, "
            f"{lost.implausible} implausible outcomes"
        )
    print(f"written: {recording.path}")
