# SPDX-License-Identifier: GPL-2.0
"""A recorded session without a kernel: idle periods of known laws under toy governors."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cpuidle_lab.recording import columns
from cpuidle_lab.replay.engine import INTERVAL_TYPES
from tests.unit.tracedat import Trace

TICK = 4_000_000
NAMES = ("POLL", "C1", "C1E", "C6")
EXIT = (0, 2_000, 10_000, 133_000)
TARGET = (0, 2_000, 20_000, 600_000)
POWER = (1000, 450, 300, 60)

NUMBER = {"teo_ng": 0, "menu_ng": 1, "wteo": 2, "gate": 3, "bpf": 4}

# Policies that decide under these: the base, or the program in BPF.
BASES = {"gate": "menu", "bpf": "bpf:wteo@0123456789abcdef"}

# Columns of an interval that have one number a row.
PLAIN = tuple(name for name in columns.INTERVAL if name not in ("answers", *columns.ANSWERS))

Law = Callable[[random.Random], float]

WORKLOADS: dict[str, Law] = {
    "idle": lambda r: r.expovariate(1 / 30e6),
    "cyclictest": lambda r: r.gauss(1e6, 2e4),
    "hackbench": lambda r: r.expovariate(1 / 25e3),
    "bursts": lambda r: r.choice([8e3, 15e3, 3e6]) * r.uniform(0.8, 1.2),
}

# Error of each toy governor's guess of the interval, as the sigma of a lognormal law.
SKILL = {"teo_ng": 0.9, "menu_ng": 1.4, "wteo": 0.35, "gate": 1.4, "bpf": 0.35, "menu": 1.4}


@dataclass
class Cpu:
    """One CPU of the session."""

    number: int
    now: int
    seq: int = 0
    left: bool = True
    weights: list[list[float]] = field(default_factory=list)


def no_answers(count: int) -> dict[str, np.ndarray[Any, Any]]:
    """Return the columns of intervals in memory during which the kernel was asked only once."""
    return {
        "answers": np.zeros(count, np.uint32),
        **{name: np.zeros(0, INTERVAL_TYPES[name]) for name in columns.ANSWERS},
    }


def _fit(interval: float, limit: int = 2**63 - 1) -> int:
    return max(
        k for k in range(len(TARGET)) if k == 0 or (TARGET[k] <= interval and EXIT[k] <= limit)
    )


class Session:
    """Writes phases into a trace.

    Attributes:
        trace: the trace being made.
    """

    def __init__(self, cpus: int = 2, seed: int = 1) -> None:
        self.trace = Trace(cpus)
        self._random = random.Random(seed)
        self._cpus = [Cpu(number, 1_000_000_000) for number in range(cpus)]

    def phase(
        self,
        governor: str,
        workload: str,
        length: int,
        *,
        hints: bool = False,
        marked: bool = True,
        state: bytes = b"",
    ) -> None:
        """Add a phase of `length` ns, between two markers unless it is not to be marked.

        It begins with a checkpoint of the governor's state, unless that is empty.
        """
        start = max(cpu.now for cpu in self._cpus) + 1_000_000
        if marked:
            self.trace.mark(0, start, f"phase governor={governor} workload={workload}")
        for cpu in self._cpus:
            cpu.now = start + 1000
            if governor in NUMBER:
                self._config(cpu, governor)
                if state:
                    self.trace.add(
                        cpu.number, cpu.now + 1, "state", seq=cpu.seq + 1, total=len(state),
                        governor=NUMBER[governor], data=state,
                    )  # fmt: skip
            while cpu.now < start + length:
                self._interval(cpu, governor, workload, hints)
        end = max(cpu.now for cpu in self._cpus)
        if marked:
            self.trace.mark(0, end + 1000, "phase end")
        for cpu in self._cpus:
            cpu.now = end + 2000

    def _config(self, cpu: Cpu, governor: str) -> None:
        pad = [0] * (10 - len(NAMES))
        cpu.weights = [
            [
                10000.0 * (0.7 if row == column else 0.3 / (len(NAMES) - 1))
                for column in range(len(NAMES))
            ]
            for row in range(len(NAMES))
        ]
        self.trace.add(
            cpu.number,
            cpu.now,
            "config",
            seq=cpu.seq + 1,
            generation=1,
            cpu=cpu.number,
            tick_ns=TICK,
            governor=NUMBER[governor],
            states=len(NAMES),
            polling=1,
            exit_latency_ns=[*EXIT, *pad],
            target_residency_ns=[*TARGET, *pad],
            power_mw=[*POWER, *pad],
            names=",".join(NAMES),
            base=BASES.get(governor, ""),
            tunables=(
                "budget=1500 t0=50 t1=0 t2=1024"
                if governor == "bpf"
                else "learning_rate=50 half_life_ms=0"
            ),
            kernel="6.12.0-test",
        )

    def _interval(self, cpu: Cpu, governor: str, workload: str, hints: bool) -> None:
        r = self._random
        left = max(1000.0, WORKLOADS[workload](r))
        cpu.left = True
        while left > 0:
            guess = left * r.lognormvariate(0, SKILL[governor])
            index = _fit(guess, 2000 if hints else 2**63 - 1)
            stop = index == len(TARGET) - 1 or guess > TICK
            to_tick = TICK - cpu.now % TICK
            spent = left if stop else min(left, to_tick)
            tick = spent < left
            poll = index == 0 and spent > 20_000
            if poll:
                spent, tick = 20_000.0, False
            self._period(cpu, governor, index, stop, int(spent), int(left), tick, poll, hints)
            left -= spent

    def _period(
        self,
        cpu: Cpu,
        governor: str,
        index: int,
        stop: bool,
        spent: int,
        left: int,
        tick: bool,
        poll: bool,
        hints: bool,
    ) -> None:
        r = self._random
        if governor in NUMBER:
            if r.random() < 0.02:
                self._decision(cpu, governor, index, stop, left, hints)
                cpu.now += 2000
                self._outcome(cpu, governor, index, 0, kind=1)
                cpu.left = True
            self._decision(cpu, governor, index, stop, left, hints)
        self.trace.add(cpu.number, cpu.now + 300, "cpu_idle", state=index, cpu_id=cpu.number)
        cpu.now += 300 + spent
        self.trace.add(cpu.number, cpu.now, "cpu_idle", state=2**32 - 1, cpu_id=cpu.number)
        cpu.now += r.randrange(2_000, 60_000)
        if governor in NUMBER:
            mark = 2 if governor == "gate" else int(tick)
            self._outcome(cpu, governor, index, spent, tick=mark, poll_time_limit=int(poll))
            if governor == "wteo":
                self._learn(cpu, index, _fit(left))

    def _decision(
        self, cpu: Cpu, governor: str, index: int, stop: bool, left: int, hints: bool
    ) -> None:
        r = self._random
        cpu.seq += 1
        reason = {"gate": 4 if hints else 3, "menu_ng": r.choice([33, 33, 33, 36, 38])}.get(
            governor, r.choice([16, 16, 17, 17, 22])
        )
        if governor == "wteo" and r.random() < 0.6:
            reason = 49
        self.trace.add(
            cpu.number,
            cpu.now,
            "decision",
            seq=cpu.seq,
            now_ns=cpu.now,
            latency_req_ns=2**63 - 1,
            hint_ns=2000 if hints else -1,
            sleep_length_ns=left + r.randrange(1000),
            delta_tick_ns=TICK - cpu.now % TICK,
            generation=1,
            governor=NUMBER[governor],
            flags=0 if governor == "gate" else 4,  # the kernel's governor asks unseen
            index=index,
            stop_tick=int(stop),
            reason=reason,
            row=255,
            base_index=index if governor == "gate" else 255,
            left=int(cpu.left),
            state=NAMES[index],
        )
        cpu.left = False

    def _outcome(self, cpu: Cpu, governor: str, index: int, residency: int, **values: int) -> None:
        self.trace.add(
            cpu.number,
            cpu.now,
            "outcome",
            seq=cpu.seq,
            now_ns=cpu.now,
            residency_ns=residency,
            governor=NUMBER[governor],
            index=index,
            state=NAMES[index],
            **values,
        )

    def _learn(self, cpu: Cpu, row: int, column: int) -> None:
        weights = cpu.weights[row]
        for k in range(len(weights)):
            weights[k] += ((10000 if k == column else 0) - weights[k]) * 0.05
        shown = [int(weight) for weight in weights]
        shown[column] += 10000 - sum(shown)
        self.trace.add(
            cpu.number,
            cpu.now,
            "weights",
            seq=cpu.seq,
            governor=2,
            row=row,
            columns=len(NAMES),
            weights=[*shown, *[0] * (10 - len(NAMES))],
        )


def demo(path: Path, length: int = 300_000_000) -> Path:
    """Write a session of all governors and workloads; `length` is ns for each phase."""
    session = Session()
    for workload in WORKLOADS:
        for governor in ("menu", "teo_ng", "menu_ng", "wteo", "gate"):
            session.phase(governor, workload, length)
        session.phase("gate", workload, length, hints=True)
    return session.trace.write(path)
