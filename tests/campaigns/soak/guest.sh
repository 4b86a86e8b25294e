# SPDX-License-Identifier: GPL-2.0
# Runs in the guest: one segment of a soak. It takes operations from /lab/plan as
# often as the load allows, and writes samples to /results/samples, for the host
# to judge. run.py sets before:
#   HOME_GOVERNOR, HOME_BASE  what is current most of the time
#   DURATION, STEP            of the segment and between two samples, in s
#   LOAD                      share of all CPUs' time to be busy, of 10000
#   RECORD                    KiB of a CPU's buffer of decisions; 0: none is recorded
# shellcheck shell=sh disable=SC2153,SC2154

. /lab/functions
PATH=$PATH:/lab/bin
cpus=/sys/devices/system/cpu
groups=/sys/fs/cgroup
gate=$knobs/gate
energy=/sys/kernel/debug/cpuidle_emul/energy
zone=$powercap/cpuidle-emul:0
count=$(nproc)
sleepers=8
operations=0

# -- operations: load --------------------------------------------------------

op_hackbench() { hackbench --pipe --groups 1 --fds 4 --loops $1; }
op_timers() { stress-ng --quiet --timer 1 --timer-freq $1 --timer-ops $2; }
op_switch() { stress-ng --quiet --switch 1 --switch-ops $1; }
op_sleep() { stress-ng --quiet --sleep 1 --sleep-max 20 --timeout $1; }
op_spin() { stress-ng --quiet --cpu $1 --cpu-method sieve --timeout $2; }
op_periodic() {
	cyclictest --default-system --quiet --threads 1 --interval $1 --duration $2
}
op_pipes() { seq $1 | sort -r | md5sum; }

op_files() {
	dd if=/dev/zero of=/tmp/file bs=4k count=$1 &&
		[ "$(wc -c </tmp/file)" -eq $(($1 * 4096)) ] && rm /tmp/file
}

# -- operations: governors and their tunables --------------------------------

# current: for the host, which adds up how long each governor decided.
current() {
	echo "== current $(now) $(cat $cpuidle/current_governor $gate/base | tr '\n' ' ')" \
		>>/results/samples
}

op_governor() {
	states
	echo $1 >$cpuidle/current_governor && current
}

op_base() {
	states
	echo $1 >$gate/base && current
}

op_home() { op_base $HOME_BASE && op_governor $HOME_GOVERNOR; }
op_tune() { echo $3 >$knobs/$1/$2; }
op_poke() { echo 1 >$knobs/$1/$2; }
op_parameter() { echo "$2" >/sys/module/cpuidle_lab/parameters/$1; }
op_shadow() { echo "$*" >$knobs/shadow && cat $knobs/shadow_stats; }

op_trace() {
	echo 1 >$tracing/events/cpuidle_lab/enable
	sleep $1
	echo 0 >$tracing/events/cpuidle_lab/enable
	seen=$(head -n 100 $tracing/trace | grep -c decision)
	echo >$tracing/trace
	# A governor of the kernel's leaves no event.
	[ $seen -gt 0 ] || grep -qx -e menu -e ladder $cpuidle/current_governor
}

# op_control N: N times a thousand reads and writes that the modules serve; the
# file `version` is read once in a thousand, where a fault can be put in.
op_control() {
	thousands=$1
	while [ $thousands -gt 0 ]; do
		read -r _ <$knobs/version
		rounds=111
		while [ $rounds -gt 0 ]; do
			read -r _ <$knobs/shadow
			read -r _ <$gate/base
			read -r rate <$knobs/wteo/learning_rate
			echo $rate >$knobs/wteo/learning_rate
			read -r decay <$knobs/menu_ng/decay
			echo $decay >$knobs/menu_ng/decay
			read -r linger <$gate/linger_ms
			echo $linger >$gate/linger_ms
			read -r _ <$zone/energy_uj
			rounds=$((rounds - 1))
		done || return
		operations=$((operations + 999))
		thousands=$((thousands - 1))
	done
}

