# SPDX-License-Identifier: GPL-2.0
"""A governor as a series for the kernel: its two forms decide alike, and git takes the series."""

import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.cli import main
from cpuidle_lab.commands import new
from cpuidle_lab.patch import equal, governor, layout, prune, series
from cpuidle_lab.patch.pieces import pieces
from cpuidle_lab.states.kernel_files import DOCUMENT, KCONFIG, MAKEFILE, KernelFiles

AUTHOR = "A. Name <name@example.org>"
GOVERNORS = TOP / "governors"
# A million is for the proof.
PERIODS = 50_000


@pytest.fixture(scope="module")
def wteo() -> governor.Emitted:
    return governor.emit(GOVERNORS, "wteo", AUTHOR)


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=A. Name", "-c", "user.email=name@example.org")
    done = subprocess.run(["git", "-C", folder, *who, *words], capture_output=True, text=True,
                          check=True)  # fmt: skip
    return done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a git tree with as much of a kernel as the series changes."""
    texts = {
        KCONFIG: "if CPU_IDLE\n\nconfig CPU_IDLE_GOV_HALTPOLL\n\tbool\n\nendif\n",
        MAKEFILE: "obj-$(CONFIG_CPU_IDLE_GOV_TEO) += teo.o\n"
        "obj-$(CONFIG_CPU_IDLE_GOV_HALTPOLL) += haltpoll.o\n",
        DOCUMENT: "Title\n=====\n\n.. _idle-states-representation:\n\nStates\n======\n",
    }
    for path, text in texts.items():
        file = tmp_path / "linux" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    git(tmp_path / "linux", "init", "-q")
    git(tmp_path / "linux", "add", ".")
    git(tmp_path / "linux", "commit", "-qm", "base")
    return tmp_path / "linux"


def patch(tree: Path | str, output: Path, *more: str, name: str = "wteo") -> int:
    return main(["patch", name, "--base", str(tree), "-o", str(output), "--author", AUTHOR,
                 "--no-evidence", "--periods", "0", *more])  # fmt: skip


# ---- The two forms ----


def test_both_forms_decide_alike(wteo: governor.Emitted) -> None:
    found = equal.compare("wteo", wteo.text, wteo.constants, PERIODS)
    assert found.periods >= PERIODS
    assert found.differ == 0, found.smallest


def test_a_form_that_parts_is_found(wteo: governor.Emitted) -> None:
    text = re.sub(r"(#define RARE_SHIFT\t+)7", r"\g<1>5", wteo.text)
    assert text != wteo.text
    found = equal.compare("wteo", text, wteo.constants, PERIODS, shrink_s=0.2)
    assert found.differ > 0
    assert found.smallest


def test_nothing_of_the_project_is_left(wteo: governor.Emitted) -> None:
    assert not re.search(r"cil_|CIL_|tunable|shadow|recorded|BPF|\bhint", wteo.text)
    assert max(len(line.expandtabs(8)) for line in wteo.text.splitlines()) <= 100


def test_each_definition_is_used(wteo: governor.Emitted) -> None:
    for piece in pieces(wteo.text):
        if piece.kind in ("macro", "type", "function"):
            assert len(re.findall(rf"\b{piece.name}\b", wteo.text)) > 1, piece.name


def test_a_changed_comment_with_other_words_is_found(tmp_path: Path) -> None:
    copy = tmp_path / "governors"
    shutil.copytree(GOVERNORS, copy)
    source = copy / "wteo" / "wteo.c"
    source.write_text(source.read_text().replace("tell both, see common/energy.h", "tell them"))
    with pytest.raises(UserError, match="has changed"):
        governor.emit(copy, "wteo")


def test_a_governor_of_new_is_carried_over(tmp_path: Path) -> None:
    copy = tmp_path / "tree"
    shutil.copytree(GOVERNORS, copy / "governors")
    new.create(copy, "mygov")
    made = governor.emit(copy / "governors", "mygov")
    assert made.constants == {"patience": 3}
    assert "cil_" not in made.text
    assert "reason" not in re.sub(r"/\*.*?\*/", "", made.text, flags=re.DOTALL)


# ---- The series ----


def test_git_takes_the_series(tree: Path, tmp_path: Path) -> None:
    series = tmp_path / "series"
    assert patch(tree, series) == 0
    letter, first, second = sorted(series.iterdir())
    assert "RAPL" in letter.read_text()
    assert f"Signed-off-by: {AUTHOR}" in first.read_text()
    git(tree, "am", "-q", str(first), str(second))
    assert "CONFIG_CPU_IDLE_GOV_WTEO) += wteo.o" in (tree / MAKEFILE).read_text()
    assert ":doc: wteo-description" in (tree / DOCUMENT).read_text()
    made = (tree / "drivers/cpuidle/governors/wteo.c").read_text()
    assert made.endswith('#include "wteo_kunit.c"\n#endif\n')


def test_a_tree_that_has_it_is_refused(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / MAKEFILE).write_text((tree / MAKEFILE).read_text() + "obj-y += wteo.o\n")
    git(tree, "commit", "-qam", "has it")
    assert patch(tree, tmp_path / "series") == 1
    assert "has a governor wteo already" in capsys.readouterr().err
    assert not (tmp_path / "series").exists()


def test_a_dirty_tree_is_refused(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / KCONFIG).write_text("if CPU_IDLE\n")
    assert patch(tree, tmp_path / "series") == 1
    assert "is dirty" in capsys.readouterr().err
    assert not (tmp_path / "series").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--author", "nameless"], "give the author"),
        (["--base", "/nowhere"], "no kernel tree and no series"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], said: str, tree: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert patch(tree, tmp_path / "series", *arguments) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "series").exists()


def test_evidence_about_another_governor_is_refused(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mail = tmp_path / "mail.txt"
    mail.write_text("cpuidle-lab review: teo@7.3 before, menu_ng after.\n")
    words = ["patch", "wteo", "--base", str(tree), "-o", str(tmp_path / "series"), "--author",
             AUTHOR, "--periods", "0", "--evidence", str(mail)]  # fmt: skip
    assert main(words) == 1
    assert "wteo comes after" in capsys.readouterr().err


def test_a_feature_that_the_kernel_lacks_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "tree"
    shutil.copytree(GOVERNORS, copy / "governors")
    new.create(copy, "mygov")
    source = copy / "governors/mygov/mygov.c"
    text = source.read_text()
    reads = "decision->index = machine->states[0].power_uw > 1;"
    source.write_text(text.replace("decision->index = (u8)c.index;", reads))
    with pytest.raises(UserError, match="reads the power of states"):
        governor.emit(copy / "governors", "mygov")


# ---- The parts ----


def test_calls_are_aligned_and_filled() -> None:
    code = "static int f(int a,\n    int b)\n{\n\treturn g(a,\n\t\t\tb);\n}"
    short = "static int f(int a, int b)\n{\n\treturn g(a, b);\n}"
    assert layout.filled(layout.aligned(code)) == short
    long = f"static int f(int {'a' * 40}, int {'b' * 40})"
    assert layout.filled(long) == f"static int f(int {'a' * 40},\n\t     int {'b' * 40})"


def test_stores_that_nothing_reads_go() -> None:
    text = (
        "struct s {\n\tint kept;\n\tint dead;\n};\n\n"
        "static int f(struct s *s, int unused)\n{\n\tint spare;\n\n\tif (s->kept) {\n"
        "\t\ts->dead = 1;\n\t\ts->kept = 2;\n\t}\n\treturn s->kept;\n}\n\n"
        "static int h(struct s *s)\n{\n\treturn f(s, 3);\n}\n"
    )
    made = "\n".join(one.code for one in prune.prune(list(pieces(text)), ["h"], ""))
    assert "dead" not in made
    assert "if (s->kept)\n\t\ts->kept = 2;\n" in made
    assert "spare" not in made
    assert "return f(s);" in made


# ---- The document ----


def mails_of_document() -> list[str]:
    """Return the mails that docs/mainline.md shows."""
    text = (TOP / "docs" / "mainline.md").read_text(encoding="utf-8")
    section = text.partition("## The mails as sent\n")[2].partition("\n| reviewers")[0]
    blocks = re.findall(r"(?m)(?:^    .*\n|^\n(?=    ))+", section)
    return [textwrap.dedent(block).strip() for block in blocks]


def test_the_document_has_the_mails_of_the_command(wteo: governor.Emitted) -> None:
    letter, *patches = mails_of_document()
    evidence = letter[letter.index("cpuidle-lab review: ") :]
    (origin,) = re.findall(r"It applies to (\S+\s+\S+)\.\n", letter)
    base = KernelFiles(" ".join(origin.split()), {})
    body = series.cover(wteo, base, evidence)
    assert letter == f"Subject: [PATCH 0/2] cpuidle: Add the wteo governor\n\n{body}"
    messages = series._messages(wteo, series.author_of(AUTHOR))
    for n, (mail, message) in enumerate(zip(patches, messages, strict=True), 1):
        assert mail.startswith(f"Subject: [PATCH {n}/2] {message}---\n")
    lines = wteo.text.count("\n")
    assert f"{lines + 1} ++" in patches[0] or f"{lines} ++" in patches[0]
