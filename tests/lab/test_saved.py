# SPDX-License-Identifier: GPL-2.0
"""A run goes on from a machine that has booted, and leaves it as it was."""

import shutil
from pathlib import Path

import pytest

from cpuidle_lab.base.errors import UserError
from cpuidle_lab.lab import LabRun, images, run_lab, workloads
from cpuidle_lab.lab.run import has_booted
from cpuidle_lab.lab.saved import STATE
from cpuidle_lab.lab.session import TRACE, Session

pytestmark = pytest.mark.lab

# The first lines of the kernel's log, with their times, tell boots apart.
SCRIPT = """
dmesg | head -n 100 | md5sum
cat /tmp/given
[ ! -e /run/mark ] || echo marked
echo 1 >/run/mark
"""


def answers(folder: Path, text: str, **options: object) -> list[str]:
    """Return the boot, what the run was given, and "marked" where another run was seen."""
    files = {"tmp/given": f"{text}\n".encode()}
    run = LabRun(SCRIPT, files=files, real_time=True, **options)  # type: ignore[arg-type]
    return run_lab(run, folder / text).check().output.splitlines()


def test_runs_go_on_from_the_same_boot_and_do_not_see_each_other(tmp_path: Path) -> None:
    boot, *one = answers(tmp_path, "one")
    again, *two = answers(tmp_path, "two")
    other, *three = answers(tmp_path, "three", options=("lab=other",))
    assert (one, two, three) == (["one"], ["two"], ["three"])
    assert boot == again != other


@pytest.mark.full
@pytest.mark.parametrize("series", ["6.12", "7.2"])
def test_virtual_time_repeats_itself_from_machines_that_booted_anew(
    series: str, tmp_path: Path
) -> None:
    found = workloads.find("hackbench-pipe")
    script = Session("skx", [found.phase("wteo", 1, seed=1)]).script()
    run = LabRun(script, kernel=series, files=workloads.files([found]))
    traces = set()
    for name in ("one", "again", "anew"):
        traces.add((run_lab(run, tmp_path / name).check().files / TRACE).read_bytes())
        if name == "again":
            assert len(traces) == 1
            shutil.rmtree(has_booted(run, images.kernel(series)))
    assert len(traces) == 1


def test_a_damaged_machine_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cpuidle_lab.lab.saved.LIMIT_S", 10)
    monkeypatch.setattr("cpuidle_lab.lab.run.has_booted", lambda *_: tmp_path)
    (tmp_path / "memory").touch()
    (tmp_path / STATE).write_bytes(b"nonsense")
    with pytest.raises(UserError, match=r"QEMU cannot load .*; remove /"):
        run_lab(LabRun("true", real_time=True), tmp_path / "results")
