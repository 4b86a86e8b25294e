# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab doctor`: say whether this machine can run the module."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.findings import FAIL, OK, WARN, Finding, lines
from cpuidle_lab.base.version import __version__
from cpuidle_lab.host.doctor import can_run, examine
from cpuidle_lab.host.machine import Machine

NAME = "doctor"
HELP = "check that this machine can run the module; each finding has its remedy"
EPILOG = """\
examples:
  sudo cpuidle-lab doctor                the running kernel
  cpuidle-lab doctor --kernel 6.12.107+deb13-amd64
                                         another installed kernel, before booting it
  cpuidle-lab doctor --trace trace.dat   check a recording, and replay on it
  cpuidle-lab doctor --json | jq .can_run

exit codes: 0 the module can run, 1 something must be done first, 2 wrong usage
"""


def _print_text(findings: list[Finding]) -> None:
    print("\n".join(lines(findings)))
    failed = sum(finding.status == FAIL for finding in findings)
    warned = sum(finding.status == WARN for finding in findings)
    verdict = f"cannot run the module: {failed} to be mended" if failed else "can run the module"
    limits = f", {warned} warning{'' if warned == 1 else 's'}" if warned else ""
    print(f"\nThis machine {verdict}{limits}.")


def packages(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the Python packages that are enough: none for a machine, all for a recording."""
    return () if args.trace is None else ("numpy", "polars")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--kernel", metavar="VERSION", help="examine this installed kernel, not the running one"
    )
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="examine this recording, not the machine"
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def examine_trace(path: Path) -> list[Finding]:
    """Examine a recording: what is missing, what overslept, how its own governors replay.

    Raises:
        UserError: it cannot be read.
    """
    # Here, so that the machine can be examined where only Python is.
    from cpuidle_lab.crossval import targets, trust
    from cpuidle_lab.recording import columns
    from cpuidle_lab.recording.stock import omissions, stock_line

    with columns.opened(path) as recording:
        known = recording.kind == columns.TRACE
        kind = "decisions of the module" if known else "power:cpu_idle events alone"
        if known and recording.stock:
            kind = stock_line(recording.stock)
        remedy = "" if known else "capture --stock records what governors are told, then replay"
        found = [Finding("events", OK if known else WARN, kind, remedy)]
        found += [Finding("events", WARN, line) for line in omissions(recording.stock or {})]
        lost = recording.integrity
        found.append(
            Finding("complete", OK, f"{lost.events:,} events, none lost")
            if lost.complete
            else Finding("complete", WARN, "events were lost", "record into a larger buffer (-b)")
        )
        share = trust.overslept_share(recording)
        # More says that the clock or the emulator is at fault.
        status = OK if share <= 100 * targets.OVERSLEPT_SHARE else WARN
        remedy = (
            "" if status == OK else "these intervals have no regret; look for what delays timers"
        )
        found.append(Finding("overslept", status, f"{share:.3f} % of the idle time", remedy))
        held = (
            f"the tick had to go on at the beginning of {trust.held_share(recording):.1f} % of the "
        )
        found.append(Finding("tick", OK, f"{held}intervals"))
        own, why = trust.trust(recording, path)
        for one in own:
            status = WARN if one.doubtful else OK
            found.append(Finding("replay", status, one.line()))
        if why:
            found.append(Finding("replay", WARN, f"cannot be checked: {why}"))
        return found


def run(args: argparse.Namespace) -> int:
    """Examine the machine, or a recording, and print what was found."""
    if args.trace is not None:
        if args.kernel is not None:
            raise UserError("give one of --kernel and --trace", USAGE)
        findings = examine_trace(args.trace)
        if args.json:
            told = [asdict(finding) for finding in findings]
            print(
                json.dumps({"command": NAME, "trace": str(args.trace), "findings": told}, indent=2)
            )
        else:
            print("\n".join(lines(findings)))
        return 0
    machine = Machine()
    findings = examine(machine, args.kernel)
    if args.json:
        print(
            json.dumps(
                {
                    "command": NAME,
                    "version": __version__,
                    "kernel": args.kernel or machine.kernel(),
                    "can_run": can_run(findings),
                    "findings": [asdict(finding) for finding in findings],
                },
                indent=2,
            )
        )
    else:
        _print_text(findings)
    return 0 if can_run(findings) else 1
