# SPDX-License-Identifier: GPL-2.0
"""Regret split into too deep and too shallow, and regret against the time since a change."""

from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from cpuidle_lab.base.cache import digest
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.plots import Line, Plot
from cpuidle_lab.evidence.tables import Cell, Section, Table
from cpuidle_lab.recording import columns, state_tables, synth
from cpuidle_lab.recording.columns import Columns
from cpuidle_lab.recording.laws import MS, STREAMS, US, S
from cpuidle_lab.replay import law
from cpuidle_lab.replay.candidates import candidate
from cpuidle_lab.replay.engine import INTERVAL_TYPES, Run, fitting
from cpuidle_lab.states.table import StateTable
from experiments.experiment import Job, Row, run_jobs
from experiments.memo import Memo, sources

TABLE = "power9"
HZ = 250

MENU, TEO, PATCH, OURS = "menu_ng", "teo_ng", "wteo_rfc", "wteo"
GOVERNORS = (MENU, TEO, PATCH, OURS)

_FORMAT = 1

# ---- Too deep and too shallow. ----


def split(machine: StateTable, part: Columns, governor: str) -> dict[str, float]:
    """Return what a governor loses by states that are too deep, and too shallow.

    Args:
        machine: idle states.
        part: intervals.
        governor: who decides.

    Returns:
        deep, shallow, other (the right state at first, then a loss), oracle: energies in pJ.
    """
    who = candidate(governor)
    with Run(who.governor, machine, dict(who.settings)) as run:
        found = run.play(part, choices=True)
    lost = found["cost_pj"] - found["oracle_pj"]
    first, best = found["index"].astype(int), found["ideal"].astype(int)
    return {
        "deep": float(lost[first > best].sum()),
        "shallow": float(lost[first < best].sum()),
        "other": float(lost[first == best].sum()),
        "oracle": float(found["oracle_pj"].sum()),
    }


def _stream(name: str, machine: StateTable, count: int, seed: int) -> Columns:
    made = synth.made_from(STREAMS[name], count, seed, max(machine.exit_latency_ns))
    return fitting(columns.in_memory(synth.frame(made)), INTERVAL_TYPES)


def _splits(governor: str, seed: int, count: int) -> dict[str, float]:
    """Return the parts of the regret in points, means over all streams of synth."""
    machine = state_tables.find(TABLE, HZ)
    total = dict.fromkeys(("deep", "shallow", "other"), 0.0)
    for name in STREAMS:
        found = split(machine, _stream(name, machine, count, seed), governor)
        for part in total:
            total[part] += 100 * found[part] / found["oracle"] / len(STREAMS)
    return total


def _key(*parts: object) -> str:
    files = (__file__, law.__file__)
    code = [Path(path).read_text(encoding="utf-8") for path in files] + [synth.code().decode()]
    return digest(["weighted", str(_FORMAT), *map(repr, parts), *code])


def too_deep(seeds: int, count: int, memo: Memo, meter: Meter) -> tuple[list[Row], Section]:
    """Answer whether the patch is better only because it is shallower.

    Args:
        seeds: rounds.
        count: intervals of each stream.
        memo: where figures are kept.
        meter: shows progress.
    """
    jobs = [(governor, seed) for governor in GOVERNORS for seed in range(1, seeds + 1)]
    cells = [
        Job(_key("split", *job, count, sources(job[0])), partial(_splits, *job, count))
        for job in jobs
    ]
    found = dict(zip(jobs, run_jobs(cells, memo, meter, "Splitting the regret"), strict=True))
    by = {one: [found[one, seed] for seed in range(1, seeds + 1)] for one in GOVERNORS}
    rows = [
        Row(f"{one}: regret by states that are {what}", ours=[part[key] for part in by[one]],
            unit="points")
        for one in GOVERNORS
        for key, what in (("deep", "too deep"), ("shallow", "too shallow"))
    ]  # fmt: skip
    cells_of: list[list[Cell]] = [
        [one, *(median(part[key] for part in by[one]) for key in ("deep", "shallow", "other"))]
        for one in GOVERNORS
    ]
    heads = ("governor", "too deep", "too shallow", "right at first")
    note = "Points of regret, means over synth's streams. Right at first: lost to a kept tick."
    section = Section("split", "Too deep and too shallow")
    section.tables.append(
        Table("Regret on power9, by the first decision", heads, cells_of, 1, note)
    )
    lines = [
        Line(name, [(float(row[place] or 0), float(n)) for n, row in enumerate(cells_of)],
             joined=False)
        for place, name in ((1, "too deep"), (2, "too shallow"))
    ]  # fmt: skip
    section.plots.append(
        Plot("split", "Regret by the first decision", "points of regret", "", lines,
             categories=GOVERNORS)
    )  # fmt: skip
    return rows, section


