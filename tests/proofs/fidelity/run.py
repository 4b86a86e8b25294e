# SPDX-License-Identifier: GPL-2.0
"""Replay makes every recorded decision again, for every governor, over a million decisions.

Boots a stock kernel in the lab, runs every governor under a mixed load while tunables, limits and
disabled states change, a CPU goes off and comes back, learning is reset and events are lost; then
makes every recorded decision again and compares state, stop_tick, reason, matrix row, and whether
the next timer was asked for.
"""

import argparse
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.lab import LabRun, run_lab
from cpuidle_lab.recording import columns
from cpuidle_lab.replay.fidelity import Fidelity, fidelity
from cpuidle_lab.replay.policies import recorded_policies
from experiments import proofs
from tests.lab.hints_guest import program

STORM = Path(__file__).parent / "storm.sh"

# The order of the storms: governor, whose tunables are changed.
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

EXAMPLES = {
    "": "about a million decisions",
    "--duration 2 --kernel 7.2": "fewer, on another kernel",
    "--trace FILE": "of a trace that is there already",
}


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
    boot = LabRun(
        script=script(args.duration, args.machine, args.buffer),
        kernel=args.kernel,
        memory_mib=max(1024, 5 * args.buffer),
        time_limit_s=1200,
        files={"lab/bin/hint": program("hint")},
    )
    title = f"Running every governor on Debian's {args.kernel}"
    result = run_lab(boot, folder / "lab", "" if args.json else title).check()
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, kernel="6.12", output=None, json=False)
    add = parser.add_argument
    add("--duration", type=int, default=8, metavar="S", help="of each governor (default: 8)")
    add("--machine", default="power9", help="state table (default: %(default)s)")
    add("--buffer", type=int, default=500, metavar="MIB", help="for the trace (default: 500)")
    add("--trace", type=Path, help="judge this trace; boot nothing")
    add("--least", type=int, metavar="N", help="of each reason (default: 100; with --trace: none)")


def run(args: argparse.Namespace) -> int:
    """Record, judge, show; return the exit code."""
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
