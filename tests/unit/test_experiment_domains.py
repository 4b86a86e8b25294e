# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment domains`: machines of four CPUs, and the split of their regret."""

import numpy as np
import pytest

from cpuidle_lab.domains.account import Stays
from cpuidle_lab.domains.joint import Intervals, intervals_of
from cpuidle_lab.domains.replayed import OWN
from cpuidle_lab.recording import state_tables
from cpuidle_lab.states import domain_files
from cpuidle_lab.states.domains import grow
from experiments.domains import bound, entry, machines, neighbours, programs
from tests.proofs.trees.run import judge


@pytest.mark.parametrize(
    ("arrangement", "alike"),
    [
        ("independent", []),
        ("two pairs", [(0, 1), (2, 3)]),
        ("phase-locked", [(0, 1), (0, 2), (0, 3)]),
    ],
)
def test_an_arrangement_says_which_cpus_wake_up_together(
    arrangement: str, alike: list[tuple[int, int]]
) -> None:
    table = state_tables.find("spr", machines.HZ)
    found = machines.frames(table, "poisson-1ms", arrangement, 50, 1)
    starts = [frame["start_ns"].to_list() for frame in found]
    equal = [(a, b) for a in range(4) for b in range(a + 1, 4) if starts[a] == starts[b]]
    assert set(alike) <= set(equal) and bool(alike) == bool(equal)
    ends = [(frame["start_ns"] + frame["length_ns"]).to_list()[-1] for frame in found]
    # Streams end together, to within an interval.
    assert max(ends) - min(ends) < 20_000_000


def test_cpus_of_unlike_laws_differ() -> None:
    laws = [machines._law(machines.MIXED, cpu) for cpu in range(machines.CPUS)]
    assert len(set(laws)) == machines.CPUS


def test_the_parts_of_a_regret_sum_to_it_and_the_oracle_has_no_own_part() -> None:
    found = entry.play("xeon", "poisson-1ms", "independent", 150, 1)
    assert set(found) == {*entry.GOVERNORS, OWN, entry.KNOWING, entry.LAST_MAN, *entry.BOUNDS}
    for label, (regret, own, others) in found.items():
        assert label in entry.BOUNDS or regret == pytest.approx(own + others)
        assert regret >= 0 or label == entry.LAST_MAN
    assert found[OWN][1] == pytest.approx(0) and found[OWN][2] > 5


def test_cpus_that_wake_up_together_leave_no_room() -> None:
    found = entry.play("zen2-server", "timers-mixed", "phase-locked", 150, 1)
    assert found[OWN][2] == pytest.approx(0, abs=0.5)
    hardware_demotes = entry.play("client", "poisson-1ms", "independent", 150, 1)
    assert hardware_demotes[OWN][2] == pytest.approx(0, abs=1e-6)


def test_the_proof_of_trees_compares_accounts_and_oracles() -> None:
    found = judge("client", 2, 1)
    assert found.is_exact and found.sleeps and found.accounts[0] == found.oracles[0] == 2


def _stays(index: list[int], length_ns: int, due_ns: int, gap_ns: int = 1000) -> Stays:
    start = np.arange(len(index)) * (length_ns + gap_ns)
    return Stays(start, start + length_ns, np.array(index), start + due_ns)


def test_the_last_cpu_spares_the_package_a_sleep_that_a_timer_ends_too_soon() -> None:
    table = state_tables.find("spr", machines.HZ)
    tables = dict.fromkeys(range(2), table)
    rules, lists = domain_files.read("xeon")
    tree = grow(rules, [0, 1], tables, lists)
    deepest = table.count - 1
    for due_us, chosen in ((700, deepest - 1), (5000, deepest)):
        ns = due_us * 1000
        stays = {cpu: _stays([deepest] * 40, ns, ns) for cpu in range(2)}
        zero = np.zeros(40, np.int64)
        far = np.full(40, 10**9)
        intervals = {
            cpu: intervals_of(table, each.start_ns, each.end_ns - each.start_ns, far, zero)
            for cpu, each in stays.items()
        }
        found = neighbours.knowing(tree, tables, stays, intervals)
        assert found[1].index[-1] == chosen and found[0].index[-1] == deepest
        assert (neighbours.dearer_pj(tables, stays, found) != 0) == (chosen != deepest)


