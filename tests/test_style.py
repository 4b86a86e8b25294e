# SPDX-License-Identifier: GPL-2.0
"""The kernel's own style checker has nothing to say about the code that runs in the kernel."""

import subprocess
from pathlib import Path

import pytest

from cpuidle_lab.linux_source import fetch

TOP = Path(__file__).resolve().parents[1]

# Types that are waived, by the start of the path that they are waived for. CONTRIBUTING.md gives
# the reasons.
LISTS = ("COMPLEX_MACRO", "MACRO_ARG_REUSE", "TRAILING_SEMICOLON", "MACRO_ARG_UNUSED")
COMPAT = ("LINUX_VERSION_CODE", "CONSTANT_COMPARISON", "MACRO_ARG_UNUSED")
WAIVED = {
    "emul/compat.h": COMPAT,
    "governors/common/types.h": ("CAMELCASE",),
    "module/compat/": COMPAT,
    "module/trace.h": ("OPEN_ENDED_LINE", "PARENTHESIS_ALIGNMENT", *LISTS),
    "module/": LISTS,
    "governors/": (
        *LISTS,
        "PREFER_KERNEL_TYPES",
        "PREFER_DEFINED_ATTRIBUTE_MACRO",
        "BIT_MACRO",
        "ARRAY_SIZE",
    ),
}

SOURCES = sorted(
    path.relative_to(TOP).as_posix()
    for folder in ("module", "emul", "governors")
    for path in (TOP / folder).rglob("*.[ch]")
    if not path.name.endswith(".mod.c")
)


def waived(source: str) -> set[str]:
    """Return the types that are waived for a file."""
    return {kind for start, kinds in WAIVED.items() if source.startswith(start) for kind in kinds}


@pytest.mark.parametrize("source", SOURCES)
def test_checkpatch_is_content(source: str, tmp_path: Path) -> None:
    script = str(fetch().folder / "checkpatch.pl")
    command = ["perl", script, "--no-tree", "--strict", "--terse", "--no-summary", "--show-types"]
    command += ["--max-line-length=100", "--file", str(TOP / source)]
    if kinds := waived(source):
        command += [f"--ignore={','.join(sorted(kinds))}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.stdout == "", result.stdout
    assert result.returncode == 0, result.stderr
