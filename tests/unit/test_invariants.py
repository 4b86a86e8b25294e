# SPDX-License-Identifier: GPL-2.0
"""Rules for every result, and the shares from which on there is no regret."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.commands.machines import describe
from cpuidle_lab.compare.worst import request_us
from cpuidle_lab.figures import invariants, withheld
from cpuidle_lab.figures.analysis import analyse
from cpuidle_lab.figures.group import Group
from cpuidle_lab.figures.invariants import RULES, Facts, broken
from cpuidle_lab.recording import columns as co
from cpuidle_lab.recording.formats import writer
from cpuidle_lab.recording.trace import TIME_MAX, load
from cpuidle_lab.states.costs import Costs
from cpuidle_lab.states.machines import Known
from cpuidle_lab.view.html_page import state_table
from tests.unit.kernel_events import EXIT, Kernel, bare
from tests.unit.kernel_events import MACHINE as MACHINE_LINE
from tests.unit.periods import MACHINE, US, Builder, Period

REGRET, POWER, ORACLE, TIME, SHARES, COUNTS = RULES
MODEL = Costs((1000.0, 100.0), (0.0, 50.0), False)
GOOD = Facts(
    regret=10.0,
    cost_pj=110.0,
    oracle_pj=100.0,
    length_ns=0.5,
    models=[MODEL],
    entries=[3, 4],
    state_ns=[1.0, 2.0],
    idle_ns=3.0,
    parts={"entries": ([30.0, 70.0], 100.0)},
    counts={"intervals": (7, 7, None)},
)


def test_a_result_without_fault_breaks_no_rule() -> None:
    assert broken(GOOD) == []
    assert broken(Facts()) == []
    assert broken(replace(GOOD, regret=-1e-9)) == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"regret": -0.001}, REGRET),
        ({"cost_pj": 49.0, "oracle_pj": 49.0}, POWER),
        ({"cost_pj": 701.0}, POWER),
        ({"oracle_pj": 111.0}, ORACLE),
        ({"state_ns": [1.0, 2.1]}, TIME),
        ({"parts": {"entries": ([30.0, 69.0], 100.0)}}, SHARES),
        ({"counts": {"intervals": (42_122, 42_085)}}, COUNTS),
    ],
)
def test_each_rule_can_be_broken(changes: dict[str, Any], rule: str) -> None:
    assert broken(replace(GOOD, **changes)) == [rule]


# ---- In the commands ----


def two(path: Path) -> Path:
    """Write a recording of two governors: C1 for 400 us, and C6 for 700 us, 120 times each."""
    builder = Builder()
    builder.config()
    for workload, period in (("one", Period(1, 402 * US)), ("two", Period(2, 800 * US))):
        builder.trace.mark(0, builder.now, f"phase governor=teo_ng workload={workload}")
        builder.now += 10
        for _ in range(120):
            builder.add(period)
        builder.trace.mark(0, builder.now, "phase end")
        builder.now += 10
    return builder.trace.write(path)


def answer(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, Any]:
    code = main([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_row_that_breaks_a_rule_shows_no_figure_and_others_stand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, page = two(tmp_path / "t.dat"), tmp_path / "x.html"
    code, found = answer(capsys, "report", path)
    assert code == 0 and [run["broken"] for run in found["runs"]] == [[], []]
    monkeypatch.setitem(RULES, "no C6", lambda facts: not facts.entries[2])
    code, found = answer(capsys, "report", path, "-o", page)
    one, other = found["runs"]
    assert code == 1
    assert (one["broken"], other["broken"]) == ([], ["no C6"])
    assert one["metrics"]["regret"] is not None and one["metrics"]["power_mw"] is not None
    assert {value for key, value in other["metrics"].items() if "energy" not in key} == {None}
    assert [line["workloads"] for line in found["summary"]] == [1]
    assert "contradicts a rule: no C6" in page.read_text()
    assert main(["report", str(path), "-o", str(page)]) == 1
    assert "contradicts a rule: no C6" in " ".join(capsys.readouterr().out.split())


def test_a_result_of_compare_that_breaks_a_rule_shows_no_figure_and_others_stand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["compare", two(tmp_path / "t.dat"), "--governors", "menu_ng", "--no-mainline",
             "--no-instructions"]  # fmt: skip
    code, found = answer(capsys, *words)
    assert code == 0 and not any(one["broken"] for one in found["results"])
    assert found["traces"][0]["intervals"] == 240
    monkeypatch.setitem(RULES, "no loss", lambda facts: facts.cost_pj == facts.oracle_pj)
    page = tmp_path / "x.html"
    code, found = answer(capsys, *words, "-o", page)
    by_name = {one["governor"]: one for one in found["results"]}
    assert code == 1
    assert by_name["menu_ng"]["broken"] == ["no loss"]
    assert set(by_name["menu_ng"]["metrics"].values()) == {None}
    assert by_name["oracle"]["metrics"]["regret"] == 0
    assert "contradicts a rule: no loss" in page.read_text()


def test_without_an_interval_that_has_a_cost_there_is_no_regret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = Builder()
    builder.config()
    for _ in range(120):
        builder.add(Period(1, 0, kind=1))
    path, page = builder.trace.write(tmp_path / "t.dat"), tmp_path / "x.html"
    code, found = answer(capsys, "compare", path, "--governors", "menu_ng", "--no-mainline",
                         "--no-instructions", "-o", page)  # fmt: skip
    assert code == 0
    assert {one["metrics"]["regret"] for one in found["results"]} == {None}
    assert {len(one["lost_by_length"]) for one in found["results"]} == {0}


def test_an_aborted_selection_is_no_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = Builder()
    builder.config()
    for n in range(120):
        builder.add(Period(1, 402 * US, kind=1 if n % 3 == 0 else 0))
    path = builder.trace.write(tmp_path / "t.dat")
    _, report = answer(capsys, "report", path)
    _, compare = answer(capsys, "compare", path, "--governors", "teo_ng", "--no-mainline",
                        "--no-instructions")  # fmt: skip
    assert report["runs"][0]["metrics"]["intervals"] == 80
    assert compare["traces"][0]["intervals"] == 80


# The last idle period of a phase goes on for 300 us after its end.
def test_idle_time_after_a_phase_is_none_of_its_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = Builder()
    builder.config()
    builder.trace.mark(0, builder.now, "phase governor=teo_ng workload=one")
    begin = builder.now
    for _ in range(3):
        builder.add(Period(1, 398 * US))
    end = builder.now - 300 * US
    builder.trace.mark(0, end, "phase end")
    _, found = answer(capsys, "report", builder.trace.write(tmp_path / "t.dat"))
    idle = 2 * 398 * US + (398 + 1 - 300) * US
    assert found["runs"][0]["metrics"]["idle_share"] == pytest.approx(100 * idle / (end - begin))


@pytest.mark.parametrize("key", ["polling", "power_mw", "exit_latency_ns"])
def test_a_table_has_each_figure_of_each_state(tmp_path: Path, key: str) -> None:
    folder = tmp_path / "columns"
    co.write(two(tmp_path / "t.dat"), folder)
    meta = json.loads((folder / "meta.json").read_text())
    del meta["machines"]["0"][key][0]
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(UserError, match="claims a machine with 3 idle states"):
        co.Recording(folder)


@pytest.mark.parametrize(("key", "value"), [("stock", 1), ("law", []), ("kind", "x")])
def test_facts_of_columns_have_their_types(tmp_path: Path, key: str, value: object) -> None:
    folder = tmp_path / "columns"
    co.write(two(tmp_path / "t.dat"), folder)
    meta = json.loads((folder / "meta.json").read_text())
    (folder / "meta.json").write_text(json.dumps(meta | {key: value}))
    with pytest.raises(UserError, match=r"meta\.json: is damaged"):
        co.Recording(folder)


# Where a governor polls again and again in a state that has a price, the oracle would be dearer.
def test_a_polling_state_is_the_first(tmp_path: Path) -> None:
    builder = Builder()
    builder.config(replace(MACHINE, polling=(True, False, True)))
    builder.add(Period(1, 402 * US))
    with pytest.raises(UserError, match="claims a polling state that is not the first"):
        load(builder.trace.write(tmp_path / "t.dat"))


# ---- What leaves no regret ----


def group_of(path: Path, periods: Sequence[Period]) -> Group:
    builder = Builder()
    builder.config()
    for period in periods:
        builder.add(period)
    (group,) = analyse(load(builder.trace.write(path)))
    return group


TIMERLESS = "of power:cpu_idle alone exogenous intervals are not known, so not in the summary"
WHOLE = Period(1, 402 * US)
OVERSLEPT = replace(WHOLE, sleep=100 * US, delta_tick=100 * US)


@pytest.mark.parametrize(
    ("kind", "bad", "good", "many"),
    [
        (withheld.SHORT, Period(1, 1 * US), 98, 2),
        (withheld.LATE, OVERSLEPT, 80, 20),
        (withheld.LOST, replace(WHOLE, skip=20), 80, 1),
        (withheld.REQUEST, replace(WHOLE, latency=1 * US), 100, 0),
        (withheld.REQUEST, replace(WHOLE, disabled=2), 100, 0),
    ],
)
def test_above_its_limit_each_omission_leaves_no_regret(
    tmp_path: Path, kind: str, bad: Period, good: int, many: int
) -> None:
    within = group_of(tmp_path / "a.dat", [WHOLE] * good + [bad] * many)
    assert within.values["regret"] is not None
    assert within.shares[kind] <= withheld.KINDS[kind].limit
    beyond = group_of(tmp_path / "b.dat", [WHOLE] * good + [bad] * (many + 1))
    assert beyond.values["regret"] is beyond.values["oracle_mw"] is None
    assert (beyond.values["power_mw"] is None) == (kind == withheld.SHORT)
    assert withheld.above(beyond.shares) == [kind]
    assert beyond.broken == []
    assert any("no regret, since that is above" in note for note in beyond.notes)
    denied = "idle states that were entered though they were not allowed: C1"
    assert (denied in beyond.notes) == (kind == withheld.REQUEST)


def test_intervals_without_an_end_leave_no_regret() -> None:
    frame = pl.DataFrame({"length_ns": [800, 201], "flags": [0, co.CUT]})
    shares = withheld.shares_of([frame])
    assert withheld.above(shares) == [withheld.CUT_OFF]
    assert withheld.above(withheld.shares_of([frame.with_columns(length_ns=pl.lit(1))])) == [
        withheld.CUT_OFF
    ]
    assert withheld.above(withheld.shares_of([frame.head(1)])) == []


def test_a_state_contradicts_a_limit_that_did_not_allow_it() -> None:
    index = np.array([0, 1, 2, 1, 2, 1, 2])
    request = np.array([0, 0, 1_000, TIME_MAX, 2_000, 0, TIME_MAX])
    disabled = np.array([7, 0, 0, 2, 4, 1, 0])
    found = withheld.contradicts(MACHINE, index, request, disabled)
    # State 0 is entered where nothing is allowed, and the shallowest that is enabled in any case.
    assert found.tolist() == [False, True, True, True, True, False, False]


def test_short_periods_leave_no_ranking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """C6 takes 133 us to leave, and each period lasts 40: half of them count as idle."""
    kernel = Kernel()
    for _ in range(200):
        kernel.add(20_000, "cpu_idle", state=2, cpu_id=0)
        kernel.add(40_000, "cpu_idle", state=EXIT, cpu_id=0)
    kernel.add(1000, "cpu_idle", state=1, cpu_id=0)
    path = kernel.write(tmp_path / "short.dat")
    code, found = answer(capsys, "report", path)
    (run,) = found["runs"]
    assert code == 0
    assert "recording: " + TIMERLESS in found["notes"]
    assert (run["metrics"]["regret"], run["metrics"]["short"]) == (None, 100)
    # The halves would make it 42 W.
    assert run["metrics"]["power_mw"] is None
    assert run["withheld"] == ["short"]
    assert main(["compare", str(path), "--governors", "teo_ng,wteo", "--no-mainline",
                 "--no-instructions", "-o", str(tmp_path / "x.html")]) == 0  # fmt: skip
    said = " ".join(capsys.readouterr().out.split())
    assert "No recording has a regret that can be judged" in said
    assert "100.000 % of the intervals end in an idle period that is no longer" in said
    assert "|recorded (menu) | ? |" in said
    _, told = answer(capsys, "compare", path, "--governors", "teo_ng", "--no-mainline",
                     "--no-instructions", "-o", tmp_path / "x.html")  # fmt: skip
    assert {one["metrics"]["power_mw"] for one in told["results"]} == {None}


# ---- Notes and messages ----


def test_the_reason_why_a_regret_is_not_in_the_summary_is_true(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = answer(capsys, "report", bare(tmp_path))
    assert found["notes"] == ["recording: " + TIMERLESS]


@pytest.mark.parametrize("command", [["report", "-o"], ["export", "--parquet"]])
def test_a_recording_without_a_whole_idle_period_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    kernel = Kernel()
    kernel.add(1000, "cpu_idle", state=1, cpu_id=0)
    path = kernel.write(tmp_path / "one.dat")
    assert main([*command, str(tmp_path / "out"), str(path)]) == 1
    assert "holds no idle periods" in capsys.readouterr().err
    with pytest.raises(UserError, match="holds no idle periods"):
        analyse(load(path))


def test_a_rule_is_said_as_a_sentence() -> None:
    assert all(rule in invariants.said(rule) for rule in RULES)


# ---- Limits that change during a recording without the module ----

ENDED = MACHINE_LINE.replace("stock machine", "stock end")


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (ENDED, ""),
        (ENDED.replace("tick_ns", "latency_req_us=20 tick_ns"),
         "the latency request changed: none to 20 us, on CPU 0-1"),
        (ENDED.replace("tick_ns", "disabled=0x4 tick_ns"),
         "the disabled states changed: 0x0 to 0x4, on CPU 0-1"),
    ],
)  # fmt: skip
def test_limits_at_the_end_that_differ_leave_no_regret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], end: str, said: str
) -> None:
    kernel = Kernel()
    for _ in range(120):
        kernel.idle(1, 300_000, sleep=10**9, delta=10**9)
    kernel.add(1000, "print", end)
    path = kernel.write(tmp_path / "t.dat")
    _, report = answer(capsys, "report", path)
    _, compare = answer(capsys, "compare", path, "--governors", "teo_ng", "--no-mainline",
                        "--no-instructions")  # fmt: skip
    unknown = [report["runs"][0]["metrics"]["regret"], compare["results"][0]["metrics"]["regret"]]
    assert [value is None for value in unknown] == [bool(said)] * 2
    assert report["traces"][0]["omissions"] == [said] * bool(said)
    assert any(said in note for note in compare["notes"])


ADDED, REMOVED = "pm_qos_add_request", "pm_qos_remove_request"


@pytest.mark.parametrize(
    ("events", "counts"),
    [
        ([("pm_qos_update_request", 0)], True),
        ([(ADDED, 5)], True),
        ([(ADDED, -1)], False),
        # By a read of /dev/cpu_dma_latency; then by the end of a program that began before.
        ([(ADDED, -1), (REMOVED, -1)], False),
        ([(REMOVED, -1)], True),
        ([(ADDED, -1), (REMOVED, -1), (REMOVED, -1)], True),
    ],
)
def test_a_request_in_between_leaves_no_regret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], events: list[tuple[str, int]], counts: bool
) -> None:
    kernel = Kernel()
    for n in range(120):
        kernel.idle(1, 300_000, sleep=10**9, delta=10**9)
        if n == 60:
            for event, value in events:
                kernel.add(1000, event, value=value)
    _, found = answer(capsys, "report", kernel.write(tmp_path / "t.dat"))
    assert (found["runs"][0]["metrics"]["regret"] is None) == counts
    assert any("latency requests were set or ended 1 times" in line
               for line in found["traces"][0]["omissions"]) == counts  # fmt: skip


@pytest.mark.parametrize(
    ("device", "kind", "counts"),
    [("cpu1", 1, True), ("cpu1", 2, False), ("i2c-1", 1, False), ("cpufreq", 1, False),
     ("", 1, True)],
)  # fmt: skip
@pytest.mark.parametrize("event", ["add", "update", "remove"])
def test_a_request_for_a_device_counts_where_it_is_a_cpu(
    event: str, device: str, kind: int, counts: bool, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The kinds of the kernel are 1 for a latency to resume, 2 for one to tolerate."""
    name = f"dev_pm_qos_{event}_request"
    fields = {"type": ("int", 8, 4, True), "name": ("char", 12, 0, True)}
    monkeypatch.setitem(writer.EVENTS, name, ("power", 440, fields))
    monkeypatch.setattr(writer, "WITH_TEXT", (*writer.WITH_TEXT, name))
    kernel = Kernel()
    for n in range(120):
        kernel.idle(1, 300_000, sleep=10**9, delta=10**9)
        if n == 60:
            kernel.add(1000, name, device, type=kind)
    _, found = answer(capsys, "report", kernel.write(tmp_path / "t.dat"))
    assert (found["runs"][0]["metrics"]["regret"] is None) == counts


