# SPDX-License-Identifier: GPL-2.0
"""The packages for Fedora and Arch, built by Debian's rpmbuild and makepkg: the common layout."""

import shutil
from pathlib import Path

import pytest
import roots

from tests.campaigns.packaging.test_rounds import answers
from tests.unit.test_packaging import PLACES

pytestmark = [pytest.mark.full, pytest.mark.lab]

PACKAGES = (
    "gcc", "libc6-dev", "make", "python3", "rpm", "rpmlint", "makepkg", "pacman-package-manager",
    "fakeroot", "file", "libarchive-tools", "zstd",
)  # fmt: skip
FOUND = roots.TOP / "build" / "foreign"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return what the build told, with the packages in build/foreign."""
    shared = tmp_path_factory.mktemp("foreign")
    roots.export(shared / "source")
    shutil.copy(Path(__file__).parent / "foreign-round.sh", shared)
    root = roots.tool_root("foreign", "trixie", PACKAGES)
    output = roots.run_in(root, shared, "foreign-round.sh", roots.VERSION)
    shutil.rmtree(FOUND, ignore_errors=True)
    shutil.copytree(shared / "made", FOUND)
    return answers(output)


@pytest.mark.parametrize("kind", ["rpm", "arch"])
def test_a_package_has_the_common_layout(kind: str, said: dict[str, list[str]]) -> None:
    files = {Path(line.rstrip("/")) for line in said[kind]}
    for place, names in PLACES.items():
        there = {path.name.removesuffix(".gz") for path in files if path.parent == Path("/", place)}
        assert there >= names, place


def test_rpmlint_finds_no_error(said: dict[str, list[str]]) -> None:
    assert said
    lines = (FOUND / "rpmlint.txt").read_text().splitlines()
    assert [line for line in lines if " E: " in line] == []
