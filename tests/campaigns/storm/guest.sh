# SPDX-License-Identifier: GPL-2.0
# Runs in the guest: the operations of a storm, and what must be true after
# each round. An operation may fail, for others remove what it acts on.
# run.py sets EXPECTED (a regular expression: lines of the log that are no
# report).
# shellcheck shell=sh disable=SC2154

. /lab/functions
PATH=$PATH:/lab/bin
cpus=/sys/devices/system/cpu
groups=/sys/fs/cgroup
gate=$knobs/gate
sleepers=24

# -- operations: the modules ------------------------------------------------

# away: no governor of ours is current, so the module can go.
away() { echo menu >$cpuidle/current_governor; }

# op_lab MS [PARAMETER...]: the module goes, and comes back.
op_lab() {
	ms=$1
	shift
	away
	rmmod cpuidle_lab
	usleep $((ms * 1000))
	modprobe cpuidle_lab "$@"
}

# op_emul MS MACHINE [MODE...]: all idle states go, those in use included, and come back.
op_emul() {
	ms=$1 machine=$2
	shift 2
	rmmod cpuidle_emul
	usleep $((ms * 1000))
	modprobe cpuidle_emul machine=$machine "$@"
}

# op_table TIMES: drivers swap their tables, as acpi_idle does when a charger comes or goes. CPUs are
# evacuated, and their holders look at the idle states as often as can be.
op_table() {
	states=/sys/kernel/debug/cpuidle_emul/states
	echo 50 >$knobs/evacuate/max_capacity_pct
	echo 1000 >$knobs/evacuate/evacuate_slice_us
	all=$(cat $states) && for _ in $(seq $1); do
		echo 2 >$states && echo $all >$states
	done
	done=$?
	echo 100 >$knobs/evacuate/max_capacity_pct
	return $done
}

# op_nodriver GOVERNOR: ours is current, but no device is enabled to hold it.
op_nodriver() {
	rmmod cpuidle_emul
	echo $1 >$cpuidle/current_governor
	rmmod cpuidle_lab
	modprobe cpuidle_lab
	modprobe cpuidle_emul machine=skl
}

# op_busy GOVERNOR: it cannot go while it is current.
op_busy() {
	echo $1 >$cpuidle/current_governor
	rmmod cpuidle_lab
	modprobe cpuidle_lab
}

# -- operations: governors and their tunables -------------------------------

op_governor() { echo $1 >$cpuidle/current_governor; }
op_base() { echo $1 >$gate/base; }
op_shadow() { echo "$*" >$knobs/shadow; }
op_checkpoint() { echo 1 >$knobs/checkpoint; }
op_poke() { echo 1 >$knobs/$1/$2; }
op_parameter() { echo "$2" >/sys/module/cpuidle_lab/parameters/$1; }
op_map() { echo "$*" >$gate/latency_map; }

# op_tune N VALUE: of all tunables the N-th, counted around.
op_tune() {
	ls -d $knobs/*/* | grep -v -e /state$ -e /defaults$ -e /reset$ -e /gate/recount$ \
		-e /gate/hints$ -e /gate/base$ -e /gate/latency_map$ >/tmp/tunables.$$
	file=$(sed -n "$(($1 % $(wc -l </tmp/tunables.$$) + 1))p" /tmp/tunables.$$)
	echo "$2" >$file
}

# op_look: everything that can be read.
op_look() {
	cat $knobs/version $knobs/symbols $knobs/shadow $knobs/shadow_stats \
		$knobs/*/state/* $knobs/*/[a-z]* $powercap/*/energy_uj \
		/sys/kernel/debug/cpuidle_emul/* /sys/module/cpuidle_*/parameters/* \
		$cpus/cpu*/cpuidle/state*/* >/dev/null
	[ -e $knobs/version ]
}

# -- operations: hints ------------------------------------------------------

# one N: the N-th of the tasks that only sleep.
one() { sed -n "$(($1 % sleepers + 1))p" /tmp/sleepers; }

op_hint() { hint $(one $1) set $2; }
op_thread() { hint thread:$(one $1) set $2; }
op_raw() { echo "$(one $1) $2" >$gate/hints; }
op_run() { hint $1 run hackbench --pipe --groups 1 --fds 2 --loops $2; }
op_crowd() { echo | hint $1 run storm crowd $2; }
op_race() { storm race $1; }
op_fuzz() { mkdir -p $groups/fuzz && fuzz $1 $2; }
# op_attack KIND N VALUE: what another user may try. Each function gets the uid and the value, and
# says "ok" for each request of the user's that changed something. Without one the attack has failed.
op_attack() {
	value=${3#none}
	attack_$1 $((1000 + $2)) ${value:-0} | grep -c '^ok$'
}

# More threads than a storm has else, all at once.
attack_threads() {
	hint $1 as storm threads 30 &
	usleep 50000
	hint $1 as hint $! set $2
	kill -9 $!
}

# Requests that come to nothing, and hints that come and go: both would attach and detach probes.
attack_probes() {
	hint $1 as hint 100 repeat none >/dev/null
	hint $1 as sh -c 'for i in 1 2 3 4 5; do hint self set '$2'; done'
}

attack_namespaces() { hint $1 as unshare -Ur hint 5 run unshare -Ur hint self get && echo ok; }

# Groups of its own, in a namespace too; they go with their values.
attack_groups() {
	mkdir -p $groups/u$1
	chown $1 $groups/u$1
	hint $1 as sh -c 'for n in 1 2 3 4 5 6 7 8; do
		mkdir '$groups/u$1'/$n && hint group:'$groups/u$1'/$n set '$2'
	done'
	rmdir $groups/u$1/* $groups/u$1
}

# A limit of its own for each thread, which a user may ask for who was once given a shorter one.
attack_limits() {
	hint $1 as storm threads 20 &
	usleep 50000
	hint $! set 500ns >/dev/null
	n=0
	for task in /proc/$!/task/*; do
		n=$((n + 1000))
		hint $1 as hint thread:${task##*/} set ${n}ns
	done
	kill -9 $!
}

