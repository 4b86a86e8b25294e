// SPDX-License-Identifier: GPL-2.0
/*
 * The next timer, read at most once for a decision. The kernel may answer
 * differently a moment later, so the policy, the shadows and the decision event
 * share one answer.
 */
#include "symbols.h"
#include "timers.h"

/**
 * cil_timers_read() - let a record know the next timer
 * @record: of the decision being made; sleep_length_ns and delta_tick_ns are
 *	filled if they are not yet
 *
 * Context: idle task, interrupts off.
 */
void cil_timers_read(struct cil_record *record)
{
	ktime_t delta_tick;

	if (record->timers_seq == record->seq)
		return;
	record->timers_seq = record->seq;
	record->sleep_length_ns = static_call(cil_sleep_length)(&delta_tick);
	record->delta_tick_ns = delta_tick;
}

/**
 * cil_env_sleep_length() - a policy, in use or a shadow, asks for the next timer
 * @query: sleep_length_ns and delta_tick_ns are filled
 *
 * Context: idle task, interrupts off.
 */
void cil_env_sleep_length(struct cil_query *query)
{
	struct cil_record *record = &this_cpu_ptr(cil_cpus)->record;

	cil_timers_read(record);
	query->sleep_length_ns = record->sleep_length_ns;
	query->delta_tick_ns = record->delta_tick_ns;
}
