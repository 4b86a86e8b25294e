# SPDX-License-Identifier: GPL-2.0
"""A hostile user does not get more out of hints, nor less out of the machine, than it should.

Each attack is a short form: the module's numbers are made smaller, the users need fewer tasks.
"""

import itertools
from pathlib import Path

import pytest

from tests.lab.hints_guest import guest

pytestmark = pytest.mark.lab

TOP = Path(__file__).resolve().parents[2]


def smaller(path: str, numbers: dict[str, tuple[int, int]]) -> dict[str, str]:
    """Return a file of the module with other numbers in it, by path.

    Args:
        path: below the top of the tree.
        numbers: value in the tree and value wanted, by the name of the macro.
    """
    text = (TOP / path).read_text()
    for name, (before, after) in numbers.items():
        lines = [line for line in text.splitlines() if line.split()[:2] == ["#define", name]]
        assert len(lines) == 1, name
        assert lines[0].endswith(str(before)), name
        text = text.replace(lines[0], lines[0].replace(str(before), str(after)))
    return {path: text}


NUMBERS = (
    smaller("module/hints/pool.h", {"CIL_HINTS_MAX": (16384, 64), "CIL_HINTS_RESERVED": (1024, 8)})
    | smaller("module/hints/request.c", {"GROUPS_MAX": (4096, 16), "GROUPS_RESERVED": (256, 4)})
    | smaller("module/hints/levels.h", {"CIL_LEVELS_RESERVED": (12, 80)})
)

NOTHING_TO_DO = """
attachments() { sed -n 's/^# attachments: //p' $hints; }
governor gate
echo "none: $(nobody hint 1000 repeat none)"
# The kernel's work after the change of governors is over.
usleep 2000000
echo "none.interrupts: $(nobody hint 1000 quiet none)"
echo "none.attachments: $(attachments)"
echo "none.attached: $(tail -n 1 $hints)"

# A stored hint acts only while gate is current, and if it differs from the default.
governor menu_ng
sleep 1000 & pid=$!
hint $pid set -20 >/dev/null
echo "acts.menu_ng: $(acts)"
echo "acts.kept: $(tail -n 1 $hints)"
governor gate
echo "acts.gate: $(acts)"
agrees "after the gate"
governor menu_ng
echo "acts.menu_ng_again: $(acts)"
hint $pid set 0 >/dev/null
governor gate
echo "acts.zero: $(acts)"
kill $pid
usleep 2500000

# A hint that comes and goes with its task: the second time the probes stay for a minute.
before=$(attachments)
for i in 1 2 3; do
    nobody hint self set 0 >/dev/null
    nobody hint self set 5 >/dev/null
    usleep 1500000
done
echo "pattern.attachments: $(($(attachments) - before))"
"""

# The same for longer: seconds, attachments so far, function-call interrupts of CPU 1 so far.
LONG_PATTERN = """
for i in $(seq 100); do
    nobody hint self set 0 >/dev/null
    nobody hint self set 5 >/dev/null
    usleep 1500000
    echo "at.$i: $(cut -d " " -f 1 /proc/uptime) $(sed -n 's/^# attachments: //p' $hints)" \
        $(awk '$1 == "CAL:" { print $3 }' /proc/interrupts)
done
"""

# A task sleeps on CPU 1, which is otherwise idle; requests for it come from CPU 0.
SLEEPER = """
shell=$$
taskset -pc 0 $shell >/dev/null
taskset -c 1 hint 65534 as sleep 1000 & asleep=$!
usleep 1500000
# Smaller: the CPU is woken, and leaves the deepest state for as long as the task lingers.
hint $asleep set -15 >/dev/null
deep=$(time_us 1 3)
usleep 1000000
echo "sleeper.smaller: $(($(time_us 1 3) - deep))"
echo "sleeper.interrupts: $(nobody hint 20 quiet 50000ns $asleep)"
# Greater: it counts from the next wake-up on.
taskset -c 1 true
deep=$(time_us 1 3) middle=$(usage 1 2)
usleep 1000000
taskset -c 1 true
echo "sleeper.greater: $(($(time_us 1 3) - deep)) $(($(usage 1 2) - middle))"
echo "sleeper.interrupts_of_values: $(nobody hint 15 quiet 1 $asleep)"
taskset -c 1 true
usleep 1000000
taskset -c 1 true
echo "sleeper.none: $(($(time_us 1 3) - deep))"
kill $asleep
taskset -pc 0,1 $shell >/dev/null
agrees "a sleeper"
"""

