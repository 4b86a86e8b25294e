# SPDX-License-Identifier: GPL-2.0
"""`review`: patches read, applied, and put on the code of their time; bad words."""

import base64
import gzip
import quopri
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import FAILURE, USAGE, UserError
from cpuidle_lab.cli import main
from cpuidle_lab.review import bare, base, patch, received, walk
from tests.unit.reviewing import (
    BLOCK,
    OLD,
    TEO,
    committed,
    dated,
    diff,
    indexed,
    kernels,
    mailed,
    written,
)


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


HEADERS = "From: A <a@example.org>\nSubject: [PATCH] teo: A\nContent-Type: text/plain; charset="
QUOTED = f"{HEADERS}utf-8\nContent-Transfer-Encoding: quoted-printable\n\n"
LONG = OLD.replace("line 20;", f"line = {'twenty + ' * 12}1; /* \u00e9 */")


def quoted(text: str) -> str:
    return quopri.encodestring(text.encode()).decode()


def in_base64(text: str) -> str:
    return base64.encodebytes(text.encode()).decode()


def attached(text: str) -> str:
    mail = EmailMessage()
    mail["Subject"] = "[PATCH] teo: A"
    mail.set_content("see there")
    mail.add_attachment(text.encode(), maintype="application", subtype="x", filename="a.patch")
    return str(mail)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: QUOTED + quoted(p),
        lambda p: (QUOTED + quoted(p)).replace("\n", "\r\n"),
        lambda p: "From mboxrd@z Thu Jan  1 00:00:00 1970\n" + QUOTED + quoted(p),
        lambda p: "received:\n\tby list\n" + QUOTED + quoted(p),
        lambda p: "\ufeff\n" + QUOTED + quoted(p),
        lambda p: QUOTED.replace("printable", "printable (a comment)") + quoted(p),
        lambda p: QUOTED.replace("utf-8", "x-none") + quoted(p),
        lambda p: QUOTED.replace("quoted-printable", "BASE64") + in_base64(p),
        attached,
    ],
    ids=["plain", "crlf", "mailbox", "lower-case", "mark", "comment", "charset", "base64", "file"],
)
def test_a_mail_is_read_by_its_encoding(tmp_path: Path, make: Callable[[str], str]) -> None:
    wanted = patch.parse(diff(OLD, LONG).encode(), "x").changes[0].hunks
    text = make(diff(OLD, LONG)).encode()
    (tmp_path / "a.eml").write_bytes(text)
    (tmp_path / "a.mbox.gz").write_bytes(gzip.compress(text))
    for name in ("a.eml", "a.mbox.gz"):
        [one] = patch.read(tmp_path / name)
        assert (one.subject, one.changes[0].hunks) == ("[PATCH] teo: A", wanted)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (quoted, "is quoted-printable, and no header says so"),
        (lambda p: f"{HEADERS}utf-8\n\n" + quoted(p), "is quoted-printable, and no header"),
        # Each line is whole here, so the hunks are, too.
        (lambda p: p.replace("= ", "=3D "), "is quoted-printable, and no header says so"),
        (in_base64, "is in base64, and no header says so"),
        (lambda p: QUOTED.replace("quoted-printable", "x-a") + p, "Encoding, x-a, is unknown"),
        (lambda p: f"{HEADERS}utf-8; format=flowed\n\n" + p.replace("+ 1;", "+ \n1;"),
         "has broken its lines"),
    ],
    ids=["bare", "no-header", "whole-lines", "base64", "unknown", "flowed"],
)  # fmt: skip
def test_a_mail_that_is_not_in_the_clear_is_named(
    tmp_path: Path, make: Callable[[str], str], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        patch.read(written(tmp_path, make(diff(OLD, LONG))))


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
        (["no-such.patch"], FAILURE, "there is no such patch"),
        (["teo@7.2", "teo@7.3", "--base", "7.3"], USAGE, "are for a patch"),
        (["a", "b", "c"], USAGE, "a patch, two governors"),
        ([], USAGE, "a patch, two governors"),
        (["teo@7.2", "teo@7.3", "--each"], USAGE, "are for a patch"),
        (["--commits", "A..B"], USAGE, "takes one --tree"),
        (["--tree", "x=.", "--commits", "A..B"], 1, "git knows no A..B there"),
        (["teo@x", "teo@y", "--tree", "x=/nowhere"], FAILURE, "no such directory"),
        (["teo@x", "teo@y", "--tree", "/nowhere"], USAGE, "is no LABEL=PATH"),
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


# Such a name is a codec of Python's, but none of texts.
@pytest.mark.parametrize("charset", ["idna", "punycode", "undefined", "nosuch"])
def test_a_mail_whose_charset_is_none_is_read(charset: str) -> None:
    head = f"From: a@b\nContent-Type: text/plain; charset={charset}\n\n".encode()
    assert "h" in received.body(head + b"hello \xff\n", "w")[1]


def test_white_space_is_no_base64_for_long() -> None:
    assert not received.hidden(" " * 200_000 + "!")
