# SPDX-License-Identifier: GPL-2.0
"""Governors compared by replay, on streams whose answer is known."""

import contextlib
import csv
import io
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.compare import compare_text, figures, model, reasons, sources, worst
from cpuidle_lab.recording import columns
from cpuidle_lab.recording.trace import TIME_MAX
from cpuidle_lab.replay import candidates as spec
from cpuidle_lab.replay import engine, instructions, library
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable
from cpuidle_lab.view import terminal
from cpuidle_lab.view.terminal import meter
from tests.unit.synthetic import PLAIN

US = 1_000
MACHINE = StateTable(
    names=("POLL", "C1", "C1E", "C6"),
    exit_latency_ns=(0, 2 * US, 10 * US, 133 * US),
    target_residency_ns=(0, 2 * US, 20 * US, 600 * US),
    power_uw=(3_500_000, 1_300_000, 1_000_000, 120_000),
    polling=(True, False, False, False),
    tick_ns=4_000_000,
)
LAWS = ("exponential", "bimodal", "periodic")


def lengths(law: str, count: int, rng: np.random.Generator) -> engine.Array:
    if law == "exponential":
        return rng.exponential(300 * US, count)
    if law == "bimodal":
        short, long = rng.normal(40 * US, 5 * US, count), rng.normal(3000 * US, 100 * US, count)
        return np.where(rng.random(count) < 0.6, short, long)
    return np.full(count, 1000 * US)


def write(target: Path, law: str, count: int = 3000, cpus: int = 2, **changes: Any) -> Path:
    """Write a synthetic recording; `changes` are columns that differ."""
    rng = np.random.default_rng(len(law))
    meta = {
        "kind": columns.SYNTH,
        "source": law,
        "machines": {str(cpu): columns.describe(MACHINE) for cpu in range(cpus)},
    }
    with columns.Writer(target, meta) as writer:
        for cpu in range(cpus):
            length = np.maximum(1, lengths(law, count, rng)).astype(np.int64)
            far = (length + rng.exponential(50_000 * US, count)).astype(np.int64)
            busy = np.full(count, 30 * US)
            start = 10**9 + np.cumsum(length + busy + 200 * US) - length - busy
            rows = {name: np.zeros(count, np.int64) for name in PLAIN} | {
                "cpu": np.full(count, cpu),
                "start_ns": start,
                "length_ns": length,
                "timer_ns": length if law == "periodic" else far,
                "tick_phase_ns": np.full(count, 12_345),
                "busy_ns": busy,
                "latency_req_ns": np.full(count, TIME_MAX),
            }
            writer.add("interval", pl.DataFrame(rows | changes))
    return target


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("traces")
    return [write(folder / law, law) for law in LAWS]


@pytest.fixture(scope="module")
def everything(
    traces: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], str, str]:
    """Return the JSON, the CSV and the HTML of one comparison."""
    folder = tmp_path_factory.mktemp("out")
    command = [sys.executable, "-m", "cpuidle_lab", "compare", *map(str, traces), "--json"]
    command += ["--no-instructions", "--csv", str(folder / "tables"), "-o", str(folder / "x.html")]
    command += ["--governors", "wteo,menu_ng,wteo:learning_rate=50:half_life_ms=500"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment(folder)
    )
    return (
        json.loads(done.stdout),
        (folder / "tables/governors.csv").read_text(),
        (folder / "x.html").read_text(),
    )


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(TOP / "tools"), "TMPDIR": str(folder)}


def compare(*paths: Path, governors: str = "teo_ng", **options: Any) -> model.Comparison:
    settings: dict[str, Any] = {"bad": 5, "count": False, "command": "", "start": ""} | options
    return model.build(paths, spec.parse(governors, False), meter, **settings)


def line(comparison: model.Comparison, label: str) -> figures.Line:
    return next(item for item in figures.lines(comparison) if item.label == label)


# ---- Options ----


@pytest.mark.parametrize(
    ("governors", "message"),
    [
        ("nonsense", "unknown governor 'nonsense'"),
        ("teo", "unknown governor 'teo'"),
        ("wteo:speed=1", "wteo has no tunable 'speed'"),
        ("wteo:learning_rate=fast", "'fast' is no value of learning_rate"),
        ("wteo:learning_rate", "'learning_rate' in 'wteo:learning_rate' is no TUNABLE=VALUE"),
        ("menu@x", "'x' is no series of kernels"),
        ("wteo,,menu_ng", "a name is missing before or after a comma"),
    ],
)
def test_an_unknown_governor_is_refused_before_any_work(
    traces: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    governors: str, message: str,
) -> None:  # fmt: skip
    html = tmp_path / "x.html"
    assert main(["compare", str(traces[0]), "--governors", governors, "-o", str(html)]) == 2
    assert message in capsys.readouterr().err
    assert not html.exists()


