# SPDX-License-Identifier: GPL-2.0
"""latnice with the real device: as root, as an unprivileged user, and in a user namespace."""

from pathlib import Path

import pytest

from cpuidle_lab.lab import LabResult, LabRun, programs, run_lab, workloads
from tests.lab.kernels import every_kernel

pytestmark = pytest.mark.lab

SCRIPT = r"""
. /lab/functions
. /lab/servers
known_users

# is WORDS COMMAND...: what the command prints, its complaints included.
is() {
	wanted=$1
	shift
	said=$("$@" 2>&1) && code=0 || code=$?
	[ "$said" = "$wanted" ] || fail "'$*' says '$said', not '$wanted'"
}
# fails CODE WORDS COMMAND...: one sentence with these words.
fails() {
	wanted=$1 words=$2
	shift 2
	said=$("$@" 2>&1) && code=0 || code=$?
	[ "$code" = "$wanted" ] || fail "'$*' exits with $code ('$said'), not $wanted"
	case "$said" in *"$words"*) ;; *) fail "'$*' says '$said', not '$words'" ;; esac
	[ "$(echo "$said" | wc -l)" = 1 ] || fail "'$*' says more than one line: $said"
}
user() { su postgres -c "$*"; }

fails 125 "the module cpuidle_lab is not loaded" latnice -n 5 true
load cpuidle_emul machine=skx
load cpuidle_lab
governor gate

# A command has the hint, its children inherit it, and no other task has one.
is "value -20" latnice -n -20 sh -c "latnice; true"
is "limit 50 us" latnice -l 50us sh -c "latnice; true"
is "no hint" latnice -n -20 sh -c "latnice -r latnice; true"
is "no hint" latnice
latnice -n 5 sh -c "exit 7"
[ $? = 7 ] || fail "the exit code of the command is lost"
fails 127 "No such file" latnice -n 5 no-such-program

# All threads of a process at once.
sleepers 3 &
pid=$!
sleep 1
latnice -n -5 -p $pid || fail "no hint for a process"
is "pid $pid: value -5" latnice -p $pid
[ "$(grep -c '^[0-9]' $knobs/gate/hints)" = 4 ] || fail "not all threads: $(cat $knobs/gate/hints)"
thread=$(ls /proc/$pid/task | tail -n 1)
if said=$(latnice -l 9us -t $thread 2>&1); then
	is "thread $thread: limit 9 us" latnice -t $thread
	is "pid $pid: value -5" latnice -s -p $pid
	echo "threads: alone"
else
	fails 1 "this kernel cannot name a single thread" latnice -n 1 -t $thread
	echo "threads: together"
fi
fails 1 "is a thread, not a process" latnice -n 5 -p $thread
latnice -r -p $pid || fail "the hint cannot be removed"
is "pid $pid: no hint" latnice -p $pid
[ "$(grep -c '^[0-9]' $knobs/gate/hints)" = 0 ] || fail "hints are left: $(cat $knobs/gate/hints)"
kill $pid
wait $pid
fails 1 "no such process" latnice -n 5 -p $pid

# Control groups.
mkdir -p /cgroup
mount -t cgroup2 none /cgroup
mkdir /cgroup/web
latnice -g /cgroup/web -n -5 || fail "no value for a group"
is "group /cgroup/web: value -5" latnice -s -g /cgroup/web
fails 1 "/tmp: is not a control group" latnice -n 5 -g /tmp
latnice -r -g /cgroup/web
is "group /cgroup/web: no hint" latnice -g /cgroup/web

# An unprivileged user: up, but not down; own tasks, but no others.
sleep 1000 &
pid=$!
is "value 7" user "latnice -n 7 sh -c 'latnice; true'"
fails 125 "more than before, or to keep it, needs CAP_SYS_NICE" user "latnice -n -1 true"
fails 125 "more than before, or to keep it, needs CAP_SYS_NICE" user "latnice -l 5us true"
fails 125 "to ask for more than before" user "latnice -n 7 latnice -n 6 true"
fails 1 "is of another user" user "latnice -n 7 -p $pid"
is "pid $pid: no hint" latnice -p $pid
fails 1 "may not be written to" user "latnice -n 7 -g /cgroup/web"

# Being root in a user namespace of one's own gives no right outside of it.
if user "unshare -U -r true" 2>/dev/null; then
	is "value 7" user "unshare -U -r latnice -n 7 latnice"
	fails 125 "to keep it, needs CAP_SYS_NICE" user "unshare -U -r latnice -n -1 true"
	fails 1 "is of another user" user "unshare -U -r latnice -n 7 -p $pid"
	echo "namespace: tried"
fi

kill $pid
governor menu
rmmod cpuidle_lab || fail "the module cannot be unloaded"
fails 125 "the module cpuidle_lab is not loaded" latnice
"""


@every_kernel
def test_hints_are_set_by_those_who_may(kernel: str, tmp_path: Path) -> None:
    files = {
        "lab/servers": workloads.SERVERS.read_bytes(),
        **programs.file(programs.LATNICE),
        **programs.file(programs.SLEEPERS),
    }
    run = LabRun(SCRIPT, kernel=kernel, files=files, real_time=True)
    result: LabResult = run_lab(run, tmp_path / "results").check()
    foreign = ("out-of-tree module", "module verification failed", "hrtimer: interrupt took")
    assert [line for line in result.complaints() if not any(t in line for t in foreign)] == []
    assert kernel == "6.1" or "namespace: tried" in result.output
    old = tuple(map(int, kernel.split("."))) < (6, 9)
    assert f"threads: {'together' if old else 'alone'}" in result.output
