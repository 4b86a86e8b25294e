# SPDX-License-Identifier: GPL-2.0
"""The metrics, on periods with known answers."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.figures import analysis, cpu_idle, invariants, metrics, summary, withheld
from cpuidle_lab.figures.group import CPU_IDLE, DECISIONS, Group
from cpuidle_lab.recording import trace
from cpuidle_lab.recording.trace import TIME_MAX
from cpuidle_lab.report import model, report_page, report_text
from cpuidle_lab.states.costs import model_of
from cpuidle_lab.states.table import StateTable
from tests.unit.periods import MACHINE, US, Builder, Period
from tests.unit.tracedat import Trace

ENTRY = (0.0, 1.2e6, 181.2e6)
EMPTY = pl.DataFrame()


def analyse(path: Path, periods: Sequence[Period], machine: StateTable = MACHINE) -> Group:
    builder = Builder()
    builder.config(machine)
    for period in periods:
        builder.add(period)
    (group,) = analysis.analyse(trace.load(builder.trace.write(path)))
    return group


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report") / "t.dat"


# ---- The energy model. ----


def test_costs_are_as_computed_by_hand() -> None:
    assert model_of(MACHINE).entry_pj == ENTRY
    assert not model_of(MACHINE).derived


# Each state costs the same as the next shallower one exactly at its target residency.
@given(
    st.lists(st.integers(0, 10**7), min_size=1, max_size=10),
    st.lists(st.integers(0, 10**5), min_size=10, max_size=10),
)
def test_break_even(targets: list[int], powers: list[int]) -> None:
    count = len(targets)
    machine = StateTable(
        tuple(f"S{k}" for k in range(count)), (0,) * count, tuple(sorted(targets)),
        tuple(powers[:count]), (False,) * count, 1,
    )  # fmt: skip
    model = model_of(machine)
    for k in range(1, count):
        target = machine.target_residency_ns[k]
        deeper = model.entry_pj[k] + model.power_mw[k] * target
        shallower = model.entry_pj[k - 1] + model.power_mw[k - 1] * target
        assert deeper == pytest.approx(shallower)
        assert model.power_mw[k] <= model.power_mw[k - 1]


def test_unknown_powers_are_derived_and_said_so(scratch: Path) -> None:
    silent = replace(MACHINE, power_uw=(0, 0, 0))
    assert model_of(silent).derived
    group = analyse(scratch, [Period(1, 500 * US)], silent)
    assert any("illustrative" in note for note in group.notes)


# ---- Regret. ----


def regret(*periods: Period, path: Path, machine: StateTable = MACHINE) -> float:
    value = analyse(path, periods, machine).values["regret"]
    assert value is not None
    return value


# 1 ms in C1: 1.2 + 400 uJ/ms = 401.2 uJ; the oracle's C6: 181.2 + 100 = 281.2 uJ. The time to
# leave C1, 2 us, is no part of the interval.
def test_regret_of_too_shallow(scratch: Path) -> None:
    assert regret(Period(1, 1002 * US), path=scratch) == pytest.approx(100 * (401.2 / 281.2 - 1))


# 10 us in C6, and 100 us to leave it: 181.2 + 1 uJ; the oracle's C1: 1.2 + 4 uJ.
def test_regret_of_too_deep(scratch: Path) -> None:
    assert regret(Period(2, 110 * US), path=scratch) == pytest.approx(100 * (182.2 / 5.2 - 1))


def test_the_ideal_choice_has_no_regret(scratch: Path) -> None:
    periods = [Period(0, 1 * US), Period(1, 300 * US), Period(2, 5000 * US)]
    assert regret(*periods, path=scratch) == pytest.approx(0, abs=1e-9)


# A wake-up by the tick is the governor's doing: the oracle sleeps through it, the governor pays
# twice for entering C1. Until it decides again, 2 us after the tick, C1 is charged.
@pytest.mark.parametrize("again", [{"tick": 1, "stop_tick": 0}, {"poll": 1}])
def test_own_wakeups_are_merged(scratch: Path, again: dict[str, int]) -> None:
    first = replace(Period(1, 400 * US), **again)
    group = analyse(scratch, [first, Period(1, 600 * US, left=0)])
    assert group.values["intervals"] == 1
    assert group.values["regret"] == pytest.approx(100 * (402.4 / 281.2 - 1))


# Work that the tick found ended the interval, though the tick is what woke the CPU.
@pytest.mark.parametrize("again", [{"tick": 1, "stop_tick": 0}, {"poll": 1}])
def test_no_merging_where_another_task_ran(scratch: Path, again: dict[str, int]) -> None:
    first = replace(Period(1, 402 * US), **again)
    group = analyse(scratch, [first, Period(1, 602 * US)])
    assert group.values["intervals"] == 2
    # 400 us and 600 us in C1, each of them ideal there: C6 pays from 600 us on.
    assert group.values["regret"] == pytest.approx(0, abs=1e-9)


# Nothing the governor knew explains such a period: it has no regret, and the others have theirs.
def test_overslept_intervals_are_left_out(scratch: Path) -> None:
    late = Period(1, 1002 * US, sleep=899 * US, delta_tick=899 * US)
    group = analyse(scratch, [late])
    assert any("100.000 % of the idle time is overslept" in note for note in group.notes)
    alone = group.values
    assert (alone["regret"], alone["oracle_mw"]) == (None, None)
    assert (alone["overslept"], alone["overslept_intervals"]) == (100, 1)
    both = analyse(scratch, [late, Period(1, 6006 * US)]).values
    assert both["regret"] == pytest.approx(100 * ((1.2 + 2401.6) / (181.2 + 600.4) - 1))
    assert both["oracle_mw"] == pytest.approx((181.2 + 600.4) / 6.004)
    assert both["overslept"] == pytest.approx(100 * 1002 / 7008)
    assert (both["intervals"], both["overslept_intervals"], both["cut_intervals"]) == (2, 1, 0)
    # On time by the exit latency and 100 us.
    in_time = replace(late, sleep=900 * US)
    assert regret(in_time, path=scratch) == pytest.approx(100 * (401.2 / 281.2 - 1))


# A phase in which the CPU never entered a state has decisions, and no regret.
@pytest.mark.parametrize("kind", [1, None])
def test_no_interval_at_all(scratch: Path, kind: int | None) -> None:
    values = analyse(scratch, [Period(1, 0, kind=kind)] * 3).values
    assert (values["decisions"], values["periods"], values["intervals"]) == (3, 0, 0)
    assert values["regret"] is None


# A tick that comes with another timer did not end the period: that timer would have.
def test_a_tick_beside_a_timer_ends_the_interval(scratch: Path) -> None:
    periods = [Period(1, 400 * US, tick=1, stop_tick=0, sleep=10**9), Period(1, 600 * US, left=0)]
    group = analyse(scratch, periods)
    assert group.values["intervals"] == 2
    assert group.values["tick_wakeups"] == 0


@pytest.mark.parametrize(
    "between",
    [
        [Period(1, 10 * US, skip=1, left=0)],  # an event was lost
        [Period(1, 0, kind=1, left=0), Period(1, 10 * US, left=0)],  # work came
        [Period(1, 10 * US, kind=None, left=0), Period(1, 10 * US, left=0)],  # no outcome
    ],
)
def test_no_merging_over(scratch: Path, between: list[Period]) -> None:
    group = analyse(scratch, [Period(1, 400 * US, tick=1, stop_tick=0), *between])
    assert group.values["intervals"] == 2


def test_intervals_cut_off_are_counted(scratch: Path) -> None:
    lost = [Period(1, 400 * US, tick=1, stop_tick=0), Period(1, 10 * US, skip=3)]
    assert analyse(scratch, lost).values["cut_intervals"] == 1
    end = [Period(1, 10 * US), Period(1, 400 * US, tick=1, stop_tick=0)]
    assert analyse(scratch, end).values["cut_intervals"] == 1
    work = [Period(1, 400 * US, tick=1, stop_tick=0), Period(1, 0, kind=1), Period(1, 10 * US)]
    assert analyse(scratch, work).values["cut_intervals"] == 0


# The oracle obeys PM QoS and disabled states.
@pytest.mark.parametrize("bound", [{"latency": 50 * US}, {"disabled": 0b100}])
def test_the_oracle_is_bound(scratch: Path, bound: dict[str, int]) -> None:
    period = replace(Period(1, 1000 * US), **bound)
    assert regret(period, path=scratch) == pytest.approx(0, abs=1e-9)


# The cost of a hint is regret: the oracle does not obey it, under each base of the gate.
@pytest.mark.parametrize(
    "hinted",
    [
        {"hint": 2 * US, "latency": 2 * US},  # a base of ours: the request includes the hint
        {"hint": 2 * US, "base": 2},  # a kernel base: the request is PM QoS alone
    ],
)
def test_hints_do_not_bind_the_oracle(scratch: Path, hinted: dict[str, int]) -> None:
    period = replace(Period(1, 1002 * US), **hinted)
    assert regret(period, path=scratch) == pytest.approx(100 * (401.2 / 281.2 - 1))


def test_pm_qos_below_the_hint_binds_the_oracle(scratch: Path) -> None:
    period = Period(1, 1000 * US, hint=50 * US, latency=2 * US)
    assert regret(period, path=scratch) == pytest.approx(0, abs=1e-9)


def test_all_states_disabled(scratch: Path) -> None:
    assert regret(Period(0, 100 * US, disabled=7), path=scratch) == pytest.approx(0, abs=1e-9)


# ---- A second opinion: the same figures, written down the slow way. ----


def merge(periods: Sequence[Period]) -> list[tuple[list[int], bool]]:
    """Return the periods of each interval, and whether its end is missing; timers are far away."""
    found: list[tuple[list[int], bool]] = []
    run: list[int] = []
    for i, p in enumerate(periods):
        known = p.kind is not None and not p.skip
        if run and (not known or p.left or p.kind == 1):
            found.append((run, not known))
            run = []
        if p.kind != 0:
            continue
        run.append(i)
        kept = not p.stop_tick and p.delta_tick < p.sleep
        if not ((p.tick == 1 and kept) or p.poll):
            found.append((run, False))
            run = []
    return [*found, *([(run, True)] if run else [])]


def reference(periods: Sequence[Period], machine: StateTable) -> dict[str, float]:
    model = model_of(machine)
    begins = [0]
    for p in periods:
        begins.append(begins[-1] + p.residency + 2_000)

    def cost(k: int, d: float) -> float:
        return model.entry_pj[k] + model.power_mw[k] * d

    def entered(p: Period) -> int:
        return p.index if p.entered is None else p.entered

    def stay(p: Period) -> int:
        exit_ns = machine.exit_latency_ns[entered(p)]
        return p.residency // 2 if 0 < exit_ns >= p.residency else p.residency - exit_ns

    energy = spent = oracle = above = below = 0.0
    judged: set[int] = set()
    for run, cut in merge(periods):
        if cut:
            continue
        first, last = periods[run[0]], periods[run[-1]]
        woken = begins[run[-1]] + stay(last)
        end = max(woken, begins[run[0]] + 1)
        # Each state is charged until the next one is chosen, or the CPU is woken.
        times = [min(begins[i], end) for i in run] + [end]
        for i, since, until in zip(run, times, times[1:], strict=False):
            spent += cost(entered(periods[i]), until - since)
        may = [
            k for k in range(machine.count)
            if not first.disabled >> k & 1
            and (k == 0 or machine.exit_latency_ns[k] <= first.latency)
        ] or [0]  # fmt: skip
        oracle += min(cost(k, end - begins[run[0]]) for k in may)
        judged |= set(run)
    for i, p in enumerate(periods):
        if p.kind != 0:
            continue
        k = entered(p)
        energy += cost(k, p.residency)
        if i not in judged:
            continue
        enabled = [s for s in range(machine.count) if not p.disabled >> s & 1]
        shallower = [s for s in enabled if s < k]
        deeper = [s for s in enabled if s > k]
        after = stay(p)
        if p.residency < machine.target_residency_ns[k]:
            above += bool(shallower)
        elif after > 0 and deeper:
            below += after >= machine.target_residency_ns[deeper[0]]
    return {
        "energy": energy, "spent": spent, "oracle": oracle, "above": above, "below": below,
        "judged": len(judged),
    }  # fmt: skip


_periods = st.builds(
    Period,
    index=st.integers(0, 2),
    residency=st.one_of(
        st.sampled_from([1, 1_999, 2_000, 2_001, 4_000, 599_999, 600_000, 602_000, 700_000]),
        st.integers(0, 5_000_000),
    ),
    entered=st.one_of(st.none(), st.integers(0, 2)),
    kind=st.sampled_from([0, 0, 0, 0, 1, None]),
    tick=st.integers(0, 1),
    stop_tick=st.integers(0, 1),
    sleep=st.sampled_from([10**9, 2 * 10**9]),
    poll=st.sampled_from([0, 0, 1]),
    disabled=st.sampled_from([0, 0, 1, 2, 4, 6, 7]),
    latency=st.sampled_from([TIME_MAX, 0, 2_000, 50_000]),
    skip=st.sampled_from([0, 0, 0, 2]),
    left=st.sampled_from([0, 0, 1]),
)


@settings(max_examples=60)
@given(st.lists(_periods, min_size=1, max_size=30))
def test_against_the_reference(scratch: Path, periods: list[Period]) -> None:
    # Limits are kept by chance only, so figures are not withheld.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(withheld, "above", lambda _shares: [])
        patch.setattr(invariants, "broken", lambda _facts: [])
        group = analyse(scratch, periods)
    want = reference(periods, MACHINE)
    entered = sum(p.kind == 0 for p in periods)
    values = group.values
    assert values["periods"] == entered
    assert values["aborted"] == pytest.approx(100 * (1 - entered / len(periods)))
    assert sum(group.state_pj) == pytest.approx(want["energy"])
    runs = merge(periods)
    assert values["intervals"] == len(runs)
    assert values["cut_intervals"] == sum(cut for _, cut in runs)
    if entered:
        for key in ("above", "below"):
            share = 100 * want[key] / want["judged"] if want["judged"] else None
            assert values[key] == pytest.approx(share)
    if want["oracle"]:
        assert values["regret"] == pytest.approx(100 * (want["spent"] / want["oracle"] - 1))
    else:
        assert values["regret"] is None
    assert sum(map(sum, group.chosen_ideal)) == want["judged"]
    assert sum(group.reasons.values()) == len(periods)


# ---- The other figures. ----


def test_latency_quantiles(scratch: Path) -> None:
    periods = [Period(1, 10 * US)] * 98 + [Period(2, 10 * US)] * 2
    values = analyse(scratch, periods).values
    assert [values[f"latency_{name}_us"] for name in ("p50", "p99", "max")] == [2, 100, 100]
    values = analyse(scratch, [Period(1, 10 * US)] * 199 + [Period(2, 10 * US)]).values
    assert [values[f"latency_{name}_us"] for name in ("p50", "p99", "max")] == [2, 2, 100]


# With an odd number the median is the one in the middle.
def test_median(scratch: Path) -> None:
    values = analyse(scratch, [Period(0, US), Period(1, US), Period(2, US)]).values
    assert values["latency_p50_us"] == 2


# The state entered counts, not the one chosen; an aborted selection is no wake-up.
def test_latency_of_what_happened(scratch: Path) -> None:
    values = analyse(scratch, [Period(2, 10 * US, entered=1), Period(2, 0, kind=1)]).values
    assert values["latency_max_us"] == 2
    assert values["aborted"] == 50


def test_chosen_and_ideal_counts_what_is_left(scratch: Path) -> None:
    group = analyse(
        scratch, [Period(1, 700 * US, tick=1, stop_tick=0), Period(1, 300 * US, left=0)]
    )
    # At the first choice 1 ms was left (C6), at the second 300 us (C1).
    assert group.chosen_ideal == [[0, 0, 0], [0, 1, 1], [0, 0, 0]]


def test_rejected(scratch: Path) -> None:
    periods = [Period(1, US, flags=trace.REJECTED), Period(1, US), Period(1, US), Period(1, US)]
    assert analyse(scratch, periods).values["rejected"] == 25


# Under a kernel base a tick is inferred only where nothing else can have been due.
@pytest.mark.parametrize(
    ("period", "tick"),
    [
        (Period(1, 995 * US, tick=2, stop_tick=0, delta_tick=1000 * US), 100),
        (Period(1, 900 * US, tick=2, stop_tick=0, delta_tick=1000 * US), 0),  # woken before
        (Period(1, 995 * US, tick=2, stop_tick=1, delta_tick=1000 * US), 0),  # tick stopped
        (Period(1, 995 * US, tick=2, stop_tick=0, flags=1, delta_tick=1000 * US), 0),
        (Period(1, 995 * US, tick=2, stop_tick=0, delta_tick=1000 * US, sleep=1000 * US), 0),
    ],
)
def test_inferred_ticks(scratch: Path, period: Period, tick: int) -> None:
    group = analyse(scratch, [period])
    assert group.values["tick_wakeups"] == tick
    assert any("hides what ended" in note for note in group.notes)


# A regret over a handful of intervals is chance: it is no governor's best or worst.
def test_few_intervals_are_not_judged(scratch: Path) -> None:
    few = analyse(scratch, [Period(1, 1000 * US)] * 99)
    assert few.values["regret"] is not None and few.judged_regret is None
    (line,) = summary.summarise([few])
    assert (line.workloads, line.worst_regret) == (0, None)

    enough = analyse(scratch, [Period(1, 1000 * US)] * 100)
    assert enough.judged_regret == enough.values["regret"]


def run(governor: str, workload: str, value: float | None, intervals: int = 1000) -> Group:
    group = Group(Path("t.dat"), governor, workload, DECISIONS, 0, 1, MACHINE)
    group.values = dict.fromkeys(metrics.scalars()) | {"regret": value, "intervals": intervals}
    return group


# The summary leads with the worst workload, not the mean, and puts the unknown last.
def test_summary() -> None:
    lines = summary.summarise(
        [
            run("menu", "idle", None),
            run("a", "idle", 1.0),
            run("a", "busy", 9.0),
            run("b", "idle", 6.0),
            run("b", "busy", 7.0),
            run("b", "short", 500.0, intervals=3),
        ]
    )
    assert [(s.governor, s.worst_regret, s.worst_workload, s.mean_regret) for s in lines] == [
        ("b", 7.0, "busy", 6.5),
        ("a", 9.0, "busy", 5.0),
        ("menu", None, "", None),
    ]


# ---- Phases and labels. ----


def phased(path: Path) -> list[Group]:
    builder = Builder()
    t = builder.trace
    t.mark(0, builder.now, "phase governor=menu workload=idle")
    for index in (0, 2, 2):
        t.add(1, builder.now + 10, "cpu_idle", state=index, cpu_id=1)
        t.add(1, builder.now + 510_010, "cpu_idle", state=trace.IDLE_EXIT, cpu_id=1)
        builder.now += 600_000
    t.mark(0, builder.now, "phase end")
    builder.now += 10
    builder.config(governor=3, base="menu")
    builder.add(Period(1, 10 * US, governor=3, base=1))  # outside of any phase
    t.mark(0, builder.now, "phase governor=gate workload=a=b")
    builder.now += 10
    builder.add(Period(1, 10 * US, governor=3, base=1, tick=2))
    t.mark(0, builder.now, "phase governor=gate workload=idle")
    builder.now += 10
    builder.add(Period(1, 10 * US, governor=3, base=1, tick=2, hint=2_000))
    builder.add(Period(1, 10 * US, governor=0))  # left over from another governor
    return analysis.analyse(trace.load(t.write(path)))


def test_phases(scratch: Path) -> None:
    groups = phased(scratch)
    assert [(g.governor, g.workload, g.source) for g in groups] == [
        ("menu", "idle", CPU_IDLE),
        ("gate(menu)", "a=b", DECISIONS),
        ("gate(menu) + hints", "idle", DECISIONS),
    ]
    assert [g.values["periods"] for g in groups] == [3, 1, 1]


@pytest.mark.parametrize("marked", [True, False])
def test_a_program_in_bpf_is_named_with_its_hash(scratch: Path, marked: bool) -> None:
    builder = Builder()
    if marked:
        builder.trace.mark(0, builder.now, "phase governor=bpf workload=idle")
        builder.now += 10
    builder.config(governor=4, base="bpf:wteo@0123456789abcdef")
    builder.add(Period(1, 10 * US, governor=4))
    (group,) = analysis.analyse(trace.load(builder.trace.write(scratch)))
    assert group.governor == "bpf:wteo@0123456789abcdef"


# Of a kernel governor only what power:cpu_idle tells is said; the rest is unknown, not 0.
def test_a_page_shows_the_first_runs_and_says_so(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = phased(scratch)
    report = model.build([scratch], "test", "now")
    every = report_page.render(report)
    monkeypatch.setattr(model, "PAGE_RUNS", 1)
    page = report_page.render(report)
    assert "show the first" not in every
    assert f"show the first 1 of {len(groups)} runs" in page
    assert len(report.on_page().groups) == 1 < len(groups) == len(report.groups)
    assert len(page) < len(every)


def test_the_text_shows_the_first_runs_and_says_so(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = phased(scratch)
    report = model.build([scratch], "test", "now")
    report_text.show(report)
    every = capsys.readouterr().out
    monkeypatch.setattr(model, "PAGE_RUNS", 1)
    report_text.show(report)
    text = capsys.readouterr().out
    said = f"1 of {len(groups)} runs are in the tables"
    assert said not in every and said in " ".join(text.split())
    assert text.count("residency") == 1 < every.count("residency")


def test_kernel_governor(scratch: Path) -> None:
    menu = phased(scratch)[0]
    assert menu.entries == [1, 0, 2]
    assert menu.residency_ns == [510_000, 0, 1_020_000]
    assert menu.values["latency_max_us"] == 100
    for key in ("regret", "above", "below", "tick_wakeups", "decisions", "aborted"):
        assert menu.values[key] is None, key
    assert any("unknown" in note for note in menu.notes)


def test_without_markers_the_governor_divides(scratch: Path) -> None:
    builder = Builder()
    builder.config()
    for governor in (0, 0, 2):
        builder.add(Period(1, 10 * US, governor=governor))
    groups = analysis.analyse(trace.load(builder.trace.write(scratch)))
    assert [(g.governor, g.values["decisions"]) for g in groups] == [("teo_ng", 2), ("wteo", 1)]


# A trace of any machine, of any age: no machine, no energy, no latency, but residencies.
def test_only_cpu_idle(scratch: Path) -> None:
    t = Trace()
    for number, state in enumerate((1, 4)):
        t.add(0, 10_000 * number, "cpu_idle", state=state, cpu_id=0)
        t.add(0, 10_000 * number + 5_000, "cpu_idle", state=trace.IDLE_EXIT, cpu_id=0)
    t.add(0, 30_000, "cpu_idle", state=1, cpu_id=0)  # its end is missing
    (group,) = analysis.analyse(trace.load(t.write(scratch)))
    assert group.names == [f"state {k}" for k in range(5)]
    assert group.entries == [0, 1, 0, 0, 1]
    assert group.values["power_mw"] is None
    report_page.render(model.build([scratch], "test", "now"))


def test_an_idle_period_across_lost_events_is_left_out(scratch: Path) -> None:
    t = Trace(cpus=3)
    for cpu, (before_entry, before_exit) in enumerate(((0, 0), (5, 0), (0, 5))):
        t.add(cpu, 1000, "cpu_idle", state=1, cpu_id=cpu, lost=before_entry)
        t.add(cpu, 2000, "cpu_idle", state=trace.IDLE_EXIT, cpu_id=cpu, lost=before_exit)
    assert cpu_idle.idle_periods(trace.load(t.write(scratch)))["cpu"].to_list() == [0, 1]


def test_impossible_state_in_cpu_idle(scratch: Path) -> None:
    t = Trace()
    t.add(0, 0, "cpu_idle", state=2**31, cpu_id=0)
    t.add(0, 5, "cpu_idle", state=trace.IDLE_EXIT, cpu_id=0)
    loaded = trace.load(t.write(scratch))
    with pytest.raises(UserError, match="idle state"):
        analysis.analyse(loaded)


# CPUs of two kinds are each judged by their own states.
def test_two_kinds_of_cpu(scratch: Path) -> None:
    other = replace(MACHINE, exit_latency_ns=(0, 5_000, 300_000))
    builder = Builder()
    builder.config()
    builder.config(other, cpu=1)
    builder.add(Period(2, 1000 * US))
    builder.trace.add(1, 5_000_000, "decision", seq=1, index=2, latency_req_ns=TIME_MAX, hint_ns=-1)
    builder.trace.add(1, 8_000_000, "outcome", seq=1, index=2, residency_ns=1000 * US)
    (group,) = analysis.analyse(trace.load(builder.trace.write(scratch)))
    assert group.values["latency_max_us"] == 300
    assert group.values["latency_p50_us"] == 100


# ---- Definitions. ----


def test_every_metric_is_defined(scratch: Path) -> None:
    group = analyse(scratch, [Period(1, 10 * US)])
    assert set(group.values) == set(metrics.scalars())
    assert set(metrics.definitions()) == {*metrics.scalars(), *metrics.TABLES}
    for key, metric in metrics.definitions().items():
        assert metric.title and metric.description.endswith("."), key


# The order in which figures are shown says what counts: regret and latency before above and below.
def test_above_and_below_do_not_lead() -> None:
    order = metrics.scalars()
    assert order[0] == "regret"
    assert order.index("above") > order.index("latency_p99_us")
