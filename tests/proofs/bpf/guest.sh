# SPDX-License-Identifier: GPL-2.0
# Runs in the lab's guest; run.py gives the names and numbers in front of it.
# shellcheck shell=sh disable=SC2154 # they are given
. /lab/functions

parameters=/sys/module/cpuidle_lab/parameters

# part HEADING: also on the console, which shows how far the guest came.
part() {
	echo "== $*"
	say "$*"
}

# wait_for WORD FILE: until it is there, for 20 s at most.
wait_for() {
	for tenth in $(seq 200); do
		grep -q "$1" "$2" && return
		usleep 100000
	done
	fail "no '$1' in $2 after $tenth tenths of a second"
}

# The link goes in its own time.
detach() {
	rm -f /sys/fs/bpf/cpuidle_lab
	wait_for state=empty $parameters/bpf_status
}

# The kernel frees a program, and its reference on the module, in its own time.
remove() {
	for tenth in $(seq 100); do
		rmmod cpuidle_lab 2>/dev/null && return
		usleep 100000
	done
	fail "the module is in use $tenth tenths of a second after the last program"
}

attach() {
	cil-bpf attach "/lab/bpf/$1.bpf.o" /sys/fs/bpf/cpuidle_lab
}

# The native policy beside the program, period by period.
compare() {
	part "compare $1"
	attach "$1" && taskset 1 sh -c "echo $seed $periods >$parameters/bpf_prove" &&
		cat $parameters/bpf_prove
	detach
}

# In the idle loop: the program decides, its native twin and itself are shadows.
live() {
	part "live $1"
	attach "$1"
	echo "$1 bpf" >$knobs/shadow
	afresh bpf
	# A crowded host gives the guest little time.
	for _ in $(seq 10); do
		cyclictest -q -D 1 -i 700 -t 2 >/dev/null
		hackbench --pipe -g 2 -l 20 >/dev/null
		! grep -q "bpf active [0-9][0-9][0-9][0-9]" $knobs/shadow_stats || break
	done
	cat $knobs/shadow_stats $parameters/bpf_status
	governor menu
	echo none >$knobs/shadow
	detach
}

decisions() {
	sed -n s/^decisions=//p $parameters/bpf_status
}

# One that the module must outlive.
hostile() {
	part "hostile $1"
	echo 0 >$tracing/events/enable
	echo >$tracing/trace
	echo 1 >$tracing/events/cpuidle_lab/cil_decision/enable
	attach "$1" 2>&1
	before=$(decisions)
	afresh bpf
	# A crowded host gives the guest little time.
	for _ in $(seq 40); do
		usleep 500000
		grep -q state=attached $parameters/bpf_status || break
		[ "$(decisions)" -lt $((before + 100)) ] || break
	done
	cat $parameters/bpf_status
	governor menu
	echo 0 >$tracing/events/cpuidle_lab/cil_decision/enable
	echo "longest select: $(longest_select) ms"
	detach
}

# An event has the time at which select began, and its own, near the end. The two clocks differ by
# a constant, which the shortest select tells.
longest_select() {
	sed -n 's/^.* \([0-9]*\)\.\([0-9]*\): cil_decision: .*now_ns=\([0-9]*\)$/\1\2 \3/p' $tracing/trace |
		awk '{ ms = ($1 * 1000 - $2) / 1e6 }
			NR == 1 || ms < least { least = ms }
			NR == 1 || ms > most { most = ms }
			END { if (NR) printf "%d", most - least }'
}

load cpuidle_emul machine=skx
load cpuidle_lab
load cil_foreign
mount -t bpf bpf /sys/fs/bpf
for name in $governors wrong; do
	compare "$name"
done
[ "$counted" != yes ] || exit 0
for name in $governors; do
	live "$name"
done
for name in $hostiles; do
	hostile "$name"
done

# Each in the place of the one before, through the same link.
part "replace"
mkfifo /tmp/replacements
cil-bpf attach /lab/bpf/wrong.bpf.o </tmp/replacements >/tmp/replaced 2>&1 &
exec 4>/tmp/replacements
wait_for attached /tmp/replaced
governor bpf
for name in $governors; do
	echo "replace /lab/bpf/$name.bpf.o" >&4
	wait_for "name=$name" $parameters/bpf_status
done
exec 4>&-
wait
cat /tmp/replaced
governor menu

part "twice"
attach teo_ng
cil-bpf attach /lab/bpf/menu_ng.bpf.o
rmmod cpuidle_lab 2>&1
echo "budget=16" >$parameters/bpf
detach

part "loader killed"
mkfifo /tmp/lines
cil-bpf attach /lab/bpf/wteo.bpf.o </tmp/lines >/tmp/answers 2>&1 &
loader=$!
exec 3>/tmp/lines
wait_for attached /tmp/answers
governor bpf
echo "replace /lab/bpf/teo_ng.bpf.o" >&3
wait_for replaced /tmp/answers
cat /tmp/answers
grep name $parameters/bpf_status
kill -9 $loader
wait_for state=empty $parameters/bpf_status
echo "detached, $(cat $cpuidle/current_governor) goes on"
governor menu

part "not root"
chmod 755 /lab /lab/bpf
/lab/bin/hint 65534 as cil-bpf attach /lab/bpf/teo_ng.bpf.o 2>&1

part "query"
governor wteo
# A CPU that runs the program is not idle, even if it just aborted an entry.
for _ in $(seq 20); do
	taskset 1 cil-bpf call /lab/query.bpf.o own
done | sort -u >/tmp/own
echo "own $(tr '\n' ' ' </tmp/own)."
for name in other end_is_known nonsense; do
	usleep 100000
	echo "$name $(taskset 1 cil-bpf call /lab/query.bpf.o $name)"
done
governor menu
echo "menu $(cil-bpf call /lab/query.bpf.o other)"

part "scheduler"
if [ -d /sys/kernel/sched_ext ]; then
	governor wteo
	mkfifo /tmp/scheduler
	cil-bpf attach /lab/scheduler.bpf.o </tmp/scheduler 2>&1 &
	exec 5>/tmp/scheduler
	wait_for enabled /sys/kernel/sched_ext/state
	cyclictest -q -D 1 -i 700 -t 2 >/dev/null
	exec 5>&-
	wait
	wait_for disabled /sys/kernel/sched_ext/state
	grep -o "exit_latency=[0-9]* end_is_known=1" $tracing/trace | sort | uniq -c |
		sed "s/^ */ok /"
	governor menu
else
	echo "skipped: no sched_ext in this kernel"
fi

part "storm"
for turn in $(seq "$rounds"); do
	attach wteo >/dev/null
	governor bpf
	echo "bpf" >$knobs/shadow
	echo 0 >/sys/devices/system/cpu/cpu1/online
	echo "budget=$((turn * 40 + 16)),t0=$((turn % 50 + 1))" >$parameters/bpf
	echo 1 >/sys/devices/system/cpu/cpu1/online
	echo "base=bpf" >$parameters/gate
	governor gate
	detach
	governor menu
	echo "base=teo_ng" >$parameters/gate
	echo none >$knobs/shadow
	remove && load cpuidle_lab
done
echo "turns $turn"
remove && echo "module removed"