# ---- Stale weights. ----

# The pattern that lasts for long, the one that follows, and the other way round.
LONG_US, SHORT_US = 3000, 150
CHANGES = (("3 ms to 150 us", LONG_US, SHORT_US), ("150 us to 3 ms", SHORT_US, LONG_US))
MINUTE_NS = 60 * S
# Since the change, so long.
EDGES_NS = tuple(t * MS for t in (0, 3, 10, 30, 100, 300, 1000, 3000, 10_000))

STALE = (
    TEO,
    PATCH,
    *(f"{OURS}:half_life_ms={ms}" for ms in (0, 100, 1000, 10_000)),
    OURS,
)


def _minute(mean_us: float, seed: int, length_ns: int = MINUTE_NS) -> Columns:
    """Return intervals that fill a time, a minute unless said otherwise."""
    count = int(length_ns / ((mean_us + 25) * US)) + 1
    phases = [law.Stretch(count, {"near": mean_us, "spread": 0.3})]
    return law.intervals(phases, 1, "stale", seed, slack_ns=0)


def _later(part: Columns, by_ns: int) -> Columns:
    return {**part, "start_ns": part["start_ns"] + np.uint64(by_ns)}


def _stale(governor: str, before: float, after: float, minutes: float, seed: int) -> list[float]:
    """Return the regret in each time since the change, %.

    The pattern before it is a minute of draws, again and again, a minute of rest between.
    """
    machine = state_tables.find(TABLE, HZ)
    long = _minute(before, seed)
    later = _later(_minute(after, seed + 1000, EDGES_NS[-1]), round(minutes) * 2 * MINUTE_NS)
    who = candidate(governor)
    with Run(who.governor, machine, dict(who.settings)) as run:
        for number in range(round(minutes)):
            run.play(_later(long, number * 2 * MINUTE_NS), choices=False)
        found = run.play(later, choices=True)
    since = (later["start_ns"] - later["start_ns"][0]).astype(np.int64)
    slot = np.searchsorted(EDGES_NS, since, side="right") - 1
    cost = np.bincount(slot, found["cost_pj"], len(EDGES_NS))[: len(EDGES_NS) - 1]
    least = np.bincount(slot, found["oracle_pj"], len(EDGES_NS))[: len(EDGES_NS) - 1]
    return [float(100 * (c / o - 1)) if o else 0.0 for c, o in zip(cost, least, strict=True)]


def stale(seeds: int, minutes: float, memo: Memo, meter: Meter) -> tuple[list[Row], Section]:
    """Answer how bad stale weights are after minutes of one pattern."""
    jobs: list[tuple[Any, ...]] = [
        (governor, before, after, minutes, seed)
        for governor in STALE
        for _, before, after in CHANGES
        for seed in range(1, seeds + 1)
    ]
    cells = [
        Job(_key("stale", *job, sources(job[0].partition(":")[0])), partial(_stale, *job))
        for job in jobs
    ]
    found = dict(zip(jobs, run_jobs(cells, memo, meter, "Changing patterns"), strict=True))
    section = Section("stale", "Stale weights")
    rows: list[Row] = []
    for title, before, after in CHANGES:
        lines, table = [], []
        for governor in STALE:
            taken = [found[governor, before, after, minutes, n] for n in range(1, seeds + 1)]
            middle = [median(column) for column in zip(*taken, strict=True)]
            table.append([governor, *middle])
            ends = [edge / MS for edge in EDGES_NS[1:]]
            lines.append(Line(governor, list(zip(ends, middle, strict=True))))
            rows.append(
                Row(f"{governor}, {title}: worst regret in the first 100 ms",
                    ours=[max(one[:4]) for one in taken], unit="%")
            )  # fmt: skip
        heads = ("governor", *(f"to {edge / S:g} s" for edge in EDGES_NS[1:]))
        section.tables.append(
            Table(f"Regret, %, after {minutes:g} minutes, {title}", heads, table, 1)
        )
        name = f"stale-{before}"
        section.plots.append(
            Plot(name, f"After {minutes:g} minutes: {title}", "time since the change, ms",
                 "regret, %", lines, log_x=True)
        )  # fmt: skip
    return rows, section
