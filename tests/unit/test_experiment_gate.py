# SPDX-License-Identifier: GPL-2.0
"""The experiment gate: wake-ups and their idle states, costs, targets, and its parts.

The guest's part runs in tests/lab/test_experiment_gate.py.
"""

import re
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.evidence.tables import ABSENT, HELD, MISSED
from cpuidle_lab.states.table import StateTable
from cpuidle_lab.view.terminal import meter
from experiments import energy
from experiments.energy import Slot
from experiments.experiment import NOT_BOOTED, QUICK, Findings, Request
from experiments.gate import decisions, entry, guest, judgement, show, switches, wakes
from experiments.gate.guest import CONDITIONS, FIXED, MENU, OURS, PERFORMANCE, RFC, WORKS
from experiments.gate.wakes import Period, Wake
from experiments.memo import Memo

SKX = StateTable(
    names=("POLL", "C1", "C1E", "C6"),
    exit_latency_ns=(0, 2000, 10_000, 133_000),
    target_residency_ns=(0, 2000, 20_000, 600_000),
    power_uw=(4_000_000, 1_400_000, 900_000, 100_000),
    polling=(True, False, False, False),
    tick_ns=4_000_000,
)

WAKE_1, PGBENCH_1, PGBENCH_44 = (
    next(work for work in WORKS if work.name == name)
    for name in ("wake-1", "pgbench-1", "pgbench-44")
)

HEADER = """\
# tracer: nop
#
# entries-in-buffer/entries-written: {0}/{0}   #P:8
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
"""
LINE = (
    "  <idle>-0   [004] dNh4.   {at}: sched_wakeup: "
    "comm=postgres pid={pid} prio=120 target_cpu={cpu}\n"
)


def text(*lines: tuple[str, int, str]) -> str:
    """Return the kernel's text of wake-ups: time, task, CPU."""
    body = "".join(LINE.format(at=at, pid=pid, cpu=cpu) for at, pid, cpu in lines)
    return HEADER.format(len(lines)) + body


# ---- Wake-ups and idle periods ----


def test_wake_ups_are_read_without_those_of_others() -> None:
    found = wakes.wakes(
        text(("6.760609", 212, "004"), ("6.760758", 9, "000"), ("17.000001", 211, "011")), [9]
    )
    assert found == [Wake(6_760_609_000, 4, 212), Wake(17_000_001_000, 11, 211)]


def test_lost_and_unknown_wake_ups_are_no_result() -> None:
    lost = text(("1.000000", 5, "001")).replace("1/1", "1/3")
    with pytest.raises(UserError, match="lost"):
        wakes.wakes(lost, [])
    with pytest.raises(UserError, match="hold the line 'CPU:3"):
        wakes.wakes(HEADER.format(1) + " CPU:3 [LOST 17 EVENTS]\n", [])


def period(start: int, end: int, cpu: int = 0, index: int = 3, hint_ns: int = -1) -> Period:
    return Period(start, end, cpu, index, hint_ns, "base-governor")


def test_a_wake_up_belongs_to_the_idle_period_that_it_ends() -> None:
    idle = [period(10_000, 50_000), period(60_000, 90_000), period(20_000, 80_000, cpu=2)]
    cases = [
        (Wake(9_000, 0, 1), None),  # before the first
        (Wake(12_000, 0, 1), idle[0]),
        (Wake(50_000, 0, 1), idle[0]),
        (Wake(55_000, 0, 1), None),  # busy between two
        (Wake(70_000, 0, 1), idle[1]),
        (Wake(70_000, 2, 1), idle[2]),
        (Wake(91_000, 0, 1), None),
        (Wake(70_000, 1, 1), None),  # of that CPU nothing is known
    ]
    assert wakes.met([wake for wake, _ in cases], idle) == cases


def test_times_that_were_cut_do_not_move_a_wake_up_before_its_period() -> None:
    """Decided at 10.7 us, woken at 10.9: the text says 10."""
    idle = [period(10_700, 50_000)]
    assert wakes.met([Wake(10_000, 0, 1)], idle)[0][1] == idle[0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7], (7, 7, 7)),
        ([3, 1, 2], (2, 3, 3)),
        (list(range(1, 101)), (50, 99, 100)),
        (list(range(200, 0, -1)), (100, 198, 200)),
    ],
)
def test_quantiles(values: list[int], expected: tuple[int, int, int]) -> None:
    assert tuple(judgement.quantiles(values).values()) == expected


