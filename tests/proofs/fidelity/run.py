#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Show that replay decides exactly as the kernel did.

Boots a stock kernel in the lab, runs every governor under a mixed load while tunables, limits and
disabled states change, a CPU goes off and comes back, learning is reset and events are lost; then
makes every recorded decision again and compares state, stop_tick, reason, matrix row, and whether
the next timer was asked for.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TOP / "tools"), str(TOP)]

from cpuidle_lab.lab import LabRun, run_lab  # noqa: E402
from cpuidle_lab.recording import columns  # noqa: E402
from cpuidle_lab.replay.fidelity import Fidelity, fidelity  # noqa: E402
from cpuidle_lab.replay.policies import recorded_policies  # noqa: E402
from tests import runner  # noqa: E402
from tests.lab.hints_guest import program  # noqa: E402

STORM = Path(__file__).parent / "storm.sh"

# What runs after what: governor, whose tunables are changed.
STORMS = (
    ("teo_ng", "teo_ng"),
    ("menu_ng", "menu_ng"),
    ("wteo", "wteo"),
)
# The gate over a governor of the kernel and over one of ours, with a hinted task on each CPU.
GATED = ("menu", "wteo")

# The steps of every governor that can decide at all, and of those that all share.
REASONS = {
    "teo_ng": {
        "teo-deepest", "teo-intercepts", "teo-latency-limit", "teo-shallow-timer-not-asked",
        "teo-tick-stopped-deeper", "teo-timer-limit", "teo-tick-limit",
    },
    "menu_ng": {
        "menu-state0", "menu-predicted", "menu-latency-limit", "menu-instead-of-polling",
        "menu-shallow-keep-tick", "menu-tick-stopped", "menu-tick-limit",
    },
    "wteo": {"wteo-expected-cost", "wteo-expected-cost-keep-tick"},
    "base": {"base-governor", "hint-clamp", "hint-deeper"},
}  # fmt: skip
SHARED = {"no-state-enabled", "one-state-enabled"}

# Decisions of each reason, without an idle period, and after a refusal, for the proof to hold.
OFTEN = 100

EPILOG = """\
examples:
  run.py                              about a million decisions
  run.py --duration 2 --kernel 7.2    fewer, on another kernel
  run.py --trace FILE                 of a trace that is there already

exit code: 0 if every decision is identical and each reason was met often enough, 1 if not, 2 usage
"""


def script(seconds: int, machine: str, buffer_mib: int) -> str:
    """Return the guest's script."""
    lines = [
        f"SECONDS_EACH={seconds}",
        f"MACHINE={machine}",
        f"BUFFER_MIB={buffer_mib}",
        STORM.read_text(),
    ]
    lines += [f"storm {governor} {tunables_of}" for governor, tunables_of in STORMS]
    # Each process of the load inherits that it does not mind being late.
    lines += [
        "tune gate base menu",
        "/lab/bin/hint $$ set 10",
        "storm gate menu",
        "/lab/bin/hint $$ set none",
    ]
    # The hinted tasks sleep all the time: they gate for ever.
    lines += ["sleep 1000 & hinted=$!", "taskset -c 1 sleep 1000 & other=$!"]
    lines.append("tune gate linger_ms 0")
    for base in GATED:
        lines += [
            f"tune gate base {base}",
            "echo $hinted 40 >$knobs/gate/hints",
            "echo $other 5 >$knobs/gate/hints",
            f"storm gate {base}",
        ]
    return "\n".join([*lines, "trace_stop trace.dat"])


def record(args: argparse.Namespace, folder: Path) -> Path:
    """Record a storm in the lab; return its trace."""
    run = LabRun(
        script=script(args.duration, args.machine, args.buffer),
        kernel=args.kernel,
        memory_mib=max(1024, 5 * args.buffer),
        time_limit_s=1200,
        files={"lab/bin/hint": program("hint")},
    )
    title = f"Running every governor on Debian's {args.kernel}"
    result = run_lab(run, folder / "lab", "" if args.json else title).check()
    return result.files / "trace.dat"


def judge(trace: Path) -> tuple[list[Fidelity], int]:
    """Return the result for each governor of a trace, and the number of gaps in it."""
    with columns.opened(trace) as recording:
        names = recorded_policies(recording)
        return [fidelity(recording, name) for name in names], recording.integrity.gaps


def shortfalls(found: Sequence[Fidelity], least: int) -> list[str]:
    """Return what was met too seldom to prove anything, with its count.

    Args:
        found: the result for each governor.
        least: decisions of each reason.
    """
    total: Counter[str] = Counter()
    for one in found:
        total.update({name: one.reasons.get(name, 0) for name in SHARED})
        total.update({name: one.reasons.get(name, 0) for name in REASONS.get(one.governor, ())})
        total["aborted"] += one.aborted
        total["rejected"] += one.rejected
    wanted = {*SHARED, "aborted", "rejected"}.union(*REASONS.values())
    return [f"{name} {total[name]}" for name in sorted(wanted) if total[name] < least]


def show(found: list[Fidelity], gaps: int) -> None:
    """Print the result for people."""
    for one in found:
        print("\n".join(one.lines()))
    total = sum(one.compared for one in found)
    same = sum(one.identical for one in found)
    print(f"all: identical {same} of {total}; {gaps} gaps by lost events")


def main(argv: Sequence[str] | None = None) -> int:
    """Record, replay, compare."""
    parser = runner.parser(__doc__, EPILOG)
    add = parser.add_argument
    add("--duration", type=int, default=8, metavar="S", help="of each governor (default: 8)")
    add("--kernel", default="6.12", help="series (default: %(default)s)")
    add("--machine", default="power9", help="state table (default: %(default)s)")
    add("--buffer", type=int, default=500, metavar="MIB", help="for the trace (default: 500)")
    add("--trace", type=Path, help="judge this trace; boot nothing")
    add("-o", "--output", type=Path, metavar="FILE", help="keep the trace here")
    add("--least", type=int, metavar="N", help="of each reason (default: 100; with --trace: none)")
    add("--json", action="store_true", help="print the result as JSON")
    args = parser.parse_args(argv)
    return runner.run("fidelity", lambda: work(args))


def work(args: argparse.Namespace) -> int:
    """Record, judge, show, return the exit code."""
    with tempfile.TemporaryDirectory(prefix="fidelity-", dir=TOP / "build") as folder:
        trace = args.trace or record(args, Path(folder))
        if args.output:
            shutil.copy(trace, args.output)
        found, gaps = judge(trace)
    least = args.least if args.least is not None else 0 if args.trace else OFTEN
    seldom = shortfalls(found, least)
    if args.json:
        result = {"gaps": gaps, "governors": {one.governor: one.as_json() for one in found}}
        result["seldom"] = seldom
        print(json.dumps(result, indent=2))
    else:
        show(found, gaps)
        if seldom:
            print(f"met less than {least} times: {', '.join(seldom)}")
    same = found and all(one.identical == one.compared > 0 for one in found)
    return 0 if same and not seldom else 1


if __name__ == "__main__":
    sys.exit(main())
