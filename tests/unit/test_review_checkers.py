# SPDX-License-Identifier: GPL-2.0
"""Checkers of a patch: their findings before and after, and counts of the code."""

import shutil

import pytest

from cpuidle_lab.base.cache import CACHE
from cpuidle_lab.review import checkers
from cpuidle_lab.review.base import Base
from cpuidle_lab.states.linux_source import NEWEST
from tests.unit.reviewing import needs_sources

pytestmark = needs_sources


def sources(edit: tuple[str, str] = ("", "")) -> dict[str, str]:
    """Return the governors of the newest kernel, TEO's with an edit."""
    folder = CACHE / "linux-source" / NEWEST
    found = {name: (folder / name).read_text() for name in ("teo.c", "menu.c", "gov.h")}
    return found | {"teo.c": found["teo.c"].replace(*edit, 1) if edit[0] else found["teo.c"]}


def compared(*edit: str) -> list[str]:
    """Return what is said of a patch of teo.c."""
    before, after = sources(), sources((edit[0], edit[1]))
    assert before != after
    return checkers.compare(Base(NEWEST, "given", before, after, ()))


DIVIDES = ("\tcpu_data->sleep_length_ns = KTIME_MAX;\n",
           "\tcpu_data->sleep_length_ns = KTIME_MAX / (dev->cpu + 1);\n")  # fmt: skip
GROWS = ("\tunsigned int tick_intercepts;\n", "\tunsigned int tick_intercepts;\n\tu64 x[8];\n")
LOOPS = ("\tcpu_data->sleep_length_ns = KTIME_MAX;\n",
         "\tcpu_data->sleep_length_ns = KTIME_MAX;\n\t/* for (;;) */\n\twhile (dev->cpu > 99)\n"
         "\t\tdev->cpu--;\n")  # fmt: skip


@pytest.mark.parametrize(
    ("edit", "what", "more"),
    [(DIVIDES, "divisions", 1), (GROWS, "bytes a CPU", 64), (LOOPS, "loops", 1)],
)
def test_counts(edit: tuple[str, str], what: str, more: int) -> None:
    before, after = (checkers.shape(sources(one), "teo.c") for one in (("", ""), edit))
    differ = {name: after[name] - before[name] for name in before if after[name] != before[name]}
    assert differ == {what: more} and before["bytes a CPU"] > 64


def test_counts_are_told() -> None:
    told = compared(*LOOPS)
    (line,) = (line for line in told if line.startswith("teo.c: "))
    assert "loops" in line and "divisions" in line and "bytes a CPU" in line
    assert not any(line.startswith("gone") for line in told)


@pytest.mark.skipif(not shutil.which("sparse"), reason="sparse is not installed")
def test_sparse_is_run() -> None:
    found = compared("\ts64 duration_ns;\n\tint i;\n", "\ts64 duration_ns;\n\tint i = NULL;\n")
    assert any("NULL" in line or "pointer" in line for line in found if line.startswith("new"))
    assert not any("sparse was not" in line for line in found)


def test_kernel_doc_is_run() -> None:
    found = compared(" * @dev: Target CPU.\n", "")
    assert any("'dev' not described" in line for line in found if line.startswith("new"))
    assert not any("kernel-doc was not" in line for line in found)
