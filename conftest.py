# SPDX-License-Identifier: GPL-2.0
"""What all tests start from, and the two tiers of them.

Tests marked `full` run only with --full, or if they are named on the command line.
"""

import os
import re
import signal
from collections import Counter
from typing import Any

import pytest

from cpuidle_lab.lab.machine import ALL_CPUS

# Sent to commands by tests; a command that inherits that they are ignored would ignore them.
SENT: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGQUIT: signal.SIG_DFL,
}

# Whose tests boot machines.
MACHINES = "tests/lab/"

LEFT_OUT = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of the tier."""
    parser.addoption("--full", action="store_true", help="also run what takes long")


def pytest_configure(config: pytest.Config) -> None:
    """Undo what a shell does to commands in the background, and nohup; choose the tier.

    Each of as many workers as there are host CPUs may run a machine in virtual time.
    """
    os.environ[ALL_CPUS] = "1"
    for number, handler in SENT.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    # pytest-xdist's workers always get arguments; the process that starts them passes the option.
    if not hasattr(config, "workerinput") and config.args_source is config.ArgsSource.ARGS:
        config.option.full = True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put what boots no machine in front, see below; leave out the long tests, unless wanted."""
    items.sort(key=lambda item: item.nodeid.startswith(MACHINES))
    if config.getoption("--full"):
        return
    long = [item for item in items if item.get_closest_marker("full")]
    left_out = Counter(item.nodeid.split("::")[0] for item in long)
    config.stash[LEFT_OUT] = left_out
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = dict(left_out)
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if not item.get_closest_marker("full")]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Say what goes one after the other.

    The tests of a file in tests/lab share machines. All others go one after the other, too: they
    send signals, and two of them failed when two workers had them.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.split("::")[0] if nodeid.startswith(MACHINES) else "others"

    # Not by the number of tests, which says nothing.
    config.option.loadscopereorder = False
    return Groups(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take over what a worker of pytest-xdist left out; all leave out the same."""
    node.config.stash[LEFT_OUT] = Counter(node.workeroutput.get("left_out", {}))


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
    makefile = (config.rootpath / "Makefile").read_text(encoding="utf-8")
    if long := re.search(r"^LONG := (.*)$", makefile, re.MULTILINE):
        commands = long[1].replace("$(STORMS)", "storm").split()
        terminalreporter.write_line("and at length: make " + ", ".join(commands))
