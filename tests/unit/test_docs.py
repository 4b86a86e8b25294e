# SPDX-License-Identifier: GPL-2.0
"""The documentation names what is there: packages, files, targets, options, the version."""

import re
import shlex
from pathlib import Path

import pytest

from cpuidle_lab.base.version import __version__
from cpuidle_lab.cli import build_parser

TOP = Path(__file__).parents[2]
HARDWARE = (TOP / "docs" / "hardware.md").read_text()
DEPENDENCIES = (TOP / "docs" / "dependencies.md").read_text()


def first_column(kind: str) -> set[str]:
    """Return the names in the first columns of the tables whose first heading is `kind`."""
    names: set[str] = set()
    inside = False
    for line in DEPENDENCIES.splitlines():
        if not line.startswith("|"):
            inside = False
        elif line.startswith(f"| {kind} |"):
            inside = True
        elif inside:
            names |= set(re.findall(r"`([^`]+)`", line.split("|")[1]))
    return names


def test_every_python_package_is_explained_and_pinned() -> None:
    lines = (TOP / "tools" / "requirements.txt").read_text().splitlines()
    pinned = {line.split("==")[0] for line in lines if line and not line.startswith("#")}
    assert first_column("Python package") == pinned


def test_every_debian_package_is_explained_and_installed() -> None:
    setup = (TOP / "tools" / "setup.sh").read_text()
    lists = re.findall(r'^(?:\w+_)?packages="\n(.*?)^"', setup, re.MULTILINE | re.DOTALL)
    assert len(lists) == 4
    installed = {line.split()[0] for line in "".join(lists).splitlines() if line.strip()}
    # These are for the machine that the module is used on.
    elsewhere = {"dkms", "linux-headers-amd64", "kernelshark"}
    # The lab unpacks its own, and the table says where.
    emulator = (TOP / "tools" / "cpuidle_lab" / "lab" / "emulator.py").read_text()
    unpacked = {*re.findall(r'"(qemu-system-x86)"', emulator), "build/cache"}
    assert len(unpacked) == 2 and not unpacked & installed
    assert first_column("Debian package") - elsewhere - unpacked == installed


def test_the_walk_through_names_this_version() -> None:
    versions = set(re.findall(r"cpuidle-lab[/-](\d[\w.]*\d)", HARDWARE))
    assert versions == {(TOP / "VERSION").read_text().strip()} == {__version__}


def test_the_walk_through_names_files_that_exist() -> None:
    named = set(re.findall(r"\b(?:packaging|docs)/[\w.-]*\w", HARDWARE))
    named |= {f"docs/{name}" for name in re.findall(r"\]\((\w+\.md)\)", HARDWARE)}
    assert len(named) >= 5
    assert [name for name in named if not (TOP / name).exists()] == []


def test_the_walk_through_names_targets_that_exist() -> None:
    makefile = (TOP / "Makefile").read_text()
    for target in re.findall(r"make ([a-z][a-z-]*)\b", HARDWARE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


COMMANDS = re.findall(r"\./cpuidle-lab (.+)", HARDWARE)


def test_there_are_commands_to_check() -> None:
    assert len(COMMANDS) >= 3


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_walk_through_are_understood(command: str) -> None:
    assert build_parser().parse_args(shlex.split(command))
