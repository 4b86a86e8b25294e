# SPDX-License-Identifier: GPL-2.0
"""Building governors as programs in BPF: the pass, the tunables, bad input."""

import re
import shutil
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.bpf import build, live
from cpuidle_lab.bpf.llvm_pass import FRAME, forget_values
from cpuidle_lab.host.machine import Host, project_governors
from cpuidle_lab.host.sysfs import Tree
from cpuidle_lab.lab import images
from cpuidle_lab.replay import library
from cpuidle_lab.replay.policies import policy_of
from cpuidle_lab.replay.tunables import of_program
from tests.unit.bpf_tools import needs_tools

TOP = Path(__file__).parents[2]
STATUS = "sys/module/cpuidle_lab/parameters/bpf_status"

FUNCTION = """\
@table = internal constant [2 x i32] [i32 1, i32 2], align 4
define i32 @f(i32 %a) {
entry:
  %x = alloca [4 x i64], align 8
  br label %loop, !dbg !7
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %j = phi i32 [ 0, %entry ], [ %a, %loop ]
  %next = add i64 %i, 1
  %s = select i1 true, i32 %j, i32 3
  %p = getelementptr i32, ptr @table, i64 %i
  ret i32 %s
}
"""


def test_the_pass_forgets_values_where_control_flow_merges() -> None:
    lines = forget_values(FUNCTION).splitlines()
    at = {re.sub(r" = .*", "", line.strip()): number for number, line in enumerate(lines)}
    assert at["%i.raw"] + 1 == at["%j.raw"] < at["%i"] < at["%j"] < at["%next"]
    assert at["%s.raw"] < at["%s"]
    assert "load volatile i64, ptr @cil_zero" in lines[at["%cil.zero"]]


def test_the_pass_moves_arrays_and_tables_to_the_arena() -> None:
    text = forget_values(FUNCTION)
    assert "%x = call ptr @cil_frame(i32 0), !dbg !7" in text
    assert "@table = internal addrspace(1) global [2 x i32]" in text
    assert "ptr addrspacecast (ptr addrspace(1) @table to ptr)" in text
    with pytest.raises(UserError, match="local arrays"):
        forget_values(FUNCTION.replace("[4 x i64]", f"[{FRAME} x i64]"))


@needs_tools
@pytest.mark.parametrize("name", project_governors(TOP))
def test_each_governor_of_the_project_is_built_with_its_tunables(name: str, tmp_path: Path) -> None:
    program = build.build(build.source_of(name), 2, tmp_path)
    assert program.name == name
    assert program.path.read_bytes().startswith(b"\x7fELF")
    assert TOP / f"governors/{name}/{name}.c" in program.sources
    tables = re.findall(r"\.min = (\d+), \.max = (\w+), \.def = (\d+)",
                        (TOP / f"governors/{name}/{name}.c").read_text())  # fmt: skip
    assert [str(each.default) for each in program.tunables] == [table[2] for table in tables]
    assert build.described(name, program.hash, tmp_path) == program.tunables
    with pytest.raises(UserError, match="not built in"):
        build.described(name, "0" * 16, tmp_path)


@needs_tools
def test_the_hash_follows_the_source(tmp_path: Path) -> None:
    source = build.source_of("teo_ng")
    first, again = (build.build(source, 2, tmp_path).hash for _ in range(2))
    assert first == again
    other = tmp_path / "other.bpf.c"
    other.write_text(source.read_text().replace("policy_update, 0)", "policy_update, 1)"))
    assert build.build(other, 2, tmp_path).hash != first


@needs_tools
def test_bad_sources_are_one_sentence(tmp_path: Path) -> None:
    source = tmp_path / "bad.bpf.c"
    for text, message in (
        ("int x;\n", "no line CIL_BPF_POLICY"),
        ('CIL_BPF_POLICY("bad", nonsense);\n', r"compiling bad.bpf.c failed: .*error:"),
    ):
        source.write_text(text)
        with pytest.raises(UserError, match=message) as caught:
            build.build(source, 2, tmp_path)
        assert "\n" not in caught.value.message
    with pytest.raises(UserError, match="no file"):
        build.source_of("missing.bpf.c")
    with pytest.raises(UserError, match="only for"):
        build.source_of("nonsense")


@needs_tools
def test_a_full_disk_and_a_file_in_the_way_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        build.build(build.source_of("teo_ng"), 2, tmp_path / "file")


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(UserError, match=r"apt install clang-19"):
        build.build(build.source_of("teo_ng"), 2, tmp_path)


@needs_tools
def test_an_object_that_was_built_elsewhere_brings_its_description(tmp_path: Path) -> None:
    made = build.build(build.source_of("wteo"), 2, tmp_path)
    found = build.prebuilt(made.path)
    assert (found.name, found.hash, found.tunables) == (made.name, made.hash, made.tunables)
    assert found.sources == (made.path,)
    about = tmp_path / "wteo.json"
    for text in ("", "[]", '{"name": "wteo"}', '{"tunables": [{"nonsense": 1}]}'):
        about.write_text(text)
        with pytest.raises(UserError, match=r"needs wteo.json beside it"):
            build.prebuilt(made.path)
    with pytest.raises(UserError, match="no file"):
        build.prebuilt(tmp_path / "nosuch.bpf.o")


