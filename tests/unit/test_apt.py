# SPDX-License-Identifier: GPL-2.0
"""The mirror is found in every form that apt's configuration has."""

from pathlib import Path

import pytest

from cpuidle_lab.base import apt
from cpuidle_lab.base.errors import UserError

URI = "http://mirror.example/debian"


def configuration(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sources.list", f"deb {URI}/ trixie main contrib\n"),
        ("sources.list", f"# deb http://old.example bookworm main\ndeb {URI} bookworm main # it\n"),
        ("sources.list.d/a.list", f"deb [arch=amd64 signed-by=/a/b.gpg] {URI} trixie main\n"),
        (
            "sources.list.d/debian.sources",
            f"Types: deb\n# a comment\nURIs: {URI}\nSuites: bookworm bookworm-updates\n"
            "Components: main\nSigned-By: /a/b.gpg\n\n"
            "Types: deb\nURIs: http://security.example\nSuites: bookworm-security\n"
            "Components: main\n",
        ),
        (
            "sources.list.d/many.sources",
            "Types: deb\nURIs: http://other.example\nSuites: nodistro\nComponents: main\n\n"
            "Types: deb\nURIs: http://off.example\nSuites: trixie\nComponents: main\nEnabled: no\n"
            f"\nTypes: deb deb-src\nURIs:\n {URI}\nSuites:\n trixie\nComponents: main\n",
        ),
    ],
)
def test_the_mirror_is_found(tmp_path: Path, name: str, text: str) -> None:
    assert apt.mirror(configuration(tmp_path, name, text)) == URI


@pytest.mark.parametrize(
    "text",
    [
        "",
        "deb-src http://mirror.example/debian trixie main\n",
        "deb http://mirror.example/debian-security trixie-security main\n",
        "deb http://mirror.example/debian trixie contrib\n",
        "deb http://other.example/apt nodistro main\n",
    ],
)
def test_no_mirror_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match="no Debian mirror"):
        apt.mirror(configuration(tmp_path, "sources.list", text))


def test_an_unknown_package_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no package no-such-package"):
        apt.download(
            ["no-such-package"], "trixie-backports", tmp_path / "debs", cache_dir=tmp_path / "apt"
        )


def test_a_download_leaves_the_package_and_nothing_else(tmp_path: Path) -> None:
    def fetch() -> list[Path]:
        return apt.download(
            ["debian-archive-keyring"], "trixie", tmp_path / "debs", cache_dir=tmp_path / "apt"
        )

    (deb,) = fetch()
    assert deb.read_bytes().startswith(b"!<arch>")
    assert list((tmp_path / "debs").iterdir()) == [deb]
    made = deb.stat().st_mtime_ns
    assert fetch() == [deb]
    assert deb.stat().st_mtime_ns == made
