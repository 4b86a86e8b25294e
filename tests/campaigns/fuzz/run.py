# SPDX-License-Identifier: GPL-2.0
"""Random calls of several processes on every file of the modules: no checker reports anything.

Boots the kernel and lets several processes at once use all files below the modules' folders in
debugfs, their parameters, the powercap zone, the device, and the folder of the trace events: open,
read, write, seek, poll, map, ioctl, with inputs from right to hostile. The work is cut into
slices. After each of them every governor must work, the counts of hints must agree with a recount,
and each row of wteo must sum to 10000.
"""

import argparse
import json
import random
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.lab import LabResult, LabRun, programs, run_lab
from tests.campaigns.storm import options, sabotage, verdict

FUZZER = programs.Program(
    "fuzz_files",
    "tests/campaigns/fuzz/fuzz_files.c",
    (
        "tests/campaigns/fuzz/file_inputs.h",
        "tests/lab/hints/call.h",
        "module/uapi/cpuidle_latency.h",
    ),
)
STORM = TOP / "tests/campaigns/storm/guest.sh"
GUEST = Path(__file__).with_name("files.sh")
SLICE = 50_000
# One in so many operations is for the events' files: most of these wait for a grace period.
EVENTS = 20
LEAST = 1000
# Most of the time would pass with waiting for the ends of grace periods.
OPTIONS = (*verdict.OPTIONS, "rcupdate.rcu_expedited=1")
# For Python and for grep -E: what a refused write may log, whatever its text was: our parameters,
# and the uevents of the kernel.
REFUSALS = (
    r"cpuidle_lab: \w+: no tunable |cpuidle_lab: gate: there is no base governor "
    r"|uevent: failed to send synthetic uevent|synth uevent: "
    r"|(kobject_synth_uevent|uevent_store): [0-9]+ callbacks suppressed"
)
ONLY = re.compile(rf"^(?!.*(?:{REFUSALS}))")

EXAMPLES = {
    "": "a million operations on the kernel 'debug'",
    "--operations 50000 --seed 7": "fewer; a seed draws the same again",
    "--flavour stock --kernel 7.2": "another kernel",
    "--operations 5000 --sabotage use-after-free": "a fault must be found out",
}


@dataclass
class File:
    """Counts of the operations on a file.

    Attributes:
        mode: permissions, as an octal number says.
        operations: on an open file.
        reads: that gave something.
        writes: that were accepted.
    """

    mode: str = ""
    operations: int = 0
    reads: int = 0
    writes: int = 0


@dataclass
class Answers:
    """Answers of the files.

    Attributes:
        operations: number of calls by name, then by result ("ok" or an error's name).
        inputs: number of writes by kind of input, then "accepted" or "refused".
        files: by path.
    """

    operations: dict[str, Counter[str]] = field(default_factory=dict)
    inputs: dict[str, Counter[str]] = field(default_factory=dict)
    files: dict[str, File] = field(default_factory=dict)

    def total(self) -> int:
        """Return the number of operations."""
        return sum(counts.total() for counts in self.operations.values())

    def untouched(self) -> list[str]:
        """Return the files that were never used."""
        return sorted(path for path, file in self.files.items() if not file.operations)


def slices(seed: int, operations: int) -> Iterator[tuple[int, int]]:
    """Yield the seed of each slice and its number of operations; more slices change no earlier."""
    source = random.Random(seed)
    while operations > 0:
        size = min(SLICE, operations)
        yield source.randrange(1 << 62), size
        operations -= size


def script(seed: int, operations: int, processes: int) -> str:
    """Return the guest's script."""
    expected = f"{verdict.EXPECTED}|{REFUSALS}"
    head = f"EXPECTED={shlex.quote(expected)}"
    lines = [head, verdict.LEFT, STORM.read_text(), GUEST.read_text()]
    lines.append("begin_fuzz")
    for number, (drawn, size) in enumerate(slices(seed, operations), 1):
        events = size // EVENTS // processes * processes
        lines.append(f"slice {number} {drawn} {processes} {size - events} {events}")
    return "\n".join([*lines, "finish_fuzz"])


