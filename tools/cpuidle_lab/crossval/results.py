# SPDX-License-Identifier: GPL-2.0
"""The results as files."""

import json
from collections.abc import Sequence
from pathlib import Path

from cpuidle_lab.crossval import targets
from cpuidle_lab.crossval.pairs import Pair
from cpuidle_lab.evidence.plots import svg
from cpuidle_lab.evidence.tables import Verdict
from cpuidle_lab.files import write_whole


def write(folder: Path, pairs: Sequence[Pair], verdicts: Sequence[Verdict]) -> None:
    """Write crossval.json, .svg and .md, and measured.json, each in full or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    missed = targets.beyond(pairs)
    parts = [
        "\n".join(f"- {one}" for one in verdicts),
        targets.by_workload(pairs).markdown(),
        *([missed.markdown()] if missed.rows else []),
    ]
    write_whole(folder / "crossval.md", "\n\n".join(parts) + "\n")
    write_whole(folder / "crossval.svg", svg(targets.plot(pairs)))
    known = json.dumps(targets.measured(pairs), indent=1)
    write_whole(folder / "measured.json", known + "\n")
    text = json.dumps(targets.as_json(pairs, verdicts), indent=2)
    write_whole(folder / "crossval.json", text + "\n")
