# SPDX-License-Identifier: GPL-2.0
"""The KernelShark plugin draws the idle periods of a trace: all of them, and nothing else.

A small program (kernelshark_host.cpp) loads the plugin into libkshark and stands in for the window.
"""

import itertools
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cpuidle_lab.recording.trace import ENTERED, IDLE_EXIT, load
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable
from tests.unit import synthetic
from tests.unit.tracedat import Trace

TOP = Path(__file__).resolve().parents[2]

# Less than any idle period of the traces: then each has a bar of its own.
PIXEL_NS = 500

# Thousandths of loss up to which nothing is marked, as idle.h has it, and what rounding may move.
SHOWN, ROUNDING = 10, 2

LIBRARIES = ("-lkshark-plot", "-lkshark")

Bar = tuple[str, str, str, str]  # cpu, colour, mark, text
Host = Callable[[Path], tuple[str, list[Bar]]]


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the plugin, without a warning."""
    folder = tmp_path_factory.mktemp("kernelshark")
    made = subprocess.run(
        ["make", "-C", str(TOP / "kernelshark"), f"BUILD={folder}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0 and made.stderr == "", made.stderr
    return folder / "plugin-cpuidle_lab.so"


@pytest.fixture(scope="session")
def host(plugin: Path) -> Host:
    """Build the program that loads the plugin; return what it says of a trace."""
    program = plugin.parent / "host"
    flags = subprocess.run(
        ["pkg-config", "--cflags", "libkshark"], capture_output=True, text=True, check=True
    ).stdout.split()
    source = str(Path(__file__).with_name("kernelshark_host.cpp"))
    subprocess.run(
        ["g++", "-std=c++17", "-rdynamic", *flags, source, "-o", str(program), *LIBRARIES],
        check=True,
    )

    def run(trace: Path) -> tuple[str, list[Bar]]:
        done = subprocess.run(
            [program, plugin, trace, str(PIXEL_NS)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        lines = [line for line in done.stdout.splitlines() if not line.startswith("loading")]
        bars = [line.split("\t") for line in lines[1:]]
        return lines[0], [(cpu, colour, mark, text) for cpu, colour, mark, text in bars]

    return run


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a session of the kernel's menu (cpu_idle alone) and all of our governors."""
    return synthetic.demo(tmp_path_factory.mktemp("session") / "trace.dat", 10_000_000)


@pytest.fixture(scope="module")
def drawn(session: Path, host: Host) -> list[Bar]:
    """Return all bars of the session."""
    loaded, bars = host(session)
    assert loaded == "loaded 1"
    return bars


def mark(machine: StateTable, row: dict[str, int]) -> tuple[str, str]:
    """Return the mark of a period and the text of its verdict; "?" where rounding decides."""
    costs = model_of(machine)
    limit = row["latency_req_ns"] if row["hint_ns"] == -1 else row["hint_ns"]
    each = [
        entry + power * row["out_residency_ns"]
        for entry, power in zip(costs.entry_pj, costs.power_mw, strict=True)
    ]
    allowed = [k for k in range(machine.count) if machine.exit_latency_ns[k] <= limit]
    best = min(allowed, key=lambda k: each[k])
    loss = 1000 * (each[row["out_index"]] / each[best] - 1)
    if abs(loss - SHOWN) < ROUNDING:
        return "?", "?"
    if loss < SHOWN:
        return "-", "no state would have cost less"
    deep = row["out_index"] > best
    return ("deep", "too deep") if deep else ("shallow", "too shallow")


def expected(trace_path: Path) -> Counter[tuple[str, str, str, str, str]]:
    """Return how often CPU, state, governor, mark and verdict should be seen."""
    trace = load(trace_path)
    found: Counter[tuple[str, str, str, str, str]] = Counter()
    entered = trace.periods().filter(pl.col("out_kind") == ENTERED)
    decided: Counter[tuple[int, int]] = Counter()
    for row in entered.iter_rows(named=True):
        machine = trace.state_tables[row["cpu"]]
        governor = trace.name_of("decision", "governor", row["governor"])
        name = machine.names[row["out_index"]]
        found[str(row["cpu"]), name, governor, *mark(machine, row)] += 1
        decided[row["cpu"], row["out_index"]] += 1
    starts = trace.tables["cpu_idle"].filter(pl.col("state") != IDLE_EXIT)
    for cpu, state, n in starts.group_by("idle_cpu", "state").agg(n=pl.len()).rows():
        machine = trace.state_tables[cpu]
        found[str(cpu), machine.names[state], "", "-", ""] += n - decided[cpu, state]
    return +found


def seen(bars: list[Bar]) -> Counter[tuple[str, str, str, str, str]]:
    """Return how often the plugin drew CPU, state, governor, mark and verdict."""
    found: Counter[tuple[str, str, str, str, str]] = Counter()
    for cpu, _, shown, text in bars:
        first, *rest = text.split("; ")
        state, _length = first.split(", ")
        governor = rest[0].partition(":")[0] if rest else ""
        verdict = rest[1].partition(",")[0] if len(rest) > 1 else ""
        found[cpu, state, governor, shown, verdict] += 1
    return found


def test_every_period_is_drawn_once_with_its_verdict(session: Path, drawn: list[Bar]) -> None:
    want, got = expected(session), seen(drawn)
    uncertain = Counter({key: n for key, n in want.items() if key[3] == "?"})
    assert uncertain.total() < 0.02 * want.total()
    if not uncertain:
        assert got == want
    assert got.total() == want.total()
    for key, n in want.items():
        near = sum(many for other, many in uncertain.items() if other[:3] == key[:3])
        if key[3] != "?":
            assert n <= got[key] <= n + near, key
    assert {key[3] for key in got} == {"-", "deep", "shallow"}


