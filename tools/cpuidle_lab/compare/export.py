# SPDX-License-Identifier: GPL-2.0
"""A comparison for other programs: JSON and CSV."""

import csv
import io
from dataclasses import asdict
from typing import Any

from cpuidle_lab.base.files import Foreign, headed
from cpuidle_lab.base.version import __version__
from cpuidle_lab.compare import reasons
from cpuidle_lab.compare.charts import lost_by_length
from cpuidle_lab.compare.figures import KEYS, definitions, headline, lines, notes, untold, values
from cpuidle_lab.compare.model import Comparison, Result
from cpuidle_lab.compare.sources import Source
from cpuidle_lab.figures import withheld
from cpuidle_lab.recording.columns import describe


def _source(comparison: Comparison, source: Source) -> dict[str, Any]:
    return {
        "trace": source.label,
        "file": str(source.path),
        "kind": source.kind,
        "kernel": source.kernel,
        "intervals": source.intervals,
        "recorders": source.recorders,
        "untold": [list(pair) for pair in untold(comparison, source)],
        "shares": source.shares,
        "withheld": withheld.above(source.shares),
        "integrity": asdict(source.integrity),
        "machines": {str(cpu): describe(table) for cpu, table in source.state_tables.items()},
    }


def _result(result: Result) -> dict[str, Any]:
    outcome = result.outcome
    count = outcome.table.count
    lengths, lost = lost_by_length([result])
    return {
        "trace": result.trace,
        "governor": result.label,
        "kind": result.kind,
        "played_by": result.governor,
        "metrics": values(result),
        "broken": result.broken,
        "needs_timers": result.untimed,
        "states": list(outcome.table.names),
        "entries": outcome.entries[:count].tolist(),
        "chosen_ideal": outcome.heat[:count, :count].tolist(),
        "reasons": {
            reasons.name(number): int(times)
            for number, times in enumerate(outcome.reasons)
            if times
        },
        "lost_by_length": [
            {"from_us": from_us, "percent": percent}
            for from_us, percent in zip(lengths, lost, strict=True)
            if percent
        ],
        "worst": [asdict(bad) for bad in result.worst],
    }


def as_json(comparison: Comparison, end: str) -> dict[str, Any]:
    """Return everything as one object; `end` is the time at which it was complete."""
    kernels = [source.kernel for source in comparison.sources if source.kernel]
    return {
        "command": comparison.command,
        "version": __version__,
        "kernel": list(dict.fromkeys(kernels)),
        "start": comparison.start,
        "end": end,
        "headline": headline(comparison),
        "traces": [_source(comparison, source) for source in comparison.sources],
        "summary": [asdict(line) for line in lines(comparison)],
        "results": [_result(result) for result in comparison.results.values()],
        "notes": notes(comparison),
        "definitions": {key: asdict(metric) for key, metric in definitions().items()},
    }


def as_csv(comparison: Comparison) -> dict[str, tuple[str, Foreign]]:
    """Return the table by its name, and what takes an older one.

    It has a row for each governor on each recording.

    Unknown values are empty.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trace", "governor", "kind", "played_by", *KEYS])
    for result in comparison.results.values():
        found = values(result)
        head = [result.trace, result.label, result.kind, result.governor]
        writer.writerow([*head, *(found[key] for key in KEYS)])
    return {"governors.csv": (text.getvalue(), headed(text.getvalue()))}
