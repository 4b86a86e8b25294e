# SPDX-License-Identifier: GPL-2.0
"""A kernel with kCFI calls the modules' functions, and finds one that has another type.

`make matrix` runs all steps on it, those of hints too; `make storm-kcfi` a storm.
"""

from pathlib import Path

import pytest

from cpuidle_lab.base.cache import TOP
from cpuidle_lab.base.errors import UserError
from cpuidle_lab.lab import LabRun, run_lab

pytestmark = [pytest.mark.lab, pytest.mark.full, pytest.mark.own_kernel("kcfi")]

SOURCE = "emul/work.c"
SCRIPT = """\
. /lab/functions
load cpuidle_emul machine=skx
load cpuidle_lab
echo 1000 >/sys/kernel/debug/cpuidle_emul/work
"""


def boot(folder: Path, changes: dict[str, str]) -> list[str]:
    run = LabRun(SCRIPT, kernel="kcfi", changes=changes, real_time=True)
    return run_lab(run, folder, "kCFI").check().complaints()


def test_the_modules_have_the_types_that_the_kernel_calls(tmp_path: Path) -> None:
    # That the modules are not the kernel's own is all that it logs.
    assert [line for line in boot(tmp_path, {}) if "out-of-tree" not in line] == []


def test_a_function_of_another_type_is_found(tmp_path: Path) -> None:
    source = (TOP / SOURCE).read_text(encoding="utf-8")
    wrong = source.replace("static ssize_t work_write(", "static int work_write(")
    wrong = wrong.replace(".write = work_write", ".write = (void *)work_write")
    assert wrong != source
    with pytest.raises(UserError, match="kernel died"):
        boot(tmp_path, {SOURCE: wrong})
