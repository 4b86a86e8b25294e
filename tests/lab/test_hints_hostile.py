# SPDX-License-Identifier: GPL-2.0
"""Hints in the hands of those who mean no good: the counts stay exact, and the log silent.

Most of it in real time, for the CPUs shall get into each other's way.
"""

from pathlib import Path

import pytest

from tests.lab.hints_guest import guest
from tests.lab.kernels import every_kernel

pytestmark = pytest.mark.lab

# Random calls by each user.
CALLS = 500_000

STORM = """
governor gate
echo 16384 >$knobs/gate/hints_per_user
mkfifo /tmp/go
hint -10 run storm crowd $crowd </tmp/go >/tmp/said &
exec 4>/tmp/go
while ! grep -q ready /tmp/said; do usleep 100000; done
expect "agrees: $((crowd + 1)) hints" recount

# They die and are born while CPUs come and go, and cpusets change.
mkdir $groups/set
echo +cpuset >$groups/cgroup.subtree_control
echo >&4
for i in 1 2 3; do
    online 1 0; agrees "CPU 1 is off"
    online 1 1; agrees "CPU 1 is on"
    echo $((i % 2)) >$groups/set/cpuset.cpus
    for pid in $(awk '/storm/ && n++ < 50 { print $1 }' $hints); do
        echo $pid >$groups/set/cgroup.procs
    done 2>/dev/null
    agrees "cpuset $((i % 2))"
done
wait
expect "agrees: 0 hints" recount
exec 4>&-

# A hint in the moment of the task's death.
storm race $races >/tmp/said || fail "$(cat /tmp/said)"
expect "agrees: 0 hints" recount
echo "race: $(cat /tmp/said)"

# The second thread becomes another program: whose hint remains?
for who in leader other; do
    storm exec $who & pid=$!
    sleep 0.5
    [ "$(cat /proc/$pid/comm)" = sleep ] || fail "no exec: $(cat /proc/$pid/comm)"
    echo "$who: $(hint $pid get)"
    agrees "exec by $who"
    kill $pid
    wait $pid
done
expect "agrees: 0 hints" recount

# Children without room do without.
echo 100 >$knobs/gate/hints_per_user
hint -10 run storm crowd 200 </dev/zero >/dev/null
grep -q "found no room" $hints || fail "they all have one: $(cat $hints)"
expect "agrees: 0 hints" recount

# The module goes while hints and groups are there; nothing is left of them.
expect ok hint group:$groups/set set -15
hint -10 run sleep 1000 & pid=$!
usleep 100000
[ -n "$(limit $pid)" ] || fail "no hint"
governor menu
exec 5</dev/cpuidle_latency
rmmod cpuidle_lab 2>/dev/null && fail "it leaves users behind"
exec 5<&-
rmmod cpuidle_lab || fail "hints hold the module"
load cpuidle_lab
expect "agrees: 0 hints" recount
kill $pid
"""


@every_kernel
def test_counts_stay_exact_in_a_storm(kernel: str, tmp_path: Path) -> None:
    crowd, races = (10_000, 300) if kernel == "6.12" else (500, 50)
    said = guest(
        tmp_path,
        f"crowd={crowd} races={races}\n{STORM}",
        kernel=kernel,
        memory_mib=2048,
        real_time=kernel != "6.12",
    )
    assert said["leader"] == "none", "a hint belongs to the task, not to the number"
    assert said["other"] == "-7"
    assert "refused=0" in said["race"]


@pytest.mark.full
def test_random_calls(tmp_path: Path) -> None:
    """As root and without privileges, with tasks and groups that come and go."""
    said = guest(
        tmp_path,
        f"calls={CALLS}\n"
        """
        governor gate
        mkdir -m 777 $groups/fuzz
        for user in 0 65534; do
            hint $user as fuzz $((LAB_SEED + user)) $calls >/tmp/said || fail "$(cat /tmp/said)"
            echo "$user: $(cat /tmp/said)"
            agrees "after user $user"
        done
        rmdir $groups/fuzz/* 2>/dev/null
        rmdir $groups/fuzz || fail "a group is held"
        expect ok hint 1 set none       # it was among the targets, and lives on
        usleep 500000
        expect "agrees: 0 hints" recount
        expect "# tracepoints attached: no" attached no
        rmmod cpuidle_lab 2>/dev/null && fail "it is current"
        governor menu
        rmmod cpuidle_lab || fail "a reference is left"
        """,
        real_time=True,
        time_limit_s=7200,
    )
    for user in ("0", "65534"):
        errors = {name: int(n) for name, n in (item.split("=") for item in said[user].split())}
        assert sum(errors.values()) == CALLS
        assert errors["ok"] > CALLS / 20
        assert {"EBADF", "EINVAL", "EFAULT", "ENOTTY", "ESRCH"} <= set(errors)
    assert {"EPERM", "EACCES"} <= {item.split("=")[0] for item in said["65534"].split()}