# A hint of root's crosses a change of user, kept or not; its child is another user's.
attack_users() {
	hint $2 run hint $1 as usleep 20000
	hint -10k run hint $1 effective usleep 20000 && echo ok
	hint $2 run sh -c "hint $1 as usleep 30000 & hint $1 as usleep 20000; wait"
}

# Locks are held as often as can be, while root asks.
attack_locks() {
	for _ in 1 2 3; do
		hint $1 as sh -c 'for _ in 1 2 3 4 5 6 7 8 9; do hint self set '$2'; done' &
	done
	hint self set 5 >/dev/null
	wait
}

op_latnice() { latnice -n $1 sh -c 'usleep 20000; exec usleep 20000'; }

# op_exec WHO: the second thread becomes another program.
op_exec() {
	storm exec $1 &
	usleep 200000
	kill $!
}

# op_threads N VALUE: a process of many threads gets a hint, and dies with it.
op_threads() {
	storm threads $1 &
	usleep 100000
	hint $! set $2
	kill -9 $!
}

# op_group N VALUE: the group is there from now on.
op_group() {
	mkdir -p $groups/g$1
	hint group:$groups/g$1 set $2
}

op_ungroup() {
	for pid in $(cat $groups/g$1/cgroup.procs); do
		echo $pid >$groups/cgroup.procs
	done
	rmdir $groups/g$1
}

op_join() { echo $(one $2) >$groups/g$1/cgroup.procs; }

# -- operations: programs in BPF --------------------------------------------

# op_program NAME OTHER END MS: attached, replaced, and let go in one of several ways.
op_program() {
	folder=$(mktemp -d)
	mkfifo $folder/lines
	rm -f /sys/fs/bpf/storm
	if [ $3 = pinned ]; then
		cil-bpf attach /lab/bpf/$1.bpf.o /sys/fs/bpf/storm
		return
	fi
	cil-bpf attach /lab/bpf/$1.bpf.o <$folder/lines >$folder/said &
	loader=$!
	exec 6>$folder/lines
	[ $3 = killed-early ] || until grep -q -e ^ok -e ^error $folder/said; do
		usleep 10000
	done
	echo "replace /lab/bpf/$2.bpf.o" >&6
	usleep $(($4 * 1000))
	[ $3 = ends ] || kill -9 $loader
	exec 6>&-
	wait $loader
	grep -q "^ok attached" $folder/said
}

# op_program_look: the state is read while it changes.
op_program_look() { cat /sys/module/cpuidle_lab/parameters/bpf_status && cil-bpf dump; }

# programs_gone: the last program holds the module until it is freed.
programs_gone() {
	killall -q -9 cil-bpf
	rm -f /sys/fs/bpf/storm
	for _ in $(seq 100); do
		[ "$(cat /sys/module/cpuidle_lab/refcnt)" != 0 ] || break
		usleep 100000
	done
}

# -- operations: the machine ------------------------------------------------

# op_cpu N MS: off, and back.
op_cpu() {
	echo 0 >$cpus/cpu$1/online
	usleep $(($2 * 1000))
	echo 1 >$cpus/cpu$1/online
}

# op_evacuate PERCENT: of the CPUs stay.
op_evacuate() { echo $1 >$knobs/evacuate/max_capacity_pct; }

# op_lease CPU MS: one CPU goes for a while; its file may be closed by a kill.
op_lease() {
	(
		exec 7>$knobs/evacuate/lease
		echo evacuate_cpus=$1 >&7
		usleep $(($2 * 1000))
	)
}

