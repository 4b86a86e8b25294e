# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab synth`: synthetic idle streams whose law is known."""

import argparse
import json
import sys
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import make_folder

NAME = "synth"
HELP = "write synthetic streams of intervals with a known law, for replay"
EPILOG = """\
examples:
  cpuidle-lab synth --list                      the streams
  cpuidle-lab synth bursts drift -o streams     streams/bursts and streams/drift
  cpuidle-lab synth --all --machine skl --seed 7 -o streams
  cpuidle-lab compare streams/bursts --governors wteo

The same arguments give the same bytes. meta.json in each directory holds the law and, if it is
known, the floor of a policy that decides once in each interval.

exit codes: 0 done, 1 a stream cannot be written, 2 wrong usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("streams", nargs="*", metavar="NAME", help="stream to make")
    parser.add_argument("--all", action="store_true", help="make all of them")
    parser.add_argument("--list", action="store_true", help="show the streams and stop")
    parser.add_argument(
        "--machine", default="skx", metavar="MACHINE",
        help="idle states, by a name that cpuidle-lab machines takes (default: skx)",
    )  # fmt: skip
    parser.add_argument(
        "--count", type=int, default=100_000, metavar="N", help="intervals (default: 100000)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(default: 1)")
    parser.add_argument(
        "--hz", type=int, default=250, metavar="N", help="ticks per second (default: 250)"
    )
    parser.add_argument(
        "--tick-stopped",
        action="store_true",
        help="the tick never runs, as on a CPU of nohz_full that is busy",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="where each stream gets a directory"
    )
    parser.add_argument("--json", action="store_true", help="print the laws as JSON")


def _list(as_json: bool) -> None:
    from cpuidle_lab.recording.laws import STREAMS

    if as_json:
        streams = [
            {"name": stream.name, "what": stream.what, "parameters": dict(stream.parameters)}
            for stream in STREAMS.values()
        ]
        json.dump({"streams": streams}, sys.stdout, indent=2)
        print()
        return
    width = max(len(name) for name in STREAMS)
    for stream in STREAMS.values():
        print(f"{stream.name:{width}}  {stream.what}")


def run(args: argparse.Namespace) -> int:
    """Make the streams."""
    # Here, so that the other commands need not load what only this one needs.
    from cpuidle_lab.recording import state_tables, synth
    from cpuidle_lab.recording.laws import STREAMS

    if args.list:
        _list(args.json)
        return 0
    if args.all == bool(args.streams):
        raise UserError("name streams, or give --all; --list shows the names", USAGE)
    if args.output is None:
        raise UserError("say with -o where to put the streams", USAGE)
    names = list(STREAMS) if args.all else list(dict.fromkeys(args.streams))
    for name in names:
        synth.check(name, args.count, args.seed)
    state_tables.find(args.machine, args.hz)
    make_folder(args.output)
    laws = []
    for name in names:
        target = args.output / name
        law = synth.write(
            name,
            target,
            machine_name=args.machine,
            hz=args.hz,
            count=args.count,
            seed=args.seed,
            tick_stopped=args.tick_stopped,
        )
        laws.append({**law, "path": str(target)})
        if not args.json:
            floor = law["floor_regret"]
            known = "" if floor is None else f", one-shot floor {floor:.2f} %"
            print(f"{target}: {args.count} intervals{known}")
    if args.json:
        json.dump({"streams": laws}, sys.stdout, indent=2)
        print()
    return 0
