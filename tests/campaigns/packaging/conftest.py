# SPDX-License-Identifier: GPL-2.0
"""Trees of two versions, the packages made of them, and clean roots to use them in."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TOP / "packaging")]

import roots  # noqa: E402

NEWER = f"{roots.VERSION}.1"

# Files that state the version of the tree, as docs/packaging.md says.
STATED_IN = ("VERSION", "dkms.conf", "tools/cpuidle_lab/base/version.py", "debian/changelog")


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the tree as VERSION, and as NEWER with another version stated."""
    folder = tmp_path_factory.mktemp("trees")
    for version in (roots.VERSION, NEWER):
        roots.export(folder / version)
    for name in STATED_IN:
        path = folder / NEWER / name
        text = path.read_text()
        assert roots.VERSION in text
        path.write_text(text.replace(roots.VERSION, NEWER))
    return folder


@pytest.fixture(scope="session")
def packages(trees: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the packages of VERSION and of NEWER."""
    folder = tmp_path_factory.mktemp("packages")
    for version in (roots.VERSION, NEWER):
        roots.build_debs(trees / version, folder / version)
    return folder


Round = Callable[..., tuple[Path, str]]


@pytest.fixture
def in_root(tmp_path: Path) -> Round:
    """Return a function that runs a script of this directory in a root.

    It takes the root, the script, a directory whose contents the script finds in /shared, and the
    script's arguments; it returns the shared directory and what the script wrote.
    """

    def run(
        root: roots.Root, script: str, contents: Path | None, *arguments: str
    ) -> tuple[Path, str]:
        shared = tmp_path / script.removesuffix(".sh")
        shutil.copytree(contents, shared) if contents else shared.mkdir()
        shutil.copytree(root.upgrade, shared / "upgrade")
        for name in ("functions.sh", script):
            shutil.copy(Path(__file__).parent / name, shared)
        return shared, roots.run_in(root.tarball, shared, script, *arguments)

    return run
