# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab fleet`: governors on the recordings of many machines."""

import argparse
import json
import shlex
import sys
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError, printable

NAME = "fleet"
# The engine bounds each worker. A look at all their threads takes a ms and more.
LOOK_S = 1.0
# Recordings and machines behind the numbers of --scrub.
NAMES = "names.csv"
HELP = "replay governors on the recordings of many machines, and tell what a roll-out does"
EPILOG = """\
examples:
  cpuidle-lab fleet recordings/ -o result       all *.dat and Parquet directories below it
  cpuidle-lab fleet list.txt s3://bucket/week/ --metadata machines.csv -o result
  cpuidle-lab fleet recordings/ --governors menu@7.2,teo@7.2,wteo -o result
                                                adds governors to the results that are there
  cpuidle-lab fleet list.txt --scheduler tcp://10.0.0.1:8786 -o /nfs/result
                                                the workers of a cluster of dask

SOURCE is a folder, a recording as compare takes it, or a list: TXT with a path or URL a line, or a
table of CSV, Parquet or the dataset NAME.parquet/. A table has a column recording and, if known,
machine, kind, kernel, service, weight, table (idle states, as of --machine) and domains (as of
--domains). --metadata is such a table for recordings from folders.

Results are kept in DIR: a run that was ended goes on, and each recording and governor is replayed
once. A recording that cannot be read is listed, and ends no run. docs/fleet.md explains the result.

exit codes: 0 done, 1 no recording counts, or the run cannot go on, 2 wrong usage
"""


def _natural(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"'{text}' is no number of processes")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds")
    return value


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is no percentage from 0 on")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="folder, list, file or URL")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="where results are kept"
    )
    parser.add_argument("--metadata", metavar="FILE", help="table of machines, CSV or Parquet")
    parser.add_argument(
        "--governors",
        metavar="NAME[@KERNEL][:TUNABLE=VALUE]...[,...]",
        help="governors to replay (default: the newest kernel's menu and teo, and wteo)",
    )
    parser.add_argument(
        "--reference",
        metavar="NAME",
        help="governor that the others are compared with, recorded among them (default: the first)",
    )
    parser.add_argument(
        "--harm", type=_percent, default=1.0, metavar="PERCENT",
        help="list machines that take so much more than with the base (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=_natural, default=0, metavar="N",
        help="processes on this machine (default: one for each CPU)",
    )  # fmt: skip
    parser.add_argument(
        "--scheduler", default="", metavar="URL", help="a scheduler of dask instead: tcp://..."
    )
    parser.add_argument(
        "--patience", type=_seconds, default=600.0, metavar="S",
        help="seconds after which listing or fetching a URL is given up (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--scrub", action="store_true",
        help="show numbers for recordings and machines, keep no names of tasks and workloads",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the answers as JSON, no table")


def run(args: argparse.Namespace) -> int:
    """Replay, add up, print and write the answers."""
    # Here, so that the other commands need not load what only this one needs.
    from cpuidle_lab.base import files
    from cpuidle_lab.base.files import claimed, marked, write_whole
    from cpuidle_lab.fleet import answers, cluster, fleet_page, fleet_text, inputs, task, totals
    from cpuidle_lab.replay import candidates
    from cpuidle_lab.replay.recorded import RECORDED
    from cpuidle_lab.view.terminal import meter

    text = args.governors or ",".join([*candidates.MAINLINE, "wteo"])
    labels = tuple(item.label for item in candidates.listed(text))
    base = args.reference or labels[0]
    if base not in (*labels, RECORDED):
        raise UserError(f"--reference {base} is none of {', '.join(labels)}, {RECORDED}", USAGE)
    items, notes = inputs.find(args.sources, args.metadata, args.patience)
    named = items
    if args.scrub:
        items, notes = inputs.scrubbed(items), []
    folder: Path = args.output.absolute()
    with files.inputs(Path(item.url) for item in named), claimed(folder):
        for name in ("work", "index", "intervals", "results"):
            (folder / name).mkdir(exist_ok=True)
        page, told = folder / "fleet.html", folder / "answers.json"
        jobs = {
            item.name: task.Job(
                item.url, item.table, str(folder), labels, args.patience, item.domains, args.scrub
            )
            for item in items
        }
        done = cluster.run(jobs, meter, scheduler=args.scheduler, workers=args.workers)
        if args.scrub:
            for item in items:
                one = done[item.name]
                one.sentence = inputs.unnamed(one.sentence, item)
            table = inputs.names_table(named, items)
            write_whole(folder / NAMES, table, marked("name,recording,machine,called"))
        fleet = totals.add_up(items, done, folder, base)
        if not fleet.counted:
            name, why = next(iter(fleet.failed.items()))
            raise UserError(f"no recording counts, of {len(items)}; {name}: {why}")
        if base not in fleet.governors:
            raise UserError(f"--reference {base}: not all recordings tell it")
        found = answers.answer(fleet, items, base, args.harm, notes)
        words = [NAME, "--scrub"] if args.scrub else sys.argv[1:]
        command = shlex.join(["cpuidle-lab", *words])
        write_whole(page, fleet_page.render(found, command), marked(fleet_page.GENERATOR))
        as_json = json.dumps(found.as_json(), indent=1) + "\n"
        write_whole(told, as_json, marked('{\n "base": '))
    if args.json:
        print(as_json, end="")
        return 0
    fleet_text.show(found)
    fresh, intervals, cpu_s = (sum(getattr(one, key) for one in done.values())
                               for key in ("fresh", "intervals", "cpu_s"))  # fmt: skip
    replayed = (
        f"replayed now: {fresh:,} parts of {intervals:,} intervals, {cpu_s:.1f} s of CPU time"
    )
    print(printable(f"{replayed}; written: {page}"))
    return 0
