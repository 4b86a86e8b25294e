# SPDX-License-Identifier: GPL-2.0
"""Measures a machine state by state: wakes it up, and reads counters."""

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.calibrate import residency
from cpuidle_lab.calibrate.isolate import Isolation
from cpuidle_lab.calibrate.model import State, Stretch, fit
from cpuidle_lab.calibrate.topology import Peers
from cpuidle_lab.host import energy
from cpuidle_lab.host.machine import Host
from cpuidle_lab.host.sysfs import Tree

_CPUS = "/sys/devices/system/cpu"

WAYS = ("timer", "ipi")
OTHERS = ("asleep", "awake")


class Waits(Protocol):
    """Waits for a process, or raises what ends the session; see waiting.Waiter."""

    def wait(self, seconds: float | None, *processes: subprocess.Popen[bytes]) -> None:
        """Return when a process has ended."""


@dataclass(frozen=True)
class Effort:
    """Extent of a measurement.

    Attributes:
        wakeups: wake-ups of each series of latencies.
        seconds: of each stretch for power.
        repetitions: of all stretches.
    """

    wakeups: int = 200
    seconds: float = 2.0
    repetitions: int = 5


@dataclass(frozen=True)
class Bench:
    """The machine, and what measures it.

    Attributes:
        machine: the machine.
        cpus: its CPUs.
        peers: those that take part in measuring latencies.
        program: path of calibrate-wake.
        waiter: waits for it.
        zone: names of the energy counters that are added; empty: none.
        say: called with what goes on.
    """

    machine: Host
    cpus: list[int]
    peers: Peers
    program: Path
    waiter: Waits
    zone: tuple[str, ...]
    say: Callable[[str], None]

    def run(self, *arguments: object) -> str:
        """Run calibrate-wake; return what it printed.

        Raises:
            UserError: it failed.
        """
        process = subprocess.Popen(
            [str(self.program), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            self.waiter.wait(None, process)
            out, err = process.communicate()
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        if process.returncode < 0:
            raise UserError(f"calibrate-wake was killed by signal {-process.returncode}")
        if process.returncode:
            raise UserError(err.decode(errors="replace").strip() or "calibrate-wake failed")
        return out.decode()


def zones(tree: Tree) -> tuple[str, ...]:
    """Return the powercap zones whose sum is the energy of the machine's CPUs."""
    readings, _ = energy.read_zones(tree)
    top = [reading.zone for reading in readings if reading.zone.count(":") == 1]
    named = [zone for zone in top if zone.startswith(("intel-rapl:", "amd-rapl:", "cpuidle-emul:"))]
    return tuple(named or top[:1])


@dataclass(frozen=True)
class _Counts:
    when_us: float
    energy_uj: dict[str, tuple[int, int]]
    time_us: list[int]
    entries: list[int]


def _counts(bench: Bench, states: int) -> _Counts:
    """Read all counters; each CPU is woken up before, since it counts a stay at its end."""
    tree = bench.machine.tree
    mask = os.sched_getaffinity(0)
    try:
        for cpu in bench.cpus:
            os.sched_setaffinity(0, {cpu})
    finally:
        os.sched_setaffinity(0, mask)
    readings = {r.zone: r for r in energy.read_zones(tree)[0]}
    when_us = _now_us()

    def total(state: int, name: str) -> int:
        files = (f"{_CPUS}/cpu{cpu}/cpuidle/state{state}/{name}" for cpu in bench.cpus)
        return sum(int(tree.read(file) or 0) for file in files)

    return _Counts(
        when_us,
        {z: (readings[z].energy_uj, readings[z].range_uj) for z in bench.zone if z in readings},
        [total(state, "time") for state in range(states)],
        [total(state, "usage") for state in range(states)],
    )


def _now_us() -> float:
    return time.monotonic_ns() / 1000


def _grown_nj(before: _Counts, after: _Counts) -> float:
    grown = 0
    for zone, (first, size) in before.energy_uj.items():
        if zone not in after.energy_uj:
            raise UserError(f"the energy counter {zone} went away")
        last = after.energy_uj[zone][0]
        grown += last - first if last >= first else last - first + size
    return 1000.0 * grown


def stretch(bench: Bench, states: int, state: int, period_us: int, seconds: float) -> Stretch:
    """Wake all CPUs up at a rate for some time; return what was counted."""
    before = _counts(bench, states)
    text = bench.run("load", period_us, round(1000 * seconds), *bench.cpus)
    after = _counts(bench, states)
    spent = [b - a for a, b in zip(before.time_us, after.time_us, strict=True)]
    span_us = (after.when_us - before.when_us) * len(bench.cpus)
    return Stretch(
        _grown_nj(before, after),
        spent[state],
        after.entries[state] - before.entries[state],
        max(0.0, span_us - sum(spent)),
        sum(spent) - spent[state],
        residency.shares(text),
    )


def busy_power(bench: Bench, states: list[State], seconds: float) -> float:
    """Return the power of a CPU that does not sleep, mW; only the shallowest state is enabled.

    A polling state draws what a busy CPU does, so time in it counts as busy.

    Raises:
        UserError: the CPUs slept although they had work.
    """
    found = stretch(bench, len(states), 0, 0, seconds)
    polling = found.time_us if states[0].table_latency_us == 0 else 0.0
    awake_us = found.busy_us + polling
    asleep_us = found.time_us - polling + found.other_us
    if asleep_us > 0.1 * awake_us:
        raise UserError("the CPUs slept although they had work; is the machine limited?")
    return found.energy_nj / (awake_us + asleep_us)


def periods_us(state: State) -> tuple[int, ...]:
    """Return the times between wake-ups: from where the state just pays to where it rests."""
    least = max(500, round(2 * (state.table_target_us + state.table_latency_us)))
    return least, 3 * least, max(50_000, 10 * least)


def measure_latency(bench: Bench, state: State, effort: Effort) -> None:
    """Fill in the lateness of wake-ups by timer and IPI, with another core asleep and awake."""
    peers = bench.peers
    others = {
        ("timer", "asleep"): peers.cpu,
        ("ipi", "asleep"): peers.sender,
        ("timer", "awake"): peers.keeper,
        ("ipi", "awake"): peers.keeper,
    }
    period_us = periods_us(state)[1]
    for (way, kind), other in others.items():
        if other is None:
            continue
        text = bench.run(
            "latency", way, peers.cpu, other, int(kind == "awake"), period_us, effort.wakeups
        )
        state.late_us[f"{way} {kind}"] = [int(line) / 1000 for line in text.split()]


def _demotion(bench: Bench, state: State, found: Stretch) -> tuple[float, float] | None:
    """Return what the hardware's counter shows and what is due, where it is less."""
    counter = residency.counter_of(state.name, found.hardware)
    if counter is None:
        return None
    span_us = found.time_us + found.other_us + found.busy_us
    least = residency.due(
        found.time_us, found.entries, span_us, state.table_latency_us, bench.peers.threads
    )
    share = found.hardware[counter]
    return (share, least) if share < residency.ENOUGH * least else None


def measure_stays(
    bench: Bench, states: list[State], index: int, effort: Effort, busy_mw: float | None
) -> None:
    """Fill in the repetitions of power and entry energy, and whether the state was entered.

    Without an energy counter one repetition shows whether it was.
    """
    state = states[index]
    used = spent = 0.0
    for _ in range(effort.repetitions if busy_mw is not None else 1):
        found = [
            stretch(bench, len(states), index, period_us, effort.seconds)
            for period_us in periods_us(state)
        ]
        used += sum(s.time_us for s in found)
        spent += sum(s.other_us for s in found)
        state.hardware = found[-1].hardware
        shown = [demotion for s in found if (demotion := _demotion(bench, state, s))]
        state.demoted = min([*shown, *([state.demoted] if state.demoted else [])], default=None)
        if busy_mw is None:
            continue
        try:
            state.repetitions.append(fit(found, busy_mw))
        except ValueError:
            break
    state.share = used / (used + spent) if used + spent else 0.0
    if not state.entered or len(state.repetitions) < effort.repetitions:
        state.repetitions.clear()


def measure(
    bench: Bench, isolation: Isolation, states: list[State], effort: Effort
) -> float | None:
    """Measure all states; return the power of a busy CPU in mW, None without an energy counter."""
    isolation.only(0)
    busy_mw = busy_power(bench, states, effort.seconds / 2) if bench.zone else None
    for index, state in enumerate(states):
        bench.say(f"{state.name}: latency")
        isolation.only(index)
        measure_latency(bench, state, effort)
        bench.say(f"{state.name}: stays")
        measure_stays(bench, states, index, effort, busy_mw)
    return busy_mw