def test_each_state_has_a_colour_of_its_own(drawn: list[Bar]) -> None:
    pairs = {(colour, text.partition(",")[0]) for _, colour, _, text in drawn}
    assert {state for _, state in pairs} == set(synthetic.NAMES)
    assert len(pairs) == len(synthetic.NAMES)


def test_a_click_shows_what_was_known(tmp_path: Path, host: Host) -> None:
    session = synthetic.Session(cpus=1)
    session.phase("teo_ng", "cyclictest", 5_000_000)
    path = session.trace.write(tmp_path / "trace.dat")
    trace = load(path)
    _, bars = host(path)
    rows = trace.periods().filter(pl.col("out_kind") == ENTERED)
    for (*_, text), row in zip(bars, rows.iter_rows(named=True), strict=True):
        reason = trace.name_of("decision", "reason", row["reason"])
        sleep = row["sleep_length_ns"]
        shown = f"{sleep / 1e6:.2f} ms" if sleep >= 1e6 else f"{sleep / 1e3:.1f} us"
        assert f"; teo_ng: {reason}, sleep length {shown}; " in text
        assert ("loss" in text) == ("too " in text)


def stock(path: Path) -> Path:
    trace = Trace(1)
    for n in range(50):
        start = 10**9 + n * 100_000
        trace.add(0, start, "cpu_idle", state=n % 3, cpu_id=0)
        trace.add(0, start + 60_000, "cpu_idle", state=IDLE_EXIT, cpu_id=0)
    return trace.write(path)


def test_a_stock_recording_has_colours_only(tmp_path: Path, host: Host) -> None:
    loaded, bars = host(stock(tmp_path / "trace.dat"))
    assert loaded == "loaded 1"
    assert len({colour for _, colour, _, _ in bars}) == 3
    assert [(mark, text) for _, _, mark, text in bars] == [
        ("-", f"state {n % 3}, 60.0 us") for n in range(50)
    ]


def test_without_cpu_idle_the_decisions_begin_the_bars(tmp_path: Path, host: Host) -> None:
    session = synthetic.Session(cpus=1)
    put = session.trace.put

    def put_decisions(cpu: int, ts: int, name: str, *rest: Any) -> None:
        if name != "cpu_idle":
            put(cpu, ts, name, *rest)

    session.trace.put = put_decisions  # type: ignore[method-assign, assignment]
    session.phase("wteo", "cyclictest", 10_000_000)
    path = session.trace.write(tmp_path / "trace.dat")
    _, bars = host(path)
    assert len(bars) >= 10
    assert sum(seen(bars).values()) == sum(expected(path).values())


def test_a_trace_with_neither_draws_nothing(tmp_path: Path, host: Host) -> None:
    trace = Trace(1)
    for n in range(20):
        trace.mark(0, 10**9 + n * 1000, "phase end")
    for name in [name for name in trace.events if name != "print"]:
        del trace.events[name]
    assert host(trace.write(tmp_path / "trace.dat")) == ("loaded 0", [])


# KernelShark 2.2 itself does not survive a file cut short, so the damage is within the records.
def test_impossible_values_do_not_crash_it(tmp_path: Path, host: Host) -> None:
    trace = Trace(1)
    now = 10**9
    for seq, (states, index, residency) in enumerate(
        itertools.product((0, 1, 4, 10, 255), (0, 3, 9, 200), (0, 2**40, 2**63, 2**64 - 1))
    ):
        trace.add(0, now, "config", states=states, power_mw=[2**32 - 1] * 10, names="," * 300,
                  exit_latency_ns=[-1] * 10, target_residency_ns=[2**63 - 1] * 10)  # fmt: skip
        trace.add(0, now + 1000, "decision", seq=seq, governor=77, reason=255, disabled=2**32 - 1,
                  hint_ns=-2, latency_req_ns=-1, sleep_length_ns=-1)  # fmt: skip
        if seq % 2:
            trace.add(0, now + 2000, "cpu_idle", state=index, cpu_id=0)
            trace.add(0, now + 6000, "cpu_idle", state=IDLE_EXIT, cpu_id=7)
        trace.add(0, now + 9000, "outcome", seq=seq, kind=0, index=index, residency_ns=residency)
        now += 10_000
    loaded, bars = host(trace.write(tmp_path / "trace.dat"))
    assert loaded == "loaded 1" and len(bars) >= 40


def test_events_without_the_prefix_are_drawn_alike(tmp_path: Path, host: Host) -> None:
    session = synthetic.Session(cpus=1)
    session.phase("wteo", "cyclictest", 10_000_000)
    new = host(session.trace.write(tmp_path / "new.dat"))
    for event in session.trace.events.values():
        event.name = event.name.removeprefix("cil_")
    assert host(session.trace.write(tmp_path / "old.dat")) == new
    assert len(new[1]) >= 10


@pytest.mark.parametrize("event", ["decision", "outcome", "config", "cpu_idle"])
def test_an_event_without_an_expected_field_is_left_alone(
    tmp_path: Path, host: Host, event: str
) -> None:
    session = synthetic.Session(cpus=1)
    changed = session.trace.events[event]
    changed.symbols.clear()
    for item in changed.fields:
        item.name = f"other_{item.name}"
    session.trace.put = lambda *_: None  # type: ignore[method-assign]
    session.phase("wteo", "cyclictest", 5_000_000)
    del session.trace.put
    session.trace.mark(0, 10**9, "phase end")
    assert host(session.trace.write(tmp_path / "trace.dat")) == ("loaded 1", [])
