/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Head of a mainline governor that is built as a module: above its source, with
 * CIL_NAME defined. The lab alone builds that, in the modules' tree
 * (mainline.py). Its init function becomes the module's by itself. Such a
 * module has no exit, so it cannot be removed.
 */

/* The functions that are not exported, and where they are. */
#include "module/symbols.c"

#include <linux/sched/stat.h>
#include <linux/string.h>

static unsigned int (*cil_nr_iowait_cpu)(int cpu);

/* The kernel's own governor of that name keeps it. */
static int cil_register_mainline(struct cpuidle_governor *governor)
{
	int ret = cil_symbols_resolve();

	if (ret)
		return ret;
	cil_nr_iowait_cpu = (void *)static_call(cil_lookup)("nr_iowait_cpu");
	if (!cil_nr_iowait_cpu)
		return -ENOENT;
	strscpy(governor->name, CIL_NAME, sizeof(governor->name));
	return static_call(cil_register)(governor);
}

#define cpuidle_register_governor	cil_register_mainline
#define cpuidle_governor_latency_req	static_call(cil_latency_req)
#define tick_nohz_get_sleep_length	static_call(cil_sleep_length)
#define tick_nohz_tick_stopped		static_call(cil_tick_stopped)
#define tick_nohz_idle_got_tick		static_call(cil_got_tick)
#define nr_iowait_cpu			cil_nr_iowait_cpu

MODULE_DESCRIPTION("A cpuidle governor of the kernel " CIL_NAME);
MODULE_LICENSE("GPL");