def test_no_latency_is_no_result() -> None:
    with pytest.raises(UserError, match="no latency"):
        judgement.quantiles([])


# ---- Energy ----

ACCOUNT = """\
cpu  state            power_mw     entry_nj          time_ns      entries        energy_uj
0    POLL                 4000            0       {poll}           10                0
0    C1                   1400         5200                0            0                0
0    C1E                   900        15200        100000000           18                0
0    C6                    100       495200       {deep}          {entries}                0
0    busy                 4000            0       1000000000         1000                0
0    offline                 0            0            {off}            0                0
"""


def account(poll: int, deep: int, entries: int, off: int = 21410) -> str:
    return ACCOUNT.format(poll=poll, deep=deep, entries=entries, off=off)


def test_the_account_is_the_difference_of_two_readings() -> None:
    slots = energy.account(account(10, 20, 3), account(15, 30, 7, 99_999))
    assert Slot(0, "C6", 100, 495200, 10, 4) in slots
    assert Slot(0, "POLL", 4000, 0, 5, 0) in slots
    assert energy.seconds(slots) == pytest.approx(15e-9)  # offline is no time
    with pytest.raises(UserError, match="fit"):
        energy.account(account(1, 2, 3), ACCOUNT.partition("\n")[0])


def test_power_is_that_of_the_module_and_follows_the_busy_power() -> None:
    """One second in POLL, 9 in C6 with 100 entries, by hand."""
    slots = energy.account(account(0, 0, 0), account(10**9, 9 * 10**9, 100, off=10**9))
    entries_mj = 100 * 495_200e-6
    assert energy.power_mw(slots, SKX) == pytest.approx((4000 + 9 * 100 + entries_mj) / 10)
    # Half: POLL 2000 mW; entering C1 costs 0.6 W x 2 us = 1.2 uJ in place of 5.2.
    half_mj = 2000 + 9 * 100 + 100 * 491_200e-6
    assert energy.power_mw(slots, SKX, 0.5) == pytest.approx(half_mj / 10)
    double_mj = 8000 + 9 * 100 + 100 * 503_200e-6
    assert energy.power_mw(slots, SKX, 2) == pytest.approx(double_mj / 10)


def test_no_state_draws_more_than_a_busy_cpu() -> None:
    empty = account(0, 0, 0)
    slots = energy.account(empty, empty.replace("5200                0", "5200 1000000000"))
    slots = [*slots, Slot(0, "busy", 4000, 0, 10**9, 0)]
    assert energy.power_mw(slots, SKX, 0.25) == pytest.approx(1000)


# ---- Targets ----


def cell(
    exit_ns: tuple[int, int, int], power: float, p50_ns: int = 20_000, condition: str = OURS
) -> dict[str, Any]:
    """Return the figures of a cell; power in mW at each busy power."""
    return {
        "condition": condition,
        "hinted_tasks": 5,
        "wakeups": 411,
        "from_idle": 400,
        "exit_ns": dict(zip(("p50", "p99", "max"), exit_ns, strict=True)),
        "end_to_end_ns": {"mean": p50_ns * 1.1, "p50": p50_ns, "p99": 2 * p50_ns, "max": 10**6},
        "transactions": 202,
        "seconds": 10.0,
        "power_mw": {"1": power, "0.5": power / 2, "2": 2 * power},
        "machine_mw": power + 5000,
        "worst": [
            {
                "time_s": 6.760609,
                "cpu": 4,
                "pid": 212,
                "state": "C6",
                "exit_ns": exit_ns[2],
                "hint_ns": -1,
                "reason": "base-governor",
            }
        ],
        "costly": [
            {
                "state": "C1",
                "hint_ns": 2000,
                "reason": "hint-clamp",
                "decisions": 4181,
                "time_ns": 15_029_197_980,
            }
        ],
        "published": None,
    }


def cells(ours: tuple[int, int, int], power: float) -> dict[str, dict[str, Any]]:
    """Return the cells of a workload: menu draws 1 W, performance mode 31 W."""
    return {
        MENU: cell((133_000,) * 3, 1000, 150_000, MENU),
        PERFORMANCE: cell((0, 0, 0), 31_000, 20_000, PERFORMANCE),
        RFC: cell((0, 0, 0), 20_000, 20_000, RFC),
        OURS: cell(ours, power),
    }


