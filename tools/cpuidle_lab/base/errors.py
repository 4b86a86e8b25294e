# SPDX-License-Identifier: GPL-2.0
"""Errors whose reason lies outside of the tools."""

FAILURE = 1
USAGE = 2
INTERRUPTED = 130


class UserError(Exception):
    """A condition that the user can do something about.

    Attributes:
        message: one sentence that says what is wrong and, where it helps, the remedy.
        exit_code: FAILURE (1), or USAGE (2) where the command line itself is wrong; it is, too,
            where it names a place for an output that has something else.
    """

    def __init__(self, message: str, exit_code: int = FAILURE) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
