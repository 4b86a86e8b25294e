# SPDX-License-Identifier: GPL-2.0
"""Cross-validation: trust in replay, and the plan of the recordings."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.cli import main
from cpuidle_lab.crossval import plan, trust
from cpuidle_lab.figures import withheld
from cpuidle_lab.lab.session import TRACE
from cpuidle_lab.recording import columns
from tests.unit.crossvalidating import BOTH, record

# ---- Trust. ----


def test_a_recorder_is_named_with_its_error(tmp_path: Path) -> None:
    path = record(tmp_path / "a.dat", *BOTH)
    with columns.opened(path) as recording:
        found, why = trust.trust(recording, path)
    assert not why
    assert {one.recorder.split(":")[0] for one in found} == {"teo_ng", "wteo"}
    for one in found:
        assert one.intervals > 0
        assert one.share == pytest.approx(one.replayed_pj / one.recorded_pj - 1)
        assert ("WARNING" in one.line()) == (abs(one.worst) > trust.DOUBT)


def energy(cost_pj: float) -> trust.Energy:
    """Return what a replay of a phase comes to."""
    return trust.Energy(cost_pj, oracle_pj=90.0, intervals=7)


def test_errors_of_two_phases_do_not_make_up_for_each_other() -> None:
    both = [(energy(100), energy(110), "a"), (energy(100), energy(88), "b")]
    found = trust.Trust.of("wteo", both)
    assert found.share == pytest.approx(-0.01)
    assert found.worst == pytest.approx(-0.12)
    assert found.worst_workload == "b"
    assert found.doubtful
    assert "-12.0 % on b" in found.line()


def judge_any_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let regrets stand: some periods of the recording are within an exit latency."""
    any_share = replace(withheld.KINDS[withheld.SHORT], limit=100)
    monkeypatch.setitem(withheld.KINDS, withheld.SHORT, any_share)


def test_what_was_measured_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"bursts": {"mean": 0.4, "worst": 1.25, "deepest": "C6 133 us"}}
    monkeypatch.setattr(trust, "measured", lambda: known)
    said = trust.known_error("bursts")
    assert "within 0.4 points on average, 1.2 at worst" in said
    assert "on machines with the deepest state C6 133 us; for others it is a guess" in said
    assert trust.known_error("something-else") == ""


@pytest.mark.parametrize("command", ["report", "compare"])
def test_pages_state_the_error_of_the_workload(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    known = {"bursts": {"mean": 0.4, "worst": 1.25, "deepest": "C6 133 us"}}
    monkeypatch.setattr(trust, "measured", lambda: known)
    judge_any_share(monkeypatch)
    path = record(tmp_path / "a.dat", *BOTH)
    page = tmp_path / "page.html"
    assert main([command, str(path), "-o", str(page)]) == 0
    sentence = "on a recording of bursts was predicted within 0.4 points on average, 1.2 at worst"
    assert sentence in page.read_text()
    capsys.readouterr()
    assert main([command, str(path)]) == 0
    assert sentence in " ".join(capsys.readouterr().out.split())


def test_each_workload_of_the_lab_was_measured() -> None:
    """Reports quote the table of docs/measured/crossval.md."""
    from cpuidle_lab.lab.workloads import WORKLOADS

    known = trust.measured()
    assert sorted(known) == sorted(WORKLOADS)
    table = (TOP / "docs/measured/crossval.md").read_text().split("## On all tables")[0]
    rows = {
        cells[1].strip(): cells
        for line in table.splitlines()
        if line.startswith("| ") and len(cells := line.split("|")) > 10
    }
    for workload, one in known.items():
        cells = rows[workload]
        assert one["deepest"] == cells[2].strip()
        assert float(cells[7]) == pytest.approx(one["mean"], abs=0.006)
        assert abs(float(cells[10])) == pytest.approx(one["worst"], abs=0.006)


@pytest.mark.parametrize("doubt", [trust.DOUBT, 1e9])
def test_replay_checks_energy_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], doubt: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Toy governors made the outcomes, so energy differs; they recorded no state to begin with."""
    monkeypatch.setattr(trust, "DOUBT", doubt)
    path = record(tmp_path / "a.dat", *BOTH)
    assert main(["replay", str(path), "--check", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["not_checked"] == "no decision of teo_ng, wteo follows a recorded state"
    assert all(one["compared"] == 0 for one in told["decisions"])
    assert len(told["energy"]) == 2
    assert any(one["doubtful"] for one in told["energy"]) == (doubt < 1)
    assert main(["replay", str(path), "--check"]) == 1
    assert ("WARNING" in capsys.readouterr().out) == (doubt < 1)


def test_report_and_compare_say_the_same_of_each_governor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regret as recorded: of the report, of cross-validation, and in compare's notes."""
    judge_any_share(monkeypatch)
    path = record(tmp_path / "a.dat", *BOTH)

    def told(*command: str) -> Any:
        main([*command, "--json"])
        return json.loads(capsys.readouterr().out)

    report = {
        one["governor"].split()[0]: one["metrics"]["regret"]
        for one in told("report", str(path))["runs"]
    }
    assert set(report) == {"teo_ng", "wteo"}
    for pair in told("crossval", str(path))["pairs"]:
        name = pair["replayed"].split(":")[0]
        assert pair["real"][0]["regret"] == pytest.approx(report[name])
    notes = " ".join(told("compare", str(path), "--no-mainline", "--no-instructions")["notes"])
    for name, regret in report.items():
        assert re.search(rf"{name}[^;]*against {regret:.2f} %", notes), notes


