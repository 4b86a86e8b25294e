# SPDX-License-Identifier: GPL-2.0
"""/dev/cpuidle_latency: who may ask for what, what it means, and when it ends."""

import re
from pathlib import Path

import pytest

from cpuidle_lab.recording import columns
from cpuidle_lab.replay.fidelity import fidelity
from tests.lab.hints_guest import guest
from tests.lab.kernels import every_kernel

pytestmark = pytest.mark.lab

TOP = Path(__file__).resolve().parents[2]

# For how long a task sleeps, and linger_max_ms: a while, and an hour with the gate as it comes.
# An hour is long for every limit. A state that polls takes a minute for each 10 s.
SLEEPS = [(60, 0), pytest.param(900, 5_000, marks=pytest.mark.full)]


@every_kernel
def test_interface_and_privileges(kernel: str, tmp_path: Path) -> None:
    """As renice: one's own tasks upwards freely, downwards with CAP_SYS_NICE."""
    has_thread_pidfd = "yes" if kernel != "6.1" else "no"
    said = guest(
        tmp_path,
        f"has_thread_pidfd={has_thread_pidfd}"
        """
        echo "mode: $(stat -c %a /dev/cpuidle_latency)"
        expect none hint self get
        sleep 1000 & pid=$!
        expect ok hint $pid set -10
        expect -10 hint $pid get
        expect ok hint $pid set 133000ns
        expect 133000ns hint $pid get
        [ "$(limit $pid)" = 133 ] || fail "listed as $(limit $pid)"
        expect ok hint $pid set none
        expect none hint $pid get

        # A wrong value changes nothing.
        for wrong in 20 -21 9223372036854775807ns; do
            expect EINVAL hint $pid set $wrong
        done
        expect EBADF hint file:/dev/null set 5
        expect EBADF hint file:/proc/$pid set 5
        expect EBADF hint group:/proc set 5
        expect none hint $pid get
        sh -c 'exit' & dead=$!
        wait $dead
        expect ESRCH hint $dead set 5

        # A process is all of its threads; one of them alone.
        storm threads 12 >/dev/null & threads=$!
        usleep 300000
        expect ok hint $threads set -10
        [ $(grep -c storm $hints) = 12 ] || fail "not all threads: $(cat $hints)"
        if [ $has_thread_pidfd = yes ]; then
            expect ok hint thread:$threads set -3
            expect -3 hint thread:$threads get
            [ $(grep -c " -10 storm" $hints) = 11 ] || fail "more than one: $(cat $hints)"
        fi
        agrees threads
        kill $threads

        # The task of another user; an own one.
        expect EPERM nobody hint $pid set 5
        expect none nobody hint $pid get
        expect ok nobody hint self set 5
        expect EACCES nobody hint self set -1
        expect EACCES nobody hint self set 1000000000ns
        hint 65534 as sleep 1000 & theirs=$!
        usleep 100000
        expect ok nobody hint $theirs set 7
        expect ok nobody hint $theirs set 19
        expect EACCES nobody hint $theirs set 18
        expect EACCES nobody hint $theirs set none
        expect 19 nobody hint $theirs get
        expect ok hint $theirs set -10
        # -10 allows 100 us; a limit in ns compares with that.
        expect EACCES nobody hint $theirs set 99000ns
        expect ok nobody hint $theirs set 101000ns
        expect EACCES nobody hint $theirs set -10
        expect ok nobody hint $theirs set -9
        # Being root in a namespace of one's own gives no right outside of it.
        if nobody unshare -Ur true 2>/dev/null; then
            expect ok nobody unshare -Ur hint self set 5
            expect EACCES nobody unshare -Ur hint self set -5
            expect EACCES nobody unshare -Ur hint $theirs set -20
            echo "namespace: tried"
        fi

        # As many as one may have, and no more.
        echo 3 >$knobs/gate/hints_per_user
        hint 65534 as storm threads 8 >/dev/null & many=$!
        usleep 300000
        expect EDQUOT nobody hint $many set 3
        agrees quota
        kill $many $theirs $pid
        usleep 300000
        expect "agrees: 0 hints" recount
        echo "end: $(attached no)"
        """,
        kernel=kernel,
        real_time=True,
    )
    assert said["mode"] == "666"
    assert said["end"] == "# tracepoints attached: no"
    assert kernel == "6.1" or said["namespace"] == "tried"


