# SPDX-License-Identifier: GPL-2.0
"""Replay makes every decision of a live kernel again.

`make fidelity` is the same over a million decisions.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit import command

pytestmark = [pytest.mark.lab, pytest.mark.full]

GOVERNORS = {"teo_ng", "menu_ng", "wteo", "base"}


def fidelity(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = command.run("experiment", "fidelity", "--json", *arguments)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_every_decision_is_made_again(tmp_path: Path) -> None:
    code, found = fidelity("--duration", "8", "--output", str(tmp_path / "trace.dat"))
    governors = found["governors"]
    assert code == 0
    for name, one in governors.items():
        assert one["identical"] == one["compared"], (name, one["first"])
        assert one["unknowable"] < one["compared"] / 5, name
    assert set(governors) == GOVERNORS
    assert sum(one["compared"] for one in governors.values()) >= 1_000_000
    # A hundred of each reason, of decisions without an idle period, and of those after a refusal.
    assert found["seldom"] == []
    # Tunables changed, learning was reset, events were lost, decisions were aborted.
    assert all(governors[name]["tunables"] > 3 for name in ("menu_ng", "wteo"))
    assert all(governors[name]["states_fresh"] > 0 for name in GOVERNORS - {"base"})
    assert found["gaps"] >= 10


@pytest.mark.parametrize("kernel", ["7.2"])
def test_on_other_kernels(kernel: str) -> None:
    code, found = fidelity(
        "--duration", "1", "--least", "0", "--machine", "skx", "--kernel", kernel
    )
    assert code == 0
    assert sum(one["compared"] for one in found["governors"].values()) > 5_000
