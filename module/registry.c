// SPDX-License-Identifier: GPL-2.0
/*
 * Our governors in the kernel's list, and their way out of it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

#include "glue.h"
#include "registry.h"
#include "symbols.h"

/*
 * The kernel's callbacks do not name the governor that they are called for. So
 * each governor has an enable callback of its own. The rest is shared.
 */
#define X(name, number)							\
	static int enable_##name(struct cpuidle_driver *drv,		\
				 struct cpuidle_device *dev)		\
	{								\
		return cil_glue_enable(&cil_governors[CIL_GOVERNOR_##name], \
				       drv, dev);			\
	}
CIL_MODULE_GOVERNORS(X)
#undef X

static int enable_gate(struct cpuidle_driver *drv, struct cpuidle_device *dev)
{
	return cil_glue_enable(&cil_gate, drv, dev);
}

#define X(name, number)							\
	[CIL_GOVERNOR_##name] = enable_##name,
static int (*const enable[])(struct cpuidle_driver *drv,
			     struct cpuidle_device *dev) = {
	CIL_MODULE_GOVERNORS(X)
};

#undef X

/*
 * The best governor that stays, as the kernel would have chosen. There is one:
 * without it cil_registry_add() would not have begun.
 */
static struct cpuidle_governor *fallback_governor(void)
{
	struct cpuidle_governor *best = NULL;
	struct cpuidle_governor *g;

	list_for_each_entry(g, cil_kernel.governors, governor_list)
		if (!cil_governor_of(g) && (!best || g->rating > best->rating))
			best = g;
	return best;
}

static void unlink_governor(struct cil_governor *governor)
{
	if (governor->kernel.governor_list.next)
		list_del(&governor->kernel.governor_list);
	governor->kernel.governor_list.next = NULL;
}

/**
 * cil_registry_remove() - take our governors out of the kernel
 *
 * The references that enabled devices hold do not cover everything: without a
 * driver nothing is enabled, and the displaced governor holds none. So
 * whatever points to us is moved off first.
 *
 * Context: process, may sleep. Also when only some are registered.
 */
void cil_registry_remove(void)
{
	int i;

	cpuidle_pause_and_lock();
	if (*cil_kernel.curr && cil_governor_of(*cil_kernel.curr))
		static_call(cil_switch)(fallback_governor());
	if (cil_kernel.prev && *cil_kernel.prev &&
	    cil_governor_of(*cil_kernel.prev))
		*cil_kernel.prev = fallback_governor();
	for (i = 0; i < CIL_POLICY_COUNT; i++)
		unlink_governor(&cil_governors[i]);
	unlink_governor(&cil_gate);
	cpuidle_resume_and_unlock();

	/*
	 * A CPU that left its idle state before the switch may be in our
	 * reflect still. It is not idle to RCU there.
	 */
	synchronize_rcu();
}

static int register_governor(struct cil_governor *governor)
{
	int ret = static_call(cil_register)(&governor->kernel);

	if (ret == -EEXIST)
		pr_err("the kernel has a governor %s already\n",
		       governor->kernel.name);
	else if (ret == -ENODEV)
		pr_err("cpuidle is off (cpuidle.off=1)\n");
	else if (ret)
		pr_err("cannot register governor %s: error %d\n",
		       governor->kernel.name, ret);
	return ret;
}

static int add_governor(struct cil_governor *governor)
{
	governor->kernel.enable = governor->policy ?
				  enable[governor - cil_governors] : enable_gate;
	governor->kernel.disable = cil_glue_disable;
	governor->kernel.select = cil_glue_select;
	governor->kernel.reflect = cil_glue_reflect;
	return register_governor(governor);
}

/*
 * A governor that cpuidle.governor= names on the kernel's command line is in use
 * from its registration on. Else to load the module changes no governor.
 */
static void tell_chosen(void)
{
	cpuidle_pause_and_lock();
	if (*cil_kernel.curr && cil_governor_of(*cil_kernel.curr))
		pr_info("governor %s is in use: cpuidle.governor= wants it\n",
			(*cil_kernel.curr)->name);
	cpuidle_resume_and_unlock();
}

/**
 * cil_registry_add() - register all our governors
 *
 * Context: process, may sleep, cpuidle lock not held.
 * Return: 0, or the error of the first that failed; then none of them is
 * registered.
 * * -EEXIST - its name is taken
 * * -ENODEV - cpuidle is off, or the kernel has no governor to return to
 */
int cil_registry_add(void)
{
	int ret = 0;
	int i;

	cpuidle_pause_and_lock();
	if (!fallback_governor())
		ret = -ENODEV;
	cpuidle_resume_and_unlock();
	if (ret) {
		pr_err("the kernel has no governor to return to: cpuidle is off (cpuidle.off=1), or there is none\n");
		return ret;
	}
	for (i = 0; !ret && i < CIL_POLICY_COUNT; i++)
		ret = add_governor(&cil_governors[i]);
	if (!ret)
		ret = add_governor(&cil_gate);
	if (ret)
		cil_registry_remove();
	else
		tell_chosen();
	return ret;
}
