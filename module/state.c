// SPDX-License-Identifier: GPL-2.0
/*
 * The table of governors, and the data of each CPU.
 */
#include <linux/percpu.h>
#include <linux/string.h>

#include "state.h"

/*
 * The least rating: the kernel prefers the current governor to ours. The
 * registry fills in the callbacks.
 */
#define X(governor, number)						\
	[CIL_GOVERNOR_##governor] = {					\
		.kernel = { .name = #governor, .rating = 0 },		\
		.id = number,						\
		.policy = &governor##_policy,				\
	},
struct cil_governor cil_governors[CIL_POLICY_COUNT] = {
	CIL_MODULE_GOVERNORS(X)
};

#undef X

struct cil_governor cil_gate = {
	.kernel = { .name = "gate", .rating = 0 },
	.id = CIL_GATE_NUMBER,
};

struct cil_cpu __percpu *cil_cpus;

/**
 * cil_governor_is_named() - compare a name as the kernel does
 * @governor: a governor
 * @name: name in any case; a newline at the end is ignored
 *
 * Context: any.
 */
bool cil_governor_is_named(const struct cpuidle_governor *governor,
			   const char *name)
{
	size_t length = strcspn(name, "\n");

	return strlen(governor->name) == length &&
	       !strncasecmp(governor->name, name, length);
}

/**
 * cil_governor_find() - a governor of ours by its name, registered or not
 * @name: as for cil_governor_is_named()
 *
 * Context: any.
 * Return: the governor, or NULL.
 */
struct cil_governor *cil_governor_find(const char *name)
{
	int i;

	if (cil_governor_is_named(&cil_gate.kernel, name))
		return &cil_gate;
	for (i = 0; i < CIL_POLICY_COUNT; i++)
		if (cil_governor_is_named(&cil_governors[i].kernel, name))
			return &cil_governors[i];
	return NULL;
}

/**
 * cil_governor_of() - is this one of ours?
 * @governor: a governor of the kernel's list
 *
 * Context: any.
 * Return: our view of it, or NULL if it is not ours.
 */
struct cil_governor *cil_governor_of(const struct cpuidle_governor *governor)
{
	int i;

	if (governor == &cil_gate.kernel)
		return &cil_gate;
	for (i = 0; i < CIL_POLICY_COUNT; i++)
		if (governor == &cil_governors[i].kernel)
			return &cil_governors[i];
	return NULL;
}

/**
 * cil_state_init() - memory of all CPUs
 *
 * Context: process, may sleep; before any governor is registered.
 * Return: 0 or -ENOMEM; then nothing is left.
 */
int cil_state_init(void)
{
	int n;

	cil_cpus = alloc_percpu(struct cil_cpu);
	if (!cil_cpus)
		return -ENOMEM;

	for (n = 0; n < CIL_POLICY_COUNT; n++) {
		struct cil_governor *g = &cil_governors[n];

		g->state = __alloc_percpu(g->policy->state_size, 8);
		if (!g->state) {
			cil_state_exit();
			return -ENOMEM;
		}
	}
	return 0;
}

/**
 * cil_state_exit() - undo cil_state_init()
 *
 * Context: process, may sleep; no governor is registered any more.
 */
void cil_state_exit(void)
{
	int n;

	for (n = 0; n < CIL_POLICY_COUNT; n++) {
		free_percpu(cil_governors[n].state);
		cil_governors[n].state = NULL;
	}
	free_percpu(cil_cpus);
	cil_cpus = NULL;
}
