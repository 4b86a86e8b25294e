# SPDX-License-Identifier: GPL-2.0
"""Commands that need Python alone, in the guest's Python, which is run here: no boot."""

import subprocess
from pathlib import Path

import pytest

from cpuidle_lab import cli
from tests.lab.guest_python import LIBRARIES, PYTHON, command_files, guest_ctypes, python_root

pytestmark = pytest.mark.lab

# Those that say which packages are enough; the guest's tests run no others. Doctor needs lzma,
# which the guest lacks.
COMMANDS = sorted({command.NAME for command in cli.discover() if hasattr(command, "packages")}
                  - {"doctor"})  # fmt: skip


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of a guest."""
    folder = tmp_path_factory.mktemp("guest")
    for name, content in (command_files() | guest_ctypes()).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_can_be_imported_in_the_guest(name: str, guest: Path) -> None:
    # The C library is in the guest's root.
    libraries = python_root() / Path(LIBRARIES[0]).parent
    done = subprocess.run(
        [libraries / "ld-linux-x86-64.so.2", "--library-path",
         f"{guest / Path(LIBRARIES[0]).parent}:{libraries}",
         guest / "usr/bin" / PYTHON, guest / "lab/main.py", name, "--help"],
        env={"PYTHONHOME": str(guest / "usr"), "PYTHONPATH": str(guest / "lab/tools")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
