# SPDX-License-Identifier: GPL-2.0
"""`cpuidle-lab kit` in the lab, whose Python has no packages; the kit is read here."""

import json
import tarfile
from pathlib import Path

import pytest

from cpuidle_lab.cli import main
from cpuidle_lab.lab import LabResult, LabRun, run_lab
from tests.lab.guest_python import PYTHON, command_files, guest_ctypes

pytestmark = [pytest.mark.lab, pytest.mark.full]

# A task with a name of its own runs meanwhile. Each of its starts takes the host some time.
SCRIPT = f"""
. /lab/functions
load cpuidle_emul machine=skx
load cpuidle_lab
hostname volunteer-7
export PYTHONPATH=/lab/tools
cp /usr/bin/busybox /tmp/secret-work
while :; do /tmp/secret-work usleep 50000; done &
state() {{
    echo $(cat $cpuidle/current_governor $knobs/wteo/* $tracing/set_event $tracing/kprobe_events)
}}
before=$(state)
{PYTHON} /lab/main.py kit -o /results/kit.tar.gz --duration 1s --json >/results/kit.json ||
    fail "no kit was made"
[ "$(state)" = "$before" ] || fail "the machine is not as before"
kill %1
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    """Make a kit in a guest."""
    output = tmp_path_factory.mktemp("kit") / "results"
    files = command_files() | guest_ctypes()
    return run_lab(LabRun(script=SCRIPT, files=files, time_limit_s=1200), output).check()


def test_the_kit_has_what_the_guest_can_make(result: LabResult) -> None:
    told = json.loads((result.files / "kit.json").read_text())
    assert told["missing"] == {"figures": "ModuleNotFoundError: No module named 'numpy'"}
    with tarfile.open(result.files / "kit.tar.gz") as tar:
        names = set(tar.getnames())
        every = b"".join(tar.extractfile(name).read() for name in names)  # type: ignore[union-attr]
    assert names == {"manifest.json", "doctor.json", "before.txt", "trace.dat", "ab.jsonl",
                     "after.txt"}  # fmt: skip
    assert b"volunteer-7" not in every and b"secret-work" not in every


def test_the_kit_is_read(result: LabResult, capsys: pytest.CaptureFixture[str]) -> None:
    path = result.files / "kit.tar.gz"
    assert main(["kit", "--read", str(path), "--json"]) == 0
    (kit,) = json.loads(capsys.readouterr().out)
    assert kit["driver"] == "cpuidle_emul" and kit["kernel"].startswith("6.12")
    assert kit["cpus"] == 2 and kit["intervals"] > 50
    assert {"recorded", "wteo", "oracle"} <= set(kit["regrets"])
    assert kit["regrets"]["oracle"] == 0 < kit["regrets"]["wteo"]
    assert kit["notes"] == ["the archive has no figures to compare with"]


def test_a_changed_kit_is_refused(
    result: LabResult, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray((result.files / "kit.tar.gz").read_bytes())
    data[len(data) // 2] ^= 1
    path = tmp_path / "kit.tar.gz"
    path.write_bytes(data)
    assert main(["kit", "--read", str(path)]) == 1
    assert "kit.tar.gz: " in capsys.readouterr().out
