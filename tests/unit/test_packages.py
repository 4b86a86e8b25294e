# SPDX-License-Identifier: GPL-2.0
"""Messages about what is missing name the packages of the system at hand."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cpuidle_lab.base.packages import COMPILER, TRACE_LIBRARIES, remedy

TOOLS = Path(__file__).parents[2] / "tools" / "cpuidle_lab"
NEEDED = (*COMPILER, *TRACE_LIBRARIES)


@pytest.mark.parametrize(
    ("os_release", "said"),
    [
        ("ID=debian\n", f"apt install {' '.join(NEEDED)}"),
        ('NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n', f"apt install {' '.join(NEEDED)}"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n',
         "dnf install gcc glibc-devel pkgconf-pkg-config libtracecmd-devel libtraceevent-devel "
         "libtracefs-devel"),
        ("ID=arch\nBUILD_ID=rolling\n",
         "pacman -S gcc pkgconf trace-cmd libtraceevent libtracefs"),
        ("VERSION_ID=debian\nID=gentoo\n",
         f"install {', '.join(NEEDED)} with the package manager of this system"),
        ("", f"install {', '.join(NEEDED)} with the package manager of this system"),
    ],
)  # fmt: skip
def test_each_system_gets_its_own_command(os_release: str, said: str) -> None:
    assert remedy(*NEEDED, os_release=os_release) == said


def test_options_are_those_of_apt() -> None:
    wanted = "--reinstall", "linux-headers-6.12"
    assert remedy(*wanted, os_release="ID=debian") == f"apt install {' '.join(wanted)}"
    assert remedy(*wanted, os_release="ID=fedora") == f"dnf install {wanted[1]}"


def test_no_message_names_one_systems_command() -> None:
    named = [path for path in TOOLS.rglob("*.py") if re.search(r"\bapt install", path.read_text())]
    assert named == [TOOLS / "base" / "packages.py"]


def set_up(folder: Path, *programs: str) -> subprocess.CompletedProcess[str]:
    """Run the set-up of the fuzz targets where there is no apt, with these programs."""
    binaries = folder / "bin"
    binaries.mkdir()
    for name in ("sh", "dirname", "readlink", "mkdir", "flock", "tr"):
        (binaries / name).symlink_to(str(shutil.which(name)))
    for name in programs:
        (binaries / name).write_text("#!/bin/sh\n")
        (binaries / name).chmod(0o755)
    return subprocess.run(
        [TOOLS.parent / "setup.sh", "fuzz"],
        env={"PATH": str(binaries), "CPUIDLE_LAB_BUILD": str(folder / "build")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_apt_the_set_up_goes_on_with_what_is_there(tmp_path: Path) -> None:
    done = set_up(tmp_path, "clang-19")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_apt_the_set_up_names_what_is_missing(tmp_path: Path) -> None:
    done = set_up(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith("in these packages: clang-19 libclang-rt-19-dev\n")
