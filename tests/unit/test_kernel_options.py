# SPDX-License-Identifier: GPL-2.0
"""A kernel without an option that the modules need gives one sentence at build time.

Only the preprocessor runs, over the compat headers and empty headers in place of the kernel's.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
VERSION = 6 << 16 | 12 << 8

NEEDED = {
    "module/compat/compat.h": (
        "CPU_IDLE", "KPROBES", "KALLSYMS_ALL", "TRACEPOINTS", "NO_HZ_COMMON", "CGROUPS",
        "RT_MUTEXES",
    ),
    "emul/compat.h": ("CPU_IDLE", "HIGH_RES_TIMERS", "POWERCAP"),
}  # fmt: skip

pytestmark = pytest.mark.skipif(not shutil.which("cpp"), reason="there is no C preprocessor")


def errors(folder: Path, header: str, options: set[str], *more: str) -> list[str]:
    """Return the sentences that a kernel with these options gives."""
    for name in re.findall(r"#include <(.+)>", (TOP / header).read_text()):
        stub = folder / name
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text("")
    defines = [f"-DCONFIG_{option}=1" for option in {*options, "X86_64"}]
    constants = [f"-DLINUX_VERSION_CODE={VERSION}", "-DIS_ENABLED(option)=option"]
    constants.append("-DKERNEL_VERSION(a,b,c)=((a)<<16|(b)<<8|(c))")
    command = ["cpp", "-nostdinc", f"-I{folder}", *constants, *defines, *more, str(TOP / header)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.findall(r'#error "(.*)"', done.stderr)
    assert (done.returncode == 0) == (found == []), done.stderr
    # The line itself follows the message.
    return sorted(set(found))


@pytest.mark.parametrize("header", NEEDED)
def test_a_kernel_with_all_of_them_gives_none(header: str, tmp_path: Path) -> None:
    assert errors(tmp_path, header, set(NEEDED[header]), "-DCIL_HINTS=1") == []


@pytest.mark.parametrize(
    ("header", "option"), [(header, option) for header in NEEDED for option in NEEDED[header]]
)
def test_a_missing_option_is_named(header: str, option: str, tmp_path: Path) -> None:
    (sentence,) = errors(tmp_path, header, {*NEEDED[header]} - {option}, "-DCIL_HINTS=1")
    assert f"CONFIG_{option}" in sentence


def test_hints_alone_need_groups_and_inheritance(tmp_path: Path) -> None:
    header = "module/compat/compat.h"
    options = {*NEEDED[header]} - {"CGROUPS", "RT_MUTEXES"}
    assert errors(tmp_path, header, options, "-DCIL_HINTS=0") == []


def test_dkms_excludes_such_kernels() -> None:
    """DKMS builds both modules, with hints."""
    configuration = (TOP / "dkms.conf").read_text()
    for option in {*NEEDED["module/compat/compat.h"], *NEEDED["emul/compat.h"]}:
        assert f"CONFIG_{option}" in configuration, option
