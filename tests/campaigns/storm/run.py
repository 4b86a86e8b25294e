# SPDX-License-Identifier: GPL-2.0
"""Random operations on both modules at once: no checker reports anything, nothing is left.

Boots the kernel with four CPUs under a load of its own and runs rounds of random operations, up
to four at once: loading and unloading both modules, governors, bases, tunables right and wrong,
resets, shadows, hints of tasks and groups, CPU hotplug, suspend, tracing. After each round the
counts of hints are compared with a recount. All draws depend on the seed alone.
"""

import argparse
import json
import shlex
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.bpf import build
from cpuidle_lab.lab import LabRun, programs, run_lab
from tests.campaigns.storm import operations, options, sabotage, verdict
from tests.lab.hints_guest import program

GUEST = Path(__file__).parent / "guest.sh"
# A storm that gets nowhere must end.
BOOTS = 20

EXAMPLES = {
    "": "1000 rounds on the kernel 'debug'",
    "--rounds 100 --seed 7": "fewer; the same seed draws the same operations",
    "--flavour stock --programs": "programs in BPF, too",
    "--flavour kcsan": "data races",
    "--flavour debug-7.2 --only table": "idle states that change in use, on Linux 7.2",
    "--rounds 50 --sabotage leak": "a module with a fault must be found out",
}


def script(args: argparse.Namespace, before: int) -> str:
    """Return the guest's script, without the first rounds."""
    # Races are reported in blocks, which only the judge can tell apart.
    expected = "." if args.flavour == "kcsan" else verdict.EXPECTED
    lines = [f"EXPECTED={shlex.quote(expected)}", verdict.LEFT, GUEST.read_text(), "begin"]
    rounds = operations.rounds(args.seed, args.rounds, args.cpus, args.programs, args.only)
    drawn = enumerate(rounds, 1)
    lines += [f"round {number} {shlex.join(each)}" for number, each in drawn if number > before]
    return "\n".join([*lines, "finish"])


def bpf_files(cpus: int) -> dict[str, bytes]:
    """Return what the guest needs for programs in BPF."""
    hostile = TOP / "tests/proofs/bpf/hostile"
    with tempfile.TemporaryDirectory() as folder:
        sources = [*(build.source_of(name) for name in build.known()),
                   *(hostile / f"{name}.bpf.c" for name in ("loops", "version"))]  # fmt: skip
        return build.guest_files([build.build(one, cpus, Path(folder)) for one in sources])


def lab_run(args: argparse.Namespace, before: int) -> LabRun:
    """Return a boot for all but the first rounds."""
    files = {f"lab/bin/{name}": program(name) for name in ("hint", "storm", "fuzz")}
    if args.programs:
        files |= bpf_files(max(args.cpus, build.GUEST_CPUS))
    return LabRun(
        script=script(args, before),
        kernel=options.kernel(args),
        cpus=args.cpus,
        seed=args.seed,
        files=files | programs.file(programs.LATNICE),
        memory_mib=build.GUEST_MIB if args.programs else 2048,
        real_time=True,
        time_limit_s=args.time_limit,
        boots=1,
        options=verdict.OPTIONS,
        changes=sabotage.changes(args.sabotage),
    )


def storm(args: argparse.Namespace, folder: Path) -> tuple[verdict.Verdict, float]:
    """Run the storm; return the verdict, and the seconds that the guest took.

    Where the emulator ends the machine, another one goes on after the last round that was checked.

    Raises:
        UserError: the guest's kernel died, or the time is up.
    """
    title = "" if args.json else f"Storm of {args.rounds} rounds on '{args.flavour}'"
    began = time.monotonic()
    before = 0
    for boot in range(1, BOOTS + 1):
        try:
            result = run_lab(lab_run(args, before), folder / "lab", title)
            break
        except UserError:
            console = folder / "lab/console"
            # There is none if the machine has not begun.
            said = console.read_text(errors="replace") if console.exists() else ""
            checked = verdict.checked_before_stale_code(said)
            if checked is None or boot == BOOTS:
                raise
            before = max(before, checked)
            print(f"QEMU ran stale code; on from round {before + 1}", file=sys.stderr, flush=True)
    found = replace(verdict.judge(result), boots=boot)
    if not found.failure and not found.recounts:
        found = replace(found, failure="the counts of hints were never compared")
    ran, attached = found.done.get("program", (0, 0))
    if not found.failure and ran and not attached:
        found = replace(found, failure="no program could be attached")
    return found, time.monotonic() - began


def show(found: verdict.Verdict, args: argparse.Namespace, wall_s: float) -> None:
    """Print the result for people."""
    for name, (ran, succeeded) in found.done.items():
        print(f"  {name:<12}{ran:>6} times, {succeeded:>6} succeeded")
    if found.foreign:
        print(f"  {found.foreign} data races of the kernel's own")
    print(f"  {found.recounts} recounts agree")
    if not found.failure:
        boots = f", {found.boots} boots" if found.boots > 1 else ""
        what = f"{args.rounds} rounds on '{args.flavour}', no report ({wall_s:.0f} s{boots})"
        print(f"seed {args.seed}: {what}")
        return
    print(f"seed {args.seed}: {found.failure}")
    print("\n".join(f"    {line}" for line in found.report))
    print("the last operations before:")
    print("\n".join(f"    {line}" for line in found.before))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    options.add(parser, cpus=4, limit_s=3600)
    add = parser.add_argument
    add("--rounds", type=int, default=1000, help="of operations (default: %(default)s)")
    add("--programs", action="store_true", help="attach programs in BPF (a kernel with BTF)")
    add("--only", nargs="+", choices=operations.NAMES, default=operations.NAMES,
        metavar="OPERATION", help="draw these operations alone (default: all)")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run the storm, show; return the exit code.

    Raises:
        UserError: an option is out of range, or the guest's kernel died.
    """
    if args.rounds < 1 or args.cpus < 2:
        raise UserError("a storm has at least 1 round and 2 CPUs", USAGE)
    drawn = {one.name for one in operations.OPERATIONS}
    if not args.programs and not drawn & set(args.only):
        raise UserError(f"{' '.join(args.only)}: --programs is needed", USAGE)
    options.choose_seed(args)
    with tempfile.TemporaryDirectory(prefix="storm-", dir=TOP / "build") as folder:
        found, wall_s = storm(args, args.output or Path(folder))
    if args.json:
        about = {"seed": args.seed, "rounds": args.rounds, "flavour": args.flavour}
        print(json.dumps({**about, **vars(found), "seconds": round(wall_s)}, indent=2))
    else:
        show(found, args, wall_s)
    return 1 if found.failure else 0
