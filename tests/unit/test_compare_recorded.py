# SPDX-License-Identifier: GPL-2.0
"""The recorded governor in a comparison, and regrets that a recording leaves open."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cpuidle_lab.cli import main
from cpuidle_lab.compare import figures, model
from cpuidle_lab.compare.worst import Worst
from cpuidle_lab.figures.told import Doubt, distance
from cpuidle_lab.recording import columns, state_tables
from cpuidle_lab.recording.formats.writer import Event
from cpuidle_lab.replay import engine
from tests.unit.interrupts import Arm, write
from tests.unit.kernel_events import EXIT, MS, Kernel

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "mt8196"
TRACE, DUMP = DATA / "teo-6.12-fixed.trace.dat", DATA / "teo-6.12-fixed.before.txt"


def compared(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> dict[str, Any]:
    """Return what `compare --json` tells of a recording."""
    chosen = [] if "--governors" in words else ["--governors", "wteo,menu_ng", "--no-mainline"]
    assert main(["compare", str(path), *chosen, "--no-instructions", "--json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def by_probes(path: Path) -> Path:
    kernel = Kernel()
    for _ in range(150):
        kernel.idle(1, 300_000, sleep=298_000, delta=298_000, expiry=True, stop=False)
        kernel.idle(2, 900_000, sleep=770_000, delta=400_000, expiry=True)
    return kernel.write(path)


def by_cpu_idle(path: Path) -> Path:
    kernel = Kernel()
    for _ in range(150):
        for state, stay in ((1, 300_000), (2, 900_000)):
            kernel.add(3000, "cpu_idle", state=state, cpu_id=0)
            kernel.add(stay, "cpu_idle", state=EXIT, cpu_id=0)
    return kernel.write(path)


def by_interrupts(path: Path) -> Path:
    cpu = Arm()
    rng = np.random.default_rng(3)
    cpu.learn()
    for n in range(400):
        stay = int(rng.exponential(MS)) + 150_000
        (cpu.timer if n % 3 else cpu.device)(stay, 1 + n % 2)
    return write(path, cpu)


@pytest.mark.parametrize("make", [by_probes, by_cpu_idle, by_interrupts])
def test_the_recorded_governor_is_the_first_row_of_each_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Any
) -> None:
    path = make(tmp_path / "a.dat")
    found = compared(capsys, path)
    assert found["summary"][0]["label"] == "recorded"
    row = next(one for one in found["results"] if one["governor"] == "recorded")
    assert row["kind"] == "recorded" and row["metrics"]["regret"] >= 0
    with columns.opened(path) as recording:
        told = recording.table("interval")["index"].value_counts()
    entries = {int(k): int(n) for k, n in told.rows()}
    assert {k: n for k, n in enumerate(row["entries"]) if n} == entries
    page = tmp_path / "page.html"
    assert main(["compare", str(path), "--governors", "wteo", "--no-mainline",
                 "--no-instructions", "-o", str(page)]) == 0  # fmt: skip
    assert re.search(r"recorded \((menu|teo)\)", capsys.readouterr().out)
    assert re.search(r'"name": ?"recorded"', page.read_text())


def test_only_unknown_sleep_lengths_open_a_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(capsys, by_interrupts(tmp_path / "a.dat"))
    metrics = {one["governor"]: one["metrics"] for one in found["results"]}
    for name in ("recorded", "oracle"):
        assert metrics[name]["regret_least"] == metrics[name]["regret_most"]
    assert metrics["wteo"]["regret_least"] < metrics["wteo"]["regret_most"]
    assert any("regrets are ranges" in note for note in found["notes"])


def test_cpu_idle_alone_ranks_no_governor_that_needs_timers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = compared(capsys, by_cpu_idle(tmp_path / "a.dat"))
    metrics = {one["governor"]: one["metrics"]["regret"] for one in found["results"]}
    assert metrics["menu_ng"] is None and metrics["bayes"] is None
    assert metrics["recorded"] is not None and metrics["oracle"] == 0
    assert found["headline"].startswith("No governor is ranked")
    assert any("not ranked, since they need timers" in note for note in found["notes"])


def in_phases(path: Path) -> Path:
    """Write a recording by interrupts whose markers name a workload."""
    cpu = Arm()
    cpu.learn()
    for n in range(400):
        (cpu.timer if n % 3 else cpu.device)(150_000 + 7_000 * n, 1 + n % 2)
    first, last = cpu.events[2], cpu.events[-1]
    marks = [(first.ts - 1000, "phase governor=teo workload=a"), (last.ts + 1000, "phase end")]
    cpu.events += [Event(0, ts, "print", text=text) for ts, text in marks]
    cpu.events.sort(key=lambda event: event.ts)
    return write(path, cpu)


def by_hrtimers(path: Path) -> Path:
    """Write a recording whose hrtimers would tell decisions, too."""
    cpu = Arm()
    cpu.learn()
    for n in range(200):
        cpu.add(1000, "hrtimer_start", "hrtimer_wakeup", hrtimer=1, expires=cpu.now + 2 * MS)
        (cpu.timer if n % 3 else cpu.device)(150_000 + 9_000 * n, 1 + n % 2)
    return write(path, cpu)


@pytest.mark.parametrize("make", [by_interrupts, in_phases, by_hrtimers])
def test_report_and_compare_agree_on_a_recording_by_interrupts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Any
) -> None:
    path = make(tmp_path / "a.dat")
    found = compared(capsys, path)
    assert found["traces"][0]["kind"] == columns.INTERRUPTS
    assert main(["report", str(path), "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    same_figures(reported, found)
    (line,) = reported["summary"]
    assert (line["governor"], line["worst_regret"]) == (
        "teo", reported["runs"][0]["metrics"]["regret"])  # fmt: skip


def same_figures(reported: dict[str, Any], found: dict[str, Any]) -> None:
    """Expect the figures of the recorded governor, and notes on what is known, in both."""
    (run,) = reported["runs"]
    row = next(one for one in found["results"] if one["governor"] == "recorded")
    assert run["source"] == "interrupts"
    for name in ("regret", "power_mw", "above", "below", "tick_wakeups", "intervals"):
        assert run["metrics"][name] == pytest.approx(row["metrics"][name]), name
    assert [state["entries"] for state in run["states"]] == row["entries"]
    said = [*run["notes"], *reported["traces"][0]["omissions"]]
    for words in ("exits from idle have a known cause", "the sleep length is known in",
                  "have one target residency"):  # fmt: skip
        mine = [note for note in said if words in note]
        assert mine and all(any(one in note for note in found["notes"]) for one in mine)


def result(label: str, *regrets: float) -> model.Result:
    outcomes = [
        engine.Outcome(label, None, cost_pj=100 + one, oracle_pj=100)  # type: ignore[arg-type]
        for one in regrets
    ]
    far = outcomes[1] if len(outcomes) > 1 else None
    return model.Result("a", label, "project", label, outcomes[0], far=far)


@pytest.mark.parametrize(
    ("one", "other", "doubts", "told"),
    [
        ((10, 20), (22.5, 30), (), True),
        ((10, 20), (21.5, 30), (), False),
        # 1 point and the error of the instrument.
        ((10, 20), (21.5, 30), (0.4,), True),
        ((10, 20), (21.5, 30), (0.6,), False),
        ((10, 20), (29.5, 30), (9.0,), False),
        # Both spread by 3 points, and 2 points lie in the time of the loop.
        ((10, 20), (25.5, 30), (0.0, 3.0), True),
        ((10, 20), (25.0, 30), (0.0, 3.0), False),
        ((10, 20), (23.5, 30), (0.0, 0.0, 2.0), True),
        ((10, 20), (22.5, 30), (0.0, 0.0, 2.0), False),
        ((10, 20), (15, 30), (0.0,), False),
        ((10, 20), (12, 12), (), False),
        ((10,), (12,), (), True),
        ((10,), (10,), (), True),  # as equal as they are
        ((20, 10), (23.5,), (), True),  # drawn may be above far
    ],
)
def test_an_order_is_told_where_ranges_are_apart(
    one: tuple[float, ...], other: tuple[float, ...], doubts: tuple[float, ...], told: bool
) -> None:
    pair = result("x", *one), result("y", *other)
    for each in pair:
        each.doubt = Doubt(*doubts)
    assert figures.is_told(*pair) is told
    assert figures.is_told(*reversed(pair)) is told


def test_the_errors_of_a_regret_beside_its_range_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error of the instrument is the distance from the recorded regret to the replayed one."""
    path = by_interrupts(tmp_path / "a.dat")
    margins = {}
    for governors in ("wteo", "wteo,teo@6.12"):
        found = compared(capsys, path, "--governors", governors, "--no-mainline")
        (said,) = (note for note in found["notes"] if "besides its range" in note)
        rows = {row["governor"]: row["metrics"] for row in found["results"]}
        margins[governors] = float(re.findall(r"([\d.]+) \(wteo\)", said)[0])
        assert ("name the recorder in --governors" in said) is ("teo@6.12" not in rows)
    recorder = rows["teo@6.12"]["regret_least"], rows["teo@6.12"]["regret_most"]
    error = distance(rows["recorded"]["regret"], recorder)
    assert error > 0.1
    assert margins["wteo,teo@6.12"] - margins["wteo"] == pytest.approx(2 * error, abs=0.11)
    assert margins["wteo"] > 2.0


