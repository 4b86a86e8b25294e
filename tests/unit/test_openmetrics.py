# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab watch --openmetrics`, read by Prometheus' own parser."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from cpuidle_lab.cli import main
from cpuidle_lab.host.machine import Host
from cpuidle_lab.view import openmetrics
from cpuidle_lab.view.openmetrics import BUCKETS_US
from cpuidle_lab.view.watch import SHADOW, SHADOW_STATS, Look, StateCount, Tally, look
from tests.unit import recorded
from tests.unit.test_watch import CPU0, STATS, write

PACKAGE = Path(__file__).parents[2] / "tools"
DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana.json"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unfold a machine with wteo in use, whose CPU 0 has counted something."""
    root = recorded.unfold("debian13", tmp_path / "machine")
    write(root, "/sys/devices/system/cpu/cpuidle/current_governor", "wteo")
    write(root, SHADOW, "teo_ng")
    write(root, SHADOW_STATS, STATS)
    counts = ((5, 10, 0, 2), (50, 1000, 3, 0), (20, 4000, 2, 1), (9, 80000, 7, 0))
    for state, values in enumerate(counts):
        for name, value in zip(("usage", "time", "above", "below"), values, strict=True):
            write(root, f"{CPU0}/state{state}/{name}", str(value))
    monkeypatch.setenv("CPUIDLE_LAB_ROOT", str(root))
    return root


def families(text: str) -> dict[str, Metric]:
    found = {family.name: family for family in text_string_to_metric_families(text)}
    assert all(family.type != "unknown" and family.documentation for family in found.values())
    return found


