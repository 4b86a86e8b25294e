# SPDX-License-Identifier: GPL-2.0
"""Streams that are played: every synthetic one on every wanted machine, and the corpus.

Streams live in memory. Those of a law are made for each machine with room for its longest exit
latency between two intervals, so that no governor meets the next interval late.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from os import cpu_count
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import digest
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.compare.sources import labels
from cpuidle_lab.recording import columns, state_tables, synth
from cpuidle_lab.recording.columns import Columns, Recording
from cpuidle_lab.recording.laws import STREAMS, varied
from cpuidle_lab.recording.laws import Stream as Law
from cpuidle_lab.replay.candidates import Candidate
from cpuidle_lab.replay.engine import INTERVAL_TYPES, Outcome, Run, fitting
from cpuidle_lab.states.table import StateTable
from experiments.memo import FOLDER, Memo, sources

SEED = 1
HZ = 250
SYNTH, CORPUS = "synth", "corpus"

# Code that turns a trace into columns, and reads them.
COLUMNS_CODE = sorted(Path(columns.__file__).parent.glob("*.py"))

# The part of a stream that counts as the time of learning.
WARM = 0.1

# Of what is kept: another number where a figure changes its meaning.
_FORMAT = 3


@dataclass(frozen=True, eq=False)
class StudyIntervals:
    """Exogenous intervals, and the machine on which they are played.

    Attributes:
        name: of the law, or of the recording.
        group: SYNTH or CORPUS.
        table: name of the machine.
        machines: idle states by CPU.
        intervals: columns by CPU, as of engine.INTERVAL_TYPES.
        floor: regret of the best one-shot choice, %; None where the law does not tell.
    """

    name: str
    group: str
    table: str
    machines: Mapping[int, StateTable]
    intervals: Mapping[int, Columns]
    floor: float | None = None

    @property
    def count(self) -> int:
        """Number of intervals."""
        return sum(len(part["flags"]) for part in self.intervals.values())

    @cached_property
    def key(self) -> str:
        """Hash of the intervals and machines."""
        total = hashlib.sha256()
        for cpu, part in self.intervals.items():
            total.update(repr((cpu, self.machines[cpu])).encode())
            for column in fitting(part, INTERVAL_TYPES).values():
                total.update(column.tobytes())
        return total.hexdigest()[:24]


def synthetic(
    law: Law, machine: StateTable, table: str, count: int, *, tick_stopped: bool = False
) -> StudyIntervals:
    """Return a stream of synth's on any machine; `tick_stopped` as of synth.frame()."""
    made = synth.made_from(law, count, SEED, max(machine.exit_latency_ns))
    frame = synth.frame(made, tick_stopped=tick_stopped)
    part = fitting(columns.in_memory(frame), INTERVAL_TYPES)
    floor = synth.floor_regret(made, machine)
    return StudyIntervals(law.name, SYNTH, table, {0: machine}, {0: part}, floor)


def laws(names: Sequence[str], variations: int = 0) -> list[Law]:
    """Return streams of synth's by name, or so many variations of each."""
    known = [STREAMS[name] for name in names]
    if not variations:
        return known
    return [varied(law, number + 1) for law in known for number in range(variations)]


def suite(
    tables: Sequence[str], count: int, wanted: Sequence[Law], *, tick_stopped: bool = False
) -> list[StudyIntervals]:
    """Return streams on the named machines.

    Args:
        tables: names of the emulator's machines.
        count: intervals of each stream.
        wanted: the streams.
        tick_stopped: as of synth.frame().
    """
    machines = {table: state_tables.find(table, HZ) for table in tables}
    jobs = [(law, table) for table in tables for law in wanted]
    with ThreadPoolExecutor(cpu_count() or 1) as pool:
        return list(
            pool.map(
                lambda job: synthetic(
                    job[0], machines[job[1]], job[1], count, tick_stopped=tick_stopped
                ),
                jobs,
            )
        )