SEEN = "\tcil_hint_move(task, cpu);\n"
SEEN_WHILE_ACTIVE = "\tif (cpu_active(raw_smp_processor_id()))\n\t\tcil_hint_move(task, cpu);\n"


def test_who_leaves_a_dying_cpu_unseen_is_found(tmp_path: Path) -> None:
    """Tracepoints are silent on a CPU that is not online; here, as soon as it prepares for that."""
    source = (TOP / "module/hints/probes.c").read_text()
    assert source.count(SEEN) == 1
    said = guest(
        tmp_path,
        """
        # Under another governor no migration is seen at all.
        governor gate
        echo "acts: $(acts)"
        spin() { exec taskset -c $1 sh -c 'while :; do :; done'; }
        for i in 1 2 3; do
            spin 0,1 & pids="${pids:-} $!"
            usleep 20000
            expect ok hint $! set -5
        done
        left=0
        for i in 1 2 3; do
            for pid in $pids; do taskset -cp 1 $pid >/dev/null; done
            usleep 20000
            there=$(placed 1)
            left=$((left + ${there:-0}))
            # Balancing may move some of them at once, but not all.
            for pid in $pids; do taskset -cp 0,1 $pid >/dev/null; done
            online 1 0; agrees "CPU 1 is off"
            online 1 1; agrees "CPU 1 is on"
        done
        echo "left: $left"
        kill $pids
        """,
        changes={"module/hints/probes.c": source.replace(SEEN, SEEN_WHILE_ACTIVE)},
    )
    assert int(said["left"]) == 3 * 3


