# SPDX-License-Identifier: GPL-2.0
"""The lab part of `experiment weighted-teo`: what programs print, and what is made of it."""

import re
import resource
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.lab import programs as built
from cpuidle_lab.recording import state_tables
from experiments.experiment import AGREES, DIFFERS, ORIGINAL, QUICK, SEEDS, UNLIKE, USUAL
from experiments.weighted_teo import programs

HEAD = "cpu state power_mw entry_nj time_ns entries\n"
MINUTE_NS = 60 * 10**9
MACHINE = state_tables.find(programs.TABLE, programs.HZ)
POWERS = (4000, *(1000 - 100 * n for n in range(len(MACHINE.names) - 1)))
STATES = (("busy", 4000), *zip(MACHINE.names, POWERS, strict=True))
POLL, SHALLOW = MACHINE.names[:2]
LOADS = programs.loads_of(USUAL)


def accounts(folder: Path, name: str) -> None:
    """Write an account of two CPUs over a minute, one of which is busy for a quarter of it."""
    (folder / f"{name}.before").write_text(
        HEAD + "".join(f"{cpu} {state} {mw} 0 5 7\n" for cpu in (0, 1) for state, mw in STATES)
    )
    spent = {
        (0, "busy"): (MINUTE_NS // 4, 0), (0, POLL): (MINUTE_NS // 4, 60),
        (0, SHALLOW): (MINUTE_NS // 2, 30), (1, SHALLOW): (MINUTE_NS, 3),
    }  # fmt: skip
    lines = [
        f"{cpu} {state} {mw} 0 {5 + spent.get((cpu, state), (0, 0))[0]} "
        f"{7 + spent.get((cpu, state), (0, 0))[1]}\n"
        for cpu in (0, 1)
        for state, mw in STATES
    ]
    (folder / f"{name}.after").write_text(HEAD + "".join(lines))


def test_the_account_says_load_and_entries_a_minute(tmp_path: Path) -> None:
    accounts(tmp_path, "teo_ng.idle")
    found = programs._slots(tmp_path, "teo_ng.idle")
    assert found["load"] == pytest.approx(1 / 8)
    assert found["entries"] == pytest.approx(
        dict.fromkeys(MACHINE.names, 0) | {POLL: 60, SHALLOW: 33}
    )
    assert found["share"] == pytest.approx(
        dict.fromkeys(MACHINE.names, 0) | {POLL: 12.5, SHALLOW: 75}
    )


def test_figures_are_found_in_what_programs_print() -> None:
    assert programs.p99_us("\n".join(str(1000 * n) for n in range(1, 102))) == 100
    find = {load.name: load.read for load in programs.loads_of(USUAL)}
    assert find["ebizzy-m"]("1234 records/s\nreal 5.00 s\n") == 1234
    assert find["hackbench-100"]("Running in process mode\nTime: 0.042\n") == 0.042
    for name, wrong in (
        ("schbench-2", "7\n"),
        ("ebizzy", "real 5 s\n"),
        ("hackbench-100", "Time:"),
    ):
        with pytest.raises(UserError):
            find[name](wrong)


def test_a_quick_run_has_three_governors(tmp_path: Path) -> None:
    governors = programs.governors_of(QUICK)
    assert set(governors) == {programs.TEO, programs.PATCH, "wteo"} < set(programs.GOVERNORS)
    for run in (programs.programs_run(QUICK, 1), programs.idle_run(QUICK, 1)):
        assert set(re.findall("^afresh (.*)$", run.script, re.MULTILINE)) == set(governors)
    for governor in governors:
        accounts(tmp_path, f"{governor}.idle")
    result: Any = SimpleNamespace(files=tmp_path)
    found = programs._read_idle(governors, result)
    assert [row[0] for row in programs._idle_table(QUICK, [found]).rows] == list(governors)


def seed(power: float, p99_us: float = 10.0) -> dict[str, Any]:
    """Return what a boot came to: the patch takes `power`, TEO 100."""
    return {
        f"{governor}.{load.name}": {"figure": p99_us, "power_mw": power if own else 100.0}
        for governor, own in ((programs.PATCH, True), (programs.TEO, False))
        for load in LOADS
    }


def test_the_patch_is_set_beside_teo() -> None:
    rows = {row.what: row for row in programs._rows(LOADS, [seed(70), seed(71), seed(75)])}
    assert len(rows) == 2 * len(LOADS)
    assert rows["schbench -t 8: power beside TEO"].median == pytest.approx(0.71)
    assert rows["schbench -t 8: power beside TEO"].state == AGREES
    assert rows["schbench -t 16: power beside TEO"].state == DIFFERS
    assert rows["hackbench -l 100: power beside TEO"].state == ""
    assert rows["schbench -t 8: p99 beside TEO"].state == AGREES


def test_a_p99_that_the_deepest_state_decides_is_not_judged() -> None:
    rows = {row.what: row for row in programs._rows(LOADS, [seed(70, 10_010.0)] * 3)}
    assert rows["schbench -t 8: p99 beside TEO"].state == UNLIKE
    assert rows["schbench -t 8: power beside TEO"].state == AGREES
    # Records have no such bound.
    assert rows["ebizzy -i 10000: records/s beside TEO"].state == AGREES


def test_idle_entries_are_those_of_a_cpu_and_second() -> None:
    cell = {"power_mw": 1.0, "entries": {"stop5": 480.0, "stop11": 1440.0}}
    rows = programs._idle_rows([{programs.TEO: cell, programs.PATCH: cell | {"power_mw": 1.1}}])
    assert [row.ours for row in rows] == [[pytest.approx(1.1)], [4.0], [4.0]]
    assert [row.state for row in rows] == [DIFFERS, UNLIKE, UNLIKE]


def test_the_usual_seeds_idle_for_twelve_hours() -> None:
    cell = {"power_mw": 1.0, "entries": {"stop5": 1.0}, "share": {"stop5": 100.0}}
    found = [dict.fromkeys(programs.GOVERNORS, cell)] * SEEDS[USUAL]
    assert ", 12 virtual hours in all" in programs._idle_table(USUAL, found).title
    assert ", 12 virtual hours in all" in programs._idle_table(ORIGINAL, found[:1]).title


def test_each_size_has_its_messages() -> None:
    counts = {
        scale: {
            int(one.command.split()[-1]) for one in programs.loads_of(scale) if "hack" in one.name
        }
        for scale in (QUICK, USUAL, ORIGINAL)
    }
    assert counts == {QUICK: {100}, USUAL: {100}, ORIGINAL: {10**n for n in range(2, 7)}}


def test_the_originals_figures_stand_beside_ours() -> None:
    cells = [
        {f"{who}.{load.name}": {"figure": 1.0, "power_mw": 2000.0, "load": 0.5}
         for who in programs.GOVERNORS for load in LOADS}
    ]  # fmt: skip
    rows = {(row[0], row[1]): row[-2:] for row in programs._programs_table(USUAL, cells).rows}
    assert rows["schbench -t 8", programs.TEO] == [1158, 89]
    assert rows["schbench -t 8", programs.PATCH] == [1050, 63]
    assert rows["schbench -t 8", "wteo"] == [None, None]
    assert rows["hackbench --pipe -l 100", programs.PATCH] == [0.032, None]


@pytest.fixture(scope="module")
def ebizzy() -> Path:
    return built.compiled(programs.EBIZZY)


def records(ebizzy: Path, words: str) -> tuple[float, dict[str, float]]:
    """Run ebizzy; return its records/s, and its times by name, s."""
    done = subprocess.run([ebizzy, *words.split()], capture_output=True, text=True, check=True)
    first, *times = done.stdout.splitlines()
    told = {line.split()[0]: float(line.split()[1]) for line in times}
    return programs._records(first), told


@pytest.mark.parametrize("option", ["", "-m ", "-M "])
def test_ebizzy_sleeps_after_so_many_records(ebizzy: Path, option: str) -> None:
    """As the author's: `-i` alone is no sleep. See weighted/entry.py for where that was read."""
    some, times = records(ebizzy, f"{option}-a 1 -t 2 -S 1 -i 50000 -s 4096")
    # At most one for each sleep and thread; how many depends on the host.
    assert 0 < some <= 40
    assert list(times) == ["real", "user", "sys"]
    assert times["real"] >= 1
    more, _ = records(ebizzy, f"{option}-a 10 -t 2 -S 1 -i 50000 -s 4096")
    assert some < more <= 10 * 40
    busy, _ = records(ebizzy, f"{option}-t 2 -S 1 -i 50000 -s 4096")
    assert busy > 20 * more


def test_ebizzy_runs_for_a_part_of_a_second(ebizzy: Path) -> None:
    _, times = records(ebizzy, "-t 1 -S 0.2 -s 4096")
    assert 0.2 <= times["real"] < 1


def test_ebizzy_allocates_as_it_is_told(ebizzy: Path) -> None:
    """-m maps each copy, -M none; the default is malloc's, which maps what is large."""
    faults = {}
    for option in ("-m ", "-M "):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
        rate, _ = records(ebizzy, f"{option}-t 1 -S 1 -a 1 -i 5000 -s 262144")
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
        faults[option] = (after - before) / rate
    # A fresh map has a fault for each of its 64 pages; memory that is used again has none.
    assert faults["-m "] > 60
    assert faults["-M "] < 60


@pytest.mark.parametrize(
    "words", ["-m -M", "-t 0", "-t 257", "-s 7", "-S x", "-S 0", "-S nan", "-a -1", "word", "-q"]
)
def test_ebizzy_refuses_nonsense(ebizzy: Path, words: str) -> None:
    done = subprocess.run([ebizzy, *words.split()], capture_output=True, text=True)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
