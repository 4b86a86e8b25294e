# SPDX-License-Identifier: GPL-2.0
"""The systemd unit and its helper, on recorded machines."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cpuidle_lab.host import CPUIDLE, MODULE
from tests import recorded

PACKAGING = Path(__file__).parents[2] / "packaging"
HELPER = PACKAGING / "cpuidle-lab-restore"
GOVERNOR = f"{CPUIDLE}/current_governor".lstrip("/")
PARAMETERS = f"{MODULE}/parameters".lstrip("/")
CONFIG = "governor=wteo\nwteo.selection=expected # the better one\n\n menu_ng.history_size = 32\r\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Unfold a machine with a configuration."""
    root = recorded.unfold("debian13", tmp_path / "machine")
    (root / "etc").mkdir()
    (root / "etc/cpuidle-lab.conf").write_text(CONFIG)
    return root


def restore(root: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run the helper on a recorded machine."""
    return subprocess.run(
        ["sh", HELPER, *arguments],
        env=os.environ | {"CPUIDLE_LAB_ROOT": str(root), "PATH": f"{path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


def governor(root: Path) -> str:
    return (root / GOVERNOR).read_text().strip()


def parameter(root: Path, name: str) -> str:
    return (root / PARAMETERS / name).read_text().strip()


def test_start_sets_what_the_configuration_says(root: Path) -> None:
    done = restore(root, "start")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert governor(root) == "wteo"
    assert parameter(root, "wteo") == "selection=expected"
    assert parameter(root, "menu_ng") == "history_size=32"


def test_a_last_line_without_an_end_counts(root: Path) -> None:
    (root / "etc/cpuidle-lab.conf").write_text("governor=wteo")
    restore(root, "start")
    assert governor(root) == "wteo"


def test_stop_goes_back_to_the_governor_before(root: Path) -> None:
    (root / GOVERNOR).write_text("ladder\n")
    restore(root, "start")
    done = restore(root, "stop")
    assert (done.returncode, done.stderr) == (0, "")
    assert governor(root) == "ladder"
    assert not (root / "run/cpuidle-lab/governors").exists()


def test_started_twice_it_still_knows_the_way_back(root: Path) -> None:
    restore(root, "start")
    (root / "etc/cpuidle-lab.conf").write_text("governor=teo_ng\n")
    restore(root, "start")
    assert governor(root) == "teo_ng"
    restore(root, "stop")
    assert governor(root) == "menu"


def test_a_governor_chosen_by_hand_is_left_alone(root: Path) -> None:
    restore(root, "start")
    (root / GOVERNOR).write_text("gate\n")
    restore(root, "stop")
    assert governor(root) == "gate"


def test_stop_without_start_does_nothing(root: Path) -> None:
    done = restore(root, "stop")
    assert (done.returncode, done.stderr) == (0, "")
    assert governor(root) == "menu"


def test_without_a_governor_line_only_tunables_are_set(root: Path) -> None:
    (root / "etc/cpuidle-lab.conf").write_text("wteo.selection=off\n")
    assert restore(root, "start").returncode == 0
    assert governor(root) == "menu"
    assert parameter(root, "wteo") == "selection=off"


def fake_modprobe(directory: Path, script: str) -> str:
    """Put a modprobe that runs `script` into a directory for PATH."""
    directory.mkdir()
    program = directory / "modprobe"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(directory)


def test_the_module_is_loaded_if_it_is_not(root: Path, tmp_path: Path) -> None:
    (root / MODULE.lstrip("/")).rename(tmp_path / "unloaded")
    path = fake_modprobe(
        tmp_path / "bin", f'[ "$*" = cpuidle_lab ] && mv {tmp_path}/unloaded {root}{MODULE}'
    )
    assert restore(root, "start", path=path).returncode == 0
    assert governor(root) == "wteo"


def test_a_module_that_cannot_be_loaded(root: Path, tmp_path: Path) -> None:
    shutil.rmtree(root / MODULE.lstrip("/"))
    path = fake_modprobe(tmp_path / "bin", "exit 1")
    done = restore(root, "start", path=path)
    assert done.returncode == 1
    assert done.stderr == "cpuidle-lab-restore: cannot load cpuidle_lab: see dmesg\n"
    assert governor(root) == "menu"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("governor", ":2: neither"),
        ("governor=", ":2: neither"),
        ("governor=../../etc/passwd", ":2: neither"),
        ("wteo=1", ":2: neither"),
        ("wteo.selection", ":2: neither"),
        ("wteo.selection=", ":2: neither"),
        ("wteo.selection=a=b", ":2: neither"),
        ("wteo.a.b=1", ":2: neither"),
        (".selection=1", ":2: neither"),
        ("../x.y=1", ":2: neither"),
        ("$(reboot).x=1", ":2: neither"),
        ("nosuch.x=1", ":2: cpuidle_lab has no governor nosuch"),
        ("governor=nosuch", "no governor nosuch, only: ladder menu"),
    ],
)
def test_a_wrong_line_is_named_and_the_governor_stays(line: str, words: str, root: Path) -> None:
    (root / "etc/cpuidle-lab.conf").write_text(f"governor=wteo\n{line}\n")
    done = restore(root, "start")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert governor(root) == "menu"
    assert not (root / "run/cpuidle-lab/governors").exists()


def test_a_wrong_line_keeps_the_lines_before_it_from_being_applied(root: Path) -> None:
    before = parameter(root, "wteo")
    (root / "etc/cpuidle-lab.conf").write_text("wteo.selection=off\nrubbish\n")
    assert restore(root, "start").returncode == 1
    assert parameter(root, "wteo") == before


def test_a_value_that_the_kernel_refuses(root: Path) -> None:
    (root / PARAMETERS / "wteo").unlink()
    (root / PARAMETERS / "wteo").mkdir()
    done = restore(root, "start")
    assert done.returncode == 1
    assert done.stderr.endswith(":2: the kernel does not accept wteo.selection=expected\n")
    assert governor(root) == "menu"


def test_a_missing_configuration(root: Path) -> None:
    (root / "etc/cpuidle-lab.conf").unlink()
    done = restore(root, "start")
    assert done.returncode == 1
    assert "cpuidle-lab.conf is missing" in done.stderr


@pytest.mark.parametrize("arguments", [[], ["restart"], ["--help"]])
def test_wrong_usage(arguments: list[str], root: Path) -> None:
    done = restore(root, *arguments)
    assert done.returncode == 2
    assert done.stderr == "usage: cpuidle-lab-restore start|stop\n"


def test_the_example_configuration_works(root: Path) -> None:
    shutil.copy(PACKAGING / "cpuidle-lab.conf", root / "etc")
    done = restore(root, "start")
    assert (done.returncode, done.stderr) == (0, "")
    assert governor(root) == "wteo"


def test_every_option_of_the_modprobe_example_is_a_parameter(root: Path) -> None:
    text = (PACKAGING / "cpuidle-lab-modprobe.conf").read_text()
    options = re.findall(r"^#?options cpuidle_lab (\w+)=", text, re.MULTILINE)
    assert options
    assert all((root / PARAMETERS / name).exists() for name in options)


@pytest.mark.skipif(not shutil.which("dash"), reason="dash is not installed")
def test_the_helper_needs_only_posix() -> None:
    subprocess.run(["dash", "-n", HELPER], check=True)
    assert HELPER.stat().st_mode & 0o111


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_the_unit_is_valid(tmp_path: Path) -> None:
    # Checked where the helper is installed as the unit says.
    program = tmp_path / "usr/lib/cpuidle-lab/cpuidle-lab-restore"
    program.parent.mkdir(parents=True)
    shutil.copy(HELPER, program)
    unit = tmp_path / "cpuidle-lab.service"
    text = (PACKAGING / "cpuidle-lab.service").read_text()
    unit.write_text(text.replace("/usr/lib/cpuidle-lab", str(program.parent)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