def test_groups(tmp_path: Path) -> None:
    """A group gives its tasks a value, limits those that have one, and is gone when removed."""
    guest(
        tmp_path,
        """
        # Under another governor no task is a member, for it would make no difference.
        mkdir -p $groups/a/b $groups/c
        expect ok hint group:$groups/c set -15
        sh -c "echo \\$\\$ >$groups/c/cgroup.procs; while :; do usleep 10000; done" & pid=$!
        usleep 200000
        [ -z "$(limit $pid)" ] || fail "a member without gate: $(cat $hints)"
        governor gate
        usleep 300000
        [ "$(limit $pid)" = 8 ] || fail "no member under gate: $(cat $hints)"
        expect ok hint group:$groups/c set none
        kill $pid; wait $pid
        expect none hint group:$groups/a get
        expect ok hint group:$groups/a set -15
        expect -15 hint group:$groups/a get
        # The value that it has already changes nothing, and no hint is resolved again.
        echo 'p:publishes cil_groups_publish' >>$tracing/kprobe_events
        echo 1 >$tracing/events/kprobes/publishes/enable
        publishes() { awk '$1 == "publishes" { print $2 }' $tracing/kprobe_profile; }
        expect ok hint group:$groups/a set -15
        [ "$(publishes)" = 0 ] || fail "the same value was published"
        expect ok hint group:$groups/a set -14
        expect ok hint group:$groups/a set -15
        [ "$(publishes)" = 2 ] || fail "$(publishes) values were published, not 2"
        echo 0 >$tracing/events/kprobes/publishes/enable
        echo >$tracing/kprobe_events
        expect EPERM nobody hint group:$groups/a set 5

        # in FOLDER: it runs there and sleeps in between.
        in_group() {
            exec sh -c "echo \\$\\$ >$groups/$1/cgroup.procs; while :; do usleep 10000; done"
        }
        in_group a & first=$!
        in_group a/b & second=$!
        in_group c & third=$!
        sleep 0.3
        shows() {
            usleep 100000
            [ "$(limit $1)" = "$2" ] || fail "$3: $(cat $hints)"
            agrees "$3"
        }
        shows $first 8 "a member has the value"
        shows $second 8 "so has one further down"
        shows $third "" "others have not"

        # Further down a group may say less, not more.
        expect ok hint group:$groups/a/b set -19
        shows $second 8 "limited by the one above"
        expect ok hint group:$groups/a/b set -10
        shows $second 100 "less sensitive than above"
        shows $first 8 "that is not the upper one's affair"

        # A member that asks for more gets what the group allows, for less gets less.
        expect ok hint $first set -20
        shows $first 8 "limited by the group"
        expect -20 hint $first get
        expect ok hint $first set -5
        shows $first 1000 "asks for less"
        expect ok hint $first set 0
        shows $first - "the default shields from the group"
        expect 0 hint $first get
        expect ok hint $first set -5

        # It follows a task that moves.
        echo $third >$groups/a/b/cgroup.procs
        shows $third 100 "moved in"
        echo $third >$groups/c/cgroup.procs
        shows $third "" "moved out"

        # A change of the table changes which of two requests is the more sensitive one.
        map=$(cat $knobs/gate/latency_map)
        expect ok hint $second set 50000n
        shows $second 100 "its limit is bounded by the group"
        echo 1:2:3:4:5:8:10:12:14:16:20:200:300:400:500:1000:1000:1000:1000:1000 \
            >$knobs/gate/latency_map
        shows $second 50 "the group allows more now"
        echo $map >$knobs/gate/latency_map
        shows $second 100 "and less again"
        expect ok hint $second set none

        # The name of a task adds no line to the list.
        sh -c 'printf "x\\n7 0 3 y" >/proc/$$/comm; while :; do usleep 10000; done' & named=$!
        usleep 100000
        expect ok hint $named set -5
        shows $named 1000 "a task with a name of its own"
        grep -q '^7 0 3' $hints && fail "a line too many: $(cat $hints)"
        kill $named; wait $named

        # Lowering needs the right; raising needs the folder.
        chown 65534 $groups/a
        expect EACCES nobody hint group:$groups/a set -16
        expect EACCES nobody hint group:$groups/a set none
        expect ok nobody hint group:$groups/a set -12
        shows $second 100 "raised above"

        # Removal releases the value, also for tasks that have moved out and sleep.
        sh -c "echo \\$\\$ >$groups/c/cgroup.procs; exec sleep 1000" & sleeper=$!
        expect ok hint group:$groups/c set -15
        usleep 50000
        kill $third
        wait $third
        echo $sleeper >$groups/cgroup.procs
        until grep -q "populated 0" $groups/c/cgroup.events; do usleep 10000; done
        rmdir $groups/c || fail "the group holds on"
        mkdir $groups/c
        expect none hint group:$groups/c get
        usleep 100000
        [ -z "$(limit $sleeper)" ] || fail "still there: $(cat $hints)"
        agrees removed
        kill $first $second $sleeper
        wait
        usleep 200000               # what they had started ends by itself
        rmdir $groups/a/b $groups/a
        usleep 100000
        expect "agrees: 0 hints" recount
        expect "# tracepoints attached: no" attached no

        # The user who sets a value is charged for it, and for each member that has it by that.
        echo 3 >$knobs/gate/hints_per_user
        mkdir $groups/d $groups/e
        expect ok hint group:$groups/d set -15
        pids=
        for i in 1 2 3 4; do
            sh -c "echo \\$\\$ >$groups/d/cgroup.procs; exec sleep 1000" &
            pids="$pids $!"
        done
        usleep 200000
        [ "$(grep -c sleep $hints)" -eq 2 ] || fail "not two for three: $(cat $hints)"
        grep -q "found no room" $hints || fail "the file does not say so: $(cat $hints)"
        expect EDQUOT hint group:$groups/e set -15
        for pid in $pids; do [ -n "$(limit $pid)" ] || left=$pid; done
        expect EDQUOT hint $left set 5
        # Another value instead is no more than before.
        expect ok hint group:$groups/d set -16
        agrees "all is paid for"
        kill $pids
        wait
        rmdir $groups/d $groups/e
        usleep 200000
        expect "agrees: 0 hints" recount
        governor menu
        rmmod cpuidle_lab || fail "a group holds the module"
        """,
        real_time=True,
    )


