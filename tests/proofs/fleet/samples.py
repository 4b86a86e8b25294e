# SPDX-License-Identifier: GPL-2.0
"""Effect of samples on answers: ten seconds of each hour beside all of it.

    PYTHONPATH=tools:. build/venv/bin/python tests/proofs/fleet/samples.py --machines 12
    PYTHONPATH=tools:. build/venv/bin/python tests/proofs/fleet/samples.py --corpus build/corpus
    PYTHONPATH=tools:. build/venv/bin/python tests/proofs/fleet/samples.py --hours TRACE...
    PYTHONPATH=tools:. build/venv/bin/python tests/proofs/fleet/samples.py TRACE...

A machine runs a few laws of `synth` in turns, or programs of the corpus. Its day has 24 hours of
two minutes, since the rest of an hour costs time and tells no more about ten seconds. A sample is
replayed by a governor that knows nothing, as recordings of `capture --sample` are; all of a day by
one that learns on. With --hours recordings that last for hours are sampled as one machine's day,
many times. With TRACE alone recordings are cut into pieces without a rest, so the error is of the
beginnings alone.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from cpuidle_lab.recording import columns, state_tables, synth
from cpuidle_lab.recording.columns import Columns
from cpuidle_lab.recording.laws import STREAMS
from cpuidle_lab.replay.candidates import Candidate, candidate
from cpuidle_lab.replay.engine import INTERVAL_TYPES, Outcome, Run
from cpuidle_lab.states.table import StateTable
from cpuidle_lab.view.terminal import console

GOVERNORS = ("menu_ng", "teo_ng", "wteo")
TABLES = ("skx", "spr", "power9")
S = 10**9
HOURS, HOUR_S, SEGMENT_S, SAMPLE_S = 24, 120, 40, 10
LAWS = 4
HOUR_NS = 3600 * S
# Of one day.
DRAWS = 200
# With a shorter mean interval there are too many of them in a day.
_MEAN_NS, _PROGRAM_MEAN_NS = 700_000, 100_000
PIECES_S = (0.1, 0.3, 1.0)

Sums = dict[str, Outcome]
Segment = Callable[[int], Columns]


def _play(one: Candidate, table: StateTable, parts: Sequence[Columns]) -> Outcome:
    """Return what a governor comes to that begins with these intervals."""
    outcome = Outcome(one.label, table)
    with Run(one.governor, table, dict(one.settings)) as run:
        for part in parts:
            run.play(part, choices=False)
        outcome.add(run.totals(), table)
    return outcome


def _moved(part: Columns, by_ns: int) -> Columns:
    """Return intervals at another time."""
    times = {name: part[name].astype(np.int64) + by_ns for name in ("start_ns", "answer_at_ns")}
    return {**part, **times}


def _law(name: str, seed: int) -> Columns:
    """Return SEGMENT_S of a law, from 0 on."""
    pilot = synth.frame(synth.make(name, 3000, seed))["start_ns"]
    mean_ns = (pilot[-1] - pilot[0]) / 3000
    frame = synth.frame(synth.make(name, int(1.5 * SEGMENT_S * S / mean_ns) + 100, seed))
    found = columns.in_memory(frame.select(list(INTERVAL_TYPES)))
    found = _moved(found, -int(found["start_ns"][0]))
    return columns.sliced(found, 0, int(np.searchsorted(found["start_ns"], SEGMENT_S * S)))


def _laws() -> dict[str, Segment]:
    """Return the laws of `synth` whose day can be played."""
    found: dict[str, Segment] = {}
    for name in sorted(STREAMS):
        start = synth.frame(synth.make(name, 3000, 1))["start_ns"]
        if (start[-1] - start[0]) / 3000 >= _MEAN_NS:
            found[name] = partial(_law, name)
    return found


def _recorded(path: Path) -> dict[int, tuple[Columns, StateTable]]:
    """Return the intervals of each CPU of a recording, and its state table."""
    with tempfile.TemporaryDirectory(prefix="cpuidle-lab-") as folder:
        columns.write(path, Path(folder) / "x")
        recording = columns.Recording(Path(folder) / "x")
        return {
            cpu: (
                columns.joined(list(recording.intervals(cpu, list(INTERVAL_TYPES)))),
                recording.state_tables[cpu],
            )
            for cpu in recording.cpus
        }


def _again(cpus: Sequence[Columns], seed: int) -> Columns:
    """Return SEGMENT_S of a CPU's intervals, from one of them on, again and again."""
    once = cpus[seed % len(cpus)]
    start = once["start_ns"].astype(np.int64)
    length_ns = int(start[-1] - start[0] + once["length_ns"][-1])
    first = seed % len(start)
    parts = []
    for turn in range(SEGMENT_S * S // length_ns + 2):
        part = columns.sliced(once, 0 if turn else first, len(start))
        parts.append(_moved(part, turn * length_ns - int(start[first])))
    found = columns.joined(parts)
    return columns.sliced(found, 0, int(np.searchsorted(found["start_ns"], SEGMENT_S * S)))


def _programs(folder: Path) -> dict[str, Segment]:
    """Return the programs of a corpus whose day can be played."""
    found: dict[str, Segment] = {}
    for path in sorted(folder.glob("*.trace.dat")):
        cpus = [part for part, _ in _recorded(path).values() if len(part["start_ns"]) > 1]
        spans = [int(part["start_ns"][-1] - part["start_ns"][0]) for part in cpus]
        if sum(spans) / sum(len(part["start_ns"]) for part in cpus) >= _PROGRAM_MEAN_NS:
            found[path.name] = partial(_again, cpus)
    return found


def _hours(
    rng: np.random.Generator, known: Mapping[str, Segment]
) -> Iterator[tuple[Columns, Columns]]:
    """Yield all of each hour of a day, and the sample of it."""
    laws = rng.choice(list(known), LAWS, replace=False)
    for hour in range(HOURS):
        segments = []
        for n in range(HOUR_S // SEGMENT_S):
            part = known[str(rng.choice(laws))](int(rng.integers(1 << 30)))
            part = _moved(part, S + (hour * HOUR_S + n * SEGMENT_S) * S)
            segments.append(part)
        whole = columns.joined(segments)
        yield whole, _sample(whole, int((1 + hour * HOUR_S) * S), HOUR_S * S, rng)


def _sample(whole: Columns, hour_ns: int, length_ns: int, rng: np.random.Generator) -> Columns:
    """Return SAMPLE_S of an hour that begins at a time and has a length."""
    first = hour_ns + int(rng.uniform(0, length_ns - SAMPLE_S * S))
    begin, end = np.searchsorted(whole["start_ns"], [first, first + SAMPLE_S * S])
    return columns.sliced(whole, int(begin), int(end))


def day(seed: int, known: Mapping[str, Segment]) -> tuple[Sums, Sums]:
    """Return what governors come to on all of a machine's day, and on its samples."""
    table = state_tables.find(TABLES[seed % len(TABLES)], 250)
    chosen = [candidate(label) for label in GOVERNORS]
    hours = list(_hours(np.random.default_rng(seed), known))
    whole = {one.label: _play(one, table, [hour for hour, _ in hours]) for one in chosen}
    return whole, _samples(chosen, table, [sample for _, sample in hours])


def _samples(chosen: Sequence[Candidate], table: StateTable, samples: Sequence[Columns]) -> Sums:
    """Return what governors come to that begin anew in each sample."""
    sums = {one.label: Outcome(one.label, table) for one in chosen}
    for one in chosen:
        for sample in samples:
            if len(sample["start_ns"]):
                _add(sums[one.label], _play(one, table, [sample]))
    return sums


def hours(paths: Sequence[Path]) -> list[tuple[Sums, Sums]]:
    """Return the same of recordings that last for hours, as one day, once for each draw."""
    chosen = [candidate(label) for label in GOVERNORS]
    cpus = [cpu for path in paths for cpu in _recorded(path).values()]
    table = cpus[0][1]
    whole = {one.label: Outcome(one.label, table) for one in chosen}
    for part, _ in cpus:
        for one in chosen:
            _add(whole[one.label], _play(one, table, [part]))
    found = []
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        samples = [
            _sample(part, int(part["start_ns"][0]) + hour * HOUR_NS, HOUR_NS, rng)
            for part, _ in cpus
            for hour in range(round(int(part["start_ns"][-1] - part["start_ns"][0]) / HOUR_NS))
        ]
        found.append((whole, _samples(chosen, table, samples)))
    return found


def _add(into: Outcome, more: Outcome) -> None:
    into.cost_pj += more.cost_pj
    into.oracle_pj += more.oracle_pj


def _change(sums: Sums, label: str) -> float:
    """Return the energy of a governor against the first, in percent."""
    return 100 * (sums[label].cost_pj / sums[GOVERNORS[0]].cost_pj - 1)


def show(found: Sequence[tuple[Sums, Sums]], title: str) -> None:
    """Print the errors of samples, in points."""
    out, count = console(), len(found)
    out.print(f"{title}; error in points", highlight=False)
    for label in GOVERNORS:
        for what, figure in (("regret", lambda sums, x=label: sums[x].regret),
                             ("energy", lambda sums, x=label: _change(sums, x))):  # fmt: skip
            whole, sampled = (np.array([figure(pair[k]) for pair in found]) for k in (0, 1))
            error = sampled - whole
            out.print(
                f"{label} {what}: all {whole.mean():.2f}, samples {sampled.mean():.2f}, "
                f"error {error.mean():+.2f} +- {error.std(ddof=1) / count**0.5:.2f}, of one "
                f"{np.sqrt((error**2).mean()):.2f}", highlight=False,
            )  # fmt: skip


def _pieces(whole: Columns, length_ns: int) -> list[Columns]:
    """Cut intervals into pieces of a length."""
    start = whole["start_ns"].astype(np.int64)
    cuts = np.arange(start[0] + length_ns, start[-1], length_ns)
    ends = [0, *map(int, np.searchsorted(start, cuts)), len(start)]
    return [columns.sliced(whole, a, b) for a, b in pairwise(ends) if b > a]


def trace(path: Path) -> None:
    """Print the regrets of a recording by the length of its pieces."""
    chosen, out = [candidate(label) for label in GOVERNORS], console()
    sums: dict[tuple[str, float], Outcome] = {}
    for whole, table in _recorded(path).values():
        for one in chosen:
            for length_s in (0.0, *PIECES_S):
                into = sums.setdefault((one.label, length_s), Outcome(one.label, table))
                parts = _pieces(whole, int(length_s * S)) if length_s else [whole]
                for part in parts:
                    _add(into, _play(one, table, [part]))
    for one in chosen:
        figures = (f"{length_s:g} s {sums[one.label, length_s].regret:.2f} %"
                   for length_s in PIECES_S)  # fmt: skip
        out.print(f"{path.name} {one.label}: whole {sums[one.label, 0.0].regret:.2f} %, pieces of "
                  f"{', '.join(figures)}", highlight=False, soft_wrap=True)  # fmt: skip


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("traces", nargs="*", type=Path, metavar="TRACE")
    parser.add_argument("--machines", type=int, default=12)
    parser.add_argument("--corpus", type=Path, metavar="FOLDER")
    parser.add_argument("--hours", action="store_true")
    args = parser.parse_args()
    if args.hours:
        show(hours(args.traces), f"{DRAWS} draws of {SAMPLE_S} s an hour")
        return
    for path in args.traces:
        trace(path)
    if not args.traces:
        known = _programs(args.corpus) if args.corpus else _laws()
        found = [day(seed, known) for seed in range(args.machines)]
        show(found, f"{args.machines} machines, {len(known)} laws, {HOURS} samples of {SAMPLE_S} s")


if __name__ == "__main__":
    main()