@pytest.mark.parametrize(
    ("exits", "met"),
    [
        ((0, 0, 0), [True, True]),
        ((2000, 4000, 20_000), [True, True]),
        ((2000, 4001, 20_001), [False, False]),
        ((0, 0, 133_000), [True, False]),
    ],
)
def test_latency_is_judged_against_performance_mode(
    exits: tuple[int, int, int], met: list[bool]
) -> None:
    """Beside 20 us without idle states, 4 us of exit latency are the 1.2-fold."""
    found = judgement.targets(WAKE_1, cells(exits, 1000))
    assert [each["met"] for each in found] == met


def test_every_wake_up_of_a_transaction_counts_and_so_does_the_gate() -> None:
    ours = cells((1000, 1000, 1000), 1000)
    value = judgement.targets(PGBENCH_1, ours)[0]["value"]
    assert value == pytest.approx((20_000 + 3 * 1000) / 20_000)
    value = judgement.targets(PGBENCH_1, ours, added_ns=100)[0]["value"]
    assert value == pytest.approx((20_000 + 3 * 1100) / 20_000)


@pytest.mark.parametrize(
    ("work", "power", "met"),
    [
        (PGBENCH_1, 16_000, True),
        (PGBENCH_1, 16_001, False),
        (PGBENCH_44, 11_000, True),
        (PGBENCH_44, 11_001, False),
    ],
)
def test_extra_energy_is_judged_at_three_busy_powers(
    work: guest.Work, power: float, met: bool
) -> None:
    found = [
        each for each in judgement.targets(work, cells((0, 0, 0), power))
        if "energy" in each["target"]
    ]  # fmt: skip
    assert len(found) == 3
    assert {each["met"] for each in found} == {met}


def test_the_gate_is_judged_as_it_comes() -> None:
    both = cells((0, 0, 0), 1000) | {FIXED: cell((0, 133_000, 133_000), 40_000)}
    found = judgement.targets(PGBENCH_1, both)
    assert [each["met"] for each in found] == [True] * 5


def test_wakebench_has_no_energy_target() -> None:
    found = judgement.targets(WAKE_1, cells((0, 0, 0), 40_000))
    assert not any("energy" in each["target"] for each in found)


def test_where_performance_mode_costs_nothing_extra_nothing_is_said() -> None:
    assert judgement.extra_share(10, 10, 12) is None
    assert judgement.extra_share(10, 8, 9) is None
    assert judgement.extra_share(10, 20, 15) == 0.5
    assert judgement.target("x", None, 0.5)["met"] is None


def test_published_changes_are_those_of_the_watts() -> None:
    one, many = (judgement.PUBLISHED[name, RFC] for name in ("pgbench-1", "pgbench-44"))
    assert (round(one.latency, 2), round(one.power, 2)) == (-0.82, 1.83)
    assert (round(many.latency, 2), round(many.power, 2)) == (-0.41, 0.12)


# ---- What the guest is told ----


def test_every_cell_is_run_and_set_up_by_itself() -> None:
    script = guest.script("skx", guest.FULL)
    recorded = [line.split() for line in script.splitlines() if line.startswith("record ")]
    assert [words[1] for words in recorded] == [
        f"{work.name}.{condition.name}" for work in WORKS for condition in CONDITIONS
    ]
    assert len(recorded) == len(CONDITIONS) * len(WORKS)
    steps = "wait $work", "trace-cmd stop", "all_states 0\n", "trace-cmd extract", "\nrecord "
    places = [script.index(step) for step in steps]
    assert places == sorted(places)
    assert script.count("all_states 1\n") == len(WORKS)
    assert script.count("hint='-n -20'") == len(WORKS)
    assert script.count("hint='-l 2us'") == 4
    assert script.count("hint='-l 10us'") == 4
    assert script.count("gate cap $linger_ms $linger_max_ms\n") == len(recorded)
    assert script.count("gate cap $linger_ms 0\n") == len(WORKS)
    assert script.index("\nrecord wake-4") < script.index("postgres_start")
    assert not re.search(r"\b(SECONDS|SEED|LOG|LIMIT)\b", script)


def test_the_script_is_one_for_a_shell() -> None:
    subprocess.run(["sh", "-n"], input=guest.script("power9", guest.FULL), text=True, check=True)


# ---- What it costs ----

DURATION = "".join(f" 0)   {n}.000 us    |  cil_glue_select();\n" for n in (1, 2))
CASES = decisions.figures([DURATION] * len(decisions.SETTINGS))


