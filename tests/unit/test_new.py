# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab new`, on copies of the source tree."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.commands import new
from cpuidle_lab.host.machine import project_governors

TOP = Path(__file__).parents[2]

ENVIRONMENT = {"cil_env_sleep_length", "cil_env_print", "memset"}

# Names that would collide if the templates were careless, and the longest one.
NAMES = ["lazy", "machine", "candidate", "table", "state", "policy", "list", "abcdefghijklmno"]

needs_compiler = pytest.mark.skipif(not shutil.which("gcc"), reason="gcc is not installed")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy what `new` and the unit tests need, and go there."""
    for name in ("governors", "kunit"):
        shutil.copytree(TOP / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Compile the runner of the test cases once; return its objects."""
    folder = tmp_path_factory.mktemp("runner")
    objects = [folder / "env.o", folder / "runner.o"]
    for target in objects:
        source = (TOP / "kunit" / target.name).with_suffix(".c")
        sh("gcc", "-std=gnu11", f"-I{TOP}/kunit/include", "-c", "-o", target, source)
    return objects


def contents(tree: Path) -> dict[str, str]:
    """Return every file of a tree, hidden ones included."""
    return {
        str(path.relative_to(tree)): path.read_text()
        for path in sorted(tree.rglob("*"))
        if path.is_file()
    }