op_qos() { echo $2 >$cpus/cpu$1/power/pm_qos_resume_latency_us; }
op_disable() { echo $3 >$cpus/cpu$1/cpuidle/state$2/disable; }

# op_trace EVENT MS: tracing on for a while; EVENT is a name below the system.
op_trace() {
	echo 1 >$tracing/events/cpuidle_lab/$1
	usleep $(($2 * 1000))
	echo 0 >$tracing/events/cpuidle_lab/$1
	echo >$tracing/trace
}

# op_functions MS: the code of running functions is patched, ours among them.
op_functions() {
	echo '*cpuidle*' '*cil_*' 'tick_nohz_*' >$tracing/set_ftrace_filter
	echo function >$tracing/current_tracer
	usleep $(($1 * 1000))
	echo nop >$tracing/current_tracer
}

op_suspend() { suspend; }

op_burst() { hackbench --pipe --groups 1 --fds 4 --loops $1 >/dev/null; }

# -- rounds -----------------------------------------------------------------

# The load beside all operations; it leaves time to be idle.
load_forever() {
	while :; do
		hackbench --pipe --groups 1 --fds 2 --loops 20
		usleep 1000000
		stress-ng --quiet --timer 1 --timer-freq 200 --timer-ops 100 --switch 1 --switch-ops 1000 \
			--fork 1 --fork-ops 20
		usleep 3000000
	done >/dev/null 2>&1
}

# do_one OPERATION...: runs it, and notes whether it succeeded.
do_one() {
	op_"$@" >/dev/null 2>&1
	echo "$1 $?" >>/results/done
}

# reports: what the kernel itself has logged as a warning or worse by now.
reports() {
	dmesg -r >/tmp/log
	grep -q "lab: script begins" /tmp/log || echo "the beginning of the log is lost"
	sed '1,/lab: script begins/d' /tmp/log | grep '^<[0-4]>' | grep -v -E "$EXPECTED"
}

# round NUMBER OPERATION...: all of them at once, then the counts must agree.
round() {
	number=$1
	shift
	jobs=
	for operation in "$@"; do
		echo "<6>storm: round $number: $operation" >/dev/kmsg
		# shellcheck disable=SC2086 # words
		do_one $operation &
		jobs="$jobs $!"
	done
	# shellcheck disable=SC2086 # words
	wait $jobs
	said=$(cat $gate/recount 2>&1)
	case $said in
	agrees:*) echo agrees >>/results/recounts ;;
	*"No such file"*) ;; # the module is away
	*) fail "round $number: recount: $said" ;;
	esac
	say "round $number"
	[ $((number % 50)) -ne 0 ] || check
}

# check: from here on a storm goes on if the emulator ends the machine.
check() {
	[ -z "$(reports | head -n 1)" ] || fail "round $number: the kernel reports"
	say "checked $number"
}

begin() {
	# Messages before an oops are in the log if the machine goes on.
	echo 0 >/proc/sys/kernel/panic_on_oops
	echo on >/proc/sys/kernel/printk_devkmsg
	mount -t cgroup2 none $groups
	[ ! -d /sys/fs/bpf ] || mount -t bpf bpf /sys/fs/bpf
	remember
	for n in $(seq $sleepers); do
		sleep 1000000 &
		echo $!
	done >/tmp/sleepers
	kmemleak /dev/null
	[ ! -e $leaks ] || echo clear >$leaks
	modprobe cpuidle_emul machine=skx
	modprobe cpuidle_lab
	[ -e $knobs ] || fail "the modules do not load: $(dmesg | tail -n 1)"
	round 0 look look
	load_forever &
	load=$!
	say "the storm begins"
}

# -- the end ----------------------------------------------------------------

leaks=/sys/kernel/debug/kmemleak

# kmemleak FILE: what is lost; what is younger than 5 s is not looked at.
kmemleak() {
	[ -e $leaks ] || return 0
	usleep 6000000
	echo scan >$leaks
	usleep 1000000
	echo scan >$leaks
	cat $leaks >$1
}

# finish: all tasks end, both modules go, nothing is left.
finish() {
	kill $load
	killall -q -9 stress-ng hackbench storm fuzz hint sleep usleep
	for n in $(seq 1 $(($(nproc --all) - 1))); do
		echo 1 >$cpus/cpu$n/online
	done 2>/dev/null
	modprobe cpuidle_lab
	modprobe cpuidle_emul
	kmemleak /results/leaks-loaded
	away
	programs_gone
	rmmod cpuidle_lab || fail "cpuidle_lab cannot go: $(lsmod)"
	rmmod cpuidle_emul || fail "cpuidle_emul cannot go: $(lsmod)"
	left
	kmemleak /results/leaks-gone
}
