# SPDX-License-Identifier: GPL-2.0
"""Instructions of the emulated machine's account of domains for each idle period.

In the lab's virtual time an instruction takes 1 ns. The kernel's function_graph tracer takes the
time of the functions that keep the account. Its own share is the same without domains, and cancels
out in the differences.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mode

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.lab import LabRun, run_lab

CPUS = (4, 16)
FUNCTIONS = ("emul_switch", "emul_domains_wake")
# The calls of an idle period, in their order.
CALLS = [FUNCTIONS[0], FUNCTIONS[1], FUNCTIONS[0]]

NONE = "no domains"
_PACKAGE = "package@all:60000{}/PC6:50:0:1000:25000:{}"
DOMAINS: Mapping[str, str] = {
    NONE: "",
    "a package": _PACKAGE.format("", "C6"),
    "a package, the kernel decides": _PACKAGE.format(":kernel", "C6"),
    "modules of four in a package": "module@every4:1200/MC6:10:0:1000:400:C6+"
    + _PACKAGE.format("", "MC6"),
}
# By setting: work beside the thread on CPU 0.
SETTINGS: Mapping[str, str] = {
    "all others asleep": "",
    "CPU 1 busy": "taskset -c 1 stress-ng --cpu 1 -q &",
}

_LINE = re.compile(r"^\s*(\d+)\).*?([\d.]+) us\s*\|\s*(\w+)")

_SCRIPT = """\
. /lab/functions
echo 0 >$tracing/tracing_on
echo 1024 >$tracing/buffer_size_kb
# try NAME DOMAINS
try() {
	load cpuidle_emul machine=spr ${2:+"domains=$2"}
	for file in /sys/devices/system/cpu/cpu*/cpuidle/state[012]/disable; do
		echo 1 >$file
	done
	echo emul_switch >$tracing/set_ftrace_filter || fail "emul_switch cannot be traced"
	echo emul_domains_wake >>$tracing/set_ftrace_filter
	echo function_graph >$tracing/current_tracer || fail "no function_graph tracer"
}
# measure NAME: CPU 0 wakes up 100 times from C6.
measure() {
	usleep 100000
	echo >$tracing/trace
	echo 1 >$tracing/tracing_on
	cyclictest -q -t 1 -a 0 -i 5000 -l 100 --default-system >/dev/null
	echo 0 >$tracing/tracing_on
	cat $tracing/per_cpu/cpu0/trace >/results/$1
}
leave() {
	echo nop >$tracing/current_tracer
	rmmod cpuidle_emul
}
"""


@dataclass(frozen=True)
class Cost:
    """Cost of an account.

    Attributes:
        domains: key of DOMAINS.
        setting: key of SETTINGS.
        cpus: of the machine.
        instructions: for each idle period, beyond those without domains.
    """

    domains: str
    setting: str
    cpus: int
    instructions: int


def script() -> str:
    """Return the guest's script; each case leaves its trace in a file named by its numbers."""
    lines = []
    for n, tree in enumerate(DOMAINS.values()):
        lines.append(f"try {n} '{tree}'")
        for k, work in enumerate(SETTINGS.values()):
            lines += [*filter(None, [work]), f"measure {n}.{k}"]
            lines += ["killall -q stress-ng", "wait"] if work else []
        lines.append("leave")
    return _SCRIPT + "\n".join(lines)


def periods(text: str) -> Iterator[tuple[int, ...]]:
    """Yield the times of each idle period's CALLS in a trace, ns."""
    calls: list[tuple[str, int]] = []
    for line in text.splitlines():
        if not (found := _LINE.match(line)):
            continue
        calls.append((found[3], round(1000 * float(found[2]))))
        calls = calls[-len(CALLS) :]
        if [name for name, _ in calls] == CALLS:
            yield tuple(ns for _, ns in calls)
            calls = []


def alone(each: Sequence[int]) -> int:
    """Return the least of a call's frequent times, those that one call in ten takes.

    Where CPU 1 is busy the clock counts its instructions in many calls, which take longer.
    """
    counts = Counter(each)
    return min((ns for ns, count in counts.items() if 10 * count >= len(each)), default=mode(each))


def typical(each: Sequence[tuple[int, ...]], is_shared: bool) -> int:
    """Return the most frequent time of a period; on a shared clock, the sum of its calls alone.

    A whole period is seldom without instructions of the other CPU, each call often is.
    """
    return sum(map(alone, zip(*each, strict=True))) if is_shared else mode(map(sum, each))


def measure(cpus: int, folder: Path) -> list[Cost]:
    """Boot once; return what each account costs.

    Raises:
        UserError: a trace holds too few idle periods.
    """
    run = LabRun(script=script(), cpus=cpus, with_modules=True)
    files = run_lab(run, folder / f"costs-{cpus}").check().files
    spent: dict[tuple[str, str], int] = {}
    for n, name in enumerate(DOMAINS):
        for k, setting in enumerate(SETTINGS):
            each = list(periods((files / f"{n}.{k}").read_text()))
            if len(each) < 50:
                raise UserError(f"{name}, {setting}: {len(each)} idle periods were traced")
            spent[name, setting] = typical(each, bool(SETTINGS[setting]))
    return [
        Cost(name, setting, cpus, ns - spent[NONE, setting])
        for (name, setting), ns in spent.items()
        if name != NONE
    ]


def rows(costs: Sequence[Cost]) -> list[str]:
    """Return the lines of the table, for emul/README.md."""
    numbers = sorted({each.cpus for each in costs})
    by: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for each in costs:
        by[each.domains, each.setting][each.cpus] = each.instructions
    heads = ("domains", "setting", *(f"{cpus} CPUs" for cpus in numbers))
    lines = [heads, ("---", "---", *("--:" for _ in numbers))]
    lines += [(*key, *(str(found[cpus]) for cpus in numbers)) for key, found in by.items()]
    return [f"| {' | '.join(words)} |" for words in lines]