# -- operations: hints -------------------------------------------------------

# spawn N VALUE: the N-th of the tasks that only sleep.
spawn() {
	hint $2 run sleep 1000000 >/dev/null 2>&1 3<&- &
	eval "pid_$1=$!"
}

pid() { eval "echo \$pid_$1"; }

# op_swap N VALUE: it ends, and another one comes.
op_swap() {
	old=$(pid $1)
	kill $old
	wait $old
	spawn $1 $2
	[ -d /proc/$! ]
}

op_hint() { hint $(pid $1) set $2; }

# op_group N VALUE: a group comes, has the N-th task for a while, and goes.
op_group() {
	mkdir $groups/some && hint group:$groups/some set $2 &&
		echo $(pid $1) >$groups/some/cgroup.procs && usleep 300000 &&
		echo $(pid $1) >$groups/cgroup.procs && rmdir $groups/some
}

op_latnice() { latnice -n $1 sh -c 'usleep 20000; exec usleep 20000'; }

# -- operations: the machine -------------------------------------------------

op_qos() {
	echo $2 >$cpus/cpu$1/power/pm_qos_resume_latency_us
	sleep 5
	echo 0 >$cpus/cpu$1/power/pm_qos_resume_latency_us
}

op_disable() {
	echo 1 >$cpus/cpu$1/cpuidle/state$2/disable
	sleep 5
	echo 0 >$cpus/cpu$1/cpuidle/state$2/disable
}

# -- samples -----------------------------------------------------------------

now() { sed -n 's/^now at \([0-9]*\) .*/\1/p' /proc/timer_list; }

# states: what our governors have learned, where they decide.
states() {
	for name in teo_ng menu_ng wteo; do
		for file in $knobs/$name/state/*; do
			cat $file >/tmp/state
			read -r first </tmp/state
			case $first in
			*" decisions="*)
				echo "== state $name"
				cat /tmp/state
				;;
			esac
		done
	done >>/results/samples
}

# account CPU: from that CPU, so that it is not idle while it is looked at.
account() {
	taskset -pc $1 $$ >/dev/null
	echo "== account $1"
	now
	grep -H . $zone/energy_uj $energy $cpus/cpu$1/cpuidle/state*/time \
		$cpus/cpu$1/cpuidle/state*/usage $zone/energy_uj
	now
}

# slab: bytes in use in each cache. A slab that a CPU holds counts as full, so a
# cache gives them back first, and nothing is opened in between.
slab() {
	for cache in /sys/kernel/slab/*; do
		read -r size <$cache/slab_size
		exec 4<$cache/objects 5>$cache/shrink
		echo 1 >&5
		read -r objects _ <&4
		exec 4<&- 5>&-
		[ $objects -eq 0 ] || echo "${cache##*/} $objects $size"
	done
}

# memory: when all that is only cached or still on its way back is gone.
memory() {
	for _ in 1 2 3; do
		echo 3 >/proc/sys/vm/drop_caches
		usleep 4000000
	done
	echo "== slab"
	slab
	echo "== memory"
	echo 1 >/proc/sys/vm/stat_refresh
	awk '$1 == "nr_free_pages" || $1 == "count:" { n += $2 } END { print "Free: " 4 * n }' \
		/proc/zoneinfo
	cat /proc/meminfo
	echo "Files: $(cut -f 1 /proc/sys/fs/file-nr)"
	echo "Tasks: $(sed 's/.*\/\([0-9]*\) .*/\1/' /proc/loadavg)"
	awk '/cpuidle|load_module/ { n += $2 } END { print "ModuleAreas: " n + 0 }' /proc/vmallocinfo
	echo "LazyAreas: $(grep -c unpurged /proc/vmallocinfo)"
	echo "== end"
}

