# SPDX-License-Identifier: GPL-2.0
"""Cases in the lab: what the guest plays and runs, and how its figures stand beside replay's."""

import re
import shlex
import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.lab import LabRun, mainline, programs
from cpuidle_lab.recording.laws import S
from cpuidle_lab.states import linux_source
from cpuidle_lab.view.terminal import meter
from experiments import boots
from experiments.cases import lab, schema
from experiments.cases.case import FOLDER, IN_LAB, Case, _row, _section, stream_of
from experiments.cases.figures import Played
from experiments.cases.schema import Cell, Description
from experiments.experiment import NOT_BOOTED, Findings, Request
from experiments.memo import Memo
from tests.unit import small_case

FAR = 1 << 40
GOOD = small_case.GOOD.replace(', reported: "2 us", agrees: [0, 400]', "")


def described(name: str) -> Description:
    return Case(FOLDER / f"{name}.yaml").described


@pytest.mark.parametrize("name", ["cede", "teo-livelock", "teo-lookup", "nohz-full", "over-eager"])
def test_the_guest_plays_the_intervals_that_replay_has(name: str) -> None:
    case = described(name)
    cell = case.cells[0]
    replayed = stream_of(case, cell, 2)
    played = [list(map(int, line.split()))
              for line in lab.stream_text(case, cell.stream, 2).splitlines()]  # fmt: skip
    count = len(played)
    assert 50 < count <= case.streams[cell.stream].skip + lab.COUNT
    assert replayed["length_ns"][:count].sum() < 130 * S
    replayed = {name: replayed[name][:count] for name in ("length_ns", "timer_ns")}
    wake, timer, _ = np.array(played).T
    length = np.minimum(np.where(wake, wake, FAR), np.where(timer, timer, FAR))
    assert np.array_equal(length, replayed["length_ns"])
    # A far timer is none, unless it is all that ends the interval.
    told = timer > 0
    assert np.array_equal(timer[told], replayed["timer_ns"][told])
    assert (replayed["timer_ns"][~told] == replayed["timer_ns"].max()).all()


@pytest.mark.parametrize(
    ("name", "governor", "place"),
    [
        ("cede", "menu@7.2", lab.Place("7.2", "gate", (("gate", "base", "menu"),))),
        ("cede", "menu@6.1",
         lab.Place("6.12", "gate", (("gate", "base", "menu@6.1"),), built="menu@6.1")),
        ("teo-lookup", "teo@7.2",
         lab.Place("7.2", "gate", (("gate", "base", "teo@7.2"),), built="teo@7.2")),
        ("cede", "wteo", lab.Place("6.12", "wteo")),
        ("spin-then-sleep", "wteo:latency_bias=256",
         lab.Place("6.12", "wteo", (("wteo", "latency_bias", "256"),))),
        ("discarding", "menu@with-it", "the lab has no such kernel"),
        ("reject", "menu@7.2", "the emulator cannot refuse single states"),
        ("many-timers", "menu@7.2", "the lab's kernels have 250 ticks a second"),
        ("poll-only", "menu@7.2", "the kernel asks no governor about a single state"),
        ("sleep-length", "menu@7.2", "the lab's kernels have 250 ticks a second"),
    ],
)  # fmt: skip
def test_a_cell_has_its_place_or_a_reason(name: str, governor: str, place: Any) -> None:
    case = described(name)
    cell = next(one for one in case.cells if one.governor == governor)
    assert lab.place_of(case, cell) == place
    assert ((governor, place) in lab.left_out(case)) == isinstance(place, str)


def test_a_hint_is_a_hint_in_the_lab() -> None:
    case = described("spin-then-sleep")
    cell = next(one for one in case.cells if one.latency_req_us == 20)
    place = lab.place_of(case, cell)
    assert place == lab.Place("6.12", "gate", (("gate", "base", "wteo"),), 20_000)
    assert isinstance(place, lab.Place)
    assert "latnice -l 20000ns player " in lab.script(case, {case.cells.index(cell): place}, [1])


