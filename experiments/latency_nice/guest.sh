# SPDX-License-Identifier: GPL-2.0
# Eight CPUs under sensitive, tolerant and important tasks, with one scheduler after the other.
# shellcheck shell=sh disable=SC1091,SC2154
. /lab/functions
[ -d /sys/kernel/sched_ext ] || fail "the kernel $(uname -r) has no sched_ext"
load cpuidle_emul machine=power9
load cpuidle_lab
account=/sys/kernel/debug/cpuidle_emul/energy
state=/sys/kernel/sched_ext/state
mkfifo /tmp/lines

# until_state WORD: the kernel takes and drops a scheduler in its own time.
until_state() {
	for _ in $(seq 200); do
		! grep -q "^$1" $state || return 0
		usleep 10000
	done
	fail "sched_ext is $(cat $state), not $1: $(cat /tmp/loader) $(dmesg | tail -n 1)"
}

attach() {
	: >/tmp/loader
	cil-bpf attach "/lab/$1.bpf.o" </tmp/lines >/tmp/loader 2>&1 &
	loader=$!
	exec 5>/tmp/lines
	until_state enabled
}

detach() {
	until_state enabled
	exec 5>&-
	wait $loader
	until_state disabled
}

# cell NAME SCHEDULER GOVERNOR THREADS WORK_US PAUSE_US: the numbers are those of the important
# tasks. The account leaves out the start and the end of the programs.
cell() {
	say "$1"
	afresh "$3"
	[ "$2" = stock ] || attach "$2"
	latnice -n -13 wakebench -w -m 1 -t 2 -s 3000 -c 100 -r "$SECONDS_EACH" -S "$LAB_SEED" \
		>"/results/$1.sensitive" &
	sensitive=$!
	latnice -n 19 wakebench -w -m 8 -t 1 -s 10000 -c 500 -r "$SECONDS_EACH" -S "$LAB_SEED" \
		>"/results/$1.tolerant" &
	tolerant=$!
	records -t "$4" -w "$5" -p "$6" -S "$SECONDS_EACH" >"/results/$1.important" &
	important=$!
	usleep 300000
	cat $account >"/results/$1.before"
	usleep $((SECONDS_EACH * 1000000 - 400000))
	cat $account >"/results/$1.after"
	for program in $sensitive $tolerant $important; do
		wait "$program" || fail "$1: a program failed"
	done
	[ "$2" = stock ] || detach
}
