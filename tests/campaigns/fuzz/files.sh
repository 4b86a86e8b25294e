# SPDX-License-Identifier: GPL-2.0
# Runs in the guest, after the functions of a storm (tests/campaigns/storm/guest.sh, left.sh):
# random calls on every file of both modules, in slices, and what must be true
# after each of them.
# shellcheck shell=sh disable=SC2154

# The folders to be walked, but for that of the events.
roots() {
	ls -d $knobs /sys/kernel/debug/cpuidle_emul /sys/module/cpuidle_lab/parameters \
		/sys/module/cpuidle_emul/parameters /sys/devices/virtual/powercap/cpuidle-emul \
		/dev/cpuidle_latency $cpuidle
}

begin_fuzz() {
	echo 0 >/proc/sys/kernel/panic_on_oops
	mount -t cgroup2 none $groups
	mkdir $groups/fuzz
	remember
	kmemleak /dev/null
	[ ! -e $leaks ] || echo clear >$leaks
	load cpuidle_emul machine=skx
	load cpuidle_lab
}

# usage: how often any idle state was entered so far.
usage() { cat $cpus/cpu*/cpuidle/state*/usage | awk '{ sum += $1 } END { print sum }'; }

# sums FILE: the weights of each row of wteo; prints those that are not 10000.
sums() {
	awk '/^row / { columns = gsub(/ s[0-9]+/, "") + 1; next }
		!NF { columns = 0 }
		columns && /\|/ {
			sub(/\|.*/, "")
			n = split($0, word, " ")
			sum = 0
			for (i = n - columns + 1; i <= n; i++)
				sum += word[i]
			print sum
		}' $1
}

# works SLICE GOVERNOR: it can be switched to, and CPUs enter idle states.
works() {
	governor $2
	before=$(usage)
	usleep 100000
	[ "$(cat $cpuidle/current_governor)" = $2 ] || fail "slice $1: $2 does not stay"
	[ "$(usage)" -gt "$before" ] || fail "slice $1: no idle state is entered under $2"
}

# check SLICE: all of ours work, what is counted agrees, rows sum to 10000.
check() {
	for name in $ours; do
		works $1 $name
	done
	governor wteo
	for cpu in $(seq 0 $(($(nproc) - 1))); do
		taskset -c $cpu sh -c 'for i in 1 2 3 4 5; do usleep 3000; done'
		sums $knobs/wteo/state/cpu$cpu >/tmp/sums
		cat /tmp/sums >>/results/rows
		grep -v -x 10000 /tmp/sums && fail "slice $1: a row of wteo on CPU $cpu sums to that"
	done
	said=$(cat $gate/recount 2>&1)
	case $said in
	agrees:*) echo agrees >>/results/recounts ;;
	*) fail "slice $1: recount: $said" ;;
	esac
	[ -z "$(reports | head -n 1)" ] || fail "slice $1: the kernel reports"
}

ours="teo_ng menu_ng wteo gate"

# quiet_events: no event is on, and none triggers anything.
quiet_events() {
	echo 0 >$tracing/events/cpuidle_lab/enable
	for trigger in $tracing/events/cpuidle_lab/*/trigger; do
		sed 's/^/!/' $trigger | while read -r line; do echo "$line" >$trigger; done
	done 2>/dev/null
}

# calls SLICE SEED OPERATIONS PROCESSES ROOT...
calls() {
	slice=$1
	shift
	fuzz_files "$@" >/tmp/said 2>&1 || fail "slice $slice: $(grep -v -E \
		'^(operation|input|file) ' /tmp/said | head -n 1)"
	cat /tmp/said >>/results/answers
}

# slice NUMBER SEED PROCESSES OPERATIONS OPERATIONS-ON-EVENTS
slice() {
	echo "<6>storm: slice $1: seed $2" >/dev/kmsg
	# shellcheck disable=SC2046 # a list of words
	calls $1 $2 $4 $3 -$gate/hints $(roots)
	calls $1 $2 $5 $3 $tracing/events/cpuidle_lab
	quiet_events
	say "slice $1: $(cut -d ' ' -f 1 /proc/uptime) s"
	check $1
}

finish_fuzz() {
	rmdir $groups/fuzz
	kmemleak /results/leaks-loaded
	away
	rmmod cpuidle_lab || fail "cpuidle_lab cannot go: $(lsmod)"
	rmmod cpuidle_emul || fail "cpuidle_emul cannot go: $(lsmod)"
	left
	kmemleak /results/leaks-gone
}