# Tasks of CPU 1 that wake one another. The last one's group takes the place in which the CPU
# remembers "none": so that is looked up again when the first one stops, and the next two trust it.
MOVES = """
governor gate
mount -o remount,favordynmods $groups
mkdir $groups/none $groups/value
id() { stat -c %i $groups/$1; }
alike=1
mkdir $groups/alike1
while [ $((($(id alike$alike) - $(id none)) % founds)) != 0 ]; do
    alike=$((alike + 1))
    mkdir $groups/alike$alike
done
expect ok hint group:$groups/value set -10
shell=$$
taskset -pc 0 $shell >/dev/null
cd $groups
taskset -c 1 moves ring none none none value alike$alike >/tmp/ring
set -- $(cat /tmp/ring)
cd /
moved=$1 stays="$2 $3" member=$4
usleep 300000
# shows WHEN GROUP: each task has what its group says, and the counts are right.
shows() {
    usleep 200000
    [ "$(limit $member)" = 100 ] || fail "$1: a member has not: $(cat $hints)"
    for pid in $stays; do
        [ -z "$(limit $pid)" ] || fail "$1: another has what members have: $(cat $hints)"
    done
    case $2 in value) wanted=100 ;; *) wanted= ;; esac
    [ "$(limit $moved)" = "$wanted" ] || fail "$1: the one in $2 has not: $(cat $hints)"
    agrees "$1"
}
moves=0
for i in $(seq $rounds); do
    case $((i % 2)) in 0) from=value to=none ;; *) from=none to=value ;; esac
    moves=$((moves + $(moves $moved 1 $groups/$from $groups/$to)))
    shows "round $i" $to
done
echo "moves: $moves"
awk '/^vol/ { print "switches: " $2 }' /proc/$moved/status
# When all sleep, the decisions of their CPU are limited by the members alone.
kill -USR1 $moved
hint_ns() {
    trace_start 4 cpuidle_lab:cil_decision
    usleep 300000
    trace-cmd stop
    sed -n 's/.*\\[001\\].*decision: .* hint_ns=\\([-0-9]*\\) .*/\\1/p' $tracing/trace |
        sort -u | tr '\\n' ' '
}
echo 0 >$knobs/gate/linger_ms
echo "hint.member: $(hint_ns)"
kill $member
usleep 300000
echo "hint.$to: $(hint_ns)"
agrees end
"""


@pytest.mark.full
def test_no_group_gets_the_value_of_another_where_a_task_moves(tmp_path: Path) -> None:
    """It moves while it stops running; without PSI the kernel takes no lock of its CPU for that.

    The moment is short. In a module that reads the cgroup twice, 14 rounds found nothing; with 20
    us between the two reads, the first round did.
    """
    header = (TOP / "module/hints/groups.h").read_text()
    (founds,) = re.findall(r"#define CIL_GROUP_FOUNDS\s+(\d+)", header)
    said = guest(
        tmp_path,
        f"founds={founds} rounds=3" + MOVES,
        programs=("moves",),
        options=("psi=0",),
        real_time=True,
    )
    assert int(said["moves"]) > 100
    assert said["hint.member"].split() == ["100000"]
    assert said["hint.value"].split() == ["100000"]


