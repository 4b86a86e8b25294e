# SPDX-License-Identifier: GPL-2.0
"""The wheel on clean Debian machines without a compiler: the clone's figures, and nothing left.

The machines have Python and its venv, and no network. The packages that the wheel needs come from
a directory, in the versions of tools/requirements.txt.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import roots
from wheel_backend import TOP, build_wheel

from cpuidle_lab.base.cache import cached
from cpuidle_lab.states import linux_source
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
# Debian's release, the version of its Python, and the architecture. One for arm64 runs in QEMU.
MACHINES = {
    "12": ("bookworm", "3.11", "amd64"),
    "13": ("trixie", "3.13", "amd64"),
    "12-arm64": ("bookworm", "3.11", "arm64"),
}
# Fixtures, and what pip calls the architecture.
WHEELS = {"amd64": "wheel", "arm64": "arm64_wheel"}
PLATFORMS = {"amd64": "x86_64", "arm64": "aarch64"}
AUDITWHEEL = ("auditwheel==6.8.2", "pyelftools==0.33", "packaging==26.4")
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
def arm64_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the complete wheel for arm64."""
    folder = tmp_path_factory.mktemp("arm64")
    roots.export(folder / "source")
    sources = folder / "source" / "build" / "cache" / "linux-source"
    for series in linux_source.SUITES:
        shutil.copytree(linux_source.fetch(series).folder, sources / series)
    # Charts are drawn by one file of plotly.
    return roots.build_wheel(folder / "source", wheelhouse("3.11", "arm64", "plotly"), folder)


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


def wheelhouse(python: str, architecture: str, *further: str) -> Path:
    """Return a directory with the wheels that the project's wheel needs, for a Python."""
    wanted = [*DEPENDENCIES, *further]

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
        tags = [f"manylinux_2_{minor}_{PLATFORMS[architecture]}" for minor in (28, 27, 24, 17, 12)]
        words += [f"--platform={tag}" for tag in tags]
        subprocess.run([sys.executable, "-m", "pip", "download", *words, *wanted], check=True)

    recipe = [python, *wanted, PINS.read_bytes()]
    name = "-".join(["wheelhouse", architecture, python, *further])
    return cached(name, recipe, f"Downloading packages for {python}", build)


def auditwheel() -> Path:
    """Return a directory with auditwheel, which nothing else needs."""

    def build(target: Path) -> None:
        words = ["install", "-q", "--no-deps", "--target", str(target), *AUDITWHEEL]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)

    return cached("auditwheel", AUDITWHEEL, "Downloading auditwheel", build)


def figures(text: str) -> Any:
    """Return what a command prints, without the times and the words of its call."""
    found = json.loads(text)
    return {k: v for k, v in found.items() if k not in ("command", "start", "end", "kernel")}


def differing(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Return the places at which two answers differ, with both values."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        pairs = [(key, ours[key], theirs[key]) for key in ours]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = [(str(n), *both) for n, both in enumerate(zip(ours, theirs, strict=True))]
    else:
        return [] if ours == theirs else [f"{place}: {ours} {theirs}"]
    return [line for key, a, b in pairs for line in differing(a, b, f"{place}/{key}")]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_wheel_gives_the_figures_of_the_clone(
    machine: str, work: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    release, python, architecture = MACHINES[machine]
    shared = tmp_path / "shared"
    shutil.copytree(work, shared / "work")
    shutil.copytree(wheelhouse(python, architecture), shared / "wheels")
    shutil.copy(request.getfixturevalue(WHEELS[architecture]), shared / "wheels")
    for name in ("functions.sh", "wheel-round.sh"):
        shutil.copy(Path(__file__).parent / name, shared)
    name = "python" if architecture == "amd64" else f"python-{architecture}"
    root = roots.tool_root(name, release, ("python3", "python3-venv"), architecture)
    said = answers(roots.run_in(root, shared, "wheel-round.sh", *DEPENDENCIES))
    assert said["compiler"] == ["none"]
    assert said["opened"] == ["True"]
    assert int(said["seconds"][0]) <= SECONDS or architecture != "amd64"
    for name, words in COMMANDS.items():
        clone = subprocess.run(
            [TOP / "cpuidle-lab", *words], cwd=work, capture_output=True, text=True, check=True
        )
        theirs = figures((shared / "said" / name).read_text())
        assert differing(theirs, figures(clone.stdout)) == [], name
    assert "refused" not in said
    for name, sentence in REFUSALS.items():
        assert [line.startswith("cpuidle-lab: error: ") for line in said[name]] == [True]
        assert sentence in said[name][0]
    assert left_behind(shared / "before", shared / "after") == EMPTY


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_auditwheel_finds_native_parts_consistent_with_the_tag(
    architecture: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(WHEELS[architecture])
    tag = re.search(r"manylinux_(\d+)_(\d+)_", path.name)
    assert tag
    shown = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", path],
        env=os.environ | {"PYTHONPATH": str(auditwheel())},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = re.search(r'following platform\s+tag:\s+"manylinux_(\d+)_(\d+)_', shown)
    assert found, shown
    assert [int(n) for n in found.groups()] <= [int(n) for n in tag.groups()]
