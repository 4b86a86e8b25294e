# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab kit`: one archive of what this machine shows, and the table of many."""

import argparse
import json
import sys
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError, printable
from cpuidle_lab.base.files import check, marked, scratch, unless_forced
from cpuidle_lab.base.settings import seconds

NAME = "kit"
HELP = "make one archive of what this machine shows of idle governors, or read those of others"
EPILOG = """\
examples:
  sudo cpuidle-lab kit -o kit.tar.gz        doctor, counters, a recording of a minute; with the
                                            module also a comparison on the machine, 20 minutes
  sudo cpuidle-lab kit -o kit.tar.gz --duration 10s
                                            shorter runs
  cpuidle-lab kit --read kits/*.tar.gz      check them, make their figures again, a table

The archive has no name of the host, the user or a program; a part that has one is left out. The
recording is scrubbed of names. Only --read needs Python packages. Governor, tunables and module are
as before in the end. Let the machine do its usual work meanwhile.

exit codes: 0 done, 1 no part could be made, an archive is damaged, or a figure is not that which
was sent, 2 wrong usage
"""

_DURATION_S = 60.0


def packages(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the Python packages that are enough: to make a kit needs none."""
    return ("numpy", "polars", "rich") if args.read else ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add = parser.add_argument
    add("-o", "--output", type=Path, metavar="FILE", help="the archive to be made")
    add("--read", type=Path, nargs="+", metavar="FILE", help="archives of others, in its place")
    add("--duration", type=seconds, metavar="S", default=_DURATION_S,
        help="of the recording, and of each run of the comparison (default: 60)")  # fmt: skip
    add(
        "--keep-names",
        action="store_true",
        help="keep parts that have the host's or the user's name",
    )
    add("--force", action="store_true", help="replace an existing FILE")
    add("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Make an archive, or read some."""
    if (args.output is None) == (args.read is None):
        raise UserError("give -o FILE to make an archive, or --read FILE...", USAGE)
    return _read(args) if args.read else _make(args)


def _read(args: argparse.Namespace) -> int:
    from cpuidle_lab.kit import gather, kit_text, reading

    kits = reading.read_all(args.read, gather.run)
    if args.json:
        json.dump(kit_text.as_json(kits), sys.stdout, indent=2)
        print()
    else:
        kit_text.show(kits)
    return int(any(kit.wrong for kit in kits))


def _make(args: argparse.Namespace) -> int:
    from cpuidle_lab.host.loading import module
    from cpuidle_lab.host.machine import Host
    from cpuidle_lab.kit import archive, gather

    foreign = unless_forced(marked(archive.MARK), args.force)
    check(args.output, foreign)
    machine = Host()
    with scratch() as folder, module(machine):
        place = folder / "kit"
        place.mkdir()
        plan = gather.steps(args.duration, machine.governors())
        missing = gather.gather(place, plan, gather.run, lambda text: print(text, file=sys.stderr))
        for name, word in [] if args.keep_names else archive.naming(place, archive.private_words()):
            (place / name).unlink(missing_ok=True)
            missing[name] = f"it had the name '{word}'"
        if not archive.files_of(place):
            raise UserError(f"no part could be made: {'; '.join(missing.values())}")
        told = {
            "kernel": machine.kernel(), "driver": machine.driver() or "",
            "governor": machine.governor(), "missing": _unnamed(missing, args.keep_names),
        }  # fmt: skip
        archive.pack(place, told, args.output, foreign)
    if args.json:
        print(json.dumps({"file": str(args.output), **told}, indent=2))
        return 0
    for name, why in missing.items():
        print(f"without {name}: {why}")
    print(printable(f"written: {args.output}"))
    return 0


def _unnamed(missing: dict[str, str], names: bool) -> dict[str, str]:
    """Return reasons that may leave the machine: one with a private word says nothing more."""
    from cpuidle_lab.kit import archive

    words = () if names else archive.private_words()
    return {
        name: "left out" if any(word in why for word in words) else why
        for name, why in missing.items()
    }