def test_a_tunable_is_put_back_after_its_cell() -> None:
    case = described("spin-then-sleep")
    place = lab.Place("6.12", "wteo", (("wteo", "latency_bias", "256"),))
    lines = lab.script(case, {4: place}, [1, 2]).splitlines()
    knob = "$knobs/wteo/latency_bias"
    order = [
        lines.index(one)
        for one in (
            f"was0=$(cat {knob})",
            "tune wteo latency_bias 256",
            'tune wteo latency_bias "$was0"',
        )
    ]
    assert order == sorted(order)


def test_states_of_the_case_are_off_and_the_waker_is_awake_at_once() -> None:
    case = described("discarding")
    lines = lab.script(case, {1: lab.Place("6.12", "gate", (("gate", "base", "menu"),))}, [1])
    off = [line for line in lines.splitlines() if line.endswith("/disable")]
    assert [line.split("/cpu/")[1] for line in off] == [
        *(f"cpu0/cpuidle/state{k}/disable" for k in (2, 3, 4)),
        "cpu1/cpuidle/state3/disable",
    ]


def test_the_emulator_takes_the_table_of_each_case() -> None:
    case = described("teo-livelock")
    text = lab.script(case, {0: lab.Place("6.12", "wteo")}, [1])
    assert "s2idle:20000:10000000 poll=none" in text


def test_each_kernel_is_a_boot_with_the_streams_of_some_seeds() -> None:
    case = described("nohz-full")
    planned = lab.plan(case, 7)
    assert [one.run.kernel for one in planned] == ["6.12", "7.2", "7.3"] * 2
    assert [list(one.seeds) for one in planned] == [[1, 2, 3, 4, 5]] * 3 + [[6, 7]] * 3
    booted = {
        n for n, one in enumerate(case.cells) if isinstance(lab.place_of(case, one), lab.Place)
    }
    assert {n for one in planned for n in one.cells} == booted
    for one in planned:
        streams = {name: text for name, text in one.run.files.items() if "stream" in name}
        assert len(set(streams.values())) == len(streams) >= len(one.seeds)
        assert one.run.script.count("workload=cell") == len(one.seeds) * len(one.cells)
        assert all(f"/{name}" in one.run.script for name in streams)


def test_only_a_stream_with_a_stopped_tick_is_booted_so() -> None:
    text = GOOD.replace("streams: {", "streams: {two: {tick_stopped: true, phases: [{count: 9}]}, ")
    cells = "cells: [{governor: wteo, stream: two}, {governor: wteo, stream: one}]"
    case = schema.parse(text.replace("cells: [{governor: wteo}]", cells), "some")
    assert [(one.cells, one.run.options != ()) for one in lab.plan(case, 1)] == [
        ([0], True), ([1], False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("machine: spr", "machine: [[C1, 1, 1], [C2, 200000, 300000]]", "exit latency is not 1 to"),
        ("machine: spr", "machine: [[C1, 1, 1], [a b, 2, 3]]", "its name is not"),
        ("machine: spr", "machine: [[C1, 50, 50], [C2, 60, 90]]", "no state lets the other CPU"),
        ("machine: spr", "tick_hz: 1000\nmachine: spr", "250 ticks a second"),
        ("kind: latency", "kind: asked", "does not tell this figure"),
        ("phases: [{count: 200, wake_us: {mean: 300}}]",
         "skip: 150, phases: [{count: 200, wake_us: 1000000}]", "the first 150 intervals"),
        ("{governor: wteo}", "{governor: none_such}", "no module has this governor"),
    ],
)  # fmt: skip
def test_what_the_lab_cannot_have_is_said_and_replay_goes_on(old: str, new: str, why: str) -> None:
    assert old in GOOD
    case = schema.parse(GOOD.replace(old, new), "some")
    assert lab.plan(case, 1) == []
    ((cell, said),) = lab.left_out(case)
    assert cell == case.cells[0].governor and why in said


def test_each_table_of_one_governor_has_its_reason() -> None:
    cells = "{governor: wteo, label: deep, machine: [[C1, 1, 1], [C2, 200000, 300000]]}"
    more = f"[{{governor: wteo, machine: [[C1, 9, 9], [C2, 10, 20]]}}, {cells}]"
    case = schema.parse(GOOD.replace("[{governor: wteo}]", more), "some")
    assert [cell for cell, _ in lab.left_out(case)] == ["wteo", "deep"]


