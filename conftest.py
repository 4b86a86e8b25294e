# SPDX-License-Identifier: GPL-2.0
"""Common start of all tests, and the two tiers of them.

Tests marked `full` run only with --full, or if they are named on the command line. With --slice
some of them run, and no others: see tests/long.py.
"""

import inspect
import os
import re
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from cpuidle_lab.lab.machine import ALL_CPUS
from experiments import proofs
from tests import long, reports

# Sent to commands by tests; a command that inherits that they are ignored would ignore them.
SENT: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGQUIT: signal.SIG_DFL,
}

# The folder of the tests that boot machines.
MACHINES = "tests/lab/"

LEFT_OUT = pytest.StashKey[Counter[str]]()

# Long tests of this session: seconds and verdicts, by name.
SECONDS = pytest.StashKey[Counter[str]]()
VERDICTS = pytest.StashKey[dict[str, str]]()
LONG = pytest.StashKey[list[str]]()
CHOSEN = pytest.StashKey[list[str]]()
# Long tests whose kernel of the project's own is not built, by its flavour.
UNBUILT = pytest.StashKey[Counter[str]]()

BEGUN = time.monotonic()
LATE = "no time left in this slice"

# Marks tests that boot a kernel that the project builds, which takes longer than a slice.
OWN = "own_kernel"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of the tier."""
    add = parser.addoption
    add("--full", action="store_true", help="also run what takes long")
    add("--slice", action="store_true", help="run the long tests whose turn it is, and no others")
    add("--record", action="store_true", help="write the long tests' verdicts to tests/long.tsv")


def pytest_configure(config: pytest.Config) -> None:
    """Undo what a shell does to commands in the background, and nohup; choose the tier.

    Each of as many workers as there are host CPUs may run a machine in virtual time.
    """
    os.environ[ALL_CPUS] = "1"
    # On a crowded host an example takes longer than Hypothesis allows.
    settings.register_profile("crowded", deadline=None)
    settings.load_profile("crowded")
    config.stash[SECONDS], config.stash[VERDICTS] = Counter(), {}
    config.stash[LONG], config.stash[CHOSEN] = [], []
    config.stash[UNBUILT] = Counter()
    for number, handler in SENT.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    # pytest-xdist's workers always get arguments; the process that starts them passes the option.
    if not hasattr(config, "workerinput") and config.args_source is config.ArgsSource.ARGS:
        config.option.full = True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put what boots no machine in front, see below; leave out the long tests, unless wanted."""
    items.sort(key=lambda item: item.nodeid.startswith(MACHINES))
    full = [item for item in items if item.get_closest_marker("full")]
    config.stash[LONG] = [item.nodeid for item in full]
    if config.getoption("--slice"):
        take_slice(config, items)
        return
    if config.getoption("--full"):
        return
    left_out = Counter(item.nodeid.split("::")[0] for item in full)
    config.stash[LEFT_OUT] = left_out
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = dict(left_out)
    config.hook.pytest_deselected(items=full)
    items[:] = [item for item in items if not item.get_closest_marker("full")]


def take_slice(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of the slice of this commit, in their order."""
    number = int(long.git("rev-list", "--count", "HEAD") or 0)
    marked = ((item.nodeid, item.get_closest_marker(OWN)) for item in items)
    owned = {test: str(mark.args[0]) for test, mark in marked if mark}
    unbuilt = {test: kernel for test, kernel in owned.items() if not long.is_built(kernel)}
    tests = [test for test in config.stash[LONG] if test not in unbuilt]
    chosen = long.choose(tests, long.load(), number, long.changed_files())
    config.stash[LONG], config.stash[CHOSEN] = tests, chosen
    counts: Counter[str] = Counter(unbuilt.values())
    config.stash[UNBUILT] = counts
    if hasattr(config, "workeroutput"):
        config.workeroutput["slice"] = [tests, chosen, dict(counts)]
    signal.signal(signal.SIGALRM, cut_off)
    signal.setitimer(signal.ITIMER_REAL, long.LIMIT_S)
    place = {test: index for index, test in enumerate(chosen)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in place])
    items[:] = sorted(
        (item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid]
    )


def cut_off(_number: int, _frame: Any) -> None:
    """End the test that runs, if one does, and what it waits for."""
    if "PYTEST_CURRENT_TEST" in os.environ:
        pytest.skip(LATE)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start no test of a slice later than its limit."""
    if item.config.getoption("--slice") and time.monotonic() - BEGUN > long.LIMIT_S:
        pytest.skip(LATE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Mark reports of long tests; tell of a host that may be the cause of a failure."""
    report = yield
    report.is_long = item.get_closest_marker("full") is not None
    if report.failed and call.excinfo:
        said = "\n".join([call.excinfo.exconly(), report.capstdout, report.capstderr])
        source = inspect.getsource(item.function) if isinstance(item, pytest.Function) else ""
        folders = [item.config.rootpath, Path(tempfile.gettempdir())]
        if sentence := reports.trouble(said, source, folders):
            report.sections.append(("the host", sentence))
    return report


def pytest_report_header() -> str:
    """Say the seed of the tests that have another one each day."""
    return f"seed of the day: {long.day_seed()}"


class Record:
    """Notes the times and verdicts of long tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add a part of a test: a failure stays; one that was interrupted has no verdict."""
        if not getattr(report, "is_long", False):
            return
        test = report.nodeid
        self.config.stash[SECONDS][test] += report.duration
        verdicts = self.config.stash[VERDICTS]
        if report.outcome != "passed" or (report.when == "call" and test not in verdicts):
            is_late = report.outcome == "skipped" and LATE in str(report.longrepr)
            verdicts[test] = "late" if is_late else report.outcome


def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin the record, in the process that starts the workers."""
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(Record(session.config))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the record, if it is wanted."""
    config = session.config
    if config.getoption("--record") and not hasattr(config, "workerinput"):
        seconds, verdicts = config.stash[SECONDS], config.stash[VERDICTS]
        long.save(long.rows_of(seconds, verdicts))
        proofs.write_page()


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
    tests, chosen, unbuilt = node.workeroutput.get("slice", ([], [], {}))
    node.config.stash[LONG], node.config.stash[CHOSEN] = tests, chosen
    node.config.stash[UNBUILT] = Counter(unbuilt)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say where the time went, what this tier did not run, or which tests a slice had."""
    stats = terminalreporter.stats.values()
    own = [each for some in stats for each in some if isinstance(each, pytest.TestReport)]
    terminalreporter.section("seconds by part, of all workers together")
    for line in reports.times(own):
        terminalreporter.write_line(line)
    if config.getoption("--slice"):
        tell_slice(terminalreporter, config)
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


def tell_slice(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the tests of the slice, and those that have not run for longest."""
    record, late = long.load(), config.stash[VERDICTS]
    reporter.section(f"this slice: {len(config.stash[CHOSEN])} of {len(config.stash[LONG])} tests")
    for test in config.stash[CHOSEN]:
        reporter.write_line(f"{late.get(test, 'not run')}  {test}")
    reporter.section("not run for longest, by tests/long.tsv")
    others = [test for test in config.stash[LONG] if test not in config.stash[CHOSEN]]
    for test in long.oldest(others, record)[:10]:
        reporter.write_line(f"{record[test].day if test in record else 'never     '}  {test}")
    for kernel, count in sorted(config.stash[UNBUILT].items()):
        reporter.write_line(f"without the kernel '{kernel}', which is not built: {count} tests")
    too_long = [row for row in record.values() if row.seconds > long.LIMIT_S]
    for row in too_long:
        reporter.write_line(f"too long for a slice: {row.test} ({row.seconds:.0f} s)")
