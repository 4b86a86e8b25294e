# SPDX-License-Identifier: GPL-2.0
"""Runs every governor over every recording."""

import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from cpuidle_lab.base.progress import Meter
from cpuidle_lab.compare.sources import Source, labels, open_source, ways_of
from cpuidle_lab.compare.worst import Bad, Worst, with_inputs
from cpuidle_lab.crossval import trust
from cpuidle_lab.figures import invariants, withheld
from cpuidle_lab.figures.cpu_idle import NOTE
from cpuidle_lab.figures.told import Doubt, distance
from cpuidle_lab.recording import reader
from cpuidle_lab.recording.columns import CPU_IDLE, INTERRUPTS, SYNTH, TRACE, Recording
from cpuidle_lab.recording.stock import omissions, stock_line
from cpuidle_lab.recording.trace import name_notes, twin_notes
from cpuidle_lab.replay import instructions, recorded
from cpuidle_lab.replay.candidates import (
    BAYES,
    BEST_KIND,
    BEST_MAINLINE,
    MAINLINE,
    ORACLE,
    RECORDED_KIND,
    Candidate,
)
from cpuidle_lab.replay.engine import Outcome, counterfactual
from cpuidle_lab.replay.fidelity import Apart
from cpuidle_lab.replay.recorded import RECORDED
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import CpuTable

_T = TypeVar("_T")

# Percentages that differ by less are equal: sums of floating-point numbers.
_SAME = 1e-6

# Instructions are not counted beyond so many intervals of all recordings.
COUNTED_INTERVALS = 1_000_000


@dataclass
class Result:
    """One governor on one recording.

    Attributes:
        trace: label of the recording.
        label: of the governor.
        kind: of the governor, see spec.
        governor: whose result it is: differs from `label` for the best mainline governor.
        outcome: what it came to; where sleep lengths were told in two ways, with the drawn ones.
        far: likewise, with those that are far; None where all are known.
        lost_pj: Worst.excess_pj of the first outcome.
        doubt: errors beside the range of its regret, where interrupts tell of sleep lengths.
        instructions: of a decision; None if not counted.
        worst: where most was lost.
        withheld: the recording leaves out or guesses too much for a regret.
        guessed: too many of its lengths are guesses, for a power, too.
        untimed: it needs timers, of which the recording tells nothing.
        joint: of the best mainline governor, which may be either: its span.
        broken: rules of `invariants` that the figures break.
    """

    trace: str
    label: str
    kind: str
    governor: str
    outcome: Outcome
    instructions: float | None = None
    worst: list[Bad] = field(default_factory=list)
    far: Outcome | None = None
    lost_pj: float = 0.0
    doubt: Doubt = field(default_factory=Doubt)
    withheld: bool = False
    guessed: bool = False
    untimed: bool = False
    joint: tuple[float, float] | None = None
    broken: list[str] = field(default_factory=list)

    @property
    def span(self) -> tuple[float, float] | None:
        """Least and greatest regret, in percent; None where it is unknown or contradicts itself.

        They differ where sleep lengths are not known. A regret is 0 where floating point left a
        trace of something else.
        """
        if self.withheld or self.untimed or self.broken:
            return None
        if self.joint:
            return self.joint
        known = [one.regret for one in (self.outcome, self.far) if one]
        values = [0.0 if abs(value) < _SAME else value for value in known if value is not None]
        return (min(values), max(values)) if values else None

    @property
    def regret(self) -> float | None:
        """Idle-energy regret in percent, the middle of its span; None where there is none."""
        return sum(self.span) / 2 if self.span else None


