# SPDX-License-Identifier: GPL-2.0
"""`review`: patches read and applied, streams, small witnesses, verdicts, and foreign code."""

import difflib
import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from cpuidle_lab.base.cache import CACHE
from cpuidle_lab.base.errors import USAGE, UserError
from cpuidle_lab.cli import main
from cpuidle_lab.recording.columns import opened
from cpuidle_lab.replay import build, law
from cpuidle_lab.replay.candidates import candidate
from cpuidle_lab.replay.engine import counterfactual
from cpuidle_lab.review import (
    bare,
    base,
    cases,
    contract,
    job,
    mail,
    patch,
    result,
    sanitizers,
    steps,
    walk,
)
from cpuidle_lab.review.confined import Confined
from cpuidle_lab.review.effect import FIGURES, FigureChange
from cpuidle_lab.review.hunt import Judge, evolve
from cpuidle_lab.review.job import of_patch
from cpuidle_lab.review.play import Box, Pair
from cpuidle_lab.review.result import EXIT_WORSE, ReviewResult
from cpuidle_lab.review.shrink import Shrinker, within
from cpuidle_lab.review.space import Space, fitted, plausible
from cpuidle_lab.review.stream import Spec, columns_of, of_spec, slack_of, spec_of, table_of
from cpuidle_lab.review.sweep import RULES
from cpuidle_lab.states.linux_source import NEWEST
from experiments.cases import schema
from experiments.cases.case import kernel_is_there
from tests.unit.synthetic import demo

TEO = f"{patch.FOLDER}teo.c"
OLD = "".join(f"line {number};\n" for number in range(1, 41))
needs_sources = pytest.mark.skipif(
    not kernel_is_there(NEWEST), reason=f"the sources of {NEWEST} are not in build/cache"
)
SPEC: Spec = {
    "tick_hz": 250,
    "states": [["POLL*", 0, 0], ["C1", 1, 1], ["C6", 133, 600]],
    "phases": [{"count": 3, "wake_us": 20, "timer_us": 1000}, {"count": 1, "timer_us": 20_000}],
    "repeat": 5,
}


def diff(old: str, new: str, path: str = TEO) -> str:
    """Return a patch of a file."""
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    return "".join(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}"))


def mailed(text: str, subject: str) -> str:
    """Return a patch as a mail of a mailbox."""
    return (
        f"From 0123456789abcdef Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\n"
        f"Subject: {subject}\nMessage-ID: <1@example.org>\n\nWhy.\n---\n{text}-- \n2.47\n\n"
    )


def written(tmp_path: Path, text: str, name: str = "one.patch") -> Path:
    """Return a file with a text."""
    path = tmp_path / name
    path.write_text(text)
    return path


# ---- Patches ----


def test_a_patch_applies_at_another_place_and_in_reverse(tmp_path: Path) -> None:
    new = OLD.replace("line 20;", "line twenty;")
    series = patch.read(written(tmp_path, diff(OLD, new)))
    moved = "more;\n" * 7 + OLD
    applied = patch.apply(series, {"teo.c": moved})
    assert applied.files["teo.c"] == "more;\n" * 7 + new
    assert applied.notes == () and applied.misfit is None
    assert patch.apply(series, {"teo.c": new}, reverse=True).files["teo.c"] == OLD


def test_the_nearest_place_is_taken(tmp_path: Path) -> None:
    """The same lines stand twice; the patch is for the second, three lines further up."""
    series = patch.read(written(tmp_path, diff(OLD * 2, OLD + OLD.replace("line 20;", "20;"))))
    moved = "more;\n" * 3
    applied = patch.apply(series, {"teo.c": moved + OLD * 2})
    assert applied.files["teo.c"] == moved + OLD + OLD.replace("line 20;", "20;")


def test_fuzz_is_said_and_keeps_the_lines_of_the_file(tmp_path: Path) -> None:
    series = patch.read(written(tmp_path, diff(OLD, OLD.replace("line 20;", "line twenty;"))))
    other = OLD.replace("line 17;", "another line;")
    applied = patch.apply(series, {"teo.c": other})
    assert applied.files["teo.c"] == other.replace("line 20;", "line twenty;")
    assert applied.notes == ("teo.c hunk 1: fuzz 1",)


def test_a_hunk_that_does_not_fit_is_named(tmp_path: Path) -> None:
    new = OLD.replace("line 5;", "five;").replace("line 30;", "thirty;")
    series = patch.read(written(tmp_path, diff(OLD, new)))
    misfit = patch.apply(series, {"teo.c": OLD.replace("line 30;", "other;")}).misfit
    assert misfit is not None
    assert str(misfit) == "teo.c, hunk 2 (line 27)"
    assert (misfit.applied, misfit.total) == (1, 2)


