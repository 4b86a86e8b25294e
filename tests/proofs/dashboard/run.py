# SPDX-License-Identifier: GPL-2.0
"""Prometheus answers the panels of docs/grafana.json, which are drawn with data of the lab.

`watch --openmetrics` writes its file in the lab, once a second. node_exporter reads the same files
in the same rhythm, Prometheus scrapes them and answers the queries of the panels. The page is drawn
with plotly: it is no picture of Grafana.
"""

import argparse
import html
import json
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import plotly

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import headed, write_whole
from cpuidle_lab.lab import LabRun, run_lab
from experiments import proofs
from tests.lab.guest_python import PYTHON, command_files
from tests.unit import prometheus
from tests.unit.prometheus import Server

EXAMPLES = {"": "", "--screenshot docs/dashboard.png": "needs chromium"}

SECONDS = 60

# Bursts, an idle time, short timers.
SCRIPT = f"""
. /lab/functions
load cpuidle_emul machine=skx
load cpuidle_lab
governor wteo
export PYTHONPATH=/lab/tools
mkdir /results/prom
{PYTHON} /lab/main.py watch --interval 1 --shadow teo_ng,menu_ng --openmetrics /tmp/cpuidle.prom &
for n in $(seq 600); do [ -f /tmp/cpuidle.prom ] || usleep 100000; done
[ -f /tmp/cpuidle.prom ] || fail "watch wrote nothing"
timers='cyclictest --default-system -q -p 80'
($timers -t 1 -i 2000 -D 15; hackbench -g 1 -l 100; sleep 10
 $timers -t 2 -i 500 -D 25) >/dev/null 2>&1 &
for n in $(seq 100 {99 + SECONDS}); do sleep 1; cp /tmp/cpuidle.prom /results/prom/$n; done
kill %1
"""

_PERCENT = "percentunit"
_STYLE = """body{font:14px sans-serif;margin:0;background:#f4f5f5}h1{font-size:16px;margin:8px}
main{display:grid;grid-template-columns:repeat(24,1fr);gap:6px;padding:0 8px}
section{background:#fff;border:1px solid #ddd;padding:4px}h2{font-size:13px;margin:2px 4px}
.stat{font-size:20px;text-align:center;padding:2em 1em}"""


def record(folder: Path) -> list[str]:
    """Return what watch wrote in the lab, second by second."""
    boot = LabRun(script=SCRIPT, files=command_files(), real_time=False)
    result = run_lab(boot, folder / "lab").check()
    return [path.read_text() for path in sorted((result.files / "prom").iterdir())]


def replay(server: Server, texts: list[str]) -> tuple[float, float]:
    """Let the textfile collector see each text for a second; return when that began and ended."""
    begin = time.time()
    for text in texts:
        write_whole(server.textfiles / "cpuidle.prom", text, headed(text))
        time.sleep(1)
    return begin + 5, time.time()


def legend(text: str, labels: dict[str, str]) -> str:
    """Return a name with values for its labels, as Grafana puts them."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), text)


def section(server: Server, panel: dict[str, Any], when: tuple[float, float]) -> str:
    """Return a panel as HTML."""
    place = panel["gridPos"]
    column, row = place["x"] + 1, place["y"] + 1
    style = f"grid-area:{row}/{column}/span {place['h']}/span {place['w']}"
    head = f'<section style="{style}"><h2>{html.escape(panel["title"])}</h2>'
    defaults = panel["fieldConfig"]["defaults"]
    if panel["type"] == "stat":
        names = [
            legend(target["legendFormat"], labels)
            for target in panel["targets"]
            for labels, _ in server.values(prometheus.expression(target["expr"]))
        ]
        return f'{head}<div class="stat">{html.escape(", ".join(names))}</div></section>'
    traces = []
    for target in panel["targets"]:
        found = server.ask(
            "query_range", query=prometheus.expression(target["expr"]),
            start=f"{when[0]:.0f}", end=f"{when[1]:.0f}", step="1",
        )["result"]  # fmt: skip
        for series in found:
            trace = {
                "name": legend(target["legendFormat"], series["metric"]),
                "x": [at - when[0] for at, _ in series["values"]],
                "y": [float(value) for _, value in series["values"]],
                "mode": "lines",
            }
            if defaults["custom"]["stacking"]["mode"] == "normal":
                trace["stackgroup"] = "all"
            traces.append(trace)
    layout = {
        "height": 230, "margin": {"l": 55, "r": 10, "t": 5, "b": 30}, "showlegend": True,
        "legend": {"orientation": "h", "y": -0.15},
        "xaxis": {"ticksuffix": " s"},
        "yaxis": {"tickformat": ".3~p"} if defaults["unit"] == _PERCENT else
                 {"ticksuffix": "s" if defaults["unit"] == "s" else "", "exponentformat": "SI"},
    }  # fmt: skip
    name = f"panel{panel['id']}"
    drawn = (
        f"Plotly.newPlot('{name}',{json.dumps(traces)},{json.dumps(layout)},{{staticPlot:true}})"
    )
    return f'{head}<div id="{name}"></div><script>{drawn}</script></section>'


def page(sections: list[str]) -> str:
    """Return the page."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Dashboard</title>'
        f"<style>{_STYLE}</style><script>{plotly.offline.get_plotlyjs()}</script></head><body>"
        "<h1>docs/grafana.json: answers of Prometheus, drawn with plotly, not by Grafana</h1>"
        f"<main>{''.join(sections)}</main></body></html>"
    )


def run(args: argparse.Namespace) -> int:
    """Record, replay and draw; return the exit code.

    Raises:
        UserError: the lab fails, Prometheus cannot be had, or there is no Chromium.
    """
    output, screenshot = args.output, args.screenshot
    if screenshot and not shutil.which("chromium"):
        raise UserError("chromium, which takes the screenshot, is missing: apt install chromium")
    with tempfile.TemporaryDirectory(dir=TOP / "build", prefix="dashboard-") as directory:
        folder = Path(directory)
        texts = record(folder)
        with prometheus.serving(folder) as server:
            when = replay(server, texts)
            sections = [section(server, panel, when) for panel in prometheus.panels()]
    text = page(sections)
    write_whole(output, text, headed(text))
    if screenshot:
        subprocess.run(
            ["chromium", "--headless=new", "--no-sandbox", "--hide-scrollbars",
             "--window-size=1200,1095", f"--screenshot={screenshot.resolve()}",
             output.resolve().as_uri()],
            check=True, capture_output=True,
        )  # fmt: skip
    print(f"written: {output}")
    return 0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    proofs.shared(parser, output=TOP / "build" / "dashboard.html")
    parser.add_argument("--screenshot", type=Path, metavar="FILE", help="draw a picture, too")
