# SPDX-License-Identifier: GPL-2.0
"""The cache of what the tools build: made once, swept after kills, another user's."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from cpuidle_lab.base import apt, cache
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.states import kernel_tables, linux_source

TOP = Path(__file__).resolve().parents[2]


@pytest.fixture
def temporary_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "CACHE", tmp_path)
    return tmp_path


def writes(text: str) -> Callable[[Path], None]:
    def build(target: Path) -> None:
        (target / "file").write_text(text)

    return build


def test_cache_makes_each_thing_once(temporary_cache: Path) -> None:
    path = cache.cached("thing", ["1"], "Making", writes("one"))
    assert path.parent == temporary_cache
    assert cache.cached("thing", ["1"], "Making", writes("two")) == path
    assert (path / "file").read_text() == "one"
    assert cache.cached("thing", ["1", ""], "Making", writes("two")) != path


def test_failed_build_leaves_nothing(temporary_cache: Path) -> None:
    def fail(target: Path) -> None:
        (target / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.cached("thing", [], "Making", fail)
    assert [path.name for path in temporary_cache.iterdir()] == [".thing.lock"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts something")
def test_what_is_mounted_in_a_folder_outlives_it(tmp_path: Path) -> None:
    """As /proc and /dev, if the process that made a root there was killed."""
    script = """
    mkdir -p left/dev other && mount --bind /dev/shm left/dev && mount -t tmpfs none left/dev &&
    touch left/dev/null left/file &&
    "$0" -c 'from cpuidle_lab.base import cache; cache.discard(cache.Path("left"))'
    [ ! -e left/file ] && [ -e left/dev/null ]
    """
    command = ["unshare", "--mount", "sh", "-c", script, sys.executable]
    subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(TOP / "tools")}, check=True
    )


def test_what_a_killed_build_left_is_removed(temporary_cache: Path) -> None:
    (temporary_cache / ".thing.tmp-killed").mkdir()
    cache.cached("thing", [], "Making", writes("x"))
    assert not (temporary_cache / ".thing.tmp-killed").exists()


def test_old_versions_go(temporary_cache: Path) -> None:
    for number in range(2 * cache.KEPT_VERSIONS):
        path = cache.cached("thing", [str(number)], "Making", writes("x"))
        os.utime(path, (number, number))
    last = cache.cached("thing", ["last"], "Making", writes("x"))
    left = sorted(temporary_cache.glob("thing-*"))
    assert len(left) == cache.KEPT_VERSIONS
    assert last in left


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_cache_of_another_user_is_used(
    temporary_cache: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    made = cache.cached("thing", [], "Making", writes("x"))
    tables, governors = kernel_tables.fetch("7.3"), linux_source.fetch("7.3")
    refusal = OSError(number, os.strerror(number))
    for where, name in ((os, "utime"), (cache, "locked"), (apt, "locked")):
        monkeypatch.setattr(where, name, Mock(side_effect=refusal))
    assert cache.cached("thing", [], "Making", writes("x")) == made
    assert kernel_tables.fetch("7.3") == tables
    assert linux_source.fetch("7.3") == governors


def test_a_python_that_the_user_may_not_run_is_named(tmp_path: Path) -> None:
    python = tmp_path / "build/venv/bin/python"
    for path in (
        python,
        tmp_path / "tools/requirements.txt",
        python.parents[1] / ".requirements.txt",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    command = shutil.copy(TOP / "cpuidle-lab", tmp_path)
    done = subprocess.run([command, "machines"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"cpuidle-lab: error: {python}: this user may not run it; make ")


def test_what_may_be_in_use_stays(temporary_cache: Path) -> None:
    """A run waits for a host CPU while others make more versions of its machine."""
    for number in range(3):
        cache.cached("thing", [str(number)], "Making", writes("x"), kept=1)
    assert len(list(temporary_cache.glob("thing-*"))) == 3


def test_a_kill_leaves_no_half_of_an_old_version(
    temporary_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = cache.cached("thing", ["old"], "Making", writes("x"), kept=1)
    os.utime(old, (0, 0))
    with monkeypatch.context() as patch:
        patch.setattr(cache, "discard", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            cache.cached("thing", ["new"], "Making", writes("x"), kept=1)
    assert not old.exists()
    cache.cached("thing", ["newer"], "Making", writes("x"), kept=1)
    assert not list(temporary_cache.glob(".thing.tmp-*"))


def test_failed_tool_is_one_sentence_with_its_log(tmp_path: Path) -> None:
    script = "echo first; echo the reason >&2; exit 1"
    with pytest.raises(UserError, match="making it failed: the reason") as caught:
        cache.run_logged(["sh", "-c", script], tmp_path / "log", "making it")
    assert str(tmp_path / "log") in caught.value.message
    with pytest.raises(UserError, match=r"x\.c:1: error: no such"):
        script = "echo 'x.c:1: error: no such'; echo gave up; exit 1"
        cache.run_logged(["sh", "-c", script], tmp_path / "log", "making it")
    with pytest.raises(UserError, match="the disk is full"):
        script = "echo 'dd: No space left on device'; exit 1"
        cache.run_logged(["sh", "-c", script], tmp_path / "log", "making it")