@pytest.mark.full
def test_what_a_value_allows(tmp_path: Path) -> None:
    """The table, the modes and values above 0, as the decisions tell them."""
    said = guest(
        tmp_path,
        """
        governor gate
        trace_start 8 cpuidle_lab:cil_decision
        # seen WHAT: how the decisions of CPU 1 during a tenth of a second were limited.
        seen() {
            usleep 50000
            trace-cmd reset >/dev/null
            trace-cmd start -e cpuidle_lab:cil_decision >/dev/null
            usleep 100000
            trace-cmd stop
            echo "$1: $(grep '\\[001\\].*decision: ' $tracing/trace |
                sed 's/.*gate: \\([A-Z0-9]*\\) .*hint_ns=\\([-0-9]*\\) .*/\\2 \\1/' |
                sort | uniq | tr '\\n' ',')"
        }
        taskset -c 1 sh -c 'while :; do usleep 3000; done' & pid=$!
        seen none
        for value in -20 -15 -10 0; do
            expect ok hint $pid set $value
            seen $value
        done
        expect ok hint $pid set -10
        echo 5:5:5:5:5:5:5:5:5:5:5:5:5:5:5:5:5:5:5:9 >$knobs/gate/latency_map
        seen map
        echo 9:5:5:5:5:5:5:5:5:5:5:5:5:5:5:5:5:5:5:9 2>/dev/null >$knobs/gate/latency_map &&
            fail "the table may fall"
        echo 5:5 2>/dev/null >$knobs/gate/latency_map && fail "the table may be short"
        echo poll >$knobs/gate/mode
        seen poll
        echo cap >$knobs/gate/mode
        cat $knobs/gate/latency_map
        kill $pid
        # Only such tasks run on CPU 1: the shell is kept off it.
        taskset -pc 0 $$ >/dev/null
        echo 100 >$knobs/gate/linger_ms
        taskset -c 1 hint 10 run sh -c 'while :; do usleep 2000; done' & pid=$!
        usleep 200000
        seen relaxed
        taskset -c 1 sh -c 'while :; do usleep 10000; done' & other=$!
        seen mixed
        kill $other
        # Others run while no probe is attached, then the CPU goes and comes again.
        echo 8000 >$knobs/gate/linger_ms
        sleep 8.5
        seen alone
        kill $pid
        expect "# tracepoints attached: no" attached no
        taskset -c 1 sh -c 'while :; do usleep 3000; done' & other=$!
        seen detached
        sleep 8
        kill $other
        online 1 0
        sleep 1000 & pid=$!
        expect ok hint $pid set 5
        online 1 1
        taskset -c 1 hint 10 run sh -c 'while :; do usleep 2000; done' & other=$!
        usleep 200000
        seen online
        kill $pid $other
        agrees end
        """,
        time_limit_s=1_500,
    )

    def states(name: str) -> dict[int, set[str]]:
        found: dict[int, set[str]] = {}
        for entry in said[name].split(","):
            if entry:
                limit, state = entry.split()
                found.setdefault(int(limit), set()).add(state)
        return found

    assert set(states("none")) == {-1}
    # POLL 0, C1 2 us, C1E 10 us, C6 133 us.
    assert states("-20") == {0: {"POLL"}}
    assert set(states("-15")) == {8000}
    assert states("-15")[8000] <= {"POLL", "C1"}
    assert set(states("-10")) == {100000}
    assert "C1E" in states("-10")[100000]
    assert "C6" not in states("-10")[100000]
    assert set(states("0")) == {-1}
    assert set(states("map")) == {5000}
    assert states("poll") == {0: {"POLL"}}
    assert -2 in states("relaxed")
    assert set(states("mixed")) == {-1}
    assert -2 in states("alone")
    assert set(states("detached")) == set(states("online")) == {-1}


@pytest.mark.parametrize(("seconds", "linger_max_ms"), SLEEPS)
@pytest.mark.parametrize("base", ["menu", "teo_ng"])
def test_a_task_that_sleeps_gates_for_as_long_as_it_lingers(
    base: str, seconds: int, linger_max_ms: int, tmp_path: Path
) -> None:
    """Also with the tick stopped, where nothing but our own timer ends it."""
    said = guest(
        tmp_path,
        f"""
        echo {base} >$knobs/gate/base
        echo {linger_max_ms} >$knobs/gate/linger_max_ms
        seconds={seconds}
        """
        """
        governor gate
        sleep 1
        all() { awk '{ n += $1 } END { print n }' $states/cpu1/cpuidle/state*/time; }
        shallow() { echo $(($(time_us 1 0) + $(time_us 1 1))); }
        # One CPU to itself, but for what the kernel does there.
        taskset -pc 0 $$ >/dev/null
        taskset -c 1 hint -15 run sleep 100000 &
        usleep 1000
        deep=$(time_us 1 3) all=$(all) shallow=$(shallow)
        sleep $seconds
        echo "deep: $(($(time_us 1 3) - deep))"
        echo "all: $(($(all) - all))"
        echo "shallow: $(($(shallow) - shallow))"
        # For ever, the same task gates it again.
        echo 0 >$knobs/gate/linger_ms
        usleep 10000
        deep=$(time_us 1 3)
        sleep 5
        echo "forever: $(($(time_us 1 3) - deep))"
        """,
    )
    assert int(said["deep"]) > 0.99 * int(said["all"])
    assert int(said["all"]) > 0.99e6 * seconds
    # Less what it takes to get here, and a tick more.
    assert 0 < int(said["shallow"]) < max(500, linger_max_ms) * 1000 + 10_000
    assert int(said["forever"]) == 0


