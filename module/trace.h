/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The events of cpuidle_lab. Together they carry every input of every
 * decision, so that replay can make it again: see docs/tracing.md.
 *
 * A decision and its outcome carry the same per-CPU sequence number. The
 * outcome is emitted when the next decision of that CPU is due. A decision
 * without an outcome is normal (the device was disabled, the governor
 * switched). A gap in the sequence is a lost event.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM cpuidle_lab

#if !defined(CIL_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define CIL_TRACE_H

#include <linux/atomic.h>
#include <linux/cpuidle.h>
#include <linux/tracepoint.h>
#include "compat/compat.h"
#include "state.h"
#include "uapi/cpuidle_latency.h"

#ifndef CIL_TRACE_ONCE
#define CIL_TRACE_ONCE

/* Changes of a hint. */
#define CIL_HINT_SET			0
#define CIL_HINT_INHERIT		1
#define CIL_HINT_MOVE			2
#define CIL_HINT_REMOVE			3
#define CIL_HINT_EXIT			4
#define CIL_HINT_GROUP			5

#define CIL_STATE_CHUNK		1024

/* Counts the times that a checkpoint became due on every CPU. */
extern atomic_t cil_trace_epoch;

void cil_trace_checkpoint(void);
int cil_trace_reg(void);
void cil_trace_unreg(void);

#endif

#define cil_reason_pair(id, number, text) { number, text },
#define cil_show_reason(value) __print_symbolic(value,			\
	CIL_REASONS(cil_reason_pair) { 255, "invalid" })

#define cil_governor_pair(name, number) { number, #name },
#define cil_show_governor(value) __print_symbolic(value,		\
	CIL_MODULE_GOVERNORS(cil_governor_pair) { CIL_GATE_NUMBER, "gate" })

TRACE_EVENT_FN(cil_decision,
	TP_PROTO(const struct cil_record *r),
	TP_ARGS(r),

	TP_STRUCT__entry(
		__field(u64, seq)
		__field(u64, now_ns)
		__field(s64, latency_req_ns)
		__field(s64, hint_ns)
		__field(s64, sleep_length_ns)
		__field(s64, delta_tick_ns)
		__field(u32, generation)
		__field(u32, disabled)
		__field(u8, governor)
		__field(u8, flags)
		__field(u8, index)
		__field(u8, stop_tick)
		__field(u8, reason)
		__field(u8, row)
		__field(u8, base_index)
		__field(u8, left)
		__array(char, state, CPUIDLE_NAME_LEN)
	),

	TP_fast_assign(
		__entry->seq = r->seq;
		__entry->now_ns = r->query.now_ns;
		__entry->latency_req_ns = r->query.latency_req_ns;
		__entry->hint_ns = r->hint_ns;
		__entry->sleep_length_ns = r->sleep_length_ns;
		__entry->delta_tick_ns = r->delta_tick_ns;
		__entry->generation = r->generation;
		__entry->disabled = r->query.disabled;
		__entry->governor = r->governor;
		__entry->flags =
			(r->query.tick_stopped ? CIL_DECISION_TICK_STOPPED : 0) |
			(r->query.rejected ? CIL_DECISION_REJECTED : 0) |
			(r->query.asked ? CIL_DECISION_ASKED : 0) |
			(r->base_stop_tick ? CIL_DECISION_BASE_STOP_TICK : 0);
		__entry->index = r->decision.index;
		__entry->stop_tick = r->decision.stop_tick;
		__entry->reason = r->decision.reason;
		__entry->row = r->decision.row;
		__entry->base_index = r->base_index;
		__entry->left = r->query.left;
		memcpy(__entry->state, r->state_name, CPUIDLE_NAME_LEN);
	),

	TP_printk("seq=%llu %s: %s (%u) stop_tick=%u reason=%s sleep_length_ns=%lld%s delta_tick_ns=%lld latency_req_ns=%lld hint_ns=%lld disabled=0x%x%s%s%s row=%d base_index=%d generation=%u now_ns=%llu",
		  __entry->seq, cil_show_governor(__entry->governor),
		  __entry->state, __entry->index, __entry->stop_tick,
		  cil_show_reason(__entry->reason),
		  __entry->sleep_length_ns,
		  __entry->flags & CIL_DECISION_ASKED ? "" : " (not asked)",
		  __entry->delta_tick_ns, __entry->latency_req_ns,
		  __entry->hint_ns, __entry->disabled,
		  __entry->flags & CIL_DECISION_TICK_STOPPED ? " tick-stopped" : "",
		  __entry->flags & CIL_DECISION_REJECTED ? " rejected" : "",
		  __entry->left ? " left" : "",
		  __entry->row == CIL_ROW_NONE ? -1 : __entry->row,
		  __entry->base_index == CIL_STATE_NONE ? -1 : __entry->base_index,
		  __entry->generation, __entry->now_ns),

	cil_trace_reg, cil_trace_unreg
);