# A value of a group was set in a namespace that is gone. Its number is not given to another one.
GONE_NAMESPACE = """
mkdir $groups/gone
chown 65534 $groups/gone
nobody unshare -Ur sh -c "hint group:$groups/gone set 3; stat -Lc %i /proc/self/ns/user" >/tmp/gone
usleep 500000
echo "space.set: $(head -n 1 /tmp/gone)"
echo "space.before: $(tail -n 1 /tmp/gone)"
echo "space.after: $(nobody unshare -Ur stat -Lc %i /proc/self/ns/user)"
expect ok hint group:$groups/gone set none
rmdir $groups/gone
agrees "a namespace that is gone"
"""

# A program of an older or a newer version: size of its struct, what lies beyond the one known here.
SIZES = """
for size in 0 8 23 24 25 32 512; do
    echo "size.$size.0: $(hint $size sized 0)"
    echo "size.$size.1: $(hint $size sized 1)"
done
"""

# Uids of a namespace of its own, each in a namespace within that: they count as the outermost.
NESTED = """
tune gate hints_per_user 20
mkfifo /tmp/mapped
hint 65534 as unshare -U sh -c 'read go </tmp/mapped
    for uid in 1 2 3 4 5 6 7 8; do hint $uid as unshare -U storm threads 9 >/dev/null & done
    wait' &
outer=$!
usleep 300000
echo "0 65534 1
1 100000 8" >/tmp/map
for kind in uid gid; do cat /tmp/map >/proc/$outer/${kind}_map || fail "no map of ${kind}s"; done
echo go >/tmp/mapped
usleep 500000
for pid in $(pidof storm); do
    hint $pid set 0 >>/tmp/nested
done
echo "nested.uids: $(for pid in $(pidof storm); do stat -c %u /proc/$pid; done | sort -u | wc -l)"
echo "nested.answers: $(sort -u /tmp/nested | tr '\\n' ' ')"
echo "nested.held: $(grep -c storm $hints)"
expect ok hint 1 set -20
expect ok hint 1 set none
agrees "nested namespaces"
kill $(pidof storm) $outer
echo 1 >$knobs/gate/defaults
usleep 300000
"""

READ_ONLY = """
mkdir $groups/seen /tmp/seen
mount --bind $groups /tmp/seen
mount -o remount,bind,ro /tmp/seen
echo "read_only: $(hint group:/tmp/seen/seen set 3)"
echo "writable: $(hint group:$groups/seen set 3)"
"""

