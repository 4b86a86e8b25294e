# SPDX-License-Identifier: GPL-2.0
"""A kernel without an option that the modules need gives one sentence at build time.

Only the preprocessor runs, over the compat headers and empty headers in place of the kernel's.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cpuidle_lab.host.doctor import kernel as doctor

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


@pytest.mark.parametrize("arch", ["x86_64", "aarch64", "ppc64le"])
def test_dkms_and_doctor_demand_the_same(arch: str) -> None:
    """DKMS builds both modules, with hints; other machines than x86 have no emulated one."""
    done = subprocess.run(
        ["bash", "-ec", '. ./dkms.conf; echo "$BUILD_EXCLUSIVE_CONFIG"'],
        cwd=TOP, env={"arch": arch}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    on_x86 = arch == "x86_64"
    headers = list(NEEDED)[: 1 + on_x86]
    demanded = {f"CONFIG_{option}" for header in headers for option in NEEDED[header]}
    assert set(done.stdout.split()) == demanded
    assert {*doctor.NEEDED, *(doctor.NEEDED_ON_X86 if on_x86 else ())} == demanded


@pytest.mark.parametrize("target", ["modules", "kunit-modules"])
@pytest.mark.parametrize(
    ("compiler", "given", "llvm"), [("GCC", [], False), ("CLANG", [], True),
                                    ("CLANG", ["LLVM=-19"], False)],
)  # fmt: skip
def test_make_builds_with_the_compiler_of_the_kernel(
    target: str, compiler: str, given: list[str], llvm: bool, tmp_path: Path
) -> None:
    options = tmp_path / "include/config/auto.conf"
    options.parent.mkdir(parents=True)
    options.write_text(f"CONFIG_CC_IS_{compiler}=y\n")
    command = ["make", "-s", "-C", str(TOP), target, f"KDIR={tmp_path}", "MAKE=echo", *given]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ("LLVM=1" in done.stdout.split()) == llvm, done.stdout
