# SPDX-License-Identifier: GPL-2.0
# Runs in the guest: every governor under a mixed load, while everything that
# goes into a decision is changed. run.py sets SECONDS_EACH, MACHINE and
# BUFFER_MIB.
# shellcheck shell=sh disable=SC2154

. /lab/functions
# Some requests are refused.
load cpuidle_emul machine=$MACHINE reject=97
load cpuidle_lab
cpus=/sys/devices/system/cpu
ours=$tracing/events/cpuidle_lab

# Timers that meet on both CPUs at odd times, and bursts of messages.
work() {
	cyclictest --default-system --quiet --duration $SECONDS_EACH --threads 2 \
		--affinity 0-1 --interval 70 --distance 43 >/dev/null &
	for _ in $(seq $((SECONDS_EACH * 2))); do
		hackbench --pipe --groups 1 --fds 2 --loops 4 >/dev/null
		usleep 230000
	done
	wait
}

# allow CPU INDEX...: only these states may be used; "all" ends it.
allow() {
	cpu=$1
	shift
	for state in $cpus/cpu$cpu/cpuidle/state*; do
		off=1
		for index in "$@"; do
			[ $index = all ] || [ ${state##*state} = $index ] && off=0
		done
		echo $off >$state/disable
	done
}

limit() {
	echo $2 >$cpus/cpu$1/power/pm_qos_resume_latency_us
}

# One round of changes; all of it is undone at the end.
round() {
	limit 0 50; usleep 10000
	limit 0 n/a; usleep 10000
	limit 0 0
	limit 1 130; usleep 10000
	limit 1 0
	allow 0 1 3; usleep 10000
	allow 0 2; usleep 10000
	allow 0; usleep 10000
	allow 0 all
	allow 1 0 3; usleep 10000
	allow 1 all
	echo 0 >$cpus/cpu1/online
	usleep 2000
	echo 1 >$cpus/cpu1/online
	usleep 10000
}

# Events are lost: all of them, outcomes only, and in the middle of a burst.
lose() {
	echo 0 >$tracing/tracing_on
	usleep 3000
	echo 1 >$tracing/tracing_on
	usleep 10000
	echo 0 >$ours/cil_outcome/enable
	usleep 3000
	echo 1 >$ours/cil_outcome/enable
	usleep 10000
}

# change GOVERNOR: tunables, one after the other, and starting afresh.
change() {
	case $1 in
	menu_ng)
		tune menu_ng history_size 32; usleep 10000
		tune menu_ng stddev_us 5; usleep 10000
		tune menu_ng history_size 7; usleep 10000 ;;
	wteo)
		tune wteo learning_rate 100; usleep 10000
		tune wteo latency_bias 17; usleep 10000
		tune wteo half_life_ms 20; usleep 10000
		tune wteo half_life_ms 100; usleep 10000 ;;
	esac
	[ ! -e $knobs/$1/defaults ] || echo 1 >$knobs/$1/defaults
	usleep 10000
	[ ! -e $knobs/$1/reset ] || echo 1 >$knobs/$1/reset
	usleep 10000
}

# Interrupts that wake no task: with the tick stopped the governor is asked
# again each time. Switching an event patches the kernel's code, which
# interrupts every CPU several times; another period of the machine checks
# interrupts each CPU once.
nudge() {
	for _ in $(seq $((10 * SECONDS_EACH))); do
		echo 1 >$tracing/events/power/suspend_resume/enable
		usleep 4000
		echo 0 >$tracing/events/power/suspend_resume/enable
		usleep 9000
	done
	# The step of menu_ng for a stopped tick takes a pattern just then: rare.
	case $1 in
	menu_ng) count=$((1500 * SECONDS_EACH)) ;;
	teo_ng) count=$((200 * SECONDS_EACH)) ;;
	*) count=$((50 * SECONDS_EACH)) ;;
	esac
	taskset -pc 0 $$ >/dev/null
	for n in $(seq $count); do
		echo $((300 + n % 2)) >/sys/devices/system/machinecheck/machinecheck0/check_interval
		usleep 7000
		[ $n -ne $((count * 3 / 4)) ] || limit 1 60
	done
	limit 1 0
	taskset -pc 0-1 $$ >/dev/null
}

# storm GOVERNOR TUNABLES-OF [SELECTION]: work and changes at once.
storm() {
	governor $1
	say "$1 ($2)"
	work &
	job=$!
	while kill -0 $job 2>/dev/null; do
		round
		lose
		change $2
		usleep 300000
	done
	nudge $2
}

trace_start $BUFFER_MIB cpuidle_lab:cil_decision cpuidle_lab:cil_outcome cpuidle_lab:cil_config \
	cpuidle_lab:cil_state cpuidle_lab:cil_tunable
