# SPDX-License-Identifier: GPL-2.0
"""The parts of `experiment gate` as rows, tables and pictures."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from cpuidle_lab.evidence.plots import Line, Plot
from cpuidle_lab.evidence.tables import ABSENT, HELD, MISSED, Cell, Section, Table
from experiments.experiment import Findings, Row, number
from experiments.gate import guest, judgement
from experiments.gate.guest import MENU, OURS, PERFORMANCE, RFC, TITLES
from experiments.gate.judgement import PUBLISHED

# By so many points may ours differ from a published change and agree with it.
MARGIN = 25.0

PROGRAMS, TARGETS, DECISIONS, SWITCHES = "programs", "targets", "decisions", "switches"
PARTS = {
    PROGRAMS: "Programs under each condition, beside the RFC's figures",
    TARGETS: "Targets of latency and energy: longer runs, on both machines",
    DECISIONS: "What the gate costs",
    SWITCHES: "What hints cost at a switch",
}

Run = Mapping[str, Any]


def _changes(runs: Sequence[Run], work: str, condition: str, what: str) -> list[float]:
    """Return for each seed a condition's change to menu, %."""
    found = []
    for run in runs:
        cells = next(one["cells"] for one in run["works"] if one["name"] == work)
        quantile = "p99" if what == "latency" and work.startswith("wake") else "mean"
        value, base = (_value(cells[name], what, quantile) for name in (condition, MENU))
        found.append(100 * (value / base - 1))
    return found


def _value(cell: Mapping[str, Any], what: str, quantile: str = "mean") -> float:
    if what == "power":
        return float(cell["power_mw"]["1"])
    return float(cell["end_to_end_ns"][quantile])


def _rows(machine: str, runs: Sequence[Run]) -> list[Row]:
    rows = []
    for work in (one["name"] for one in runs[0]["works"]):
        for condition in (PERFORMANCE, RFC):
            published = PUBLISHED.get((work, condition))
            if not published:
                continue
            for what in ("latency", "power"):
                theirs = 100 * getattr(published, what)
                rows.append(
                    Row(
                        f"{machine}, {work}, {TITLES[condition]}: {what}, to menu",
                        f"{theirs:+.0f} %",
                        _changes(runs, work, condition, what),
                        "%",
                        (theirs - MARGIN, theirs + MARGIN) if machine == "power9" else None,
                    )
                )
    return rows


