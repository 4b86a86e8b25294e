// SPDX-License-Identifier: GPL-2.0
/*
 * From decisions to trace events.
 */
#include <linux/sched.h>
#include <linux/utsname.h>

#include "bpf/program.h"
#include "emit.h"
#include "timers.h"
#include "tunables.h"

/* A reader that joins late, or lost events, finds a state again after this time. */
#define CHECKPOINT_PERIOD_NS	NSEC_PER_SEC

static void join_names(const struct cil_cpu *cpu, char *names, size_t size)
{
	size_t used = 0;
	u32 i;

	names[0] = '\0';
	for (i = 0; i < cpu->machine.state_count; i++)
		used += scnprintf(names + used, size - used, "%s%s", i ? "," : "",
				  cpu->names[i]);
}

static void join_table(const struct cil_cpu *cpu, char *table, size_t size)
{
	size_t used = 0;
	u32 i;

	table[0] = '\0';
	for (i = 0; i < cpu->machine.state_count; i++) {
		const struct cil_state *s = &cpu->machine.states[i];

		used += scnprintf(table + used, size - used, "%s%s %lld/%lld",
				  i ? ", " : "", cpu->names[i],
				  s->exit_latency_ns / NSEC_PER_USEC,
				  s->target_residency_ns / NSEC_PER_USEC);
	}
}

/* The governor under the gate on this CPU, or the program in BPF. */
static const char *base_name(const struct cil_cpu *cpu, char *program, size_t size)
{
	if (cil_bpf_decides(cpu->own)) {
		cil_bpf_name(cpu->state, program, size);
		return program;
	}
	if (cpu->governor != &cil_gate)
		return "";
	return cpu->base ? cpu->base->name : cpu->own->kernel.name;
}

static noinline void emit_config(const struct cil_cpu *cpu,
				 const struct cil_tunable_set *set)
{
	char names[CIL_STATE_MAX * CPUIDLE_NAME_LEN];
	char table[CIL_STATE_MAX * (CPUIDLE_NAME_LEN + 24)];
	char tunables[CIL_TUNABLES_TEXT];
	char program[CIL_BPF_NAME];

	join_names(cpu, names, sizeof(names));
	join_table(cpu, table, sizeof(table));
	cil_tunables_format(cpu->own, set, tunables, sizeof(tunables));
	trace_cil_config(cpu->record.seq, cpu->record.governor, set->generation,
			 &cpu->machine, names, table,
			 base_name(cpu, program, sizeof(program)), tunables,
			 init_utsname()->release);
}

/* The state of a program in BPF is read from the program. */
static noinline void emit_program_state(const struct cil_cpu *cpu)
{
	u32 total = cil_bpf_state_size(cpu->state);
	u64 chunk[CIL_STATE_CHUNK / sizeof(u64)];
	u32 offset, size;

	for (offset = 0; offset < total; offset += size) {
		size = min_t(u32, total - offset, CIL_STATE_CHUNK);
		cil_bpf_read_state(cpu->state, offset, chunk, size);
		trace_cil_state(cpu->record.seq, cpu->record.governor, offset, total,
				(const u8 *)chunk, size);
	}
}

static void emit_state(const struct cil_cpu *cpu)
{
	u32 total = cpu->own ? cpu->own->policy->state_size : 0;
	const u8 *data = cpu->state;
	u32 offset;

	if (!trace_cil_state_enabled())
		return;
	if (cil_bpf_decides(cpu->own)) {
		emit_program_state(cpu);
		return;
	}
	for (offset = 0; offset < total; offset += CIL_STATE_CHUNK)
		trace_cil_state(cpu->record.seq, cpu->record.governor, offset, total,
				data + offset, min_t(u32, total - offset,
						     CIL_STATE_CHUNK));
}

/**
 * __cil_emit_checkpoint() - if one is due: configuration and the policy's state
 * @cpu: the CPU, about to decide number record.seq
 * @set: the tunables in force
 *
 * Due before the first traced decision of a CPU, after every enable and
 * restart, on request, and after a pause of the top-level buffer. Due also a
 * second after the last one, so that replay can start at any of them. The
 * buffers that record the events are not known here; time serves them all.
 *
 * Context: idle task, interrupts off, the decision event is on.
 */
void __cil_emit_checkpoint(struct cil_cpu *cpu, const struct cil_tunable_set *set)
{
	/* A checkpoint emitted while the trace is paused is lost, and due again. */
	u32 epoch = atomic_read(&cil_trace_epoch) * 2 + tracing_is_on();
	u64 now_ns = cpu->record.query.now_ns;

	if (cpu->epoch == epoch &&
	    now_ns - cpu->checkpoint_ns < CHECKPOINT_PERIOD_NS)
		return;
	cpu->epoch = epoch;
	cpu->checkpoint_ns = now_ns;
	emit_config(cpu, set);
	emit_state(cpu);
}

/**
 * __cil_emit_decision() - trace the decision just made
 * @cpu: the CPU
 *
 * Asks for the sleep length where the policy did not, for the record alone:
 * the decision is made, and query.asked stays false.
 *
 * Context: idle task, interrupts off, the decision event is on.
 */
void __cil_emit_decision(struct cil_cpu *cpu)
{
	struct cil_record *r = &cpu->record;

	cil_timers_read(r);
	r->state_name = cpu->names[r->decision.index];
	trace_cil_decision(r);
}

/**
 * __cil_emit_outcome() - trace what became of the last decision
 * @cpu: the CPU
 *
 * Context: idle task, interrupts off.
 */
void __cil_emit_outcome(struct cil_cpu *cpu)
{
	struct cil_record *r = &cpu->record;
	u16 weights[CIL_STATE_MAX] = {};
	int row;

	r->state_name = cpu->names[r->outcome.index];
	trace_cil_outcome(r);

	if (!trace_cil_weights_enabled() || r->kind != CIL_OUTCOME_ENTERED ||
	    !cpu->own || !cpu->own->policy->row_learned)
		return;
	row = cpu->own->policy->row_learned(cpu->state, &cpu->machine, weights);
	if (row >= 0)
		trace_cil_weights(r->seq, r->governor, row,
				  cpu->machine.state_count, weights);
}
