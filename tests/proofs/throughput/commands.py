# SPDX-License-Identifier: GPL-2.0
"""Time and memory of whole commands, on recordings of many sizes and kinds."""

import math
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cpuidle_lab.base.cache import TOP, digest
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.progress import Meter
from cpuidle_lab.evidence.tables import Cell, Table, Verdict, verdict
from cpuidle_lab.recording.formats.writer import Writer
from cpuidle_lab.replay.library import governor
from tests.proofs.throughput.reader import events_of, measure
from tests.unit import kernel_events, synthetic, tracedat

# Targets on two cores: anonymous memory of all processes, and time for twice the events.
MOST_BYTES = 1 << 30
MOST_GROWTH = 2.2

# Starting and ending take a second, whatever the size.
START_S = 1.0

PHASES = 1_000
# The synthetic recordings have so many events of a CPU in so long a time, about.
_EVENTS, _TIME_NS = 365, 5_000_000
# A phase has an event of each CPU.
_LEAST_NS = 20_000

# Kinds of recording; of each but the first, only the smallest size is measured.
PHASED, WHOLE, MANY_CPUS, CHECKPOINTS, STOCK = (
    f"{PHASES:,} phases", "one phase", "128 CPUs", "checkpoints", "stock",
)  # fmt: skip


@dataclass(frozen=True)
class Command:
    """A command that is measured.

    Attributes:
        name: in the table.
        words: the command line; {trace} and {out} stand for the recording and a new path.
        events_per_s: target; 0: none.
    """

    name: str
    words: tuple[str, ...]
    events_per_s: int = 0


COMMANDS = (
    Command("report", ("report", "{trace}", "-o", "{out}.html"), 1_000_000),
    Command(
        "compare",
        ("compare", "{trace}", "--governors", "wteo,menu_ng", "--no-instructions",
         "-o", "{out}.html"),
        500_000,
    ),
    Command("replay --check", ("replay", "--check", "{trace}")),
    Command("export --parquet", ("export", "--parquet", "{out}", "{trace}"), 1_000_000),
    Command("export --perfetto", ("export", "--perfetto", "{out}.pftrace", "{trace}")),
    Command("tune", ("tune", "{trace}", "--governor", "menu_ng", "--trials", "10", "--fresh")),
)  # fmt: skip
# Reader of the same recording by others, where it is installed.
TRACE_CMD = "trace-cmd"
OTHER = Command("trace-cmd report", (TRACE_CMD, "report", "-i", "{trace}"))
# Of a CPU with more events it reads a part, and says nothing (docs/throughput.md).
OTHER_MOST_BYTES = 1 << 31


@dataclass(frozen=True)
class RecordingShape:
    """Shape of a recording.

    Attributes:
        events: how many at least.
        kind: what is special about it; all but WHOLE and STOCK have PHASES phases.
    """

    events: int
    kind: str = PHASED

    @property
    def title(self) -> str:
        """Name in the table."""
        return f"{self.events:,}, {self.kind}"

    @property
    def cpus(self) -> int:
        """Number of CPUs."""
        return {MANY_CPUS: 128, STOCK: 1}.get(self.kind, 2)


def shapes(sizes: Sequence[int]) -> list[RecordingShape]:
    """Return a shape of each size, and of each other kind the smallest."""
    others = (WHOLE, MANY_CPUS, CHECKPOINTS, STOCK)
    kinds = [RecordingShape(min(sizes), kind) for kind in others]
    return [*(RecordingShape(size) for size in sorted(sizes)), *kinds]


@dataclass(frozen=True)
class Found:
    """Cost of a command on a recording.

    Attributes:
        command: its name.
        case: title of the recording.
        events: in it.
        wall_s, cpu_s: time, and CPU time of all processes.
        peak_bytes: anonymous memory of all processes at once.
    """

    command: str
    case: str
    events: int
    wall_s: float
    cpu_s: float
    peak_bytes: int

    @property
    def kind(self) -> str:
        """Shape without its size."""
        return self.case.partition(", ")[2]

    @property
    def spent_s(self) -> float:
        """Time, or CPU time if that is less: then the machine had other work meanwhile."""
        return min(self.wall_s, self.cpu_s)

    @property
    def events_per_s(self) -> int:
        """Events by time."""
        return round(self.events / self.spent_s)


def recording(folder: Path, shape: RecordingShape) -> Path:
    """Return a synthetic trace.dat of a shape, made once."""
    sources = [Path(str(module.__file__)) for module in (synthetic, tracedat, kernel_events)]
    sources.append(TOP / "module" / "trace.h")
    kind = shape.kind.replace(" ", "-").replace(",", "")
    name = f"command-{shape.events}-{kind}"
    path = folder / f"{name}-{digest(source.read_bytes() for source in sources)}.dat"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".command-", dir=folder) as scratch:
            made = Path(scratch) / path.name
            if shape.kind == STOCK:
                _write_stock(made, shape.events)
            else:
                _write(made, shape)
            made.rename(path)
    return path


