# SPDX-License-Identifier: GPL-2.0
"""Target 3: what learning costs after a change of regime, and by rows that are stale.

A run can be copied (engine.Run.copy), so what an hour of one regime has taught is learned once and
then meets the next regime many times. Each time it first lives through some more of the old one,
for what the last few intervals have taught is chance. Energies of two runs are compared on the
same intervals, at the same phase of the tick.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from cpuidle_lab.base.cache import digest
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.plots import Line, Plot
from cpuidle_lab.evidence.tables import Cell, Section, Table, verdict
from cpuidle_lab.recording import synth
from cpuidle_lab.recording.columns import in_memory, sliced
from cpuidle_lab.replay.candidates import Candidate, parse
from cpuidle_lab.replay.engine import INTERVAL_TYPES, Run, fitting
from cpuidle_lab.states.table import StateTable
from experiments.memo import Memo, sources
from experiments.wteo.streams import SEED

# Decides as mainline's teo, and can be copied.
COPYABLE = "teo_ng"

# The promises.
SWITCH_PERCENT = 10.0
SETTLED = 64
STALE_PERCENT = 2.0

# Streams of synth's whose intervals do not depend on each other, so that they can be cut.
REGIMES = ("poisson-100us", "poisson-5ms", "periodic-3ms", "timer-1ms", "bimodal-even")

# Intervals played just before a change and after it, and before the new regime counts as known.
_AFTER = 256
_TURNS = 8
_KNOWN = 20_000
_BLOCK = 1 << 16
_BIN = 16
_LISTED = 8

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Size:
    """Numbers of measurements.

    Attributes:
        switches: for each pair of regimes.
        before_s: how long the old regime lasts, in seconds of virtual time.
        away_s: how long rows have become stale.
        regimes: streams of synth's, each of which changes to each other one.
    """

    switches: int
    before_s: int
    away_s: int
    regimes: tuple[str, ...] = REGIMES


def _span_ns(part: Mapping[str, Any], machine: StateTable) -> int:
    """Return how long intervals from 0 on take with the last way out, in whole ticks."""
    span = int(part["start_ns"][-1]) + int(part["length_ns"][-1]) + max(machine.exit_latency_ns)
    return -(-span // machine.tick_ns) * machine.tick_ns


@dataclass(frozen=True)
class _Regime:
    """Intervals of one law on one machine, to be played at any time."""

    part: dict[str, Any]
    span_ns: int

    @classmethod
    def of(cls, name: str, machine: StateTable, count: int, seed: int) -> "_Regime":
        frame = synth.frame(synth.make(name, count, seed, max(machine.exit_latency_ns)))
        part = fitting(in_memory(frame), INTERVAL_TYPES)
        begin = int(part["start_ns"][0])
        part["start_ns"] = part["start_ns"] - np.uint64(begin)
        return cls(part, _span_ns(part, machine))

    def piece(self, number: int, count: int) -> dict[str, Any]:
        """Return so many intervals, the first of which begins at 0."""
        first = number * count
        part = sliced(self.part, first, first + count)
        return {**part, "start_ns": part["start_ns"] - part["start_ns"][0]}


class _Clock:
    """A run, and how late it is."""

    def __init__(self, run: Run, now_ns: int) -> None:
        self.run = run
        self.now_ns = now_ns

    def play(self, part: Mapping[str, Any], span_ns: int, choices: bool = False) -> dict[str, Any]:
        """Play intervals from now on; span_ns: how long they take, in whole ticks."""
        begin = np.uint64(self.now_ns)
        self.now_ns += span_ns
        return self.run.play({**part, "start_ns": part["start_ns"] + begin}, choices)

    def last(self, regime: _Regime, seconds: float) -> None:
        """Let a regime last so long."""
        end = self.now_ns + round(seconds * 1e9)
        while self.now_ns < end:
            self.play(regime.part, regime.span_ns)


@dataclass(frozen=True)
class Met:
    """Energies in pJ, each of shape (switches, _AFTER)."""

    cost: Floats
    oracle: Floats

    def regret(self, first: int) -> float:
        """Return the regret from a period on, %."""
        return float(100 * (self.cost[:, first:].sum() / self.oracle[:, first:].sum() - 1))

    def above(self, base: "Met", first: int) -> float:
        """Return the energy from a period on above another's, %."""
        return float(100 * (self.cost[:, first:].sum() / base.cost[:, first:].sum() - 1))

    def curve(self, base: "Met") -> tuple[float, ...]:
        """Return the energy above another's by bins of _BIN periods, %."""
        mine, least = (
            cost.reshape(len(cost), -1, _BIN).sum(axis=(0, 2)) for cost in (self.cost, base.cost)
        )
        return tuple((100 * (mine / least - 1)).tolist())


