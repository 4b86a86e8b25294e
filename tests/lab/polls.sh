#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The same machine with a driver that reports the end of polling (told.dat), and
# with one that does not (silent.dat), for cpuidle-lab report. Reads from a disk
# that answers at once take turns with sleeps, so polling often pays, but not always.
#
#	./cpuidle-lab lab --script tests/lab/polls.sh --no-trace -o build/polls
#	./cpuidle-lab report build/polls/told.dat build/polls/silent.dat

# shellcheck source=tools/cpuidle_lab/lab/guest/functions
. /lab/functions
# Longer than it takes to get to the idle state.
load null_blk irqmode=2 completion_nsec=12000 gb=1 nr_devices=1
load cpuidle_lab
usleep $((LAB_SEED * 7919 % 4000 + 1000))
reads() {
	for i in $(seq 60); do
		taskset -c 1 dd if=/dev/nullb0 of=/dev/null bs=4k iflag=direct count=40
		usleep $((i * 37 % 1500))
	done
}
for mode in told silent; do
	load cpuidle_emul machine=power9 poll=$mode
	trace_start 16 cpuidle_lab
	for governor in menu_ng teo_ng wteo; do
		afresh $governor
		phase reads reads
	done
	trace_stop $mode.dat
	governor menu
	rmmod cpuidle_emul
done