def test_a_series_is_put_in_order(tmp_path: Path) -> None:
    middle = OLD.replace("line 20;", "line twenty;")
    last = middle.replace("line twenty;", "the end;")
    both = [mailed(diff(middle, last), "[PATCH v2 2/2] teo: Two"),
            mailed(diff(OLD, middle), "[PATCH v2 1/2] teo: One")]  # fmt: skip
    series = patch.read(written(tmp_path, "".join(both)))
    assert [one.number for one in series] == [1, 2]
    assert patch.apply(series, {"teo.c": OLD}).files["teo.c"] == last
    assert patch.apply(series, {"teo.c": last}, reverse=True).files["teo.c"] == OLD


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: "", "holds no patch"),
        (lambda p: mailed("", "[PATCH 0/2] cover"), "holds no patch"),
        (lambda p: diff("a;\n", "b;\n", "mm/slab.c"), "changes nothing in drivers/cpuidle"),
        (lambda p: mailed(p, "[PATCH 2/3] a") + mailed(p, "[PATCH 3/3] b"), "1 of 3 is missing"),
        (lambda p: mailed(p, "[PATCH 1/1] a") + mailed(p, "[PATCH 1/1] b"), "is there twice"),
        (lambda p: p[: p.index("-line 20;")], "is damaged or ends too early"),
    ],
    ids=["empty", "cover", "elsewhere", "missing", "twice", "cut"],
)
def test_bad_patches_are_one_sentence(
    tmp_path: Path, make: Callable[[str], str], words: str
) -> None:
    text = make(diff(OLD, OLD.replace("line 20;", "line twenty;")))
    with pytest.raises(UserError, match=words):
        patch.read(written(tmp_path, text))


def kernels(monkeypatch: pytest.MonkeyPatch, texts: Mapping[str, str]) -> None:
    """Let the packaged kernels have such texts of teo.c."""
    monkeypatch.setattr(base, "PACKAGED", tuple(texts))
    monkeypatch.setattr(base, "files_of", lambda kernel, _: {"teo.c": texts[kernel], "menu.c": ""})


def test_the_base_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near = OLD.replace("line 17;", "another line;")
    kernels(monkeypatch, {"9.3": "nothing\n", "9.2": near, "9.1": OLD})
    series = patch.read(written(tmp_path, diff(OLD, OLD.replace("line 20;", "line twenty;"))))
    found = base.find(series, "", {}, reverse=False)
    assert (found.kernel, found.notes, found.changed) == ("9.1", (), ["teo.c"])


def test_the_nearest_kernel_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = OLD.replace("line 20;", "line twenty;")
    kernels(monkeypatch, {"9.2": new, "9.1": OLD})
    series = patch.read(written(tmp_path, diff(OLD, new)))
    with pytest.raises(UserError) as error:
        base.find(series, "9.2", {}, reverse=False)
    assert error.value.message == (
        "teo.c, hunk 1 (line 17) does not apply to 9.2; it does with --reverse; it applies to 9.1"
    )


def test_a_tree_of_others_is_kept(tmp_path: Path) -> None:
    base.write({"teo.c": OLD}, tmp_path / "ours")
    base.write({"teo.c": "new\n"}, tmp_path / "ours")
    theirs = tmp_path / "theirs" / patch.FOLDER
    theirs.mkdir(parents=True)
    (theirs / "teo.c").write_text(OLD)
    with pytest.raises(UserError, match="was not written by review"):
        base.write({"teo.c": "new\n"}, tmp_path / "theirs")
    assert (theirs / "teo.c").read_text() == OLD


# ---- Code alone, and the past ----

BLOCK = """\
int one(int a)
{
	/* A word on the first. */
	a += 1;
	a += 2;	/* the second */

	/*
	* A comment of
	* several lines.
	*/
	if (a > 3)
		return 4;
	a *= 5;
	*&a = 6;
	return a;
}
"""


def dated(old: str, new: str, subject: str, day: int) -> patch.Patch:
    """Return a patch of a day, as of a mail."""
    mail = f"Date: {day} Nov 2025 12:00:00 +0000\nMessage-ID: <{subject}>\n" + mailed(
        diff(old, new), subject
    ).partition("\n")[2].replace("Message-ID: <1@example.org>\n", "")
    return patch.parse(mail.encode(), subject)