def test_names_of_a_file_are_no_commands() -> None:
    text = GOOD.replace("{one: ", '{"it\'s; reboot": ')
    case = schema.parse(text, "some")
    (line,) = [x for x in lab.plan(case, 1)[0].run.script.splitlines() if x.startswith("say ")]
    assert shlex.split(line) == ["say", "wteo it's; reboot 1"]


def test_the_trace_has_room_for_the_intervals_that_are_left_out() -> None:
    few, many = (
        schema.parse(GOOD.replace("phases:", f"skip: {skip}, phases:").replace("200", "20000"), "a")
        for skip in (0, 15000)
    )
    runs = [lab.plan(case, 1)[0].run for case in (few, many)]
    sizes = [int(re.findall(r"trace_start (\d+) ", run.script)[0]) for run in runs]
    # Two events of 89 bytes each, in the buffer of one of two CPUs.
    assert sizes[1] - sizes[0] >= 2 * (15000 * 178 >> 20)
    assert all(run.memory_mib >= size + 512 for run, size in zip(runs, sizes, strict=True))


def test_words_of_the_kernel_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuidle_lab.lab.emulator.version", lambda: "1")
    keys = {boots.key_of(LabRun("", options=words), []) for words in ((), ("nohz_full=1",))}
    assert len(keys) == 2


def test_what_was_edited_while_it_ran_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code.py"
    code.write_text("before")

    def edit(*_: object) -> SimpleNamespace:
        code.write_text("after")
        return SimpleNamespace(check=lambda: None)

    monkeypatch.setattr(boots, "run_lab", edit)
    with pytest.raises(UserError, match="changed while they ran"):
        boots.job(LabRun(""), [code], lambda _: 1, "x").work()


def known() -> dict[str, Any]:
    return asdict(Played(1e9, 1e9, 1.0, 1.0, 10, 10, 0, 0, 5, 0, 0, [5, 5], [5, 5], [5e8, 5e8]))


