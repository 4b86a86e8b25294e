# SPDX-License-Identifier: GPL-2.0
"""What the closed-loop simulation must show, on every state table.

The numbers in governors/wteo/README.md come from the same program. Here only
what a change may not lose is checked.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
TABLES = ("skx", "skl", "power9")

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("make")),
    reason="gcc and make are not installed",
)

Regret = dict[str, dict[str, float]]


def parse(text: str) -> Regret:
    """Return regret in percent by stream and column; "mean" and "worst" are streams, too."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    columns = lines[0][1:]
    return {line[0]: dict(zip(columns, map(float, line[1:]), strict=True)) for line in lines[1:]}


@pytest.fixture(scope="module")
def sim() -> Path:
    made = subprocess.run(
        ["make", "-C", "tests/sim"], cwd=TOP, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return TOP / "build" / "sim" / "sim"


def run(sim: Path, *arguments: str) -> str:
    return subprocess.run([sim, *arguments], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module", params=TABLES)
def regret(request: pytest.FixtureRequest, sim: Path) -> Regret:
    return parse(run(sim, f"table={request.param}", "periods=10000", "seed=5"))


def test_wteo_off_is_teo(regret: Regret) -> None:
    for stream, columns in regret.items():
        assert columns["wteo-off"] == columns["teo_ng"], stream


def test_expected_cost_beats_both_mainline_governors_on_average(regret: Regret) -> None:
    mean = regret["mean"]
    assert mean["wteo"] < 0.5 * min(mean["teo_ng"], mean["menu_ng"])


def test_expected_cost_harms_no_stream(regret: Regret) -> None:
    for stream, columns in regret.items():
        best = min(columns["teo_ng"], columns["menu_ng"])
        assert columns["wteo"] <= best + 1.0, stream


def test_no_wakeup_is_slower_than_both_mainline_governors(sim: Path) -> None:
    for table in TABLES:
        p99 = {}
        for policy in ("teo_ng", "menu_ng", "wteo"):
            text = run(sim, f"table={table}", f"policy={policy}", "latency=1", "periods=5000")
            lines = [line.split() for line in text.splitlines() if line.strip()][1:]
            p99[policy] = {line[0]: float(line[2]) for line in lines}
        for stream, latency in p99["wteo"].items():
            worse = max(p99["teo_ng"][stream], p99["menu_ng"][stream])
            assert latency <= worse, (table, stream)


def test_context_pays_on_average_and_is_needed_for_alternation(regret: Regret) -> None:
    assert regret["mean"]["wteo"] <= regret["mean"]["wteo-nxn"]
    assert regret["alternating"]["wteo"] < regret["alternating"]["wteo-nxn"]


def test_unknown_powers_cost_little(sim: Path) -> None:
    for table in TABLES:
        options = (f"table={table}", "policy=wteo", "periods=5000")
        unknown = parse(run(sim, *options))["mean"]["wteo"]
        known = parse(run(sim, *options, "powers=1"))["mean"]["wteo"]
        assert unknown <= known + 5.0, table


def test_same_seed_same_output(sim: Path) -> None:
    options = ("table=skx", "periods=500")
    assert run(sim, *options) == run(sim, *options)
    assert run(sim, *options) != run(sim, *options, "seed=2")


@pytest.mark.parametrize(
    "argument", ["table=none", "stream=none", "policy=none", "periods=0", "hz=x", "what"]
)
def test_bad_arguments_are_refused(sim: Path, argument: str) -> None:
    done = subprocess.run([sim, argument], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
