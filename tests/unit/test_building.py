# SPDX-License-Identifier: GPL-2.0
"""Builds that die, or have no room: nothing stays mounted, no process, and the next run mends."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from cpuidle_lab.base.cache import namespace
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.states import linux_source
from tests.unit import building

LIMIT_S = 60


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """Yield a directory for each kind of build; unmount what was left there."""
    if subprocess.run([*namespace(), "true"], capture_output=True).returncode:
        pytest.skip("this user gets no mount namespace")
    found = {kind: tmp_path / kind for kind in building.KINDS}
    for kind, stage in found.items():
        for name in ("bin", "build/cache", "tmp"):
            (stage / name).mkdir(parents=True)
        tool = stage / "bin" / building.KINDS[kind][0]
        tool.write_text(building.STAND_IN)
        tool.chmod(0o755)
    yield found
    for stage in found.values():
        for place in building.mounted(stage):
            subprocess.run(["umount", place], check=True)


def start(stages: Mapping[str, Path], way: str, *within: str) -> "subprocess.Popen[str]":
    """Start all builds; their tools go this way."""
    for stage in stages.values():
        (stage / "result").unlink(missing_ok=True)
    program = [*within, sys.executable, building.__file__, str(stages["kernel"].parent)]
    return subprocess.Popen(
        program, env=os.environ | {"WAY": way}, stderr=subprocess.PIPE, text=True
    )


def results(stages: Mapping[str, Path], builds: "subprocess.Popen[str]") -> dict[str, list[str]]:
    """Return the error of each build, and its leftovers."""
    _, said = builds.communicate(timeout=LIMIT_S)
    assert all((stage / "result").exists() for stage in stages.values()), said
    return {kind: (stage / "result").read_text().splitlines() for kind, stage in stages.items()}


def numbers(stages: Mapping[str, Path], builds: "subprocess.Popen[str]", of: str) -> list[int]:
    """Return the processes of the builds, or their tools; wait until all tools run."""

    def run() -> bool:
        assert builds.poll() is None, builds.communicate()[1]
        return all((stage / "tool").exists() for stage in stages.values())

    soon("the tools run", run)
    return [int((stage / of).read_text()) for stage in stages.values()]


def soon(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: timed out"
        time.sleep(0.02)


def all_ended(stages: Mapping[str, Path]) -> bool:
    """Return whether no process of a build lives: each holds a lock."""
    for stage in stages.values():
        with (stage / "alive").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
    return True


def test_killed_builds_leave_no_mount_and_the_next_run_removes_the_rest(
    stages: dict[str, Path],
) -> None:
    with start(stages, building.HANGS) as builds:
        for number in numbers(stages, builds, "builder"):
            os.kill(number, signal.SIGKILL)
    soon("the tools end, too", lambda: all_ended(stages))
    assert [place for stage in stages.values() for place in building.mounted(stage)] == []
    with start(stages, building.FAILS) as builds:
        for error, left in results(stages, builds).values():
            assert "failed" in error and left == "[]"


def test_killed_tools_leave_nothing(stages: dict[str, Path]) -> None:
    with start(stages, building.HANGS) as builds:
        for number in numbers(stages, builds, "tool"):
            os.kill(number, signal.SIGKILL)
        found = results(stages, builds)
    assert {kind: left for kind, (_, left) in found.items()} == dict.fromkeys(stages, "[]")
    assert all("it was killed" in found[kind][0] for kind in ("build-root", "own-kernel"))
    assert all_ended(stages)


def test_a_full_disk_leaves_nothing(stages: dict[str, Path]) -> None:
    mount = 'mount -t tmpfs -o size=4m,mode=755 none "$1/build"; mkdir "$1/build/cache"'
    mounts = f'while [ "$1" != -- ]; do {mount}; shift; done; shift; exec "$@"'
    within = [*namespace(), "sh", "-ec", mounts, "sh", *map(str, stages.values()), "--"]
    with start(stages, building.FULL, *within) as builds:
        for error, left in results(stages, builds).values():
            assert "the disk is full" in error and left == "[]"


def test_no_governor_is_kept_that_a_full_disk_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("dpkg-deb", "tar", "xz"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 2\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    unpack = partial(linux_source.unpack, Path("linux-source.deb"), "6.12", tmp_path, [])
    unpack()  # old kernels lack files
    monkeypatch.setattr(linux_source, "is_full", lambda _: True)
    with pytest.raises(UserError, match="the disk is full"):
        unpack()
