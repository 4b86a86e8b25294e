// SPDX-License-Identifier: GPL-2.0
/*
 * The patch of 2020: a weighted random draw that corrects TEO's choice.
 */
#include "wteo.h"

static s64 target_residency(const struct cil_machine *machine, u32 index)
{
	return machine->states[index].target_residency_ns;
}

static bool is_usable(const struct cil_machine *machine,
		      const struct cil_query *query, u32 index)
{
	return !cil_disabled(query, index) &&
	       machine->states[index].exit_latency_ns <= query->latency_req_ns;
}

/* TEO is asked to err first: most of the window must be too short for it. */
static bool is_window_short(const struct wteo *w, u32 size, u32 choice)
{
	u32 shorter = 0;
	u32 k;

	if (!size)
		return true;
	if (size != w->window.size)
		return false;
	for (k = 0; k < choice; k++)
		shorter += w->window.count[k];
	return 2 * shorter > size;
}

/* The state for a drawn column, at most TEO's choice. */
static u32 draw_state(const struct cil_machine *machine,
		      const struct cil_query *query,
		      const struct wteo_cell *row, u32 choice, u32 lot)
{
	u32 best = choice;
	bool found = false;
	u32 k;

	for (k = 0; k < choice; k++) {
		if (is_usable(machine, query, k)) {
			best = k;
			found = true;
		}
		if (lot < row[k].weight)
			break;
		lot -= row[k].weight;
	}
	if (k == choice)
		return choice;
	/* The column and all shallower ones are out: as shallow as possible. */
	for (; !found && k < choice; k++) {
		if (is_usable(machine, query, k)) {
			best = k;
			found = true;
		}
	}
	return best;
}

/* The deepest state that pays until the tick, if it is kept. */
static u32 fit_into_tick(const struct cil_machine *machine,
			 const struct cil_query *query, u32 index)
{
	u32 best = index;
	u32 k;

	if (!query->asked ||
	    target_residency(machine, index) <= query->delta_tick_ns)
		return index;
	for (k = index; k-- > 0;) {
		if (!is_usable(machine, query, k))
			continue;
		best = k;
		if (target_residency(machine, k) <= query->delta_tick_ns)
			break;
	}
	return best;
}

/**
 * wteo_draw() - correct TEO's choice by lot
 * @w: what is remembered
 * @machine: the idle states
 * @t: the tunables
 * @query: what is known
 * @decision: TEO's, corrected
 *
 * Context: any.
 */
void wteo_draw(struct wteo *w, const struct cil_machine *machine,
	       const struct wteo_tunables *t, const struct cil_query *query,
	       struct cil_decision *decision)
{
	const struct wteo_cell *cells = wteo_cells(&w->rows,
						   machine->state_count,
						   w->interval.slot);
	u32 index;

	if (!is_window_short(w, t->history_size, decision->index))
		return;
	if (w->seed != t->seed) {
		w->seed = t->seed;
		w->random = cil_random_seed(t->seed, machine->cpu);
	}
	index = draw_state(machine, query, cells, decision->index,
			   (u64)cil_random(&w->random) *
			   w->rows.heads[w->interval.slot].total >> 32);
	if (query->tick_stopped &&
	    query->sleep_length_ns > 2 * machine->tick_ns &&
	    target_residency(machine, index) < machine->tick_ns)
		return;
	if (index != decision->index && !query->tick_stopped &&
	    (machine->states[index].polling ||
	     target_residency(machine, index) < machine->tick_ns)) {
		decision->stop_tick = false;
		index = fit_into_tick(machine, query, index);
	}
	decision->index = (u8)index;
	decision->row = w->interval.slot;
	decision->reason = CIL_REASON_WTEO_SAMPLE;
}
