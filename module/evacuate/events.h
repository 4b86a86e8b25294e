/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The events of CPU evacuation: see docs/evacuate.md.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM cpuidle_lab

#if !defined(CIL_EVACUATE_EVENTS_H) || defined(TRACE_HEADER_MULTI_READ)
#define CIL_EVACUATE_EVENTS_H

#include <linux/cpumask.h>
#include <linux/sched.h>
#include <linux/tracepoint.h>
#include "compat/compat.h"
#include "evacuate/policy/hold.h"

#define cil_show_evacuate_reason(value) __print_symbolic(value,		\
	{ EVACUATE_REASON_WORK, "work" },				\
	{ EVACUATE_REASON_PINNED, "pinned" },				\
	{ EVACUATE_REASON_REALTIME, "realtime" },			\
	{ EVACUATE_REASON_LATENCY, "latency" },				\
	{ EVACUATE_REASON_SOFTIRQ, "softirq" },				\
	{ EVACUATE_REASON_THROTTLE, "throttle" },			\
	{ EVACUATE_REASON_INJECTION, "injection" })

TRACE_DEFINE_ENUM(EVACUATE_REASON_WORK);
TRACE_DEFINE_ENUM(EVACUATE_REASON_PINNED);
TRACE_DEFINE_ENUM(EVACUATE_REASON_REALTIME);
TRACE_DEFINE_ENUM(EVACUATE_REASON_LATENCY);
TRACE_DEFINE_ENUM(EVACUATE_REASON_SOFTIRQ);
TRACE_DEFINE_ENUM(EVACUATE_REASON_THROTTLE);
TRACE_DEFINE_ENUM(EVACUATE_REASON_INJECTION);

TRACE_EVENT(cil_evacuation,
	TP_PROTO(u32 online, const char *cpus),
	TP_ARGS(online, cpus),

	TP_STRUCT__entry(
		__field(u32, online)
		__string(cpus, cpus)
	),

	TP_fast_assign(
		__entry->online = online;
		cil_assign_str(cpus, cpus);
	),

	TP_printk("online=%u evacuated=%s", __entry->online, __get_str(cpus))
);

TRACE_EVENT(cil_forced_idle,
	TP_PROTO(u64 limit_ns, u64 length_ns, const struct evacuate_seen *seen),
	TP_ARGS(limit_ns, length_ns, seen),

	TP_STRUCT__entry(
		__field(u64, limit_ns)
		__field(u64, length_ns)
		__field(u64, held_ns)
		__field(u64, lost_ns)
		__field(u8, waiting)
	),

	TP_fast_assign(
		__entry->limit_ns = limit_ns;
		__entry->length_ns = length_ns;
		__entry->held_ns = seen->held_ns;
		__entry->lost_ns = seen->lost_ns;
		__entry->waiting = seen->waiting;
	),

	TP_printk("held_ns=%llu length_ns=%llu limit_ns=%llu lost_ns=%llu waiting=%u",
		  __entry->held_ns, __entry->length_ns, __entry->limit_ns,
		  __entry->lost_ns, __entry->waiting)
);

TRACE_EVENT(cil_evacuate_back_off,
	TP_PROTO(const struct evacuate_step *step, pid_t pid, const char *comm),
	TP_ARGS(step, pid, comm),

	TP_STRUCT__entry(
		__field(u64, length_ns)
		__field(pid_t, pid)
		__field(u8, reason)
		__field(u8, released)
		__array(char, comm, TASK_COMM_LEN)
	),

	TP_fast_assign(
		__entry->length_ns = step->length_ns;
		__entry->pid = pid;
		__entry->reason = step->reason;
		__entry->released = step->action == EVACUATE_BACK_OFF;
		memcpy(__entry->comm, comm, TASK_COMM_LEN);
	),

	TP_printk("reason=%s length_ns=%llu released=%u pid=%d comm=%s",
		  cil_show_evacuate_reason(__entry->reason), __entry->length_ns,
		  __entry->released, __entry->pid, __entry->comm)
);

#endif /* CIL_EVACUATE_EVENTS_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH evacuate
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE events
#include <trace/define_trace.h>
