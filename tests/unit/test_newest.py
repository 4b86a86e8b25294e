# SPDX-License-Identifier: GPL-2.0
"""Debian's newest kernel, and the one that is compared with."""

from pathlib import Path

import pytest

from cpuidle_lab.base import apt
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.states import linux_source, newest
from tests.proofs.equality import newest as script


def has(monkeypatch: pytest.MonkeyPatch, cache: Path, *names: str) -> Path:
    """Let apt know these packages."""
    conf = cache / "apt" / linux_source.DEFAULT_SUITE / "etc/apt.conf"
    conf.parent.mkdir(parents=True)
    conf.touch()
    monkeypatch.setattr(apt, "apt", lambda *_: "\n".join(names))
    return cache


def test_the_newest_is_found_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = has(monkeypatch, tmp_path, "linux-source-7.9", "linux-source-7.10", "linux-source-rt")
    assert newest.debian_has(cache=cache) == "7.10"
    assert newest.newer(cache) == (
        f"Debian has Linux 7.10; menu and teo are those of {linux_source.NEWEST} (`make newest`)"
    )


def test_nothing_is_said_of_what_is_not_newer_or_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert newest.newer(tmp_path / "empty") == ""
    cache = has(monkeypatch, tmp_path, f"linux-source-{linux_source.NEWEST}", "linux-source-6.1")
    assert newest.newer(cache) == ""

    def fail(*_: object) -> str:
        raise UserError("no apt")

    monkeypatch.setattr(apt, "apt", fail)
    assert newest.newer(cache) == ""


def test_one_line_is_raised_and_what_changed_is_told(tmp_path: Path) -> None:
    source = Path(linux_source.__file__).read_text()
    assert source.count(f'NEWEST = "{linux_source.NEWEST}"') == 1
    assert script.raised(source, "9.8") == source.replace(
        f'NEWEST = "{linux_source.NEWEST}"', 'NEWEST = "9.8"'
    )
    for folder, line in (("old", "a"), ("new", "b")):
        (tmp_path / folder).mkdir()
        for name in script.COMPARED:
            text = line if name == "teo.c" else "same"
            (tmp_path / folder / name).write_text(f"{text}\n")
    told = script.changes(tmp_path / "old", tmp_path / "new").splitlines()
    assert told == ["--- old/teo.c", "+++ new/teo.c", "@@ -1 +1 @@", "-a", "+b"]
