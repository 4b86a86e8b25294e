# SPDX-License-Identifier: GPL-2.0
"""Speed of the trace reader and of replay."""

import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from cpuidle_lab.base.cache import TOP, digest
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.recording import columns, state_tables, synth
from cpuidle_lab.recording.columns import Recording, Writer
from cpuidle_lab.replay import instructions
from cpuidle_lab.replay.engine import INTERVAL_TYPES, Run, counterfactual
from cpuidle_lab.replay.library import Governor, governor
from cpuidle_lab.states.table import StateTable
from experiments.wteo.streams import HZ, SEED, shortened
from tests.proofs.throughput.reader import reader_speed
from tests.unit import synthetic, tracedat

# Targets, on one core.
READER_EVENTS_PER_S = 3_000_000
REPLAY_PERIODS_PER_S = 10_000_000

# Few are enough to count instructions.
COUNTED_EVENTS = 300_000
COUNTED_INTERVALS = (2_000, 20_000)

GOVERNOR = "teo_ng"
STREAM = "poisson-1ms"
MACHINE, STATES = "power9", 7
RUNS = 5

_COLLECTED = re.compile(r"Collected : (\d+)")


def write(target: Path, name: str, count: int, states: StateTable, source: str) -> Recording:
    """Write a synthetic stream as a recording, for any machine."""
    made = synth.make(name, count, SEED, max(states.exit_latency_ns))
    meta = {
        "kind": columns.SYNTH,
        "source": source,
        "machines": {"0": columns.describe(states)},
        "law": {"name": name, "count": count, "seed": SEED},
    }
    with Writer(target, meta) as writer:
        writer.add("interval", synth.frame(made))
    return Recording(target)


def big_trace(folder: Path, events: int) -> Path:
    """Return a synthetic trace.dat with at least so many events, made once.

    Its events are those of module/trace.h as it is now.
    """
    sources = [Path(str(module.__file__)) for module in (synthetic, tracedat)]
    sources.append(TOP / "module" / "trace.h")
    name = f"reader-{events}-{digest(source.read_bytes() for source in sources)}.dat"
    path = folder / name
    if not path.exists():
        for old in folder.glob(f"reader-{events}-*.dat"):
            old.unlink()
        session = synthetic.Session(cpus=1)
        session.phase("menu_ng", "hackbench", 100_000_000)
        with tempfile.TemporaryDirectory(prefix=".reader-", dir=folder) as scratch:
            made = Path(scratch) / name
            session.trace.write_large(made, events)
            made.rename(path)
    return path


def reader(folder: Path, events: int, meter: Meter) -> dict[str, Any]:
    """Measure the reader on a large synthetic trace.

    Returns:
        what reader_speed() tells, with the target.

    Raises:
        UserError: the reader cannot be built.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with meter("Making the large trace", 2) as done:
        large = big_trace(folder, events)
        done(1)
        counted = big_trace(folder, min(events, COUNTED_EVENTS))
        done(1)
    with meter("Reading the large trace", 1) as done:
        found = reader_speed(large, counted)
        done(1)
    return {**found, "target_events_per_s": READER_EVENTS_PER_S}


def _in_memory(one: Governor, recording: Recording) -> float:
    """Return idle periods per second of the thread's CPU time, the fastest of some runs."""
    best = 0.0
    for _ in range(RUNS):
        spent = 0
        with Run(one, recording.state_tables[0]) as run:
            for chunk in recording.intervals(0, list(INTERVAL_TYPES)):
                start = time.thread_time_ns()
                run.play(chunk, choices=False)
                spent += time.thread_time_ns() - start
            periods = sum(run.totals().entries)
        best = max(best, periods / spent * 1e9)
    return best


def _from_file(one: Governor, recording: Recording) -> float:
    """Return idle periods per second of the process's CPU time, reading the columns included."""
    best = 0.0
    for _ in range(RUNS):
        start = time.process_time_ns()
        outcome = counterfactual(recording, one, jobs=1)
        best = max(best, outcome.periods / (time.process_time_ns() - start) * 1e9)
    return best


def _collected(one: Governor, recording: Recording, sample: int) -> tuple[int, int]:
    """Return all instructions of the counting program and the decisions made in it."""
    with tempfile.TemporaryDirectory(prefix="cpuidle-lab-") as folder:
        data = Path(folder) / "intervals"
        instructions.write(data, one, recording, None, sample)
        program = instructions.program(one)
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        done = subprocess.run(
            [*command, str(program), one.name, str(data)],
            capture_output=True,
            text=True,
            check=True,
        )
    collected = _COLLECTED.search(done.stderr)
    assert collected, done.stderr
    return int(collected[1]), int(done.stdout)


def engine_instructions(one: Governor, recording: Recording) -> float | None:
    """Return the instructions of an idle period, engine and governor; None without valgrind.

    They are the difference of a long and a short run, so that what a program needs to start is left
    out.
    """
    if not shutil.which("valgrind"):
        return None
    (less, few), (more, many) = (_collected(one, recording, n) for n in COUNTED_INTERVALS)
    return (more - less) / (many - few) if many > few else None


def replay(folder: Path, count: int, meter: Meter) -> dict[str, Any]:
    """Measure the replay of one governor on one core.

    Args:
        folder: scratch space.
        count: intervals of the stream.
        meter: shows progress.

    Returns:
        idle periods per second, in memory and with reading; instructions per period; the target.

    Raises:
        UserError: the library cannot be compiled.
    """
    states = shortened(state_tables.find(MACHINE, HZ), STATES)
    one = governor(GOVERNOR)
    with meter("Taking the time of replay", 4) as done:
        recording = write(folder / "replay", STREAM, count, states, f"synth {STREAM}")
        done(1)
        memory = _in_memory(one, recording)
        done(1)
        file = _from_file(one, recording)
        done(1)
        counted = engine_instructions(one, recording)
        done(1)
    return {
        "governor": GOVERNOR,
        "stream": STREAM,
        "states": STATES,
        "intervals": count,
        "periods_per_s": round(memory),
        "periods_per_s_with_reading": round(file),
        "instructions_per_period": counted,
        "target_periods_per_s": REPLAY_PERIODS_PER_S,
    }
