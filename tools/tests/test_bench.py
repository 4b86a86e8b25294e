# SPDX-License-Identifier: GPL-2.0
"""The benchmark: its figures are those of the parts it is made of, and losing is said."""

import contextlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab import synth
from cpuidle_lab.bench import corpus, gate, governors, losses, streams, throughput
from cpuidle_lab.cli import main
from cpuidle_lab.commands import bench
from cpuidle_lab.compare.figures import regret as regret_of
from cpuidle_lab.compare.terminal import phase
from cpuidle_lab.errors import UserError
from cpuidle_lab.replay import instructions
from cpuidle_lab.replay.engine import counterfactual
from cpuidle_lab.replay.library import governor

TINY = bench.Sizes(intervals=400, rounds=2, gate_s=1, events=3000, replayed=25_000)


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "FULL", TINY)
    monkeypatch.setattr(bench, "FOLDER", tmp_path / "bench")
    monkeypatch.setattr(streams, "NAMES", ("poisson-1ms", "bursts"))
    monkeypatch.setattr(governors, "VARIANTS", ("teo_ng", "wteo", "wteo:latency_bias=500"))
    monkeypatch.setattr(throughput, "COUNTED_EVENTS", 2000)


def run(*arguments: str) -> tuple[int, str, str]:
    """Return the exit code of `cpuidle-lab bench`, what it printed, and its complaints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(["bench", *arguments])
        except SystemExit as error:
            code = int(str(error.code))
    return code, out.getvalue(), err.getvalue()


def measured(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """Run quietly; return the JSON."""
    code, out, _ = run("--json", "--corpus", str(tmp_path / "none"), *arguments)
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


def make_corpus(folder: Path) -> Path:
    folder.mkdir()
    for name in ("bursts", "poisson-1ms"):
        synth.write(name, folder / name, machine_name="skx", hz=250, count=3000, seed=3)
    return folder


# ---- The whole ----


def test_one_envelope_and_the_parts_asked_for(tmp_path: Path) -> None:
    found = measured(tmp_path, "--only", "replay, corpus")
    assert list(found["parts"]) == ["replay", "corpus"]
    assert {"command", "version", "kernel", "start", "end"} <= found.keys()
    assert found["start"] <= found["end"]
    assert found["kernel"] in Path("/proc/version").read_text()
    assert json.loads((tmp_path / "bench" / "bench.json").read_text()) == found
    assert [path.name for path in (tmp_path / "bench").iterdir()] == ["bench.json"]


def test_all_parts_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f" 0)   {n}.000 us    |  cil_glue_select [cpuidle_lab]();\n" for n in (1, 2))
    lab = {"kernel": "6.12", "machine": "skx", "base": "wteo", "workload": "w"}
    cases = gate.figures([text] * len(gate.CASES))
    monkeypatch.setattr(gate, "measure", lambda _: lab | {"cases": cases})
    code, out, _ = run("--corpus", str(make_corpus(tmp_path / "traces")))
    assert code == 0
    found = json.loads((tmp_path / "bench" / "bench.json").read_text())
    assert tuple(found["parts"]) == bench.PARTS
    groups = {row["group"] for row in found["parts"]["governors"]["rows"]}
    assert groups == {"synthetic, skx: 4 states", "synthetic, power9: 9 states", "corpus"}
    for title in ("A decision and its outcome", "select in the kernel", "Throughput", "Regret in"):
        assert title in out
    lost = len(found["losses"])
    assert f"Where we lose: {lost} of {found['compared']} figures" in out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--only", "everything"], 2, "unknown part 'everything'; there are governors, gate"),
        (["--only", ""], 2, "unknown part ''"),
        (["--only", "reader,"], 2, "unknown part ''"),
        (["--only", "replay", "-o", "/nowhere/at/all.json"], 1, "/nowhere/at: no such directory"),
        (["--only", "replay", "-o", "/"], 1, "/ is a directory"),
        (["replay"], 2, "invalid choice: 'replay'"),
    ],
)
def test_nonsense_is_refused(arguments: list[str], code: int, said: str) -> None:
    got, out, err = run(*arguments)
    assert (got, out) == (code, "")
    assert said in err and "Traceback" not in err


def test_a_damaged_trace_leaves_the_last_result_alone(tmp_path: Path) -> None:
    target = tmp_path / "old.json"
    target.write_text("the last one")
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "x.trace.dat").write_bytes(b"no trace")
    code, out, err = run(
        "--only", "corpus", "--corpus", str(tmp_path / "traces"), "-o", str(target)
    )
    assert (code, out) == (1, "") and "x.trace.dat" in err
    assert target.read_text() == "the last one"
    assert list((tmp_path / "bench").iterdir()) == []


def test_interrupted_it_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(instructions, "per_decision", interrupt)
    assert run("--only", "governors", "--corpus", str(tmp_path))[0] == 130
    assert list((tmp_path / "bench").iterdir()) == []


# ---- Governors ----


def test_figures_are_means_over_the_streams_beside_teo(tmp_path: Path) -> None:
    part = measured(tmp_path, "--only", "governors")["parts"]["governors"]
    labels = ["teo@7.2", "menu@7.2", "teo_ng", "wteo", "wteo:latency_bias=500"]
    rows = {(row["group"], row["governor"]): row for row in part["rows"]}
    for group in ("synthetic, skx: 4 states", "synthetic, power9: 9 states"):
        assert [one for place, one in rows if place == group] == labels
        reference = rows[group, "teo@7.2"]
        assert reference["instructions_ratio"] == 1
        for label in labels:
            row = rows[group, label]
            each = [stream["instructions"] for stream in row["by_stream"].values()]
            assert len(each) == 2 and min(each) > 50
            assert row["instructions"] == pytest.approx(sum(each) / 2)
            assert row["worst_instructions"] == max(each)
            assert row["by_stream"][row["worst_stream"]]["instructions"] == max(each)
            ratio = row["instructions"] / reference["instructions"]
            assert row["instructions_ratio"] == pytest.approx(ratio)
            default = rows[group, label.partition(":")[0]]["instructions"]
            assert row["default_ratio"] == pytest.approx(row["instructions"] / default)
            assert row["total_ns"] >= row["own_ns"] >= 0
            assert row["total_ns"] > 0 and row["engine_ns"] > 0
    ours, off = (rows["synthetic, power9: 9 states", one] for one in ("wteo", labels[-1]))
    assert abs(ours["instructions"] - off["instructions"]) > 50


def test_instructions_are_counted_on_the_stream_that_is_named(tmp_path: Path) -> None:
    part = measured(tmp_path, "--only", "governors")["parts"]["governors"]
    states = synth.machine("skx", streams.HZ)
    again = streams.write(tmp_path / "again", "bursts", TINY.intervals, states, "")
    row = next(row for row in part["rows"] if row["governor"] == "wteo")
    counted = row["by_stream"]["skx-bursts"]["instructions"]
    assert counted == instructions.per_decision(governor("wteo"), again)


def test_without_valgrind_instructions_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    code, out, _ = run("--only", "governors", "--corpus", str(tmp_path))
    assert code == 0 and "valgrind is missing" in out
    found = json.loads((tmp_path / "bench" / "bench.json").read_text())
    assert all(row["instructions"] is None for row in found["parts"]["governors"]["rows"])
    assert not any(one["figure"] == losses.INSTRUCTIONS for one in found["losses"])


# ---- Where we lose ----


def cost(label: str, kind: str, instructions: float | None, own_ns: float | None) -> dict[str, Any]:
    row = {"governor": label, "kind": kind, "group": "g"}
    return row | {"instructions": instructions, "own_ns": own_ns}


def test_each_figure_that_is_worse_is_a_loss() -> None:
    rows = [
        cost("teo@7.2", "mainline", 400, 50.0),
        cost("menu@7.2", "mainline", 900, 90.0),
        cost("wteo", "project", 401, 49.0),
        cost("teo_ng", "project", 400, 51.0),
        cost("menu_ng", "project", None, None),
    ]
    cases = [
        {"case": name, "governor": name, "mean": mean}
        for name, mean in (("menu", 100), ("wteo", 90), ("gate", 101))
    ]
    regrets = [
        {"trace": "t", "governor": label, "kind": kind, "regret": value,
         "worse_than_best_mainline": worse}
        for label, kind, value, worse in (
            ("best mainline", "best mainline", 5.0, False),
            ("wteo", "project", 6.0, True),
            ("teo_ng", "project", 5.0, False),
            ("teo@7.2", "mainline", 7.0, True),
        )
    ]  # fmt: skip
    figures = losses.compared(
        {
            "governors": {"reference": "teo@7.2", "rows": rows},
            "gate": {"cases": cases, "workload": "w"},
            "corpus": {"regrets": regrets},
            "replay": {},
        }
    )
    worse = [(one.governor, one.figure, one.ours, one.mainline) for one in figures if one.worse]
    assert len(figures) == 8
    assert worse == [
        ("wteo", losses.INSTRUCTIONS, 401, 400),
        ("teo_ng", losses.TIME, 51.0, 50.0),
        ("gate", losses.MODULE, 101, 100),
        ("wteo", losses.REGRET, 6.0, 5.0),
    ]


def test_the_table_says_where_we_lose(tmp_path: Path) -> None:
    code, out, _ = run("--only", "governors", "--corpus", str(tmp_path))
    assert code == 0
    found = json.loads((tmp_path / "bench" / "bench.json").read_text())
    lost = [one for one in found["losses"] if one["figure"] == losses.INSTRUCTIONS]
    assert {"wteo"} <= {one["governor"] for one in lost}
    said = out[out.index("Where we lose") :]
    for one in lost:
        assert one["ours"] > one["mainline"]
        assert f"{one['governor']} " in said
        assert f"{one['ours']:,.0f} ({one['mainline']:,.0f})" in said.replace("\n", " ")


# ---- Gate ----


def test_durations_are_read_from_the_tracer() -> None:
    text = """\
# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
 0)   3.158 us    |  cil_glue_select [cpuidle_lab]();
 0) + 12.000 us   |  cil_glue_select [cpuidle_lab]();
 ------------------------------------------
 0)    <idle>-0    =>  cyclict-90
 ------------------------------------------
 0)   0.931 us    |  menu_select();
"""
    assert gate.durations(text) == [3158, 12000, 931]
    with pytest.raises(UserError, match="of 4 calls of select in the guest, 3 were timed"):
        gate.durations(text + " 0)               |  cil_glue_select [cpuidle_lab]() {\n")
    with pytest.raises(UserError, match="of 0 calls"):
        gate.durations("# tracer: function_graph\n")


def test_what_gate_adds_is_beyond_its_base() -> None:
    line = " 0)   {}.{} us    |  cil_glue_select [cpuidle_lab]();\n"
    traces = [line.format(n, "000") + line.format(n, "100") for n in range(len(gate.CASES))]
    cases = {case["case"]: case for case in gate.figures(traces)}
    assert cases["wteo without gate"]["added"] is None
    assert cases["wteo without gate"]["mean"] == 2050
    assert cases["gate over wteo, no hint"]["added"] == 1000
    assert cases["gate over wteo, 100 hinted tasks"]["added"] == 3000
    assert cases["gate over wteo, 100 hinted tasks"]["max"] == 5100


@pytest.mark.lab
@pytest.mark.full
def test_gate_is_cheap_in_the_lab() -> None:
    found = gate.measure(seconds=1)
    cases = {(case["governor"], case["hinted_tasks"], case["limits"]): case
             for case in found["cases"]}  # fmt: skip
    assert len(cases) == len(gate.CASES)
    assert min(case["decisions"] for case in cases.values()) > 300
    base = cases["wteo", 0, 0]["mean"]
    # What else differs between two runs of a program is far less than a hundredth.
    assert abs(cases["gate", 0, 0]["added"]) < base / 50
    hinted = [case["added"] for case in cases.values() if case["hinted_tasks"]]
    assert min(hinted) > 25  # they are in force
    assert max(hinted) - min(hinted) < base / 50


# ---- Throughput ----


def test_the_large_trace_is_made_once(tmp_path: Path) -> None:
    found = measured(tmp_path, "--only", "reader")["parts"]["reader"]
    assert found["events"] >= TINY.events and found["events_per_s"] > 0
    (made,) = (tmp_path / "bench").glob(f"reader-{TINY.events}-*.dat")
    before = made.stat()
    other = made.with_name(f"reader-{TINY.events}-0123456789ab.dat")
    other.touch()
    assert throughput.big_trace(made.parent, TINY.events) == made
    assert made.stat() == before and other.exists()
    made.unlink()
    assert throughput.big_trace(made.parent, TINY.events) == made
    assert not other.exists()


def test_replay_counts_what_it_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(tmp_path, "--only", "replay")["parts"]["replay"]
    assert found["states"] == 7 and found["periods_per_s"] > found["target_periods_per_s"] / 100
    assert found["periods_per_s_with_reading"] < found["periods_per_s"] * 2
    states = streams.shortened(synth.machine("power9", 250), 7)
    recording = streams.write(tmp_path / "s", "poisson-1ms", 25_000, states, "")
    one = governor("teo_ng")
    own = instructions.per_decision(one, recording)
    assert own is not None
    assert own < found["instructions_per_period"] < own + 2000
    assert counterfactual(recording, one).periods >= 25_000
    monkeypatch.setattr(throughput, "COUNTED_INTERVALS", (10_000, 20_000))
    again = throughput.engine_instructions(one, recording)
    assert again == pytest.approx(found["instructions_per_period"], rel=0.05)


def test_missing_a_target_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "REPLAY_PERIODS_PER_S", 10**12)
    assert "MISSED" in run("--only", "replay")[1]
    monkeypatch.setattr(throughput, "REPLAY_PERIODS_PER_S", 1)
    assert "MISSED" not in run("--only", "replay")[1]


# ---- The corpus ----


def test_regrets_are_those_of_compare(tmp_path: Path) -> None:
    folder = make_corpus(tmp_path / "traces")
    comparison = corpus.measure(folder, phase, "", "")
    assert comparison is not None
    part = corpus.as_json(comparison, folder)
    regrets = {(one["trace"], one["governor"]): one for one in part["regrets"]}
    limits = {"oracle", "bayes", "best mainline", "menu@7.2", "teo@7.2"}
    assert limits < {label for _, label in regrets}
    for (trace, label), one in regrets.items():
        assert one["regret"] == regret_of(comparison.results[trace, label])
        best = regrets[trace, "best mainline"]["regret"]
        assert one["worse_than_best_mainline"] == (one["regret"] >= best + 0.05)
        assert best == min(regrets[trace, spec]["regret"] for spec in ("menu@7.2", "teo@7.2"))
    assert regrets["bursts", "oracle"]["regret"] == 0


def test_without_a_corpus_it_is_said_how_to_build_it(tmp_path: Path) -> None:
    code, out, _ = run("--only", "corpus", "--corpus", str(tmp_path))
    assert code == 0
    assert f"{tmp_path} holds no trace; build them with: cpuidle-lab corpus" in out
    assert "nothing of corpus can be compared" in out
