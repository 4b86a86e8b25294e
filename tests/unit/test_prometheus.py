# SPDX-License-Identifier: GPL-2.0
"""A real Prometheus scrapes what `watch --openmetrics` writes, and answers the dashboard."""

import math
import threading
import time
from collections.abc import Iterator

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.base.files import headed, write_whole
from cpuidle_lab.view import openmetrics
from cpuidle_lab.view.watch import Look, StateCount, Tally
from tests.unit import prometheus
from tests.unit.prometheus import Server

CPUS = 2
# Wake-ups of a CPU in a second, by state; time in the state, us; how many were too deep, shallow.
RATES = {"POLL": (100, 1_000, 0, 20), "C1": (2000, 100_000, 200, 0), "C6": (900, 700_000, 90, 0)}
# A counter of whole wake-ups is off by one in some hundred between two scrapes.
ROUGH = 0.02
# A busy host scrapes late, which moves each rate alike. So this clock stands in the same file.
CLOCK = "test_clock_seconds_total"
LATENCIES_US = {"POLL": 0, "C1": 2, "C6": 133}


def looked(seconds: float) -> Look:
    """Return what a machine shows that behaves the same all the time."""
    states = [
        StateCount(
            name,
            round(usage * seconds),
            round(time_us * seconds),
            round(above * seconds),
            round(below * seconds),
            LATENCIES_US[name],
        )
        for name, (usage, time_us, above, below) in RATES.items()
    ]
    cost, oracle = round(3e9 * seconds), round(2e9 * seconds)
    tallies = [
        tally
        for cpu in range(CPUS)
        for tally in (
            Tally(cpu, "wteo", "active", 300, 250, 30, 20, cost, oracle),
            Tally(cpu, "teo_ng", "shadow", 300, 200, 60, 40, round(0.9 * cost), oracle),
        )
    ]
    return Look(seconds, "wteo", None, dict.fromkeys(range(CPUS), states), tallies, {}, ("teo_ng",))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a Prometheus that has seen the machine for some seconds."""
    folder = tmp_path_factory.mktemp("prometheus")
    try:
        prometheus.programs()
    except UserError as error:
        pytest.skip(f"Prometheus could not be had: {error.message}")
    with prometheus.serving(folder) as server:
        begin, done = time.monotonic(), threading.Event()

        def watch() -> None:
            while not done.wait(0.1):
                seconds = 1000 + time.monotonic() - begin
                clock = openmetrics.Family(CLOCK, "counter", "Test", [("", {}, seconds)])
                text = openmetrics.text(looked(seconds), "6.12.1") + clock.text()
                write_whole(server.textfiles / "cpuidle.prom", text, headed(text))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            scraped = "count_over_time(cpuidle_lab_info[1m])"
            prometheus.until(lambda: [v for _, v in server.values(scraped) if v >= 7])
            yield server
        finally:
            done.set()
            watcher.join()


def test_the_collector_reads_the_file(server: Server) -> None:
    ((_, error),) = server.values("max_over_time(node_textfile_scrape_error[1m])")
    assert error == 0, "none of the scrapes met a file that it cannot read"
    ((labels, value),) = server.values("cpuidle_lab_info")
    assert (labels["governor"], labels["kernel"], value) == ("wteo", "6.12.1", 1)


def test_types_are_those_that_were_declared(server: Server) -> None:
    kinds = {
        name: entries[0]["type"]
        for name, entries in server.ask("metadata").items()
        if name.startswith("cpuidle_lab_")
    }
    assert kinds["cpuidle_lab_exit_latency_seconds"] == "histogram"
    assert kinds["cpuidle_lab_shadow_savings_ratio"] == "gauge"
    assert all(kind == "counter" for name, kind in kinds.items() if name.endswith("_total"))
    assert len(kinds) >= 20


EXPRESSIONS = [
    (panel["title"], target["expr"]) for panel in prometheus.panels() for target in panel["targets"]
]


@pytest.mark.parametrize(("title", "text"), EXPRESSIONS)
def test_every_query_of_the_dashboard_has_an_answer(server: Server, title: str, text: str) -> None:
    found = server.values(prometheus.expression(text))
    assert found and all(math.isfinite(value) for _, value in found), title


def answer(server: Server, at_s: float, title: str, **labels: str) -> list[float]:
    """Return the values of a panel's queries at a time, in their order."""
    return [
        value
        for panel, text in EXPRESSIONS
        if panel == title
        for metric, value in server.values(prometheus.expression(text), at_s)
        if labels.items() <= metric.items()
    ]


def test_the_panels_show_what_the_machine_does(server: Server) -> None:
    ((_, at_s),) = server.values("timestamp(cpuidle_lab_info)")
    ((_, second),) = server.values(f"rate({CLOCK}[{prometheus.RATE_INTERVAL}])", at_s)

    def shown(title: str, **labels: str) -> list[float]:
        return answer(server, at_s, title, **labels)

    for state, (wakeups, time_us, _, _) in RATES.items():
        (rate,) = shown("Wake-ups by idle state", state=state)
        assert rate / second == pytest.approx(CPUS * wakeups, rel=ROUGH)
        (share,) = shown("Time by idle state", state=state)
        assert share / second == pytest.approx(CPUS * time_us / 1e6, rel=ROUGH)
    assert shown("Too deep and too shallow") == [
        pytest.approx(290 / 3000, rel=ROUGH), pytest.approx(20 / 3000, rel=ROUGH)
    ]  # fmt: skip
    assert shown("What the shadows would have saved") == [pytest.approx(0.1)]
    assert 0.5 in [pytest.approx(value, rel=ROUGH) for value in shown("Modelled regret")]
    for cpu in range(CPUS):
        (idle,) = shown("Idle time of each CPU", cpu=str(cpu))
        assert idle / second == pytest.approx(0.801, rel=ROUGH)
    median, p99 = shown("Exit latency, by the driver's table")
    assert median < 10e-6 < 50e-6 < p99 < 300e-6


def test_a_query_that_is_wrong_would_be_noticed(server: Server) -> None:
    with pytest.raises(ValueError, match="parse error"):
        server.values("rate(cpuidle_lab_wakeups_total)[5s")
    assert server.values("rate(cpuidle_lab_no_such_total[5s])") == []
