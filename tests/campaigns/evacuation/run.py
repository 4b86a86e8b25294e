# SPDX-License-Identifier: GPL-2.0
"""Random changes of the evacuated CPUs under load: no line in the log, all CPUs back at the end.

Boots a kernel with checkers and four CPUs. Values right and wrong, leases and the cooling device
change the set of CPUs while others go offline and come back. A task that is pinned to one CPU
measures its share of that CPU. All draws depend on the seed alone.
"""

import argparse
import json
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.lab import LabResult, LabRun, run_lab
from tests.campaigns.storm import options, sabotage, verdict

FOLDER = Path(__file__).resolve().parent

# The least of the time that a task that waits on a held CPU has, in percent: the tunable
# evacuate_share_pct, which no change takes below its default. Beside the holder, the load (nice 19)
# and the kernel's own threads take something.
LEAST_SHARE_PCT = 20
TAKEN_BY_OTHERS_PCT = 5
# Share of a second from which on the CPU counts as evacuated.
HELD_PCT = 5

EXAMPLES = {
    "": "1000 changes on the kernel 'debug'",
    "--flavour rt --changes 200 --seed 7": "fewer; the same seed draws the same changes",
}


@dataclass(frozen=True)
class Change:
    """One way to change the set of CPUs.

    Attributes:
        weight: how often it is drawn, beside the others.
        draw: returns the words for the guest: what must come of it, and what is done.
    """

    weight: int
    draw: Callable[[Random, int], tuple[str, ...]]


@dataclass(frozen=True)
class Second:
    """Times of the pinned task in one second, in ns.

    Attributes:
        run: in which it ran.
        wait: in which it did not; it always wants to.
        held: in which its CPU was held idle.
    """

    run: int
    wait: int
    held: int

    @property
    def share_pct(self) -> float:
        """Return its share of the CPU."""
        return 100 * self.run / max(self.run + self.wait, 1)

    @property
    def held_pct(self) -> float:
        """Return the share of the time in which its CPU was held idle."""
        return 100 * self.held / max(self.run + self.wait, 1)


@dataclass(frozen=True)
class EvacuationResult:
    """The counts and the verdict of all changes.

    Attributes:
        failure: one sentence, empty if all is well.
        report: the first report, as lines of the log.
        taken: number of changes that the module took.
        refused: number of changes that it refused.
        hotplugs: number of times that a CPU went offline.
        seconds: in which the pinned task's CPU was evacuated.
        share_pct: of the pinned task in those, in percent.
        least_pct: the least share in one of them.
        held_pct: of that second, in which its CPU was held idle.
        wall_s: time that the guest took.
    """

    failure: str
    report: list[str]
    taken: int
    refused: int
    hotplugs: int
    seconds: int
    share_pct: float
    least_pct: float
    held_pct: float
    wall_s: float


def _percentage(rng: Random, _cpus: int) -> tuple[str, ...]:
    value = rng.choice((1, 10, 25, 33, 50, 62, 75, 87, 99, 100, 0, 101, "x"))
    wanted = "refused" if value in (0, 101, "x") else "taken"
    how = rng.choice(("set", "parameter"))
    return wanted, how, "max_capacity_pct", str(value)


def _named(rng: Random, cpus: int) -> tuple[str, ...]:
    """Draw a list of CPUs. One of them may be offline at that moment."""
    some = sorted(rng.sample(range(cpus), rng.randint(0, cpus)))
    wanted = "taken" if not some else "any"
    return wanted, "set", "evacuate_cpus", ",".join(map(str, some))


def _lease(rng: Random, cpus: int) -> tuple[str, ...]:
    name = rng.choice(("7", "8"))
    if rng.random() < 0.4:
        return "taken", "unlease", name
    if rng.random() < 0.5:
        return "taken", "lease", name, f"max_capacity_pct={rng.randint(1, 100)}"
    return "any", "lease", name, f"evacuate_cpus={rng.randrange(cpus)}"


def _tunable(rng: Random, _cpus: int) -> tuple[str, ...]:
    name, values = rng.choice((
        ("evacuate_slice_us", (1000, 5000, 10000, 30000, 100000)),
        ("evacuate_share_pct", (LEAST_SHARE_PCT, 35, 50)),
        ("evacuate_backoff_ms", (10, 50, 100, 1000)),
        ("evacuate_latency_us", (20, 200, 1000000)),
        ("evacuate_order", ("performance-first", "efficient-first")),
    ))  # fmt: skip
    return "taken", "set", name, str(rng.choice(values))


CHANGES = (
    Change(8, _percentage),
    Change(4, _named),
    Change(4, _lease),
    Change(4, _tunable),
    Change(1, lambda _r, _c: ("taken", "set", "defaults", "1")),
    # A kernel may have no thermal framework.
    Change(2, lambda r, cpus: ("any", "cool", str(r.randint(0, cpus)))),
)


