# SPDX-License-Identifier: GPL-2.0
"""What all tests start from, and the two tiers of them.

Tests marked `full` run only with --full, or if they are named on the command line.
"""

import signal
from collections import Counter

import pytest

# Sent to commands by tests; a command that inherits that they are ignored would ignore them.
SENT = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGQUIT: signal.SIG_DFL,
}

LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of the tier."""
    parser.addoption("--full", action="store_true", help="also run what takes long")


def pytest_configure() -> None:
    """Undo what a shell does to commands in the background, and nohup."""
    for number, handler in SENT.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long tests, unless they are wanted."""
    if config.getoption("--full") or config.args_source is config.ArgsSource.ARGS:
        return
    long = [item for item in items if item.get_closest_marker("full")]
    config.stash[LEFT_OUT] = Counter(item.nodeid.split("::")[0] for item in long)
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if not item.get_closest_marker("full")]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what this tier did not run."""
    left_out = config.stash.get(LEFT_OUT, None)
    if not left_out:
        return
    terminalreporter.section("not run: make test-full runs these, too")
    for path, count in sorted(left_out.items()):
        terminalreporter.write_line(f"{path}: {count}")
