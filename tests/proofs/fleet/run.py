# SPDX-License-Identifier: GPL-2.0
"""`fleet` has the same answers after a process was killed, in flat memory, at little cost.

Recordings are made by `synth`, one in fifty is damaged. Three runs replay them: one undisturbed
with two workers, one of whose workers one is killed in the middle, and two single processes without
dask. Efficiency is the CPU time of these by that of the undisturbed run. They run before and after
it, and their mean counts, since a busy machine takes other times for the same work by the minute.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import mean

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import FAILURE
from cpuidle_lab.evidence.tables import Table, Verdict, verdict
from cpuidle_lab.view.terminal import console, meter
from experiments import proofs
from tests.proofs.fleet import measure

FOLDER = TOP / "build" / "fleet"
# Recordings, and intervals of each.
FULL, QUICK = (2000, 20_000), (100, 1000)
EFFICIENCY = 0.85
# Memory of the last quarter of a run by that of the second.
FLAT = 1.2

EXAMPLES = {
    "": "2,000 recordings",
    "--quick --json": "to see that it works",
    "--recordings 200 --intervals 1000": "many short ones",
}


def verdicts(
    calm: measure.Run, killed: measure.Run, single_s: float, damaged: int
) -> list[Verdict]:
    """Judge the runs."""
    found = json.loads(calm.answers)
    efficiency = single_s / calm.cpu_s
    growth = calm.late_bytes / calm.early_bytes if calm.early_bytes else float("inf")
    return [
        verdict(killed.kills == 1, "a worker is killed in the middle", f"{killed.kills} killed"),
        verdict(calm.answers == killed.answers, "answers after it are the same",
                "identical" if calm.answers == killed.answers else "they differ"),
        verdict(len(found["failed"]) == damaged, f"{damaged} damaged recordings are listed",
                str(len(found["failed"]))),
        verdict(growth <= FLAT, f"memory grows to {FLAT} times at most", f"{growth:.2f} times"),
        verdict(efficiency >= EFFICIENCY, f"efficiency: {100 * EFFICIENCY:.0f} %",
                f"{100 * efficiency:.0f} %"),
    ]  # fmt: skip


def table(runs: dict[str, float], recordings: int, intervals: int) -> Table:
    """Return CPU times and rates as a table."""
    rows = [
        (name, round(cpu_s, 1), round(recordings / cpu_s, 1), round(intervals / cpu_s))
        for name, cpu_s in runs.items()
    ]
    return Table("Recordings and replayed intervals by CPU time", ("run", "CPU s", "recordings/s",
                 "intervals/s"), rows)  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Measure, print; return the exit code."""
    count, length = QUICK if args.quick else FULL
    count, length = args.recordings or count, args.intervals or length
    FOLDER.mkdir(parents=True, exist_ok=True)
    measure.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix=".scratch-", dir=FOLDER) as scratch:
        folder = Path(scratch)
        damaged = measure.make(folder / "in", count, length, meter)
        singles_s = [measure.single(folder / "in", folder / "before")]
        calm = measure.fleet(folder / "in", folder / "calm", count, kill=False)
        singles_s.append(measure.single(folder / "in", folder / "after"))
        killed = measure.fleet(folder / "in", folder / "killed", count, kill=True)
    judged = verdicts(calm, killed, mean(singles_s), damaged)
    cpu = {"two single processes, before": singles_s[0], "two single processes, after":
           singles_s[1], "fleet": calm.cpu_s, "its tasks": calm.useful_s,
           "fleet, one killed": killed.cpu_s}  # fmt: skip
    good = count - damaged
    intervals = good * length * len(measure.GOVERNORS)
    if args.json:
        told = {"recordings": count, "damaged": damaged, "intervals": intervals, "cpu_s": cpu,
                "bytes": [calm.early_bytes, calm.late_bytes],
                "verdicts": [str(one) for one in judged]}  # fmt: skip
        print(json.dumps(told, indent=2))
    else:
        out = console()
        table(cpu, good, intervals).print(out)
        for one in judged:
            out.print(str(one), markup=False, soft_wrap=True)
    return FAILURE if any(one.state == "MISSED" for one in judged) else 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, json=False)
    parser.add_argument("--recordings", type=int, metavar="N", help=f"(default: {FULL[0]})")
    parser.add_argument("--intervals", type=int, metavar="N", help=f"of each (default: {FULL[1]})")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