@dataclass
class Comparison:
    """Everything that is shown.

    Attributes:
        sources: the recordings.
        governors: labels and kinds, best mainline and limits last.
        results: by label of the recording and of the governor.
        command: the command line.
        start: when it began, ISO 8601.
        counted: whether instructions were counted.
        bad: how many of the worst decisions were kept.
        remarks: by label of the recording, how far its predictions can be trusted.
    """

    sources: list[Source]
    governors: dict[str, str]
    results: dict[tuple[str, str], Result]
    command: str
    start: str
    counted: bool
    bad: int
    remarks: dict[str, list[str]] = field(default_factory=dict)

    @property
    def broken(self) -> bool:
        """A figure contradicts a rule."""
        return any(result.broken for result in self.results.values())

    def of_trace(self, trace: str) -> list[Result]:
        """Return the results of a recording, in the order of the governors."""
        return [self.results[trace, label] for label in self.governors]

    def of_governor(self, label: str) -> list[Result]:
        """Return the results of a governor, in the order of the recordings."""
        return [self.results[source.label, label] for source in self.sources]


class _StoppedError(Exception):
    """The work is not wanted any more."""


@dataclass
class _Work:
    """State shared by all replays of a command."""

    candidates: list[Candidate]
    bad: int
    workers: int
    stop: threading.Event = field(default_factory=threading.Event)

    def replay(
        self, recording: Recording, candidate: Candidate, done: Callable[[int], None]
    ) -> tuple[Outcome, Worst]:
        """Play a recording; keep of the choices only the worst."""

        def progress(count: int) -> None:
            if self.stop.is_set():
                raise _StoppedError
            done(count)

        worst = Worst(self.bad)
        outcome = counterfactual(
            recording,
            candidate.governor,
            dict(candidate.settings),
            each=worst.add if self.bad or recording.kind == INTERRUPTS else None,
            jobs=max(1, self.workers // len(self.candidates)),
            progress=progress,
        )
        return outcome, worst

    def count(self, recording: Recording, candidate: Candidate) -> float | None:
        """Count instructions."""
        if self.stop.is_set():
            raise _StoppedError
        settings = dict(candidate.settings)
        return instructions.per_decision(candidate.governor, recording, settings)


def _all(pool: ThreadPoolExecutor, work: _Work, jobs: Sequence[Future[_T]]) -> list[_T]:
    """Wait for all jobs; the first that fails, or Ctrl-C, ends the others."""
    try:
        for job in as_completed(jobs):
            job.result()
    except BaseException:
        work.stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    return [job.result() for job in jobs]


def _needs_timers(recording: Recording, candidate: Candidate, outcome: Outcome) -> bool:
    """Tell whether a governor's result depends on timers that a recording does not tell."""
    if recording.kind != CPU_IDLE or candidate.label == ORACLE:
        return False
    return outcome.asked > 0 or candidate.label == BAYES


def _compare(
    recording: Recording,
    source: Source,
    work: _Work,
    pool: ThreadPoolExecutor,
    done: Callable[[int], None],
) -> list[Result]:
    ways = [
        [pool.submit(work.replay, told, item, done) for item in work.candidates]
        for told in ways_of(recording)
    ]
    first, *more = [_all(pool, work, jobs) for jobs in ways]
    lost_by = {item.label: worst.places()
               for item, (_, worst) in zip(work.candidates, first, strict=True)}  # fmt: skip
    fact = _recorded(recording, source, work.bad)
    told = ways_of(recording)[0]
    bad = with_inputs(told, lost_by | ({RECORDED: fact[1].places()} if fact else {}))
    found = [
        Result(
            source.label, RECORDED, RECORDED_KIND, ", ".join(source.recorders) or "unknown",
            fact[0], worst=bad[RECORDED], lost_pj=fact[1].excess_pj,
        )
    ] if fact else []  # fmt: skip
    for n, item in enumerate(work.candidates):
        outcome = first[n][0]
        found.append(
            Result(
                source.label, item.label, item.kind, item.label, outcome, worst=bad[item.label],
                lost_pj=first[n][1].excess_pj, far=more[0][n][0] if more else None,
                untimed=_needs_timers(recording, item, outcome),
            )
        )  # fmt: skip
    return found


def _recorded(recording: Recording, source: Source, bad: int) -> tuple[Outcome, Worst] | None:
    """Return what the recorded decisions came to, and the worst; None of a stream, without any."""
    if recording.kind == SYNTH:
        return None
    worst = Worst(bad)
    each = worst.add if bad or recording.kind == INTERRUPTS else None
    return recorded.outcome(ways_of(recording)[0], each=each), worst


def _best_mainline(results: Sequence[Result]) -> Result | None:
    """Return the better of the newest kernel's menu and teo on a recording."""
    known = [item for item in results if item.label in MAINLINE]
    if len(known) < len(MAINLINE):
        return None
    best = min(known, key=lambda item: math.inf if item.regret is None else item.regret)
    spans = [item.span for item in known if item.span]
    joint = (min(low for low, _ in spans), min(high for _, high in spans)) if spans else None
    untimed = any(item.untimed for item in known)
    best = replace(best, joint=joint, untimed=untimed)
    return replace(best, label=BEST_MAINLINE, kind=BEST_KIND)


def check(result: Result, source: Source) -> list[str]:
    """Return the rules that a result breaks."""
    outcome, state_tables = result.outcome, source.state_tables.values()
    count = outcome.table.count
    return invariants.broken(
        invariants.Facts(
            regret=result.regret,
            cost_pj=outcome.cost_pj,
            oracle_pj=None if result.withheld else outcome.oracle_pj,
            length_ns=outcome.idle_ns,
            models=[model_of(table) for table in state_tables],
            entries=outcome.entries.tolist(),
            state_ns=outcome.state_ns.tolist(),
            idle_ns=outcome.idle_ns,
            parts={
                "energy": (outcome.state_pj.tolist(), outcome.cost_pj),
                "decisions": (outcome.heat[:count, :count].sum(axis=1).tolist(), outcome.decisions),
                "lengths": (outcome.length_count.tolist(), outcome.intervals),
                "wake-ups": (outcome.wakeups.tolist(), outcome.intervals),
            },
            counts={"intervals": (source.intervals, outcome.intervals + outcome.skipped)},
        )
    )


def _judge(results: Sequence[Result], source: Source) -> None:
    """Mark what a recording, or a figure that contradicts itself, leaves without regret."""
    for item in results:
        item.withheld = bool(withheld.above(source.shares))
        item.guessed = withheld.guesses_lengths(source.shares)
        item.broken = check(item, source)
    if source.kind == INTERRUPTS:
        error = _error(results, source)
        for item in results:
            least = item.outcome.oracle_pj or 1.0
            spread = 100 * item.lost_pj / least
            item.doubt = Doubt(error, spread, item.outcome.begins(source.loop_ns))


def _error(results: Sequence[Result], source: Source) -> float | None:
    """Return the points from the recorded regret to what replay of the recorder comes to."""
    fact = next((item.regret for item in results if item.kind == RECORDED_KIND), None)
    spans = [item.span for item in results if source.is_recorder(item.label) and item.span]
    return min(distance(fact, span) for span in spans) if spans and fact is not None else None


def of_one(source: Source, recording: Recording, candidates: list[Candidate]) -> list[Result]:
    """Replay governors on one recording, in one thread; the recorded decisions come first.

    Args:
        source: what open_source() tells of the recording.
        recording: likewise.
        candidates: the governors.

    Raises:
        UserError: the recording cannot be replayed.
    """
    with ThreadPoolExecutor(1) as pool:
        found = _compare(recording, source, _Work(candidates, 0, 1), pool, lambda _count: None)
    _judge(found, source)
    return found


_RANGES = (
    "interrupts tell what ended its idle periods; regrets are ranges: once unknown sleep lengths "
    "are drawn from those known nearby, once they are far; other figures are those with drawn ones"
)


def _begin(
    opened: Sequence[tuple[Source, Recording]], process: Apart[list[trust.Trust]]
) -> dict[str, Apart[list[trust.Trust]]]:
    """Let the process replay the first recorder, while this one replays governors."""
    for source, recording in opened:
        if recording.kind == TRACE and not withheld.above(source.shares):
            process.begin(recording.path, source.path)
            return {source.label: process}
    return {}


def _remarks(
    recording: Recording, source: Source, ready: Apart[list[trust.Trust]] | None
) -> list[str]:
    """Return what a reader must know of a recording; without regrets where they are withheld."""
    tables = recording.state_tables
    missing = [*omissions(recording.stock or {}), *name_notes(tables), *twin_notes(tables)]
    if recording.kind == CPU_IDLE:
        return [NOTE, *missing]
    if recording.kind == INTERRUPTS:
        return [_RANGES, *missing]
    said = [] if withheld.above(source.shares) else trust.remarks(recording, source.path, ready)
    stock = [stock_line(recording.stock)] if recording.stock else []
    return [*stock, *missing, *said]


def build(
    paths: Sequence[Path],
    candidates: list[Candidate],
    meter: Meter,
    *,
    bad: int,
    count: bool,
    command: str,
    start: str,
    given: Sequence[CpuTable] = (),
) -> Comparison:
    """Replay everything, on all cores.

    Args:
        paths: the recordings; a path given twice counts once.
        candidates: the governors.
        meter: shows progress.
        bad: how many of the worst decisions to keep, for each governor and recording.
        count: count instructions.
        command: the command line, for the record.
        start: when it began, likewise.
        given: idle states of recordings without the module, instead of those that they tell.

    Raises:
        UserError: a recording cannot be read or replayed.
    """
    paths = list({os.path.realpath(path): path for path in paths}.values())
    work = _Work(candidates, bad, os.cpu_count() or 1)
    results: list[Result] = []
    with ExitStack() as stack, ThreadPoolExecutor(work.workers) as pool:
        process = stack.enter_context(Apart(trust.trust_of))
        opened = []
        with reader.watched(meter, "Reading the recordings", len(paths)):
            for path, label in zip(paths, labels(paths), strict=True):
                opened.append(open_source(path, label, given, stack))
        ready = _begin(opened, process)
        rows = sum(len(ways_of(one)) * one.rows("interval") for _, one in opened)
        total = rows * len(candidates)
        with meter("Replaying", total) as done:
            for source, recording in opened:
                results += _compare(recording, source, work, pool, done)
        if count and rows <= COUNTED_INTERVALS:
            played = [item for item in results if item.kind != RECORDED_KIND]
            _count(played, opened, work, pool, meter)
        with meter("Replaying the recorders themselves", len(opened)) as done:
            remarks = {}
            for source, recording in opened:
                remarks[source.label] = _remarks(recording, source, ready.get(source.label))
                done(1)
    for source, _ in opened:
        mine = [item for item in results if item.trace == source.label]
        _judge(mine, source)
        best = _best_mainline(mine)
        results += [best] if best else []
    results += _absent(results, opened)
    kinds = {item.label: item.kind for item in results}
    return Comparison(
        [source for source, _ in opened],
        kinds,
        {(item.trace, item.label): item for item in results},
        command,
        start,
        any(item.instructions is not None for item in results),
        bad,
        remarks,
    )


def _absent(results: Sequence[Result], opened: Sequence[tuple[Source, Recording]]) -> list[Result]:
    """Return a result without figures for each stream beside recordings: none recorded it."""
    has = {item.trace for item in results if item.kind == RECORDED_KIND}
    return [
        Result(
            source.label, RECORDED, RECORDED_KIND, "",
            Outcome(RECORDED, max(recording.state_tables.values(), key=lambda m: m.count)),
        )
        for source, recording in opened
        if has and source.label not in has
    ]  # fmt: skip


def _count(
    results: list[Result],
    opened: list[tuple[Source, Recording]],
    work: _Work,
    pool: ThreadPoolExecutor,
    meter: Meter,
) -> None:
    recordings = {source.label: ways_of(recording)[0] for source, recording in opened}
    candidates = {item.label: item for item in work.candidates}
    for candidate in work.candidates:
        instructions.prepare(candidate.governor)
    with meter("Counting instructions", len(results)) as done:

        def one(result: Result) -> float | None:
            found = work.count(recordings[result.trace], candidates[result.label])
            done(1)
            return found

        counts = _all(pool, work, [pool.submit(one, item) for item in results])
    for item, found in zip(results, counts, strict=True):
        item.instructions = found
