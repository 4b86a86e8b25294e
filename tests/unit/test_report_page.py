# SPDX-License-Identifier: GPL-2.0
"""The report in all its forms, and the files that it does not overwrite."""

import csv
import json
import math
import re
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cpuidle_lab.cli import main
from cpuidle_lab.figures import metrics
from cpuidle_lab.report import export, model, report_page
from cpuidle_lab.report.charts import all_charts
from cpuidle_lab.view.drawing import Chart, grid_of_panels
from cpuidle_lab.view.html_page import chart_card, generator
from tests.unit.kernel_events import Kernel
from tests.unit.periods import MACHINE, US, Builder, Period
from tests.unit.synthetic import EXIT, NAMES, POWER, TARGET, TICK, Session, demo


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report") / "t.dat"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo(tmp_path_factory.mktemp("demo") / "trace.dat", 20_000_000)


class Links(HTMLParser):
    """Collects what a page would load, and its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the element refers to."""
        self.scripts += tag == "script"
        for name, value in attrs:
            if name in ("src", "href", "data", "action", "poster") and value:
                self.found.append(value)


def figures(text: str) -> list[dict[str, object]]:
    found = re.search(
        r'<script id="charts" type="application/json">(.*?)</script>', text, re.DOTALL
    )
    assert found and "<" not in found[1]  # so no text can end the element
    charts: list[dict[str, object]] = json.loads(found[1])
    return charts


def test_html(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(session)]) == 0
    target = session.parent / "report.html"
    text = target.read_text(encoding="utf-8")
    assert target.stat().st_size < 8_000_000
    assert str(target) in capsys.readouterr().out
    links = Links()
    links.feed(text)
    assert all(link.startswith(("#", "data:,")) for link in links.found)
    assert "default-src 'none'" in text
    assert links.scripts == 3
    keys = [chart["key"] for chart in figures(text)]
    assert keys == ["headline", "regret", "residency", "energy", "latency", "reasons", "heat",
                    "weights", "timeline"]  # fmt: skip
    for key in keys:
        assert f'id="chart-{key}"' in text
    for metric in metrics.definitions().values():
        assert escape(metric.title) in text
    for name in ("wteo", "gate(menu) + hints", "hackbench", "teo-intercepts", "learning_rate=50"):
        assert name in text
    assert text.index('id="pictures"') < text.index('id="tables"') < text.index('id="recording"')


# Numbers in the charts are finite: plotly.js cannot read NaN.
def test_charts_are_plain_json(session: Path) -> None:
    report = model.build([session], "test", "now")
    text = report_page.render(report)

    def check(value: object) -> None:
        if isinstance(value, float):
            assert math.isfinite(value)
        elif isinstance(value, dict):
            for item in value.values():
                check(item)
        elif isinstance(value, list):
            for item in value:
                check(item)

    check(figures(text))


# Names in a trace may be hostile; they are shown, never run.
@pytest.mark.parametrize(("panels", "least"), [(1, 0), (2, 380), (4, 760), (9, 760)])
def test_panels_are_scrolled_before_their_titles_overlap(panels: int, least: int) -> None:
    layout = grid_of_panels([f"panel {n}" for n in range(panels)], 4)
    card = chart_card(Chart("key", "Title", "Caption.", [], layout, 300))
    assert '<div class="scroll"><div class="plot" id="chart-key" ' in card
    assert f"min-width:{least}px" in card


def test_charts_of_rows_are_scrolled_before_their_labels_turn(session: Path) -> None:
    charts = {chart.key: chart for chart in all_charts(model.build([session], "", ""))}
    for key in ("regret", "timeline"):
        assert "min-width:480px" in chart_card(charts[key])
    axes = [axis for key, axis in charts["timeline"].layout.items() if key.startswith("xaxis")]
    assert axes and all(axis["tickangle"] == 0 and axis["nticks"] <= 4 for axis in axes)


