# SPDX-License-Identifier: GPL-2.0
"""The wheel on clean Debian machines without a compiler: the clone's figures, and nothing left.

The machines have Python and its venv, and no network. The packages that the wheel needs come from
a directory, in the versions of tools/requirements.txt.
"""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import roots
from wheel_backend import TOP, build_wheel

from cpuidle_lab.base.cache import cached
from tests.campaigns.packaging.test_rounds import answers, left_behind
from tests.unit import dump_forms

pytestmark = [pytest.mark.full, pytest.mark.lab]

DEMO = TOP / "build" / "demo" / "trace.dat"
PINS = TOP / "tools" / "requirements.txt"
DEPENDENCIES = [
    re.split("[~=]", one)[0]
    for one in tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["dependencies"]
]
# pip removes a directory whose last file goes, but not the one that held it.
EMPTY = {"d /opt/lab/share", "d /opt/lab/share/doc", "d /opt/lab/share/man"}
# Of glibc, as wheel_backend leaves them out.
SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux-.*)\.so\.\d+")
# Debian's release, and the version of its Python.
MACHINES = {"12": ("bookworm", "3.11"), "13": ("trixie", "3.13")}
# Processor time that the first answer after the install may take.
SECONDS = 10
COMMANDS = {
    "compare": ["compare", "--no-instructions", "--json", "trace.dat"],
    "report": ["report", "--json", "trace.dat"],
    "diff": ["diff", "--json", "before", "after"],
    "replay": ["replay", "--check", "--json", "trace.dat"],
}
REFUSALS = {
    "compare": "must be compiled first: apt install gcc",
    "experiment": "experiment is a command of the project's source tree alone",
    "tune": "needs the Python package optuna: pip install 'cpuidle-lab[tune]'",
    "export": "needs the Python package perfetto: pip install 'cpuidle-lab[perfetto]'",
}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the complete wheel of the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    return folder / build_wheel(str(folder), {"complete": ""})


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the demo's recording and two dumps."""
    # A recording is called by its folder, too, which is work in the root.
    folder = tmp_path_factory.mktemp("work", numbered=False)
    if not DEMO.is_file():
        subprocess.run([TOP / "cpuidle-lab", "demo"], check=True)
    shutil.copy(DEMO, folder)
    for turn, name in enumerate(("before", "after")):
        (folder / name).write_text(dump_forms.dumped(dump_forms.machine(turn)))
    return folder


def wheelhouse(python: str) -> Path:
    """Return a directory with the wheels that the project's wheel needs, for a Python."""

    def build(target: Path) -> None:
        words: list[str | Path] = [
            "-q",
            "--only-binary=:all:",
            f"--python-version={python}",
            "-c",
            PINS,
            "-d",
            target,
        ]
        words += [f"--platform=manylinux_2_{minor}_x86_64" for minor in (28, 27, 24, 17, 12)]
        subprocess.run([sys.executable, "-m", "pip", "download", *words, *DEPENDENCIES], check=True)

    recipe = [python, *DEPENDENCIES, PINS.read_bytes()]
    return cached(f"wheelhouse-{python}", recipe, f"Downloading packages for {python}", build)


def figures(text: str) -> Any:
    """Return what a command prints, without the times and the words of its call."""
    found = json.loads(text)
    return {k: v for k, v in found.items() if k not in ("command", "start", "end", "kernel")}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_wheel_gives_the_figures_of_the_clone(
    machine: str, wheel: Path, work: Path, tmp_path: Path
) -> None:
    release, python = MACHINES[machine]
    shared = tmp_path / "shared"
    shutil.copytree(work, shared / "work")
    shutil.copytree(wheelhouse(python), shared / "wheels")
    shutil.copy(wheel, shared / "wheels")
    for name in ("functions.sh", "wheel-round.sh"):
        shutil.copy(Path(__file__).parent / name, shared)
    root = roots.tool_root("python", release, ("python3", "python3-venv"))
    said = answers(roots.run_in(root, shared, "wheel-round.sh", *DEPENDENCIES))
    assert said["compiler"] == ["none"]
    assert said["opened"] == ["True"]
    assert int(said["seconds"][0]) <= SECONDS
    for name, words in COMMANDS.items():
        clone = subprocess.run(
            [TOP / "cpuidle-lab", *words], cwd=work, capture_output=True, text=True, check=True
        )
        assert figures((shared / "said" / name).read_text()) == figures(clone.stdout), name
    assert "refused" not in said
    for name, sentence in REFUSALS.items():
        assert [line.startswith("cpuidle-lab: error: ") for line in said[name]] == [True]
        assert sentence in said[name][0]
    assert left_behind(shared / "before", shared / "after") == EMPTY


def test_native_parts_need_no_more_than_the_tag_says(wheel: Path, tmp_path: Path) -> None:
    tag = re.search(r"manylinux_(\d+)_(\d+)_", wheel.name)
    assert tag
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    programs = [path for path in tmp_path.rglob("*") if path.is_file()
                and path.read_bytes()[:4] == b"\x7fELF"]  # fmt: skip
    carried = {path.name for path in programs}
    assert len(programs) > 10
    for path in programs:
        about = subprocess.run(["readelf", "-dV", path], capture_output=True, text=True, check=True)
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", about.stdout))
        assert {name for name in needed if not SYSTEM.fullmatch(name)} <= carried, path
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)", about.stdout)
        assert all([int(n) for n in one] <= [int(n) for n in tag.groups()] for one in versions)