RESUME = "type=DEV_PM_QOS_RESUME_LATENCY new_value=5"


@pytest.mark.parametrize(
    ("event", "counts"),
    [
        ("pm_qos_add_request: CPU_DMA_LATENCY value=0", True),
        ("pm_qos_update_request: pm_qos_class=CPU_DMA_LATENCY value=0", True),
        ("pm_qos_update_request: pm_qos_class=NETWORK_LATENCY value=0", False),
        ("pm_qos_remove_request: CPU_DMA_LATENCY value=-1", True),
        (f"dev_pm_qos_add_request: device=cpu1 {RESUME}", True),
        (f"dev_pm_qos_remove_request: device=cpu1 {RESUME}", True),
        (f"dev_pm_qos_update_request: device=i2c-1 {RESUME}", False),
        ("dev_pm_qos_add_request: device=cpu1 type=DEV_PM_QOS_FLAGS new_value=5", False),
    ],
)
def test_a_request_in_a_text_leaves_no_regret(
    event: str, counts: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = (1, EXIT)
    rows = [f"idle-0 [001] d..1 {1 + n / 1000:.6f}: cpu_idle: state={ends[n % 2]} cpu_id=1"
            for n in range(100)]  # fmt: skip
    rows.insert(51, f"app-12 [001] d..1 1.050500: {event}")
    path, table = tmp_path / "t.txt", tmp_path / "m.yaml"
    path.write_text("\n".join(["# tracer: nop", *rows, ""]))
    states = "".join(f"  - {{name: {name}, exit_latency_us: {us}, target_residency_us: {us}}}\n"
                     for name, us in (("C1", 2), ("C6", 133)))  # fmt: skip
    table.write_text("hz: 250\nstates:\n" + states)
    _, report = answer(capsys, "report", path, "--machine", table)
    _, compare = answer(capsys, "compare", path, "--machine", table, "--governors", "teo_ng",
                        "--no-mainline", "--no-instructions")  # fmt: skip
    said = " ".join(compare["notes"])
    assert (report["runs"][0]["metrics"]["regret"] is None) == counts
    assert ("no regret, since that is above 0 %" in said) == counts
    assert ("latency requests were set or ended 1 times while" in said) == counts
    assert ("first at 1.050 s of its clock" in said) == counts


# ---- Units ----


def test_the_price_of_an_entry_has_one_unit() -> None:
    """Entering C6 costs 181.2 uJ: on the page, and for `machines`."""
    told = describe(Known("x", "", MACHINE))["states"]
    assert isinstance(told, list) and told[2]["entry_uj"] == 181.2
    page = state_table(MACHINE)
    assert "uJ" in page and "181.200" in page and "nJ" not in page


@pytest.mark.parametrize(
    ("request_ns", "shown_us"),
    [(TIME_MAX, None), (-1, None), (2_000_000_000_000, None), (20_000, 20.0)],
)
def test_the_default_of_pm_qos_is_no_request(request_ns: int, shown_us: float | None) -> None:
    assert request_us(request_ns) == shown_us