CHANGE_OF_USER = """
# Sets its hint as root, and becomes a task of another user; or its child does.
hint -10 run sleep 1000 & same=$!
hint -10 run hint 65534 as sleep 1000 & other=$!
hint -10 run sh -c 'hint 65534 as sleep 1000 & echo $! >/tmp/child; wait' & parent=$!
hint -10k run hint 65534 as sleep 1000 & kept=$!
hint -10f run sh -c 'sleep 1000 & echo $! >/tmp/fork; wait' & forks=$!
nobody hint 5 run unshare -Ur sleep 1000 & space=$!
hint -10 run hint 65534 effective sleep 1000 & effective=$!
cp /lab/bin/storm /tmp/other_user
chown 65534 /tmp/other_user
chmod 4755 /tmp/other_user
hint -10 run /tmp/other_user threads 1 >/dev/null & exec=$!
# The group's value does not depend on the user of a member.
mkdir $groups/theirs
hint group:$groups/theirs set -5
sh -c "echo \\$\\$ >$groups/theirs/cgroup.procs
    exec hint -10 run hint 65534 as sleep 1000" & member=$!
usleep 500000
for name in same other parent kept forks space effective exec member; do
    eval "pid=\\$$name"
    echo "user.$name: $(hint $pid get)"
done
echo "user.child: $(hint $(cat /tmp/child) get)"
echo "user.fork: $(hint $(cat /tmp/fork) get)"
echo "user.listed: $(grep -c . $hints) lines, $(on $other)$(on $(cat /tmp/child)) of others"
echo "user.limits: $(limit $member) $(limit $same)"
nobody hint self set 5k >/tmp/said; echo "user.keep: $(cat /tmp/said)"
agrees "a change of user"
kill $same $other $parent $kept $forks $space $(cat /tmp/child /tmp/fork)
kill $effective $exec $member

# While another governor is current, no probe sees a switch. Gate must not find the hint.
governor menu_ng
echo "unseen.acts: $(acts)"
hint -10 run hint 65534 as sleep 1000 & unseen=$!
hint -10 run sleep 1000 & stays=$!
usleep 300000
echo "unseen.before: $(limit $unseen)"
governor gate
echo "unseen.acts_again: $(acts)"
echo "unseen.after: [$(limit $unseen)] $(limit $stays)"
agrees "a change of user that no probe saw"
kill $unseen $stays
"""

# Time of one of root's requests, in ns (mean, median, longest): alone, and beside 40
# processes of another user. Half of them have new hints settled all the time, half change theirs.
# SCHED_FIFO leaves the locks as the only thing to wait for. Between requests the others run, so
# that some request meets a holder of the lock that was preempted.
WAITING = """
requests() { hint 300 fifo $waits; }
sleep 10000 & waits=$!
echo "waiting.alone: $(requests)"
for i in $(seq 20); do
    hint 19 nice hint 65534 as sh -c \
        'while :; do sleep 9 & hint $! set 5; kill $!; done' >/dev/null 2>&1 & loops="${loops:-} $!"
    hint 19 nice hint 65534 as hint 1000000000 repeat $((i % 2)) & loops="$loops $!"
done
usleep 500000
echo "waiting.beside: $(requests)"
kill $loops $waits
# The last of their tasks sleep on for a while.
for i in $(seq 120); do
    [ "$(recount)" = "agrees: 0 hints" ] && break
    usleep 100000
done
expect "agrees: 0 hints" recount
"""

# Root waits no longer for crowds. A turn of a CPU in the lab is half of it.
MOST_NS = 200_000

# The same beside requests for 3000 threads, and for groups, each of which may concern all hints.
# Busy tasks take the CPU from a task that holds the lock, if it does not inherit priority.
CROWD = """
echo 20000 >/proc/sys/kernel/threads-max
requests() { hint 300 fifo $waits; }
sleep 10000 & waits=$!
echo "waiting.alone: $(requests)"
hint 65534 as storm threads 3000 >/tmp/ready & crowd=$!
until grep -q ready /tmp/ready; do usleep 100000; done
expect ok nobody hint $crowd set 5
echo "crowd: $(grep -c storm $hints)"
mkdir $groups/theirs
chown 65534 $groups/theirs
hint 19 nice hint 65534 as sh -c \
    "while :; do hint $crowd set 5f; hint $crowd set 5; done" >/tmp/said & loops=$!
hint 19 nice hint 65534 as sh -c "while :; do
    mkdir $groups/theirs/one; hint group:$groups/theirs/one set 3; rmdir $groups/theirs/one
done" >/dev/null 2>&1 & loops="$loops $!"
for i in 1 2 3 4; do
    hint 19 nice hint 65534 as sh -c 'while :; do :; done' & loops="$loops $!"
done
usleep 500000
echo "waiting.beside: $(requests)"
echo "crowd.answers: $(sort -u /tmp/said | tr '\\n' ' ')"
echo "crowd.requests: $(grep -c ok /tmp/said)"
kill $loops $crowd $waits
"""

