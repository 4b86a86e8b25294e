# SPDX-License-Identifier: GPL-2.0
"""Python reads the same from the headers of the replay library as the compiler."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cpuidle_lab.base import abi
from cpuidle_lab.base.cache import TOP

LIBRARY = "tools/native/replay/replay.h"
RECORD = "governors/common/record.h"
CAUSES = "tools/native/causes.h"
RECORD_END = "#endif /* CIL_RECORD_H */"


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the top of a copy of the headers, which is read in place of the project's."""
    shutil.copytree(TOP / "governors", tmp_path / "governors")
    (tmp_path / LIBRARY).parent.mkdir(parents=True)
    for name in (LIBRARY, CAUSES):
        shutil.copy(TOP / name, tmp_path / name)
    monkeypatch.setattr(abi, "TOP", tmp_path)
    abi._declarations.cache_clear()
    abi.struct.cache_clear()
    yield tmp_path
    abi._declarations.cache_clear()
    abi.struct.cache_clear()


def compiled(top: Path) -> str:
    """Compile the assertions; return the compiler's complaints."""
    (top / "layout.c").write_text(abi.assertions())
    command = ["cc", "-std=gnu11", "-fsyntax-only", f"-I{top}", str(top / "layout.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return str(done.stderr)


def changed(top: Path, header: str, before: str, after: str) -> None:
    """Replace a part of a header, which must be there."""
    text = (top / header).read_text()
    assert before in text
    (top / header).write_text(text.replace(before, after, 1))


def test_the_compiler_agrees_with_what_is_read(top: Path) -> None:
    assert compiled(top) == ""
    assert len(abi.assertions().splitlines()) > 200
    assert abi.constant("RP_UNKNOWABLE") == 2**32 - 1
    assert abi.struct("rp_totals")().heat[9][9] == 0


def test_a_new_member_is_there_in_python(top: Path) -> None:
    changed(top, LIBRARY, "\tu64 polls;\n", "\tu64 polls;\n\tu64 naps[CIL_STATE_MAX];\n")
    assert compiled(top) == ""
    assert len(abi.struct("rp_totals")().naps) == 10


@pytest.mark.parametrize(
    ("header", "before", "after"),
    [
        # Layouts and types that a reader of plain declarations cannot see.
        ("governors/common/policy.h", "struct cil_state {", "#pragma pack(1)\nstruct cil_state {"),
        (LIBRARY, '#include "../../..', '#define double float\n#include "../../..'),
        ("governors/common/types.h", "typedef uint8_t u8;", "typedef int8_t u8;"),
        (RECORD, RECORD_END, f"#undef CIL_TICK_NO\n# define CIL_TICK_NO 3\n{RECORD_END}"),
    ],
    ids=["packed", "macro", "typedef", "constant"],
)
def test_a_layout_that_is_read_wrongly_stops_the_build(
    top: Path, header: str, before: str, after: str
) -> None:
    changed(top, header, before, after)
    assert "is not what abi.py reads" in compiled(top)


@pytest.mark.parametrize("member", ["u64 one, two;", "u64 one : 3;", "unsigned long one;"])
def test_other_declarations_are_refused(top: Path, member: str) -> None:
    changed(top, LIBRARY, "\tu64 polls;\n", f"\t{member}\n")
    with pytest.raises((ValueError, KeyError)):
        abi.struct("rp_totals")
