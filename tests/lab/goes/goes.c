// SPDX-License-Identifier: GPL-2.0
/*
 * A governor of another module that goes away: what gate may have as its base,
 * and must have forgotten by then.
 */
#include <linux/cpuidle.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static int (*register_governor)(struct cpuidle_governor *governor);

/* Those of several CPUs may be lost. */
static unsigned long decisions;
module_param(decisions, ulong, 0444);

static int goes_select(struct cpuidle_driver *drv, struct cpuidle_device *dev,
		       bool *stop_tick)
{
	WRITE_ONCE(decisions, READ_ONCE(decisions) + 1);
	return drv->state_count - 1;
}

static void goes_reflect(struct cpuidle_device *dev, int index)
{
	dev->last_state_idx = index;
}

static struct cpuidle_governor goes = {
	.name = "goes",
	.rating = 1,
	.select = goes_select,
	.reflect = goes_reflect,
};

static int __init goes_init(void)
{
	struct kprobe probe = {
		.symbol_name = "cpuidle_register_governor",
		.flags = KPROBE_FLAG_DISABLED,
	};
	int ret = register_kprobe(&probe);

	if (ret)
		return ret;
	register_governor = (void *)probe.addr;
	unregister_kprobe(&probe);
	return register_governor(&goes);
}

/* The kernel has no way back for a governor. It is neither current nor a base. */
static void __exit goes_exit(void)
{
	cpuidle_pause_and_lock();
	list_del(&goes.governor_list);
	cpuidle_resume_and_unlock();
}

module_init(goes_init);
module_exit(goes_exit);
MODULE_DESCRIPTION("Governor that goes away, for a test");
MODULE_LICENSE("GPL");
