# SPDX-License-Identifier: GPL-2.0
"""Answers on a fleet: regrets with their intervals, harm, heavy tails, and a roll-out.

Machines are drawn in the resampling, not intervals or recordings: those of one machine resemble
each other. Each machine counts by its modelled power, and by its weight.
"""

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from cpuidle_lab.base.resampling import FEWEST, LEVEL
from cpuidle_lab.crossval import trust
from cpuidle_lab.fleet.inputs import Item
from cpuidle_lab.fleet.totals import KEYS, Fleet
from cpuidle_lab.replay.library import LIMITS
from cpuidle_lab.replay.recorded import RECORDED

Values = npt.NDArray[np.float64]

SEED = 1
RESAMPLES = 2000
# Machines times resamples that are in memory at once.
_CELLS = 4_000_000
# With fewer machines the top 1 % is less than one.
TAIL_MACHINES = 100
ALL = "all"
_P99 = 0.99
_SAME = 1e-6
# Hours of a year, and mW of a kW.
_HOURS = 8766
_MW = 1e6


@dataclass(frozen=True)
class Range:
    """A figure with its interval over machines.

    Attributes:
        value: None where it is unknown.
        far: the same where unknown sleep lengths are far; equal where all are known.
        low, high: 95 % interval of both; None with fewer than FEWEST machines.
    """

    value: float | None = None
    far: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def decided(self) -> bool:
        """Tell whether the interval leaves out 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


@dataclass(frozen=True)
class Line:
    """One governor on the machines of one kind and service.

    Attributes:
        kind, service: ALL for all of them.
        governor: its label.
        machines: how many.
        regret: idle-energy regret, %.
        power_mw: modelled idle power of a machine, mean.
        change: modelled idle energy against the base governor, %.
        p99_us: wake-up latency, each machine counting by its weight.
        p99_low_us, p99_high_us: its interval.
        above, below: share of idle periods, %.
        deep: share of the time with all CPUs of a package idle in which it is at its deepest
            level, %, over the machines whose domains are given.
    """

    kind: str
    service: str
    governor: str
    machines: int
    regret: Range
    power_mw: float
    change: Range
    p99_us: float | None
    p99_low_us: float | None
    p99_high_us: float | None
    above: float
    below: float
    deep: Range


@dataclass(frozen=True)
class Harm:
    """A machine and service on which a governor takes more energy than the base.

    Attributes:
        machine, kind, service, governor: as of Line.
        change: modelled idle energy against the base, %.
        command: shows the machine's recording that is worst.
    """

    machine: str
    kind: str
    service: str
    governor: str
    change: float
    command: str


@dataclass(frozen=True)
class Rollout:
    """Savings of a governor on all machines in place of the base.

    Attributes:
        governor: its label.
        saved: modelled idle energy, % of the base's.
        kwh: modelled energy in a year; without value where powers are derived.
        error: points of % by which cross-validation found such predictions to err; None: unknown.
        known: services that cross-validation has figures of.
        more: further machines until the interval would leave out 0; None where it cannot be told.
        top: share of all gains that the best 1 % of machines have, %; None with few machines.
    """

    governor: str
    saved: Range
    kwh: Range
    error: float | None
    known: bool
    more: int | None
    top: float | None


@dataclass(frozen=True)
class Answers:
    """All answers.

    Attributes:
        base: governor that the others are compared with.
        limit: harm from which on a machine is listed, %.
        recordings, counted, machines: how many.
        lines, harmed, rollouts: see there; the worst first in `harmed`.
        failed: by name of the recording, why it does not count.
        notes: what a reader must know.
    """

    base: str
    limit: float
    recordings: int
    counted: int
    machines: int
    lines: list[Line]
    harmed: list[Harm]
    rollouts: list[Rollout]
    failed: dict[str, str]
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON can have it."""
        return asdict(self)


def resampled(columns: Values, seed: int, resamples: int = RESAMPLES) -> Values:
    """Return sums of resampled machines, shape (resamples, columns).

    Args:
        columns: a row for each machine.
        seed: of the resampling.
        resamples: how many.
    """
    return np.concatenate([times @ columns for times in _drawn(len(columns), seed, resamples)])


