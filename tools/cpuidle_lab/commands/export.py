# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab export`: a recording for the programs of others."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError, printable
from cpuidle_lab.base.files import marked, unless_forced, whole

NAME = "export"
HELP = "write a recording for other programs: Parquet tables, or a trace for Perfetto"
EPILOG = """\
examples:
  cpuidle-lab export --perfetto idle.pftrace trace.dat
                                open the file with the viewer of Perfetto
  cpuidle-lab export --perfetto idle.pftrace --domains xeon trace.dat
                                a track for each package and cluster, too
  cpuidle-lab export --parquet trace.parquet trace.dat
                                each command that takes a recording takes this directory
  python3 -c 'import polars; print(polars.read_parquet("trace.parquet/interval/*.parquet"))'

For Perfetto each CPU has a track of its idle periods, one of its decisions with all inputs, and its
regret as a counter (docs/viewers.md). KernelShark opens the trace.dat itself, with the plugin of
this project.

DIR has tables of idle periods, intervals and other events (docs/replay.md). It is replaced if it
holds such tables alone, and left as it is if it holds anything else.

exit codes: 0 done, 1 the file is no trace, is damaged, or FILE cannot be written, 2 wrong usage, or
DIR is something else
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "trace", type=Path, metavar="TRACE", help="recording; docs/formats.md has the formats"
    )
    form = parser.add_mutually_exclusive_group(required=True).add_argument
    form("--perfetto", type=Path, metavar="FILE", help="the file to be written")
    form("--parquet", type=Path, metavar="DIR", help="the directory to be made")
    parser.add_argument(
        "--machine",
        metavar="MACHINE",
        help="idle states of a recording without the module: see cpuidle-lab machines, "
        "or RANGE=MACHINE,... by CPU (0-3=A.yaml,4-5=B.yaml)",
    )
    parser.add_argument(
        "--domains", metavar="DOMAINS", help="packages and clusters, too: see cpuidle-lab domains"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(args: argparse.Namespace) -> int:
    """Write the file or the directory, in full or not at all."""
    if args.force and args.parquet:
        raise UserError("--force goes with --perfetto; --parquet replaces its own directory", USAGE)
    if args.domains and args.parquet:
        raise UserError("--domains goes with --perfetto", USAGE)
    return (_parquet if args.parquet else _perfetto)(args)


def _parquet(args: argparse.Namespace) -> int:
    from cpuidle_lab.recording import columns, reader, state_tables, trace
    from cpuidle_lab.recording.columns import summary
    from cpuidle_lab.view.terminal import meter

    given = state_tables.given(args.machine) if args.machine else ()
    told = trace.context_with(args.trace, given) if given else None
    with reader.watched(meter, "Reading", 1):
        columns.write(args.trace, args.parquet, told)
    made = columns.Recording(args.parquet)
    print(json.dumps(summary.as_json(made), indent=2) if args.json else summary.text(made))
    return 0


def _perfetto(args: argparse.Namespace) -> int:
    from cpuidle_lab.domains import charts, observed
    from cpuidle_lab.figures import frames
    from cpuidle_lab.recording import reader, state_tables
    from cpuidle_lab.view import perfetto as perfetto_trace
    from cpuidle_lab.view.terminal import meter

    target: Path = args.perfetto
    with whole(target, unless_forced(marked(perfetto_trace.MARK), args.force)) as new:
        given = state_tables.given(args.machine) if args.machine else ()
        tracks = (
            charts.slices(observed.observe(args.trace, args.domains, given).parts)
            if args.domains else {}
        )  # fmt: skip
        with reader.watched(meter, "Reading", 2):
            parts = frames.frames_by_part(args.trace, given)
        with new.open("wb") as stream, reader.watched(meter, "Writing", 1):
            written = perfetto_trace.write(parts, stream, tracks)
    found = {"file": str(target), "bytes": target.stat().st_size, **asdict(written)}
    if args.json:
        print(json.dumps(found, indent=2))
    else:
        print(printable(f"written: {target}, {written.events:,} events, {found['bytes']:,} bytes"))
    return 0
