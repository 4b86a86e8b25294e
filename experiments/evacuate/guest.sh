# SPDX-License-Identifier: GPL-2.0
# Eight CPUs in two packages lose one to four of them, by three methods.
# shellcheck shell=sh disable=SC1091,SC2154
. /lab/functions
# Each package has the powers of the tree `xeon`.
load cpuidle_emul machine=skx domains=package@every4:60000/PC6:50:100:1000:25000:C6
load cpuidle_lab
mount -t cgroup2 none /sys/fs/cgroup
echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control || fail "no controller cpuset"
partition=/sys/fs/cgroup/evacuated
mkdir $partition
cpus=/sys/devices/system/cpu

# The first CPU that goes, by percentage: the order of the module.
first_of() {
	case $1 in
	87) echo 7 ;;
	75) echo 6 ;;
	62) echo 5 ;;
	50) echo 4 ;;
	esac
}

evacuate() {
	case $1 in
	module) echo "$2" >"$knobs/evacuate/max_capacity_pct" ;;
	cpuset)
		echo "$(first_of "$2")-7" >$partition/cpuset.cpus
		echo isolated >$partition/cpuset.cpus.partition
		;;
	hotplug)
		for cpu in $(seq "$(first_of "$2")" 7); do
			echo 0 >"$cpus/cpu$cpu/online"
		done
		;;
	esac
}

restore() {
	case $1 in
	module) echo 100 >"$knobs/evacuate/max_capacity_pct" ;;
	cpuset) echo member >$partition/cpuset.cpus.partition ;;
	hotplug)
		for cpu in 4 5 6 7; do
			echo 1 2>/dev/null >$cpus/cpu$cpu/online
		done
		;;
	esac
	usleep 50000
}

energy() { cat "$powercap"/cpuidle-emul:0/energy_uj; }

# Of the packages alone, uJ.
packages() {
	{
		read -r _
		sum=0
		while read -r _ _ _ _ _ _ uj; do
			sum=$((sum + uj))
		done
		echo $sum
	} </sys/kernel/debug/cpuidle_emul/domains
}

# Each seed meets the tick at another point.
late_us=$((SEED * 7919 % 4000))

# measure METHOD PERCENT THREADS: a line with records, time, energy, and that of the packages.
measure() {
	usleep $late_us
	before=$(energy)
	packages_before=$(packages)
	done=$(records -t "$3" -S "$SECONDS_EACH")
	packages_uj=$(($(packages) - packages_before))
	echo "cell $1 $2 $3 $done $(($(energy) - before)) $packages_uj"
}

# One that has no effect, so that the first one finds all programs loaded.
measure warm 100 8
measure none 100 8
measure none 100 4
trace_start 64 power:cpu_idle sched:sched_switch
for method in module cpuset hotplug; do
	for percent in 87 75 62 50; do
		say "$method $percent"
		# Eight threads, one on each CPU, when some CPUs go.
		records -t 8 -S 1 >/dev/null &
		usleep $((200000 + late_us))
		mark "begin $method $percent"
		evacuate $method $percent
		mark "written $method $percent"
		wait
		mark "end $method $percent"
		trace-cmd stop
		measure $method $percent 8
		measure $method $percent 4
		# Else it holds the latency request at 0, so all CPUs poll and none can be held.
		[ $percent = 50 ] && cyclictest --default-system -q -t 4 -a 0-3 -i 2000 -D 2 -h 500 -m \
			>/results/cyclictest-$method 2>&1
		trace-cmd restart
		mark "back $method $percent"
		restore $method
		mark "returned $method $percent"
	done
done
trace_stop trace.dat
trace-cmd report -i /results/trace.dat >/results/report
cat "$knobs/evacuate/stats"