def test_hostile_names(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img/src=x/onerror=alert(1)>"
    builder = Builder()
    builder.config(replace(MACHINE, names=(evil, "C1", "C6")), kernel=evil, tunables=evil)
    builder.trace.mark(0, builder.now, f"phase governor=teo_ng{evil} workload={evil}")
    builder.now += 10
    builder.add(Period(1, 10 * US))
    path = builder.trace.write(tmp_path / "t.dat")
    text = report_page.render(model.build([path], evil, "now"))
    links = Links()
    links.feed(text)
    assert links.scripts == 3
    assert "<img" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert "<img" not in json.dumps(figures(text))
    assert len(figures(text)) > 5
    assert "fewer than 100 idle intervals, so not in the summary" in text


# A change while recording is part of the report.
def test_changes_are_shown(scratch: Path) -> None:
    builder = Builder()
    builder.config()
    builder.add(Period(1, 10 * US))
    tunable = {"generation": 2, "governor": 2, "name": "half_life_ms", "value": "777"}
    builder.trace.put(0, builder.now, "tunable", tunable)
    for what in (0, 2, 2):
        builder.trace.put(0, builder.now, "hint", {"what": what, "comm": "x"})
    text = report_page.render(model.build([builder.trace.write(scratch)], "test", "now"))
    assert re.search(r"wteo</td>.*half_life_ms</td>.*777</td>", text)
    assert "Latency hints of tasks: move 2, set 1." in text


def test_lost_events_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder = Builder()
    builder.config()
    builder.add(Period(1, 10 * US))
    builder.add(Period(1, 10 * US, skip=4))
    path = builder.trace.write(tmp_path / "t.dat")
    assert main(["report", str(path)]) == 0
    assert "4 decisions are missing in 1 gaps" in capsys.readouterr().out
    text = (tmp_path / "report.html").read_text()
    assert "Incomplete: 4 decisions are missing" in text
    assert "Complete: no lost events" not in text


def test_json(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (session.parent / "report.html").unlink(missing_ok=True)
    assert main(["report", str(session), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert not (session.parent / "report.html").exists()
    assert found["kernel"] == ["6.12.0-test"]
    assert {"command", "version", "start", "end"} <= found.keys()
    assert len(found["runs"]) == 24
    for run in found["runs"]:
        assert set(run["metrics"]) == set(metrics.scalars()) <= set(found["definitions"])
    wteo = next(run for run in found["runs"] if run["governor"] == "wteo")
    assert sum(state["entries"] for state in wteo["states"]) == wteo["metrics"]["periods"]
    assert found["traces"][0]["integrity"]["complete"] is True


def test_csv(session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(session), "--csv", str(tmp_path / "tables")]) == 0
    with (tmp_path / "tables" / "metrics.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 24
    by_name = {(row["governor"], row["workload"]): row for row in rows}
    assert by_name["menu", "idle"]["regret"] == ""
    assert float(by_name["wteo", "hackbench"]["regret"]) >= 0
    assert {path.name for path in (tmp_path / "tables").iterdir()} == {
        str(name) for name in export.as_csv(model.build([session], "", ""))
    }
    assert "wteo" in capsys.readouterr().out


def test_several_files(session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = demo(tmp_path / "other.dat", 5_000_000)
    html = tmp_path / "both.html"
    assert main(["report", str(session), str(other), "--output", str(html)]) == 0
    out = capsys.readouterr().out
    for name in ("trace: hackbench", "other: hackbench"):
        assert name in out
        assert name in html.read_text()


def menu_alone(path: Path, *, tick_ns: int = TICK) -> Path:
    """Write menu under the workload idle as an unmodified kernel records it."""
    states = ",".join(
        f"{name}:{exit_ns // 1000}:{target_ns // 1000}:{power}"
        for name, exit_ns, target_ns, power in zip(NAMES, EXIT, TARGET, POWER, strict=True)
    )
    lines = (
        f"stock machine cpus=0-1 tick_ns={tick_ns} states={states}",
        "stock kernel=6.12.0-test way=probes",
        "phase governor=menu workload=idle",
    )
    kernel = Kernel(lines)
    for _ in range(300):
        kernel.idle(1, 300_000, sleep=298_000, delta=298_000, expiry=True, stop=False)
    return kernel.write(path)


# The demo does that: the kernel's own menu has no events of the module.
def test_parts_of_a_session_are_compared_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session()
    session.phase("wteo", "idle", 5_000_000)
    parts = [str(menu_alone(tmp_path / "stock.dat")), str(session.trace.write(tmp_path / "a.dat"))]
    assert main(["report", "--together", *parts]) == 0
    summary, *sections = capsys.readouterr().out.split("\nidle")
    assert len(sections) == 1
    for text in (summary, sections[0]):
        (row,) = [line for line in text.splitlines() if re.match(r"\W*menu\b", line)]
        assert "?" not in row
    assert "wteo" in sections[0]
    assert "menu: recorded without the module, by probes" in sections[0]


def test_what_is_no_part_of_a_session_is_refused(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for other, word in (
        (demo(tmp_path / "again.dat", 5_000_000), "both have menu"),
        (menu_alone(tmp_path / "other.dat", tick_ns=10_000_000), "same machine and kernel"),
    ):
        assert main(["report", "--together", str(session), str(other)]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and word in err


# ---- Files that are there already, and errors. ----


def test_foreign_files_are_not_overwritten(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "thesis.html"
    target.write_text("five years of work")
    command = ["report", str(session), "--output", str(target)]
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert target.read_text() == "five years of work"
    assert out == "" and err.count("\n") == 1 and "--force" not in err
    assert main([*command, "--force"]) == 2
    assert target.read_text() == "five years of work"
    target.write_text(generator("compare"))
    assert main(command) == 2 and "--force" in capsys.readouterr().err
    assert main([*command, "--force"]) == 0
    assert report_page.GENERATOR in target.read_text()[:1024]
    assert main(command) == 0  # now it is ours
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.html"]


def test_a_directory_is_not_overwritten(session: Path, tmp_path: Path) -> None:
    assert main(["report", str(session), "--output", str(tmp_path), "--force"]) == 2
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.dat"
    bad.write_bytes(b"nothing of the kind")
    assert main(["report", str(bad)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "bad.dat" in err
    assert list(tmp_path.iterdir()) == [bad]


def test_missing_directory(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(session), "--output", str(tmp_path / "no" / "x.html")]) == 2
    assert "no such directory" in capsys.readouterr().err
