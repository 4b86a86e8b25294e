# SPDX-License-Identifier: GPL-2.0
"""Findings: the results of checks, with remedies."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

OK = "ok"
WARN = "warn"
FAIL = "fail"

# Colours of a terminal, by status, and of remedies: SGR codes.
_COLOURS = {OK: "32", WARN: "33", FAIL: "1;31"}
_REMEDY_COLOUR = "36"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        check: name of the check.
        status: OK, WARN (usable, with a limit) or FAIL (the module cannot run).
        found: the state of things.
        remedy: a command or an action; "" if nothing need be done.
    """

    check: str
    status: str
    found: str
    remedy: str = ""


def _coloured(text: str, code: str) -> str:
    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return f"\033[{code}m{text}\033[0m" if wanted and os.environ.get("TERM") != "dumb" else text


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield findings as lines of text, in colours on a terminal; a remedy is below its finding."""
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        status = _coloured(f"{finding.status:4}", _COLOURS[finding.status])
        yield f"{status}  {finding.check:{width}}  {finding.found}"
        if finding.remedy:
            yield f"{'':{width + 8}}{_coloured(f'→ {finding.remedy}', _REMEDY_COLOUR)}"