def test_a_patch_applies_to_the_code_where_comments_differ(tmp_path: Path) -> None:
    new = BLOCK.replace("A word", "Words").replace("a *= 5;", "a *= 7;")
    series = patch.read(written(tmp_path, diff(BLOCK, new)))
    other = BLOCK.replace("A word on", "Another about").replace("several lines", "some")
    other = other.replace("a += 2;", "a += 2;\n\tb();")
    applied = patch.apply(series, {"teo.c": other})
    assert applied.misfit is None and applied.bare == ("teo.c",)
    assert applied.notes == ("teo.c: on the code without its comments",)
    lines = applied.files["teo.c"].splitlines()
    assert [line.strip() for line in lines[2:]] == [
        "a += 1;", "a += 2;", "b();", "if (a > 3)", "return 4;", "a *= 7;", "*&a = 6;", "return a;",
        "}"]  # fmt: skip
    assert patch.apply(series, {"teo.c": other}, code=False).misfit is not None
    before, after = patch.alike({"teo.c": other}, applied.files)
    assert before["teo.c"] == after["teo.c"].replace("a *= 7;", "a *= 5;")


def test_code_that_stands_twice_is_no_place(tmp_path: Path) -> None:
    new = BLOCK.replace("A word", "Words").replace("a *= 5;", "a *= 7;")
    series = patch.read(written(tmp_path, diff(BLOCK, new)))
    other = BLOCK.replace("A word on", "Another about")
    assert patch.apply(series, {"teo.c": other * 2}).misfit is not None


def test_the_mails_lead_back_to_a_patch() -> None:
    """Two patches were merged, the second with another comment; a third one was not."""
    texts = [BLOCK, BLOCK.replace("a += 1;", "a += 10;")]
    texts.append(texts[1].replace("a *= 5;", "a *= 50;").replace("several", "many"))
    now = texts[2].replace("many lines", "few lines")
    mails = [dated(texts[1], texts[2], "[PATCH] teo: Two", 3),
             dated(texts[1], texts[1].replace("+= 2", "+= 20"), "[PATCH] teo: Three", 2),
             dated(texts[0], texts[1], "[PATCH v2] teo: One", 1)]  # fmt: skip
    steps = list(walk.back({"teo.c": now}, mails))
    assert [[walk.title(one) for one in step.taken] for step in steps] == [
        [], ["teo: two"], ["teo: two", "teo: one"]]  # fmt: skip
    found = walk.place([mails[0]], mails, {"9.1": steps})
    assert found is not None and (found.taken, found.kernel) == ((), "9.1")
    assert bare.code(found.before["teo.c"]) == bare.code(texts[1])
    assert bare.code(found.after["teo.c"]) == bare.code(texts[2])
    third = walk.place([mails[1]], mails, {"9.1": steps})
    assert third is not None and [one.subject for one in third.taken] == ["[PATCH] teo: Two"]
    assert "a += 20;" in third.after["teo.c"] and "a *= 5;" in third.after["teo.c"]
    back = base.walked(third, reverse=True)
    assert (back.before, back.after) == (third.after, third.before)


def test_a_patch_waits_until_its_function_is_unused() -> None:
    """The helper was sent last, and merged before the patch that uses it, too."""
    helper = "static void add(int *a)\n{\n\t*a += 1;\n}\n\n"
    first = helper + BLOCK.replace("a += 2;", "add(&a);")
    now = first.replace("a *= 5;", "add(&a);")
    mails = [dated(BLOCK, first, "[PATCH] teo: Add a helper", 3),
             dated(first, now, "[PATCH] teo: Use the helper", 1)]  # fmt: skip
    last = list(walk.back({"teo.c": now}, mails))[-1]
    assert [walk.title(one) for one in last.taken] == ["teo: use the helper", "teo: add a helper"]
    assert last.files["teo.c"] == BLOCK


def test_a_patch_within_a_series_gets_those_before_it() -> None:
    texts = [BLOCK, BLOCK.replace("a += 1;", "a += 10;")]
    texts.append(texts[1].replace("a += 10;", "a += 11;"))
    mails = [dated(texts[1], texts[2], "[PATCH v1 2/2] teo: Two", 1),
             dated(texts[0], texts[1], "[PATCH v1 1/2] teo: One", 1)]  # fmt: skip
    found = walk.place([mails[0]], mails, {"9.1": list(walk.back({"teo.c": BLOCK}, mails))})
    assert found is not None and [one.number for one in found.added] == [1]
    assert (found.before["teo.c"], found.after["teo.c"]) == (texts[1], texts[2])