def unreadable(folder: Path) -> dict[str, Path]:
    (folder / "garbage.dat").write_bytes(b"garbage" * 99)
    (folder / "empty").mkdir()
    return {
        "no such": folder / "missing.dat",
        "garbage.dat": folder / "garbage.dat",
        "is no Parquet directory": folder / "empty",
        "holds no idle interval": write(folder / "none", "periodic", 0),
        "has only power:cpu_idle": write(folder / "idle", "periodic", flags=columns.UNKNOWN),
    }


@pytest.mark.parametrize(
    "kind",
    ["no such", "garbage.dat", "is no Parquet directory", "holds no idle interval",
     "has only power:cpu_idle"],
)  # fmt: skip
def test_what_cannot_be_replayed_is_named_and_nothing_is_written(
    traces: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    path = unreadable(tmp_path)[kind]
    before = sorted(tmp_path.iterdir())
    html = tmp_path / "x.html"
    assert main(["compare", str(traces[0]), str(path), "--no-mainline", "-o", str(html)]) == 1
    error = capsys.readouterr().err
    assert kind.lower() in error.lower()
    assert str(path) in error
    assert "Traceback" not in error
    assert sorted(tmp_path.iterdir()) == before


def test_another_file_is_not_overwritten(
    traces: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html = tmp_path / "mine.html"
    html.write_text("mine")
    assert main(["compare", str(traces[0]), "-o", str(html)]) == 2
    assert "was not written by this command" in capsys.readouterr().err
    assert html.read_text() == "mine"


def test_labels_are_what_distinguishes_the_paths() -> None:
    assert sources.labels([Path("/a/demo/trace.dat")]) == ["demo"]
    assert sources.labels([Path("/a/one.dat")]) == ["one"]
    assert sources.labels([Path("/a/x/trace.dat"), Path("/a/y/trace.dat")]) == ["x", "y"]
    assert sources.labels([Path("/a/x.dat"), Path("/a/y/z")]) == ["x", "y/z"]
    assert len(set(sources.labels([Path("/a/x.dat"), Path("/a/x")]))) == 2


# ---- Figures ----


def test_the_oracle_has_no_regret_and_nobody_has_less(everything: tuple[Any, str, str]) -> None:
    results = everything[0]["results"]
    regrets = {(item["trace"], item["governor"]): item["metrics"]["regret"] for item in results}
    assert {regrets[law, "oracle"] for law in LAWS} == {0.0}
    assert min(regrets.values()) >= 0
    assert regrets["bimodal", "wteo"] > 1


def test_the_best_mainline_is_the_better_of_menu_and_teo(everything: tuple[Any, str, str]) -> None:
    found: dict[str, dict[str, Any]] = {law: {} for law in LAWS}
    for item in everything[0]["results"]:
        found[item["trace"]][item["governor"]] = item
    winners = set()
    for results in found.values():
        pair = [results[label] for label in spec.MAINLINE]
        best = min(pair, key=lambda item: item["metrics"]["regret"])
        assert results["best mainline"]["metrics"] == best["metrics"]
        assert results["best mainline"]["played_by"] == best["governor"]
        winners.add(best["governor"])
    assert len(winners) == 2, "the streams should not all prefer the same"


def test_the_worst_trace_is_named(everything: tuple[Any, str, str]) -> None:
    results, summary = everything[0]["results"], everything[0]["summary"]
    assert {item["label"] for item in summary} == {item["governor"] for item in results}
    for item in summary:
        mine = [r for r in results if r["governor"] == item["label"]]
        regrets = {r["metrics"]["regret"]: r["trace"] for r in mine}
        assert item["worst_regret"] == max(regrets)
        assert item["least_regret"] == min(regrets)
        assert item["worst_trace"] == (regrets[max(regrets)] if max(regrets) else "")
        assert item["mean_regret"] == pytest.approx(sum(regrets) / 3 if len(regrets) == 3 else 0)
        # Three recordings are too few for an interval.
        assert item["low"] is item["high"] is None
    heading = everything[0]["headline"]
    first = next(item for item in summary if item["kind"] == "project")
    assert heading.startswith(f"{first['label']}: mean regret {first['mean_regret']:.1f} %")
    assert f"on {first['worst_trace']}" in heading


def test_settings_change_what_is_played(everything: tuple[Any, str, str]) -> None:
    regrets = {item["label"]: item["mean_regret"] for item in everything[0]["summary"]}
    assert regrets["wteo"] != regrets["wteo:learning_rate=50:half_life_ms=500"]


def test_one_trace_has_neither_spread_nor_interval(traces: list[Path]) -> None:
    comparison = compare(traces[1])
    found = line(comparison, "teo_ng")
    assert found.mean_regret == found.worst_regret == found.least_regret
    assert found.low is found.high is None
    outcome = comparison.results["bimodal", "teo_ng"].outcome
    assert found.mean_regret == outcome.regret
    assert found.values["latency_p99_us"] == outcome.latency_us(0.99)
    assert "worst" not in figures.headline(comparison)


def test_equal_traces_change_no_figure(traces: list[Path], tmp_path: Path) -> None:
    copies = [shutil.copytree(traces[1], tmp_path / str(n)) for n in range(4)]
    once, often = line(compare(traces[1]), "teo_ng"), line(compare(*copies), "teo_ng")
    assert often.mean_regret == pytest.approx(once.mean_regret)
    assert often.values == pytest.approx(once.values)
    twice = compare(copies[0], copies[0])
    assert len(twice.sources) == 1


def test_every_trace_counts_the_same_however_long(traces: list[Path], tmp_path: Path) -> None:
    longer = write(tmp_path / "longer", "periodic", 9000)
    apart = [line(compare(path), "teo_ng") for path in (traces[1], longer)]
    both = line(compare(traces[1], longer), "teo_ng")
    for key in ("above", "tick_wakeups", "power_mw"):
        mean = sum(item.values[key] or 0 for item in apart) / 2
        assert both.values[key] == pytest.approx(mean)


def test_a_long_trace_does_not_outweigh_the_latencies_of_a_short_one() -> None:
    def result(latency_ns: dict[int, int]) -> model.Result:
        outcome = engine.Outcome("teo_ng", MACHINE, latency_ns=latency_ns)
        return model.Result("", "teo_ng", spec.OWN_KIND, "teo_ng", outcome)

    results = [result({0: 10}), result({10 * US: 600, 133 * US: 400})]
    shares = {0.5: 0.0, 0.75: 10.0, 0.99: 133.0, 1.0: 133.0}
    assert {share: figures._latency_us(results, share) for share in shares} == shares


def test_a_floor_estimate_that_is_too_high_is_said(traces: list[Path]) -> None:
    comparison = compare(traces[1])
    assert not any("floor" in note for note in figures.notes(comparison))
    comparison.results["bimodal", "bayes"].outcome.cost_pj *= 9
    assert any("too high; below it: teo_ng" in note for note in figures.notes(comparison))


def test_a_few_intervals_are_not_judged(traces: list[Path], tmp_path: Path) -> None:
    short = write(tmp_path / "short", "bimodal", 20, cpus=1)
    comparison = compare(traces[1], short)
    assert line(comparison, "teo_ng").traces == 1
    assert any("short: fewer than" in note for note in figures.notes(comparison))
    alone = compare(short)
    assert line(alone, "teo_ng").mean_regret is None
    assert figures.headline(alone).startswith("No recording")


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_nothing_beats_the_front_and_it_beats_all_others(points: list[tuple[int, int]]) -> None:
    chosen = {points[n] for n in figures.front(points)}
    for x, y in points:
        beaten = any((a < x and b <= y) or (a <= x and b < y) for a, b in chosen)
        assert beaten == ((x, y) not in chosen)


def test_losses_by_length_add_up_to_the_regret(everything: tuple[Any, str, str]) -> None:
    for item in everything[0]["results"]:
        total = sum(step["percent"] for step in item["lost_by_length"])
        assert total == pytest.approx(item["metrics"]["regret"], abs=1e-5)
    wanted = ("periodic", spec.MAINLINE[0])
    results = everything[0]["results"]
    periodic = next(item for item in results if (item["trace"], item["governor"]) == wanted)
    (step,) = [step for step in periodic["lost_by_length"] if step["percent"] > 1]
    assert step["from_us"] <= 1000 * 1.1 and step["from_us"] * 2**0.5 * 1.1 > 1000


# ---- Single decisions ----


def test_the_worst_decisions_are_found_with_their_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cpuidle_lab.recording.columns.writer.PART_ROWS", 300)
    # A gap before each interval, so that every one begins when it says.
    path = write(tmp_path / "gaps", "bimodal", 2000, flags=columns.GAP, disabled=1 << 1)
    comparison = compare(path, bad=7)
    found = comparison.results["gaps", "teo_ng"].worst
    recording = columns.Recording(path)
    choices = engine.counterfactual(recording, library.governor("teo_ng"), choices=True).choices
    excess = np.concatenate([np.subtract(c["cost_pj"], c["oracle_pj"]) for c in choices.values()])
    assert [bad.excess_uj * 1e6 for bad in found] == pytest.approx(sorted(excess)[:-8:-1])
    costs = model_of(MACHINE)
    assert any(bad.row > 300 for bad in found)
    for bad in found:
        parts = list(recording.intervals(bad.cpu))
        rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        assert bad.length_us * US == rows["length_ns"][bad.row]
        assert bad.time_s == pytest.approx(rows["start_ns"][bad.row] / 1e9)
        assert bad.timer_us is not None
        assert bad.timer_us * US == pytest.approx(rows["timer_ns"][bad.row])
        assert (bad.disabled, bad.latency_req_us) == (["C1"], None)
        assert bad.tick_us is not None
        due = bad.time_s * 1e9 + bad.tick_us * US
        assert due % MACHINE.tick_ns == pytest.approx(12_345, abs=1)
        assert bad.reason.startswith("teo-")
        ideal = MACHINE.names.index(bad.ideal)
        best = costs.entry_pj[ideal] + costs.power_mw[ideal] * bad.length_us * US
        assert bad.cost_uj - bad.excess_uj == pytest.approx(best / 1e6)


def test_the_end_of_time_is_no_timer(tmp_path: Path) -> None:
    # The kernel's clock is not that of the recording: here 5 s ahead.
    none = TIME_MAX - 10**9 - 5 * 10**9
    path = write(tmp_path / "none", "bimodal", 300, flags=columns.GAP, timer_ns=none)
    found = compare(path, bad=7).results["none", "teo_ng"].worst
    assert found
    assert {bad.timer_us for bad in found} == {None}


@pytest.mark.parametrize("count", [1, 3, 5, 9])
def test_of_equal_losses_the_first_are_kept(count: int) -> None:
    """On each processor: numpy's partition takes others of equal ones where it has AVX-512."""
    losses = np.array([5.0, 7.0, 5.0, 0.0, 5.0, 7.0, 5.0] * 40)
    found = worst._greatest(losses, count)
    assert sorted(found) == sorted(np.argsort(-losses, kind="stable")[:count])


def test_a_perfect_governor_has_no_worst_decision(everything: tuple[Any, str, str]) -> None:
    worst = {(i["trace"], i["governor"]): len(i["worst"]) for i in everything[0]["results"]}
    assert {worst[law, "oracle"] for law in LAWS} == {0}
    assert worst["bimodal", spec.MAINLINE[0]] == 20


def test_reasons_have_the_names_that_traces_show() -> None:
    assert reasons.name(49) == "wteo-expected-cost"
    assert reasons.name(240) == "oracle"
    assert reasons.name(0) == "not told"
    assert reasons.name(239) == "reason 239"


# ---- Forms ----


def test_json_and_csv_agree(everything: tuple[Any, str, str]) -> None:
    whole, table, _ = everything
    rows = list(csv.DictReader(io.StringIO(table)))
    assert len(rows) == len(whole["results"]) == len(LAWS) * 8
    for row, item in zip(rows, whole["results"], strict=True):
        assert (row["trace"], row["governor"]) == (item["trace"], item["governor"])
        for key, value in item["metrics"].items():
            assert row[key] == ("" if value is None else str(value))
            assert key in whole["definitions"]
    assert whole["command"].startswith("cpuidle-lab compare ")


class Links(HTMLParser):
    """Collects what a page would load, and its visible text."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.text: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the element refers to."""
        self.inside = tag
        names = ("src", "href", "srcset", "data", "action", "poster")
        self.loaded += [value for name, value in attrs if name in names and value]

    def handle_data(self, data: str) -> None:
        """Note what people can read."""
        if self.inside not in ("script", "style"):
            self.text.append(data)


def test_the_page_needs_nothing_else(everything: tuple[Any, str, str]) -> None:
    page = Links()
    page.feed(everything[2])
    assert [item for item in page.loaded if not item.startswith(("#", "data:"))] == []
    assert "default-src 'none'" in everything[2]
    text = " ".join(page.text)
    assert everything[0]["headline"] in text
    for item in everything[0]["summary"]:
        assert item["label"] in text or item["label"].split(":")[0] in text
    charts = everything[2].split('<script id="charts" type="application/json">')[1]
    figures_of = json.loads(charts.split("</script>")[0])
    assert [chart["key"] for chart in figures_of] == ["pareto", "length", "heat"]
    assert all(chart["data"] for chart in figures_of)


def test_no_figure_is_cut_off_in_a_narrow_terminal(
    traces: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "_PLAIN_WIDTH", 60)
    comparison = compare(*traces, governors="teo_ng,menu_ng,wteo")
    compare_text.show_tables(comparison)
    text = capsys.readouterr().out
    assert "…" not in text
    assert all(len(row) <= 60 for row in text.splitlines())
    for item in figures.lines(comparison):
        assert figures.show("mean_regret", item.mean_regret) in text
        assert figures.show("below", item.values["below"]) in text


def test_an_interrupt_ends_it_soon_and_leaves_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "long", "exponential", 700_000, cpus=1)
    before = sorted(tmp_path.iterdir())
    command = [sys.executable, "-m", "cpuidle_lab", "compare", str(path), "--no-mainline"]
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=slave, text=True
    )
    os.close(slave)
    shown = ""
    while "Replaying" not in shown:
        shown += os.read(master, 4096).decode()
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    with contextlib.suppress(OSError):  # the terminal's end
        while text := os.read(master, 4096).decode():
            shown += text
    out, _ = process.communicate(timeout=30)
    os.close(master)
    assert process.returncode == 130
    assert out == ""
    assert "interrupted" in shown and "Traceback" not in shown
    assert time.monotonic() - started < 10
    assert sorted(tmp_path.iterdir()) == before