def machine(tmp_path: Path, status: str | None) -> Host:
    path = tmp_path / STATUS
    path.parent.mkdir(parents=True)
    if status is not None:
        path.write_text(status)
    return Host(Tree(tmp_path))


def test_a_machine_that_cannot_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(UserError, match="not loaded"):
        live.check(Host(Tree(tmp_path / "nothing")))
    with pytest.raises(UserError, match="built without programs"):
        live.check(machine(tmp_path / "old", None))
    with pytest.raises(UserError, match="did not take the BTF"):
        live.check(machine(tmp_path / "btf", "state=unavailable: the kernel did not take the BTF"))
    with pytest.raises(UserError, match="wteo is attached already"):
        live.check(machine(tmp_path / "two", "state=attached\nname=wteo\nhash=12\n"))
    foreign = machine(tmp_path / "foreign", "state=empty\n")
    current = tmp_path / "foreign/sys/devices/system/cpu/cpuidle/current_governor"
    current.parent.mkdir(parents=True)
    current.write_text("menu\n")
    with pytest.raises(UserError, match="menu decides now"):
        live.check(foreign, use=False)
    off = machine(tmp_path / "jit", "state=empty\n")
    jit = tmp_path / "jit/proc/sys/net/core/bpf_jit_enable"
    jit.parent.mkdir(parents=True)
    jit.write_text("0\n")
    with pytest.raises(UserError, match="bpf_jit_enable=1"):
        live.check(off)


def test_tunables_must_exist_and_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = machine(tmp_path, "state=attached\nname=wteo\nhash=12\n")
    parameter = tmp_path / "sys/module/cpuidle_lab/parameters/bpf"
    parameter.write_text("")
    table = (build.Tunable("a", 0, 9, 1), build.Tunable("b", 2, 5, 3))
    monkeypatch.setattr(build, "described", lambda _name, _hash, _folder: table)
    live.set_tunable(here, "b=4")
    assert parameter.read_text() == "t1=4\n"
    live.set_tunable(here, "budget=99")
    assert parameter.read_text() == "budget=99\n"
    for text, message in (
        ("b=6", "must be 2 to 5"),
        ("c=1", "no tunable 'c'"),
        ("b", "not NAME=VALUE"),
        ("b=x", "not NAME=VALUE"),
    ):
        with pytest.raises(UserError, match=message):
            live.set_tunable(here, text)


def test_replay_knows_the_policy_of_a_program() -> None:
    assert policy_of("bpf", "bpf:wteo@0123456789abcdef") == "wteo"
    assert policy_of("gate", "bpf:wteo@0123456789abcdef") == "wteo"
    assert policy_of("bpf", "bpf:teo_ng (wteo@0123456789abcdef took too long)") == "teo_ng"
    assert policy_of("gate", "menu") == "menu"
    assert policy_of("wteo", "") == "wteo"


def test_replay_knows_the_tunables_of_a_program() -> None:
    wteo = library.governor("wteo")
    names = [each.name for each in wteo.tunables]
    words = {"budget": "1500", "t0": "16", "t1": "7", "t22": "0"}
    assert of_program(words, wteo) == {names[0]: "16", names[1]: "7"}


def test_an_edit_of_a_program_changes_no_source_of_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("module", "governors", "emul"):
        shutil.copytree(TOP / folder, tmp_path / folder)
    for name in images.SOURCE_FILES:
        shutil.copy(TOP / name, tmp_path)
    for module in (build, images):
        monkeypatch.setattr(module, "TOP", tmp_path)
    before, whole = images.source_files(build.left_out("wteo")), images.source_files({})
    with (tmp_path / "governors/wteo/wteo.c").open("a") as stream:
        stream.write("/* An edit. */\n")
    (tmp_path / "governors/wteo/wteo_new.c").write_text("/* A new file. */\n")
    assert images.source_files(build.left_out("wteo")) == before
    assert images.source_files({}) != whole
    assert not [name for name in before if name.startswith("governors/wteo/")]
    lists = before["governors/list.h"] + before["governors/governors.mk"]
    assert b"teo_ng" in lists and b"X(wteo," not in lists
    (tmp_path / "governors/teo_ng/teo_ng.c").write_text("/* It decides where a program fails. */\n")
    assert images.source_files(build.left_out("teo_ng")) == images.source_files({})
    assert images.source_files(build.left_out("wteo")) != before


@pytest.mark.parametrize("left_out", ["wteo", "menu_ng"])
def test_lists_without_a_governor_are_in_step(left_out: str) -> None:
    changed = build.left_out(left_out)
    numbers = dict(re.findall(r"X\((\w+),\s*(\d+)\)", changed["governors/list.h"]))
    assert numbers["wteo_rfc"] == "3"
    assert numbers["bpf"] == "4"
    made = re.findall(r"^CIL_GOVERNORS :=(.*)$", changed["governors/governors.mk"], re.MULTILINE)
    others = [name for name in project_governors(TOP) if name != left_out]
    assert made[0].split() == others
    assert set(numbers) == {*others, "wteo_rfc", "bpf"}
