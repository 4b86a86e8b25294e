/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the glue tells the tracepoints. With the events off, each call is one
 * static branch that is not taken.
 */
#ifndef CIL_TRACED_H
#define CIL_TRACED_H

#include "trace.h"

void cil_emit_checkpoint(struct cil_cpu *cpu, const struct cil_tunable_set *set);
void cil_emit_decision(struct cil_cpu *cpu);
void cil_emit_outcome(struct cil_cpu *cpu);

static inline void cil_traced_checkpoint(struct cil_cpu *cpu,
					 const struct cil_tunable_set *set)
{
	if (trace_decision_enabled())
		cil_emit_checkpoint(cpu, set);
}

static inline void cil_traced_decision(struct cil_cpu *cpu)
{
	if (trace_decision_enabled())
		cil_emit_decision(cpu);
}

static inline void cil_traced_outcome(struct cil_cpu *cpu)
{
	if (trace_outcome_enabled() || trace_weights_enabled())
		cil_emit_outcome(cpu);
}

#endif /* CIL_TRACED_H */
