# SPDX-License-Identifier: GPL-2.0
# Runs in the guest, without our modules: how many migrations does the
# tracepoint sched_migrate_task not tell while CPUs come and go? A kprobe event
# beside it does. Programs that start programs all the time are moved by the
# stopper of a CPU.
#
#	./cpuidle-lab lab --script tests/lab/hints/silent.sh --real-time --cpus 4 --no-trace
# shellcheck shell=sh

cpus=/sys/devices/system/cpu
tracing=/sys/kernel/tracing
seconds=40

come_and_go() {
	while :; do
		echo 0 >$cpus/cpu"$1"/online
		echo 1 >$cpus/cpu"$1"/online
		echo "$1" >>/tmp/came
	done
}

echo 'p:moved set_task_cpu' >$tracing/kprobe_events
echo 20000 >$tracing/buffer_size_kb
echo 1 >$tracing/events/kprobes/moved/enable
echo 1 >$tracing/events/sched/sched_migrate_task/enable
for cpu in 1 2 3; do
	come_and_go $cpu &
done
printf 'usleep 50\nexec sh /tmp/again\n' >/tmp/again
for _ in $(seq 12); do
	sh /tmp/again &
done
sleep $seconds
echo 0 >$tracing/tracing_on

echo "$(wc -l </tmp/came) times a CPU came back"
awk '
	{ cpu = $0; sub(/.*\[/, "", cpu); sub(/\].*/, "", cpu) }
	/moved:/ {
		moved++
		if (cpu in untold) {
			silent++
			print untold[cpu]
		}
		untold[cpu] = $0
	}
	/sched_migrate_task:/ { delete untold[cpu] }
	END { print moved " migrations, not told: " silent + 0 }
' $tracing/trace
