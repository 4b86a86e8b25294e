/* SPDX-License-Identifier: GPL-2.0 */
/*
 * From the glue to the tracepoints. With the events off, each call is one
 * static branch that is not taken.
 */
#ifndef CIL_EMIT_H
#define CIL_EMIT_H

#include "trace.h"

void __cil_emit_checkpoint(struct cil_cpu *cpu, const struct cil_tunable_set *set);
void __cil_emit_decision(struct cil_cpu *cpu);
void __cil_emit_outcome(struct cil_cpu *cpu);

static inline void cil_emit_checkpoint(struct cil_cpu *cpu,
				       const struct cil_tunable_set *set)
{
	if (trace_cil_decision_enabled())
		__cil_emit_checkpoint(cpu, set);
}

static inline void cil_emit_decision(struct cil_cpu *cpu)
{
	if (trace_cil_decision_enabled())
		__cil_emit_decision(cpu);
}

static inline void cil_emit_outcome(struct cil_cpu *cpu)
{
	if (trace_cil_outcome_enabled() || trace_cil_weights_enabled())
		__cil_emit_outcome(cpu);
}

#endif /* CIL_EMIT_H */
