// SPDX-License-Identifier: GPL-2.0
/*
 * Prints what the governors declare of their tunables, one a line, fields
 * separated by tabs: governor, name, unit, min, max, default, names, what, why.
 */
#include <stdio.h>

#include "../governors/common/policy.h"
#include "../module/evacuate/policy/hold.h"
#include "../governors/gate/gate.h"

#define CIL_POLICY_OF(name, number) &name##_policy,
static const struct cil_policy *const policies[] = {
	CIL_GOVERNORS(CIL_POLICY_OF)
};

static void print_names(const struct cil_tunable *t)
{
	u32 v;

	for (v = t->min; t->names && v <= t->max; v++)
		printf("%s%s", v > t->min ? "," : "", t->names[v]);
}

static void print_table(const char *governor, const struct cil_tunable *t,
			u32 count)
{
	for (; count--; t++) {
		printf("%s\t%s\t%s\t%u\t%u\t%u\t", governor, t->name, t->unit,
		       t->min, t->max, t->def);
		print_names(t);
		printf("\t%s\t%s\n", t->what, t->why);
	}
}

int main(void)
{
	u32 p;

	for (p = 0; p < sizeof(policies) / sizeof(*policies); p++)
		print_table(policies[p]->name, policies[p]->tunables,
			    policies[p]->tunable_count);
	print_table("gate", gate_tunables, GATE_TUNABLE_COUNT);
	print_table("evacuate", evacuate_tunables, EVACUATE_TUNABLE_COUNT);
	return 0;
}
