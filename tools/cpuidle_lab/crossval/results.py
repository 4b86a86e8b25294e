# SPDX-License-Identifier: GPL-2.0
"""The results as a section of evidence, and as files."""

import json
from collections.abc import Sequence
from pathlib import Path

from cpuidle_lab.crossval import targets
from cpuidle_lab.crossval.pairs import Pair
from cpuidle_lab.evidence.plots import svg
from cpuidle_lab.evidence.tables import Section, Table, Verdict
from cpuidle_lab.files import write_whole


def section(pairs: Sequence[Pair], verdicts: Sequence[Verdict], errors: Table) -> Section:
    """Return the tables, verdicts and the picture; `errors` are misses.intervals()."""
    tables = [targets.by_machine(pairs), targets.by_workload(pairs), targets.beyond(pairs), errors]
    shown = [table for table in tables if table.rows]
    return Section("crossval", "Crossval", list(verdicts), shown, [targets.plot(pairs)])


def write(folder: Path, pairs: Sequence[Pair], verdicts: Sequence[Verdict], errors: Table) -> None:
    """Write crossval.json, .svg and .md, and measured.json, each in full or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    found = section(pairs, verdicts, errors)
    write_whole(folder / "crossval.md", found.markdown(".") + "\n")
    for plot in found.plots:
        write_whole(folder / f"{plot.name}.svg", svg(plot))
    known = json.dumps(targets.measured(pairs), indent=1)
    write_whole(folder / "measured.json", known + "\n")
    text = json.dumps(targets.as_json(pairs, verdicts), indent=2)
    write_whole(folder / "crossval.json", text + "\n")
