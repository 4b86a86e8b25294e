#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Replay with ends of intervals that move with their causes, beside replay as it is.

The causes are in the trace: a wake-up by another CPU moves with the delay of that CPU, a timer that
was set relative to the time moves with the delay of the CPU that set it, all else stays. An
interval begins when the governor's CPU is back from the one before. An interval that would end
before it begins is left out. Governors of a kernel are not replayed: one CPU at a time has one.
"""

import argparse
import re
import statistics
import subprocess
import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

TOP = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TOP), str(TOP / "tools")]

from cpuidle_lab.crossval import own, plan  # noqa: E402
from cpuidle_lab.crossval.parts import Part, parts  # noqa: E402
from cpuidle_lab.lab import workloads  # noqa: E402
from cpuidle_lab.lab.session import OUR_EVENTS, PhasePlan, Session  # noqa: E402
from cpuidle_lab.recording.columns import opened  # noqa: E402
from cpuidle_lab.replay import recorded  # noqa: E402
from cpuidle_lab.replay.engine import INTERVAL_TYPES, Outcome, Run  # noqa: E402

EPILOG = """\
examples:
  causes.py --record spr             stress-sleep and pgbench-44, with the events of causes
  causes.py build/causes/*.trace.dat

exit codes: 0 done, 1 a recording cannot be used, 2 wrong usage
"""

# Workloads in which the open loop errs, by machine.
CHOSEN = {
    "skx": ("pgbench-1",),
    "spr": ("stress-sleep", "pgbench-44"),
    "skl": ("stress-switch", "nginx-wrk", "cyclictest-500us"),
    "power9": ("redis", "fio-1"),
}
WAKES = ("sched:sched_waking", "sched:sched_wakeup", "sched:sched_wake_idle_without_ipi")
TIMERS = ("timer:hrtimer_start", "timer:hrtimer_expire_entry")
# Read by `report`, which names what woke a CPU.
OTHERS = ("irq:irq_handler_entry", "irq_vectors:reschedule_entry")

NAMES = {event.split(":")[1] for event in (*WAKES, *TIMERS)}

# The kernel's mode of a timer that was set relative to the time.
HRTIMER_MODE_REL = 1

# A cause and the end of an interval are recorded so far from each other.
WAKE_NS = 30_000
TIMER_NS = 60_000

# The module's time of a timer and that of the timer's event differ by so much.
DUE_NS = 20_000

# Not set by a task: the tick, and the end of a state on the emulated machine.
OTHER_TIMERS = ("tick", "timer_expired")

LINE = re.compile(r"\[(\d+)\](?:\s+[^\s\d]\S*)?\s+(\d+)\.(\d+): (\w+):\s+(.*)$")
FIELD = re.compile(r"(\w+)=(\S+)")

Array = npt.NDArray[Any]


@dataclass
class Causes:
    """Possible ends of intervals, by CPU and in the order of time.

    Attributes:
        wakes: when a CPU was woken, and by which.
        expiries: when a timer of a task went off; where it was set, when, and whether relative.
        armed: when a relative timer of a task is due; where it was set, and when.
    """

    wakes: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    expiries: dict[int, list[tuple[int, int, int, bool]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    armed: dict[int, list[tuple[int, int, int]]] = field(default_factory=lambda: defaultdict(list))

    def timer(self, cpu: int, due_ns: int) -> tuple[int, int] | None:
        """Return the CPU that set the relative timer that is due then, and when."""
        armed = self.armed[cpu]
        at = bisect_left(armed, (due_ns - DUE_NS,))
        if at == len(armed) or armed[at][0] > due_ns + DUE_NS:
            return None
        return armed[at][1:]

    def of(self, cpu: int, start_ns: int, end_ns: int, left_ns: int) -> tuple[int, int] | None:
        """Return the CPU that set the end of an interval, and when; None: it does not move."""
        wakes = self.wakes[cpu]
        at = bisect_right(wakes, (end_ns + WAKE_NS, 1 << 30)) - 1
        if at >= 0 and wakes[at][0] >= max(start_ns, end_ns - WAKE_NS):
            return wakes[at][1], wakes[at][0]
        expiries = self.expiries[cpu]
        at = bisect_left(expiries, (end_ns - TIMER_NS,))
        if at == len(expiries) or expiries[at][0] > left_ns + TIMER_NS:
            return None
        _, by, set_ns, relative = expiries[at]
        return (by, set_ns) if relative else None


def events(path: Path) -> Iterator[tuple[int, int, str, dict[str, str]]]:
    """Yield time, CPU, name and fields of each event of a recording."""
    wanted = [word for event in (*WAKES, *TIMERS) for word in ("-F", event)]
    command = ["trace-cmd", "report", "-N", "-t", "-i", str(path), *wanted]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout
        for line in process.stdout:
            found = LINE.search(line.decode(errors="replace"))
            # Events that no filter names are printed, too.
            if found and found[4] in NAMES:
                cpu, seconds, rest, name, text = found.groups()
                at_ns = int(seconds) * 10**9 + int(rest.ljust(9, "0"))
                yield at_ns, int(cpu), name, dict(FIELD.findall(text))


def causes(path: Path, clock: tuple[Array, Array]) -> Causes:
    """Return the causes of a recording.

    Args:
        path: the recording.
        clock: times of events, and the module's times at them, ns.
    """
    found = Causes()
    started: dict[str, tuple[int, int, bool]] = {}
    # A decision is made before its event is written.
    offset = int((clock[1] - clock[0]).max())
    since_boot_ns = 1 << 62
    for ts, cpu, name, told in events(path):
        at_ns = ts + offset
        if target := told.get("target_cpu") or told.get("cpu"):
            if int(target) != cpu:
                found.wakes[int(target)].append((at_ns, cpu))
            continue
        if name == "hrtimer_start":
            relative = bool(int(told["mode"], 0) & HRTIMER_MODE_REL)
            started[told["hrtimer"]] = at_ns, cpu, relative
            if relative and not told["function"].startswith(OTHER_TIMERS):
                found.armed[cpu].append((int(told["expires"]), cpu, at_ns))
            continue
        since_boot_ns = min(since_boot_ns, at_ns - int(told["now"]))
        if told["hrtimer"] in started and not told["function"].startswith(OTHER_TIMERS):
            set_ns, by, relative = started[told["hrtimer"]]
            found.expiries[cpu].append((at_ns, by, set_ns, relative))
    for cpu, armed in found.armed.items():
        found.armed[cpu] = sorted((due + since_boot_ns, by, at) for due, by, at in armed)
    for lists in (found.wakes, found.expiries):
        for one in lists.values():
            one.sort()
    return found


class Delays:
    """Delay of a CPU against the recording, by the recorded time."""

    def __init__(self) -> None:
        self._since: list[int] = []
        self._ns: list[int] = []

    def at(self, time_ns: int) -> int:
        """Return the delay, ns."""
        k = bisect_right(self._since, time_ns) - 1
        return self._ns[k] if k >= 0 else 0

    def set(self, since_ns: int, delay_ns: int) -> None:
        """From a recorded time on, the CPU is so late."""
        self._since.append(since_ns)
        self._ns.append(delay_ns)


def _moved(columns: dict[str, Array], start_ns: int, length_ns: int, timer_ns: int) -> None:
    for name, value in (("start_ns", start_ns), ("length_ns", length_ns), ("timer_ns", timer_ns)):
        columns[name] = np.array([value], columns[name].dtype)


def _timer(told_ns: int, late_ns: int) -> int:
    if 0 <= told_ns < 1 << 62:
        return max(told_ns - late_ns, 0)
    return -2 - max(-2 - told_ns - late_ns, 0) if told_ns <= -2 else told_ns


def closed(part: Part, other: Part, why: Causes) -> Outcome:
    """Return what the recorder of `other` comes to if ends move with their causes."""
    rows = []
    for cpu in part.cpus:
        kept, machine = part.kept[cpu][0], part.state_tables[cpu]
        answers = np.cumsum(kept["answers"])
        for i, length in enumerate(kept["length_ns"].tolist()):
            end_ns = int(kept["start_ns"][i]) + max(length, 0)
            latency = machine.exit_latency_ns[int(kept["last_index"][i])] if length > 0 else 0
            before = int(answers[i] - kept["answers"][i])
            rows.append((end_ns, cpu, i, slice(before, int(answers[i])), length, latency))
    rows.sort(key=lambda row: row[:2])
    late = {cpu: Delays() for cpu in part.cpus}
    chosen = other.recorder
    outcome = Outcome(chosen.label, max(part.state_tables.values(), key=lambda one: one.count))
    with ExitStack() as stack:
        runs = {
            cpu: stack.enter_context(
                Run(chosen.governor, part.state_tables[cpu], dict(chosen.settings), cpu)
            )
            for cpu in part.cpus
        }
        for cpu, run in runs.items():
            own.play_before(run, part, cpu)
        for end_ns, cpu, i, answered, length, latency in rows:
            kept = part.kept[cpu][0]
            row = {
                name: kept[name][answered if name.startswith("answer_") else slice(i, i + 1)]
                for name in INTERVAL_TYPES
            }
            if length < 0:
                continue
            start_ns, left_ns = end_ns - length, end_ns + latency
            cause = why.of(cpu, start_ns, end_ns, left_ns)
            end_late = late[cause[0]].at(cause[1]) if cause and cause[0] in late else 0
            start_late = late[cpu].at(1 << 63)
            if not length:
                _moved(row, start_ns + start_late, 0, int(row["timer_ns"][0]))
                runs[cpu].play(row, choices=False)
                continue
            delay = start_ns + start_late - left_ns
            if length + end_late > start_late:
                told = int(row["timer_ns"][0])
                armed = why.timer(cpu, start_ns + told) if told >= 0 else None
                timer_late = late[armed[0]].at(armed[1]) if armed and armed[0] in late else 0
                told = _timer(told, start_late - timer_late)
                _moved(row, start_ns + start_late, length + end_late - start_late, told)
                last = int(runs[cpu].play(row, choices=True)["last"][0])
                delay = end_late + part.state_tables[cpu].exit_latency_ns[last] - latency
            late[cpu].set(left_ns, delay)
        for cpu in part.cpus:
            outcome.add(runs[cpu].totals(), part.state_tables[cpu])
    return outcome


def record(machine: str, folder: Path) -> Path:
    """Record the workloads of a machine under all governors with the events of causes."""

    class Boot(plan.Boot):
        def script(self) -> str:
            phases = [
                PhasePlan(label.split()[0], one.name, one.shell(seconds, self.seed), tunables,
                      one.setup)
                for name, seconds in self.chosen
                for one in (workloads.find(name),)
                for label, tunables in plan.GOVERNORS.items()
            ]  # fmt: skip
            events = (OUR_EVENTS, *WAKES, *TIMERS, *OTHERS)
            return Session(self.machine, phases, events, self.trace_mib).script()

    folder.mkdir(parents=True, exist_ok=True)
    chosen = tuple((name, 1) for name in CHOSEN[machine])
    return Boot(machine, plan.KERNEL, 1, chosen).record(folder)


def judge(path: Path) -> None:
    """Print the errors of both ways for each workload of a recording."""
    with opened(path) as recording:
        found = parts(recording, path)
        frame = pl.concat(list(recording.frames("period", recording.cpus[0]))).sort("ts")
        clock = tuple(frame[name].to_numpy().astype(np.int64) for name in ("ts", "now_ns"))
    why = causes(path, (clock[0], clock[1]))
    by_workload: dict[str, list[Part]] = defaultdict(list)
    for part in found:
        by_workload[part.workload].append(part)
    for workload, group in by_workload.items():
        errors: dict[str, list[float]] = {"open": [], "closed": []}
        for mine in group:
            for other in group:
                if other is mine or "@" in other.recorder.label:
                    continue
                real = recorded.outcome(other).regret or 0.0
                errors["open"].append(abs((own.play(mine, other).regret or 0.0) - real))
                errors["closed"].append(abs((closed(mine, other, why).regret or 0.0) - real))
        means = {name: statistics.fmean(values) for name, values in errors.items()}
        print(f"| {workload} | {means['open']:.1f} | {means['closed']:.1f} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", nargs="*", type=Path, metavar="TRACE")
    parser.add_argument("--record", choices=CHOSEN, help="the workloads of a machine, in the lab")
    options = parser.parse_args()
    if options.record:
        print(record(options.record, TOP / "build" / "causes"))
    for path in options.traces:
        judge(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
