# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab doctor`: say whether this machine can run the module."""

import argparse
import json
from dataclasses import asdict

from cpuidle_lab.base.findings import FAIL, WARN, Finding, lines
from cpuidle_lab.base.version import __version__
from cpuidle_lab.host.doctor import can_run, examine
from cpuidle_lab.host.machine import Host
from cpuidle_lab.states import newest

NAME = "doctor"
HELP = "check that this machine can run the module; each finding has its remedy"
EPILOG = """\
examples:
  sudo cpuidle-lab doctor                the running kernel
  cpuidle-lab doctor --kernel 6.12.107+deb13-amd64
                                         another installed kernel, before booting it
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


def packages(_args: argparse.Namespace) -> tuple[str, ...]:
    """Return the Python packages that are enough: none."""
    return ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "--kernel", metavar="VERSION", help="examine this installed kernel, not the running one"
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """Examine the machine and print the findings."""
    machine = Host()
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
        if later := newest.newer():
            print(f"note: {later}")
    return 0 if can_run(findings) else 1
