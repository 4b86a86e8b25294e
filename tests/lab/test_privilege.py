# SPDX-License-Identifier: GPL-2.0
"""Rights of a user without privileges at each file of the modules: next to none.

Who may ask for which hint through the device is in test_hints.py; here is who may open what, and
what CAP_SYS_NICE alone is worth.
"""

import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from cpuidle_lab.lab import LabRun, run_lab
from tests.campaigns.storm import verdict
from tests.lab.hints_guest import FUNCTIONS, program

TOP = Path(__file__).resolve().parents[2]
DOCUMENT = TOP / "docs/security.md"

# Rights of everybody at a file: r(ead), w(rite) or none (-); the first pattern counts.
RIGHTS = {
    "/dev/cpuidle_latency": "rw",
    "/sys/kernel/debug/cpuidle_lab/*": "-",
    "/sys/kernel/debug/cpuidle_emul/*": "-",
    "/sys/kernel/tracing/events/cpuidle_lab/*": "-",
    "/sys/module/cpuidle_lab/parameters/*": "-",
    "/sys/module/cpuidle_emul/parameters/temperature_mc": "-",
    "/sys/module/cpuidle_emul/parameters/*": "r",
    "/sys/module/cpuidle_*/sections/*": "-",
    "/sys/module/cpuidle_*/uevent": "-",
    "/sys/module/cpuidle_*": "r",
    "/sys/devices/virtual/powercap/cpuidle-emul/*/energy_uj": "-",
    "/sys/devices/virtual/powercap/cpuidle-emul/*": "r",
    "/sys/devices/virtual/misc/cpuidle_latency/*": "r",
    "/sys/devices/system/cpu/cpuidle/*": "r",
}

# Ways to look: debugfs and tracefs as they are mounted, and open to everybody, so that the
# modes of the files themselves count.
LOOKS = ("closed", "closed-namespace", "open", "open-namespace")

WALK = """
cat >/tmp/walk <<'END'
while read -r file; do
    may=
    { true <$file; } 2>/dev/null && may=r
    { true >>$file; } 2>/dev/null && may=${may}w
    echo "$1 $file: ${may:--}"
done </tmp/files
END
find $knobs /sys/kernel/debug/cpuidle_emul /sys/module/cpuidle_lab /sys/module/cpuidle_emul \
    /sys/devices/virtual/powercap/cpuidle-emul /sys/devices/virtual/misc/cpuidle_latency \
    $tracing/events/cpuidle_lab $cpuidle /dev/cpuidle_latency ! -type d ! -type l >/tmp/files
"""

LOOK = """
sh /tmp/walk root
echo "debugfs: $(stat -c %a /sys/kernel/debug)"
echo "tracefs: $(stat -c %a /sys/kernel/tracing)"
nobody sh /tmp/walk closed
nobody unshare -Ur sh /tmp/walk closed-namespace
mount -o remount,mode=755 /sys/kernel/debug
mount -o remount,mode=755 /sys/kernel/tracing
nobody ls $knobs/gate >/dev/null || fail "debugfs is not open"
nobody ls $tracing/events/cpuidle_lab >/dev/null || fail "tracefs is not open"
nobody sh /tmp/walk open
nobody unshare -Ur sh /tmp/walk open-namespace
"""

NAMESPACE = """
# Root in a namespace of one's own gets the file systems neither, nor the modules.
mkdir -m 777 /tmp/own
inside() { nobody unshare -Urmn "$@" 2>&1; }
for kind in debugfs tracefs; do
    inside mount -t $kind none /tmp/own && fail "$kind can be mounted in a namespace"
done
inside rmmod cpuidle_lab | grep -q "Operation not permitted" || fail "rmmod does not refuse"
inside sh -c "echo menu >$cpuidle/current_governor" && fail "the governor can be switched"
# sysfs can be mounted there, and is no other than outside.
zone=devices/virtual/powercap/cpuidle-emul/cpuidle-emul:0
echo "sysfs: $(inside sh -c "mount -t sysfs none /tmp/own && cat /tmp/own/$zone/name")"
inside sh -c "mount -t sysfs none /tmp/own && cat /tmp/own/$zone/energy_uj" &&
    fail "energy can be read in a namespace"
"""

