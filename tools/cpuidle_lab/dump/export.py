# SPDX-License-Identifier: GPL-2.0
"""A comparison as JSON and as tables of CSV; withheld figures are null, or empty, with a reason."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from cpuidle_lab.base.files import Foreign, headed
from cpuidle_lab.base.version import __version__
from cpuidle_lab.dump.figures import METRICS, Row, Value, difference
from cpuidle_lab.dump.report import Report

_FIGURES = (
    "side",
    "kind",
    "group",
    "state",
    "figure",
    "unit",
    "runs",
    "mean",
    "spread",
    "withheld",
)
_CHANGES = ("side", "less", "kind", "group", "state", "figure", "unit", "change", "percent",
            "meaning", "verdict")  # fmt: skip
_WARNINGS = ("side", "kind", "text")
_EXTRAS = ("side", "counter", "unit", "runs", "mean", "spread", "withheld")


def _value(value: Value) -> dict[str, Any]:
    return {
        "runs": list(value.runs),
        "mean": value.mean,
        "spread": value.spread,
        "withheld": value.why or None,
    }


def _changes(report: Report, row: Row) -> dict[str, Any]:
    """Return the differences of a row by side and figure."""
    if not report.comparable:
        return {}
    found = {}
    for at, side in enumerate(report.sides[1:], start=1):
        told = {
            key: difference(METRICS[key], values[0], values[at])
            for key, values in row.values.items()
        }
        found[side.name] = {
            key: {
                "change": each.change,
                "percent": each.percent,
                "meaning": each.word,
                "verdict": each.verdict,
            }
            for key, each in told.items()
            if each
        }
    return found


def as_json(report: Report) -> dict[str, Any]:
    """Return everything as one document."""
    names = [side.name for side in report.sides]
    return {
        "command": "diff",
        "version": __version__,
        "sides": [
            {
                "name": side.name,
                "kernel": next((p.end.kernel for p in side.periods if p.end), "") or None,
                "governor": next((p.end.governor for p in side.periods if p.end), "") or None,
                "driver": next((p.end.driver for p in side.periods if p.end), "") or None,
                "runs": [
                    {"files": p.name, "cpus": [cpu.number for cpu in p.cpus],
                     "numbered": p.numbered, "seconds": p.seconds}
                    for p in side.periods
                ],
                "warnings": [{"kind": warn.kind, "text": warn.text} for warn in warned],
            }
            for side, warned in zip(report.sides, report.warnings, strict=True)
        ],
        "figures": {
            key: {"unit": metric.unit, "about": metric.about} for key, metric in METRICS.items()
        },
        "comparable": report.comparable,
        "rows": [
            {
                "kind": row.kind,
                "group": row.group,
                "state": row.state,
                "sides": {
                    name: {key: _value(values[at]) for key, values in row.values.items()}
                    for at, name in enumerate(names)
                },
                "differences": _changes(report, row),
            }
            for row in report.rows
        ],
        "counters": [
            {"counter": name, "unit": unit,
             "sides": {side: _value(value) for side, value in zip(names, values, strict=True)}}
            for (name, unit), values in report.extras.items()
        ],
        "not_said": list(report.limits),
    }  # fmt: skip


def _text(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> tuple[str, Foreign]:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    text = out.getvalue()
    return text, headed(text)


def _cells(value: Value) -> tuple[Any, ...]:
    return len(value.runs), value.mean, value.spread, value.why


def as_csv(report: Report) -> dict[str, tuple[str, Foreign]]:
    """Return the tables by the name of their file, each with its mark."""
    names = [side.name for side in report.sides]
    return {
        "figures.csv": _text(_FIGURES, (
            (name, row.kind, row.group, row.state, key, METRICS[key].unit, *_cells(values[at]))
            for row in report.rows for key, values in row.values.items()
            for at, name in enumerate(names)
        )),
        "differences.csv": _text(_CHANGES, (
            (name, names[0], row.kind, row.group, row.state, key, METRICS[key].unit,
             *each.values())
            for row in report.rows for name, told in _changes(report, row).items()
            for key, each in told.items()
        )),
        "warnings.csv": _text(_WARNINGS, (
            (name, warn.kind, warn.text)
            for name, warned in zip(names, report.warnings, strict=True) for warn in warned
        )),
        "counters.csv": _text(_EXTRAS, (
            (side, name, unit, *_cells(value))
            for (name, unit), values in report.extras.items()
            for side, value in zip(names, values, strict=True)
        )),
    }  # fmt: skip
