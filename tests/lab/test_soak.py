# SPDX-License-Identifier: GPL-2.0
"""Soaks: what is judged of a segment, and short ones, with and without a fault."""

import json
import random
import re
import signal
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from cpuidle_lab.cli import main
from tests.campaigns.soak import judge, plan, run
from tests.campaigns.soak.samples import Account, Record, Sample, Slot, parse
from tests.unit import command

TOP = Path(__file__).resolve().parents[2]
WORDS = ("experiment", "soak")
HOUR = 3600 * 10**9

WTEO = """\
wteo cpu0 decisions=8
Weights of 10000: what followed a condition
row before     timer        s0    s1 never | evidence mean (us)
  0 any                      0  7483  2517 |        5        384
  2 s1 s1 <       2098 us    0 10000     0 |        0        458
"""
TEO = """\
state  bin begins at (ns)        hits  intercepts
    0                   0        8199           0
    1                2000           5         100
total            8304
tick wake-ups    7
tick intercepts  100
short idles      0
"""
MENU = """\
intervals by length (us), 3 of 8 known:
  613 1580 2039
typical interval: 1580 us
really slept of the sleep length (per mille):
  < 10 us  1000
  < 100 us 1000
  < 1 ms    945
  < 10 ms      0
  < 100 ms 1000
  longer   1000
"""

VERDICT = judge.Verdict(
    *(
        "segment-00",
        "wteo",
        [],
        4.0,
        0.5,
        1,
        25,
        [],
        1,
        0.0,
        1.0,
        1,
        {"wteo": 4.0},
        1,
        "2026-01-01",
        "6.12",
    )
)


