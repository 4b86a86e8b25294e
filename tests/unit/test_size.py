# SPDX-License-Identifier: GPL-2.0
"""The size of the governors: that it is counted right, and that what exceeds a target is told."""

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
