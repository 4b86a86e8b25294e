# SPDX-License-Identifier: GPL-2.0
"""Instructions that the gate adds to a decision: the whole way through the module.

Virtual time of the lab: one CPU, one nanosecond for each instruction. The kernel's function_graph
tracer takes the time of every call of select, the tick's answer included. Its own share is the same
in each and cancels out in the differences. The hints are above every exit latency: they cost, and
change no decision.
"""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import scratch
from cpuidle_lab.lab import LabRun, programs, run_lab, workloads

MACHINE = "skx"
WORKLOAD = "cyclictest-1700us"
SECONDS = 2
BASE = "wteo"

# More hinted tasks than this are threads of one process: a shell is too slow to start them.
PROCESSES = 1000
MEMORY_MIB = 2048

OURS, MENU = "cil_glue_select", "menu_select"
FUNCTIONS = (OURS, MENU)
_DURATION = re.compile(rf"^.*?([\d.]+) us\s*\|\s*(?:{'|'.join(FUNCTIONS)})\b", re.MULTILINE)
_CALLS = re.compile(rf"\b(?:{'|'.join(FUNCTIONS)})\b")


@dataclass(frozen=True)
class Setting:
    """A setting in which decisions are timed.

    Attributes:
        title: for people.
        governor: that is current.
        tasks: with a hint.
        limits: different ones among these hints.
    """

    title: str
    governor: str
    tasks: int = 0
    limits: int = 0


SETTINGS = (
    Setting("the kernel's menu", "menu"),
    Setting("menu_ng", "menu_ng"),
    Setting(f"{BASE} without gate", BASE),
    Setting(f"gate over {BASE}, no hint", "gate"),
    Setting(f"gate over {BASE}, 1 hinted task", "gate", 1, 1),
    Setting(f"gate over {BASE}, 100 hinted tasks", "gate", 100, 1),
    Setting(f"gate over {BASE}, 100 hinted tasks, 64 limits", "gate", 100, 64),
    Setting(f"gate over {BASE}, 10,000 hinted tasks", "gate", 10_000, 1),
)

_SCRIPT = """\
. /lab/functions
load cpuidle_emul machine={machine}
load cpuidle_lab
echo 20000 >/proc/sys/kernel/threads-max
tune gate hints_per_user 16384
tune gate linger_ms 0
echo {base} >$knobs/gate/base
echo 0 >$tracing/tracing_on
echo 4096 >$tracing/buffer_size_kb
for function in {functions}; do
	echo $function >>$tracing/set_ftrace_filter || fail "$function cannot be traced"
done
echo function_graph >$tracing/current_tracer || fail "no function_graph tracer"
echo nofuncgraph-overhead >$tracing/trace_options
# Once to learn, once more to be measured.
measure() {{
	say "$1"
	echo >$tracing/trace
	{work}
	echo 1 >$tracing/tracing_on
	{work}
	echo 0 >$tracing/tracing_on
	cat $tracing/trace >"/results/$1"
}}
# hint COUNT LIMITS: so many tasks that sleep, with so many limits from 1000 us on.
hint() {{
	tasks=
	[ "$1" -gt {processes} ] && crowd "$1" && return
	for i in $(seq "$1"); do
		sleep 1000 &
		tasks="$tasks $!"
		echo "$! $((1000 + i % $2))" >$knobs/gate/hints || fail "no hint for task $i"
	done
	[ "$(grep -c '^[0-9]' $knobs/gate/hints)" = "$1" ] || fail "not $1 tasks have hints"
}}
# crowd COUNT: as threads of one process, which inherit its hint.
crowd() {{
	sh -c 'echo "$$ 1000" >"$1"; exec sleepers "$2"' - $knobs/gate/hints "$(($1 - 1))" &
	tasks=$!
	for _ in $(seq 600); do
		[ "$(grep -c '^[0-9]' $knobs/gate/hints)" = "$1" ] && return
		usleep 100000
	done
	fail "not $1 tasks have hints"
}}
unhint() {{
	# shellcheck disable=SC2086 # a list of words
	kill $tasks
	usleep 200000
}}
"""


def script(seconds: int) -> str:
    """Return what the guest runs; each case leaves its trace in a file named by its number."""
    work = workloads.find(WORKLOAD).shell(seconds, 1) + " >/dev/null"
    functions = " ".join(FUNCTIONS)
    head = _SCRIPT.format(machine=MACHINE, base=BASE, functions=functions, work=work,
                          processes=PROCESSES)  # fmt: skip
    lines = []
    for number, case in enumerate(SETTINGS):
        lines.append(f"governor {case.governor}")
        if case.tasks:
            lines.append(f"hint {case.tasks} {case.limits}")
        lines.append(f"measure {number}")
        if case.tasks:
            lines.append("unhint")
    return head + "\n".join(lines)


def durations(text: str) -> list[int]:
    """Return how long each traced call took, in ns.

    Raises:
        UserError: the trace holds no call, or one without a duration.
    """
    found = [round(float(value) * 1000) for value in _DURATION.findall(text)]
    calls = sum(len(_CALLS.findall(line)) for line in text.splitlines() if line[:1] != "#")
    if not found or len(found) != calls:
        raise UserError(f"of {calls} calls of select in the guest, {len(found)} were timed")
    return found


def _figures(case: Setting, taken: Sequence[int]) -> dict[str, Any]:
    return {
        "case": case.title,
        "governor": case.governor,
        "hinted_tasks": case.tasks,
        "limits": case.limits,
        "decisions": len(taken),
        "mean": statistics.fmean(taken),
        "median": statistics.median(taken),
        "max": max(taken),
    }


def figures(traces: Sequence[str]) -> list[dict[str, Any]]:
    """Return what is told of each case: instructions, and what gate adds to its base's mean.

    Args:
        traces: of the cases, as text.

    Raises:
        UserError: as durations().
    """
    cases = [_figures(*pair) for pair in zip(SETTINGS, map(durations, traces), strict=True)]
    base = next(case["mean"] for case in cases if case["governor"] == BASE)
    for case in cases:
        case["added"] = case["mean"] - base if case["governor"] == "gate" else None
    return cases


def measure(seconds: int = SECONDS) -> dict[str, Any]:
    """Boot the lab once and measure every case.

    Args:
        seconds: of virtual time for each case.

    Returns:
        kernel, machine, base, workload, and cases as of figures().

    Raises:
        UserError: the lab or the tracer failed.
    """
    with scratch(TOP / "build") as folder:
        run = LabRun(
            script(seconds),
            cpus=1,
            files=programs.file(programs.SLEEPERS),
            memory_mib=MEMORY_MIB,
            time_limit_s=1800,
        )
        title = f"Taking the time of {len(SETTINGS)} cases in the lab"
        result = run_lab(run, folder / "results", title).check()
        traces = [(result.files / str(number)).read_text() for number in range(len(SETTINGS))]
    return {
        "kernel": result.kernel_version,
        "machine": MACHINE,
        "base": BASE,
        "workload": WORKLOAD,
        "cases": figures(traces),
    }
