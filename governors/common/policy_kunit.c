// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of every policy of the list that the environment takes for granted.
 */
#include <kunit/test.h>

#include "../../kunit/include/cil_test_env.h"
#include "policy.h"

#define CIL_POLICY_OF(name, number) &name##_policy,
static const struct cil_policy *const policies[] = {
	CIL_TEST_GOVERNORS(CIL_POLICY_OF)
};

static const struct cil_policy *const *const policies_end =
	policies + sizeof(policies) / sizeof(*policies);

/* The environment's arrays and per-CPU memory are large enough. */
static void limits_are_kept(struct kunit *test)
{
	const struct cil_policy *const *p;

	for (p = policies; p < policies_end; p++) {
		KUNIT_EXPECT_LE_MSG(test, (*p)->tunable_count, CIL_TUNABLE_MAX,
				    "%s", (*p)->name);
		KUNIT_EXPECT_LE_MSG(test, (*p)->state_size, CIL_STATE_SIZE_MAX,
				    "%s", (*p)->name);
		KUNIT_EXPECT_GT_MSG(test, (*p)->state_size, 0u, "%s", (*p)->name);
	}
}

/* A policy can start and decide; the rest is optional. */
static void callbacks_exist(struct kunit *test)
{
	const struct cil_policy *const *p;

	for (p = policies; p < policies_end; p++) {
		KUNIT_EXPECT_TRUE_MSG(test, (*p)->init, "%s", (*p)->name);
		KUNIT_EXPECT_TRUE_MSG(test, (*p)->select, "%s", (*p)->name);
	}
}

/* A default is a value that a user could set, and documented. */
static void defaults_are_in_range(struct kunit *test)
{
	const struct cil_policy *const *p;
	u32 i;

	for (p = policies; p < policies_end; p++) {
		for (i = 0; i < (*p)->tunable_count; i++) {
			const struct cil_tunable *t = &(*p)->tunables[i];

			KUNIT_EXPECT_LE_MSG(test, t->min, t->def, "%s", t->name);
			KUNIT_EXPECT_LE_MSG(test, t->def, t->max, "%s", t->name);
			KUNIT_EXPECT_TRUE_MSG(test, t->unit && t->what && t->why,
					      "%s", t->name);
		}
	}
}

/* Every value of a tunable with names has one. */
static void names_are_complete(struct kunit *test)
{
	const struct cil_policy *const *p;
	u32 i, v;

	for (p = policies; p < policies_end; p++) {
		for (i = 0; i < (*p)->tunable_count; i++) {
			const struct cil_tunable *t = &(*p)->tunables[i];

			for (v = t->min; t->names && v <= t->max; v++)
				KUNIT_EXPECT_TRUE_MSG(test, t->names[v], "%s",
						      t->name);
		}
	}
}

static struct kunit_case policy_cases[] = {
	KUNIT_CASE(limits_are_kept),
	KUNIT_CASE(callbacks_exist),
	KUNIT_CASE(defaults_are_in_range),
	KUNIT_CASE(names_are_complete),
	{}
};

static struct kunit_suite policy_suite = {
	.name = "policy",
	.test_cases = policy_cases,
};

kunit_test_suite(policy_suite);
