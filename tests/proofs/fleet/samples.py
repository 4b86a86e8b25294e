# SPDX-License-Identifier: GPL-2.0
"""Effect of samples on answers: ten seconds of each hour beside all of it.

    PYTHONPATH=tools:. build/venv/bin/python tests/proofs/fleet/samples.py --machines 12
    PYTHONPATH=tools:. build/venv/bin/python tests/proofs/fleet/samples.py TRACE...

A machine runs a few laws of `synth` in turns. Its day has 24 hours of two minutes, since the rest
of an hour costs time and tells no more about ten seconds. A sample is replayed by a governor that
knows nothing, as recordings of `capture --sample` are; all of a day by one that learns on. With
TRACE its recordings are cut into pieces without a rest, so the error is of the beginnings alone.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
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
# Laws with a shorter mean interval have too many of them in a day.
_MEAN_NS = 700_000
PIECES_S = (0.1, 0.3, 1.0)

Sums = dict[str, Outcome]


def _play(one: Candidate, table: StateTable, parts: Sequence[Columns]) -> Outcome:
    """Return what a governor comes to that begins with these intervals."""
    outcome = Outcome(one.label, table)
    with Run(one.governor, table, dict(one.settings)) as run:
        for part in parts:
            run.play(part, choices=False)
        outcome.add(run.totals(), table)
    return outcome


def _segment(name: str, seed: int) -> Columns:
    """Return SEGMENT_S of a law, from 0 on."""
    pilot = synth.frame(synth.make(name, 3000, seed))["start_ns"]
    mean_ns = (pilot[-1] - pilot[0]) / 3000
    frame = synth.frame(synth.make(name, int(1.5 * SEGMENT_S * S / mean_ns) + 100, seed))
    found = columns.in_memory(frame.select(list(INTERVAL_TYPES)))
    found["start_ns"] = found["start_ns"] - found["start_ns"][0]
    return columns.sliced(found, 0, int(np.searchsorted(found["start_ns"], SEGMENT_S * S)))


def _usable() -> list[str]:
    found = []
    for name in sorted(STREAMS):
        start = synth.frame(synth.make(name, 3000, 1))["start_ns"]
        if (start[-1] - start[0]) / 3000 >= _MEAN_NS:
            found.append(name)
    return found


def _hours(rng: np.random.Generator, names: Sequence[str]) -> Iterator[tuple[Columns, Columns]]:
    """Yield all of each hour of a day, and the sample of it."""
    laws = rng.choice(names, LAWS, replace=False)
    for hour in range(HOURS):
        segments = []
        for n in range(HOUR_S // SEGMENT_S):
            part = _segment(str(rng.choice(laws)), int(rng.integers(1 << 30)))
            part["start_ns"] = part["start_ns"] + S + (hour * HOUR_S + n * SEGMENT_S) * S
            segments.append(part)
        whole = columns.joined(segments)
        first = int((1 + hour * HOUR_S + rng.uniform(0, HOUR_S - SAMPLE_S)) * S)
        begin, end = np.searchsorted(whole["start_ns"], [first, first + SAMPLE_S * S])
        yield whole, columns.sliced(whole, int(begin), int(end))


def day(seed: int, names: Sequence[str]) -> tuple[Sums, Sums]:
    """Return what governors come to on all of a machine's day, and on its samples."""
    table = state_tables.find(TABLES[seed % len(TABLES)], 250)
    chosen = [candidate(label) for label in GOVERNORS]
    hours = list(_hours(np.random.default_rng(seed), names))
    whole = {one.label: _play(one, table, [hour for hour, _ in hours]) for one in chosen}
    sampled = {}
    for one in chosen:
        sampled[one.label] = Outcome(one.label, table)
        for _, sample in hours:
            _add(sampled[one.label], _play(one, table, [sample]))
    return whole, sampled


def _add(into: Outcome, more: Outcome) -> None:
    into.cost_pj += more.cost_pj
    into.oracle_pj += more.oracle_pj


def _change(sums: Sums, label: str) -> float:
    """Return the energy of a governor against the first, in percent."""
    return 100 * (sums[label].cost_pj / sums[GOVERNORS[0]].cost_pj - 1)


def days(count: int) -> None:
    """Print the errors on machines' days."""
    names, out = _usable(), console()
    found = [day(seed, names) for seed in range(count)]
    out.print(f"{count} machines, {HOURS} samples of {SAMPLE_S} s each; error in points",
              highlight=False)  # fmt: skip
    for label in GOVERNORS:
        for what, figure in (("regret", lambda sums, x=label: sums[x].regret),
                             ("energy", lambda sums, x=label: _change(sums, x))):  # fmt: skip
            whole, sampled = (np.array([figure(pair[k]) for pair in found]) for k in (0, 1))
            error = sampled - whole
            out.print(
                f"{label} {what}: all {whole.mean():.2f}, samples {sampled.mean():.2f}, "
                f"error {error.mean():+.2f} +- {error.std(ddof=1) / count**0.5:.2f}, of one "
                f"machine {np.sqrt((error**2).mean()):.2f}", highlight=False,
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
    with tempfile.TemporaryDirectory(prefix="cpuidle-lab-") as folder:
        columns.write(path, Path(folder) / "x")
        recording = columns.Recording(Path(folder) / "x")
        for cpu in recording.cpus:
            whole = columns.joined(list(recording.intervals(cpu, list(INTERVAL_TYPES))))
            table = recording.state_tables[cpu]
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
    args = parser.parse_args()
    for path in args.traces:
        trace(path)
    if not args.traces:
        days(args.machines)


if __name__ == "__main__":
    main()
