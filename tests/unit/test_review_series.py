# SPDX-License-Identifier: GPL-2.0
"""`review`: parts of a series, commits of a tree, and governors at a commit."""

import subprocess
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from cpuidle_lab.base.cache import CACHE
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.replay import build
from cpuidle_lab.review import base, mail, patch, steps
from cpuidle_lab.review.job import of_patch
from cpuidle_lab.states.linux_source import NEWEST
from tests.unit.reviewing import (
    OLD,
    SAME,
    TEO,
    cell,
    committed,
    diff,
    judged,
    kernels,
    mailed,
    needs_sources,
    written,
)

TWICE = OLD.replace("line 5;", "five;")
THRICE = TWICE.replace("line 30;", "thirty;")


def series_of(tmp_path: Path, *texts: str) -> Path:
    """Return a folder with the patches between texts."""
    folder = tmp_path / "series"
    folder.mkdir()
    for number, pair in enumerate(pairwise(texts), 1):
        subject = f"[PATCH {number}/{len(texts) - 1}] teo: One"
        written(folder, mailed(diff(*pair), subject), f"{number}.patch")
    return folder


def parts_of(folder: Path, split: str) -> list[tuple[str, str, str]]:
    """Return the column of each part, and the texts before and after it."""
    series = patch.read(folder)
    found = base.find(series, "9.1", {}, reverse=False)
    return [(one.column, one.base.before["teo.c"], one.base.after["teo.c"])
            for one in steps.of_series(series, found, split, reverse=False)]  # fmt: skip


def test_a_series_is_split_into_patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels(monkeypatch, {"9.1": OLD})
    folder = series_of(tmp_path, OLD, TWICE, THRICE)
    assert parts_of(folder, steps.EACH) == [("1", OLD, TWICE), ("2", TWICE, THRICE)]
    assert parts_of(folder, steps.WHOLE) == [("", OLD, THRICE)]


def test_single_hunks_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hunks of one patch, and those of two."""
    kernels(monkeypatch, {"9.1": OLD})
    other = OLD.replace("line 30;", "thirty;")
    wanted = [("all", OLD, THRICE), ("-1", OLD, other), ("-2", OLD, TWICE)]
    assert parts_of(series_of(tmp_path, OLD, THRICE), steps.HUNKS) == wanted
    inner = tmp_path / "two"
    inner.mkdir()
    assert parts_of(series_of(inner, OLD, TWICE, THRICE), steps.HUNKS) == wanted


def test_what_cannot_be_split_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels(monkeypatch, {"9.1": OLD})
    series = patch.read(series_of(tmp_path, OLD, TWICE))
    found = base.find(series, "9.1", {}, reverse=False)
    with pytest.raises(UserError, match="has one hunk"):
        steps.of_series(series, found, steps.HUNKS, reverse=False)
    with pytest.raises(UserError, match="not taken back"):
        steps.of_series(series, found, steps.EACH, reverse=True)


def test_commits_are_judged_together_and_one_by_one(tmp_path: Path) -> None:
    tree = committed(tmp_path, OLD)
    span = "HEAD~1..HEAD"
    thirty = OLD.replace("line 30;", "thirty;")
    for split, column in ((steps.WHOLE, ""), (steps.EACH, "1")):
        (one,) = steps.of_commits("mine", tree, span, split)
        assert (one.column, one.base.before["teo.c"], one.base.after["teo.c"]) == (
            column, OLD, thirty)  # fmt: skip
        assert one.base.changed == ["teo.c"]
    for bad in ("HEAD", "..HEAD", "no..HEAD", "-x..HEAD", "HEAD..HEAD"):
        with pytest.raises(UserError):
            steps.of_commits("mine", tree, bad, steps.WHOLE)


@needs_sources
def test_each_part_has_governors_of_its_own(tmp_path: Path) -> None:
    """A part that changes a comment of gov.h alone concerns menu and teo."""
    folder = CACHE / "linux-source" / NEWEST
    teo, header = ((folder / name).read_text() for name in ("teo.c", "gov.h"))
    texts = [diff(teo, teo.replace(*SAME)),
             diff(header, header.replace("#endif", "/* end */\n#endif"),
                  f"{patch.FOLDER}gov.h")]  # fmt: skip
    mails = [mailed(text, f"[PATCH {n}/2] teo: One") for n, text in enumerate(texts, 1)]
    path = written(tmp_path, "".join(mails))
    found = of_patch(path, NEWEST, {}, tmp_path / "tree", reverse=False, split=steps.EACH)
    told = [(one.column, one.labels[1].partition(" ")[0]) for one in found]
    assert told == [("1", "teo"), ("2", "menu"), ("2", "teo")]
    trees = [Path(side.partition("@")[2]) for side in (found[0].after, found[2].before)]
    assert found[0].before == f"teo@{NEWEST}" and found[0].after != found[2].after
    assert trees[0] != trees[1]
    assert len({(tree / TEO).read_text() for tree in trees}) == 1


def test_the_parts_are_columns_of_the_mail() -> None:
    found = [judged(column=str(n), after=f"teo with patch {n} of 6",
                    cells=[cell((10.0,), (10.0 + 5 * n,))]) for n in range(1, 7)]  # fmt: skip
    text = mail.text_of(found, "cpuidle-lab review x --each")
    lines = text.splitlines()
    rows = [line.split() for line in lines if line.startswith("  regret, %")]
    assert rows[0] == ["regret,", "%", "10", "15", "20", "25", "30"]
    assert rows[1] == ["regret,", "%", "10", "35", "40"]
    assert max(map(len, lines)) <= mail.WIDTH and len(lines) <= mail.LINES
    assert "means of all cells by part" not in mail.text_of([judged()], "cpuidle-lab review x")


def test_a_governor_of_a_commit_is_that_of_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sources are those of the commit; the headers that replay shares must be today's."""
    top = tmp_path / "top"
    header = top / "governors/common/policy.h"
    source = top / "governors/wteo/wteo.c"
    run = partial(subprocess.run, cwd=top, check=True, capture_output=True)
    for folder in (header.parent, source.parent):
        folder.mkdir(parents=True)
    run(["git", "init", "-q"])
    for text, interface in (("0\n", "old\n"), ("1\n", "new\n"), ("2\n", "new\n")):
        source.write_text(text)
        header.write_text(interface)
        run(["git", "add", "."])
        run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"])
    monkeypatch.setattr(build, "TOP", top)
    monkeypatch.setattr("cpuidle_lab.base.cache.CACHE", tmp_path / "cache")
    monkeypatch.setattr(build, "_own_sources", lambda *_: [])
    monkeypatch.setattr(build, "compile_own", lambda *_: None)
    folder = build.at_commit(build.LIBRARY, "HEAD~1")
    assert (folder / "wteo/wteo.c").read_text() == "1\n"
    for commit, said in (("HEAD~2", "headers of governors/common"), ("HEAD~9", "is no commit"),
                         ("--help", "is no commit")):  # fmt: skip
        with pytest.raises(UserError, match=said):
            build.at_commit(build.LIBRARY, commit)
