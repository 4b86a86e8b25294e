# SPDX-License-Identifier: GPL-2.0
"""Traces of periods that a test writes one by one."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cpuidle_lab.recording.trace import TIME_MAX
from cpuidle_lab.states.table import StateTable
from tests.unit.tracedat import Trace

# Round numbers: entering C1 costs 600 mW * 2 us, C6 another 300 mW * 600 us.
MACHINE = StateTable(
    names=("POLL", "C1", "C6"),
    exit_latency_ns=(0, 2_000, 100_000),
    target_residency_ns=(0, 2_000, 600_000),
    power_uw=(1_000_000, 400_000, 100_000),
    polling=(True, False, False),
    tick_ns=4_000_000,
)
US = 1_000


@dataclass
class Period:
    """One decision and its outcome; `kind` None leaves the outcome out."""

    index: int
    residency: int
    entered: int | None = None
    kind: int | None = 0
    tick: int = 0
    poll: int = 0
    disabled: int = 0
    latency: int = TIME_MAX
    hint: int = -1
    base: int = 255
    stop_tick: int = 1
    flags: int = 0
    left: int = 1
    sleep: int = 2 * 10**9
    delta_tick: int = 10**9
    skip: int = 0
    reason: int = 17
    governor: int = 0


@dataclass
class Builder:
    """Writes periods one after the other into a trace."""

    trace: Trace = field(default_factory=lambda: Trace(2))
    now: int = 1_000_000
    seq: int = 0

    def config(self, machine: StateTable = MACHINE, *, cpu: int = 0, **changes: object) -> None:
        """Add the config event of a CPU."""

        def pad(values: Sequence[int]) -> list[int]:
            return [*values, *[0] * (10 - len(values))]

        values: dict[str, object] = {
            "seq": self.seq + 1, "cpu": cpu, "tick_ns": machine.tick_ns, "governor": 0,
            "states": machine.count, "polling": sum(p << k for k, p in enumerate(machine.polling)),
            "exit_latency_ns": pad(machine.exit_latency_ns),
            "target_residency_ns": pad(machine.target_residency_ns),
            "power_mw": pad([uw // 1000 for uw in machine.power_uw]),
            "names": ",".join(machine.names), "base": "",
            "tunables": "", "kernel": "6.12.0-test",
        }  # fmt: skip
        self.trace.put(cpu, self.now, "config", {**values, **changes})

    def add(self, p: Period) -> None:
        """Add a decision of CPU 0 and its outcome."""
        self.seq += 1 + p.skip
        self.now += 1_000
        decision: dict[str, object] = {
            "seq": self.seq, "now_ns": self.now, "latency_req_ns": p.latency, "hint_ns": p.hint,
            "sleep_length_ns": p.sleep, "delta_tick_ns": p.delta_tick, "disabled": p.disabled,
            "index": p.index, "stop_tick": p.stop_tick, "reason": p.reason, "flags": p.flags,
            "base_index": p.base, "governor": p.governor, "row": 255, "left": p.left,
        }  # fmt: skip
        self.trace.put(0, self.now, "decision", decision)
        self.now += p.residency + 1_000
        if p.kind is None:
            return
        outcome = {
            "seq": self.seq, "now_ns": self.now, "residency_ns": p.residency, "kind": p.kind,
            "index": p.index if p.entered is None else p.entered, "tick": p.tick,
            "poll_time_limit": p.poll, "governor": p.governor,
        }  # fmt: skip
        self.trace.put(0, self.now, "outcome", outcome)
