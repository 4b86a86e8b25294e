# SPDX-License-Identifier: GPL-2.0
"""Domains of the emulated machine: accounts, zones, exit latencies, hotplug, and bad trees.

One boot, and two for the cost of the account. The proof `accounts` compares it with a recording's.
"""

import re
from pathlib import Path

import pytest

from cpuidle_lab.lab import LabResult, LabRun, run_lab
from tests.lab.test_module import complaints
from tests.proofs.accounts import costs
from tests.proofs.accounts.run import levels

pytestmark = pytest.mark.lab

STATE = "/PC6:50:100:1000:25000:C6"
MODULES = "m@every2:1200/MC6:10:20:700:400:C6"
TREE = f"{MODULES}+package@all:60000/PC6:50:2000:3000:25000:MC6"
KERNEL = "package@all:60000:kernel/PC6:500:100:200000:25000:C6"
DEMOTES = "package@all:60000:demotes/PC6:50:100:200000:25000:C6"

# Trees that are refused, and why.
WRONG = {
    "": "a rule does not begin with NAME@CPUS:power_mw",
    f"a@all:many{STATE}": "a rule does not begin with NAME@CPUS:power_mw",
    "a@all:60000": "'a' has no states",
    "a@all:60000/PC6": "a state of 'a' is not "
    "NAME:entry_us:exit_us:target_us:power_mw:NEED~NEED...",
    "a@all:60000/PC6:50:100:1000:25000:C9~C8": "state 'PC6' of 'a' needs 'C9~C8' of its CPUs: "
    "there is none",
    "a@all:60000/PC6:50:100:10:25000:C6": "state 'PC6' of 'a' needs 'C6' of its CPUs: that pays "
    "later",
    f"m@every2:60000{STATE}+b@all:60000/P:1:1:900:1:PC6": "state 'P' of 'b' needs 'PC6' of m0: "
    "that pays later",
    f"a@all:60000{STATE}/PC7:1:1:2000:2:C1": "state 'PC7' of 'a' needs 'C1' of its CPUs: that is "
    "less than the state before it needs",
    f"a@all:60000:never{STATE}": "'a' must say hardware, demotes or kernel, not 'never'",
    f"a@all:600{STATE}": "state 'PC6' of 'a' has more power, or pays earlier, than the one before "
    "it",
    f"a@2-4:60000{STATE}": "CPU 4 of 'a' is not there",
    f"a@0,1,0:60000{STATE}": "CPU 0 is twice in 'a'",
    f"a@3-1:60000{STATE}": "CPUs of 'a' are not all, everyN or a list as 0-3,8",
    f"a@0-1:60000{STATE}+b@1-2:60000{STATE}": "'a' and 'b' share CPUs, but neither is within the "
    "other: that is no tree",
    f"a@0-1:60000{STATE}+a@2-3:60000{STATE}": "two are called 'a'",
    f"a@0-1:60000:demotes{STATE}+b@all:60000/P:1:1:1000:1:PC6": "'a' demotes, so the emulator "
    "takes no domain around it",
    f"a@all:60000{STATE * 9}": "'a' has more than 8 states",
}

