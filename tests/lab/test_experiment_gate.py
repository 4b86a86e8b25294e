# SPDX-License-Identifier: GPL-2.0
"""The experiment gate in the lab: the account, the wake-ups and the hints are real."""

from pathlib import Path

import pytest

from experiments import energy
from experiments.gate import guest, judgement, switches, wakes
from experiments.gate.guest import FIXED, MENU, OURS, PERFORMANCE, RFC

pytestmark = pytest.mark.lab


@pytest.mark.full
def test_a_hint_buys_latency_for_less_than_performance_mode(tmp_path: Path) -> None:
    sizes = guest.Sizes(works=("wake-1",), wake_s=2)
    folder = guest.run("skx", sizes, tmp_path / "results")
    found = judgement.machine_figures("skx", folder, sizes)
    cells = found["works"][0]["cells"]
    assert {name: cell["hinted_tasks"] > 0 for name, cell in cells.items()} == {
        MENU: False, PERFORMANCE: False, RFC: True, OURS: True, FIXED: True
    }  # fmt: skip
    assert all(cell["wakeups"] > 100 and cell["transactions"] > 50 for cell in cells.values())
    # C6 takes 133 us, C1 takes 2; those who are woken see it.
    exits = {name: cell["exit_ns"]["p50"] for name, cell in cells.items()}
    assert exits == {MENU: 133_000, PERFORMANCE: 0, RFC: 0, OURS: 2000, FIXED: 2000}
    seen = {name: cell["end_to_end_ns"]["p50"] for name, cell in cells.items()}
    assert seen[MENU] > 133_000 > 3 * max(seen[PERFORMANCE], seen[RFC], seen[OURS])
    power = {name: cell["power_mw"]["1"] for name, cell in cells.items()}
    assert power[MENU] < power[OURS] < power[RFC] < power[PERFORMANCE]
    assert power[PERFORMANCE] == pytest.approx(guest.CPUS * 4000)
    # The package sleeps under menu, and never where all CPUs poll. Under the RFC's gate it enters
    # its state some times, for less time than the entry costs.
    package = {name: cell["machine_mw"] - power[name] for name, cell in cells.items()}
    assert package[PERFORMANCE] == pytest.approx(60_000, rel=0.01)
    assert package[RFC] == pytest.approx(60_000, rel=0.01)
    assert package[MENU] < 40_000


@pytest.mark.full
def test_the_power_worked_out_here_is_the_modules_own(tmp_path: Path) -> None:
    from cpuidle_lab.lab import LabRun, run_lab

    script = """
    . /lab/functions
    load cpuidle_emul machine=power9
    load cpuidle_lab
    account() {
        cat /sys/kernel/debug/cpuidle_emul/energy >/results/x.$1
        cat $powercap/cpuidle-emul:0/energy_uj
    }
    governor gate
    trace-cmd start -e cpuidle_lab >/dev/null
    account before
    sleep 1
    account after
    trace-cmd stop
    trace-cmd extract -o /results/x.dat >/dev/null 2>&1
    """
    result = run_lab(LabRun(script), tmp_path / "results").check()
    before, after = map(int, result.output.split()[:2])
    machine, _ = wakes.recorded(result.files / "x.dat")
    texts = [(result.files / f"x.{name}").read_text() for name in ("before", "after")]
    slots = energy.account(*texts)
    energy_uj = energy.power_mw(slots, machine) * energy.seconds(slots) * 1e3
    assert energy_uj == pytest.approx(after - before, rel=0.01)


def test_hints_add_little_to_a_context_switch() -> None:
    """Exact counts: virtual time. Nothing without a hint, each row within its target."""
    found = {case["case"]: case for case in switches.measure(rounds=800)["cases"]}
    assert list(found) == [case.name for case in switches.SETTINGS]
    assert {case["switches"] for case in found.values()} == {1.0}
    for case in found.values():
        assert case["most"] is None or case["added"] <= case["most"], case
    # Were the probes not called, none of these would add anything.
    called = ("other", "relaxed", "crowded", "hinted", "groups", "members")
    assert all(found[name]["added"] > 20 for name in called)