def sh(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_creates_the_files_and_says_what_is_next(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", "lazy"]) == 0
    out = capsys.readouterr().out
    created = ["README.md", "lazy.c", "lazy.h", "lazy_kunit.c"]
    assert [path.name for path in sorted((tree / "governors/lazy").iterdir())] == created
    for name in created:
        assert f"governors/lazy/{name}\n" in out
    commands = re.findall(r"^  (\S+) ", out.split("next, in ")[1], re.MULTILINE)
    assert commands == ["make", "./cpuidle-lab", "./cpuidle-lab"]


def test_changes_the_lists_and_nothing_else(tree: Path) -> None:
    before = contents(tree)
    main(["new", "lazy"])
    after = contents(tree)
    changed = {name for name in after if after[name] != before.get(name)}
    assert {name for name in changed if not name.startswith("governors/lazy/")} == {
        "governors/governors.mk",
        "governors/list.h",
        "governors/common/reasons.h",
    }
    assert before.keys() <= after.keys()
    make = "governors/governors.mk"
    assert after[make] == before[make].removesuffix("\n") + " lazy\n"


@needs_compiler
def test_the_lists_say_the_same_in_the_same_order(tree: Path) -> None:
    listed = project_governors(tree)
    for name in ("lazy", "eager"):
        main(["new", name])
    make = sh("make", "-s", "-f", tree / "governors/governors.mk", "--eval",
              "names:;@echo $(CIL_GOVERNORS)", "names").stdout  # fmt: skip
    header = tree / "names.c"
    header.write_text(
        '#include "governors/list.h"\n#define X(name, number) name\nCIL_GOVERNORS(X)\n'
    )
    macro = sh("gcc", "-E", "-P", header).stdout
    assert make.split() == macro.split() == [*listed, "lazy", "eager"]


def numbers(tree: Path) -> list[tuple[str, int]]:
    """Return the governors of list.h and their numbers."""
    text = (tree / "governors/list.h").read_text()
    return [(name, int(number)) for name, number in re.findall(r"X\((\w+),\s*(\d+)\)", text)]


def test_no_number_of_a_governor_changes_or_comes_twice(tree: Path) -> None:
    """Recordings carry it, and those of the module's first versions have these."""
    for name in ("lazy", "eager"):
        main(["new", name])
    found = dict(numbers(tree))
    first = {"teo_ng": 0, "menu_ng": 1, "wteo": 2, "wteo_rfc": 3, "bpf": 4}
    assert found == first | {"lazy": 5, "eager": 6}
    assert len(found) == len(numbers(tree))
    main(["new", "third"])
    assert dict(numbers(tree))["third"] == 7


@needs_compiler
def test_each_governor_gets_reasons_of_its_own(tree: Path) -> None:
    for name in ("lazy", "eager"):
        main(["new", name])
    source = tree / "reasons.c"
    source.write_text(
        '#include "governors/common/reasons.h"\n#define X(id, number, text) id=number=text;\n'
        "CIL_REASONS(X)\n"
    )
    expanded = sh("gcc", "-E", "-P", source).stdout.split("};")[-1]
    reasons = re.findall(r'(\w+)=(\d+)="([^"]+)";', expanded)
    numbers = [int(number) for _, number, _ in reasons]
    assert len(set(numbers)) == len(numbers)
    assert max(numbers) < 255
    eager = {text: int(number) for _, number, text in reasons if text.startswith("eager-")}
    lazy = {text: int(number) for _, number, text in reasons if text.startswith("lazy-")}
    assert len(lazy) == len(eager) == 5
    assert min(eager.values()) == min(lazy.values()) + 16
    assert min(lazy.values()) % 16 == 0
    others = set(numbers) - set(lazy.values()) - set(eager.values())
    assert max(others) < min(lazy.values())


@needs_compiler
@pytest.mark.parametrize("name", NAMES)
def test_the_governor_builds_and_passes_its_cases(
    name: str, tree: Path, runner: list[Path]
) -> None:
    main(["new", name])
    folder = tree / "governors" / name
    flags = [
        "-std=gnu11", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-Wvla",
        "-Wdeclaration-after-statement", "-Ikunit/include",
    ]  # fmt: skip
    if name == NAMES[0]:
        flags += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    sources: list[str | Path] = [
        folder / f"{name}.c",
        folder / f"{name}_kunit.c",
        *runner,
    ]
    sh("gcc", *flags, "-o", "run-kunit", *sources)
    out = sh("./run-kunit", f"{name}*").stdout
    cases = len(re.findall(r"KUNIT_CASE\(", (folder / f"{name}_kunit.c").read_text()))
    assert f"# {name}: pass:{cases} fail:0 skip:0 total:{cases}" in out


@needs_compiler
def test_the_governor_is_pure_decision_logic(tree: Path) -> None:
    main(["new", "lazy"])
    flags = ["-std=gnu11", "-O2", "-ffreestanding", "-fno-stack-protector", "-mgeneral-regs-only"]
    sh("gcc", *flags, "-c", "-o", "lazy.o", "governors/lazy/lazy.c")
    undefined = {line.split()[-1] for line in sh("nm", "-u", "lazy.o").stdout.splitlines()}
    assert undefined <= ENVIRONMENT
    defined = sh("nm", "-g", "--defined-only", "lazy.o").stdout.split()
    assert defined[2:] == ["lazy_policy"]


# Likely mistakes in a first governor, and the case that shows each.
MUTATIONS = [
    ("exit_latency_ns > query", "exit_latency_ns >= query", "the_latency_request_is_kept"),
    ("target_residency_ns > duration", "target_residency_ns >= duration", "the_timer_decides"),
    (">= machine->tick_ns", "> machine->tick_ns", "the_timer_decides"),
    ("!machine->states[c->index].polling &&", "", "caution_may_end_in_polling"),
    ("return query->tick_stopped;", "return true;", "polling_keeps_the_tick"),
    ("if (machine->states[c->index].polling)", "if (false)", "polling_keeps_the_tick"),
    ("if (!cil_disabled(query, i))", "", "disabled_states_are_avoided"),
    ("s->cut_short >= t->patience", "s->cut_short > t->patience", "early_wake_ups_make_cautious"),
    ("s->cut_short = 0;", ";", "early_wake_ups_make_cautious"),
    ("if (!query->tick_stopped && t->", "if (t->", "a_stopped_tick_forbids_caution"),
    ("return query->tick_stopped ||", "return", "a_stopped_tick_stays_stopped"),
    ("if (outcome->tick_wakeup)", "if (false)", "a_tick_wake_up_proves_nothing"),
    ("else if (s->cut_short < U32_MAX)", "else", "the_count_saturates"),
    ("query->delta_tick_ns", "CIL_TIME_MAX", "the_tick_limits_the_state"),
    ("memset(state, 0, ", "memset(state, 1, ", "the_timer_decides"),
    (".def = 3", ".def = 4", "people_see_what_is_there"),
]


@needs_compiler
@pytest.mark.parametrize(("old", "changed", "case"), MUTATIONS)
def test_its_cases_notice_mistakes(
    old: str, changed: str, case: str, tree: Path, runner: list[Path]
) -> None:
    main(["new", "lazy"])
    source = tree / "governors/lazy/lazy.c"
    text = source.read_text()
    assert old in text
    source.write_text(text.replace(old, changed))
    sources: list[str | Path] = [
        source,
        source.with_name("lazy_kunit.c"),
        *runner,
    ]
    sh("gcc", "-std=gnu11", "-Ikunit/include", "-o", "run-kunit", *sources)
    done = subprocess.run(["./run-kunit"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(rf"^ *not ok \d+ {case}$", done.stdout, re.MULTILINE), done.stdout


def test_nothing_of_the_template_is_left_over(tree: Path) -> None:
    main(["new", "lazy"])
    for path in (tree / "governors/lazy").iterdir():
        assert "skeleton" not in path.read_text().lower()
        assert "skeleton" not in path.name


def test_readme_has_the_headings_of_the_others(tree: Path) -> None:
    def headings(path: Path) -> list[str]:
        return re.findall(r"^## .*$", path.read_text(), re.MULTILINE)

    main(["new", "lazy"])
    assert headings(tree / "governors/lazy/README.md") == headings(
        tree / "governors/teo_ng/README.md"
    )


def test_works_from_any_directory_of_the_tree(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree / "governors/common")
    assert main(["new", "lazy"]) == 0
    assert (tree / "governors/lazy/lazy.c").exists()


@pytest.mark.parametrize(
    ("name", "words", "code"),
    [
        ("", "no C identifier", 2),
        ("Lazy", "no C identifier", 2),
        ("1st", "no C identifier", 2),
        ("_lazy", "no C identifier", 2),
        ("la-zy", "no C identifier", 2),
        ("../lazy", "no C identifier", 2),
        ("lazy\n", "no C identifier", 2),
        ("fäul", "no C identifier", 2),
        ("abcdefghijklmnop", "has 16 characters", 2),
        ("switch", "word of the C language", 2),
        ("menu", "the kernel has a governor 'menu'", 2),
        ("teo_ng", "there is a governor 'teo_ng' already", 1),
        ("gate", "another meaning", 2),
        ("common", "another meaning", 2),
        ("kunit", "another meaning", 2),
        ("cil_state", "another meaning", 2),
    ],
)
def test_names_that_cannot_be_used(
    name: str, words: str, code: int, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(tree)
    assert main(["new", name]) == code
    err = capsys.readouterr().err
    assert words in err
    assert err.startswith("cpuidle-lab: error: ")
    assert contents(tree) == before


@given(st.text(max_size=20))
def test_a_name_is_accepted_or_refused_with_a_sentence(name: str) -> None:
    try:
        new.check_name(name, ["teo_ng"])
    except UserError as error:
        assert error.message
    else:
        assert re.fullmatch(r"[a-z][a-z0-9_]{0,14}", name, re.ASCII)
        assert name.isidentifier()


def test_twice_is_refused(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["new", "lazy"])
    before = contents(tree)
    assert main(["new", "lazy"]) == 1
    assert "there is a governor 'lazy' already" in capsys.readouterr().err
    assert contents(tree) == before


def test_a_folder_in_the_way_is_kept(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "governors/lazy").mkdir()
    (tree / "governors/lazy/precious").write_text("mine")
    before = contents(tree)
    assert main(["new", "lazy"]) == 1
    assert "exists already" in capsys.readouterr().err
    assert contents(tree) == before


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("governors/governors.mk", "nothing\n", "CIL_GOVERNORS is not set"),
        ("governors/list.h", "nothing\n", "CIL_GOVERNORS(X) is not defined once"),
        ("governors/list.h", "#define CIL_GOVERNORS(X) \\\n\n", "does not end with an entry"),
        ("governors/list.h", "#define CIL_GOVERNORS(X) \\\n\tX(a, 253)\n", "no number left"),
        ("governors/common/reasons.h", "nothing\n", "CIL_REASONS(X) is not defined once"),
        (
            "governors/common/reasons.h",
            '#define CIL_REASONS(X) \\\n\tX(A, 250, "a")\n',
            "no reason numbers left",
        ),
    ],
)
def test_a_tree_that_is_not_understood_is_left_alone(
    name: str, text: str, words: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / name).write_text(text)
    before = contents(tree)
    assert main(["new", "lazy"]) == 1
    err = capsys.readouterr().err
    assert words in err
    assert Path(name).name in err
    assert contents(tree) == before


@pytest.mark.parametrize(
    ("name", "words"), [("list.h", "list.h is missing"), ("governors.mk", "governors.mk: no such")]
)
def test_a_missing_list_is_named(
    name: str, words: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "governors" / name).unlink()
    before = contents(tree)
    assert main(["new", "lazy"]) == 1
    assert words in capsys.readouterr().err
    assert contents(tree) == before


@pytest.mark.parametrize("fails", [1, 2, 3])
def test_a_failure_half_way_changes_nothing(
    fails: int, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(tree)
    replace = new._replace
    calls = 0

    def full_disk(path: Path, text: str) -> None:
        nonlocal calls
        calls += 1
        if calls == fails:
            raise OSError(28, "No space left on device")
        replace(path, text)

    monkeypatch.setattr(new, "_replace", full_disk)
    assert main(["new", "lazy"]) == 1
    assert contents(tree) == before
    assert not (tree / "governors/lazy").exists()


def test_elsewhere_a_source_tree_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command's own tree is left alone; a second governor joins the first."""
    before = contents(TOP / "governors")
    monkeypatch.chdir(tmp_path)
    assert main(["new", "lazy"]) == 0
    assert "next, in cpuidle-lab:" in capsys.readouterr().out
    assert main(["new", "eager", "--bpf"]) == 0
    made = tmp_path / "cpuidle-lab"
    assert project_governors(made)[-2:] == ["lazy", "eager"]
    assert {path.name for path in made.iterdir()} == set(new.SOURCES)
    assert contents(TOP / "governors") == before
    assert sh(made / "cpuidle-lab", "--version").stdout.startswith("cpuidle-lab ")
    assert [path.name for path in tmp_path.iterdir()] == ["cpuidle-lab"]


def test_a_directory_can_be_named(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    before, there = contents(tree), tmp_path_factory.mktemp("there")
    assert main(["new", "lazy", "--directory", str(there / "mine")]) == 0
    assert (there / "mine/governors/lazy/lazy.c").is_file()
    assert contents(tree) == before


@pytest.mark.parametrize("name", ["lazy", "la-zy"])
def test_what_is_no_source_tree_is_left_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cpuidle-lab").mkdir()
    (tmp_path / "cpuidle-lab" / "thesis").write_text("years")
    assert main(["new", name]) == 2
    assert main(["new", "la-zy", "--directory", "new"]) == 2
    assert contents(tmp_path) == {"cpuidle-lab/thesis": "years"}


def test_a_source_tree_is_what_the_package_has() -> None:
    (shipped,) = re.findall(r"^SHARED := (.*)$", (TOP / "Makefile").read_text(), re.MULTILINE)
    assert set(shipped.split()) == set(new.SOURCES)
