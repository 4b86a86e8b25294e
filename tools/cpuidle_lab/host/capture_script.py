# SPDX-License-Identifier: GPL-2.0
"""The shell commands that record as `cpuidle-lab capture --stock` does."""

SCRIPT = r"""#!/bin/sh
# Records idle decisions of an unmodified kernel, as root, with trace-cmd alone:
#   sudo sh record.sh SECONDS FILE
# Then, on any machine: cpuidle-lab compare FILE
#
# A report to linux-pm has a trace of cpu_idle, irq and ipi events. With the next events it tells
# what ended each idle period, and most sleep lengths; x86 needs -e irq_vectors, too:
#   trace-cmd record -C mono -e power:cpu_idle -e power:cpu_idle_miss -e irq:irq_handler_entry \
#       -e irq:irq_handler_exit -e irq:softirq_raise -e ipi -e timer:hrtimer_start \
#       -e timer:hrtimer_cancel -e power:pm_qos_update_request sleep 60
seconds=${1:-60} file=${2:-trace.dat}
tracing=/sys/kernel/tracing cpus=/sys/devices/system/cpu group=cil_p$$

refuse() { echo "$*" >&2; exit 1; }
way=probes needed=$tracing/kprobe_events
[ -e $needed ] || way=events needed=$tracing/set_event
[ -w $needed ] || refuse "$needed cannot be written: use sudo"
[ ! -e "$file" ] || refuse "$file exists already: choose another name"
[ "$(cat $tracing/current_tracer)" = nop ] || refuse "$tracing/current_tracer: a tracer is in use"
[ -z "$(cat $tracing/set_event)" ] || refuse "$tracing/set_event: another session records events"

clock=$(sed 's/.*\[\(.*\)].*/\1/' $tracing/trace_clock) on=$(cat $tracing/tracing_on)
probe() { echo "$*" >>$tracing/kprobe_events; }
gone() {
	# A trace-cmd that was killed leaves its events enabled.
	[ -z "$(cat $tracing/set_event)" ] || echo 0 >$tracing/events/enable
	echo 0 >$tracing/events/$group/enable
	[ $way = events ] || for event in cil_sleep_length cil_got_tick cil_stop_tick \
			cil_retain_tick cil_idle_exit cil_reflect; do
		probe -:$group/$event
	done
	echo "$clock" >$tracing/trace_clock
	echo "$on" >$tracing/tracing_on
} 2>/dev/null
trap gone EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

r="r:$group/cil_sleep_length tick_nohz_get_sleep_length ret=\$retval:s64"
# Kernels before 6.9 refuse the second field.
if [ $way = probes ]; then
	probe "$r dn=+0(\$arg1):s64" 2>/dev/null || probe "$r" || exit 1
	probe "r:$group/cil_got_tick tick_nohz_idle_got_tick ret=\$retval:u8"
	probe p:$group/cil_stop_tick tick_nohz_idle_stop_tick
	probe p:$group/cil_retain_tick tick_nohz_idle_retain_tick
	probe p:$group/cil_idle_exit tick_nohz_idle_exit
	# Measured by the kernel: last_residency_ns and poll_time_limit of cpuidle_device.
	probe p:$group/cil_reflect cpuidle_reflect "res=+24(\$arg1):u64 bits=+0(\$arg1):u32" \
		2>/dev/null
	probed="-e $group"
else
	probed=
	echo "the kernel has no kprobe_events: recorded by events only" >&2
fi

# Facts beside the events: idle states, tick, latency request, kernel, governor. The first two
# and the requests are written once more at the end, since they may have changed.
config=/boot/config-$(uname -r)
hz=$({ cat "$config" || zcat /proc/config.gz; } 2>/dev/null | sed -n 's/^CONFIG_HZ=//p')
[ -n "$hz" ] || echo "HZ is not known: 250 is assumed" >&2
tell='
cpus=/sys/devices/system/cpu none=2000000000
request() {
	own=$(cat "$1/power/pm_qos_resume_latency_us" 2>/dev/null)
	case $own in n/a) own=0 ;; "" | 0) own=$none ;; esac
	[ "$own" -lt $general ] || own=$general
	[ "$own" -lt $none ] || own=-1
	echo "$own"
}
describe() {
	general=$(od -An -td4 -N4 /dev/cpu_dma_latency 2>/dev/null | tr -d " ")
	case $general in "" | *[!0-9]*) general=$none ;; esac
	for cpu in "$cpus"/cpu[0-9]*; do
		states="" disabled=0
		for k in 0 1 2 3 4 5 6 7 8 9; do
			state=$cpu/cpuidle/state$k
			[ -r "$state/name" ] || continue
			name=$(tr -c "\n[:alnum:]_.+-" _ <"$state/name")
			power=$(cat "$state/power" 2>/dev/null)
			[ "$power" -le 1000000 ] 2>/dev/null || power=0
			states=$states${states:+,}$name:$(cat "$state/latency")
			states=$states:$(cat "$state/residency"):$power
			[ "$(cat "$state/disable")" = 0 ] || disabled=$((disabled | 1 << k))
		done
		[ -z "$states" ] || echo "stock $1 cpus=${cpu##*/cpu}-${cpu##*/cpu}" \
			"tick_ns=$((1000000000 / ${2:-250})) latency_req_us=$(request "$cpu")" \
			"disabled=$disabled states=$states"
	done
}'
eval "$tell"
lines=$(
	describe machine "$hz"
	governor=$(cat $cpus/cpuidle/current_governor_ro $cpus/cpuidle/current_governor \
		2>/dev/null | head -n 1)
	echo "stock kernel=$(uname -r) governor=$governor way=$way"
)

# Kernels before 7.0 have no hrtimer_start_expired, and some have no PM QoS.
some=
for event in timer:hrtimer_start_expired power:pm_qos_add_request power:pm_qos_update_request; do
	[ ! -e "$tracing/events/${event%%:*}/${event##*:}" ] || some="$some -e $event"
done
trace-cmd record -C mono -o "$file" $probed -e power:cpu_idle -e timer:tick_stop \
	-e timer:hrtimer_start $some -e timer:hrtimer_cancel -e timer:hrtimer_expire_entry \
	-e timer:timer_start -e timer:timer_cancel -e timer:timer_expire_entry \
	-e irq:softirq_raise -f 'vec == 9' \
	-e sched:sched_switch -f 'prev_pid == 0 || next_pid == 0' sh -c '
		mark() { while read -r line; do echo "$line" >'$tracing'/trace_marker; done; }
		eval "$3"
		echo "$1" | mark
		sleep "$2"
		describe end "$4" | mark' sh "$lines" "$seconds" "$tell" "$hz"
"""