def _draws(count: int, seed: int, resamples: int) -> Iterator[Values]:
    """Yield how often each machine is drawn, a row for each resample."""
    draw = np.random.default_rng(seed)
    at_once = max(1, _CELLS // count)
    for start in range(0, resamples, at_once):
        times = draw.multinomial(count, [1 / count] * count, min(at_once, resamples - start))
        yield times.astype(np.float64)


@lru_cache(maxsize=1)
def _kept(count: int, seed: int, resamples: int) -> list[Values]:
    return list(_draws(count, seed, resamples))


def _drawn(count: int, seed: int, resamples: int) -> Iterable[Values]:
    """Return _draws(); those of few machines are kept, since all figures of a group use them."""
    way = _kept if count * resamples <= _CELLS else _draws
    return way(count, seed, resamples)


def ratio_interval(top: Values, bottom: Values, seed: int = SEED) -> tuple[float, float] | None:
    """Return the 95 % bootstrap-t interval of sum(top) / sum(bottom) over machines.

    As of resampling.interval(), whose means are ratios with a bottom of 1. None where there are
    too few machines, or too many resamples of equal ones.

    Args:
        top: a value of each machine.
        bottom: likewise, positive.
        seed: of the resampling.
    """
    count = len(top)
    if count < FEWEST:
        return None
    ratio = top.sum() / bottom.sum()

    def errors(sums: Values, at: Values) -> Values:
        """Return the standard error of each ratio, linearised."""
        squares = sums[:, 2] - 2 * at * sums[:, 3] + at**2 * sums[:, 4]
        squares[squares < 1e-12 * sums[:, 2]] = 0
        found: Values = np.sqrt(squares * count / (count - 1)) / sums[:, 1]
        return found

    columns = np.column_stack([top, bottom, top * top, top * bottom, bottom * bottom])
    whole = columns.sum(axis=0)[np.newaxis]
    error = float(errors(whole, np.array([ratio]))[0])
    if error == 0:
        return float(ratio), float(ratio)
    sums = resampled(columns, seed)
    drawn = sums[:, 0] / sums[:, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (drawn - ratio) / errors(sums, drawn)
    t[np.isnan(t)] = 0
    tail = (1 - LEVEL) / 2
    lowest, highest = np.quantile(t, (tail, 1 - tail), method="nearest")
    if not (math.isfinite(lowest) and math.isfinite(highest)):
        return None
    return float(ratio - highest * error), float(ratio - lowest * error)


def _range(ratios: Sequence[tuple[Values, Values]], scale: float, minus: float) -> Range:
    """Return scale * (sum / sum - minus), as drawn and with far sleep lengths."""
    values, lows, highs = [], [], []
    for top, bottom in ratios:
        if not bottom.sum() > 0:
            return Range()
        values.append(scale * (float(top.sum() / bottom.sum()) - minus))
        if found := ratio_interval(top, bottom):
            ends = sorted(scale * (end - minus) for end in found)
            lows.append(ends[0])
            highs.append(ends[1])
    known = len(lows) == len(values)
    return Range(values[0], values[1], min(lows) if known else None, max(highs) if known else None)


@dataclass(frozen=True)
class _Columns:
    """Sums of one governor as arrays, a value for each machine of a selection."""

    cost: Values
    oracle: Values
    far_cost: Values
    far_oracle: Values

    @classmethod
    def of(cls, rows: pl.DataFrame) -> "_Columns":
        weight = rows["weight"] / rows["span_ns"]
        names = ("cost_pj", "oracle_pj", "far_cost_pj", "far_oracle_pj")
        return cls(*((rows[name] * weight).to_numpy() for name in names))

    def deep(self, rows: pl.DataFrame) -> Range:
        """Return the share of packages' time that is deep, %."""
        known = rows.filter(pl.col("together_ns") > 0)
        weight = known["weight"] / known["span_ns"]
        pair = [(known[name] * weight).to_numpy() for name in ("deep_ns", "together_ns")]
        return _range([(pair[0], pair[1])] * 2, 100, 0)

    def regret(self) -> Range:
        """Return the regret, %."""
        return _range([(self.cost, self.oracle), (self.far_cost, self.far_oracle)], 100, 1)

    def against(self, base: "_Columns") -> Range:
        """Return the energy against a base, %."""
        return _range([(self.cost, base.cost), (self.far_cost, base.far_cost)], 100, 1)


def _p99(
    mix: pl.DataFrame, weights: dict[str, float]
) -> tuple[float | None, float | None, float | None]:
    """Return p99 over machines, us, and its interval: that of percentiles of resamples."""
    if not mix.height:
        return None, None, None
    wide = mix.pivot("latency_ns", index="machine", values="wakeups", aggregate_function="sum")
    wide = wide.fill_null(0).sort("machine")
    names = sorted((name for name in wide.columns if name != "machine"), key=int)
    counts = wide.select(names).to_numpy().astype(np.float64)
    share = counts / counts.sum(axis=1, keepdims=True)
    share *= np.array([weights[name] for name in wide["machine"]])[:, np.newaxis]
    latency_us = np.array([int(name) / 1000 for name in names])

    def quantile(sums: Values) -> Values:
        done = np.cumsum(sums, axis=1)
        place = (done < (_P99 - _SAME) * done[:, -1:]).sum(axis=1)
        found: Values = latency_us[np.minimum(place, len(latency_us) - 1)]
        return found

    value = float(quantile(share.sum(axis=0)[np.newaxis])[0])
    if len(share) < FEWEST:
        return value, None, None
    tail = (1 - LEVEL) / 2
    drawn = quantile(resampled(share, SEED))
    low, high = np.quantile(drawn, (tail, 1 - tail), method="nearest")
    return value, float(low), float(high)


def _by_machine(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with one of each machine and governor, in the order of the machines."""
    sums = [name for name in rows.columns if name.endswith(("_pj", "_ns")) or name in
            ("intervals", "decisions", "above", "below")]  # fmt: skip
    return (
        rows.group_by("machine", "governor")
        .agg(*(pl.col(name).sum() for name in sums), pl.col("weight").max(),
             pl.col("derived").any())
        .sort("machine", "governor")
    )  # fmt: skip


def _lines(fleet: Fleet, base: str, kind: str, service: str) -> list[Line]:
    chosen = pl.lit(True)
    for name, value in (("kind", kind), ("service", service)):
        chosen &= pl.lit(True) if value == ALL else pl.col(name) == value
    rows = _by_machine(fleet.machines.filter(chosen))
    mixes = fleet.latencies.filter(chosen)
    weights = dict(rows.select("machine", "weight").iter_rows())
    of_base = _Columns.of(rows.filter(pl.col("governor") == base))
    found = []
    for label in fleet.governors:
        mine = rows.filter(pl.col("governor") == label)
        columns = _Columns.of(mine)
        periods = int(mine["decisions"].sum()) or 1
        total = sum(weights.values())
        found.append(
            Line(
                kind, service, label, mine.height, columns.regret(),
                float(columns.cost.sum()) / total,
                Range() if label == base else columns.against(of_base),
                *_p99(mixes.filter(pl.col("governor") == label), weights),
                100 * int(mine["above"].sum()) / periods,
                100 * int(mine["below"].sum()) / periods,
                columns.deep(mine),
            )
        )  # fmt: skip
    return found


def _harmed(fleet: Fleet, base: str, limit: float, items: dict[str, Item]) -> list[Harm]:
    keys = [*KEYS]
    bases = fleet.machines.filter(pl.col("governor") == base).select(*keys, base_pj="cost_pj")
    beyond = (
        fleet.machines.filter(pl.col("governor") != base)
        .join(bases, on=keys)
        .with_columns(change=100 * (pl.col("cost_pj") / pl.col("base_pj") - 1))
        .filter(pl.col("change") > limit)
        .sort("change", "machine", "service", "governor", descending=[True, False, False, False])
    )
    commands = _commands(fleet, base, items) if beyond.height else {}
    return [
        Harm(row["machine"], row["kind"], row["service"], row["governor"], row["change"],
             commands[tuple(row[name] for name in (*KEYS, "governor"))])
        for row in beyond.iter_rows(named=True)
    ]  # fmt: skip


def _commands(fleet: Fleet, base: str, items: dict[str, Item]) -> dict[tuple[str, ...], str]:
    """Return the commands on the recordings of machines on which governors take most."""
    return {
        (*keys, label): _command(items[name], shown, base, label)
        for *keys, label, name, shown in fleet.worst.select(
            *KEYS, "governor", "name", "shown"
        ).iter_rows()
    }


def _command(item: Item, shown: str, base: str, label: str) -> str:
    """Return the command that compares two governors on a recording."""
    wanted = ",".join(one for one in (base, label) if one != RECORDED)
    words = ["cpuidle-lab", "compare", shown, "--governors", wanted]
    read_with = item.scrubbed or (item.table and shown != item.url and item.url.endswith(".dat"))
    return shlex.join(
        [*words, *(("--machine", item.table) if item.table and not read_with else ())]
    )


def _error(fleet: Fleet, base: str) -> tuple[float | None, bool]:
    """Return by how many points of regret cross-validation errs, and whether on such services."""
    measured = trust.measured()
    services = set(fleet.machines["service"])
    known = bool(services) and services <= set(measured)
    means = [float(one["mean"]) for name, one in measured.items() if name in services or not known]
    if not means:
        return None, False
    return sum(means) / len(means) * (1 if base == RECORDED else 2), known


def _more(saved: Range, machines: int) -> int | None:
    """Return how many machines more would leave 0 out of the interval, if the mean stays."""
    if saved.decided:
        return 0
    if saved.value is None or saved.low is None or saved.high is None or abs(saved.value) < _SAME:
        return None
    half = max(saved.value - saved.low, saved.high - saved.value)
    return max(1, math.ceil(machines * (half / saved.value) ** 2) - machines)


def _rollouts(fleet: Fleet, base: str) -> list[Rollout]:
    rows = _by_machine(fleet.machines)
    of_base = _Columns.of(rows.filter(pl.col("governor") == base))
    error, known = _error(fleet, base)
    ones = np.ones_like(of_base.cost)
    derived = bool(rows["derived"].any())
    found = []
    for label in fleet.governors:
        if label in (base, RECORDED, *LIMITS):
            continue
        mine = _Columns.of(rows.filter(pl.col("governor") == label))
        gains = of_base.cost - mine.cost, of_base.far_cost - mine.far_cost
        saved = _range([(gains[0], of_base.cost), (gains[1], of_base.far_cost)], 100, 0)
        year = len(ones) * _HOURS / _MW
        share = float(of_base.oracle.sum() / of_base.cost.sum())
        found.append(
            Rollout(
                label, saved,
                Range() if derived else _range([(gain, ones) for gain in gains], year, 0),
                None if error is None else error * share,
                known, _more(saved, len(ones)), _top(gains[0]),
            )
        )  # fmt: skip
    return found


def _top(gain: Values) -> float | None:
    """Return the share of all gains that the best 1 % of the machines have, %."""
    gains = np.sort(gain[gain > 0])[::-1]
    if len(gain) < TAIL_MACHINES or not len(gains):
        return None
    return 100 * float(gains[: math.ceil(len(gain) / 100)].sum() / gains.sum())


def answer(
    fleet: Fleet, items: Sequence[Item], base: str, limit: float, notes: Sequence[str]
) -> Answers:
    """Return all answers.

    Args:
        fleet: the sums.
        items: all recordings that were given.
        base: label of the governor to compare with.
        limit: harm from which on a machine is listed, %.
        notes: what a reader must know of the inputs.
    """
    machines = fleet.machines
    kinds = sorted(set(machines["kind"]))
    services = machines.select("kind", "service").unique().sort("kind", "service").rows()
    groups = [(ALL, ALL)]
    groups += [(kind, ALL) for kind in kinds] if len(kinds) > 1 else []
    groups += services if len(services) > len(kinds) else []
    said = [*notes, *fleet.notes]
    if machines["derived"].any():
        said.append("powers of idle states are derived from target residencies on some machines, "
                    "so kWh are withheld; give tables with powers (column table)")  # fmt: skip
    if not all(item.machine for item in items):
        said.append("recordings without a machine in --metadata count as a machine each")
    return Answers(
        base, limit, len(items), fleet.counted, machines["machine"].n_unique(),
        [line for kind, service in groups for line in _lines(fleet, base, kind, service)],
        _harmed(fleet, base, limit, {item.name: item for item in items}),
        _rollouts(fleet, base),
        fleet.failed, said,
    )  # fmt: skip
