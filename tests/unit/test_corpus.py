# SPDX-License-Identifier: GPL-2.0
"""The corpus: its recipes, its manifest, and that it goes on where it was. No machine is booted."""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.base.files import SCRATCH
from cpuidle_lab.cli import main
from cpuidle_lab.host.machine import project_governors
from cpuidle_lab.lab import corpus, images, workloads
from cpuidle_lab.lab.corpus import MANIFEST, RECIPES, SUBSET, Corpus, Entry, Recipe
from cpuidle_lab.lab.session import MACHINES, sha256

FIRST, SECOND, THIRD = RECIPES[:3]
PROGRAMS = {
    "idle",
    "cyclictest-1ms",
    "cyclictest-100us",
    "cyclictest-10us",
    "hackbench-pipe",
    "hackbench-socket",
    "pgbench-1",
    "pgbench-44",
    "fio-1",
    "nginx-wrk",
    "redis",
}


class Maker:
    """Stands for the lab: makes files that depend on the recipe alone, and counts them."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.fails_at = ""
        self.salt = ""
        self.modules = "sources"

    def __call__(self, recipe: Recipe, scratch: Path) -> tuple[Path, Entry]:
        """Do what corpus.make() does."""
        path = scratch / "trace.dat"
        path.write_text(f"{recipe}{self.salt}")
        if recipe.name == self.fails_at:
            raise KeyboardInterrupt
        self.made.append(recipe.name)
        entry = Entry(
            recipe={"machine": recipe.machine},
            recipe_hash=recipe.hash(),
            command="true",
            sha256=sha256(path),
            bytes=1,
            decisions=2,
            kernel="6.12",
            modules=self.modules,
            programs="p",
            qemu="q",
            seconds=3.0,
        )
        return path, entry


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Maker]:
    made = Maker()
    monkeypatch.setattr(corpus, "make", made)
    yield made


def build(folder: Path, *recipes: Recipe) -> Corpus:
    found = Corpus(folder)
    assert [each.name for each in found.build(recipes)] == [each.name for each in recipes]
    return found


def test_recipes_are_many_and_of_many_machines() -> None:
    assert len({recipe.name for recipe in RECIPES}) == len(RECIPES) >= 12
    assert len({recipe.hash() for recipe in RECIPES}) == len(RECIPES)
    assert len({recipe.machine for recipe in RECIPES}) >= 3
    used = {recipe.workload for recipe in RECIPES}
    assert used >= PROGRAMS
    assert len({name for name in used if name.startswith("stress-")}) >= 2


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_recipe_is_valid(recipe: Recipe) -> None:
    assert recipe.machine in MACHINES
    assert recipe.governor in project_governors(TOP), "another one does not record every input"
    assert recipe.kernel in images.FLAVOURS
    workload = workloads.find(recipe.workload)
    assert set(workload.packages) <= set(images.EXTRA_PROGRAMS)
    script = recipe.script()
    assert f"machine={recipe.machine}" in script
    assert "DURATION" not in script
    assert "SEED " not in script.replace("LAB_SEED ", "")
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0


def test_what_a_workload_needs_is_ready_before_the_trace_begins() -> None:
    script = next(recipe for recipe in RECIPES if recipe.workload == "redis").script()
    lines = script.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("trace_start"))
    assert ". /lab/servers" in lines[:start]
    assert "redis_start" in lines[:start]
    assert "servers" not in FIRST.script()


def test_setups_are_functions_of_the_guest() -> None:
    functions = re.findall(r"^(\w+)\(\) \{$", workloads.SERVERS.read_text(), re.MULTILINE)
    wanted = {each.setup.split()[0] for each in workloads.WORKLOADS.values() if each.setup}
    assert wanted <= set(functions)
    checked = subprocess.run(["sh", "-n", workloads.SERVERS], check=False)
    assert checked.returncode == 0


def test_guest_carries_only_what_its_workloads_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "extra_programs", lambda packages: dict.fromkeys(packages, b""))
    redis, fio = workloads.find("redis"), workloads.find("fio-1")
    assert workloads.files([workloads.find("idle")]) == {}
    assert set(workloads.files([redis, fio])) == {"lab/servers", "redis-server", "fio"}


def test_folders_are_carried_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "with_libraries", lambda _root, programs: set(programs))
    for name in ("data/one", "data/below/two", "other"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    found = images.extra_files(tmp_path, ["program", "data/"])
    assert found == {"program", "data/one", "data/below/two"}


def test_another_recipe_has_another_hash() -> None:
    others = [
        replace(FIRST, machine="gnr"),
        replace(FIRST, governor="wteo"),
        replace(FIRST, workload="redis"),
        replace(FIRST, duration_s=FIRST.duration_s + 1),
        replace(FIRST, seed=FIRST.seed + 1),
        replace(FIRST, cpus=FIRST.cpus + 1),
        replace(FIRST, kernel="7.2"),
    ]
    assert len({each.hash() for each in (FIRST, *others)}) == len(others) + 1


def test_subset_is_three_known_traces_that_need_no_servers() -> None:
    chosen = corpus.choose(SUBSET)
    assert len(chosen) == 3
    assert len({recipe.machine for recipe in chosen}) == 3
    assert not any(workloads.find(recipe.workload).packages for recipe in chosen)


def test_manifest_says_how_each_trace_was_made(tmp_path: Path, maker: Maker) -> None:
    build(tmp_path, FIRST, SECOND)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    assert list(manifest["traces"]) == [FIRST.name, SECOND.name]
    entry = manifest["traces"][FIRST.name]
    assert entry["sha256"] == sha256(tmp_path / FIRST.file)
    assert entry["recipe_hash"] == FIRST.hash()
    assert {"kernel", "modules", "programs", "qemu", "seconds", "decisions"} <= set(entry)
    assert {path.name for path in tmp_path.iterdir()} == {
        FIRST.file,
        SECOND.file,
        MANIFEST,
        ".lock",
    }


def test_what_is_there_is_not_built_again(tmp_path: Path, maker: Maker) -> None:
    build(tmp_path, FIRST)
    build(tmp_path, FIRST, SECOND)
    assert maker.made == [FIRST.name, SECOND.name]


def test_interrupted_it_goes_on_where_it_was(tmp_path: Path, maker: Maker) -> None:
    maker.fails_at = SECOND.name
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path, FIRST, SECOND, THIRD)
    assert {path.name for path in tmp_path.iterdir()} == {FIRST.file, MANIFEST, ".lock"}
    maker.fails_at = ""
    build(tmp_path, FIRST, SECOND, THIRD)
    assert maker.made == [FIRST.name, SECOND.name, THIRD.name]


def test_what_a_killed_process_left_goes(tmp_path: Path, maker: Maker) -> None:
    (tmp_path / f"{SCRATCH}x" / "results").mkdir(parents=True)
    build(tmp_path, FIRST)
    assert {path.name for path in tmp_path.iterdir()} == {FIRST.file, MANIFEST, ".lock"}


def test_what_is_not_as_recorded_is_built_again(
    tmp_path: Path, maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = build(tmp_path, FIRST, SECOND, THIRD)
    (tmp_path / FIRST.file).write_text("damaged")
    (tmp_path / SECOND.file).unlink()
    changed = replace(THIRD, duration_s=THIRD.duration_s + 1)
    reasons = [found.lacks(each) for each in (FIRST, SECOND, changed)]
    assert reasons == ["its file has changed", "missing", "its recipe has changed"]
    maker.made.clear()
    with pytest.raises(UserError, match=r"is not the file that corpus\.json knows"):
        build(tmp_path, FIRST)
    assert (tmp_path / FIRST.file).read_text() == "damaged"
    (tmp_path / FIRST.file).unlink()
    again = build(tmp_path, FIRST, SECOND, changed)
    assert maker.made == [FIRST.name, SECOND.name, THIRD.name]
    assert not any(again.lacks(each) for each in (FIRST, SECOND, changed))


def test_check_compares_and_changes_nothing(tmp_path: Path, maker: Maker) -> None:
    found = build(tmp_path, FIRST)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found.check(FIRST) == "identical"
    maker.salt, maker.modules = "else", "others"
    assert found.check(FIRST) == "different; made with other sources of the modules"
    assert found.check(SECOND) == "missing"
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_command_builds_lists_and_checks(
    tmp_path: Path, maker: Maker, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["corpus", "--only", SECOND.name, FIRST.name, "-o", str(tmp_path)]
    assert main([*arguments, "--list", "--json"]) == 0
    states = {each["name"]: each["state"] for each in json.loads(capsys.readouterr().out)}
    assert states == {FIRST.name: "missing", SECOND.name: "missing"}
    assert not maker.made
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["sha256"] for each in found] == [
        sha256(tmp_path / recipe.file) for recipe in (FIRST, SECOND)
    ]
    assert main([*arguments, "--check"]) == 0
    assert capsys.readouterr().out.count("identical") == 2
    maker.salt = "else"
    assert main([*arguments, "--check"]) == 1
    assert capsys.readouterr().out.count("different") == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--only", "nonsense"], "unknown trace 'nonsense'; there are skx-idle"),
        (["-o", "FILE"], "is not a directory"),
    ],
)
def test_nonsense_is_one_sentence(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    maker: Maker,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "FILE").write_text("")
    words = [str(tmp_path / word) if word == "FILE" else word for word in arguments]
    assert main(["corpus", *words]) == USAGE
    said = capsys.readouterr().err.strip()
    assert sentence in said
    assert "\n" not in said
    assert not maker.made


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 9, "traces": {}}', '{"version": 1}'])
def test_foreign_manifest_is_refused_and_kept(text: str, tmp_path: Path, maker: Maker) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(UserError, match="is not a manifest"):
        Corpus(tmp_path)
    assert (tmp_path / MANIFEST).read_text() == text


def test_nothing_to_check_is_said(
    tmp_path: Path, maker: Maker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["corpus", "--check", "-o", str(tmp_path / "none")]) == 1
    assert "build them first" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