TRACE_EVENT(cil_outcome,
	TP_PROTO(const struct cil_record *r),
	TP_ARGS(r),

	TP_STRUCT__entry(
		__field(u64, seq)
		__field(u64, now_ns)
		__field(u64, residency_ns)
		__field(u8, governor)
		__field(u8, kind)
		__field(u8, index)
		__field(u8, tick)
		__field(u8, poll_time_limit)
		__array(char, state, CPUIDLE_NAME_LEN)
	),

	TP_fast_assign(
		__entry->seq = r->seq;
		__entry->now_ns = r->outcome.now_ns;
		__entry->residency_ns = r->outcome.residency_ns;
		__entry->governor = r->governor;
		__entry->kind = r->kind;
		__entry->index = r->outcome.index;
		__entry->tick = r->tick;
		__entry->poll_time_limit = r->outcome.poll_time_limit;
		memcpy(__entry->state, r->state_name, CPUIDLE_NAME_LEN);
	),

	TP_printk("seq=%llu %s: %s %s (%u) residency_ns=%llu tick=%s%s now_ns=%llu",
		  __entry->seq, cil_show_governor(__entry->governor),
		  __entry->kind == CIL_OUTCOME_ENTERED ? "entered" : "aborted",
		  __entry->state, __entry->index, __entry->residency_ns,
		  __print_symbolic(__entry->tick, { CIL_TICK_NO, "no" },
				   { CIL_TICK_YES, "yes" },
				   { CIL_TICK_UNKNOWN, "unknown" }),
		  __entry->poll_time_limit ? " poll-time-limit" : "",
		  __entry->now_ns)
);

TRACE_EVENT(cil_shadow,
	TP_PROTO(u64 seq, u32 generation, unsigned int governor,
		 unsigned int flags, const struct cil_decision *decision),
	TP_ARGS(seq, generation, governor, flags, decision),

	TP_STRUCT__entry(
		__field(u64, seq)
		__field(u32, generation)
		__field(u8, governor)
		__field(u8, flags)
		__field(u8, index)
		__field(u8, stop_tick)
		__field(u8, reason)
		__field(u8, row)
	),

	TP_fast_assign(
		__entry->seq = seq;
		__entry->generation = generation;
		__entry->governor = governor;
		__entry->flags = flags;
		__entry->index = decision->index;
		__entry->stop_tick = decision->stop_tick;
		__entry->reason = decision->reason;
		__entry->row = decision->row;
	),

	TP_printk("seq=%llu %s: (%u) stop_tick=%u reason=%s%s%s row=%d generation=%u",
		  __entry->seq, cil_show_governor(__entry->governor),
		  __entry->index, __entry->stop_tick,
		  cil_show_reason(__entry->reason),
		  __entry->flags & CIL_DECISION_ASKED ? "" : " (not asked)",
		  __entry->flags & CIL_SHADOW_FRESH ? " fresh" : "",
		  __entry->row == CIL_ROW_NONE ? -1 : __entry->row,
		  __entry->generation)
);

TRACE_EVENT(cil_weights,
	TP_PROTO(u64 seq, unsigned int governor, unsigned int row,
		 unsigned int columns, const u16 *weights),
	TP_ARGS(seq, governor, row, columns, weights),

	TP_STRUCT__entry(
		__field(u64, seq)
		__field(u8, governor)
		__field(u8, row)
		__field(u8, columns)
		__array(u16, weights, CIL_STATE_MAX)
	),

	TP_fast_assign(
		__entry->seq = seq;
		__entry->governor = governor;
		__entry->row = row;
		__entry->columns = columns;
		memcpy(__entry->weights, weights, sizeof(__entry->weights));
	),

	TP_printk("seq=%llu %s: row=%u of %u weights=%s",
		  __entry->seq, cil_show_governor(__entry->governor),
		  __entry->row, __entry->columns,
		  __print_array(__entry->weights, CIL_STATE_MAX, 2))
);

