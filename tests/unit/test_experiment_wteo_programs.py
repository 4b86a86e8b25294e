# SPDX-License-Identifier: GPL-2.0
"""The experiment wteo: programs in the lab, and how their runs are judged."""

from cpuidle_lab.evidence.tables import Section
from cpuidle_lab.lab import turns
from cpuidle_lab.lab.turns import JudgedProgram
from experiments.wteo import kernel
from experiments.wteo.programs import turns_of
from tests.unit.test_experiment_wteo import who


def test_what_a_program_got_done() -> None:
    by_name = {program.name: program for program in turns.PROGRAMS}
    assert by_name["redis"].throughput("", 4.0) == 0.25
    assert by_name["hackbench-long"].throughput("Time: 0.5\nTime: 1.5\n", 9) == 0.5
    assert by_name["cyclictest-1700us"].throughput("T: 0 C:   1180 Min: 3", 2) == 590
    assert by_name["fio-1"].throughput("it failed", 2) is None
    # All bursts are done, however long they take.
    assert by_name["redis"].amount("") == by_name["hackbench-long"].amount("Time: 0.5\n") == 1
    assert by_name["cyclictest-1700us"].amount("T: 0 C:   1180 Min: 3\nT: 1 C: 20") == 1200


def test_every_governor_is_first_in_turn() -> None:
    program = JudgedProgram(turns.PROGRAMS[0].workload, "skx")
    size = turns.Size(seeds=3, seconds=1)
    names = ["wteo", "teo_ng", "menu_ng"]
    found = turns.rounds(program, turns_of([who(name) for name in names]), size)
    assert len(found) == 1 + 9
    by_seed = [[p for p in found if p.workload.startswith(f"{seed}-")] for seed in (1, 2, 3)]
    assert sorted(order[0].governor for order in by_seed) == sorted(names)
    for sizes in (kernel.FULL, kernel.QUICK):
        assert sizes.seeds % len(kernel._candidates("wteo")) == 0
    assert len({p.command for p in by_seed[1]}) == 1
    assert not any(p.tunables for p in found)


def test_a_governor_has_its_own_tunables_in_each_turn() -> None:
    program = JudgedProgram(turns.PROGRAMS[0].workload, "skx")
    labels = ["wteo", "wteo:latency_bias=7", "wteo:learning_rate=9", "teo_ng"]
    size = turns.Size(seeds=2, seconds=1)
    found = turns.rounds(program, turns_of([who(label) for label in labels]), size)[1:]
    assert len({(p.governor, p.workload) for p in found}) == 8
    for phase_, bias, rate in zip(
        sorted(found, key=lambda p: p.workload),
        ("1024", "7", "1024", "") * 2,
        ("16", "16", "9", "") * 2,
        strict=True,
    ):
        set_to = {one.name: one.value for one in phase_.tunables}
        expected = {"latency_bias": bias, "learning_rate": rate} if rate else {}
        assert set_to == expected


def run_of(
    governor: str, seed: int, percent: float, work: float = 1.0, energy_mj: float = 5.0
) -> turns.ProgramRun:
    return turns.ProgramRun("p", "skx", governor, seed, percent, energy_mj, 1.0, work, work, 10.0)


# Energy alone and the default are one where the bias is said.
MINE = "wteo:latency_bias=9"


def test_more_regret_counts_beyond_the_spread_only() -> None:
    def states(excess: float) -> list[str]:
        section = Section("", "")
        noise = [0.0, 0.4, -0.3, 0.2, -0.1]
        runs = [
            run_of(governor, seed, base + noise[(seed * step) % 5], work)
            for governor, base, step, work in (
                ("teo_ng", 10, 1, 1.0), ("menu_ng", 20, 2, 1.0), (MINE, 10 + excess, 3, 0.98)
            )
            for seed in range(1, 6)
        ]  # fmt: skip
        kernel._tables(section, MINE, [MINE, "menu_ng", "teo_ng"], runs)
        return [one.state for one in section.verdicts[:3]]

    assert states(-1) == ["held", "held", "MISSED"]
    assert states(0.01) == ["held", "MISSED", "MISSED"]
    assert states(3) == ["MISSED", "MISSED", "MISSED"]


def test_with_the_default_as_much_is_done_for_less_energy() -> None:
    def told(work: float, energy_mj: float) -> list[tuple[str, str]]:
        section = Section("", "")
        names = ["wteo", "wteo:latency_bias=0", "menu_ng", "teo_ng"]
        runs = [run_of(name, seed, 9, 2.0, 8.0) for name in names for seed in (1, 2)]
        runs[:2] = [run_of("wteo", seed, 9, work, energy_mj) for seed in (1, 2)]
        kernel._tables(section, "wteo", names, runs)
        assert "wteo:latency_bias=0 has the least mean regret" in section.verdicts[1].promise
        return [(one.state, one.figures) for one in section.verdicts[2:]]

    assert told(2.0, 7.2) == [("held", "all do"), ("held", "90.0 % of that with teo_ng")]
    assert [state for state, _ in told(1.99, 7.9)] == ["held", "held"]
    assert told(1.97, 7.0) == [
        ("MISSED", "p 98.50 % (98.5 to 98.5)"), ("held", "88.8 % of that with teo_ng"),
    ]  # fmt: skip
    # Less in all, but more for what got done.
    assert told(1.985, 7.99) == [
        ("held", "all do"), ("MISSED", "100.6 % of that with teo_ng, more for p 100.6 %"),
    ]  # fmt: skip


def test_who_has_a_turn_in_the_lab() -> None:
    def labels(subject: str) -> list[str]:
        return [one.label for one in kernel._candidates(subject)]

    assert labels("wteo") == ["wteo", "wteo:latency_bias=0", "menu_ng", "teo_ng"]
    assert labels("wteo:latency_bias=9") == ["wteo:latency_bias=9", "menu_ng", "teo_ng"]
    assert labels("menu_ng") == ["menu_ng", "teo_ng"]
