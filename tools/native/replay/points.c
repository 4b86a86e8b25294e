// SPDX-License-Identifier: GPL-2.0
/**
 * DOC: replay of the same points
 *
 * Every recorded decision is made again: the same inputs, and the outcome that
 * was recorded, whatever the policy decides here. The governor that recorded
 * the trace must decide the same; another one decides what its shadow would
 * have decided in the kernel.
 *
 * The order is the module's: learn from the last outcome with the tunables in
 * force now, start afresh if that is due, decide.
 */
#include <string.h>

#include "../../../governors/gate/gate.h"
#include "limits.h"
#include "run.h"

static void base_init(void *state, const struct cil_machine *machine,
		      const void *tunables)
{
}

/* A kernel governor under the gate: its answer is an input, then the clamp. */
static void base_select(void *state, const struct cil_machine *machine,
			const void *tunables, struct cil_query *query,
			struct cil_decision *decision)
{
	decision->index = rp_now.base_index;
	decision->stop_tick = rp_now.base_stop_tick;
	decision->row = CIL_ROW_NONE;
	decision->reason = CIL_REASON_BASE;
	if (decision->index < machine->state_count)
		gate_clamp(machine, query, rp_now.hint_ns, decision);
}

const struct cil_policy base_policy = {
	.name = "base",
	.init = base_init,
	.select = base_select,
};

/* Compare a recorded state with the run's, and go on from the recorded one. */
static void take_state(struct rp_run *run, const u8 *state)
{
	u32 size = run->policy->state_size;

	if (!memcmp(run->state, state, size)) {
		run->checks.same++;
		return;
	}
	run->policy->init(run->state, &run->machine, run->tunables);
	if (!memcmp(run->state, state, size))
		run->checks.fresh++;
	else
		run->checks.other++;
	memcpy(run->state, state, size);
}

static void start(struct rp_run *run, u32 what, const u8 *states)
{
	run->unknowable = what == RP_UNKNOWABLE;
	if (run->unknowable)
		return;
	if (what == RP_AFRESH)
		run->policy->init(run->state, &run->machine, run->tunables);
	else
		take_state(run, states + (size_t)(what - RP_STATE) *
				run->policy->state_size);
}

static void note_outcome(struct rp_run *run, const struct rp_points *p, size_t i)
{
	run->reflected = p->out_kind[i] == CIL_OUTCOME_ENTERED &&
			 p->out_index[i] < run->machine.state_count;
	run->outcome.now_ns = p->out_now_ns[i];
	run->outcome.residency_ns = p->residency_ns[i];
	run->outcome.index = p->out_index[i];
	run->outcome.tick_wakeup = p->tick[i] == 1;
	run->outcome.poll_time_limit = p->poll_time_limit[i];
}

static void decide(struct rp_run *run, const struct rp_points *p, size_t i,
		   const struct rp_answers *a)
{
	struct cil_decision decision = { .row = CIL_ROW_NONE };
	struct cil_query query = {
		.now_ns = p->now_ns[i],
		.latency_req_ns = p->latency_req_ns[i],
		.disabled = p->disabled[i],
		.tick_stopped = p->flags[i] & CIL_DECISION_TICK_STOPPED,
		.rejected = p->flags[i] & CIL_DECISION_REJECTED,
		.left = run->left,
	};

	rp_now.sleep_length_ns = p->sleep_length_ns[i];
	rp_now.delta_tick_ns = p->delta_tick_ns[i];
	rp_now.hint_ns = p->hint_ns[i];
	rp_now.base_index = p->base_index[i];
	rp_now.base_stop_tick = p->flags[i] & CIL_DECISION_BASE_STOP_TICK;
	/* The limits: what they may know of the future is the recorded stay. */
	rp_now.left_ns = p->out_kind[i] == CIL_OUTCOME_ENTERED ? p->residency_ns[i] : 1;
	rp_now.charge_ns = rp_now.left_ns;
	run->policy->select(run->state, &run->machine, run->tunables, &query,
			    &decision);
	if (decision.index >= run->machine.state_count)
		decision.index = 0;
	a->index[i] = decision.index;
	a->stop_tick[i] = decision.stop_tick;
	a->reason[i] = decision.reason;
	a->row[i] = decision.row;
	a->asked[i] = query.asked;
	run->totals.decisions++;
}

/**
 * rp_repeat() - make recorded decisions again
 * @run: the run
 * @points: the next decisions of its CPU
 * @tunables: table of values, a row of CIL_TUNABLE_MAX for each set
 * @states: recorded states, one after the other
 * @answers: where to put the decisions; points that cannot be decided are
 *	left as they are
 */
void rp_repeat(struct rp_run *run, const struct rp_points *points,
	       const u32 *tunables, const u8 *states,
	       const struct rp_answers *answers)
{
	size_t i;

	rp_now.model = &run->model;
	for (i = 0; i < points->count; i++) {
		memcpy(run->tunables,
		       tunables + (size_t)points->tunables[i] * CIL_TUNABLE_MAX,
		       sizeof(run->tunables));
		run->left = points->left[i];
		if (!run->unknowable)
			rp_learn(run, run->outcome.now_ns);
		run->reflected = false;
		if (points->start[i] != RP_GO_ON)
			start(run, points->start[i], states);
		if (run->unknowable)
			continue;
		decide(run, points, i, answers);
		note_outcome(run, points, i);
	}
}

/**
 * rp_checks() - how the recorded states compared so far
 * @run: the run
 * @checks: filled
 */
void rp_checks(const struct rp_run *run, struct rp_checks *checks)
{
	*checks = run->checks;
}