def test_the_spread_is_of_single_intervals() -> None:
    lost = Worst(0)
    for cpu, values in enumerate(([3.0, 0.0], [4.0])):
        lost.add(cpu, 0, {"cost_pj": np.array(values), "oracle_pj": np.zeros(len(values))})
    assert lost.excess_pj == 5.0 and not lost.places()


def test_the_time_of_the_loop_hides_a_part_of_short_intervals() -> None:
    outcome = engine.Outcome("wteo", None, oracle_pj=100.0)  # type: ignore[arg-type]
    outcome.length_oracle_pj[4 * 13] = 60.0  # from 8,192 ns on
    outcome.length_oracle_pj[4 * 20] = 40.0  # from 1,048,576 ns on
    assert outcome.begins(4096) == pytest.approx(30 + 40 / 256)
    assert outcome.begins(10**9) == pytest.approx(100)
    assert outcome.begins(0) == 0


# ---- A trace as reviewers ask for it ----


def _machine(folder: Path) -> Path:
    """Return a machine file with the idle states that the dump tells."""
    states: dict[int, dict[int, dict[str, str]]] = {}
    for line in DUMP.read_text().splitlines():
        if hit := re.search(r"cpu(\d+)/cpuidle/state(\d+)/(\w+):(.*)$", line):
            states.setdefault(int(hit[1]), {}).setdefault(int(hit[2]), {})[hit[3]] = hit[4]
    lines = ["tables:"]
    for cpu, mine in sorted(states.items()):
        lines.append(f"  {cpu}:")
        for state in mine.values():
            if int(state["residency"]) < 2**32 - 1:  # that of suspend-to-idle
                lines.append(
                    f"    - {{name: {state['name']}, exit_latency_us: "
                    f"{state['latency']}, target_residency_us: {state['residency']}}}"
                )
    path = folder / "machine.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def _sysfs_us(path: Path) -> np.ndarray[Any, Any]:
    found = np.zeros(3)
    for line in path.read_text().splitlines():
        if hit := re.search(r"state([012])/time:(\d+)$", line):
            found[int(hit[1])] += int(hit[2])
    return found