def _write(path: Path, shape: RecordingShape) -> None:
    """Write a recording of the module: one phase, again and again."""
    session = synthetic.Session(cpus=shape.cpus)
    is_marked = shape.kind != WHOLE
    events = shape.events // PHASES // shape.cpus if is_marked else _EVENTS * 100
    # The state with which teo_ng begins.
    state = bytes(governor("teo_ng").state_size) if shape.kind == CHECKPOINTS else b""
    length_ns = max(_LEAST_NS, events * _TIME_NS // _EVENTS)
    session.phase("teo_ng", "hackbench", length_ns, marked=is_marked, state=state)
    session.trace.write_large(path, shape.events)


def _write_stock(path: Path, events: int) -> None:
    """Write a recording of an unmodified kernel, without phases."""
    draw = random.Random(1)
    kernel = kernel_events.Kernel()
    with Writer(path) as writer:
        count = 0
        while count < events:
            sleep = int(draw.expovariate(1e-6)) + 20_000
            stay = min(sleep, int(draw.expovariate(1 / 300_000)) + 1_000)
            state = 2 if sleep > 600_000 else 1
            kernel.idle(state, stay, sleep=sleep, delta=sleep, expiry=stay == sleep)
            for event in kernel.events:
                writer.add(event)
            count += len(kernel.events)
            kernel.events.clear()


def run(command: Command, shape: RecordingShape, trace: Path, scratch: Path) -> Found:
    """Measure a command on a recording.

    Raises:
        UserError: it failed.
    """
    out = scratch / "out"
    words = [word.format(trace=trace, out=out) for word in command.words]
    if command is not OTHER:
        words = [str(TOP / "cpuidle-lab"), *words]
    cpu, wall, _, peak, code = measure(words)
    # The decisions of the synthetic recording are not those of a governor: --check finds that.
    if code and not (code == 1 and "--check" in words):
        raise UserError(f"{command.name} failed on {trace}: exit code {code}")
    return Found(command.name, shape.title, events_of(trace), wall, cpu, 1024 * peak)


def measured(folder: Path, sizes: Sequence[int], meter: Meter) -> list[Found]:
    """Measure all commands on all recordings.

    Raises:
        UserError: a command failed.
    """
    wanted = [*COMMANDS, *([OTHER] if shutil.which(TRACE_CMD) else [])]
    found = []
    every = shapes(sizes)
    with meter("Running commands", len(every) * len(wanted)) as done:
        for shape in every:
            trace = recording(folder, shape)
            for command in wanted:
                if command is OTHER and trace.stat().st_size > OTHER_MOST_BYTES * shape.cpus:
                    done(1)
                    continue
                with tempfile.TemporaryDirectory(prefix=".scratch-", dir=folder) as scratch:
                    found.append(run(command, shape, trace, Path(scratch)))
                done(1)
    return found


def growth(less: Found, more: Found) -> float:
    """Return how much longer a command takes for twice the events; starting counts as START_S."""
    doublings = math.log2(more.events / less.events)
    return float((max(more.spent_s, START_S) / max(less.spent_s, START_S)) ** (1 / doublings))


def verdicts(found: Sequence[Found]) -> Iterator[Verdict]:
    """Judge each command on each recording."""
    targets = {one.name: one.events_per_s for one in COMMANDS}
    for one in found:
        if one.command not in targets:
            continue
        where = f"{one.command}, {one.case}"
        peak = f"{one.peak_bytes / 2**20:,.0f} MiB"
        yield verdict(one.peak_bytes <= MOST_BYTES, f"{where}: at most 1 GiB", peak)
        if least := targets[one.command]:
            allowed_s = START_S + one.events / least
            yield verdict(
                one.spent_s <= allowed_s,
                f"{where}: {least:,} events a second after {START_S:g} s",
                f"{one.spent_s:.1f} s, {one.events_per_s:,} a second in all",
            )
    for name in targets:
        every = sorted((one for one in found if one.command == name), key=lambda one: one.events)
        more = every[-1]
        less = next(one for one in every if one.kind == more.kind)
        if more.events < 2 * less.events:
            continue
        times = growth(less, more)
        yield verdict(
            times <= MOST_GROWTH,
            f"{name}: twice the events take at most {MOST_GROWTH} times as long",
            f"{times:.2f}",
        )


def table(found: Sequence[Found]) -> Table:
    """Return the figures as a table."""
    rows: list[list[Cell]] = [
        [one.case, one.command, one.wall_s, one.cpu_s, one.events_per_s, one.peak_bytes / 2**20]
        for one in found
    ]
    heads = ("events", "command", "s", "CPU s", "events a second", "MiB")
    return Table("Whole commands", heads, rows)


def as_json(found: Sequence[Found]) -> list[dict[str, object]]:
    """Return the figures as JSON can have them."""
    return [asdict(one) | {"events_per_s": one.events_per_s} for one in found]
