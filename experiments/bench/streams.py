# SPDX-License-Identifier: GPL-2.0
"""What the governors are measured on: synthetic streams, always the same, and the corpus."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from cpuidle_lab import columns, synth
from cpuidle_lab.columns import Columns, Recording, Writer
from cpuidle_lab.compare.model import Phase, labels
from cpuidle_lab.errors import UserError
from cpuidle_lab.replay.engine import INTERVAL_TYPES
from cpuidle_lab.trace import Machine

SEED = 1
HZ = 250
NAMES = ("timer-10ms", "timers-mixed", "poisson-15us", "poisson-1ms", "bursts", "heavy-tail")
MACHINES = ("skx", "power9")

CORPUS = "corpus"

# Of a long recording, so many intervals of one CPU are played.
MOST = 20_000


@dataclass(frozen=True)
class Stream:
    """Intervals of one CPU.

    Attributes:
        name: of the stream or trace.
        group: streams whose figures make one mean.
        machine: the CPU's idle states.
        recording: the whole.
        intervals: what is played for the clock, in memory.
    """

    name: str
    group: str
    machine: Machine
    recording: Recording
    intervals: Columns


def write(target: Path, name: str, count: int, states: Machine, source: str) -> Recording:
    """Write a synthetic stream as a recording, for any machine."""
    made = synth.make(name, count, SEED, max(states.exit_latency_ns))
    meta = {
        "kind": columns.SYNTH,
        "source": source,
        "machines": {"0": asdict(states)},
        "law": {"name": name, "count": count, "seed": SEED},
    }
    with Writer(target, meta) as writer:
        writer.add("interval", synth.frame(made))
    return Recording(target)


def shortened(states: Machine, count: int) -> Machine:
    """Return a machine that has the first idle states only."""
    return replace(
        states,
        names=states.names[:count],
        exit_latency_ns=states.exit_latency_ns[:count],
        target_residency_ns=states.target_residency_ns[:count],
        power_mw=states.power_mw[:count],
        polling=states.polling[:count],
    )


def _stream(name: str, group: str, recording: Recording) -> Stream:
    cpu = max(recording.cpus, key=lambda cpu: recording.rows("interval", cpu))
    if cpu not in recording.machines:
        raise UserError(f"{recording.path}: the idle states of CPU {cpu} are unknown")
    chunk = next(recording.intervals(cpu, list(INTERVAL_TYPES)))
    first = columns.sliced(chunk, 0, MOST)
    return Stream(name, group, recording.machines[cpu], recording, first)


def corpus_files(folder: Path) -> list[Path]:
    """Return the recordings of a directory: traces and directories of columns, by name."""
    found = [*folder.glob("*.trace.dat"), *(p for p in folder.glob("*") if columns.is_recording(p))]
    return sorted(found)


@contextmanager
def opened(folder: Path, corpus: Path, count: int, phase: Phase) -> Iterator[list[Stream]]:
    """Make the synthetic streams and open those of the corpus that are there.

    Args:
        folder: scratch space for as long as the context lasts.
        corpus: directory of the corpus; it may be missing.
        count: intervals of each synthetic stream.
        phase: shows progress.

    Raises:
        UserError: a trace cannot be read.
    """
    traces = corpus_files(corpus)
    found = []
    with ExitStack() as stack:
        with phase("Making the streams", len(NAMES) * len(MACHINES) + len(traces)) as done:
            for machine in MACHINES:
                states = synth.machine(machine, HZ)
                group = f"synthetic, {machine}: {states.count} states"
                for name in NAMES:
                    target = folder / f"{machine}-{name}"
                    recording = write(target, name, count, states, f"synth {name}")
                    found.append(_stream(target.name, group, recording))
                    done(1)
            for path, label in zip(traces, labels(traces) if traces else [], strict=True):
                recording = stack.enter_context(columns.opened(path))
                found.append(_stream(label, CORPUS, recording))
                done(1)
        yield found