def test_chances_are_of_wake_ups_before_the_timer() -> None:
    past = neighbours._Past()
    for _ in range(50):
        past.learn(1_000_000, by_timer=True)
    assert past.survival.min() == 1
    for _ in range(200):
        past.learn(1_000_000, by_timer=False)
    chance = past.sleeps_on(0)
    assert chance[np.searchsorted(neighbours._GRID, 500_000)] == 1 and chance[-1] < 0.1


def _naive(windows: bound._Windows, begin_ns: int, end_ns: int) -> list[float]:
    """Return the saving of each level, window by window."""
    total = [0.0] * len(windows.power_mw)
    for a, b in zip(windows.begin_ns, windows.end_ns, strict=True):
        length = min(b, end_ns) - max(a, begin_ns)
        if length > 0:
            each = windows.power_mw * length - windows.entry_pj
            for level in range(len(total)):
                total[level] += windows.share * max(0.0, *each[: level + 1])
    return total


def test_the_saving_of_an_interval_is_that_of_the_windows_in_it() -> None:
    random = np.random.default_rng(59)
    edges = np.sort(random.choice(10_000, 60, replace=False)).reshape(-1, 2)
    windows = bound._Windows(
        edges[:, 0], edges[:, 1], np.array([0.0, 2.0, 3.0]), np.array([0.0, 80.0, 300.0]), 0.25
    )
    begins = random.integers(0, 9000, 40)
    ends = np.sort(begins[:, None] + random.integers(1, 4000, (40, 7)), axis=1)
    found = windows.saving(begins, ends)
    for row, begin in enumerate(begins):
        for column, end in enumerate(ends[row]):
            assert found[:, row, column] == pytest.approx(_naive(windows, begin, end))


# Neighbours that are never idle together leave a domain up.
def test_without_windows_nothing_is_saved() -> None:
    none, levels = np.array([], np.int64), np.array([0.0, 2.0])
    windows = bound._Windows(none, none, levels, levels, 0.5)
    assert not windows.saving(np.array([0, 10]), np.array([[5, 9, 20], [15, 19, 30]])).any()


def test_programs_without_a_figure_are_counted() -> None:
    one = ("xeon", "hackbench-pipe")
    labels = (*entry.GOVERNORS, OWN, entry.KNOWING, entry.LAST_MAN)
    figures = {label: [1.0, 0.5, 0.5] for label in labels}
    (table,) = entry._programs({one: figures}).tables
    assert len(table.rows) == 1 and "3 of 4 programs have no figure" in table.note
    every = dict.fromkeys(programs.plan(), figures)
    assert "no figure" not in entry._programs(every).tables[0].note


def test_times_in_which_all_are_idle_end_at_each_wake_up() -> None:
    zero = np.zeros((2, 1))
    one = Intervals(np.array([0, 20]), np.array([20, 50]), zero)
    other = Intervals(np.array([10, 45]), np.array([40, 60]), zero)
    begin, end = bound._together([one, other])
    assert list(zip(begin.tolist(), end.tolist(), strict=True)) == [(10, 20), (20, 40), (45, 50)]


def test_a_timer_tells_only_that_nothing_came_before() -> None:
    lengths = np.array([100, 200, 200, 400])
    found, chance = bound._chances(lengths, np.array([False, True, False, True]))
    # Of four one ends at 100, of three one at 200; nothing tells of later.
    assert found[:-1].tolist() == [100, 200]
    assert chance.tolist() == pytest.approx([0.25, 0.25, 0.5])


@pytest.mark.parametrize("tree", machines.TREES)
def test_no_governor_is_below_the_bound_where_intervals_have_no_memory(tree: str) -> None:
    found = entry.play(tree, "poisson-1ms", entry.INDEPENDENT, 300, 1)
    for label in entry.BOUNDS:
        assert 0 <= found[label][0] <= min(found[name][0] for name in entry.GOVERNORS) + 0.1


def test_a_cpu_that_knows_its_timers_reaches_the_oracle() -> None:
    found = entry.play("client", "timers-mixed", entry.INDEPENDENT, 150, 1)
    assert found["bound, neighbours foreseen"][0] == pytest.approx(0, abs=0.05)


def test_each_program_boots_once_on_two_trees() -> None:
    assert len(programs.plan()) == len(programs.TREES) * len(programs.SECONDS)
    run = programs.boot("client", "hackbench-pipe")
    assert run.cpus == machines.CPUS and "hackbench" in run.script
