# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab experiment domains`: machines of four CPUs, and the split of their regret."""

import pytest

from cpuidle_lab.domains.replayed import OWN
from cpuidle_lab.recording import state_tables
from experiments.domains import entry, machines
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
    assert set(found) == {*entry.GOVERNORS, OWN}
    for regret, own, neighbours in found.values():
        assert regret == pytest.approx(own + neighbours) and regret >= 0
    assert found[OWN][1] == pytest.approx(0) and found[OWN][2] > 5


def test_cpus_that_wake_up_together_leave_no_room() -> None:
    found = entry.play("zen2-server", "timers-mixed", "phase-locked", 150, 1)
    assert found[OWN][2] == pytest.approx(0, abs=0.5)
    hardware_demotes = entry.play("client", "poisson-1ms", "independent", 150, 1)
    assert hardware_demotes[OWN][2] == pytest.approx(0, abs=1e-6)


def test_the_proof_of_trees_compares_accounts_and_oracles() -> None:
    found = judge("client", 2, 1)
    assert found.is_exact and found.sleeps and found.accounts[0] == found.oracles[0] == 2