# Requests for all threads of a process.
# Virtual time passes for the work of all CPUs: a kernel that still tests its own ciphers at boot
# makes the first crowd's requests last up to three times as long.
THREADS = """
while pidof cryptomgr_test >/dev/null; do usleep 100000; done
echo 20000 >/proc/sys/kernel/threads-max
for n in 500 4000; do
    hint 65534 as storm threads $n >/tmp/ready & crowd=$!
    until grep -q ready /tmp/ready; do usleep 100000; done
    expect ok hint $crowd set 5
    echo "threads.$n: $(grep -c storm $hints) $(hint 9 fifo $crowd)"
    kill $crowd
    wait $crowd
    rm /tmp/ready
done
"""

ALL_UIDS = """
uids=$(seq 1001 1008)
sleep 10000 & mine=$!
# More threads than there are hints; 0 limits nothing, and takes a hint all the same.
for uid in $uids; do
    hint $uid as storm threads 10 >/dev/null & pids="${pids:-} $!"
done
usleep 500000
for uid in $uids; do
    set -- $pids; pid=$1; shift; pids="$* $pid"
    hint $uid as hint $pid set 0 >>/tmp/answers
done
echo "tasks: $(sort -u /tmp/answers | tr '\\n' ' ')"
echo "held: $(grep -c storm $hints)"
expect ok hint $mine set -20
agrees "the pool"
kill $pids
usleep 500000

for uid in $uids; do
    for n in 1 2 3; do
        mkdir $groups/$uid-$n
        chown $uid $groups/$uid-$n
        hint $uid as hint group:$groups/$uid-$n set 3 >>/tmp/groups
    done
done
echo "groups: $(sort -u /tmp/groups | tr '\\n' ' ')"
mkdir $groups/mine
expect ok hint group:$groups/mine set -5
agrees groups

# A user who was once given a limit may ask for any longer one.
hint 1001 as storm threads 40 >/dev/null & many=$!
usleep 500000
expect ok hint $many set 1000ns
n=2000
for task in $(ls /proc/$many/task); do
    n=$((n + 1000))
    hint 1001 as hint thread:$task set ${n}ns >>/tmp/limits
done
echo "limits: $(sort -u /tmp/limits | tr '\\n' ' ')"
expect ok hint $mine set 77777ns
# A level that root has, or had, from the reserve is not a user's by asking for the same.
expect ENOSPC hint 1001 as hint thread:$task set 77777ns
expect ok hint $mine set none
expect ENOSPC hint 1001 as hint thread:$task set 77777ns
expect ok hint $mine set 88888ns
agrees limits
kill $many

# Descendants of a task that keeps a hint are charged to root, of whatever user they are.
echo 20 >$knobs/gate/hints_per_user
hint -10k run hint 65534 as storm threads 60 >/dev/null & kept=$!
usleep 500000
echo "kept: $(awk '$1 ~ /^[0-9]/' $hints | grep -c storm)"
expect ok hint self set -5
kill $kept
agrees kept
"""