SCRIPT = f"""
. /lab/functions
account=/sys/kernel/debug/cpuidle_emul/domains
zones=/sys/devices/virtual/powercap/cpuidle-emul
cpus=/sys/devices/system/cpu
refuse() {{
    modprobe cpuidle_emul "domains=$1" 2>/dev/null && fail "$1 is accepted"
    dmesg | tail -n 1 >>/results/refused
    for left in /sys/module/cpuidle_emul $zones ${{account%/*}}; do
        [ ! -e $left ] || fail "$1 leaves $left"
    done
}}
# late: mean latency of a timer on CPU 0, us, of which CPU 1 may keep the package awake.
late() {{
    cyclictest -q -t 1 -a 0 -i 20000 -l 20 --default-system | sed 's/.*Avg: *\\([0-9]*\\).*/\\1/'
}}
zone() {{
    read -r name <$1/name && read -r uj <$1/energy_uj && echo "zone $1 $name $uj"
}}
# energy ACCOUNT: the whole, its parts, and the whole again, which has at least their sum.
energy() {{
    zone $zones/cpuidle-emul:0
    cat $account >/results/$1
    for core in $zones/cpuidle-emul:0/cpuidle-emul:0:*; do zone $core; done
    zone $zones/cpuidle-emul:0
}}
# try NAME TREE: its account of an idle machine.
try() {{
    load cpuidle_emul machine=skx "domains=$2"
    sleep 0.2
    cat $account >/results/$1
    rmmod cpuidle_emul
}}
try kernel {KERNEL}
try demotes {DEMOTES}
load cpuidle_emul machine=skx domains={TREE}
energy begin >/results/energy
sleep 0.5
energy end >>/results/energy
echo "asleep: $(late)"
taskset -c 1 stress-ng --cpu 1 -t 2 -q & echo "awake: $(late)"
wait
for round in 1 2 3 4 5 6 7 8; do
    for cpu in 3 2; do echo 0 >$cpus/cpu$cpu/online; done
    usleep 5000
    [ $round != 4 ] || {{ cat $account >/results/off; sleep 0.2; cat $account >/results/half; }}
    for cpu in 3 2; do echo 1 >$cpus/cpu$cpu/online; done
    usleep 3000
done
cat $account >/results/whole
sleep 0.2
energy again >>/results/energy
rmmod cpuidle_emul
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> LabResult:
    """Try all trees in one boot."""
    script = SCRIPT + "\n".join([*(f"refuse '{text}'" for text in WRONG), "true"])
    output = tmp_path_factory.mktemp("domains") / "results"
    return run_lab(LabRun(script=script, cpus=4), output).check()


def rise(session: LabResult, before: str, after: str) -> dict[str, list[tuple[int, ...]]]:
    """Return time, entries and energy of each level of each domain between two readings."""
    old, new = (levels((session.files / name).read_text()) for name in (before, after))
    return {
        name: [tuple(b - a for a, b in zip(old[name][k], rows[k], strict=True)) for k in rows]
        for name, rows in new.items()
    }


def test_a_tree_that_is_wrong_is_refused_with_a_sentence_and_leaves_nothing(
    session: LabResult,
) -> None:
    lines = (session.files / "refused").read_text().splitlines()
    assert len(lines) == len(WRONG)
    for line, (tree, sentence) in zip(lines, WRONG.items(), strict=True):
        assert line.endswith(f"] cpuidle_emul: domains: {sentence}"), tree
    said = [line for line in complaints(session) if "cpuidle_emul: domains: " not in line]
    assert said == []


def test_all_domains_sleep_where_nothing_runs_and_all_have_the_same_time(
    session: LabResult,
) -> None:
    found = rise(session, "begin", "end")
    assert [*found] == ["m0", "m1", "package"]
    walls = [sum(row[0] for row in rows) for rows in found.values()]
    # The table is made domain by domain.
    assert max(walls) - min(walls) < 100_000
    for up, asleep in found.values():
        assert asleep[0] > 0.85 * walls[0]
        assert abs(asleep[1] - up[1]) <= 1
    module, package = found["m0"][1], found["package"][1]
    assert package[0] <= module[0]
    # By power and price of entry; nJ are rounded once.
    assert package[2] == pytest.approx(package[0] * 25e-3 + package[1] * 105_000, rel=1e-3)


def test_the_first_cpu_that_wakes_up_takes_the_exit_latencies_of_its_domains(
    session: LabResult,
) -> None:
    said = dict(line.split(": ") for line in session.output.splitlines() if ": " in line)
    # 133 us of C6, 20 of the module, 2000 of the package; sometimes another CPU is first.
    assert 1500 <= int(said["asleep"]) < 2300
    assert int(said["awake"]) < 300


def test_cpus_that_are_offline_count_as_asleep_and_come_back(session: LabResult) -> None:
    half = rise(session, "off", "half")
    up, asleep = half["m1"]
    assert (up[0], asleep[1]) == (0, 0)
    assert half["package"][1][0] > 0.95 * asleep[0]
    again = rise(session, "whole", "again")
    for name in ("m0", "m1", "package"):
        assert again[name][1][0] > 0.7 * sum(row[0] for row in again[name]), name
    assert again["m1"][0][1] > 0


def test_the_zones_are_the_machine_and_its_cores_and_never_fall(session: LabResult) -> None:
    readings: dict[str, list[int]] = {}
    for line in (session.files / "energy").read_text().splitlines():
        _, path, name, uj = line.split()
        assert path.count("cpuidle-emul:0") == 1 + name.startswith("core-")
        readings.setdefault(name, []).append(int(uj))
    assert sorted(readings) == ["core-0", "core-1", "core-2", "core-3", "package-0"]
    assert all(each == sorted(each) for each in readings.values())
    whole = readings.pop("package-0")
    assert len(whole) == 6
    assert all(len(each) == 3 for each in readings.values())
    # The whole is read before and after its parts, and no reading falls.
    for end, name in ((1, "end"), (2, "again")):
        parts = sum(each[end] - each[0] for each in readings.values())
        domains = sum(row[2] for rows in rise(session, "begin", name).values() for row in rows)
        least, most = whole[2 * end] - whole[1], whole[2 * end + 1] - whole[0]
        assert least <= parts + domains <= most
        assert most - least < 2_000_000 < domains


def test_the_last_man_heeds_timers_and_hardware_that_demotes_the_length(
    session: LabResult,
) -> None:
    """Nothing on an idle machine is 200 ms away for long; hardware finds out when it is over."""
    for name in ("kernel", "demotes"):
        up, asleep = levels((session.files / name).read_text())["package"].values()
        assert asleep[0] < 0.05 * up[0], name
    begun = (session.files / "end").read_text()
    assert re.search(r"^package +PC6 ", begun, re.MULTILINE)


# The last man of the kernel looks at the timers of all members, once for each sleep.
def test_the_account_costs_as_much_on_more_cpus(tmp_path: Path) -> None:
    few, many = (costs.measure(cpus, tmp_path) for cpus in costs.CPUS)
    for one, other in zip(few, many, strict=True):
        assert 0 < one.instructions < 1000, one
        if "kernel" not in one.domains:
            assert other.instructions == pytest.approx(one.instructions, rel=0.05), other
