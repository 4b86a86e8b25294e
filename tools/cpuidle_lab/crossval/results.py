# SPDX-License-Identifier: GPL-2.0
"""The results as a section of evidence, and as files."""

import json
from collections.abc import Sequence
from pathlib import Path

from cpuidle_lab.base.files import DOCUMENT, marked, write_all
from cpuidle_lab.crossval import targets
from cpuidle_lab.crossval.pairs import Pair
from cpuidle_lab.evidence.plots import MARK, svg
from cpuidle_lab.evidence.tables import Section, Table, Verdict


def section(pairs: Sequence[Pair], verdicts: Sequence[Verdict], errors: Table) -> Section:
    """Return the tables, verdicts and the picture; `errors` are misses.intervals()."""
    tables = [targets.by_machine(pairs), targets.by_workload(pairs), targets.beyond(pairs), errors]
    shown = [table for table in tables if table.rows]
    return Section("crossval", "Crossval", list(verdicts), shown, [targets.plot(pairs)])


def write(folder: Path, pairs: Sequence[Pair], verdicts: Sequence[Verdict], errors: Table) -> None:
    """Write crossval.json, .svg and .md, and measured.json, each in full or not at all."""
    found = section(pairs, verdicts, errors)
    page = f"{DOCUMENT}cpuidle-lab crossval. -->\n\n{found.markdown('.')}\n"
    known = json.dumps(targets.measured(pairs), indent=1) + "\n"
    text = json.dumps(targets.as_json(pairs, verdicts), indent=2) + "\n"
    pictures = {f"{plot.name}.svg": (svg(plot), marked(MARK)) for plot in found.plots}
    write_all(
        folder,
        {
            "crossval.md": (page, marked(DOCUMENT)),
            "measured.json": (known, marked('  "mean": ')),
            "crossval.json": (text, marked('{\n  "summary": [')),
            **pictures,
        },
    )
