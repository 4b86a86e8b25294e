# SPDX-License-Identifier: GPL-2.0
"""Causes that ended the idle periods of a recording of cpu_idle, irq and ipi events, for a report.

Without decisions, nothing else tells what woke the CPUs: docs/stock.md.
"""

from collections.abc import Sequence
from pathlib import Path

from cpuidle_lab.figures.group import Group
from cpuidle_lab.figures.intervals import table_of
from cpuidle_lab.recording import cause_events, causes
from cpuidle_lab.recording.columns import caused
from cpuidle_lab.recording.trace import Trace


def add_causes(path: Path, facts: Trace, groups: Sequence[Group]) -> None:
    """Add what woke the CPUs to groups, and a note on kicks: who, how often, and the cost.

    Args:
        path: the recording.
        facts: of it.
        groups: of it; nothing is added where it has no interrupts.

    Raises:
        UserError: as read_chunks().
    """
    told = cause_events.facts_of(path)
    if told is None:
        return
    counts = [caused.Counts() for _ in groups]
    kicks = [caused.Kicks(told.tasks) for _ in groups]
    for cpu, events in cause_events.by_cpu(path):
        p, _, _ = causes.of_cpu(cpu, events, told, hrtimers=False)
        for group, count, kick in zip(groups, counts, kicks, strict=True):
            mine = caused.during(p, group.start_ns, group.end_ns)
            caused.count_causes(count, mine, table_of(facts, cpu))
            kick.add(told.kicks.get(cpu), group.start_ns, group.end_ns)
    for group, count, kick in zip(groups, counts, kicks, strict=True):
        count.kickers = kick.most()
        named = sorted(count.causes.items(), key=lambda item: (-item[1], item[0]))
        group.wakers = {name: times for name, times in named if times}
        group.notes += caused.kick_notes(count)