CAPABILITY = """
# One capability is what counts for hints, not being root.
nice=23
sleep 1000 & pid=$!
hint 65534 as sleep 1000 & theirs=$!
usleep 100000
expect ok capable 65534 $nice hint self set -5
expect ok capable 65534 $nice hint $pid set -5
expect ok capable 65534 $nice hint $theirs set -20
expect EACCES capable 0 -1 hint $pid set -6
expect ok capable 0 -1 hint $pid set 5
expect EPERM capable 0 -1 hint $theirs set 5
agrees "by capability"
# The list of hints takes what root writes, and asks for no right but the file's.
expect "" capable 0 -1 sh -c "echo $pid 8 >$hints"
kill $pid $theirs
# An open device answers nothing but its calls.
nobody cat /dev/cpuidle_latency 2>&1 | grep -q "Invalid argument" ||
    fail "the device can be read"
nobody sh -c "echo 1 >/dev/cpuidle_latency" 2>&1 | grep -q "Invalid argument" ||
    fail "the device can be written"
"""


def guest(tmp_path: Path, script: str, changes: dict[str, str] | None = None) -> dict[str, str]:
    """Run a script in the guest; return its lines "name: value". No warning may be logged."""
    files = {f"lab/bin/{name}": program(name) for name in ("hint", "capable")}
    run = LabRun(script=FUNCTIONS + script, files=files, real_time=True, changes=changes or {})
    result = run_lab(run, tmp_path / "results").check()
    assert verdict.judge(result).failure == ""
    return dict(line.split(": ", 1) for line in result.output.splitlines() if ": " in line)


def right_of(path: str) -> str:
    """Return what everybody may do with a file.

    Raises:
        StopIteration: no pattern knows it.
    """
    return next(right for pattern, right in RIGHTS.items() if fnmatchcase(path, pattern))


def looks(said: dict[str, str], name: str) -> dict[str, str]:
    """Return what a user could do, by path."""
    return {
        key.partition(" ")[2]: value for key, value in said.items() if key.startswith(f"{name} /")
    }


def test_the_document_has_the_same_table() -> None:
    rows = re.findall(r"^\| `(/[^`]+)` \| (\S+) \|", DOCUMENT.read_text(), re.MULTILINE)
    assert dict(rows) == RIGHTS


@pytest.mark.lab
@pytest.mark.full
def test_everybody_may_do_what_the_table_says(tmp_path: Path) -> None:
    """Without privileges, and as root of a user namespace; debugfs closed, and opened."""
    said = guest(tmp_path, WALK + LOOK + NAMESPACE + CAPABILITY)
    root = looks(said, "root")
    assert (said["debugfs"], said["tracefs"]) == ("700", "700")
    assert said["sysfs"] == "package-0"
    # The walk sees rights where there are some: root may write to all tunables.
    assert sum("w" in rights for rights in root.values()) > 100
    assert root["/sys/devices/virtual/powercap/cpuidle-emul/cpuidle-emul:0/energy_uj"] == "r"
    for look in LOOKS:
        found = looks(said, look)
        assert found == {path: right_of(path) for path in root}, look
    # No line of the table is about nothing.
    first = {next(p for p in RIGHTS if fnmatchcase(path, p)) for path in root}
    assert first == set(RIGHTS)


@pytest.mark.lab
@pytest.mark.full
def test_a_wrong_mode_is_noticed(tmp_path: Path) -> None:
    """A list of hints that everybody may write to shows where debugfs is open, not before."""
    source = "module/hints/files.c"
    text = (TOP / source).read_text()
    right = 'debugfs_create_file("hints", 0600'
    assert text.count(right) == 1
    wrong = {source: text.replace(right, right.replace("0600", "0666"))}
    said = guest(tmp_path, WALK + LOOK, wrong)
    hints = "/sys/kernel/debug/cpuidle_lab/gate/hints"
    assert [said[f"{look} {hints}"] for look in LOOKS] == ["-", "-", "rw", "rw"]
