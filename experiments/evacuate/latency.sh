# SPDX-License-Identifier: GPL-2.0
# Latency of tasks on CPUs 0 to 3 while CPUs 4 to 7 are gone, by three methods;
# with cyclictest's own latency request of 0 (qos), and without it (system).
#
#	./cpuidle-lab lab --script experiments/evacuate/latency.sh --cpus 8 --no-trace
# shellcheck shell=sh disable=SC1091,SC2154
. /lab/functions
load cpuidle_emul machine=skx
load cpuidle_lab
mount -t cgroup2 none /sys/fs/cgroup
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control || fail "no controller cpuset"
partition=/sys/fs/cgroup/evacuated
mkdir $partition
cpus=/sys/devices/system/cpu
e=$knobs/evacuate

evacuate() {
	case $1 in
	module) echo 50 >"$e/max_capacity_pct" ;;
	cpuset)
		echo 4-7 >$partition/cpuset.cpus
		echo isolated >$partition/cpuset.cpus.partition
		;;
	hotplug)
		for cpu in 4 5 6 7; do
			echo 0 >"$cpus/cpu$cpu/online"
		done
		;;
	esac
}

restore() {
	case $1 in
	module) echo 100 >"$e/max_capacity_pct" ;;
	cpuset) echo member >$partition/cpuset.cpus.partition ;;
	hotplug)
		for cpu in 4 5 6 7; do
			echo 1 2>/dev/null >$cpus/cpu$cpu/online
		done
		;;
	esac
	usleep 50000
}

# Time in the polling state on the CPUs that go, us.
polled() { awk '{ s += $1 } END { print s + 0 }' $cpus/cpu[4-7]/cpuidle/state0/time 2>/dev/null; }
held() { sed -n 's/^cpu7.* held_ns=\([0-9]*\).*/\1/p' "$e/stats"; }
# p99 FILE: of all threads in cyclictest's histogram, us.
p99() {
	awk '/^[0-9]/ { n = 0; for (i = 2; i <= NF; i++) n += $i; c[$1 + 0] = n; t += n }
		END { for (i = 0; i < 2000; i++) { s += c[i]; if (s >= 0.99 * t) { print i; exit } } }' "$1"
}

for mode in qos system; do
	option=
	[ $mode = qos ] || option=--default-system
	for method in module cpuset hotplug; do
		evacuate $method
		usleep 300000
		polled_before=$(polled) held_before=$(held)
		# shellcheck disable=SC2086 # none, or one
		cyclictest -q -t 4 -a 0-3 -i 2000 -D 2 -h 2000 -m $option >/results/$mode-$method 2>&1
		echo "$mode $method: p99_us=$(p99 /results/$mode-$method)" \
			"polled_us=$(($(polled) - polled_before)) held_ns=$(($(held) - held_before))"
		restore $method
	done
done