# The same with the numbers as they are: 32,768 threads, 8,192 groups, and uids of a namespace.
WHOLE = """
governor gate
echo 100000 >/proc/sys/kernel/pid_max
echo 100000 >/proc/sys/kernel/threads-max
uids=$(seq 1001 1008)
sleep 10000 & mine=$!
for uid in $uids; do
    hint $uid as storm threads 4096 >/tmp/ready.$uid & pids="${pids:-} $!"
done
for uid in $uids; do
    while ! grep -q ready /tmp/ready.$uid; do usleep 100000; done
done
echo "threads: $(for pid in $pids; do ls /proc/$pid/task; done | wc -l)"
for uid in $uids; do
    set -- $pids; pid=$1; shift; pids="$* $pid"
    hint $uid as hint $pid set 0 >>/tmp/answers
done
echo "tasks: $(sort -u /tmp/answers | tr '\\n' ' ')"
echo "held: $(grep -c storm $hints)"
expect ok hint $mine set -20
agrees "the pool"
kill $pids
wait $pids
for i in $(seq 100); do
    [ "$(recount)" = "agrees: 1 hints" ] && break
    usleep 100000
done
expect "agrees: 1 hints" recount
for uid in $uids; do
    mkdir $groups/$uid
    chown $uid $groups/$uid
    hint $uid as sh -c 'for n in $(seq 1024); do
        mkdir '$groups/$uid'/$n && hint group:'$groups/$uid'/$n set 3
    done' >>/tmp/groups
done
echo "groups: $(sort /tmp/groups | uniq -c | tr '\\n' ' ')"
mkdir $groups/mine
expect ok hint group:$groups/mine set -5
agrees groups
"""


@pytest.mark.full
def test_the_whole_attack(tmp_path: Path) -> None:
    """8 uids with 4,096 threads and 1,024 groups each; root's next requests succeed."""
    found = guest(tmp_path, WHOLE, real_time=True, memory_mib=4096, time_limit_s=1800)
    assert int(found["threads"]) == 8 * 4096
    assert found["tasks"].split() == ["ENOSPC", "ok"]
    assert int(found["held"]) == 16384 - 1024
    assert found["groups"].split() == [str(8 * 1024 - 3840), "ENOSPC", "3840", "ok"]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what a guest said in which all attacks were tried, one after the other."""
    script = NOTHING_TO_DO + SLEEPER + SIZES + NESTED + READ_ONLY + GONE_NAMESPACE
    script += CHANGE_OF_USER + WAITING + ALL_UIDS
    return guest(tmp_path_factory.mktemp("attack"), script, changes=NUMBERS)


def test_nothing_to_do_attaches_no_probe(said: dict[str, str]) -> None:
    assert said["none"] == "ok"
    assert said["none.attachments"] == "0"
    assert said["none.attached"] == "# tracepoints attached: no"
    assert said["none.interrupts"] == "0"


def test_what_cannot_act_does_not_hear_of_switches(said: dict[str, str]) -> None:
    """Under another governor, or with the value 0 alone, what is stored stays, and no more."""
    assert said["acts.menu_ng"] == said["acts.menu_ng_again"] == said["acts.zero"] == "no"
    assert said["acts.kept"] == "# tracepoints attached: yes"
    assert said["acts.gate"] == "yes"


def test_no_pattern_attaches_more_than_twice_a_minute(said: dict[str, str]) -> None:
    assert said["pattern.attachments"] == "2"


@pytest.mark.full
def test_no_minute_of_many_has_more_than_two_attachments(tmp_path: Path) -> None:
    """Nor do they stay attached for ever. An isolated CPU is interrupted by these alone."""
    said = guest(tmp_path, "governor gate\n" + LONG_PATTERN, options=("isolcpus=1",))
    seen = [tuple(map(float, said[f"at.{i}"].split())) for i in range(1, 101)]
    assert seen[-1][0] - seen[0][0] > 140
    assert seen[-1][1] > 2
    disturbed = [now[0] for last, now in itertools.pairwise(seen) if now[2] > last[2]]
    assert disturbed
    for start, before, _ in seen:
        assert max(n for s, n, _ in seen if s <= start + 60) <= before + 2, (start, seen)
        # To attach interrupts a CPU, and to detach does.
        assert sum(start < s <= start + 60 for s in disturbed) <= 4, (start, seen)


def test_only_a_smaller_limit_of_a_sleeper_interrupts_its_cpu(said: dict[str, str]) -> None:
    """It takes CAP_SYS_NICE. A greater one holds from the next wake-up of the CPU on."""
    assert said["sleeper.smaller"] == "0"
    assert said["sleeper.interrupts"] == said["sleeper.interrupts_of_values"] == "0"
    deepest, middle = map(int, said["sleeper.greater"].split())
    assert deepest == 0 < middle
    assert int(said["sleeper.none"]) > 500_000


def test_a_namespace_that_pays_keeps_its_number(said: dict[str, str]) -> None:
    """Else another user's namespace would be charged for what one that is gone has left."""
    assert said["space.set"] == "ok"
    assert said["space.before"].isdecimal() and said["space.after"].isdecimal()
    assert said["space.before"] != said["space.after"]


