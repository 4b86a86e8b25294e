// SPDX-License-Identifier: GPL-2.0
/* The project's own policies: a policy around the policy. */
#include "../../../governors/common/policy.h"
#include "count.h"

static const struct cil_policy *real;

COUNTED static void count_select(void *state, const struct cil_machine *machine,
				 const void *tunables, struct cil_query *query,
				 struct cil_decision *decision)
{
	real->select(state, machine, tunables, query, decision);
}

COUNTED static void count_update(void *state, const struct cil_machine *machine,
				 const void *tunables,
				 const struct cil_outcome *outcome)
{
	real->update(state, machine, tunables, outcome);
}

/**
 * count_wrapped() - make the work of a policy countable
 * @policy: the policy
 *
 * Return: a policy that does the same.
 */
const struct cil_policy *count_wrapped(const struct cil_policy *policy)
{
	static struct cil_policy wrapped;

	real = policy;
	wrapped = *policy;
	wrapped.select = count_select;
	if (policy->update)
		wrapped.update = count_update;
	return &wrapped;
}
