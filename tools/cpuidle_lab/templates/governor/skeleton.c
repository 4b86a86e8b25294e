// SPDX-License-Identifier: GPL-2.0
/*
 * skeleton - a small governor to begin with
 */

/**
 * DOC: skeleton
 *
 * This governor works, and is meant to be changed. Keep this comment in step
 * with the code: it is the governor's documentation. Say first what you
 * observed, then what follows from it, then what is remembered, then the
 * steps in the order of the code.
 *
 * **Observation.** The next timer is known before the CPU goes to sleep, and
 * nothing can let it sleep for longer. Other things may wake it earlier, and
 * when they have done so a few times, they will probably do so again.
 *
 * **Consequence.** The next timer, the *sleep length*, sets how deep a state
 * may be. One small number per CPU is enough to notice that it was too deep.
 *
 * **What is remembered.** An idle period is *cut short* if it ended before the
 * state entered had paid off, that is before its target residency. A number
 * counts the periods in a row that were. A wake-up by the scheduler tick says
 * nothing: keeping the tick was our own decision.
 *
 * **Choosing a state.** Each step takes the candidate over from the one before.
 *
 * 1. The candidate is the deepest enabled state. If there is none, state 0 is
 *    used.
 *
 * 2. Its exit latency must be within the latency request, else the next
 *    shallower enabled state is tried, down to the shallowest. If the candidate
 *    polls now there is nothing left to choose, and the timer is not asked for.
 *
 * 3. It must pay off before the next timer.
 *
 * 4. If the tick runs and as many periods as the tunable patience says were cut
 *    short, the next shallower enabled state is taken. With the tick stopped
 *    this would be dangerous: nothing would wake the CPU soon if the guess were
 *    wrong, and it would stay in a shallow state until the next timer.
 *
 * 5. If the sleep length is at least a tick period and the candidate does not
 *    poll, the tick may be stopped. Otherwise it is kept, and is the first
 *    timer to come: the candidate must pay off before it, too.
 *
 * The reason given with a decision names the last step that moved the
 * candidate. Give each step that you add a reason of its own in reasons.h: the
 * report then shows how often it decided.
 */

#include "skeleton.h"

/* No state is enabled. */
#define NO_CANDIDATE	CIL_STATE_MAX

/* The name, unit, range and default of each number that a user may change. */
static const struct cil_tunable table[] = {
	{
		.name = "patience",
		.unit = "periods",
		.what = "Periods cut short in a row before a shallower state is chosen; 0: never.",
		.why = "One early wake-up is chance, three in a row are a habit.",
		.min = 0,
		.max = 100,
		.def = 3,
	},
};

/**
 * struct skeleton_candidate - the state of a search
 * @index: the idle state that will be used unless a later step disagrees
 * @reason: the step that made it the candidate
 */
struct skeleton_candidate {
	u32 index;
	enum cil_reason reason;
};

/* The next shallower enabled state, or @index itself if there is none. */
static u32 shallower(const struct cil_query *query, u32 index)
{
	u32 i;

	for (i = index; i-- > 0;)
		if (!cil_disabled(query, i))
			return i;
	return index;
}

static void move_to(struct skeleton_candidate *c, u32 index, enum cil_reason reason)
{
	if (c->index == index)
		return;
	c->index = index;
	c->reason = reason;
}

/* Step 1. */
static u32 deepest(const struct cil_machine *machine,
		   const struct cil_query *query)
{
	u32 i;

	for (i = machine->state_count; i-- > 0;)
		if (!cil_disabled(query, i))
			return i;
	return NO_CANDIDATE;
}

/* Step 2. */
static void limit_latency(const struct cil_machine *machine,
			  const struct cil_query *query,
			  struct skeleton_candidate *c)
{
	u32 index = c->index;
	u32 next = shallower(query, index);

