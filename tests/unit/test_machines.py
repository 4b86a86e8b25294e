# SPDX-License-Identifier: GPL-2.0
"""Machines by name: this one, those of a kernel's sources, and names that are wrong."""

import json
from pathlib import Path

import pytest

from cpuidle_lab.cli import main
from cpuidle_lab.host.machine import Host as Host
from cpuidle_lab.host.sysfs import Tree
from cpuidle_lab.recording import state_tables
from cpuidle_lab.states import kernel_tables
from cpuidle_lab.states.kernel_tables import Tables
from cpuidle_lab.states.linux_source import NEWEST
from tests.unit import recorded

SENTENCE = "cpuidle-lab: the kernel's HZ is not known: {} is assumed\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unfold a machine whose kernel does not tell HZ."""
    root = recorded.unfold("debian13", tmp_path / "machine")
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(root))
    return root


@pytest.mark.parametrize(("options", "hz"), [([], 250), (["--hz", "1000"], 1000)])
def test_an_assumed_tick_is_said(
    root: Path, capsys: pytest.CaptureFixture[str], options: list[str], hz: int
) -> None:
    assert main(["machines", "this", "--json", *options]) == 0
    told = capsys.readouterr()
    (found,) = json.loads(told.out)["machines"]
    assert (found["tick_us"], found["tick_assumed"]) == (1e6 / hz, True)
    assert told.err == SENTENCE.format(hz)


def test_a_known_tick_is_not_assumed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / f"boot/config-{Host(Tree(root)).kernel()}").write_text("CONFIG_HZ=100\n")
    assert main(["machines", "this", "skx", "--json"]) == 0
    told = capsys.readouterr()
    ticks = [(one["tick_us"], one["tick_assumed"]) for one in json.loads(told.out)["machines"]]
    assert ticks == [(10_000, False), (4000, False)]
    assert told.err == ""


def test_this_machine_is_that_of_its_first_cpu_with_idle_states(root: Path) -> None:
    found = state_tables.find("this")
    assert found.names == ("POLL", "C1", "C1E", "C6")
    assert found.target_residency_ns == (0, 2000, 20_000, 600_000)


def test_without_idle_states_there_is_no_this(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in sorted(root.glob("sys/devices/system/cpu/cpu0/cpuidle/state*/name")):
        path.unlink()
    assert main(["machines", "this"]) == 1
    assert "shows no idle states (no cpuidle driver)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("intel_idle:skz", "unknown machine 'intel_idle:skz'; did you mean 'intel_idle:skx'?"),
        ("intel_idle:skz@6.12", "unknown machine 'intel_idle:skz'; did you mean 'intel_idle:skx'?"),
        ("dts:agati", "unknown machine 'dts:agati'; did you mean 'dts:agatti'?"),
        ("dts:skx", "unknown machine 'dts:skx'"),
        ("intel_idle:", "unknown machine 'intel_idle:'"),
    ],
)
def test_an_unknown_table_of_the_kernel_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spec: str, words: str
) -> None:
    asked = []

    def fetch(version: str) -> Tables:
        asked.append(version)
        states = (("POLL", 0, 0), ("C1", 2, 2))
        return Tables("6.12.9-1", {"intel_idle": {"skx": states}, "dts": {"agatti": states}})

    monkeypatch.setattr(kernel_tables, "fetch", fetch)
    assert main(["machines", spec]) == 2
    assert words in capsys.readouterr().err
    assert asked == [spec.partition("@")[2] or NEWEST]
    right = spec.replace("skz", "skx").replace("agati", "agatti")
    assert (main(["machines", right]) == 0) == (right != spec)