class _World:
    """All regimes on one machine."""

    def __init__(self, machine: StateTable, regimes: Sequence[str], switches: int) -> None:
        self.machine = machine
        self.regimes = regimes
        self.switches = switches
        self._old = {name: _Regime.of(name, machine, _BLOCK, SEED) for name in regimes}
        self._new = {
            name: _Regime.of(name, machine, switches * _AFTER, SEED + 1) for name in regimes
        }

    @contextmanager
    def taught(self, who: Candidate, past: Sequence[tuple[str, float]]) -> Iterator[_Clock]:
        """Yield a run that has lived through regimes, each for so many seconds."""
        with Run(who.governor, self.machine, dict(who.settings)) as run:
            clock = _Clock(run, 1000 * self.machine.tick_ns)
            for name, seconds in past:
                clock.last(self._old[name], seconds)
            yield clock

    def meets(self, clock: _Clock, old: str, name: str) -> Met:
        """Return what the first intervals of a new regime cost, after some more of the old one."""
        cost, oracle = [], []
        for number in range(self.switches):
            # Not always as many, for some learning takes turns.
            more = self._old[old].piece(number, _AFTER - number % _TURNS)
            piece = self._new[name].piece(number, _AFTER)
            with clock.run.copy() as run:
                later = _Clock(run, clock.now_ns)
                later.play(more, _span_ns(more, self.machine))
                part = later.play(piece, 0, choices=True)
            cost.append(part["cost_pj"])
            oracle.append(part["oracle_pj"])
        return Met(np.array(cost), np.array(oracle))

    def known_s(self, name: str) -> float:
        """Return how long _KNOWN intervals of a regime take, in s."""
        return self._old[name].span_ns * _KNOWN / _BLOCK / 1e9


@dataclass(frozen=True)
class Change:
    """One past, one new regime, on one machine.

    Attributes:
        table: name of the machine.
        past: regimes before, the oldest first.
        new: the regime that begins.
        percent: energy above that of the other past, %.
        regret: regret over the same periods, %.
        base: that of the other past, %.
        curve: the energy above by bins of _BIN periods from the change on, %.
    """

    table: str
    past: tuple[str, ...]
    new: str
    percent: float
    regret: float
    base: float
    curve: tuple[float, ...]

    @classmethod
    def of(
        cls, table: str, past: Sequence[str], new: str, met: Met, base: Met, first: int
    ) -> "Change":
        """Compare two pasts from the first-th period after the change on."""
        percent, curve = met.above(base, first), met.curve(base)
        return cls(table, tuple(past), new, percent, met.regret(first), base.regret(first), curve)


def _switches(world: _World, table: str, who: Candidate, size: Size) -> list[Change]:
    """Compare a run that comes out of another regime with one that knows the new one."""
    base, found = {}, []
    for new in world.regimes:
        with world.taught(who, [(new, world.known_s(new))]) as clock:
            base[new] = world.meets(clock, new, new)
    for old in world.regimes:
        with world.taught(who, [(old, size.before_s)]) as clock:
            for new in world.regimes:
                if new != old:
                    met = world.meets(clock, old, new)
                    found.append(Change.of(table, [old], new, met, base[new], SETTLED))
    return found


def _stale(world: _World, table: str, who: Candidate, size: Size) -> list[Change]:
    """Compare a run that knew another regime long ago with one that did not."""
    found = []
    for between in world.regimes:
        with world.taught(who, [(between, size.away_s)]) as clock:
            others = [new for new in world.regimes if new != between]
            base = {new: world.meets(clock, between, new) for new in others}
        for old in world.regimes:
            if old == between:
                continue
            past = [(old, size.before_s), (between, size.away_s)]
            with world.taught(who, past) as clock:
                for new, other in base.items():
                    met = world.meets(clock, between, new)
                    found.append(Change.of(table, [old, between], new, met, other, 0))
    return found