sample() {
	echo "== sample $operations $sleepers $(cat $gate/recount)" >>/results/samples
	memory >>/results/samples
	states
	for cpu in $(seq 0 $((count - 1))); do
		account $cpu
	done >>/results/samples
	taskset -pc 0-$((count - 1)) $$ >/dev/null
	say "$elapsed of $DURATION s, $operations operations"
}

# -- pace --------------------------------------------------------------------

# clock: sets elapsed, in s.
clock() {
	read -r up _ </proc/uptime
	elapsed=$((${up%.*} - begun))
}

# busy: sets busy_us, of all CPUs. Starts no program.
busy() {
	busy_us=0
	while read -r _ slot _ _ ns _; do
		[ "$slot" != busy ] || busy_us=$((busy_us + ns / 1000))
	done <$energy
}

# until_then SECOND: rests until then, and takes the samples that are due.
until_then() {
	clock
	while [ $elapsed -ge $next ] || [ $elapsed -lt $1 ]; do
		if [ $elapsed -ge $next ]; then
			sample
			next=$((next + STEP))
		elif [ $next -lt $1 ]; then
			sleep $((next - elapsed))
		else
			sleep $(($1 - elapsed))
		fi
		clock
	done
}

# rest: until the load has come down to what it may be.
rest() {
	busy
	due=$(((busy_us - busy_begun_us) / 100 / (count * LOAD)))
	[ $due -lt $DURATION ] || due=$DURATION
	until_then $due
}

# steady: every other hour the same governor decides all the time.
steady() { [ $((elapsed / 3600 % 2)) -eq 1 ]; }

# perform OPERATION...: all of them must succeed.
perform() {
	case $1 in
	governor | home | base | tune | poke | parameter)
		! steady || return 0
		;;
	esac
	operations=$((operations + 1))
	eval "done_$1=\$((\${done_$1:-0} + 1))"
	op_"$@" >/dev/null 2>/tmp/said || fail "$* fails: $(cat /tmp/said)"
}

# enter_steady: what an hour before has changed is put back.
enter_steady() {
	for name in teo_ng menu_ng wteo gate; do
		op_poke $name defaults || fail "$name does not take its defaults"
	done
	op_home || fail "$HOME_GOVERNOR cannot be current"
}

mount -t cgroup2 none $groups
load cpuidle_emul machine=skx
load cpuidle_lab
for n in $(seq 0 $((sleepers - 1))); do
	spawn $n -10
done
begun=0
elapsed=0
while read -r operation; do
	# shellcheck disable=SC2086 # words
	perform $operation
done </lab/warm-up
enter_steady
[ $RECORD -eq 0 ] || trace-cmd start -B soak -b $RECORD -e cpuidle_lab:cil_config \
	-e cpuidle_lab:cil_decision -e cpuidle_lab:cil_outcome >/dev/null || fail "nothing is recorded"

read -r up _ </proc/uptime
begun=${up%.*}
busy
busy_begun_us=$busy_us
operations=0
next=0
was_steady=no
until_then 0
while [ $elapsed -lt $DURATION ]; do
	while read -r operation <&3; do
		if ! steady; then
			was_steady=no
		elif [ $was_steady = no ]; then
			was_steady=yes
			enter_steady
		fi
		# shellcheck disable=SC2086 # words
		perform $operation
		rest
		[ $elapsed -lt $DURATION ] || break
	done 3</lab/plan
done
[ $next -gt $DURATION ] || until_then $next
current
[ $RECORD -eq 0 ] || {
	trace-cmd stop -B soak
	! grep -q '^overrun: [1-9]' $tracing/instances/soak/per_cpu/cpu*/stats &&
		trace-cmd extract -B soak -o /results/trace.dat >/dev/null
} || fail "the recording is not whole"
set | sed -n "s/^done_\([a-z]*\)='\?\([0-9]*\)'\?/\1 \2/p" >/results/done
kill $(for n in $(seq 0 $((sleepers - 1))); do pid $n; done)
