# SPDX-License-Identifier: GPL-2.0
# Runs in the guest, without our modules: two CPUs go and come while all events
# of the scheduler are switched on and off, which patches code that all CPUs
# run. If the kernel dies of an int3, that is the emulator's doing.
#
#	./cpuidle-lab lab --script tests/campaigns/storm/emulator.sh --real-time --cpus 4 --no-trace
# shellcheck shell=sh

cpus=/sys/devices/system/cpu
events=/sys/kernel/tracing/events/sched/enable
seconds=100

come_and_go() {
	while :; do
		echo 0 >$cpus/cpu"$1"/online
		echo 1 >$cpus/cpu"$1"/online
		echo "$1" >>/tmp/came
	done
}

switch_events() {
	while :; do
		echo 1 >$events
		echo 0 >$events
		echo >>/tmp/switched
	done
}

come_and_go 2 &
come_and_go 3 &
switch_events &
sleep $seconds
echo "$(wc -l </tmp/came) times a CPU came back, $(wc -l </tmp/switched) times events were switched"
echo "$(dmesg | grep -c 'APIC: Stale IRR') times an interrupt was pending at a start"
