# SPDX-License-Identifier: GPL-2.0
"""The report for machines: JSON and CSV."""

import csv
import io
from dataclasses import asdict, fields
from typing import Any

from cpuidle_lab.base.files import Foreign, headed
from cpuidle_lab.base.version import __version__
from cpuidle_lab.figures import withheld
from cpuidle_lab.figures.group import Group
from cpuidle_lab.figures.metrics import definitions, scalars
from cpuidle_lab.host.energy import ZoneEnergy
from cpuidle_lab.recording.columns import describe
from cpuidle_lab.report.charts import latency_points
from cpuidle_lab.report.model import Report


def _states(group: Group) -> list[dict[str, Any]]:
    powers: list[float | None] = [*group.state_pj] or [None] * len(group.entries)
    return [
        {
            "name": name,
            "residency_ns": round(group.residency_ns[k]),
            "entries": group.entries[k],
            "energy_mj": None if (pj := powers[k]) is None else pj / 1e9,
        }
        for k, name in enumerate(group.names)
    ]


def _group(report: Report, group: Group) -> dict[str, Any]:
    known = bool(group.state_pj) and group.table is not None
    return {
        "file": str(group.file),
        "governor": group.governor,
        "workload": group.workload,
        "source": group.source,
        "seconds": (group.end_ns - group.start_ns) / 1e9,
        "metrics": group.values,
        "states": _states(group),
        "reasons": group.reasons,
        "wakers": group.wakers,
        "chosen_ideal": group.chosen_ideal,
        "zones": [asdict(zone) for zone in group.zones],
        "latency_us_percent": latency_points(group) if known else [],
        "notes": group.notes,
        "withheld": withheld.above(group.shares),
        "broken": group.broken,
    }


def as_json(report: Report, end: str) -> dict[str, Any]:
    """Return everything as one object; `end` is the time at which it was complete."""
    return {
        "command": report.command,
        "version": __version__,
        "kernel": list(dict.fromkeys(item.kernel for item in report.traces if item.kernel)),
        "start": report.start,
        "end": end,
        "traces": [
            {
                "file": str(item.path),
                "cpus": item.cpus,
                "integrity": asdict(item.integrity) | {"complete": item.integrity.complete},
                "machines": {str(cpu): describe(table) for cpu, table in item.state_tables.items()},
                "omissions": item.omissions,
            }
            for item in report.traces
        ],
        "summary": [asdict(line) for line in report.summaries()],
        "runs": [_group(report, group) for group in report.groups],
        "notes": report.left_out(),
        "definitions": {key: asdict(metric) for key, metric in definitions().items()},
    }


_KEYS = ("file", "workload", "governor")


def _keys(group: Group) -> list[object]:
    return [str(group.file), group.workload, group.governor]


def _csv(header: list[str], rows: list[list[object]]) -> tuple[str, Foreign]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue(), headed(text.getvalue())


def as_csv(report: Report) -> dict[str, tuple[str, Foreign]]:
    """Return tables by their names, and what takes older ones.

    They are metrics, states, reasons, wakers, and energy by zone.
    """
    keys = scalars()
    states = [
        [*_keys(group), *state.values()] for group in report.groups for state in _states(group)
    ]
    reasons: list[list[object]] = [
        [*_keys(group), reason, count]
        for group in report.groups
        for reason, count in group.reasons.items()
    ]
    wakers: list[list[object]] = [
        [*_keys(group), waker, count]
        for group in report.groups
        for waker, count in group.wakers.items()
    ]
    zones = [
        [*_keys(group), *asdict(zone).values()] for group in report.groups for zone in group.zones
    ]
    values = [[*_keys(g), *(g.values[key] for key in keys)] for g in report.groups]
    return {
        "metrics.csv": _csv([*_KEYS, *keys], values),
        "states.csv": _csv([*_KEYS, "state", "residency_ns", "entries", "energy_mj"], states),
        "reasons.csv": _csv([*_KEYS, "reason", "decisions"], reasons),
        "wakers.csv": _csv([*_KEYS, "waker", "idle_periods"], wakers),
        "zones.csv": _csv([*_KEYS, *(item.name for item in fields(ZoneEnergy))], zones),
    }