def changes(
    machines: Mapping[str, StateTable], governors: Sequence[Candidate], size: Size, memo: Memo,
    meter: Meter,
) -> dict[tuple[str, str], list[Change]]:  # fmt: skip
    """Return the changes by kind ("switch", "stale") and governor.

    Args:
        machines: the state tables, by name.
        governors: who meets them.
        size: how much.
        memo: where figures are kept.
        meter: shows progress.
    """
    kinds = {"switch": (_switches, size.switches), "stale": (_stale, max(10, size.switches // 4))}
    jobs = list(product(kinds, machines, governors))
    code = Path(__file__).read_bytes() + synth.code()

    def key(kind: str, table: str, who: Candidate) -> str:
        values = who.governor.values(dict(who.settings))
        spec = who.governor.spec
        what = [kind, repr(machines[table]), repr(size), repr((_AFTER, _KNOWN))]
        return digest(["change", code, *what, spec, sources(spec), repr(values)])

    def one(kind: str, table: str, who: Candidate) -> list[dict[str, Any]]:
        measure, switches = kinds[kind]
        world = _World(machines[table], size.regimes, switches)
        return [asdict(change) for change in measure(world, table, who, size)]

    values = memo.fill({key(*job): partial(one, *job) for job in jobs}, meter, "Regimes")
    found: dict[tuple[str, str], list[Change]] = {}
    for kind, table, who in jobs:
        of = found.setdefault((kind, who.label), [])
        of += [Change(**change) for change in values[key(kind, table, who)]]
    return found


def _switch_tables(
    section: Section, subject: str, found: Mapping[tuple[str, str], Sequence[Change]], size: Size
) -> None:
    mine = found["switch", subject]
    theirs = _by_place(found["switch", COPYABLE])
    rows: list[list[Cell]] = []
    for change in sorted(mine, key=lambda c: -c.percent):
        other = theirs[change.table, change.past[0], change.new]
        if change.percent > SWITCH_PERCENT or len(rows) < _LISTED:
            rows.append([
                change.table, change.past[0], change.new, change.percent, change.regret,
                change.base, other.regret,
            ])  # fmt: skip
    late = [change for change in mine if change.percent > SWITCH_PERCENT]
    worst = max(mine, key=lambda c: c.percent)
    promise = (
        f"within {SWITCH_PERCENT:.0f} % of the steady state {SETTLED} idle periods after a change "
        f"of regime, the old one having lasted {size.before_s} s"
    )
    figures = (
        f"mean {fmean(c.percent for c in mine):+.1f} %, {len(late)} of {len(mine)} changes exceed "
        f"it, worst {worst.percent:+.1f} % ({worst.table}, {worst.past[0]} to {worst.new})"
    )
    section.verdicts.append(verdict(not late, promise, figures))
    note = (
        f"Modelled energy of the idle periods {SETTLED + 1} to {_AFTER} after the change, in "
        f"percent above that of the same governor on the same intervals after {_KNOWN:,} of the "
        f"new regime; {size.switches} changes of each kind. Beside it the regret over them, after "
        f"the change and in the steady state, and that of {COPYABLE} after the change. All that "
        f"exceed the limit, and the worst {_LISTED} at least."
    )
    heads = ("states", "old regime", "new regime", "above steady state", "regret", "steady regret",
             f"regret of {COPYABLE}")  # fmt: skip
    section.tables.append(Table("After a change of regime", heads, rows, 1, note))
    lines = []
    for label in (subject, COPYABLE):
        of = found["switch", label]
        mean = np.mean([change.curve for change in of], axis=0)
        lines.append(Line(label, [((n + 0.5) * _BIN, float(v)) for n, v in enumerate(mean)]))
    section.plots.append(
        Plot(
            "learning-switch",
            "Energy above the steady state after a change of regime",
            "idle periods since the change",
            "%",
            lines,
        )
    )


def _by_place(changes: Sequence[Change]) -> dict[tuple[str, ...], Change]:
    return {(change.table, *change.past, change.new): change for change in changes}


def _stale_table(
    section: Section, found: Sequence[Change], theirs: Sequence[Change], size: Size
) -> None:
    other = _by_place(theirs)
    worst = sorted(found, key=lambda c: -c.percent)
    over = [change for change in found if change.percent > STALE_PERCENT]
    rows: list[list[Cell]] = [
        [c.table, *c.past, c.new, c.percent, c.regret, c.base,
         other[(c.table, *c.past, c.new)].regret]
        for c in worst[: max(_LISTED, len(over))]
    ]  # fmt: skip
    harmful = sum(c.regret > other[(c.table, *c.past, c.new)].regret for c in over)
    promise = f"rows learned {size.away_s} s ago cost at most {STALE_PERCENT:.0f} %"
    figures = (
        f"mean {fmean(c.percent for c in found):+.1f} %, {len(over)} of {len(found)} cases exceed "
        f"it, {harmful} of these with more regret than {COPYABLE}, worst {worst[0].percent:+.1f} %"
    )
    section.verdicts.append(verdict(not over, promise, figures))
    note = (
        f"Modelled energy of the first {_AFTER} idle periods of a regime for a governor that lived "
        f"through another for {size.before_s} s and then one between for {size.away_s} s, in "
        "percent above that of one that knows the one between only; regrets over the same periods. "
        "Where old and new are the same, less than 0 is what remembering is worth. All above "
        f"{STALE_PERCENT:.0f} %, and the worst {_LISTED} at least."
    )
    heads = ("states", "long ago", "between", "new", "above", "regret", "without that past",
             f"regret of {COPYABLE}")  # fmt: skip
    section.tables.append(Table("Stale rows", heads, rows, 1, note))


def measure(
    section: Section,
    mine: Candidate,
    machines: Mapping[str, StateTable],
    size: Size,
    memo: Memo,
    meter: Meter,
) -> None:
    """Measure changes of regime and stale rows into a section.

    Args:
        section: gets verdicts, tables, a plot and data.
        mine: the governor that is judged.
        machines: the state tables, by name.
        size: how much.
        memo: where figures are kept.
        meter: shows progress.
    """
    governors = dict.fromkeys((mine, parse(COPYABLE, False)[0]))
    found = changes(machines, list(governors), size, memo, meter)
    _switch_tables(section, mine.label, found, size)
    _stale_table(section, found["stale", mine.label], found["stale", COPYABLE], size)
    section.data["changes"] = [
        {"kind": kind, "governor": label, **asdict(change)}
        for (kind, label), those in found.items()
        for change in those
    ]
