# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab bpf`: governors as programs in BPF, on the running machine."""

import argparse
import contextlib
import json
import sys
import time
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.bpf import build, live
from cpuidle_lab.host.machine import Host

NAME = "bpf"
HELP = "run a governor as a program in BPF: from an edit to the live governor in seconds"
EPILOG = """\
examples:
  sudo cpuidle-lab bpf run wteo --watch      a shadow; each save of a source replaces it
  sudo cpuidle-lab bpf run wteo --use        it decides, until Ctrl-C
  sudo cpuidle-lab bpf run my.bpf.c --use --pin
  sudo cpuidle-lab bpf status --json
  sudo cpuidle-lab bpf set learning_rate=20
  sudo cpuidle-lab bpf stop                  let go of what --pin left
  cpuidle-lab bpf build wteo -o /tmp         the object file alone, and its description
  sudo cpuidle-lab bpf run /tmp/wteo.bpf.o   on a machine without the compiler, too

FILE is a governor that has a file in bpf/, the path of such a file, or an object that `build` made,
with its description beside it. As a shadow it decides
beside the current governor, which must be one of cpuidle_lab; the file shadow_stats in debugfs
shows how often both agree. docs/bpf.md begins with an empty file.

exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted
"""


def packages(_args: argparse.Namespace) -> tuple[str, ...]:
    """Return the Python packages that are enough: none."""
    return ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("action", choices=("run", "status", "dump", "set", "stop", "build"), metavar="ACTION",
        help="run, status, dump, set, stop, build")  # fmt: skip
    add("what", nargs="?", metavar="FILE|NAME=VALUE", help="what to run or build, or to set")
    add("--use", action="store_true", help="run: let it decide; otherwise it is a shadow")
    add("--watch", action="store_true", help="run: replace it whenever a source is saved")
    add("--pin", action="store_true", help="run: leave it attached, and end")
    add("--cpus", type=int, metavar="N", help="CPUs of the machine it is for (default: this one)")
    add("-o", "--output", type=Path, default=build.OBJECTS, metavar="DIR",
        help="folder of the object (default: build/bpf)")  # fmt: skip
    add("--json", action="store_true", help="print the answer as JSON")


def _show(args: argparse.Namespace, found: dict[str, object]) -> None:
    if args.json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        print(f"{name:10} {value}")


def _build(args: argparse.Namespace) -> build.Program:
    if args.what.endswith(".o"):
        return build.prebuilt(Path(args.what))
    return build.build(build.source_of(args.what), args.cpus, args.output)


def _run_build(args: argparse.Namespace) -> None:
    program = _build(args)
    _show(args, {"name": program.name, "hash": program.hash, "object": str(program.path)})


def _replace(args: argparse.Namespace, loader: live.Loader, before: build.Program) -> build.Program:
    """Build again and replace the program; where that fails, the old one goes on."""
    start = time.monotonic()
    try:
        program = _build(args)
        loader.replace(program)
    except UserError as error:
        loader.check()
        print(f"cpuidle-lab: {error.message}; the program before goes on", file=sys.stderr)
        return before
    took = time.monotonic() - start
    print(f"{program.name} {program.hash} replaced in {took:.1f} s", flush=True)
    return program


def _run_live(args: argparse.Namespace) -> None:
    machine = Host()
    live.check(machine, args.use)
    start = time.monotonic()
    program = _build(args)
    loader = live.Loader(program, args.pin)
    with contextlib.closing(loader), live.deciding(machine, args.use, args.pin):
        took = time.monotonic() - start
        role = "decides" if args.use else "is a shadow"
        print(f"{program.name} {program.hash} {role}, after {took:.1f} s", flush=True)
        if args.pin:
            return
        if not args.watch:
            loader.wait()

        def changed() -> tuple[Path, ...]:
            nonlocal program
            program = _replace(args, loader, program)
            return program.sources

        live.watch(program.sources, changed, loader.check)


def run(args: argparse.Namespace) -> int:
    """Run the subcommand."""
    needs = args.action in ("run", "set", "build")
    if needs != (args.what is not None):
        raise UserError(f"bpf {args.action} takes {'one word' if needs else 'no word'} more", USAGE)
    if args.cpus is not None and args.cpus < 1:
        raise UserError("--cpus must be above 0", USAGE)
    if args.watch and args.pin:
        raise UserError("--watch and --pin exclude each other", USAGE)
    machine = Host()
    if args.action == "build":
        _run_build(args)
    elif args.action == "status":
        _show(args, dict(live.status(machine)))
    elif args.action == "dump":
        sys.stdout.write(live.dump(machine))
    elif args.action == "set":
        live.set_tunable(machine, args.what, args.output)
    elif args.action == "stop":
        live.stop(machine)
    else:
        _run_live(args)
    return 0