def test_mails_for_stable_kernels_and_without_patches_are_passed_over(tmp_path: Path) -> None:
    text = diff(BLOCK, BLOCK.replace("a += 1;", "a += 10;"))
    subjects = ["[PATCH v1.1 4/5] teo: A", "[PATCH AUTOSEL 6.1 1/9] teo: A", "Re: [PATCH] teo: A",
                "[PATCH 6.1.y] teo: A"]  # fmt: skip
    for number, subject in enumerate(subjects):
        body = "> quoted\n" if subject.startswith("Re") else text
        written(tmp_path, mailed(body, subject), f"{number}.eml")
    written(tmp_path, "\x00binary", "junk")
    written(tmp_path, mailed(text.replace("@@ -1", "@@ -1,99"), "[PATCH] teo: bad"), "bad.eml")
    assert [one.subject for one in walk.read(tmp_path)] == subjects[:1]


def test_a_kernel_that_has_the_patch_is_no_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines would go in a second time."""
    old = "same;\n" * 9
    new = "same;\n" * 6 + "new;\n" + "same;\n" * 12
    kernels(monkeypatch, {"9.1": new})
    series = patch.read(written(tmp_path, diff(old, old[:30] + "new;\n" + old[30:])))
    with pytest.raises(UserError, match="it does with --reverse"):
        base.find(series, "", {}, reverse=False)


def committed(tmp_path: Path, text: str) -> Path:
    """Return a git tree whose first commit has a text of teo.c, and whose last has none of it."""
    tree = tmp_path / "linux"
    folder = tree / patch.FOLDER
    folder.mkdir(parents=True)
    run = partial(subprocess.run, cwd=tree, check=True, capture_output=True)
    run(["git", "init", "-q"])
    for one in (text, text.replace("line 30;", "thirty;")):
        (folder / "teo.c").write_text(one)
        (folder / "menu.c").write_text("")
        run(["git", "add", "."])
        run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"])
    return tree


def indexed(old: str, new: str) -> str:
    """Return a patch with the hash of its base."""
    data = old.encode()
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return f"diff --git a/{TEO} b/{TEO}\nindex {blob[:12]}..000000000000 100644\n{diff(old, new)}"


def test_the_blobs_of_a_tree_are_the_base(tmp_path: Path) -> None:
    tree = committed(tmp_path, OLD)
    text = indexed(OLD, OLD.replace("line 31;", "31;"))
    series = patch.read(written(tmp_path, text))
    found = base.find(series, "", {"mine": tree}, reverse=False)
    assert (found.kernel, found.how) == ("mine", "the blobs of its index lines")
    assert found.before["teo.c"] == OLD and found.made


def test_a_patch_is_merged_by_the_blobs_of_a_tree(tmp_path: Path) -> None:
    """Its context is changed at each side, farther than fuzz goes."""
    old = OLD.replace("line 20;", "line 20;\nline 20;\nline 20;")
    tree = committed(tmp_path, old)
    now = (tree / TEO).read_text()
    text = indexed(old, old.replace("line 34;", "34;"))
    series = patch.read(written(tmp_path, text))
    found = base.find(series, "mine", {"mine": tree}, reverse=False)
    assert found.after["teo.c"] == now.replace("line 34;", "34;")
    (tree / TEO).write_text(now.replace("line 34;", "other;"))
    with pytest.raises(UserError, match="does not apply to mine"):
        base.find(series, "mine", {"mine": tree}, reverse=False)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["no-such.patch"], USAGE, "there is no such patch"),
        (["teo@7.2", "teo@7.3", "--base", "7.3"], USAGE, "are for a patch"),
        (["a", "b", "c"], USAGE, "a patch, two governors"),
        ([], USAGE, "a patch, two governors"),
        (["teo@7.2", "teo@7.3", "--each"], USAGE, "are for a patch"),
        (["--commits", "A..B"], USAGE, "takes one --tree"),
        (["--tree", "x=.", "--commits", "A..B"], 1, "git knows no A..B there"),
        (["teo@x", "teo@y", "--tree", "x=/nowhere"], USAGE, "is no LABEL=PATH"),
        (["empty.patch"], 1, "holds no patch"),
    ],
)
def test_bad_words_leave_nothing(
    words: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "", "empty.patch")
    assert main(["review", *words, "-o", "out"]) == code
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_base_that_is_none_is_wrong_usage() -> None:
    with pytest.raises(UserError) as error:
        base.find([], "nonsense", {}, reverse=False)
    assert error.value.exit_code == USAGE


# ---- Parts of a series, and commits ----

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


# ---- Streams ----


def test_a_spec_is_played_as_its_case() -> None:
    text = cases.case(SPEC, "A title", "Why?", ["teo@7.2"])
    case = schema.parse(text, "one")
    stream = case.streams["found"]
    longest = int(of_spec(SPEC).length_ns.max())
    played = law.intervals(stream.phases, stream.repeat, "one found", 3,
                           slack_ns=slack_of(case.machine, longest))  # fmt: skip
    ours = columns_of(of_spec(SPEC))
    assert case.machine == table_of(SPEC)
    assert all(np.array_equal(ours[name], column) for name, column in played.items())


def test_the_condition_of_a_spec_is_in_its_case() -> None:
    spec = {**SPEC, "tick_stopped": True, "latency_req_us": 5, "disabled": ["C1"], "skip": 4}
    case = schema.parse(cases.case(spec, "A title", "Why?", ["teo@7.2"]), "one")
    assert case.disabled == 0b10 and case.cells[0].latency_req_us == 5
    assert case.streams["found"].tick_stopped and case.streams["found"].skip == 4


def test_intervals_become_a_spec_and_again_intervals() -> None:
    stream = of_spec({**SPEC, "tick_stopped": True, "disabled": ["C6"]})
    again = of_spec(spec_of(stream, stream.count))
    for name, column in columns_of(stream).items():
        assert np.array_equal(columns_of(again)[name], column), name


def test_what_is_drawn_depends_on_the_seed_alone() -> None:
    first, second, other = Space(1), Space(1), Space(2)
    drawn = [first.fresh() for _ in range(20)]
    assert drawn == [second.fresh() for _ in range(20)]
    assert drawn != [other.fresh() for _ in range(20)]
    changed = [first.near(spec) for spec in drawn]
    assert changed == [second.near(spec) for spec in drawn]
    for spec in filter(plausible, (*drawn, *changed)):
        assert len(of_spec(fitted(spec)).length_ns) >= 16


def test_a_spec_gets_small() -> None:
    """Only a long interval behind three short ones matters here, on two states."""
    spec = {**SPEC, "tick_stopped": True, "phases": SPEC["phases"] * 6 + [
        {"count": 1, "wake_us": 4321.0, "timer_us": 7000}]}  # fmt: skip

    def good(one: Spec) -> bool:
        lengths = of_spec(one).length_ns
        return len(one["states"]) > 1 and bool((lengths > 3_000_000).any()) and len(lengths) > 3

    small = Shrinker(good, within(20)).shrink(spec)
    assert good(small)
    assert small["states"] == [["POLL*", 0, 0], ["C1", 1, 1]] or len(small["states"]) == 2
    assert sum(phase["count"] for phase in small["phases"]) <= 4
    assert "tick_stopped" not in small


class Scored(Judge):
    """A judge whose scores are given: -inf where nothing differs.

    Args:
        worth: score of a spec with a seed.
    """

    def __init__(self, worth: Callable[[Spec, int], float]) -> None:
        self.least, self._worth = 1.0, worth

    def score(self, spec: Spec, seed: int = 1, times: int = 1, *, nothing: float = 0.0) -> float:
        """Return the given score."""
        found = self._worth(spec, seed)
        return nothing if found == -np.inf else found


FIXED: Spec = {"tick_hz": 250, "states": [["C1", 1, 1], ["C2", 10, 20], ["C6", 133, 600]],
               "phases": [{"count": 3, "wake_us": 40}, {"count": 1, "timer_us": 20_000},
                          {"count": 2, "wake_us": 900}]}  # fmt: skip


def test_a_small_witness_keeps_its_effect() -> None:
    """Each phase adds to the harm; two of three would keep most of it, and are no harm."""
    judge = Scored(lambda spec, _: 0.4 * len(spec["phases"]))
    small = judge.small(FIXED, within(20))
    assert small is not None
    assert len(small["phases"]) == 3 and len(small["states"]) == 2


@pytest.mark.parametrize("score", [-3.0, 0.0, 0.9])
def test_a_harm_that_its_figures_do_not_show_is_no_witness(score: float) -> None:
    judge = Scored(lambda _, seed: score if seed == 5 else 10.0)
    assert judge.small(FIXED, within(20)) is None


def test_the_search_stays_where_something_differs() -> None:
    """The harm grows with the latency request, which only the start has, and its neighbours."""
    judge = Scored(lambda spec, _: spec["phases"][0]["count"] if "latency_req_us" in spec
                   else -np.inf)  # fmt: skip
    left = iter(range(300))
    found = evolve(judge, Space(1), lambda: next(left, None) is not None,
                   [{**FIXED, "latency_req_us": 5}])  # fmt: skip
    assert len(found) > 10 and all("latency_req_us" in spec for _, spec in found)
    assert found[0][0] > 3 * FIXED["phases"][0]["count"]


# ---- Verdicts ----


def judged(**changes: Any) -> ReviewResult:
    """Return a result in which decisions differ."""
    sweep = {"total": {"periods": 1000, "differ": 10}, "complete": True, "broken": {},
             "kinds": {"law bursts": {"periods": 100, "differ": 10}}}  # fmt: skip
    found = ReviewResult("teo@7.3", "teo with the patch", {"regret": 2, "p99": 0}, sweep=sweep)
    return replace(found, **changes)


def cell(
    before: tuple[float, ...], after: tuple[float, ...], figure: str = "regret"
) -> FigureChange:
    """Return a figure."""
    return FigureChange("skx, poisson-1ms", figure, before, after, 3000)


@pytest.mark.parametrize(
    ("changes", "verdict", "code"),
    [
        ({}, "same", 0),
        ({"cells": [cell((10, 11, 12), (20, 21, 22))]}, "worse", EXIT_WORSE),
        ({"cells": [cell((20, 21, 22), (10, 11, 12))]}, "better", 0),
        ({"cells": [cell((10, 11, 12), (20, 21, 13))]}, "same", 0),
        ({"cells": [cell((10, 10, 10), (11.9, 11.9, 11.9))]}, "same", 0),
        ({"cells": [cell((1, 1, 1), (9, 9, 9), "above")]}, "same", 0),
        ({"cells": [cell((1,), (9,)), cell((9,), (1,))]}, "mixed", EXIT_WORSE),
        ({"died": {"verdict": "crashes (SIGSEGV)", "spec": None}}, "worse", EXIT_WORSE),
        ({"contract": [{"rule": "r", "held": False, "held_before": True}]}, "worse", EXIT_WORSE),
        ({"contract": [{"rule": "r", "held": False, "held_before": False}]}, "same", 0),
        ({"sweep": {}}, "not judged", 1),
    ],
)
def test_verdicts(changes: dict[str, Any], verdict: str, code: int) -> None:
    found = judged(**changes)
    assert (found.verdict, found.exit_code) == (verdict, code)


def test_limits() -> None:
    assert result.limits_of("regret=3, p99=10") == {"regret": 3, "p99": 10}
    for text in ("regret", "above=1", "regret=much"):
        with pytest.raises(UserError):
            result.limits_of(text)


def test_a_mail_is_narrow_and_short() -> None:
    figures = {"regret": 1e4, "power_mw": 312.0, "latency_us": 3.0, "p99_us": 1.0,
               "ticks_per_s": 2.0, "shallowest": 1.0}  # fmt: skip
    witness = {"objective": "power", "score": 12.0, "spec": {**SPEC, "phases": SPEC["phases"] * 9},
               "before": figures, "after": figures, "real": ["pepc:genoa0", 8.0]}  # fmt: skip
    cells = [cell((10.0 + n, 11.0), (20.0 + n, 30.0)) for n in range(40)]
    searched = {"evaluations": 9, "by_chance": 1}
    found = judged(cells=cells, harm=[witness] * 3, gain=[witness] * 3, searched=searched,
                   checkers=["new: x" * 40])  # fmt: skip
    lines = mail.text_of([found, found], "cpuidle-lab review " + "teo@7.3 " * 20).splitlines()
    assert max(map(len, lines)) <= mail.WIDTH
    assert len(lines) <= mail.LINES
    assert any("are modelled" in line for line in lines)
    assert lines[-2].endswith("\\") and "teo@7.3" in lines[-1]


# ---- Foreign code: patches of our own to Debian's teo.c ----

SAME = ("2 * idx_intercept_sum > cpu_data->total",
        "idx_intercept_sum + idx_intercept_sum > cpu_data->total")  # fmt: skip
NEVER_SHALLOWER = ("if (2 * idx_intercept_sum > cpu_data->total - idx_hit_sum) {", "if (0) {")
NO_REQUEST = ("\tif (idx > constraint_idx)\n\t\tidx = constraint_idx;\n", "")
ENDLESS = ("\ts64 duration_ns;\n\tint i;\n\n\tif (dev->last",
           "\ts64 duration_ns;\n\tint i;\n\n\twhile (drv->state_count > 4)\n\t\tidx0++;\n"
           "\tif (dev->last")  # fmt: skip
MISSING = ("\tcpu_data->sleep_length_ns = KTIME_MAX;\n",
           "\tcpu_data->sleep_length_ns = sched_nowhere(dev->cpu);\n")  # fmt: skip
BROKEN = ("\ts64 duration_ns;\n\tint i;\n", "\ts64 duration_ns\n\tint i;\n")

Edit = tuple[str, str]


def changed(tmp_path: Path, edits: Sequence[Edit]) -> Path:
    """Return a patch of ours to the newest teo.c."""
    old = new = (CACHE / "linux-source" / NEWEST / "teo.c").read_text()
    for edit in edits:
        assert new.count(edit[0]) == 1
        new = new.replace(*edit)
    return written(tmp_path, diff(old, new))


def reviewed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], budget: str, *edits: Edit
) -> tuple[int, dict[str, Any], str]:
    """Return exit code, JSON and messages of a short review."""
    file = changed(tmp_path, edits)
    code = main(["review", str(file), "--base", NEWEST, "--budget", budget, "--periods", "40000",
                 "-o", str(tmp_path / "out"), "--json"])  # fmt: skip
    told = capsys.readouterr()
    return code, json.loads(told.out) if told.out else {}, told.err


@needs_sources
def test_no_change_is_called_no_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told, _ = reviewed(tmp_path, capsys, "3s", SAME)
    assert (code, told["verdict"], told["same"]) == (0, "same", True)
    assert told["compared"]["periods"] >= 40_000 and told["applies"]


@needs_sources
def test_a_bad_patch_is_caught(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told, _ = reviewed(tmp_path, capsys, "12s", NEVER_SHALLOWER, NO_REQUEST)
    assert code == EXIT_WORSE and not told["same"]
    broken = [one["rule"] for one in told["contract"] if not one["held"] and one["held_before"]]
    assert RULES["latency"] in broken
    shown = {one["rule"]: one["case"] for one in told["contract"]}
    assert shown[RULES["latency"]]["latency_req_us"] <= 50
    assert told["counterexample"]["intervals"] <= 20 and told["counterexample"]["states"] <= 4
    assert told["harm"] and told["harm"][0]["after"]["regret"] > told["harm"][0]["before"]["regret"]
    case = schema.read(Path(told["counterexample"]["file"]))
    assert [one.governor for one in case.cells] == [f"teo@{NEWEST}", "teo@patched"]
    lines = (tmp_path / "out/mail.txt").read_text().splitlines()
    assert max(map(len, lines)) <= mail.WIDTH and len(lines) <= mail.LINES


@needs_sources
def test_an_endless_loop_is_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cpuidle_lab.review.confined._CPU_S", 1.0)
    code, told, _ = reviewed(tmp_path, capsys, "3s", ENDLESS)
    assert code == EXIT_WORSE
    assert told["died"]["verdict"] == "loops for ever"
    spec = told["died"]["spec"]
    assert len(spec["states"]) == 5 and sum(phase["count"] for phase in spec["phases"]) == 1


@needs_sources
@pytest.mark.parametrize(
    ("edit", "words"),
    [(MISSING, "the stand-in for the kernel has no sched_nowhere()"), (BROKEN, "do not compile")],
    ids=["symbol", "syntax"],
)
def test_what_does_not_compile_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], edit: Edit, words: str
) -> None:
    code, told, error = reviewed(tmp_path, capsys, "3s", edit)
    assert (code, told) == (1, {})
    assert words in error and error.count("\n") == 1


@needs_sources
def test_a_header_changes_its_governors(tmp_path: Path) -> None:
    old = (CACHE / "linux-source" / NEWEST / "gov.h").read_text()
    text = diff(old, old.replace("#endif", "/* end */\n#endif"), f"{patch.FOLDER}gov.h")
    found = of_patch(written(tmp_path, text), NEWEST, {}, tmp_path / "tree", reverse=False)
    assert [one.labels[0] for one in found] == [f"menu@{NEWEST}", f"teo@{NEWEST}"]
    assert yaml.safe_load(cases.case(SPEC, "t", "w", found[0].words))["cells"]


# ---- Sanitizers ----

UBSAN_SAID = """\
/build/x/linux-source/7.3/teo.c:12:3: runtime error: signed integer overflow: 1 + 2 cannot be
/build/x/native/replay/play.c:9:1: runtime error: division by zero
"""
VALGRIND_SAID = """\
==7== Memcheck, a memory error detector
==7==
==7== Conditional jump or move depends on uninitialised value(s)
==7==    at 0x10A2B3: rp_play (play.c:90)
==7==    by 0x10A2B4: main (main.c:88)
==7==
==7== Conditional jump or move depends on uninitialised value(s)
==7==    at 0x10A2B3: rp_play (play.c:91)
==7==  Uninitialised value was created by a stack allocation
==7==    at 0x10A2B4: teo_select (teo.c:280)
==7==
==7== ERROR SUMMARY: 2 errors from 2 contexts (suppressed: 0 from 0)
"""


def test_errors_of_the_governor_alone_are_told() -> None:
    files = {"teo.c", "gov.h"}
    assert sanitizers.overflows(UBSAN_SAID, files) == [
        "teo.c:12: signed integer overflow: 1 + 2 cannot be"]  # fmt: skip
    assert sanitizers.unset(VALGRIND_SAID, files) == [
        "teo.c:280: Conditional jump or move depends on uninitialised value(s)"]  # fmt: skip
    assert sanitizers.unset(VALGRIND_SAID, {"menu.c"}) == []


def test_a_sanitizer_that_is_not_there_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    found = sanitizers.examine(None)  # type: ignore[arg-type]
    assert found["rules"] == [] and len(found["skipped"]) == 2
    assert "valgrind is not installed" in found["skipped"][1]


REQUEST = "\tif (idx > constraint_idx)\n\t\tidx = constraint_idx;\n"
OVERFLOWS = (REQUEST, REQUEST + "\tif ((int)(drv->states[idx].target_residency_ns >> 20) * 4096"
             " == idx)\n\t\tidx = 0;\n")  # fmt: skip
UNSET = ("\ts64 duration_ns;\n\tint i;\n\n\tif (dev->last",
         "\ts64 duration_ns;\n\tvolatile int never;\n\tint i;\n\n"
         "\tif (never == 12345)\n\t\treturn 0;\n\tif (dev->last")  # fmt: skip


@needs_sources
@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_an_overflow_and_an_unset_value_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Targets of 2^32 us overflow an int, and one variable is never set."""
    some = [one for one in contract.odd() if one[0] == "targets of 2^32 us"]
    monkeypatch.setattr(sanitizers, "odd", lambda: some)
    (subject,) = of_patch(changed(tmp_path, (OVERFLOWS, UNSET)), NEWEST, {}, tmp_path / "tree",
                          reverse=False)  # fmt: skip
    pair = Pair(candidate(subject.before), candidate(subject.after), Box(tmp_path / "box"))
    found = sanitizers.examine(pair)
    told = {one["rule"]: one for one in found["rules"]}
    assert [one["held_before"] for one in told.values()] == [True, True]
    assert "teo.c" in told[sanitizers.OVERFLOW]["why"]
    assert "signed integer overflow" in told[sanitizers.OVERFLOW]["why"]
    assert told[sanitizers.UNSET]["why"].startswith("teo.c:")
    assert told[sanitizers.UNSET]["case"] == some[0][1]