TRACE_EVENT_FN(cil_config,
	TP_PROTO(u64 seq, unsigned int governor, u32 generation,
		 const struct cil_machine *machine, const char *names,
		 const char *table, const char *base, const char *tunables,
		 const char *kernel),
	TP_ARGS(seq, governor, generation, machine, names, table, base,
		tunables, kernel),

	TP_STRUCT__entry(
		__field(u64, seq)
		__field(u32, generation)
		__field(u32, cpu)
		__field(s64, tick_ns)
		__field(u8, governor)
		__field(u8, states)
		__field(u16, polling)
		__array(s64, exit_latency_ns, CIL_STATE_MAX)
		__array(s64, target_residency_ns, CIL_STATE_MAX)
		__array(u32, power_mw, CIL_STATE_MAX)
		__string(names, names)
		__string(table, table)
		__string(base, base)
		__string(tunables, tunables)
		__string(kernel, kernel)
	),

	TP_fast_assign(
		unsigned int i;

		__entry->seq = seq;
		__entry->generation = generation;
		__entry->cpu = machine->cpu;
		__entry->tick_ns = machine->tick_ns;
		__entry->governor = governor;
		__entry->states = machine->state_count;
		__entry->polling = 0;
		for (i = 0; i < CIL_STATE_MAX; i++) {
			const struct cil_state *s = &machine->states[i];

			__entry->exit_latency_ns[i] = s->exit_latency_ns;
			__entry->target_residency_ns[i] = s->target_residency_ns;
			/* Recordings keep mW: rounded. */
			__entry->power_mw[i] = DIV_ROUND_CLOSEST(s->power_uw, 1000);
			__entry->polling |= s->polling << i;
		}
		cil_assign_str(names, names);
		cil_assign_str(table, table);
		cil_assign_str(base, base);
		cil_assign_str(tunables, tunables);
		cil_assign_str(kernel, kernel);
	),

	/* The table says for people what the arrays say for programs. */
	TP_printk("seq=%llu %s: cpu=%u base=%s states=%u (exit/residency us): %s tick_ns=%lld generation=%u tunables=%s kernel=%s",
		  __entry->seq, cil_show_governor(__entry->governor),
		  __entry->cpu, __get_str(base), __entry->states,
		  __get_str(table), __entry->tick_ns, __entry->generation,
		  __get_str(tunables), __get_str(kernel)),

	cil_trace_reg, cil_trace_unreg
);

TRACE_EVENT_FN(cil_state,
	TP_PROTO(u64 seq, unsigned int governor, u32 offset, u32 total,
		 const u8 *data, u32 size),
	TP_ARGS(seq, governor, offset, total, data, size),

	TP_STRUCT__entry(
		__field(u64, seq)
		__field(u32, offset)
		__field(u32, total)
		__field(u8, governor)
		__dynamic_array(u8, data, size)
	),

	TP_fast_assign(
		__entry->seq = seq;
		__entry->offset = offset;
		__entry->total = total;
		__entry->governor = governor;
		memcpy(__get_dynamic_array(data), data, size);
	),

	TP_printk("seq=%llu %s: bytes %u to %u of %u",
		  __entry->seq, cil_show_governor(__entry->governor),
		  __entry->offset,
		  __entry->offset + __get_dynamic_array_len(data),
		  __entry->total),

	cil_trace_reg, cil_trace_unreg
);

TRACE_EVENT(cil_tunable,
	TP_PROTO(unsigned int governor, const char *name, const char *value,
		 u32 generation),
	TP_ARGS(governor, name, value, generation),

	TP_STRUCT__entry(
		__field(u32, generation)
		__field(u8, governor)
		__string(name, name)
		__string(value, value)
	),

	TP_fast_assign(
		__entry->generation = generation;
		__entry->governor = governor;
		cil_assign_str(name, name);
		cil_assign_str(value, value);
	),

	TP_printk("%s: %s=%s generation=%u",
		  cil_show_governor(__entry->governor), __get_str(name),
		  __get_str(value), __entry->generation)
);

TRACE_EVENT(cil_hint,
	TP_PROTO(const struct task_struct *task, s64 limit_ns, int cpu, u8 what,
		 u8 kind, s8 value),
	TP_ARGS(task, limit_ns, cpu, what, kind, value),

	TP_STRUCT__entry(
		__field(s64, limit_ns)
		__field(pid_t, pid)
		__field(s32, cpu)
		__field(u8, what)
		__array(char, comm, TASK_COMM_LEN)
		__field(u8, kind)
		__field(s8, value)
	),

	TP_fast_assign(
		__entry->limit_ns = limit_ns;
		__entry->pid = task->pid;
		__entry->cpu = cpu;
		__entry->what = what;
		memcpy(__entry->comm, task->comm, TASK_COMM_LEN);
		__entry->kind = kind;
		__entry->value = value;
	),

	TP_printk("%s: pid=%d comm=%s limit_ns=%lld cpu=%d kind=%s value=%d",
		  __print_symbolic(__entry->what, { CIL_HINT_SET, "set" },
				   { CIL_HINT_INHERIT, "inherit" },
				   { CIL_HINT_MOVE, "move" },
				   { CIL_HINT_REMOVE, "remove" },
				   { CIL_HINT_EXIT, "exit" },
				   { CIL_HINT_GROUP, "group" }),
		  __entry->pid, __entry->comm, __entry->limit_ns, __entry->cpu,
		  __print_symbolic(__entry->kind,
				   { CPUIDLE_LATENCY_NONE, "none" },
				   { CPUIDLE_LATENCY_VALUE, "value" },
				   { CPUIDLE_LATENCY_LIMIT, "limit" }),
		  __entry->value)
);

#endif /* CIL_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