def _columns_of(trace: Path) -> Recording:
    """Return a recording of the corpus, turned into columns once."""
    if columns.is_recording(trace):
        return Recording(trace)
    version = digest(path.read_bytes() for path in (trace, *COLUMNS_CODE))
    target = FOLDER / "columns" / f"{trace.name.removesuffix('.trace.dat')}-{version}"
    if not columns.is_recording(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        columns.write(trace, target)
    return Recording(target)


def whole(recording: Recording, cpu: int) -> Columns:
    """Return all intervals of a CPU."""
    parts = list(recording.intervals(cpu, list(INTERVAL_TYPES)))
    return fitting(columns.joined(parts), INTERVAL_TYPES)


def corpus(folder: Path) -> list[StudyIntervals]:
    """Return the recordings of a directory that can be replayed, in the order of their names."""
    paths = corpus_files(folder)
    found = []
    for path, label in zip(paths, labels(paths) if paths else [], strict=True):
        recording = _columns_of(path)
        intervals = {cpu: whole(recording, cpu) for cpu in recording.cpus}
        table = label.split("-")[0]
        found.append(StudyIntervals(label, CORPUS, table, recording.state_tables, intervals))
    return found


@dataclass
class Figures:
    """Figures of a governor on a stream.

    Attributes:
        cost_pj, oracle_pj: modelled energy, and the oracle's.
        warm_cost_pj, warm_oracle_pj: the same without the first WARM of each CPU's intervals.
        idle_ns: length of all intervals.
        intervals, decisions, asked, ticks: counts, as of engine.Outcome.
        latency: wake-ups by their modelled latency in ns, as pairs.
    """

    cost_pj: float = 0.0
    oracle_pj: float = 0.0
    warm_cost_pj: float = 0.0
    warm_oracle_pj: float = 0.0
    idle_ns: float = 0.0
    intervals: int = 0
    decisions: int = 0
    asked: int = 0
    ticks: int = 0
    latency: list[tuple[int, int]] = field(default_factory=list)

    @property
    def regret(self) -> float:
        """Regret over the whole run, %."""
        return 100 * (self.cost_pj / self.oracle_pj - 1) if self.oracle_pj else 0.0

    @property
    def warm_regret(self) -> float:
        """Regret without the time of learning, %."""
        return 100 * (self.warm_cost_pj / self.warm_oracle_pj - 1) if self.warm_oracle_pj else 0.0

    def latency_us(self, share: float) -> float:
        """Return the least modelled wake-up latency within which this share is done, us."""
        need = share * sum(count for _, count in self.latency)
        done = 0
        for latency, count in sorted(self.latency):
            done += count
            if done >= need:
                return latency / 1000
        return 0.0

    @property
    def mean_latency_us(self) -> float:
        """Mean modelled wake-up latency, us."""
        count = sum(count for _, count in self.latency)
        return sum(ns * n for ns, n in self.latency) / count / 1000 if count else 0.0


@dataclass(frozen=True)
class Twist:
    """Differences from the facts that the governor is told.

    Attributes:
        powers: of each idle state, the claimed power as a part of the true one, the last one for
            all states that follow; 0: not known. (): the machine is right.
        demoted, rejected, every: as of engine.Run.drive(); every 0: the driver does as it is told.
        conceals: the governor is not told that the tick or the end of polling woke the CPU.
    """

    powers: tuple[float, ...] = ()
    demoted: int = 0
    rejected: int = 0
    every: int = 0
    conceals: bool = False

    def told(self, machine: StateTable) -> StateTable:
        """Return the machine as the governor sees it."""
        if not self.powers:
            return machine
        factors = [self.powers[min(k, len(self.powers) - 1)] for k in range(machine.count)]
        powers = zip(machine.power_uw, factors, strict=True)
        told = tuple(1000 * round(uw // 1000 * factor) for uw, factor in powers)
        return replace(machine, power_uw=told)


AS_TOLD = Twist()


def play(stream: StudyIntervals, candidate: Candidate, twist: Twist = AS_TOLD) -> Figures:
    """Replay a governor on a stream.

    Args:
        stream: what is played, and whose idle states are charged for.
        candidate: who decides.
        twist: what is not as it is told.
    """
    outcome = Outcome(candidate.label, next(iter(stream.machines.values())))
    found = Figures()
    for cpu, part in stream.intervals.items():
        machine = stream.machines[cpu]
        count = len(part["flags"])
        head = int(WARM * count)
        told, settings = twist.told(machine), dict(candidate.settings)
        with Run(candidate.governor, told, settings, cpu, costs=machine) as run:
            if twist.every:
                run.drive(twist.demoted, twist.rejected, twist.every)
            if twist.conceals:
                run.conceal()
            run.play(columns.sliced(part, 0, head), choices=False)
            before = run.totals()
            run.play(columns.sliced(part, head, count), choices=False)
            totals = run.totals()
        outcome.add(totals, machine)
        found.warm_cost_pj += totals.cost_pj - before.cost_pj
        found.warm_oracle_pj += totals.oracle_pj - before.oracle_pj
    for name in ("cost_pj", "oracle_pj", "idle_ns"):
        setattr(found, name, float(getattr(outcome, name)))
    for name in ("intervals", "decisions", "asked", "ticks"):
        setattr(found, name, int(getattr(outcome, name)))
    found.latency = sorted(outcome.latency_ns.items())
    return found


Job = tuple[StudyIntervals, Candidate, Twist]


def _key(stream: StudyIntervals, candidate: Candidate, twist: Twist) -> str:
    values = candidate.governor.values(dict(candidate.settings))
    spec = candidate.governor.spec
    parts = [str(_FORMAT), str(WARM), stream.key, spec, sources(spec)]
    return digest([*parts, repr(values), repr(twist)])


def play_all(jobs: Sequence[Job], memo: Memo, meter: Meter, title: str) -> list[Figures]:
    """Return the figures of each job, those that are known from the memo.

    Args:
        jobs: streams, governors, and what is not as they are told.
        memo: where figures are kept.
        meter: shows progress.
        title: of the phase.
    """
    keyed = {_key(*job): job for job in jobs}
    # The longest first, so that no thread is left with one at the end.
    order = sorted(keyed.items(), key=lambda item: item[1][1].governor.spec != "bayes")
    work = {key: partial(_played, *job) for key, job in order}
    found = memo.fill(work, meter, title)
    return [Figures(**found[_key(*job)]) for job in jobs]


def _played(stream: StudyIntervals, candidate: Candidate, twist: Twist) -> dict[str, Any]:
    return asdict(play(stream, candidate, twist))


def grouped(streams: Sequence[StudyIntervals]) -> Iterator[tuple[str, str, list[StudyIntervals]]]:
    """Yield group, table and streams: each table of the suite, then the corpus as a whole."""
    for table in dict.fromkeys(one.table for one in streams if one.group == SYNTH):
        mine = [one for one in streams if one.group == SYNTH and one.table == table]
        yield SYNTH, table, mine
    rest = [one for one in streams if one.group == CORPUS]
    if rest:
        yield CORPUS, "recorded", rest


def latency_of(figures: Sequence[Figures], share: float) -> float:
    """Return a quantile of all wake-ups in us, each stream counting the same."""
    weights: dict[int, float] = {}
    for one in figures:
        total = sum(count for _, count in one.latency)
        for latency, count in one.latency:
            weights[latency] = weights.get(latency, 0.0) + count / total
    need, done = share * sum(weights.values()) - 1e-9, 0.0
    for latency, weight in sorted(weights.items()):
        done += weight
        if done >= need:
            return latency / 1000
    return 0.0


def as_json(figures: Figures) -> dict[str, Any]:
    """Return what a reader wants of a stream."""
    return {
        "regret": figures.regret,
        "warm_regret": figures.warm_regret,
        "latency_p99_us": figures.latency_us(0.99),
        "latency_mean_us": figures.mean_latency_us,
        "decisions_per_interval": figures.decisions / figures.intervals if figures.intervals else 0,
    }


def shortened(states: StateTable, count: int) -> StateTable:
    """Return a machine that has the first idle states only."""
    return replace(
        states,
        names=states.names[:count],
        exit_latency_ns=states.exit_latency_ns[:count],
        target_residency_ns=states.target_residency_ns[:count],
        power_uw=states.power_uw[:count],
        polling=states.polling[:count],
    )


def corpus_files(folder: Path) -> list[Path]:
    """Return the recordings of a directory: traces and Parquet directories, by name."""
    found = [*folder.glob("*.trace.dat"), *(p for p in folder.glob("*") if columns.is_recording(p))]
    return sorted(found)