def measured(booted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Findings:
    one = Case(FOLDER / "cede.yaml")
    cells = tuple(cell for cell in one.described.cells if cell.governor == "wteo")
    vars(one)["described"] = replace(one.described, cells=cells)
    monkeypatch.setattr(lab, "boots", lambda runs, *_: [booted for _ in runs])
    with Memo(tmp_path / "memo.db") as memo:
        return one.measure(Request(seeds=2, lab=True), memo, meter)


def test_what_was_booted_stands_below_what_was_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    booted = {f"cell{cell}-{seed}": known() for cell in (0, 1) for seed in (1, 2)}
    rows = measured(booted, tmp_path, monkeypatch).rows
    assert [row.what for row in rows] == [
        "wteo, 30 us", f"wteo, 30 us{IN_LAB}", "wteo, 100 us", f"wteo, 100 us{IN_LAB}",
    ]  # fmt: skip
    assert rows[1].ours == [50.0, 50.0]
    assert rows[0].ours != rows[1].ours


def test_what_was_not_booted_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = measured(None, tmp_path, monkeypatch).rows
    assert [row.note for row in rows] == ["", NOT_BOOTED] * 2


@pytest.mark.parametrize(
    ("text", "skip", "why"),
    [
        ("", "0", "without three numbers, or none"),
        ("1 2\n", "0", "without three numbers, or none"),
        ("1000 x 5\n", "0", "without three numbers, or none"),
        ("0 0 5\n", "0", "an interval has no end"),
        ("1000 0 5\n", "1", "no number below that of the lines"),
        ("1000 0 5\n", "one", "no number below that of the lines"),
        (None, "0", "no such file"),
    ],
)
def test_player_refuses_what_it_cannot_play(
    text: str | None, skip: str, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "stream"
    if text is not None:
        file.write_text(text)
    words = [str(programs.compiled(lab.PLAYER)), str(file), skip, "mark"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and why in done.stderr
    assert subprocess.run(words[:2], capture_output=True, timeout=60).returncode == 2


def test_governors_of_a_kernel_are_modules_beside_ours() -> None:
    found = mainline.changes(["teo@6.12", "menu@6.1"])
    ours = (TOP / "Kbuild").read_text()
    assert found["Kbuild"].startswith(ours)
    added = found["Kbuild"].removeprefix(ours).split("\n")
    assert [line for line in added if line.startswith("obj-m")] == [
        "obj-m += cpuidle_menu_6_1.o",
        "obj-m += cpuidle_teo_6_12.o",
    ]
    modules = re.findall(r'BUILT_MODULE_NAME\[(\d)\]="(\w+)"', found["dkms.conf"])
    assert [int(number) for number, _ in modules] == list(range(4))
    assert {module for _, module in modules[2:]} == {"cpuidle_menu_6_1", "cpuidle_teo_6_12"}
    theirs = linux_source.fetch("6.12").folder / "teo.c"
    assert found["cpuidle_teo_6_12/teo.c"] == theirs.read_text()
    assert '"teo@6.12"' in found["cpuidle_teo_6_12/module.c"]
    assert mainline.changes([]) == {}


def test_a_governor_of_a_tree_is_a_module_named_by_its_source(tmp_path: Path) -> None:
    folder = tmp_path / "drivers/cpuidle/governors"
    folder.mkdir(parents=True)
    names = []
    for text in ("int a;\n", "int b;\n"):
        (folder / "menu.c").write_text(text)
        names.append(mainline.guest_name(f"menu@{tmp_path}"))
    assert len(set(names)) == 2 and all(re.fullmatch(r"menu@[0-9a-f]{6}", one) for one in names)
    found = mainline.changes([f"menu@{tmp_path}"])
    module = mainline.module_of(f"menu@{tmp_path}")
    assert found[f"{module}/menu.c"] == "int b;\n"
    assert f'"{names[1]}"' in found[f"{module}/module.c"]
    assert str(tmp_path) not in "".join(found.values())


def test_a_patched_cell_is_booted_on_the_newest_kernel(tmp_path: Path) -> None:
    folder = tmp_path / "drivers/cpuidle/governors"
    folder.mkdir(parents=True)
    (folder / "menu.c").write_text("int a;\n")
    (folder / "teo.c").write_text("int b;\n")
    case = described("cede")
    cell = replace(case.cells[0], governor=f"teo@{tmp_path}")
    place = lab.place_of(case, cell)
    assert isinstance(place, lab.Place) and place.kernel == linux_source.NEWEST
    (base,) = place.tunables
    assert base[2] == mainline.guest_name(f"teo@{tmp_path}") and len(base[2]) < 16


def test_a_boot_loads_the_governors_that_its_cells_need() -> None:
    case = described("cede")
    (old, *_) = lab.plan(case, 1)
    assert old.run.kernel == "6.12"
    loaded = [line for line in old.run.script.splitlines() if line.startswith("load cpuidle_")]
    modules = [line.split()[1] for line in loaded]
    assert modules == ["cpuidle_emul", "cpuidle_lab", "cpuidle_menu_6_1", "cpuidle_teo_6_1"]
    assert all(f"{module}/module.c" in old.run.changes for module in modules[2:])
    # Where replay has no source of 6.1, neither has the lab.
    without = [n for n, cell in enumerate(case.cells) if cell.governor.endswith("@6.1")]
    (old, *_) = lab.plan(case, 1, without)
    assert old.run.changes == {} and not set(old.cells) & set(without)


def test_a_cell_of_a_tree_that_was_booted_is_not_called_left_out() -> None:
    discarding = replace(described("discarding"), also=())
    cell = discarding.cells[0]
    assert "@with-it" in cell.governor
    for wheres, left in (([""], True), (["", IN_LAB], False)):
        shown: list[tuple[Cell, str, str]] = [(cell, where, "no figure") for where in wheres]
        rows = [_row(discarding, cell, "no figure", where) for where in wheres]
        section = _section(discarding, rows, shown)
        told = [row[0] for table in section.tables for row in table.rows]
        assert (cell.governor in told) == left
