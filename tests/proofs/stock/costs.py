# SPDX-License-Identifier: GPL-2.0
"""Bytes and instructions for each idle period, by each way of recording: docs/measured/stock.md.

In the lab's virtual time an instruction takes 1 ns. So what a way costs is the time for which the
CPU is not idle, for each idle period, less the same without any recording.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.host.machine import parse_version
from cpuidle_lab.host.probes import ARGUMENTS_SINCE, DEVICE, KERNEL_EVENTS, lines
from cpuidle_lab.lab import LabRun, run_lab, workloads
from cpuidle_lab.lab.session import OUR_EVENTS, Session

GROUP = "cil_p1"
MACHINE = "skx"
GOVERNOR = "menu_ng"
WORKLOADS = ("cyclictest-1ms", "fio-1", "redis")

IDLE = (("power:cpu_idle", ""),)
PROBES = ((GROUP, ""),)

# By way: the trace's clock, and events with their filters.
NONE, AGAIN = "nothing", "nothing, again"
WAYS: dict[str, tuple[str, Sequence[tuple[str, str]]]] = {
    NONE: ("local", ()),
    "the module's events": ("local", ((OUR_EVENTS, ""),)),
    "capture --stock by probes": ("mono", (*PROBES, *KERNEL_EVENTS)),
    "the same without timers": ("mono", (*PROBES, *IDLE)),
    "capture --stock by events": ("mono", (*KERNEL_EVENTS, DEVICE)),
    "power:cpu_idle alone": ("mono", IDLE),
    # Events that no way records: docs/stock.md.
    "power:cpu_idle_miss alone": ("mono", (("power:cpu_idle_miss", ""),)),
    "sched:sched_waking alone": ("mono", (("sched:sched_waking", ""),)),
    "ipi alone": ("mono", (("ipi", ""),)),
    AGAIN: ("local", ()),
}

FUNCTIONS = r"""
# Both answer in $found, and start no program: their own cost is little.
total() {
	found=0
	for file in /sys/devices/system/cpu/cpu0/cpuidle/state*/"$1"; do
		read -r value <"$file" && found=$((found + value))
	done
}
now() { while read -r word _ found _ && [ "$word" != now ]; do :; done </proc/timer_list; }
stat() { sed -n "s/^$1: //p" $tracing/per_cpu/cpu0/stats; }
# events CLOCK [EVENT FILTER]...
events() {
	echo "$1" >$tracing/trace_clock
	shift
	while [ $# -gt 0 ]; do
		folder=$tracing/events/$(echo "$1" | tr : /)
		[ ! -e "$folder" ] || {
			[ -z "$2" ] || echo "$2" >"$folder/filter"
			echo 1 >"$folder/enable"
		}
		shift 2
	done
}
# cost WAY WORKLOAD COMMAND
cost() {
	echo >$tracing/trace
	sleep 1
	echo 1 >$tracing/tracing_on
	total usage; periods=-$found
	total time; slept=-$found
	now; busy=-$found
	sh -c "$3" >/dev/null 2>/tmp/said || fail "$2 failed: $(tail -n 1 /tmp/said)"
	now; busy=$((busy + found))
	total time; busy=$((busy - (slept + found) * 1000))
	total usage; periods=$((periods + found))
	echo 0 >$tracing/tracing_on
	echo "cost $2 $periods $busy $(stat bytes) $(stat entries) $(stat overrun) $1"
	echo 0 >$tracing/events/enable
}
"""


@dataclass(frozen=True)
class Cost:
    """Costs of a way under a workload.

    Attributes:
        workload, way: which.
        periods: idle periods.
        bytes: in the ring buffer, for each idle period.
        events: recorded, for each idle period.
        instructions: for each idle period, more than without recording.
    """

    workload: str
    way: str
    periods: int
    bytes: float
    events: float
    instructions: float


def script(names: Sequence[str], seconds: int, kernel: str) -> str:
    """Return the guest's script."""
    phases = [workloads.find(name).phase(GOVERNOR, seconds, 42) for name in names]
    setup = [line for line in Session(MACHINE, phases, ()).script().splitlines()
             if not line.startswith(("phase ", "afresh "))]  # fmt: skip
    text = [*setup, FUNCTIONS, "echo 0 >$tracing/tracing_on",
            "echo 65536 >$tracing/buffer_size_kb"]  # fmt: skip
    for line in lines(GROUP, parse_version(kernel) >= ARGUMENTS_SINCE):
        text.append(f"echo '{line}' >>$tracing/kprobe_events || fail 'no probe'")
    for phase in phases:
        for way, (clock, wanted) in WAYS.items():
            words = [word for event in wanted for word in event]
            text += [
                f"afresh {GOVERNOR}",
                shlex.join(["events", clock, *words]),
                shlex.join(["cost", way, phase.workload, phase.command]),
            ]
    return "\n".join(text)


def read(output: str) -> Iterator[Cost]:
    """Yield the costs that the guest's lines tell.

    Raises:
        UserError: a buffer was too small, or the CPU was never idle.
    """
    plain: dict[str, float] = {}
    for line in filter(None, output.splitlines()):
        word, *words = line.split(maxsplit=7)
        if word != "cost":
            continue
        workload, way = words[0], words[6]
        periods, busy, size, events, lost = map(int, words[1:6])
        if lost or not periods:
            raise UserError(f"{workload}, {way}: {lost} events lost, {periods} idle periods")
        plain.setdefault(workload, busy / periods)
        yield Cost(workload, way, periods, size / periods, events / periods,
                   busy / periods - plain[workload])  # fmt: skip


def measure(kernel: str, names: Sequence[str], seconds: int, folder: Path) -> list[Cost]:
    """Boot once; return what each way costs under each workload."""
    run = LabRun(
        script=script(names, seconds, kernel),
        kernel=kernel,
        cpus=1,
        memory_mib=2048,
        files=workloads.files(workloads.find(name) for name in names),
    )
    result = run_lab(run, folder / "results", f"Measuring what recordings cost on {kernel}")
    costs = list(read(result.check().output))
    if len(costs) != len(names) * len(WAYS):
        raise UserError(f"only {len(costs)} of {len(names) * len(WAYS)} costs were measured")
    return costs


def rows(costs: Sequence[Cost]) -> list[dict[str, object]]:
    """Return the costs for JSON."""
    return [asdict(cost) for cost in costs]


def show(costs: Sequence[Cost]) -> None:
    """Print the table."""
    print("| workload | recorded | idle periods | events | bytes | instructions |")
    print("|---|---|--:|--:|--:|--:|")
    for cost in costs:
        print(f"| {cost.workload} | {cost.way} | {cost.periods:,} | {cost.events:.1f} "
              f"| {cost.bytes:.0f} | {cost.instructions:,.0f} |")  # fmt: skip
