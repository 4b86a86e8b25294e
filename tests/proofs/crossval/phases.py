#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print where the timers of a periodic task lie within the tick, and what a governor makes of it.

A row is one governor's recording of a workload. It has the time from a tick to the task's next
timer, modulo its period (median, us). It has the regret of one governor replayed on that recording,
in percent, too; that replay begins with nothing learned.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

import numpy as np

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.crossval import own
from cpuidle_lab.crossval.parts import Part, parts
from cpuidle_lab.recording import columns

EPILOG = """\
examples:
  phases.py build/crossval/traces/skl*.trace.dat
  phases.py build/crossval/traces/skl*.trace.dat --governor menu_ng
"""


def phase_us(part: Part, period_ns: int) -> float:
    """Return the median time from a tick to the task's next timer, on its CPU, in us."""
    cpu = max(part.cpus, key=lambda cpu: len(part.kept[cpu][0]["flags"]))
    rows = part.kept[cpu][0]
    timer_ns, tick_ns = rows["timer_ns"], rows["tick_phase_ns"]
    of_task = (timer_ns > 0) & (timer_ns < 2 * period_ns) & (tick_ns >= 0)
    due_ns = (rows["start_ns"] + timer_ns - tick_ns)[of_task]
    return float(np.median(due_ns % period_ns)) / 1000


def rows(path: Path, workload: str, governor: str, period_ns: int) -> Iterator[str]:
    """Yield a row for each recording of the workload in a trace."""
    with columns.opened(path) as recording:
        found = {p.recorder.label: p for p in parts(recording, path) if p.workload == workload}
        for name, part in found.items():
            if governor not in found:
                raise UserError(f"{path}: {governor} has no recording of {workload}")
            outcome = own.play(part, found[governor], choices=True)
            cost, oracle = (
                sum(float(choice[key].sum()) for choice in outcome.choices.values())
                for key in ("cost_pj", "oracle_pj")
            )
            yield (f"| {path.name.split('.trace')[0]} | {name} | {phase_us(part, period_ns):.1f} "
                   f"| {100 * (cost / oracle - 1):.1f} |")  # fmt: skip


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", nargs="+", type=Path, metavar="TRACE")
    parser.add_argument("--workload", default="cyclictest-100us", metavar="NAME")
    parser.add_argument("--period-us", type=int, default=100, metavar="US")
    parser.add_argument("--governor", default="teo_ng", metavar="NAME", help="that is replayed")
    args = parser.parse_args()
    print(f"| recording | recorded by | timer after tick us | {args.governor} % |")
    print("|---|---|--:|--:|")
    try:
        for path in args.traces:
            for row in rows(path, args.workload, args.governor, args.period_us * 1000):
                print(row)
    except UserError as error:
        print(f"phases: error: {error.message}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
