# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab export`: a recording for the viewers of others."""

import argparse
import json
from pathlib import Path

from cpuidle_lab.base.files import marked, unless_forced, whole

NAME = "export"
HELP = "write a recording for another viewer: Perfetto"
EPILOG = """\
examples:
  cpuidle-lab export --perfetto idle.pftrace trace.dat
                                open the file with the viewer of Perfetto

Each CPU has a track of its idle periods, one of its decisions with all inputs, and its regret as a
counter (docs/viewers.md). KernelShark opens the trace.dat itself, with the plugin of this project.

exit codes: 0 done, 1 the file is no trace, is damaged, or FILE cannot be written, 2 wrong usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "trace", type=Path, metavar="TRACE", help="recording; docs/stock.md has the formats"
    )
    parser.add_argument(
        "--perfetto", type=Path, metavar="FILE", required=True, help="the file to be written"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the file, in full or not at all."""
    from cpuidle_lab.figures import frames
    from cpuidle_lab.view import perfetto as perfetto_trace

    target: Path = args.perfetto
    with whole(target, unless_forced(marked(perfetto_trace.MARK), args.force)) as new:
        recording = frames.frames_of(args.trace)
        with new.open("wb") as stream:
            events = perfetto_trace.write(recording, stream)
    found = {
        "file": str(target),
        "events": events,
        "bytes": target.stat().st_size,
        "decisions": recording.decisions.height,
        "idle_periods": recording.idle.height,
    }
    if args.json:
        print(json.dumps(found, indent=2))
    else:
        print(f"written: {target}, {events:,} events, {found['bytes']:,} bytes")
    return 0