	while (next != index &&
	       machine->states[index].exit_latency_ns > query->latency_req_ns) {
		index = next;
		next = shallower(query, index);
	}
	move_to(c, index, CIL_REASON_SKELETON_LATENCY);
}

/* Steps 3 and 5. */
static void fit_into(const struct cil_machine *machine,
		     const struct cil_query *query, s64 duration_ns,
		     enum cil_reason reason, struct skeleton_candidate *c)
{
	u32 index = c->index;
	u32 next = shallower(query, index);

	while (next != index &&
	       machine->states[index].target_residency_ns > duration_ns) {
		index = next;
		next = shallower(query, index);
	}
	move_to(c, index, reason);
}

/* Step 5. */
static bool may_stop_tick(const struct cil_machine *machine,
			  const struct cil_query *query,
			  const struct skeleton_candidate *c)
{
	return query->tick_stopped ||
	       (!machine->states[c->index].polling &&
		query->sleep_length_ns >= machine->tick_ns);
}

/* Steps 2 to 5. Returns whether the tick may be stopped. */
static bool search(const struct skeleton *s,
		   const struct skeleton_tunables *t,
		   const struct cil_machine *machine, struct cil_query *query,
		   struct skeleton_candidate *c)
{
	limit_latency(machine, query, c);
	if (machine->states[c->index].polling)
		return query->tick_stopped;

	/* Asking costs time in the kernel, so it is done when it matters. */
	fit_into(machine, query, cil_sleep_length(query),
		 CIL_REASON_SKELETON_TIMER, c);

	if (!query->tick_stopped && t->patience && s->cut_short >= t->patience)
		move_to(c, shallower(query, c->index),
			CIL_REASON_SKELETON_EARLY);

	if (may_stop_tick(machine, query, c))
		return true;
	fit_into(machine, query, query->delta_tick_ns,
		 CIL_REASON_SKELETON_TICK, c);
	return false;
}

/* Before an idle period. Every member of the decision must be set. */
static void select_state(void *state, const struct cil_machine *machine,
			 const void *tunables, struct cil_query *query,
			 struct cil_decision *decision)
{
	struct skeleton_candidate c = {
		.index = deepest(machine, query),
		.reason = CIL_REASON_SKELETON_DEEPEST,
	};

	if (c.index == NO_CANDIDATE) {
		c.index = 0;
		c.reason = CIL_REASON_NO_STATE;
		decision->stop_tick = false;
	} else {
		decision->stop_tick = search(state, tunables, machine, query, &c);
	}
	decision->index = (u8)c.index;
	decision->reason = (u8)c.reason;
	decision->row = CIL_ROW_NONE;
}

/* After an idle period, before the next decision. */
static void learn(void *state, const struct cil_machine *machine,
		  const void *tunables, const struct cil_outcome *outcome)
{
	const struct cil_state *entered = &machine->states[outcome->index];
	struct skeleton *s = state;

	if (outcome->tick_wakeup)
		return;
	if (outcome->residency_ns >= (u64)entered->target_residency_ns)
		s->cut_short = 0;
	else if (s->cut_short < U32_MAX)
		s->cut_short++;
}

/* Start afresh: the memory may hold anything. */
static void forget(void *state, const struct cil_machine *machine,
		   const void *tunables)
{
	memset(state, 0, sizeof(struct skeleton));
}

/* For people: what debugfs shows in state/cpuN. */
static void dump(const void *state, const struct cil_machine *machine,
		 const void *tunables, u64 now_ns, struct cil_sink *sink)
{
	const struct skeleton *s = state;

	cil_env_print(sink, "idle periods in a row that were cut short: %u\n",
		      s->cut_short);
}

const struct cil_policy skeleton_policy = {
	.name = "skeleton",
	.state_size = sizeof(struct skeleton),
	.tunables = table,
	.tunable_count = sizeof(table) / sizeof(table[0]),
	.init = forget,
	.select = select_state,
	.update = learn,
	.dump = dump,
};