def account(cpu: int, at_ns: int) -> Account:
    """Return what an account says that is in order: one part busy, three in C1."""
    slots = {}
    for each in (0, 1):
        for name, mw, time_ns, entries in (
            ("C1", 1400, at_ns // 4 * 3, at_ns // 10**6),
            ("busy", 4000, at_ns - at_ns // 4 * 3, at_ns // 10**6),
        ):
            nj = 5200 if name == "C1" else 0
            slot = Slot(mw, nj, time_ns, entries, 0)
            slots[each, name] = replace(slot, energy_uj=judge.energy_uj(slot))
    total = sum(slot.energy_uj for slot in slots.values())
    c1 = slots[cpu, "C1"]
    kernel = [((c1.time_ns + 150 * c1.entries) // 1000, c1.entries + 1)]
    return Account(cpu, at_ns, at_ns + 10**6, (total, total), slots, kernel)


def sample(number: int) -> Sample:
    """Return one of a segment in order, with noise in what is not exact: every ten minutes."""
    rng = random.Random(number)
    at_ns = HOUR + number * HOUR // 6
    slab = {"kmalloc-64": (1500 + rng.randrange(4), 64), "task_struct": (90 + number % 2, 8448)}
    slab["vmap_area"] = 1000 + 2 * 90 * number, 72
    memory = {"MemTotal": 10**6, "Cached": 40000 + number, "Buffers": 0, "Slab": 9000}
    memory["Free"] = 10**6 - 60000 - number + rng.randrange(100)
    memory |= {"KernelStack": 900, "VmallocUsed": 5000, "Percpu": 500, "ModuleAreas": 200000}
    memory |= {"Tasks": 80, "Files": 800, "LazyAreas": 90 * number}
    # One follows the other, as the looks at them do.
    accounts = [account(cpu, at_ns + 2 * 10**6 * cpu) for cpu in (0, 1)]
    return Sample(1000 * 20 * number, 8, "agrees: 8 hints", slab, memory, accounts)


def segment() -> list[Sample]:
    """Return the samples of four hours in order."""
    return [sample(number) for number in range(25)]


def soak(*arguments: str) -> tuple[int, list[dict[str, object]]]:
    """Run a soak; return its exit code and what its segments came to."""
    done = command.run("experiment", "soak", "--json", "--loaded-hours", "0", *arguments)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


# -- what is drawn ------------------------------------------------------------


def test_a_seed_draws_the_same_operations() -> None:
    assert plan.draw(7, 0, False, False) == plan.draw(7, 0, False, False)
    assert plan.draw(7, 0, False, False) != plan.draw(8, 0, False, False)
    assert plan.draw(7, 0, False, False) != plan.draw(7, 1, False, False)


def test_every_operation_is_drawn_and_known_to_the_guest() -> None:
    known = set(re.findall(r"^op_(\w+)\(\)", run.GUEST.read_text(), re.MULTILINE))
    names = {operation.name for operation in plan.OPERATIONS}
    assert {line.split()[0] for line in plan.draw(1, 0, False, False)} == names == known
    assert {line.split()[0] for line in plan.warm_up(1)} == names


def test_all_governors_have_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[run.Segment] = []

    def soak(segment: run.Segment, _args: object) -> judge.Verdict:
        seen.append(segment)
        return VERDICT

    monkeypatch.setattr(run, "soak", soak)
    assert main([*WORDS]) == 0
    assert sum(one.hours for one in seen if not one.loaded) == 24
    assert sum(one.hours for one in seen if one.loaded) == 1
    assert {one.governor for one in seen} == set(plan.OURS)
    assert all(one.load <= 0.5 for one in seen if not one.loaded)


@pytest.mark.parametrize("wrong", [["--hours", "-1"], ["--load", "0"], ["--segment-hours", "0"]])
def test_what_makes_no_sense_is_refused(wrong: list[str]) -> None:
    assert main([*WORDS, *wrong]) == 2


# -- memory -------------------------------------------------------------------


def test_the_slope_is_that_of_most() -> None:
    times = [float(number) for number in range(20)]
    values = [3 * each for each in times]
    values[4] = 1000
    values[17] = -1000
    assert judge.theil_sen(times, values) == pytest.approx(3)


def test_memory_that_is_flat_is_well() -> None:
    failures, rises = judge.memory_failures(segment())
    assert failures == []
    assert max(value for _, value in rises) < 20000


def test_a_rise_at_the_begin_is_no_leak() -> None:
    samples = segment()
    for each in samples[:6]:
        each.slab["kmalloc-64"] = 1000, 64
    assert judge.memory_failures(samples)[0] == []


def test_an_object_in_a_thousand_operations_is_a_leak() -> None:
    """Twenty thousand operations in each ten minutes, so 1280 bytes."""
    samples = segment()
    for number, each in enumerate(samples):
        each.slab["kmalloc-64"] = each.slab["kmalloc-64"][0] + 20 * number, 64
    (failure,) = judge.memory_failures(samples)[0]
    assert re.match(r"kmalloc-64 rises by \d+ in 3.00 hours, 6\d for 1000 operations", failure)


def test_what_goes_up_and_stays_up_is_a_leak() -> None:
    samples = segment()
    for each in samples[14:]:
        each.slab["kmalloc-64"] = 1700, 64
    assert "kmalloc-64" in judge.memory_failures(samples)[0][0]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("Free", -80),
        ("Percpu", 8),
        ("ModuleAreas", 1),
        ("Tasks", 1),
        ("Files", 32),
        ("VmallocUsed", 8),
    ],
)
def test_pages_and_numbers_do_not_rise(name: str, step: int) -> None:
    samples = segment()
    for number, each in enumerate(samples):
        each.memory[name] += step * number
    named = "Pages" if name == "Free" else name
    assert [said.split()[0] for said in judge.memory_failures(samples)[0]] == [named]


# -- the energy account -------------------------------------------------------


def broken(samples: list[Sample], number: int, **changes: object) -> list[str]:
    """Return what is said if the account of CPU 0 in one sample is another one."""
    one = samples[number].accounts[0]
    samples[number].accounts[0] = replace(one, **changes)  # type: ignore[arg-type]
    return judge.account_failures(samples)[0]


def slot_changed(samples: list[Sample], number: int, **changes: int) -> dict[tuple[int, str], Slot]:
    slots = dict(samples[number].accounts[0].slots)
    changed = replace(slots[0, "C1"], **changes)
    slots[0, "C1"] = replace(changed, energy_uj=changes.get("energy_uj", judge.energy_uj(changed)))
    return slots


def test_an_account_that_is_whole_is_well() -> None:
    failures, worst_us = judge.account_failures(segment())
    assert failures == []
    assert worst_us < 1000


def test_time_that_nobody_has_is_lost() -> None:
    samples = segment()
    time_ns = samples[9].accounts[0].slots[0, "C1"].time_ns - 3 * 10**6
    slots = slot_changed(samples, 9, time_ns=time_ns)
    total = sum(slot.energy_uj for slot in slots.values())
    said = broken(samples, 9, slots=slots, zone_uj=(total, total))
    assert any("ns in its account" in one for one in said)


def test_energy_is_power_and_time_and_entries() -> None:
    samples = segment()
    uj = samples[9].accounts[0].slots[0, "C1"].energy_uj
    said = broken(samples, 9, slots=slot_changed(samples, 9, energy_uj=uj + 1))
    assert said[0].endswith(f"energy of cpu0 C1 is {uj + 1} uJ, not {uj}")
    assert "the zone says" in said[1]


def test_the_zone_says_what_the_table_says_and_does_not_go_back() -> None:
    samples = segment()
    total, _ = samples[9].accounts[0].zone_uj
    assert "the zone says" in broken(samples, 9, zone_uj=(total + 1, total + 2))[0]
    samples = segment()
    after = samples[9].accounts[1].zone_uj[0] + 1
    assert "the zone goes back" in broken(samples, 9, zone_uj=(total, after))[0]


def test_an_account_does_not_go_back() -> None:
    samples = segment()
    entries = samples[8].accounts[0].slots[0, "C1"].entries - 1
    said = broken(samples, 9, slots=slot_changed(samples, 9, entries=entries))
    assert any("goes back" in one for one in said)


def test_the_kernel_counts_the_same() -> None:
    samples = segment()
    ((time_us, usage),) = samples[9].accounts[0].kernel
    for other in ((time_us + 3 * 10**6, usage), (time_us - 3 * 10**6, usage), (time_us, 1)):
        assert "the kernel counts" in broken(samples, 9, kernel=[other])[0]


# -- what was learned, hints, the log -----------------------------------------


def states(name: str, text: str) -> list[str]:
    return judge.state_failures(Record([], [(name, text)], []))


def test_states_in_their_bounds_are_well() -> None:
    for name, text in (
        ("wteo", WTEO),
        ("teo_ng", TEO),
        ("menu_ng", MENU),
    ):
        assert states(name, text) == []


@pytest.mark.parametrize(
    ("name", "text", "old", "new"),
    [
        ("wteo", WTEO, " 7483 ", " 7484 "),
        ("wteo", WTEO, "     0  7483", "    -1  7484"),
        ("wteo", WTEO, "|        5 ", "|       -5 "),
        ("wteo", WTEO, "row ", "no "),
        ("teo_ng", TEO.replace(" 8304", " 8305"), " 8199", " 8200"),
        ("teo_ng", TEO, " 7\n", " 4294967295\n"),
        ("teo_ng", TEO, "total  ", "sum    "),
        ("menu_ng", MENU, " 945", " 1001"),
        ("menu_ng", MENU, "613 1580", "1580 613"),
        ("menu_ng", MENU, "3 of 8", "9 of 8"),
        ("menu_ng", MENU, "1580 us", "2040 us"),
        ("menu_ng", MENU, "longer ", "shorter"),
    ],
)
def test_a_state_out_of_its_bounds_is_found(name: str, text: str, old: str, new: str) -> None:
    assert old in text
    assert states(name, text.replace(old, new, 1))


def test_no_state_is_no_proof() -> None:
    assert judge.state_failures(Record([], [], []))


def test_hints_are_as_many_as_there_are_tasks() -> None:
    samples = segment()
    assert judge.hint_failures(samples) == []
    samples[3].recount = "agrees: 9 hints"
    assert len(judge.hint_failures(samples)) == 1


def test_a_warning_is_a_failure_and_so_is_a_script_that_ends_early() -> None:
    assert judge.log_failures("<6>[ 1.0] x\n", 0, "") == []
    assert "BUG" in judge.log_failures("<3>[ 1.0] BUG: something\n", 0, "")[0]
    assert judge.log_failures("", 1, "tune fails") == ["tune fails"]


# -- the record ---------------------------------------------------------------


def test_hours_are_those_between_the_samples() -> None:
    current = [(0, "wteo", "menu"), (2 * HOUR, "gate", "menu"), (4 * HOUR, "menu", "menu")]
    hours = judge.governor_hours(Record(segment(), [], current))
    assert hours == pytest.approx({"wteo": 1, "gate over menu": 2, "menu": 1})
    assert judge.load_percent(segment()) == pytest.approx(25)


def test_a_record_that_is_cut_is_no_record() -> None:
    text = "== sample 0 8 agrees: 8 hints\n== slab\nkmalloc-64 3 64\n== memory\nMemTotal: 5 kB\n"
    with pytest.raises(ValueError, match="not whole"):
        parse(text)


# -- segments that are there ---------------------------------------------------


@pytest.fixture
def boots(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Let segments leave an empty folder instead of booting; return the folders."""
    folders: list[Path] = []

    def boot(_run: object, folder: Path, _title: str) -> SimpleNamespace:
        folder.mkdir(parents=True, exist_ok=True)
        folders.append(folder)
        if len(folders) == 2:
            raise KeyboardInterrupt
        return SimpleNamespace(kernel_version="6.12", wall_s=1.0)

    monkeypatch.setattr(run, "lab_run", lambda segment, args: None)
    monkeypatch.setattr(run, "key", lambda lab: "key")
    monkeypatch.setattr(run, "run_lab", boot)
    monkeypatch.setattr(judge, "judge", lambda folder: VERDICT)
    return folders


def test_a_soak_goes_on_where_it_was_stopped(boots: list[Path], tmp_path: Path) -> None:
    arguments = [*WORDS, "--hours", "12", "--output", str(tmp_path)]
    assert main(arguments) == 130
    assert [folder.name for folder in boots] == ["segment-00-key", "segment-01-key"]
    assert not (boots[1] / run.DONE).exists()
    boots.append(tmp_path)  # so that the next one is not stopped
    assert main(arguments) == 0
    assert [folder.name[:10] for folder in boots[3:]] == ["segment-01", "segment-02", "loaded-00-"]
    assert main(arguments) == 0
    assert len(boots) == 6


def test_a_segment_that_failed_fails_the_soak(
    boots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "judge", lambda folder: replace(VERDICT, failures=["lost"]))
    assert main([*WORDS, "--hours", "1", "--loaded-hours", "0", "--output", str(tmp_path)]) == 1


# -- short ones ---------------------------------------------------------------


@pytest.mark.lab
@pytest.mark.full
def test_a_short_soak_loses_nothing_and_is_kept(tmp_path: Path) -> None:
    arguments = ("--hours", "0.1667", "--load", "2", "--output", str(tmp_path))
    code, (found,) = soak(*arguments)
    assert found["failures"] == []
    assert code == 0
    assert isinstance(found["operations"], int) and found["operations"] > 5000
    assert isinstance(found["load"], float) and 1 < found["load"] < 3
    began = time.monotonic()
    assert soak(*arguments) == (0, [found])
    assert time.monotonic() - began < 20  # not run again


@pytest.mark.lab
@pytest.mark.full
def test_a_soak_that_is_stopped_leaves_nothing_half_done(tmp_path: Path) -> None:
    process = command.start(*WORDS, "--hours", "1", "--output", str(tmp_path))
    time.sleep(15)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.lab
@pytest.mark.full
def test_a_leak_is_found(tmp_path: Path) -> None:
    """One object of 64 bytes in a thousand operations."""
    arguments = ("--hours", "0.25", "--load", "5", "--output", str(tmp_path))
    code, (found,) = soak(*arguments, "--sabotage", "leak")
    assert code == 1
    assert isinstance(found["failures"], list)
    assert [said.split()[0] for said in found["failures"]] == ["kmalloc-64"]
