# SPDX-License-Identifier: GPL-2.0
"""The trace reader, replay and whole commands reach their targets of time and memory.

Times are CPU time of one core, and noisy; instructions repeat with the same compiler.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import FAILURE
from cpuidle_lab.evidence.tables import Table, Verdict, verdict
from cpuidle_lab.view.terminal import console, meter
from experiments import proofs
from tests.proofs.throughput import commands, measure

FOLDER = TOP / "build" / "throughput"
# Events of the large trace, intervals of the stream.
FULL, QUICK = (5_000_000, 1_000_000), (500_000, 100_000)
# Events of the recordings that whole commands take.
SIZES, QUICK_SIZES = (1_000_000, 10_000_000, 100_000_000), (100_000, 400_000)

EXAMPLES = {
    "": "100 million events take half an hour, and 20 GB of disk",
    "--events 1000000 --events 5000000": "whole commands on other sizes",
    "--quick --json": "",
}


def verdicts(found: dict[str, dict[str, Any]]) -> list[Verdict]:
    """Judge the reader, and replay from memory."""
    events, periods = found["reader"]["events_per_s"] or 0, found["replay"]["periods_per_s"]
    least_events = found["reader"]["target_events_per_s"]
    least_periods = found["replay"]["target_periods_per_s"]
    return [
        verdict(events >= least_events, f"reader: {least_events:,} events a second", f"{events:,}"),
        verdict(
            periods >= least_periods, f"replay: {least_periods:,} periods a second", f"{periods:,}"
        ),
    ]


def table(found: dict[str, dict[str, Any]]) -> Table:
    """Return the figures as a table."""
    reader, replay = found["reader"], found["replay"]
    of = f"{replay['governor']}, {replay['states']} states, {replay['stream']}"
    rows = [
        (f"reader: events, of {reader['events']:,}",
         reader["events_per_s"], reader["instructions_per_event"]),
        (f"replay: idle periods, {of}",
         replay["periods_per_s"], replay["instructions_per_period"]),
        ("replay: the same, with reading the columns",
         replay["periods_per_s_with_reading"], None),
    ]  # fmt: skip
    heads = ("what", "a second", "instr. of each")
    return Table("Throughput, by the CPU time of one core", heads, rows)


def measured(events: int, intervals: int) -> dict[str, dict[str, Any]]:
    """Measure the reader and replay."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".scratch-", dir=FOLDER) as scratch:
        return {
            "reader": measure.reader(FOLDER, events, meter),
            "replay": measure.replay(Path(scratch), intervals, meter),
        }


def run(args: argparse.Namespace) -> int:
    """Measure, print; return the exit code."""
    found = measured(*(QUICK if args.quick else FULL))
    sizes = args.events or (QUICK_SIZES if args.quick else SIZES)
    whole = commands.measured(FOLDER, sizes, meter)
    judged = [*verdicts(found), *commands.verdicts(whole)]
    if args.json:
        print(json.dumps({**found, "commands": commands.as_json(whole)}, indent=2))
    else:
        out = console()
        table(found).print(out)
        commands.table(whole).print(out)
        for one in judged:
            out.print(str(one), markup=False, soft_wrap=True)
    return FAILURE if any(one.state == "MISSED" for one in judged) else 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, json=False)
    parser.add_argument(
        "--events", type=int, action="append", metavar="N",
        help="events of a recording for whole commands; can be repeated (default: 1, 10 and 100 "
        "million)",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
