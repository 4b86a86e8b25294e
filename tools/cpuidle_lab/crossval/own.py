# SPDX-License-Identifier: GPL-2.0
"""Replay of phases, from the state that their own governor began with or afresh."""

from cpuidle_lab.crossval.parts import Part
from cpuidle_lab.recording.columns import joined
from cpuidle_lab.replay.engine import INTERVAL_TYPES, Outcome, Run


def play_before(run: Run, part: Part, cpu: int, start: int | None = None) -> None:
    """Play the intervals before a phase, which do not count.

    Args:
        run: the recorder's, at the recorded state, or at the decision `start`.
        part: the phase.
        cpu: one of its CPUs.
        start: number of the first decision to play; None: all.
    """
    for before in part.before[cpu].chunks(start):
        run.play({name: before[name] for name in INTERVAL_TYPES}, choices=False)
    run.forget_totals()


def _count(run: Run, part: Part, cpu: int, outcome: Outcome, choices: bool) -> None:
    """Play a phase, and add what it comes to."""
    chunks = part.intervals(cpu, list(INTERVAL_TYPES))
    decided = [run.play(chunk, choices) for chunk in chunks]
    if choices:
        outcome.choices[cpu] = joined(decided)
    outcome.add(run.totals(), part.state_tables[cpu])


def _empty(part: Part, label: str) -> Outcome:
    tables = [part.state_tables[cpu] for cpu in part.cpus]
    return Outcome(label, max(tables, key=lambda table: table.count))


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
    outcome = _empty(part, chosen.label)
    for cpu in part.cpus:
        with Run(chosen.governor, part.state_tables[cpu], dict(chosen.settings), cpu) as run:
            if restore and part.before[cpu].state:
                run.restore(part.before[cpu].state)
            play_before(run, part, cpu)
            _count(run, part, cpu, outcome, choices)
    return outcome


class Replay:
    """Replays the recorder of one phase after the other, each interval once.

    Where a phase has the recorded state of the phase before, its replay goes on from that phase.
    play() would begin with the recorded state each time, and come to the same. It does so where no
    state is recorded: a thread has one run of a kernel's governor open at a time.
    """

    def __init__(self) -> None:
        """Begin without a phase."""
        self._runs: dict[int, tuple[Run, int, int]] = {}

    def __enter__(self) -> "Replay":
        """Return the replay."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the runs of all CPUs."""
        for run, _, _ in self._runs.values():
            run.__exit__(*error)

    def play(self, part: Part) -> Outcome:
        """Return what the recorder of the next phase comes to on its own intervals."""
        if not all(part.before[cpu].state for cpu in part.cpus):
            return play(part, part, restore=True)
        outcome = _empty(part, part.recorder.label)
        for cpu in part.cpus:
            run = self._before(part, cpu)
            _count(run, part, cpu, outcome, choices=False)
            self._runs[cpu] = run, part.before[cpu].start, part.last_seq(cpu) + 1
        return outcome

    def _before(self, part: Part, cpu: int) -> Run:
        """Return a run that stands at the beginning of a phase."""
        before, chosen = part.before[cpu], part.recorder
        if cpu in self._runs:
            run, start, end = self._runs[cpu]
            if start == before.start:
                play_before(run, part, cpu, end)
                return run
            del self._runs[cpu]
            run.__exit__(None, None, None)
        run = Run(chosen.governor, part.state_tables[cpu], dict(chosen.settings), cpu).__enter__()
        self._runs[cpu] = run, before.start, before.end
        run.restore(before.state)
        play_before(run, part, cpu)
        return run
