# SPDX-License-Identifier: GPL-2.0
"""On a running kernel: an upgrade leaves the governor in use alone, a removal takes it out."""

import subprocess
from pathlib import Path

import pytest
import roots

from cpuidle_lab.lab import LabRun, images, run_lab

pytestmark = [pytest.mark.full, pytest.mark.lab]

NEWER = f"{roots.VERSION}.1"
TOP = Path(__file__).resolve().parents[3]

SCRIPT = """
prerm() { sh -e /lab/prerm "$@" || fail "prerm $*"; }
state() { echo "$1: $(cat $cpuidle/current_governor) $(cat $knobs/version 2>/dev/null)"; }
restore=/usr/lib/cpuidle-lab/cpuidle-lab-restore

load cpuidle_emul machine=skx
$restore start || fail "start"
state started

folder=$(dirname $(modinfo -n cpuidle_lab))
prerm upgrade
rm $folder/cpuidle_lab.ko*
cp /lab/newer.ko $folder/cpuidle_lab.ko
depmod
sleep 0.1
state upgraded
$restore unload || fail "unload"
state unloaded
load cpuidle_emul machine=skx
$restore start || fail "start of the newer one"
state newer

governor gate                   # by hand, behind the service's back
prerm remove
state removed
for module in cpuidle_lab cpuidle_emul; do
    [ -e /sys/module/$module ] && fail "$module is still loaded"
done
[ -e $knobs ] && fail "debugfs is left behind"
[ -e /run/cpuidle-lab/governors ] && fail "the note of the governor before is left behind"
echo "offered: $(cat $cpuidle/available_governors)"
prerm remove                    # with nothing loaded
"""


def unpacked(package: Path, target: Path) -> Path:
    """Unpack a package with its maintainer scripts in DEBIAN."""
    subprocess.run(["dpkg-deb", "--raw-extract", package, target], check=True)
    return target


def test_upgrade_and_removal_while_the_governor_is_current(packages: Path, tmp_path: Path) -> None:
    (package,) = (packages / roots.VERSION).glob("cpuidle-lab-dkms_*.deb")
    root = unpacked(package, tmp_path / "package")
    changes = {
        name: (TOP / name).read_text().replace(roots.VERSION, NEWER)
        for name in ("VERSION", "dkms.conf")
    }
    helper = "usr/lib/cpuidle-lab/cpuidle-lab-restore"
    result = run_lab(
        LabRun(
            script=f". /lab/functions\n{SCRIPT}",
            files={
                "lab/prerm": (root / "DEBIAN/prerm").read_bytes(),
                "lab/newer.ko": (
                    images.modules("6.12", changes).plain / "cpuidle_lab.ko"
                ).read_bytes(),
                helper: (root / helper).read_bytes(),
                "etc/cpuidle-lab.conf": (root / "etc/cpuidle-lab.conf").read_bytes(),
            },
        ),
        tmp_path / "results",
    ).check()
    said = dict(line.split(": ", 1) for line in result.output.splitlines() if ": " in line)
    assert said["started"] == f"wteo {roots.VERSION}"
    assert said["upgraded"] == f"wteo {roots.VERSION}"
    assert said["unloaded"].strip() == "menu"
    assert said["newer"] == f"wteo {NEWER}"
    assert said["removed"].strip() == "menu"
    assert not {"teo_ng", "menu_ng", "wteo", "gate"} & set(said["offered"].split())
    warnings = [line for line in result.complaints() if "taint" not in line]
    assert [line for line in warnings if "module verification failed" not in line] == []
