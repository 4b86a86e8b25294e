# SPDX-License-Identifier: GPL-2.0
"""The mutants: what is changed, what is said of them, and that the cases kill them."""

import json
from pathlib import Path

import pytest

from tests.campaigns.mutants import run as script
from tests.campaigns.mutants.mutants import Mutant, find
from tests.unit import command

HERE = Path(__file__).resolve().parent

SAMPLE = """\
// SPDX-License-Identifier: GPL-2.0
#include <linux/kernel.h>
/* a < b, "c > d" */
#define LIMIT	(10 * US)
#define LARGER(a, b)	((a) > (b))

static_assert(sizeof(int) == 4, "int");

static u32 first(const struct row *row, u32 count)
{
	u32 k;

	for (k = 0; k < count; k++)
		if (row->cells[k] >> 2 >= 7 && k != '<')
			return k << 1;
	return 0;
}

static const u32 table[] = { [LIMIT < 3] = 1 };
"""


def test_each_operator_is_changed_once_for_each_way() -> None:
    found = [
        (mutant.place, mutant.number, mutant.old, mutant.new) for mutant in find("a.c", SAMPLE)
    ]
    assert found == [
        ("", 4, "10", "11"),
        ("first", 13, "<", "<="),
        ("first", 13, "<", ">="),
        ("first", 14, ">=", ">"),
        ("first", 14, ">=", "<"),
        ("first", 14, "&&", "||"),
        ("first", 14, "!=", "=="),
        ("", 19, "<", "<="),
        ("", 19, "<", ">="),
    ]


def test_a_change_touches_nothing_else() -> None:
    for mutant in find("a.c", SAMPLE):
        lines = mutant.apply(SAMPLE).splitlines()
        differing = [n for n, line in enumerate(SAMPLE.splitlines()) if line != lines[n]]
        assert differing == [mutant.number - 1]


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("x = a < b ? a : b;", 1),
        ("x = w->a[k] >= b ? b : w->a[k];", 1),
        ("x = a < b ? b : c;", 2),
        ("if (a.b > c)\n\t\ta.b = c;", 1),
        ("if (a > b[k - 1])\n\t\tb[k - 1] = a;", 1),
        ("if (a > b)\n\t\ta = c;", 2),
    ],
)
def test_the_edge_of_a_limit_is_not_moved(text: str, ways: int) -> None:
    assert len(find("a.c", f"void f(void)\n{{\n\t{text}\n}}\n")) == ways


def test_a_name_is_changed_once() -> None:
    text = "#define A\t(256u * 1024)\n#define B\t3\n"
    assert [mutant.old for mutant in find("a.c", text)] == ["256", "3"]


def test_numbers_in_headers_are_left_alone() -> None:
    assert [mutant.old for mutant in find("a.h", SAMPLE)].count("10") == 0


def test_equal_lines_are_numbered() -> None:
    text = "void f(void)\n{\n\tif (a == b)\n\t\tx();\n\tif (a == b)\n\t\ty();\n}\n"
    assert [mutant.line for mutant in find("a.c", text)] == [
        "if (a [== -> !=] b)",
        "if (a [== -> !=] b) (2)",
    ]


def test_every_governor_is_changed() -> None:
    paths = script.sources(None)
    assert all(
        f"governors/{name}/{name}.c" in paths for name in ("teo_ng", "menu_ng", "wteo", "gate")
    )
    assert "tools/native/former/wteo_rfc/wteo_rfc.c" in paths
    assert not [path for path in paths if "_kunit" in path]


def result(fate: str, line: str = "a [< -> <=] b") -> script.MutantResult:
    """Return what became of a mutant in x.c."""
    return script.MutantResult(Mutant("x.c", "f", line, 0, "<", "<=", 1), fate, "")


@pytest.mark.parametrize(
    ("fate", "listed", "wrong"),
    [
        ("killed", {}, ""),
        ("survived", {"f: a [< -> <=] b": "equivalent"}, ""),
        ("survived", {}, "survived, but is not listed: x.c: f: a [< -> <=] b"),
        ("survived", {"f: a [< -> <=] b": " "}, "listed without a reason: x.c: f: a [< -> <=] b"),
        ("killed", {"f: a [< -> <=] b": "why"}, "listed, but killed: x.c: f: a [< -> <=] b"),
        ("killed", {"f: gone": "why"}, "listed, but there is no such change: x.c: f: gone"),
    ],
)
def test_the_list_must_be_right(fate: str, listed: dict[str, str], wrong: str) -> None:
    others = [result("killed", str(number)) for number in range(20)]
    survivors = {("x.c", key): why for key, why in listed.items()}
    found = script.complaints([result(fate), *others], survivors, ["x.c"])
    assert found == ([wrong] if wrong else [])


def test_nine_in_ten_must_be_killed() -> None:
    killed = [result("killed", str(number)) for number in range(9)]
    dead = result("unbuildable", "dead")
    survivors = {("x.c", "f: a"): "why", ("x.c", "f: b"): "why"}
    assert not script.complaints([*killed, result("survived", "a"), dead], survivors, ["y.c"])
    found = script.complaints(
        [*killed, result("survived", "a"), result("survived", "b")], survivors, ["x.c"]
    )
    assert found == ["only 81.8 % killed, 90.0 % needed"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [(["--only", "README.md"], 2, "README.md is no source of a governor"), (["--x"], 2, "usage")],
)
def test_bad_input_gets_one_sentence(arguments: list[str], code: int, text: str) -> None:
    done = command.run("experiment", "mutants", *arguments)
    assert done.returncode == code
    assert text in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_the_cases_kill_the_mutants() -> None:
    done = command.run("experiment", "mutants", "--json")
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    assert said["wrong"] == []
    assert len(said["mutants"]) > 400
    assert done.returncode == 0