@pytest.mark.skipif(not TRACE.exists(), reason="a recording of others, not in the project")
def test_a_trace_of_reviewers_tells_two_governors_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--governors", "teo@6.12,teo@7.2", "--no-mainline", "--worst", "0")
    found = compared(capsys, TRACE, *words, "--machine", str(_machine(tmp_path)))
    assert found["summary"][0]["label"] == "recorded"
    old, new = (next(r["metrics"] for r in found["results"] if r["governor"] == name)
                for name in ("teo@6.12", "teo@7.2"))  # fmt: skip
    assert old["regret_most"] < new["regret_least"]
    assert found["traces"][0]["untold"] == [] and found["traces"][0]["withheld"] == []
    assert any("99.9 % of 22,221 exits" in note for note in found["notes"])
    assert any("cros_ec_spi" in note and "kicks" in note for note in found["notes"])
    row = next(one for one in found["results"] if one["governor"] == "recorded")
    # Both states of one target residency were entered, and are told.
    twins = "cpuoff-l and clusteroff-l of CPU 0-3 have one target residency, 6710 us"
    assert any(twins in note for note in found["notes"])
    assert row["entries"][1] > 0 < row["entries"][2]
    assert main(["report", str(TRACE), "--json", "--machine", str(_machine(tmp_path))]) == 0
    same_figures(json.loads(capsys.readouterr().out), found)


@pytest.mark.skipif(not TRACE.exists(), reason="a recording of others, not in the project")
def test_shares_of_time_agree_with_the_sysfs_dumps(tmp_path: Path) -> None:
    given = state_tables.given(str(_machine(tmp_path)))
    with columns.opened(TRACE, given) as recording:
        periods = recording.table("period")
    state, ns = (periods[name].to_numpy() for name in ("out_index", "residency_ns"))
    by_state = np.bincount(state, ns.astype(float), minlength=3)
    before, after = _sysfs_us(DUMP), _sysfs_us(DATA / "teo-6.12-fixed.after.txt")
    dumped = after - before
    assert np.abs(by_state / by_state.sum() - dumped / dumped.sum()).max() < 0.01
