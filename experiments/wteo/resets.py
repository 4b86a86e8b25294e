# SPDX-License-Identifier: GPL-2.0
"""Target 3: what learning costs after a reset, at many places of many streams."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cpuidle_lab.base import resampling
from cpuidle_lab.base.cache import digest
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.plots import Line, Plot
from cpuidle_lab.evidence.tables import Cell, Section, Table, verdict
from cpuidle_lab.recording.columns import Columns, sliced
from cpuidle_lab.recording.draw import Draw
from cpuidle_lab.replay.candidates import Candidate, parse
from cpuidle_lab.replay.engine import Run
from cpuidle_lab.states.linux_source import NEWEST
from experiments.memo import Memo, sources
from experiments.wteo.streams import SEED, StudyIntervals

REFERENCE = f"teo@{NEWEST}"

# The promises.
RESET_POINTS = 5.0

WINDOW = 100
WINDOWS = 10

_RESAMPLES = 2000

Floats = npt.NDArray[np.float64]


def regrets(cost: Floats, oracle: Floats) -> Floats:
    """Return the regret in percent of each window of WINDOW intervals, shape (windows,)."""
    count = len(cost) // WINDOW
    spent = cost[: count * WINDOW].reshape(count, WINDOW).sum(axis=1)
    least = oracle[: count * WINDOW].reshape(count, WINDOW).sum(axis=1)
    return np.asarray(100 * (spent / least - 1))


def _cut(part: Columns, first: int, count: int) -> dict[str, Any]:
    return sliced(part, first, first + count)


def _fresh(stream: StudyIntervals, who: Candidate, starts: Sequence[int], length: int) -> Floats:
    """Return regrets after a reset at each start, shape (starts, windows)."""
    found = []
    for start in starts:
        with Run(who.governor, stream.machines[0], dict(who.settings)) as run:
            choices = run.play(_cut(stream.intervals[0], start, length), choices=True)
        found.append(regrets(choices["cost_pj"], choices["oracle_pj"]))
    return np.array(found)


def _warm(stream: StudyIntervals, who: Candidate, starts: Sequence[int], length: int) -> Floats:
    """Return the same for one that has seen the stream from its beginning."""
    with Run(who.governor, stream.machines[0], dict(who.settings)) as run:
        choices = run.play(stream.intervals[0], choices=True)
    cost, oracle = choices["cost_pj"], choices["oracle_pj"]
    cuts = [slice(start, start + length) for start in starts]
    return np.array([regrets(cost[cut], oracle[cut]) for cut in cuts])


def _starts(stream: StudyIntervals, resets: int, length: int) -> list[int]:
    """Return random places of a stream, always the same."""
    places = Draw(SEED, f"resets of {stream.name}").unit(resets)
    return [int(start) for start in places * (stream.count - length)]


def _key(
    way: Callable[..., Floats],
    stream: StudyIntervals,
    who: Candidate,
    starts: Sequence[int],
    length: int,
) -> str:
    values = who.governor.values(dict(who.settings))
    code = Path(__file__).read_bytes()
    spec = who.governor.spec
    parts = [way.__name__, stream.key, spec, sources(spec), repr(values), repr(starts)]
    return digest(["reset", code, *parts, str(length)])


def _listed(way: Callable[..., Floats], *arguments: Any) -> list[list[float]]:
    found: list[list[float]] = way(*arguments).tolist()
    return found


def measure(
    section: Section,
    mine: Candidate,
    streams: Sequence[StudyIntervals],
    count: int,
    memo: Memo,
    meter: Meter,
) -> None:
    """Measure resets into a section.

    Args:
        section: gets verdicts, tables, a plot and data.
        mine: the governor that is judged.
        streams: the suite.
        count: resets in all, at least, each stream having as many.
        memo: where figures are kept.
        meter: shows progress.
    """
    reference = parse(REFERENCE, False)[0]
    each = -(-count // len(streams))
    ways: dict[str, tuple[Callable[..., Floats], Candidate]] = {
        "mine": (_fresh, mine),
        "reset": (_fresh, reference),
        "warm": (_warm, reference),
    }
    jobs = []
    for stream in streams:
        length = min(WINDOW * WINDOWS, stream.count // 2)
        starts = _starts(stream, each, length)
        jobs += [(way, stream, who, starts, length) for way, who in ways.values()]
    keys = [_key(*job) for job in jobs]
    work = {key: partial(_listed, *job) for key, job in zip(keys, jobs, strict=True)}
    values = memo.fill(work, meter, "Resets")
    arrays = iter(np.array(values[key]) for key in keys)
    _tables(section, streams, [{name: next(arrays) for name in ways} for _ in streams])


def _tables(
    section: Section, streams: Sequence[StudyIntervals], found: Sequence[Mapping[str, Floats]]
) -> None:
    rows: list[list[Cell]] = []
    lines = []
    worst: list[tuple[float, list[Cell]]] = []
    for table in dict.fromkeys(stream.table for stream in streams):
        of = [(s, f) for s, f in zip(streams, found, strict=True) if s.table == table]
        excess = np.concatenate([f["mine"] - f["reset"] for _, f in of])
        warm = np.concatenate([f["mine"] - f["warm"] for _, f in of])
        first = resampling.estimate(excess[:, 0].tolist(), SEED, _RESAMPLES)
        by_warm = resampling.estimate(warm[:, 0].tolist(), SEED, _RESAMPLES)
        means = excess.mean(axis=0)
        late = int(means.argmax())
        rows.append([
            table, first.count, first.mean, _range(first), float(means[late]),
            f"{late * WINDOW + 1} to {(late + 1) * WINDOW}", by_warm.mean, _range(by_warm),
        ])  # fmt: skip
        high = first.mean if first.high is None else first.high
        promise = (
            f"{table}: at most {RESET_POINTS:.0f} points above {REFERENCE} in the first {WINDOW} "
            "periods after a reset"
        )
        figures = f"mean {first.mean:+.1f}, 95 % interval {_range(first)}, {first.count} resets"
        section.verdicts.append(verdict(high <= RESET_POINTS, promise, figures))
        promise = f"{table}: the same in any {WINDOW} of the first {WINDOW * len(means)} periods"
        figures = f"mean {means[late]:+.1f} at worst"
        section.verdicts.append(verdict(means[late] <= RESET_POINTS, promise, figures))
        lines.append(
            Line(table, [((n + 0.5) * WINDOW, float(value)) for n, value in enumerate(means)])
        )
        for stream, one in of:
            mean = float((one["mine"] - one["reset"])[:, 0].mean())
            if mean > RESET_POINTS:
                cells: list[Cell] = [table, stream.name, mean, float(one["mine"][:, 0].mean()),
                                     float(one["reset"][:, 0].mean())]  # fmt: skip
                worst.append((-mean, cells))
    heads = ("states", "resets", f"above {REFERENCE}", "95 % interval", "worst window", "periods",
             f"above warm {REFERENCE}", "95 % interval of that")  # fmt: skip
    note = (
        f"Percentage points of regret over {WINDOW} idle periods (exogenous intervals) after a "
        f"reset at a random place of a stream, less that of {REFERENCE} over the same periods: "
        "reset at the same place, or warm, that is running since the stream began. Mean over all "
        "resets, each stream counting the same, with its bootstrap-t interval; worst window: the "
        f"mean of that of the first {WINDOWS} windows which is worst."
    )
    section.tables.append(Table("After a reset", heads, rows, 1, note))
    columns = ("states", "stream", "above", "mine %", f"{REFERENCE} %")
    section.tables.append(
        Table(
            f"Streams whose mean over resets is more than {RESET_POINTS:.0f} points above",
            columns,
            [cells for _, cells in sorted(worst, key=lambda pair: pair[0])],
        )
    )
    section.plots.append(
        Plot(
            "learning-reset",
            f"Regret above {REFERENCE} after a reset",
            "idle periods",
            "points",
            lines,
        )
    )
    section.data["resets"] = [
        {
            "table": stream.table,
            "stream": stream.name,
            **{name: values.mean(axis=0).tolist() for name, values in one.items()},
        }
        for stream, one in zip(streams, found, strict=True)
    ]


def _range(estimate: resampling.Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "?"
    return f"{estimate.low:+.1f} to {estimate.high:+.1f}"