def values(family: Metric, name: str, **labels: str) -> list[float]:
    return [
        sample.value
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


def test_every_count_of_the_kernel_is_there(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "idle.prom"
    assert main(["watch", "--openmetrics", str(target), "--count", "1"]) == 0
    found = families(target.read_text())
    seen = look(Host())
    for name, field in (("wakeups", "usage"), ("above", "above"), ("below", "below")):
        for cpu, states in seen.states.items():
            for state in states:
                full = f"cpuidle_lab_cpu_{name}"
                labels = {"cpu": str(cpu), "state": state.name}
                assert values(found[full], f"{full}_total", **labels) == [getattr(state, field)]
        all_of_them = values(found[f"cpuidle_lab_{name}"], f"cpuidle_lab_{name}_total")
        per_cpu = values(found[f"cpuidle_lab_cpu_{name}"], f"cpuidle_lab_cpu_{name}_total")
        assert sum(all_of_them) == sum(per_cpu) > 0
    residency = found["cpuidle_lab_residency_seconds"]
    want = sum(state.time_us for states in seen.states.values() for state in states) / 1e6
    assert sum(values(residency, "cpuidle_lab_residency_seconds_total")) == pytest.approx(want)


def test_latency_is_in_buckets_that_add_up() -> None:
    states = [StateCount("POLL", 4, 1), StateCount("C1", 3, 1, 0, 0, 2),
              StateCount("C6", 2, 1, 0, 0, 133), StateCount("C10", 1, 1, 0, 0, 9000)]  # fmt: skip
    seen = Look(0.0, "menu", None, {7: states}, None, {}, ())
    family = families(openmetrics.text(seen, "6.12"))["cpuidle_lab_cpu_exit_latency_seconds"]
    assert family.type == "histogram"
    name = "cpuidle_lab_cpu_exit_latency_seconds"
    buckets = values(family, f"{name}_bucket", cpu="7")
    assert buckets == [4, *[7] * 6, *[9] * 5, 10]
    assert len(buckets) == len(BUCKETS_US) + 1
    assert values(family, f"{name}_count") == [10]
    assert values(family, f"{name}_sum") == [pytest.approx((3 * 2 + 2 * 133 + 9000) / 1e6)]


def test_savings_are_those_of_the_shadows() -> None:
    tallies = [
        Tally(0, "wteo", "active", 10, 10, 0, 0, 1000, 900),
        Tally(0, "menu_ng", "shadow", 10, 5, 4, 1, 1500, 900),
        Tally(1, "wteo", "active", 10, 10, 0, 0, 3000, 900),
        Tally(1, "menu_ng", "shadow", 10, 5, 4, 1, 1500, 900),
        Tally(2, "wteo", "active", 0, 0, 0, 0, 0, 0),
        Tally(2, "menu_ng", "shadow", 0, 0, 0, 0, 0, 0),
    ]
    found = families(openmetrics.text(Look(0.0, "wteo", None, {}, tallies, {}, ("menu_ng",)), "6"))
    name = "cpuidle_lab_cpu_shadow_savings_ratio"
    assert values(found[name], name, cpu="0", governor="menu_ng") == [-0.5]
    assert values(found[name], name, cpu="1") == [0.5]
    assert values(found[name], name, cpu="2") == []  # nothing was spent: no ratio
    assert values(found["cpuidle_lab_shadow_savings_ratio"],
                  "cpuidle_lab_shadow_savings_ratio") == [0.25]  # fmt: skip
    cost = values(
        found["cpuidle_lab_governor_cost_seconds"],
        "cpuidle_lab_governor_cost_seconds_total",
        governor="wteo",
    )
    assert cost == [pytest.approx(4000 * 4.096e-6)]


def test_names_of_states_may_be_anything() -> None:
    state = StateCount('a"b\\c\nd', 1, 1)
    found = families(openmetrics.text(Look(0.0, "", None, {0: [state]}, None, {}, ()), ""))
    (sample,) = found["cpuidle_lab_cpu_wakeups"].samples
    assert sample.labels["state"] == state.name


def test_without_idle_states_there_is_only_the_governor() -> None:
    found = families(openmetrics.text(Look(0.0, "menu", None, {}, None, {}, ()), "6.12"))
    assert "cpuidle_lab_info" in found and "cpuidle_lab_cpu_wakeups" not in found


def test_the_dashboard_asks_for_metrics_that_exist(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "idle.prom"
    main(["watch", "--openmetrics", str(target), "--count", "1"])
    there = {
        sample.name for family in families(target.read_text()).values() for sample in family.samples
    }
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = {
        name
        for panel in panels
        for item in panel["targets"]
        for name in re.findall(r"\bcpuidle_lab_\w+", item["expr"])
    }
    assert len(panels) >= 6 and asked <= there, asked - there


@pytest.mark.parametrize("name", ["idle.txt", "no/such/folder/idle.prom"])
def test_a_wrong_name_is_refused(name: str, tmp_path: Path, root: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["watch", "--openmetrics", str(tmp_path / name), "--count", "1"])
    assert caught.value.code == 2


def test_a_file_that_cannot_be_written_is_as_before(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "idle.prom"
    target.write_text("mine")
    assert main(["watch", "--openmetrics", str(target), "--count", "1"]) == 2
    assert "not written by this command" in capsys.readouterr().err
    old = "# HELP cpuidle_lab_info the governor in use; always 1\n"
    target.write_text(old)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(Path, "replace", full)
    assert main(["watch", "--openmetrics", str(target), "--count", "1"]) == 1
    assert "No space left" in capsys.readouterr().err
    assert target.read_text() == old


def test_a_reader_never_sees_a_part_and_ctrl_c_ends_it(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "idle.prom"
    command = [sys.executable, "-m", "cpuidle_lab", "watch", "--interval", "0.1"]
    process = subprocess.Popen(
        [*command, "--openmetrics", str(target)],
        env=os.environ | {"PYTHONPATH": str(PACKAGE)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        first = 0
        for _ in range(400):
            if target.exists():
                whole = target.read_text()
                assert families(whole) and whole.endswith("\n")
                first = first or target.stat().st_ino
                if target.stat().st_ino != first:
                    break
            time.sleep(0.02)
        assert target.stat().st_ino != first, "it was not written again"
    finally:
        process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=10)[1] == "" and process.returncode == 0
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["idle.prom"]
