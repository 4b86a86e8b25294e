# SPDX-License-Identifier: GPL-2.0
"""Start and end of the programs of the tests."""

import argparse
import signal
import sys
from collections.abc import Callable

from cpuidle_lab.base.errors import UserError

INTERRUPTED = 130


def parser(about: str | None, epilog: str) -> argparse.ArgumentParser:
    """Return a parser without options yet.

    Args:
        about: the program's docstring, whose first line is shown.
        epilog: shown as it is.
    """
    return argparse.ArgumentParser(
        description=about.splitlines()[0] if about else None,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run(name: str, work: Callable[[], int]) -> int:
    """Do the work; return the exit code.

    Whatever stops it, its folders and its processes go with it.

    Args:
        name: of the program, for messages.
        work: returns an exit code.
    """
    ends = (signal.SIGTERM, signal.SIGPIPE)
    before = {number: signal.signal(number, signal.default_int_handler) for number in ends}
    try:
        return work()
    except UserError as error:
        print(f"{name}: error: {error.message}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        # A test calls it in its own process, whose broken pipes are not interrupts.
        for number, handler in before.items():
            signal.signal(number, handler)
