/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Way out of a mainline governor that is built as a module of a user's machine
 * (modules.py): above its source, after lab/guest/mainline.h. The kernel has no
 * function that takes a governor out of its list. A governor has to stay there
 * for the CPUs, so the module does not load without one.
 */

#include <linux/cpuidle.h>
#include <linux/rcupdate.h>

static bool cil_is_ours(struct cpuidle_governor *governor)
{
	return within_module((unsigned long)governor, THIS_MODULE);
}

/* The best governor that stays, as the kernel would have chosen. */
static struct cpuidle_governor *cil_stays(void)
{
	struct cpuidle_governor *best = NULL;
	struct cpuidle_governor *g;

	list_for_each_entry(g, cil_kernel.governors, governor_list)
		if (!cil_is_ours(g) && (!best || g->rating > best->rating))
			best = g;
	return best;
}

static int cil_register_leaving(struct cpuidle_governor *governor)
{
	bool stays;
	int ret = cil_symbols_resolve();

	if (ret)
		return ret;
	cpuidle_pause_and_lock();
	stays = cil_stays();
	cpuidle_resume_and_unlock();
	if (!stays) {
		pr_err(CIL_NAME ": the kernel has no governor to return to: cpuidle is off (cpuidle.off=1), or there is none\n");
		return -ENODEV;
	}
	return cil_register_mainline(governor);
}

#undef cpuidle_register_governor
#define cpuidle_register_governor	cil_register_leaving

static void __exit cil_leave(void)
{
	struct cpuidle_governor *g, *next;

	cpuidle_pause_and_lock();
	if (*cil_kernel.curr && cil_is_ours(*cil_kernel.curr))
		static_call(cil_switch)(cil_stays());
	if (cil_kernel.prev && *cil_kernel.prev && cil_is_ours(*cil_kernel.prev))
		*cil_kernel.prev = cil_stays();
	list_for_each_entry_safe(g, next, cil_kernel.governors, governor_list)
		if (cil_is_ours(g))
			list_del(&g->governor_list);
	cpuidle_resume_and_unlock();
	/* A CPU may be in the governor still. It is not idle to RCU there. */
	synchronize_rcu();
}
module_exit(cil_leave);