def parse(text: str) -> Answers:
    """Add up what the slices printed, see fuzz_files.c.

    Raises:
        ValueError: a line is of no known kind.
    """
    answers = Answers()
    for line in text.splitlines():
        what, *words = line.split()
        if what in ("operation", "input"):
            name, result, count = words
            table = answers.operations if what == "operation" else answers.inputs
            table.setdefault(name, Counter())[result] += int(count)
        elif what == "file":
            path, mode, *counts = words
            file = answers.files.setdefault(path, File(mode))
            file.operations += int(counts[0])
            file.reads += int(counts[1])
            file.writes += int(counts[2])
        else:
            raise ValueError(f"unknown line '{line}'")
    return answers


def judge(result: LabResult, operations: int) -> tuple[verdict.Verdict, Answers]:
    """Return the verdict, and what the files said.

    Args:
        result: of the guest.
        operations: that were asked for.
    """
    found = verdict.judge(result, ONLY)
    path = result.files / "answers"
    answers = parse(path.read_text()) if path.exists() else Answers()
    if not found.failure:
        found = replace(found, failure=_missing(result, answers, operations))
    return found, answers


def _missing(result: LabResult, answers: Answers, operations: int) -> str:
    """Return what of the work was not done, in one sentence; nothing if all was."""
    rows = result.files / "rows"
    if not rows.exists() or not rows.read_text():
        return "no row of wteo was ever looked at"
    if answers.untouched():
        return f"never used: {', '.join(answers.untouched())}"
    if answers.total() != operations:
        return f"{answers.total()} operations, not {operations}"
    return ""


def fuzz(args: argparse.Namespace, folder: Path) -> tuple[verdict.Verdict, Answers, LabResult]:
    """Run it; return the verdict, what the files said, and the guest's result."""
    run = LabRun(
        script=script(args.seed, args.operations, args.processes),
        kernel=options.kernel(args),
        cpus=args.cpus,
        seed=args.seed % (1 << 31),
        files=programs.file(FUZZER),
        memory_mib=2048,
        real_time=True,
        time_limit_s=args.time_limit,
        options=OPTIONS,
        changes=sabotage.changes(args.sabotage),
    )
    title = "" if args.json else f"{args.operations} operations on '{args.flavour}'"
    result = run_lab(run, folder / "lab", title)
    return *judge(result, args.operations), result


def show(found: verdict.Verdict, answers: Answers, args: argparse.Namespace, wall_s: float) -> None:
    """Print the result for people."""
    for name, counts in answers.operations.items():
        results = ", ".join(f"{result} {count}" for result, count in counts.most_common())
        print(f"  {name:<10}{counts.total():>8}: {results}")
    for name, counts in answers.inputs.items():
        print(f"  input {name:<13}{counts['accepted']:>8} accepted{counts['refused']:>8} refused")
    files = answers.files.values()
    writable = [file for file in files if int(file.mode or "0", 8) & 0o200]
    print(
        f"  {len(files)} files, {len(answers.untouched())} never used; something was read from "
        f"{sum(file.reads > 0 for file in files)}; a write was accepted by "
        f"{sum(file.writes > 0 for file in writable)} of {len(writable)} that can be written"
    )
    print(f"  {found.recounts} recounts agree")
    what = f"{answers.total()} operations on '{args.flavour}'"
    print(f"seed {args.seed}: {what}, {found.failure or 'no report'} ({wall_s:.0f} s)")
    if found.failure:
        print("\n".join(f"    {line}" for line in found.report))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add(parser, cpus=2, limit_s=7200)
    add = parser.add_argument
    add("--operations", type=int, default=1_000_000, help="of all processes (default: a million)")
    add("--processes", type=int, default=4, help="at once, 1 to 16 (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Fuzz the files, show; return the exit code.

    Raises:
        UserError: an option is out of range, or the guest's kernel died.
    """
    if not 1 <= args.processes <= 16:
        raise UserError("1 to 16 processes", USAGE)
    if args.operations < LEAST or args.operations % args.processes:
        raise UserError(f"at least {LEAST} operations, and a multiple of the processes", USAGE)
    options.choose_seed(args)
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=TOP / "build") as folder:
        found, answers, result = fuzz(args, args.output or Path(folder))
    if args.json:
        about = {"seed": args.seed, "flavour": args.flavour, "seconds": round(result.wall_s)}
        files = {path: vars(file) for path, file in answers.files.items()}
        print(json.dumps({**about, **vars(found), **vars(answers), "files": files}, indent=2))
    else:
        show(found, answers, args, result.wall_s)
    return 1 if found.failure else 0
