# SPDX-License-Identifier: GPL-2.0
# Runs in the guest: changes of the evacuated CPUs, one after the other, with
# load and CPU hotplug beside them. run.py sets EXPECTED and PINNED, the CPU that
# hotplug leaves alone, and has put left.sh before this file.
# shellcheck shell=sh disable=SC2154

. /lab/functions
e=$knobs/evacuate
cpus=/sys/devices/system/cpu

# -- changes ----------------------------------------------------------------

do_set() { echo "$2" >"$e/$1"; }
do_parameter() { echo "$2" >"/sys/module/cpuidle_lab/parameters/$1"; }
do_cool() { echo "$1" >"$cooler/cur_state"; }
# Two leases at most; one is given back before it is taken again.
do_lease() {
	if [ "$1" = 7 ]; then
		exec 7>"$e/lease" && echo "$2" >&7
	else
		exec 8>"$e/lease" && echo "$2" >&8
	fi
}
do_unlease() {
	if [ "$1" = 7 ]; then exec 7>&-; else exec 8>&-; fi
}

# change NUMBER WANTED MS KIND ARGUMENT...: WANTED is taken, refused or any.
change() {
	number=$1 wanted=$2 pause_ms=$3
	shift 3
	said=taken
	do_"$@" 2>/dev/null || said=refused
	echo "$said" >>/results/changes
	[ "$wanted" = any ] || [ "$wanted" = $said ] || fail "change $number is $said: $*"
	usleep $((pause_ms * 1000))
	[ $((number % 100)) -ne 0 ] || check "$number"
}

check() {
	[ -z "$(reports | head -n 1)" ] || fail "change $1: the kernel reports"
	say "changed $1"
}

# reports: what the kernel itself has logged as a warning or worse by now.
reports() {
	dmesg -r | sed '1,/lab: script begins/d' | grep '^<[0-4]>' | grep -v -E "$EXPECTED"
}

# -- beside them ------------------------------------------------------------

# The load leaves the pinned task most of its CPU, and leaves time to be idle.
load_forever() {
	while :; do
		nice -n 19 hackbench --pipe --groups 1 --fds 2 --loops 20
		nice -n 19 stress-ng --quiet --timer 1 --timer-freq 200 --timer-ops 100 \
			--switch 1 --switch-ops 1000 --cpu 2 --timeout 1
		usleep 300000
	done >/dev/null 2>&1
}

# Every CPU but the first and the pinned task's.
hotplug_forever() {
	while :; do
		for path in "$cpus"/cpu[1-9]*; do
			[ "${path##*/cpu}" != "$PINNED" ] || continue
			echo 0 >"$path/online" && echo >>/results/hotplugs
			usleep 50000
			echo 1 >"$path/online"
			usleep 200000
		done 2>/dev/null
	done
}

begin() {
	mount -t cgroup2 none /sys/fs/cgroup
	remember
	modprobe cpuidle_emul machine=skx
	modprobe cpuidle_lab
	[ -e "$e/stats" ] || fail "the modules do not load: $(dmesg | tail -n 1)"
	for cooler in /sys/class/thermal/cooling_device*; do
		[ "$(cat "$cooler/type")" != cpuidle_lab ] || break
	done
	pinned "$PINNED" "$e/stats" /results/shares &
	task=$!
	load_forever &
	load=$!
	hotplug_forever &
	hotplug=$!
	say "the changes begin"
}

# -- the end ----------------------------------------------------------------

held() { sed 's/.*held_ns=\([0-9]*\).*/\1/' "$e/stats"; }
# Real-time priority and policy of each thread that runs softirqs.
softirqds() { cat /proc/[0-9]*/stat | sed -n 's/.*(ksoftirqd.*) //p' | cut -d' ' -f38,39 | sort -u; }

# finish: all wishes end, and every CPU is one of 100 %.
finish() {
	kill -9 $hotplug $load
	wait $hotplug $load 2>/dev/null
	killall -q -9 hackbench stress-ng
	for path in "$cpus"/cpu[1-9]*; do
		echo 1 >"$path/online"
	done 2>/dev/null
	exec 7>&- 8>&-
	echo 1 >$e/defaults
	echo >$e/evacuate_cpus
	[ ! -e "$cooler/cur_state" ] || echo 0 >"$cooler/cur_state"
	cp $e/stats /results/stats
	[ -z "$(cat $e/evacuated_cpus)" ] || fail "evacuated at the end: $(cat $e/evacuated_cpus)"
	usleep 500000
	held_then=$(held)
	sleep 2
	[ "$(held)" = "$held_then" ] || fail "a CPU is held at 100 %: $(cat $e/stats)"
	for path in "$cpus"/cpu[0-9]*; do
		taskset -c "${path##*/cpu}" true || fail "${path##*/} cannot be used"
	done
	[ "$(softirqds)" = "0 0" ] || fail "a thread for softirqs keeps a priority: $(softirqds)"
	kill -9 $task
	rmmod cpuidle_lab || fail "cpuidle_lab cannot go"
	rmmod cpuidle_emul || fail "cpuidle_emul cannot go"
	left || true
}
