# SPDX-License-Identifier: GPL-2.0
"""Replay of a phase, from the state that its own governor began with or afresh."""

from cpuidle_lab.crossval.parts import Part
from cpuidle_lab.recording.columns import joined
from cpuidle_lab.replay.engine import INTERVAL_TYPES, Outcome, Run


def play(part: Part, other: Part, *, restore: bool = False, choices: bool = False) -> Outcome:
    """Return what the recorder of `other` would have come to on the intervals of `part`.

    Args:
        part: the intervals. Those since the last recorded state are played before, and do not
            count.
        other: whose recorder decides.
        restore: begin with the recorded state, where there is one, and not afresh.
        choices: keep what was decided in each interval.
    """
    chosen = other.recorder
    machines = [part.machines[cpu] for cpu in part.cpus]
    outcome = Outcome(chosen.label, max(machines, key=lambda machine: machine.count))
    for cpu, machine in zip(part.cpus, machines, strict=True):
        with Run(chosen.governor, machine, dict(chosen.settings), cpu) as run:
            if restore and part.states[cpu]:
                run.restore(part.states[cpu])
            if len(part.before[cpu]["flags"]):
                run.play({name: part.before[cpu][name] for name in INTERVAL_TYPES}, choices=False)
                run.forget_totals()
            chunks = part.intervals(cpu, list(INTERVAL_TYPES))
            decided = [run.play(chunk, choices) for chunk in chunks]
            if choices:
                outcome.choices[cpu] = joined(decided)
            outcome.add(run.totals(), machine)
    return outcome
