# SPDX-License-Identifier: GPL-2.0
"""Contents of a report: traces, their groups, and how people tell them apart."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.progress import Meter, unseen
from cpuidle_lab.crossval import trust
from cpuidle_lab.figures.analysis import Analysis
from cpuidle_lab.figures.group import NO_REGRET, Group
from cpuidle_lab.figures.interrupted import add_causes
from cpuidle_lab.figures.summary import Summary, summarise
from cpuidle_lab.host import energy
from cpuidle_lab.recording import reader, trace
from cpuidle_lab.recording.streamed import Streamed
from cpuidle_lab.recording.trace import Trace
from cpuidle_lab.states.table import CpuTable

# Runs that a page and the text show; JSON and CSV have all.
PAGE_RUNS = 100


@dataclass
class Report:
    """Everything that is shown.

    Attributes:
        traces: facts of the recordings; large tables have no rows.
        groups: a governor under a workload each, in the order of recording.
        command: the command line that made the report.
        start: when it began, ISO 8601.
        together: the recordings are parts of one session: a workload has one heading.
    """

    traces: list[Trace]
    groups: list[Group]
    command: str
    start: str
    together: bool = False

    def on_page(self) -> "Report":
        """Return what a page and the text show: the first runs, so that their size is bounded."""
        return replace(self, groups=self.groups[:PAGE_RUNS])

    def section(self, group: Group) -> str:
        """Return under which heading a group is compared: its workload, and its file if several."""
        if self.together or len(self.traces) == 1:
            return group.workload or "recording"
        stems = [item.path.stem for item in self.traces]
        file = group.file.stem if len(set(stems)) == len(stems) else str(group.file)
        return f"{file}: {group.workload}" if group.workload else file

    def sections(self) -> dict[str, list[Group]]:
        """Return the groups by heading, in the order of recording."""
        found: dict[str, list[Group]] = {}
        for group in self.groups:
            found.setdefault(self.section(group), []).append(group)
        return found

    @property
    def governors(self) -> list[str]:
        """Labels of the governors, in the order of recording."""
        return list(dict.fromkeys(group.governor for group in self.groups))

    def states(self) -> list[str]:
        """Names of all idle states, shallowest first."""
        depth: dict[str, int] = {}
        for group in self.groups:
            for index, name in enumerate(group.names):
                depth[name] = max(depth.get(name, 0), index)
        return sorted(depth, key=lambda name: depth[name])

    def polling_states(self) -> set[str]:
        """Names of the states in which the CPU spins."""
        state_tables = [group.table for group in self.groups if group.table]
        return {
            name
            for table in state_tables
            for name, polling in zip(table.names, table.polling, strict=True)
            if polling
        }

    def summaries(self) -> list[Summary]:
        """Return one line for each governor."""
        return summarise(self.groups, self.section)

    def left_out(self) -> list[str]:
        """Return one sentence for each reason that keeps a regret out of the summary."""
        found: dict[str, list[str]] = {}
        for group in self.groups:
            if group.unjudged not in {"", NO_REGRET}:
                found.setdefault(group.unjudged, []).append(self.section(group))
        return [
            f"{', '.join(dict.fromkeys(names))}: {why}, so not in the summary"
            for why, names in found.items()
        ]

    @property
    def broken(self) -> bool:
        """A figure contradicts a rule."""
        return any(group.broken for group in self.groups)

    def energy_sources(self) -> list[str]:
        """Return for each recording which zones its energy was read from."""
        return [
            f"{item.path}: {line}"
            for item in self.traces
            for line in energy.sources(
                zone for group in self.groups if group.file == item.path for zone in group.zones
            )
        ]

    def prediction_errors(self) -> list[str]:
        """Return for each workload how well replay predicts other governors on it, where known."""
        names = dict.fromkeys(group.workload for group in self.groups)
        return [text for name in names if (text := trust.known_error(name))]


def known_columns(keys: Sequence[str], groups: Sequence[Group]) -> list[str]:
    """Return the keys without those of energy counters that no group has."""
    counters = {key for pair in energy.METRICS.values() for key in pair}
    return [
        key
        for key in keys
        if key not in counters or any(group.values[key] is not None for group in groups)
    ]


def _analysis(path: Path, given: Sequence[CpuTable]) -> Analysis:
    context = trace.context_with(path, given) if given else None
    found = Analysis(lambda look: Streamed(path, context, look), drawn=2 * PAGE_RUNS)
    if not (found.source.has_decisions or found.source.causes):
        add_causes(path, found.source.facts, found.groups)
    return found


def _check_together(traces: Sequence[Trace], groups: Sequence[Group]) -> None:
    """Refuse recordings that cannot be parts of one session."""
    first = traces[0]
    for item in traces[1:]:
        shared = first.state_tables.keys() & item.state_tables.keys()
        same = all(first.state_tables[cpu] == item.state_tables[cpu] for cpu in shared)
        if not (shared and same and first.kernel == item.kernel):
            raise UserError(
                f"{first.path} and {item.path} are not of the same machine and kernel: leave out "
                "--together",
                USAGE,
            )
    files: dict[tuple[str, str], Path] = {}
    for group in groups:
        other = files.setdefault((group.governor, group.workload), group.file)
        if other != group.file:
            raise UserError(
                f"{other} and {group.file} both have {group.governor} under "
                f"'{group.workload}': leave out --together",
                USAGE,
            )


def _tell_ways(traces: Sequence[Trace], groups: Sequence[Group]) -> None:
    """Note which groups were recorded in another way than the rest."""
    ways = {item.path: item.way for item in traces}
    if len(set(ways.values())) == 1:
        return
    for group in groups:
        if way := ways[group.file]:
            group.notes.append(
                f"recorded without the module, by {way}: that costs the CPU more than the module's "
                "events, and adds to the energy that was read"
            )


def build(
    paths: list[Path],
    command: str,
    start: str,
    given: Sequence[CpuTable] = (),
    *,
    together: bool = False,
    meter: Meter = unseen,
) -> Report:
    """Read the traces and compute their figures.

    Args:
        paths: the traces; one given twice counts once.
        command: the command line, for the record.
        start: when it began, likewise.
        given: idle states of traces without the module, instead of those that they tell.
        together: they are parts of one session.
        meter: shows progress.

    Raises:
        UserError: a file cannot be read, is no trace, is damaged or contradicts itself; or the
            traces cannot be parts of one session.
    """
    every = list({os.path.realpath(path): path for path in paths}.values())
    # Each is read twice.
    with reader.watched(meter, "Reading the recordings", 2 * len(every)):
        found = [_analysis(path, given) for path in every]
    traces = [one.source.facts for one in found]
    groups = [group for one in found for group in one.judged()]
    if together:
        _check_together(traces, groups)
        _tell_ways(traces, groups)
    return Report(traces, groups, command, start, together)
