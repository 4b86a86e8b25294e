# SPDX-License-Identifier: GPL-2.0
"""24 virtual hours under a light load, one under a heavy one: nothing leaks, drifts or is lost.

Boots a segment of some hours after the other under a light mixed load, and an hour under a heavy
one. Memory must stay flat, what the governors have learned must stay within its bounds, and the
energy account must hold every nanosecond. Each segment is a boot of its own. The files of a
finished one are kept, so that the same command goes on where it was stopped.
"""

import argparse
import datetime
import json
import math
import shlex
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from cpuidle_lab.base.cache import TOP, digest
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import marked, write_whole
from cpuidle_lab.lab import LabRun, built, images, programs, run_lab
from experiments import proofs
from tests.campaigns.soak import judge, plan
from tests.campaigns.storm import sabotage
from tests.lab.hints_guest import program

GUEST = Path(__file__).parent / "guest.sh"
OPTIONS = ("slab_nomerge",)  # each cache under its own name
SAMPLES = 24  # of a segment, beside the one at its begin
DONE = "soak.json"  # in the folder of a segment that is finished

# With a recording: a buffer of each CPU that holds a segment's decisions, so that no writer wakes
# up beside the load. The results lie in the guest's memory, too.
BUFFER_KIB = 1_500_000
RECORDER_MIB = 9_216

EXAMPLES = {
    "": "24 hours at 0.5 %, and one loaded hour",
    "--hours 1 --loaded-hours 0": "a short one",
    "--seed 7 -o build/soak-7": "other operations, kept elsewhere",
    "--loaded-hours 0 --decisions -o build/soak-traces": "record each decision, too",
    "--hours 1 --loaded-hours 0 --sabotage leak": "a module that leaks must be found out",
}


@dataclass(frozen=True)
class Segment:
    """One boot.

    Attributes:
        number: from 0, the loaded ones apart.
        governor: current most of the time.
        base: of the gate, as long.
        hours: of virtual time.
        load: share of all CPUs' time to be busy, in percent.
        loaded: the load is a heavy one.
    """

    number: int
    governor: str
    base: str
    hours: float
    load: float
    loaded: bool

    @property
    def name(self) -> str:
        """Return how its folder's name begins."""
        return f"{'loaded' if self.loaded else 'segment'}-{self.number:02}"

    @property
    def title(self) -> str:
        """Say who decides in it."""
        over = f" over {self.base}" if self.governor == "gate" else ""
        return f"{self.governor}{over}, {self.hours:g} h at {self.load:g} %"


def segments(args: argparse.Namespace) -> list[Segment]:
    """Return the segments of a soak."""
    found: list[Segment] = []
    for hours, load, loaded in (
        (args.hours, args.load, False),
        (args.loaded_hours, args.loaded_load, True),
    ):
        for number in range(math.ceil(hours / args.segment_hours)):
            length = min(args.segment_hours, hours - number * args.segment_hours)
            governor, base = plan.HOMES[number % len(plan.HOMES)]
            found.append(Segment(number, governor, base, length, load, loaded))
    return found


def lab_run(segment: Segment, args: argparse.Namespace) -> LabRun:
    """Return what is booted for a segment."""
    duration_s = round(3600 * segment.hours)
    values = {
        "HOME_GOVERNOR": segment.governor,
        "HOME_BASE": segment.base,
        "DURATION": duration_s,
        "STEP": max(1, duration_s // SAMPLES),
        "LOAD": round(95 * segment.load),  # the last operation and the samples come on top
        "RECORD": BUFFER_KIB if args.decisions else 0,
    }
    head = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in values.items())
    lines = {
        "lab/warm-up": plan.warm_up(args.seed),
        "lab/plan": plan.draw(
            args.seed, segment.number, segment.loaded, segment.governor == "gate"
        ),
    }
    files = {path: ("\n".join(each) + "\n").encode() for path, each in lines.items()}
    files["lab/bin/hint"] = program("hint")
    return LabRun(
        script=head + GUEST.read_text(),
        kernel=args.kernel,
        cpus=plan.CPUS,
        seed=args.seed,
        files=files | programs.file(programs.LATNICE),
        real_time=False,
        # A day that is nearly idle would take hours.
        turn_us=0,
        options=OPTIONS,
        time_limit_s=args.time_limit,
        changes=sabotage.changes(args.sabotage),
        memory_mib=RECORDER_MIB if args.decisions else LabRun.memory_mib,
    )


def key(run: LabRun) -> str:
    """Return a hash of all that a segment depends on."""
    maker = built if run.kernel in built.FLAVOURS else images
    machine = f"{run.seed} {run.cpus} {run.memory_mib} {run.options}"
    parts: list[str | bytes] = [maker.kernel(run.kernel).version, machine, run.script]
    files = dict(run.files) | images.source_files(run.changes)
    for path, data in sorted(files.items()):
        parts += [path, data]
    return digest(parts)


def soak(segment: Segment, args: argparse.Namespace) -> judge.Verdict:
    """Return the verdict on a segment, which is run if that was not done before."""
    run = lab_run(segment, args)
    folder = args.output / f"{segment.name}-{key(run)}"
    if not (folder / DONE).exists():
        title = "" if args.json else f"Soak {segment.name} ({segment.title})"
        result = run_lab(run, folder, title)
        about = {
            **asdict(segment),
            "seed": args.seed,
            "kernel": result.kernel_version,
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "wall_s": round(result.wall_s),
        }
        write_whole(folder / DONE, json.dumps(about, indent=2) + "\n", marked())
        for old in args.output.glob(f"{segment.name}-*"):
            if old != folder and not (old / DONE).exists():
                shutil.rmtree(old)
    return judge.judge(folder)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, seed=1, kernel="6.12", time_limit=3600, sabotage="", json=False,
                  output=TOP / "build" / "soak")  # fmt: skip
    add = parser.add_argument
    add("--hours", type=float, default=24, help="of virtual time (default: %(default)g)")
    add("--segment-hours", type=float, default=4, help="of one boot (default: %(default)g)")
    add("--load", type=float, default=0.5, help="in percent of all CPUs (default: %(default)g)")
    add("--decisions", action="store_true", help="leave each segment's decisions in its trace.dat")
    add("--loaded-hours", type=float, default=1, help="hours beside (default: %(default)g)")
    add("--loaded-load", type=float, default=35, help="load in them (default: %(default)g)")


def run(args: argparse.Namespace) -> int:
    """Soak, show; return the exit code.

    Raises:
        UserError: an option is out of range, or a segment cannot be booted.
    """
    if args.hours < 0 or args.loaded_hours < 0 or args.segment_hours <= 0:
        raise UserError("hours are positive numbers", USAGE)
    if not 0.01 <= args.load <= 90 or not 0.01 <= args.loaded_load <= 90:
        raise UserError("a load is 0.01 to 90 percent", USAGE)
    verdicts = []
    for segment in segments(args):
        verdict = soak(segment, args)
        verdicts.append(verdict)
        if not args.json:
            print(judge.line(verdict), flush=True)
    if args.json:
        print(json.dumps([asdict(each) for each in verdicts], indent=2))
    else:
        print(judge.summary(verdicts))
    return 1 if any(verdict.failures for verdict in verdicts) else 0