@pytest.mark.full
def test_a_task_lingers_as_it_is_used_to_sleep(tmp_path: Path) -> None:
    """Four times its longest sleep of late, of a child as of its parent; not for ever after."""
    said = guest(
        tmp_path,
        """
        governor gate
        echo 100 >$knobs/gate/linger_ms
        echo 4000 >$knobs/gate/linger_max_ms
        taskset -pc 0 $$ >/dev/null
        # CPU 1 is shallow for so long after the last of $2 sleeps of $1 ms.
        lingers() {
            name=$1-$2
            taskset -c 1 hint -15 run sh -c "
                for i in \\$(seq $2); do usleep ${1}000; done; exec sleep 6" &
            pid=$!
            while [ "$(cat /proc/$pid/comm)" != sleep ]; do usleep 20000; done
            shallow=$(time_us 1 1)
            sleep 5
            echo "$name: $(($(time_us 1 1) - shallow))"
            wait $pid
        }
        # Two seconds of short sleeps until it is known.
        lingers 50 2
        lingers 50 400
        lingers 300 30
        """,
    )
    # An unknown length is taken for the longest: 1 s, less an eighth of the time slept.
    assert 3_500_000 < int(said["50-2"]) < 4_010_000
    assert 150_000 < int(said["50-400"]) < 450_000
    assert 1_150_000 < int(said["300-30"]) < 1_400_000


def test_a_late_timer_is_what_ends_the_gate(tmp_path: Path) -> None:
    """Without it, the CPU would be found in a shallow state long after."""
    said = guest(
        tmp_path,
        """
        echo teo_ng >$knobs/gate/base
        echo 20 >$knobs/gate/linger_ms
        echo 0 >$knobs/gate/linger_max_ms
        governor gate
        taskset -pc 0 $$ >/dev/null
        trace_start 8 cpuidle_lab:cil_decision cpuidle_lab:cil_outcome
        for i in $(seq 20); do
            taskset -c 1 hint -15 run sleep 0.5
        done
        trace-cmd stop
        grep '\\[001\\].*outcome: ' $tracing/trace |
            sed -n 's/.*entered C1 (1) residency_ns=\\([0-9]*\\) .*/\\1/p' |
            sort -n | tail -n 1 >/tmp/most
        echo "most: $(cat /tmp/most)"
        """,
    )
    assert re.fullmatch(r"\d+", said["most"])
    assert 4_000_000 < int(said["most"]) < 21_000_000


@pytest.mark.full
def test_replay_repeats_what_hints_did(tmp_path: Path) -> None:
    """The limit in the trace, or the leave to sleep deeper, is all that a decision needs."""
    guest(
        tmp_path,
        """
        rmmod cpuidle_emul
        load cpuidle_emul machine=power9    # with many states, there is often a deeper one
        governor gate
        trace_start 24 cpuidle_lab
        echo 100 >$knobs/gate/linger_ms
        taskset -pc 0 $$ >/dev/null
        # The reader is woken by another CPU only, far from its next timer.
        pair() {
            taskset -c 0 hint $1 run sh -c 'for i in $(seq 100); do usleep 300; echo; done' |
                taskset -c 1 hint $1 run sh -c 'while read -r line; do :; done'
        }
        for base in menu teo_ng; do
            echo $base >$knobs/gate/base
            for value in -20 -15 -10 0 10; do pair $value; done
            echo poll >$knobs/gate/mode
            pair -10
            echo cap >$knobs/gate/mode
        done
        trace_stop trace.dat
        """,
    )
    with columns.opened(tmp_path / "results/trace.dat") as recording:
        for name in ("base", "teo_ng"):
            found = fidelity(recording, name)
            assert found.first == []
            assert found.identical == found.compared > 500
            if name == "base":
                assert {"hint-clamp", "hint-deeper", "base-governor"} <= set(found.reasons)