def test_programs_of_other_versions_are_understood(said: dict[str, str]) -> None:
    """Too small is EINVAL; what is longer must be 0 where it is unknown, as clone3() has it."""
    for size in (0, 8, 23):
        assert {said[f"size.{size}.{tail}"] for tail in (0, 1)} == {"EINVAL"}, size
    assert {said[f"size.24.{tail}"] for tail in (0, 1)} == {"5"}
    for size in (25, 32, 512):
        assert said[f"size.{size}.0"] == "5"
        assert said[f"size.{size}.1"] == "E2BIG"


def test_nested_namespaces_count_as_the_outermost(said: dict[str, str]) -> None:
    """Eight uids of a namespace, each in one of its own, have what one user may have."""
    assert said["nested.uids"] == "8"
    assert said["nested.answers"].split() == ["EDQUOT", "ok"]
    assert int(said["nested.held"]) == 20


def test_a_group_behind_a_read_only_mount_is_not_changed(said: dict[str, str]) -> None:
    assert said["read_only"] == "EROFS"
    assert said["writable"] == "ok"


def test_a_hint_does_not_cross_a_change_of_user(said: dict[str, str]) -> None:
    assert said["user.same"] == said["user.parent"] == said["user.forks"] == "-10"
    for name in ("other", "child", "space", "fork", "effective", "exec", "member"):
        assert said[f"user.{name}"] == "none", name
    assert said["user.listed"].endswith("lines,  of others")
    assert said["user.kept"] == "-10"
    assert said["user.keep"] == "EACCES"
    # That of the group counts still, for a task that had a lower one of its own.
    group, own = map(int, said["user.limits"].split())
    assert own < group < 2_000_000_000


def test_a_change_of_user_that_no_probe_saw_is_found(said: dict[str, str]) -> None:
    """It happened while another governor was current; the task has slept since."""
    assert said["unseen.acts"] == "no"
    assert said["unseen.acts_again"] == "yes"
    limit = said["unseen.before"]
    assert said["unseen.after"] == f"[] {limit}"


def waiting(said: dict[str, str]) -> dict[str, list[int]]:
    """Return mean, median and longest time of a request in ns, alone and beside the others."""
    return {when: [*map(int, said[f"waiting.{when}"].split())] for when in ("alone", "beside")}


def test_root_does_not_wait_for_strangers(said: dict[str, str]) -> None:
    """Neither for a grace period nor for the next turn of a task that holds the lock.

    The aim is 3 times as long as alone, see test_root_waits_three_times_as_long_at_most(). After
    other attacks it was 5.7 times once: a holder on another CPU is waited for, up to half a turn of
    100 us. In a boot of its own, a grace period under the lock takes 200 times. A mutex without
    inheritance shows beside crowds: 1.7 to 2.0 ms at most with seeds 1 and 42, in place of 0.07. A
    boot of its own would not let this test be as strict: with seed 42 it gave 1.8 times on average
    and 3.04 at the median (2026-11-24), so 3 has no room for chance.
    """
    found = waiting(said)
    assert found["beside"][0] <= 8 * found["alone"][0], found
    assert found["beside"][1] <= 8 * found["alone"][1], found


