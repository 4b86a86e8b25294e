// SPDX-License-Identifier: GPL-2.0
/* The policies of the library that replays the project's own governors. */
#include "limits.h"
#include "replay.h"

#define X(name, number) &name##_policy,
static const struct cil_policy *const policies[] = {
	CIL_GOVERNORS(X)
	CIL_FORMER_GOVERNORS(X)
	&base_policy, &oracle_policy, &bayes_policy,
};
#undef X

/**
 * rp_policy_count() - number of policies in this library
 */
u32 rp_policy_count(void)
{
	return sizeof(policies) / sizeof(policies[0]);
}

/**
 * rp_policy() - a policy of this library
 * @number: which, less than rp_policy_count()
 */
const struct cil_policy *rp_policy(u32 number)
{
	return policies[number];
}