def test_the_check_begins_with_the_gaps_of_a_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record(tmp_path / "a.dat", *BOTH)

    def found() -> dict[str, dict[str, str]]:
        main(["replay", "--check", str(path), "--json"])
        return {one["check"]: one for one in json.loads(capsys.readouterr().out)["findings"]}

    before = found()
    assert list(before) == ["events", "complete", "overslept", "tick"]
    assert before["overslept"]["status"] == "ok"
    monkeypatch.setattr(trust, "overslept_share", lambda _: 0.11)
    assert found()["overslept"]["status"] == "warn"


# ---- The plan. ----


def test_every_workload_is_planned_once_for_each_seed() -> None:
    from cpuidle_lab.lab.workloads import WORKLOADS

    boots = list(plan.boots())
    assert {boot.seed for boot in boots} == set(range(1, plan.SEEDS + 1))
    for seed in range(1, plan.SEEDS + 1):
        names = [name for boot in boots if boot.seed == seed for name, _ in boot.chosen]
        assert sorted(names) == sorted(WORKLOADS)
    assert {boot.machine for boot in boots} == {"skx", "spr", "skl", "power9"}


def test_the_full_plan_has_all_machines_and_kernels() -> None:
    boots = list(plan.boots(full=True))
    assert len({boot.name for boot in boots}) == len(boots)
    workloads = {name for table in plan.TABLES.values() for name in table}
    phases = {(b.machine, b.kernel, b.seed, name) for b in boots for name, _ in b.chosen}
    assert len(phases) == 4 * len(plan.FULL_KERNELS) * plan.FULL_SEEDS * len(workloads)
    assert sum(len(boot.chosen) for boot in boots) == len(phases)


def test_all_workloads_of_a_boot_have_its_turns() -> None:
    boots = [*plan.boots(), *plan.boots(full=True)]
    assert {boot.turn_us for boot in boots} == {10, 100}
    for boot in boots:
        assert {plan.turn_of(name) for name, _ in boot.chosen} == {boot.turn_us}
        assert (boot.turn_us == 100) == (boot.chosen[0][0] == "idle")


def test_each_phase_begins_afresh() -> None:
    boot = next(plan.boots(only=["cyclictest-470us"], seeds=1))
    script = boot.script()
    assert script.count("\nafresh ") == len(plan.GOVERNORS)
    assert "tune wteo latency_bias 0" in script


def test_every_seed_meets_the_tick_at_another_point() -> None:
    """Also where a workload takes no seed."""
    scripts = {boot.script() for boot in plan.boots(only=["idle"])}
    assert len(scripts) == plan.SEEDS
    assert all(script.count("usleep") >= len(plan.GOVERNORS) for script in scripts)


def test_a_recording_replaces_older_ones_of_the_same_boot_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--only` and `--full` choose others for the same machine, kernel and seed."""

    def run_lab(_: Any, output: Path, __: str) -> Any:
        output.mkdir()
        (output / TRACE).touch()
        return SimpleNamespace(check=lambda: SimpleNamespace(files=output))

    monkeypatch.setattr(plan, "run_lab", run_lab)
    monkeypatch.setattr(plan.Boot, "files", lambda _: {})
    every = next(boot for boot in plan.boots() if boot.machine == "spr")
    some = next(boot for boot in plan.boots(only=["pgbench-44"]))
    same, full = (
        next(
            boot for boot in plan.boots(full=True) if boot.machine == "spr" and name in boot.chosen
        )
        for name in (every.chosen[0], ("redis", 1))
    )
    assert every.name == same.name == "spr-6.12-1"
    for version in ("old", "new"):
        monkeypatch.setattr(plan, "key_of", lambda _, version=version: version)
        made = {boot.record(tmp_path) for boot in (full, some, every)}
        plan.drop_older(tmp_path, made)
        assert set(tmp_path.glob("*-*.trace.dat")) == made
        assert len(made) == 3