# ---- Instructions ----

needs_valgrind = pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is missing")


@needs_valgrind
def test_instructions_are_the_governors_own_and_repeatable(traces: list[Path]) -> None:
    recording = columns.Recording(traces[0])

    def count(name: str, sample: int, **settings: str | int) -> float:
        found = instructions.per_decision(library.governor(name), recording, settings, sample)
        assert found is not None
        return found

    teo = count("teo_ng", 500)
    instructions._found.clear()
    assert count("teo_ng", 500) == teo
    assert 100 < teo < 1000
    # It asks TEO, and then it draws.
    assert count("wteo_rfc", 500, history_size=0) > 1.1 * teo
    assert count("menu_ng", 500, history_size=128) > 1.1 * count("menu_ng", 500)
    # Code around the governor is not counted, neither the program's start nor the replay.
    assert count("teo_ng", 20) < 1000
    assert 0.5 < count(spec.MAINLINE[1], 500) / teo < 1.5


def test_limits_and_machines_without_valgrind_have_no_count(
    traces: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = columns.Recording(traces[0])
    assert instructions.per_decision(library.governor("bayes"), recording) is None
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert instructions.per_decision(library.governor("teo_ng"), recording) is None
    comparison = compare(traces[0], count=True)
    assert not comparison.counted
    assert any("instructions were not counted" in note for note in figures.notes(comparison))


def test_instructions_of_a_large_recording_are_not_counted(
    traces: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "COUNTED_INTERVALS", 10)
    monkeypatch.setattr(instructions, "per_decision", lambda *_: 100.0)
    comparison = compare(traces[0], count=True)
    assert not comparison.counted
    assert any("instructions were not counted" in note for note in figures.notes(comparison))
    monkeypatch.setattr(model, "COUNTED_INTERVALS", 10**6)
    assert compare(traces[0], count=True).counted


def test_a_governor_without_a_machine_table_is_refused(traces: list[Path], tmp_path: Path) -> None:
    path = shutil.copytree(traces[0], tmp_path / "bare")
    meta = json.loads((path / "meta.json").read_text())
    meta["machines"] = {}
    (path / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(UserError, match="idle states of CPU 0 are unknown"):
        compare(path)