# ---- Recordings ----


@needs_sources
def test_a_recording_is_a_place_of_the_effect(tmp_path: Path) -> None:
    """The figures are those of `compare`, with one seed: there is one recording."""
    path = demo(tmp_path / "small.dat", 20_000_000)
    sides = {"before": f"teo@{NEWEST}", "after": f"menu@{NEWEST}"}
    with Confined(sides["before"], sides["after"], tmp_path, lambda *_: None) as worker:
        found = job.on_recording(worker, path.name, job.intervals_of(path), tmp_path)
    cells = {one.figure: one for one in found}
    assert cells.keys() == FIGURES.keys() and {one.where for one in found} == {"small.dat"}
    with opened(path) as recording:
        for side, who in sides.items():
            told = counterfactual(recording, candidate(who).governor)
            assert getattr(cells["regret"], side) == pytest.approx((told.regret,))
            assert cells["regret"].n == told.intervals
    assert cells["regret"].before != cells["regret"].after


def test_a_recording_that_is_none_ends_it_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "no recording\n", "x.dat")
    code = main(["review", "teo_ng", "menu_ng", "--on", str(path), "-o", str(tmp_path / "out")])
    told = capsys.readouterr().err
    assert code == 1 and told.count("\n") == 1 and "x.dat" in told
    assert not (tmp_path / "out").exists()


# ---- Governors of this repository at a commit ----


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
