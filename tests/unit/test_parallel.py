# SPDX-License-Identifier: GPL-2.0
"""Machines side by side, without a machine: work that waits for a host CPU stands for one."""

import signal
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from cpuidle_lab.base import cache
from cpuidle_lab.base.cache import ENDED
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.lab import machine, parallel
from cpuidle_lab.lab.machine import ALL_CPUS, host_cpu_taken
from cpuidle_lab.lab.parallel import side_by_side, threads


@pytest.fixture
def two_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give machines the host CPUs 4 and 5, with locks of this test's own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3, 4, 5})
    monkeypatch.delenv(ALL_CPUS, raising=False)


@pytest.mark.usefixtures("two_cpus")
def test_as_much_work_runs_at_once_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=20)

    def work(number: int) -> int:
        with host_cpu_taken(lambda _: None) as cpu:
            both.wait()
            assert cpu in {4, 5}
        return number

    monkeypatch.setattr(parallel, "at_once", lambda: 2)
    pieces = [lambda n=n: work(n) for n in range(4)]
    assert side_by_side(pieces) == [0, 1, 2, 3]


@pytest.mark.usefixtures("two_cpus")
def test_a_failure_ends_what_waits_and_drops_what_was_not_begun() -> None:
    told: list[str] = []
    waits = threading.Event()

    def wait() -> None:
        try:
            with host_cpu_taken(lambda _: waits.set()):
                pass
        except UserError as error:
            told.append(str(error))
            raise

    def fail() -> None:
        assert waits.wait(20)
        raise UserError("no luck")

    with host_cpu_taken(told.append), host_cpu_taken(told.append):
        with pytest.raises(UserError, match="no luck"):
            side_by_side([wait, fail, lambda: told.append("begun")])
        assert sorted(told) in ([ENDED], sorted([ENDED, "begun"]))
    # The next machines are not ended.
    with host_cpu_taken(told.append):
        pass


@pytest.mark.usefixtures("two_cpus")
def test_an_interruption_ends_what_waits() -> None:
    waits = threading.Event()

    def wait() -> None:
        with host_cpu_taken(lambda _: waits.set()):
            pass

    with host_cpu_taken(lambda _: None), host_cpu_taken(lambda _: None):
        with pytest.raises(KeyboardInterrupt), threads(1) as pool:
            job = pool.submit(wait)
            assert waits.wait(20)
            raise KeyboardInterrupt
        with pytest.raises(UserError, match=ENDED):
            job.result(timeout=20)


def test_an_interruption_ends_what_waits_for_a_lock_or_builds(tmp_path: Path) -> None:
    """Another process may hold the lock for minutes, and a kernel builds as long."""
    begun = threading.Event()

    def wait() -> None:
        begun.set()
        with cache.locked(tmp_path / "lock"):
            pass

    def build() -> None:
        cache.run_logged(["sleep", "600"], tmp_path / "log", "building")

    start = time.monotonic()
    with cache.locked(tmp_path / "lock"):
        with pytest.raises(KeyboardInterrupt), threads(2) as pool:
            jobs = [pool.submit(wait), pool.submit(build)]
            assert begun.wait(20)
            raise KeyboardInterrupt
        for job in jobs:
            with pytest.raises((UserError, CancelledError)):
                job.result(timeout=20)
    assert time.monotonic() - start < 60


@pytest.mark.usefixtures("two_cpus")
def test_a_second_interruption_starts_no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that builds, and has no machine yet, goes on; the machine of its own never starts."""
    builds, built = threading.Event(), threading.Event()
    ending = threading.Event()
    for module in (cache, machine):
        monkeypatch.setattr(module, "ending", ending)

    def work() -> None:
        builds.set()
        assert built.wait(20)
        cache.check_ending()

    with pytest.raises(KeyboardInterrupt), threads(1) as pool:
        job = pool.submit(work)
        assert builds.wait(20)
        monkeypatch.setattr(pool, "shutdown", lambda **_: signal.raise_signal(signal.SIGINT))
        raise KeyboardInterrupt
    built.set()
    with pytest.raises(UserError, match=ENDED):
        job.result(timeout=20)


def test_sigterm_interrupts_as_ctrl_c_does() -> None:
    with pytest.raises(KeyboardInterrupt), threads(1):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(
    ("told", "machines"),
    [("MemAvailable: 9000000 kB", 2), ("MemAvailable: 8000000 kB", 1), ("", 1),
     ("MemAvailable: 90000000 kB", 3)],
)  # fmt: skip
def test_no_more_machines_run_at_once_than_have_memory(
    told: str, machines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = tmp_path / "meminfo"
    memory.write_text(f"MemTotal: 99999999 kB\n{told}\n")
    monkeypatch.setattr(parallel, "_MEMORY", memory)
    monkeypatch.setattr(parallel, "host_cpus", lambda: [1, 2, 3])
    assert parallel.at_once() == machines