def changes(seed: int, count: int, cpus: int) -> Iterator[tuple[str, ...]]:
    """Yield the words of each change: what must come of it, a pause in ms, what is done.

    Args:
        seed: of all that is drawn; more changes begin like fewer.
        count: number of changes.
        cpus: of the machine; at least 2.
    """
    rng = Random(seed)
    for _ in range(count):
        (kind,) = rng.choices(CHANGES, [change.weight for change in CHANGES])
        wanted, *words = kind.draw(rng, cpus)
        yield wanted, str(rng.choice((0, 1, 10, 30, 100))), *words


def script(args: argparse.Namespace) -> str:
    """Return the guest's script."""
    expected = "." if args.flavour == "kcsan" else verdict.EXPECTED
    lines = [f"EXPECTED={shlex.quote(expected)}", f"PINNED={args.cpus - 1}", verdict.LEFT]
    lines += [(FOLDER / "guest.sh").read_text(), "begin"]
    for number, each in enumerate(changes(args.seed, args.changes, args.cpus), 1):
        lines.append(f"change {number} {shlex.join(each)}")
    return "\n".join([*lines, "finish"])


def pinned() -> bytes:
    """Return the program of the pinned task, linked statically."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "pinned"
        command = ["gcc", "-std=gnu11", "-O2", "-Wall", "-static", "-o", str(target)]
        subprocess.run([*command, str(FOLDER / "pinned.c")], check=True)
        return target.read_bytes()


def lab_run(args: argparse.Namespace) -> LabRun:
    """Return the boot."""
    return LabRun(
        script=script(args),
        kernel=options.kernel(args),
        cpus=args.cpus,
        packages=2,
        seed=args.seed,
        files={"usr/bin/pinned": pinned()},
        memory_mib=2048,
        real_time=True,
        time_limit_s=args.time_limit,
        options=verdict.OPTIONS,
        changes=sabotage.changes(args.sabotage),
    )


def parse_shares(text: str) -> list[Second]:
    """Return what the pinned task has printed; a last line may be cut off."""
    rows = [line.split() for line in text.splitlines()]
    return [Second(*map(int, row)) for row in rows if len(row) == 3]


def starved(seconds: Sequence[Second]) -> str:
    """Return in one sentence that the pinned task was starved, or nothing.

    Args:
        seconds: those in which its CPU was evacuated.
    """
    if not seconds:
        return "the CPU of the pinned task was never held"
    least = min(second.share_pct for second in seconds)
    limit = LEAST_SHARE_PCT - TAKEN_BY_OTHERS_PCT
    return f"the pinned task had {least:.0f} % of a second" if least < limit else ""


def judge(result: LabResult, wall_s: float) -> EvacuationResult:
    """Return what the changes in a guest that came to its end came to."""
    found = verdict.judge(result)

    def lines(name: str) -> list[str]:
        path = result.files / name
        return path.read_text().splitlines() if path.exists() else []

    made = lines("changes")
    all_seconds = parse_shares("\n".join(lines("shares")))
    seconds = [each for each in all_seconds if each.held_pct >= HELD_PCT]
    worst = min(seconds, key=lambda each: each.share_pct, default=Second(0, 0, 0))
    total = Second(sum(s.run for s in seconds), sum(s.wait for s in seconds), 0)
    return EvacuationResult(
        found.failure or starved(seconds),
        found.report,
        made.count("taken"),
        made.count("refused"),
        len(lines("hotplugs")),
        len(seconds),
        round(total.share_pct, 1),
        round(worst.share_pct, 1),
        round(worst.held_pct, 1),
        round(wall_s),
    )


def show(found: EvacuationResult, args: argparse.Namespace) -> None:
    """Print the result for people."""
    print(f"  {found.taken} changes taken, {found.refused} refused, {found.hotplugs} times offline")
    print(f"  pinned task: {found.share_pct} % of {found.seconds} s on an evacuated CPU,"
          f" {found.least_pct} % in the worst second (held {found.held_pct} %)")  # fmt: skip
    what = found.failure or f"no report ({found.wall_s:.0f} s)"
    print(f"seed {args.seed}: {args.changes} changes on '{args.flavour}', {what}")
    print("\n".join(f"    {line}" for line in found.report))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add(parser, cpus=4, limit_s=3600)
    parser.add_argument("--changes", type=int, default=1000, help="to make (default: 1000)")


def run(args: argparse.Namespace) -> int:
    """Change the set of CPUs at random, judge, show; return the exit code.

    Raises:
        UserError: an option is out of range, or the guest's kernel died.
    """
    if args.changes < 1 or args.cpus < 3:
        raise UserError("at least 1 change and 3 CPUs", USAGE)
    options.choose_seed(args)
    title = "" if args.json else f"{args.changes} changes on '{args.flavour}'"
    with tempfile.TemporaryDirectory(prefix="evacuation-", dir=TOP / "build") as scratch:
        folder = args.output or Path(scratch)
        began = time.monotonic()
        result = run_lab(lab_run(args), folder / "lab", title)
        found = judge(result, time.monotonic() - began)
    if args.json:
        about = {"seed": args.seed, "changes": args.changes, "flavour": args.flavour}
        print(json.dumps({**about, **vars(found)}, indent=2))
    else:
        show(found, args)
    return 1 if found.failure else 0