@pytest.mark.parametrize(
    ("tasks", "micros", "met"),
    [(0, "2.025", [True, True]), (0, "2.026", [False, True]), (10_000, "2.100", [True, False]),
     (1, "1.800", [True, False])],
)  # fmt: skip
def test_costs_are_judged(tasks: int, micros: str, met: list[bool]) -> None:
    """Means: 2000 instructions, or, where a case differs, as much as is said."""
    same = " 0)   2.000 us    |  cil_glue_select();\n"
    traces = []
    for case in decisions.SETTINGS:
        taken = micros if (case.governor, case.tasks) == ("gate", tasks) else "2.000"
        taken = "9.000" if case.limits > 1 else taken  # not what is judged
        traces.append(same.replace("2.000", taken))
    found = decisions.figures(traces)
    assert [each["met"] for each in judgement.cost_targets(found)] == met


# ---- What a switch costs ----

# Instructions and switches of a round trip, as the guest says them; one row is beyond its target.
SWITCHES = {case.name: "5700.0 1.000" for case in switches.SETTINGS}
SWITCHES |= dict.fromkeys(("inside", "not-members", "members"), "6100.0 1.000")
SWITCHES |= {"across": "6150.0 1.000", "alike": "6280.0 1.000"}
SWITCHES |= {"other": "5740.0 1.000", "quota": "6261.0 1.000"}


def test_a_switch_is_compared_with_one_in_the_same_cgroup() -> None:
    added = {case["case"]: case["added"] for case in switches.figures(SWITCHES)}
    assert added == {"no-module": 0, "inside": 0, "across": 0, "no-hint": 0, "other": 40,
                     "relaxed": 0, "crowded": 0, "hinted": 0, "groups": 0, "not-members": 0,
                     "alike": 130, "members": 0, "quota": 161}  # fmt: skip


def test_a_case_counts_by_the_least_of_its_runs() -> None:
    text = "a: 5712.0 1.000\nKilled\na: 5700.0 1.000\na: 11000.0 1.000\nb: 5712.0 1.000\n"
    assert switches.least(text) == {"a": "5700.0 1.000", "b": "5712.0 1.000"}


# ---- Rows and tables ----