def _row(work: Mapping[str, Any], name: str, cells: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """Return the medians of a condition's cells, one for each seed."""
    published = PUBLISHED.get((work["name"], name))
    latency_ms, watts = (published.latency_ms, published.watts) if published else (None, None)
    latencies = [
        median(cell[kind][quantile] for cell in cells) / 1000
        for kind, quantile in (("exit_ns", "p99"), ("exit_ns", "max"), ("end_to_end_ns", "mean"),
                               ("end_to_end_ns", "p99"))
    ]  # fmt: skip
    return [
        work["title"], TITLES[name], *latencies,
        int(median(cell["transactions"] for cell in cells)),
        median(cell["power_mw"]["1"] for cell in cells) / 1000,
        median(cell["machine_mw"] for cell in cells) / 1000,
        f"{latency_ms:.3f}" if latency_ms else "", f"{watts:.1f}" if watts else "",
    ]  # fmt: skip


def _table(title: str, runs: Sequence[Run]) -> Table:
    rows = [
        _row(work, name, [run["works"][place]["cells"][name] for run in runs])
        for place, work in enumerate(runs[0]["works"])
        for name in work["cells"]
    ]
    heads = ("workload", "condition", "exit latency p99, us", "its maximum, us",
             "mean latency, us", "its p99, us", "transactions", "power, W", "machine, W",
             "RFC's mean, ms", "RFC's power, W")  # fmt: skip
    return Table(title, heads, rows, 2)


def _plot(machine: str, runs: Sequence[Run]) -> Plot:
    lines = []
    for name, title in TITLES.items():
        cells = [work["cells"][name] for run in runs for work in run["works"]]
        points = [
            (_value(cell, "power") / 1000, cell["exit_ns"]["p99"] / 1000 + 0.1) for cell in cells
        ]
        lines.append(Line(title, points, joined=False))
    return Plot(
        machine, f"Idle gating on {machine}", "power, W", "p99 of the exit latency + 0.1, us",
        lines, log_x=True, log_y=True,
    )  # fmt: skip


def _judged(what: str, target: Mapping[str, Any]) -> Row:
    """Return a target as a row, judged by its one figure."""
    value, met = target["value"], target["met"]
    return Row(
        f"{what}: {target['target']}, at most {target['limit']:.3g}",
        ours=[] if value is None else [value],
        note="without idle states no more power is drawn than under menu" if met is None else "",
        judged=ABSENT if met is None else HELD if met else MISSED,
    )


def _of_machine(work: guest.Work, cells: Mapping[str, Run]) -> list[dict[str, Any]]:
    """Judge the energy of CPUs and domains together."""
    if work.energy_share is None:
        return []
    share = judgement.extra_share(*(cells[one]["machine_mw"] for one in (MENU, PERFORMANCE, OURS)))
    name = "part of performance mode's extra energy, CPUs and domains"
    return [judgement.target(name, share, work.energy_share)]


def _explained(run: Run, targets: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Table]:
    """Return the decisions that missed a target: before the slowest wake-ups, or of most time."""
    tables = []
    for work in run["works"]:
        cell, where = work["cells"][OURS], f"{work['title']} on {run['machine']}"
        missed = [each["target"] for each in targets[work["name"]] if each["met"] is False]
        if any("latency" in one for one in missed):
            rows: list[list[Cell]] = [
                [f"{each['time_s']:.6f}", each["cpu"], each["pid"], each["state"],
                 each["exit_ns"] / 1e3, _limit(each), each["reason"]]
                for each in cell["worst"]
            ]  # fmt: skip
            heads: tuple[str, ...] = ("at, s", "CPU", "task", "state", "exit latency, us",
                                      "limit, us", "reason")  # fmt: skip
            tables.append(Table(f"Decisions before the slowest wake-ups, {where}", heads, rows, 0))
        if any("energy" in one for one in missed):
            rows = [
                [each["state"], _limit(each), each["reason"], each["decisions"],
                 each["time_ns"] / 1e9]
                for each in cell["costly"]
            ]  # fmt: skip
            heads = ("state", "limit, us", "reason", "decisions", "time, s")
            tables.append(Table(f"Decisions under a hint, {where}", heads, rows, 2))
    return tables


def _limit(decision: Mapping[str, Any]) -> str:
    return "none" if decision["hint_ns"] < 0 else number(decision["hint_ns"] / 1e3)


def programs(result: Findings, runs: Sequence[Run]) -> None:
    """Add the programs under each condition, beside the RFC's figures.

    Args:
        result: gets rows and a section.
        runs: figures of the boots, as of judgement.machine_figures().
    """
    section = Section(PROGRAMS, PARTS[PROGRAMS], data={"runs": runs})
    for machine in dict.fromkeys(run["machine"] for run in runs):
        mine = [run for run in runs if run["machine"] == machine]
        result.rows += _rows(machine, mine)
        section.tables.append(_table(f"On {machine}, medians of the seeds", mine))
        section.plots.append(_plot(machine, mine))
    result.sections.append(section)


def targets(result: Findings, found: Sequence[Run]) -> None:
    """Add the verdicts on the targets of the programs.

    Args:
        result: gets rows and a section.
        found: of one boot a machine; last, the costs as of decisions.measure().
    """
    *runs, costs = found
    section = Section(TARGETS, PARTS[TARGETS], data={"runs": runs})
    added_ns = max(case["added"] for case in costs["cases"] if case["limits"] == 1)
    works = {work.name: work for work in guest.WORKS}
    for run in runs:
        judged = {
            one["name"]: [
                *judgement.targets(works[one["name"]], one["cells"], added_ns),
                *_of_machine(works[one["name"]], one["cells"]),
            ]
            for one in run["works"]
        }
        result.rows += [
            _judged(f"{run['machine']}, {name}", each) for name in judged for each in judged[name]
        ]
        section.tables.append(_table(f"On {run['machine']}, longer runs", [run]))
        section.tables += _explained(run, judged)
    result.sections.append(section)


def decisions(result: Findings, found: Sequence[Run]) -> None:
    """Add the instructions of a decision; `found` is one, as of decisions.measure()."""
    (costs,) = found
    rows = [
        [case[name] for name in ("case", "mean", "median", "max", "decisions", "added")]
        for case in costs["cases"]
    ]
    heads = ("case", "instructions of a decision", "median", "maximum", "decisions",
             "added by the gate")  # fmt: skip
    judged = judgement.cost_targets(costs["cases"])
    result.rows += [_judged("decision", each) for each in judged]
    table = Table(PARTS[DECISIONS], heads, rows, 0)
    result.sections.append(Section(DECISIONS, PARTS[DECISIONS], tables=[table], data={**costs}))


def switches(result: Findings, found: Sequence[Run]) -> None:
    """Add the instructions of a context switch; `found` is one, as of switches.measure()."""
    (costs,) = found
    rows = [
        [case[name] for name in ("title", "instructions", "added", "most")]
        for case in costs["cases"]
    ]
    heads = ("case", "instructions of a context switch", "added by hints", "at most")
    result.rows += [
        _judged("context switch", judgement.target(case["title"], case["added"], case["most"]))
        for case in costs["cases"]
        if case["most"] is not None
    ]
    table = Table(PARTS[SWITCHES], heads, rows, 1)
    result.sections.append(Section(SWITCHES, PARTS[SWITCHES], tables=[table], data={**costs}))
