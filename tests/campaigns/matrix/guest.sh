# SPDX-License-Identifier: GPL-2.0
# The steps in every kernel of the matrix, in their order. Each step ends
# with a line "NAME ok" in /results/steps; the one that fails leaves its reason
# in /results/error, and the steps after it are not run.
# shellcheck shell=sh disable=SC2154
. /lab/functions

ours="teo_ng menu_ng wteo gate"
list() { cat $cpuidle/available_governors; }
current() { cat $cpuidle/current_governor; }
passed() { echo "$1 ok" >>/results/steps; }
decisions() { sed -n '1s/.* decisions=\([0-9]*\).*/\1/p' "$knobs/$1/state/cpu$2"; }
# Some idle periods of different lengths on both CPUs.
idle() {
	for cpu in 0 1; do
		taskset -c $cpu sh -c 'for i in $(seq 15); do usleep 3000; done' &
	done
	wait
}

# -- load
# From 7.3 on, the kernel tests its ciphers in the background: no CPU is idle until then.
for _ in $(seq 600); do
	grep -qs cryptomgr_test /proc/[0-9]*/comm || break
	usleep 100000
done
# Without idle states of the machine's own, those of the emulated machine.
if [ ! -e /sys/devices/system/cpu/cpu0/cpuidle/state1 ]; then
	load cpuidle_emul machine=skx
fi
{
	cat $cpuidle/current_driver
	cat /sys/devices/system/cpu/cpu0/cpuidle/state*/name
} >/results/driver
before=$(list)
kept=$(current)
load cpuidle_lab
for governor in $ours; do
	list | grep -qw $governor || fail "$governor is not listed"
done
[ "$(current)" = "$kept" ] || fail "loading made $(current) the current governor"
passed load

# -- switch
for governor in $ours; do
	governor $governor
	[ "$(current)" = $governor ] || fail "$(current) is current, not $governor"
	first=$(cat /sys/devices/system/cpu/cpu*/cpuidle/state*/usage | awk '{ n += $1 } END { print n }')
	idle
	last=$(cat /sys/devices/system/cpu/cpu*/cpuidle/state*/usage | awk '{ n += $1 } END { print n }')
	[ "$last" -gt "$first" ] || fail "no idle state was entered under $governor"
	rmmod cpuidle_lab 2>/dev/null && fail "it could be unloaded while $governor was current"
	[ $governor = gate ] && continue
	for cpu in 0 1; do
		[ "$(decisions $governor $cpu)" -gt 0 ] || fail "$governor did not decide on CPU $cpu"
	done
done
passed switch

# -- tune, while it decides
governor wteo
tune wteo learning_rate 80
tune wteo latency_bias 500
[ "$(cat $knobs/wteo/learning_rate)" = 80 ] || fail "learning_rate does not read as written"
idle
echo 0 2>/dev/null >$knobs/wteo/learning_rate && fail "learning_rate took 0"
governor menu_ng
tune menu_ng history_size 64
idle
passed tune

# -- hints: tasks are born, move, sleep and die, a cgroup goes; each probe is called
governor gate
sleep 1000 &
sleeper=$!
taskset -c 0 sh -c 'for i in $(seq 40); do usleep 2000; done' &
mover=$!
for task in $sleeper $mover; do
	echo "$task 100" >$knobs/gate/hints
done
usleep 10000
taskset -p 2 $mover >/dev/null
mkdir -p /tmp/groups
mount -t cgroup2 none /tmp/groups
mkdir /tmp/groups/one
rmdir /tmp/groups/one
for hinted in $sleeper $mover; do
	grep -q "^ *$hinted " $knobs/gate/hints || fail "the hint of $hinted is not listed"
done
wait $mover
case "$(cat $knobs/gate/recount)" in
'agrees: 1 hints') ;;
*) fail "hints: $(cat $knobs/gate/recount)" ;;
esac
kill $sleeper
wait $sleeper
[ "$(cat $knobs/gate/recount)" = 'agrees: 0 hints' ] || fail "a dead task has a hint"
umount /tmp/groups
passed hints

# -- capture
trace_start 16 cpuidle_lab
for governor in $ours; do
	governor $governor
	idle
done
trace_stop trace.dat
passed capture

# -- unload
governor "$kept"
rmmod cpuidle_lab || fail "it cannot be unloaded"
[ "$(list)" = "$before" ] || fail "the list of governors is not as before: $(list)"
[ -e $knobs ] && fail "debugfs is left behind"
grep -q '^cpuidle_lab ' /proc/modules && fail "the module is left behind"
idle
passed unload
