// SPDX-License-Identifier: GPL-2.0
/*
 * A kernel's governors: functions around theirs, put in their place, so that
 * what turns them into policies is not counted as their work. The linker
 * (--wrap) sends their registration here.
 */
#include "../mainline/kernel.h"
#include "count.h"

/* The head of struct cil_policy, whose types the kernel's would clash with. */
struct cil_policy {
	const char *name;
};

#define MAX_GOVERNORS	8

static struct cpuidle_governor *registered[MAX_GOVERNORS], real;
static unsigned int count;

/**
 * __wrap_cpuidle_register_governor() - note a governor on its way
 * @governor: the governor
 *
 * Return: 0, or -1 if there are too many.
 */
int __wrap_cpuidle_register_governor(struct cpuidle_governor *governor)
{
	if (count < MAX_GOVERNORS)
		registered[count++] = governor;
	return __real_cpuidle_register_governor(governor);
}

COUNTED static int count_select(struct cpuidle_driver *drv,
				struct cpuidle_device *dev, bool *stop_tick)
{
	return real.select(drv, dev, stop_tick);
}

COUNTED static void count_update(struct cpuidle_device *dev, int index)
{
	real.reflect(dev, index);
}

/**
 * count_wrapped() - make the work of a kernel's governor countable
 * @policy: the policy that stands for it
 *
 * Return: the policy.
 */
const struct cil_policy *count_wrapped(const struct cil_policy *policy)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		if (strcmp(registered[i]->name, policy->name))
			continue;
		real = *registered[i];
		registered[i]->select = count_select;
		registered[i]->reflect = count_update;
	}
	return policy;
}
