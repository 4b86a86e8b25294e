# SPDX-License-Identifier: GPL-2.0
"""Regret over the corpus, by the same replays as `cpuidle-lab compare`."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from cpuidle_lab.compare import spec
from cpuidle_lab.compare.figures import is_judged, is_worse, lines, notes, regret
from cpuidle_lab.compare.model import Comparison, Phase, build
from experiments.bench.streams import corpus_files

HOW = "cpuidle-lab corpus"


def measure(folder: Path, phase: Phase, command: str, start: str) -> Comparison | None:
    """Replay every governor, mainline's and the limits on every trace.

    Returns:
        None if there is no trace.

    Raises:
        UserError: a trace cannot be read or replayed.
    """
    traces = corpus_files(folder)
    if not traces:
        return None
    found = spec.parse(None, True)
    return build(traces, found, phase, bad=0, count=True, command=command, start=start)


def as_json(comparison: Comparison | None, folder: Path) -> dict[str, Any]:
    """Return the summary, and the regret (%) of each governor on each trace.

    Args:
        comparison: as of measure().
        folder: where the corpus is looked for.
    """
    if comparison is None:
        return {"missing": f"{folder} holds no trace; build them with: {HOW}"}
    results = comparison.results.values()
    return {
        "summary": [asdict(line) for line in lines(comparison)],
        "regrets": [
            {
                "trace": one.trace,
                "governor": one.label,
                "kind": one.kind,
                "played_by": one.governor,
                "regret": regret(one),
                "judged": is_judged(one),
                "worse_than_best_mainline": is_worse(comparison, one),
            }
            for one in results
        ],
        "notes": notes(comparison),
    }
