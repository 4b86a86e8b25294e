// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's governors as policies, so that whatever drives a policy drives
 * them, too. Their data are static, one set for each thread: a thread has one
 * such policy in use at a time.
 */
#include "../../../governors/common/policy.h"
#include "../replay/run.h"
#include "mainline.h"

static void enable(const char *name, const struct cil_machine *machine)
{
	struct mainline_state states[CIL_STATE_MAX];
	u32 k;

	for (k = 0; k < machine->state_count; k++) {
		const struct cil_state *s = &machine->states[k];

		states[k].exit_latency_ns = s->exit_latency_ns;
		states[k].target_residency_ns = s->target_residency_ns;
		states[k].polling = s->polling;
	}
	mainline_use(name);
	mainline_enable(machine->tick_ns, machine->state_count, states);
	/* On a device without a residency menu takes its first call for a refusal. */
	mainline_leave_behind(-1, 1, false);
}

static void mainline_policy_select(void *state,
				   const struct cil_machine *machine,
				   const void *tunables,
				   struct cil_query *query,
				   struct cil_decision *decision)
{
	struct cil_query timers = *query;
	struct mainline_inputs inputs = {
		.now_ns = query->now_ns,
		.latency_req_ns = query->latency_req_ns,
		.disabled = query->disabled,
		.tick_stopped = query->tick_stopped,
		.left = query->left,
	};
	struct mainline_answer answer;

	cil_env_sleep_length(&timers);
	inputs.sleep_length_ns = timers.sleep_length_ns;
	inputs.delta_tick_ns = timers.delta_tick_ns;
	if (query->rejected)
		mainline_not_entered();
	answer = mainline_select(&inputs);
	query->asked = answer.asked;
	rp_now.poll_limit_ns = (s64)answer.poll_limit_ns;
	/* An index that is none must stay none. */
	decision->index = answer.index < 0 || answer.index > CIL_STATE_NONE ?
			  CIL_STATE_NONE : (u8)answer.index;
	decision->stop_tick = answer.stop_tick;
	decision->row = CIL_ROW_NONE;
	decision->reason = CIL_REASON_UNKNOWN;
}

static void mainline_policy_update(void *state,
				   const struct cil_machine *machine,
				   const void *tunables,
				   const struct cil_outcome *outcome)
{
	mainline_entered(outcome->index, outcome->residency_ns,
			 outcome->tick_wakeup, outcome->poll_time_limit);
}

/* A build with another governor names it. */
#ifndef MAINLINE_GOVERNORS
#define MAINLINE_GOVERNORS(X)	X(menu) X(teo) X(ladder) X(haltpoll)
#endif

#define X(governor)							\
static void governor##_init(void *state,				\
			    const struct cil_machine *machine,		\
			    const void *tunables)			\
{									\
	enable(#governor, machine);					\
}									\
									\
static const struct cil_policy governor##_mainline = {			\
	.name = #governor,						\
	.init = governor##_init,					\
	.select = mainline_policy_select,				\
	.update = mainline_policy_update,				\
};
MAINLINE_GOVERNORS(X)
#undef X

#define X(governor) &governor##_mainline,
static const struct cil_policy *const policies[] = { MAINLINE_GOVERNORS(X) };
#undef X

/**
 * rp_policy_count() - number of the kernel's governors that there may be
 */
u32 rp_policy_count(void)
{
	return sizeof(policies) / sizeof(policies[0]);
}

/**
 * rp_policy() - one of the kernel's governors
 * @number: which, less than rp_policy_count()
 *
 * Return: the governor, or NULL if this kernel does not have it.
 */
const struct cil_policy *rp_policy(u32 number)
{
	return mainline_use(policies[number]->name) ? policies[number] : NULL;
}