def run_of(machine: str, exits: tuple[int, int, int], power: float) -> dict[str, Any]:
    """Return the figures of a boot, as of judgement.machine_figures()."""
    works = [
        {**asdict(work), "cells": cells(exits, power) | {FIXED: cell(exits, power)}}
        for work in (WAKE_1, PGBENCH_1)
    ]
    return {"machine": machine, "works": works}


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Answer for the lab; return the boots that there were since, and set what comes next."""
    boots: list[Any] = []
    answer: dict[str, Any] = {"exits": (0, 0, 0), "power": 2000}

    def booted(machine: str, sizes: guest.Sizes) -> dict[str, Any]:
        boots.append((machine, sizes))
        return run_of(machine, answer["exits"], answer["power"])

    def cost(name: str, found: dict[str, Any]) -> dict[str, Any]:
        boots.append(name)
        return found

    monkeypatch.setattr(entry, "_run", booted)
    monkeypatch.setattr(decisions, "measure", lambda _: cost("decisions", {"cases": CASES}))
    monkeypatch.setattr(
        switches, "measure", lambda: cost("switches", {"cases": switches.figures(SWITCHES)})
    )
    monkeypatch.setattr(entry, "machine_parts", lambda: [])
    monkeypatch.setattr("cpuidle_lab.lab.corpus.modules_hash", lambda: "0")

    def change(**values: Any) -> list[Any]:
        answer.update(values)
        return boots

    return change


def measured(folder: Path, *only: str, scale: str = QUICK, boot: bool = True) -> Findings:
    request = Request(scale, 1, boot, only=only)
    with Memo(folder / "memo.db") as memo:
        return entry.EXPERIMENT.measure(request, memo, meter)


def table(result: Findings, title: str) -> list[list[str]]:
    """Return the rows of the only table whose title begins so, as text."""
    (found,) = (
        one for section in result.sections for one in section.tables if one.title.startswith(title)
    )
    return found.text()


def test_a_part_boots_what_it_needs(lab: Callable[..., list[Any]], tmp_path: Path) -> None:
    assert [one.part for one in measured(tmp_path, "switches").sections] == ["switches"]
    assert lab() == ["switches"]
    measured(tmp_path, "targets")
    judged = [(machine, guest.QUICK) for machine in guest.MACHINES]
    assert sorted(lab()[1:], key=str) == sorted(["decisions", *judged], key=str)
    measured(tmp_path, "decisions")
    assert len(lab()) == 4
    # All that is known is not measured again.
    everything = measured(tmp_path)
    assert [one.part for one in everything.sections] == list(entry.EXPERIMENT.parts)
    assert lab()[4:] == [("power9", entry.QUICKLY)]


def test_without_the_lab_a_part_says_so(lab: Callable[..., list[Any]], tmp_path: Path) -> None:
    found = measured(tmp_path, boot=False)
    assert [row.note for row in found.rows] == [NOT_BOOTED] * 4
    assert (lab(), found.sections, found.state) == ([], [], ABSENT)


def test_targets_are_rows_with_a_verdict(lab: Callable[..., list[Any]], tmp_path: Path) -> None:
    found = measured(tmp_path)
    states = [row.state for row in found.rows]
    # Two of wakebench and six of pgbench on each machine, two of decisions, nine of switches.
    assert (states.count(HELD), states.count(MISSED)) == (26, 1)
    (missed,) = (row for row in found.rows if row.state == MISSED)
    assert (missed.what, missed.ours) == (
        "context switch: members, quota used up, at most 160", [161]
    )  # fmt: skip
    assert not [one for s in found.sections for one in s.tables if "Decisions" in one.title]
    assert ["members, quota used up", "6,261.0", "161.0", "160"] in table(found, "What hints cost")
    assert ["no module", "5,700.0", "0.0", "-"] in table(found, "What hints cost")


def test_the_decisions_that_missed_a_target_are_shown(
    lab: Callable[..., list[Any]], tmp_path: Path
) -> None:
    lab(exits=(2000, 133_000, 133_000), power=30_000)
    found = measured(tmp_path, "targets")
    # Both latencies of each workload, the energy at each busy power, and that of the machine.
    assert [row.state for row in found.rows] == [MISSED] * 16
    slowest = table(found, "Decisions before the slowest wake-ups, wakebench -m 2 -t 1 on skx")
    assert slowest == [["6.760609", "4", "212", "C6", "133", "none", "base-governor"]]
    (costly,) = table(found, "Decisions under a hint, pgbench -S -n -R 10 -c 1 on skx")
    assert costly == ["C1", "2", "hint-clamp", "4,181", "15.03"]


def test_a_target_that_cannot_be_judged_says_why() -> None:
    row = show._judged("skx", judgement.target("energy", None, 0.5))
    assert (row.state, row.figures()) == (ABSENT, row.note)
    assert not row.measured


# ---- What a decision costs ----


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
    assert decisions.durations(text) == [3158, 12000, 931]
    with pytest.raises(UserError, match="of 4 calls of select in the guest, 3 were timed"):
        decisions.durations(text + " 0)               |  cil_glue_select [cpuidle_lab]() {\n")
    with pytest.raises(UserError, match="of 0 calls"):
        decisions.durations("# tracer: function_graph\n")


def test_what_gate_adds_is_beyond_its_base() -> None:
    line = " 0)   {}.{} us    |  cil_glue_select [cpuidle_lab]();\n"
    traces = [line.format(n, "000") + line.format(n, "100") for n in range(len(decisions.SETTINGS))]
    cases = {case["case"]: case for case in decisions.figures(traces)}
    assert cases["wteo without gate"]["added"] is None
    assert cases["wteo without gate"]["mean"] == 2050
    assert cases["gate over wteo, no hint"]["added"] == 1000
    assert cases["gate over wteo, 100 hinted tasks"]["added"] == 3000
    assert cases["gate over wteo, 100 hinted tasks"]["max"] == 5100


@pytest.mark.lab
@pytest.mark.full
def test_gate_is_cheap_in_the_lab() -> None:
    found = decisions.measure(seconds=1)
    cases = {(case["governor"], case["hinted_tasks"], case["limits"]): case
             for case in found["cases"]}  # fmt: skip
    assert len(cases) == len(decisions.SETTINGS)
    assert min(case["decisions"] for case in cases.values()) > 300
    base = cases["wteo", 0, 0]["mean"]
    # Other differences between two runs of a program are far less than a hundredth.
    assert abs(cases["gate", 0, 0]["added"]) < base / 50
    hinted = [case["added"] for case in cases.values() if case["hinted_tasks"]]
    assert min(hinted) > 25  # they are in force
    assert max(hinted) - min(hinted) < base / 50


def test_what_was_measured_depends_on_the_guests_programs() -> None:
    assert {TOP / one.source for one in guest.PROGRAMS} <= {*entry.CODE}
    assert {Path(str(one.__file__)) for one in (energy, judgement, wakes)} <= {*entry.CODE}
