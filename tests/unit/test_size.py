# SPDX-License-Identifier: GPL-2.0
"""The size of governors and folders: its counting, and the messages on what exceeds a target."""

from pathlib import Path

from experiments.wteo import footprint
from tests.unit import size

SOURCE = """\
// SPDX-License-Identifier: GPL-2.0
/**
 * DOC: small
 *
 * Two words.
 */
#include "small.h"	/* code with a comment */

static const struct cil_tunable small_tunables[] = {
	{
		.name = "rate",
	}, {
		.name = "size",
	},
};
"""


def test_lines_and_words_are_counted() -> None:
    found = size.measure("small", [SOURCE])
    assert (found.lines, found.code, found.comment) == (15, 8, 6)
    # "DOC:", its name, and two more.
    assert (found.doc_lines, found.doc_words, found.tunables) == (5, 4, 2)


def test_a_table_that_others_see_is_counted() -> None:
    shared = SOURCE.replace("static const", "const").replace("tunables[]", "tunables[SMALL_COUNT]")
    assert size.measure("small", [shared]).tunables == 2


def test_what_exceeds_a_target_is_told() -> None:
    small = size.measure("wteo", [SOURCE])
    assert size.exceeded(small) == []
    large = size.measure("wteo", [SOURCE, "x;\n" * 1200])
    assert size.exceeded(large) == ["lines 1215 > 1200"]


def test_no_governor_exceeds_its_target() -> None:
    assert [one.governor for one in size.sizes() if size.exceeded(one)] == []


def test_files_and_lines_are_counted_by_folder(tmp_path: Path) -> None:
    for name, lines in (("a.py", 1), ("base/b.py", 2), ("base/deep/c.py", 3)):
        path = tmp_path / "tools/cpuidle_lab" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n" * lines)
    assert size.folders(tmp_path) == [
        size.Folder("tools/cpuidle_lab", 1, 1, "a.py", 1),
        size.Folder("tools/cpuidle_lab/base", 2, 5, "c.py", 3),
    ]


def test_a_long_file_without_a_reason_is_named(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text("x\n" * 500)
    assert size.too_long(tmp_path) == []
    path.write_text('"""A table."""\n' + "x\n" * 500)
    assert size.too_long(tmp_path) == ["long.py: 501 lines > 500"]
    path.write_text('"""A table.\n\nLonger than 500 lines: it is one table.\n"""\n' + "x\n" * 500)
    assert size.too_long(tmp_path) == []


def test_no_file_of_the_package_is_too_long() -> None:
    assert size.too_long() == []


def test_cache_lines_are_those_that_a_governor_touches() -> None:
    four, ten = footprint.footprints("teo_ng")
    assert (four.states, four.most, ten.states) == (4, 2, 10)
    assert 1 < four.mean <= four.most
    wteo = footprint.footprints("wteo")
    # Ten states have rows of two lines.
    assert four.mean < wteo[0].mean < wteo[1].mean
    # With costs beside limits it was 5.37.
    assert wteo[0].mean <= 5.0
