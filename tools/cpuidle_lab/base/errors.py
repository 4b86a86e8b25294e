# SPDX-License-Identifier: GPL-2.0
"""Errors whose reason lies outside of the tools."""

import re

# Control characters, and bytes of a name that are no UTF-8; a line may end.
_UNPRINTABLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

FAILURE = 1
USAGE = 2
INTERRUPTED = 130


class UserError(Exception):
    """A condition that the user can do something about.

    Attributes:
        message: one sentence that says what is wrong and, where it helps, the remedy.
        exit_code: FAILURE (1), as for an input that is missing or of another kind; or USAGE (2)
            where the command line itself is wrong; it is, too, where it names a place for an
            output that has something else.
    """

    def __init__(self, message: str, exit_code: int = FAILURE) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


def printable(text: str) -> str:
    r"""Return a message with the bytes of names escaped that a terminal must not get: \x1b."""
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]) & 0xFF:02x}", text)