@pytest.mark.full
@pytest.mark.parametrize("turn_us", [10, 20])
def test_root_waits_three_times_as_long_at_most(turn_us: int, tmp_path: Path) -> None:
    """In a boot of its own. The shorter their turns, the nearer CPUs are to parallel ones.

    With turns of 100 us the mean was 3.05 to 5.1 times in four boots (2026-11-28): a holder on
    another CPU is waited for, up to half a turn. test_root_does_not_wait_for_strangers() bounds it.
    """
    found = waiting(guest(tmp_path, "governor gate\n" + WAITING, turn_us=turn_us))
    assert found["beside"][0] <= 3 * found["alone"][0], found
    assert found["beside"][1] <= 3 * found["alone"][1], found


@pytest.mark.full
def test_root_does_not_wait_for_crowds_of_strangers(tmp_path: Path) -> None:
    """A request for many threads, or for a group, holds the lock for few of them at a time."""
    said = guest(tmp_path, "governor gate\n" + CROWD)
    assert said["crowd"] == "3000"
    assert said["crowd.answers"] == "ok "
    assert int(said["crowd.requests"]) > 5
    found = waiting(said)
    assert found["beside"][0] <= 8 * found["alone"][0], found
    assert found["beside"][2] <= MOST_NS, found


FREED = """\trt_mutex_unlock(&cil_hints_lock);
\treturn ret;
"""


@pytest.mark.full
def test_a_request_takes_time_in_proportion_to_its_threads(tmp_path: Path) -> None:
    """Eight times the threads: were each looked for from the first one on, 64 times the time."""
    said = guest(tmp_path, THREADS, memory_mib=2048)
    (few, _, few_ns, _), (many, _, many_ns, _) = (
        map(int, said[f"threads.{n}"].split()) for n in (500, 4000)
    )
    assert (few, many) == (500, 4000)
    assert 4 * few_ns < many_ns <= 12 * few_ns


@pytest.mark.full
def test_a_grace_period_is_seen_if_it_is_put_back(tmp_path: Path) -> None:
    """As test_root_does_not_wait_for_strangers() would."""
    path = TOP / "module/hints/request.c"
    assert path.read_text().count(FREED) == 1
    text = path.read_text().replace(FREED, FREED.replace("\trt", "\tsynchronize_rcu();\n\trt"))
    changes = {"module/hints/request.c": text}
    found = waiting(guest(tmp_path, "governor gate\n" + WAITING, changes=changes))
    assert found["beside"][0] > 8 * found["alone"][0] or found["alone"][0] > 1_000_000, found


# Boots that differ in when the requests begin: whether a holder loses its CPU is a matter of that.
BEGINS_US = (1000, 2300, 4700)


@pytest.mark.full
def test_a_lock_without_inheritance_is_seen_if_it_is_put_back(tmp_path: Path) -> None:
    """As test_root_does_not_wait_for_crowds_of_strangers() would: the holder has no CPU for ms.

    In one of several boots: in a boot on 2026-11-28 no holder lost its CPU.
    """
    changes: dict[str, str] = {}
    for path in (TOP / "module/hints").glob("*.[ch]"):
        text = path.read_text().replace("linux/rtmutex.h", "linux/mutex.h")
        text = text.replace("struct rt_mutex", "struct mutex").replace("DEFINE_RT_", "DEFINE_")
        changes[str(path.relative_to(TOP))] = text.replace("rt_mutex_", "mutex_")
    found = [
        waiting(guest(tmp_path / str(us), f"governor gate\nusleep {us}\n{CROWD}", changes=changes))
        for us in BEGINS_US
    ]
    assert max(one["beside"][2] for one in found) > MOST_NS, found


def test_uids_cannot_deny_hints_to_root(said: dict[str, str]) -> None:
    """However many uids ask: a part of the pool, of the groups and of the limits is left."""
    assert said["tasks"].split() == ["ENOSPC", "ok"]
    assert int(said["held"]) == 56
    assert said["groups"].split() == ["ENOSPC", "ok"]
    assert said["limits"].split() == ["ENOSPC", "ok"]
    # Of root's 20, at most three quarters for descendants of a task that keeps its hint.
    assert 0 < int(said["kept"]) <= 15
