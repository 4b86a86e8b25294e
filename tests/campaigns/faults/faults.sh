# SPDX-License-Identifier: GPL-2.0
# Runs in the guest: each allocation of each call fails, one after the other.
# shellcheck shell=sh disable=SC2154

. /lab/functions
PATH=$PATH:/lab/bin
groups=/sys/fs/cgroup
gate=$knobs/gate
leaks=/sys/kernel/debug/kmemleak
module=$(modinfo -n cpuidle_lab)

# A process that sets fail-nth wants it: any size, any kind, no text in the log.
faults=/sys/kernel/debug
echo N >$faults/failslab/ignore-gfp-wait
echo N >$faults/fail_page_alloc/ignore-gfp-wait
echo N >$faults/fail_page_alloc/ignore-gfp-highmem
echo 0 >$faults/fail_page_alloc/min-order
echo 0 >$faults/failslab/verbose
echo 0 >$faults/fail_page_alloc/verbose
echo 0 >/proc/sys/kernel/panic_on_oops
mount -t cgroup2 none $groups
mkdir -p $groups/some

# sweep NAME WORDS-OF-FAILNTH...
sweep() {
	name=$1
	shift
	said=$(failnth "$@" 2>&1) || stop "$name" "$said"
	echo "$name: $said"
	say "$name: $said"
	[ ! -e $gate/recount ] || agrees "$name"
}

stop() {
	echo "$1: $2" >/results/error
	exit 1
}

agrees() {
	said=$(cat $gate/recount)
	case $said in agrees:*) ;; *) stop "$1" "recount: $said" ;; esac
}

scan() {
	usleep 6000000
	echo scan >$leaks
	usleep 1000000
	echo scan >$leaks
	cat $leaks
}

remember
scan >/dev/null
echo clear >$leaks
load cpuidle_emul machine=skx
sweep "load" load $module "wteo=learning_rate=80 gate=base=teo_ng,linger_ms=5"
load cpuidle_lab
for each in teo_ng menu_ng wteo gate; do
	sweep "switch to $each" write $cpuidle/current_governor $each menu
done
sweep "base" write $gate/base teo_ng menu
sweep "shadow" write $knobs/shadow "wteo menu_ng" none
sweep "tunable" write $knobs/wteo/learning_rate 50 16
sweep "all defaults" write $knobs/wteo/defaults 1
sweep "parameter" write /sys/module/cpuidle_lab/parameters/wteo learning_rate=70
sweep "evacuation" write $knobs/evacuate/max_capacity_pct 50 100
sweep "evacuation of a CPU" write $knobs/evacuate/evacuate_cpus 1 ""
sweep "lease" open $knobs/evacuate/lease
sweep "evacuation by a lease" write $knobs/evacuate/lease max_capacity_pct=50
cooler=$(grep -l cpuidle_lab /sys/class/thermal/cooling_device*/type) || stop cooler "not found"
sweep "evacuation by cooling" write "${cooler%/type}/cur_state" 1 0
governor gate
sweep "hint of a task" task -10
sweep "hint of another" thread -10
sweep "value of a group" group $groups/some -10
sweep "a child inherits" fork
hint group:$groups/some set -5 >/dev/null
sleep 1000 & pid=$!
sweep "joining a group" write $groups/some/cgroup.procs $pid
kill $pid
hint group:$groups/some set none >/dev/null
scan >/results/leaks-loaded
governor menu
rmmod cpuidle_lab || stop "rmmod" "$(lsmod)"
rmmod cpuidle_emul || stop "rmmod" "$(lsmod)"
left
scan >/results/leaks-gone
