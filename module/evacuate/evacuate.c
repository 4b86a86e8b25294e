// SPDX-License-Identifier: GPL-2.0
/*
 * CPU evacuation as the rest of the module sees it: start and end, and the
 * events of the machine that every CPU must survive usable.
 */
#include <linux/cpuhotplug.h>
#include <linux/notifier.h>
#include <linux/suspend.h>

#include "evacuate/cooling.h"
#include "evacuate/evacuate.h"
#include "evacuate/files.h"
#include "evacuate/wishes.h"

static enum cpuhp_state evacuate_hotplug;

static int evacuate_cpu_online(unsigned int cpu)
{
	cil_wishes_cpu_online(cpu);
	return 0;
}

static int evacuate_cpu_offline(unsigned int cpu)
{
	cil_wishes_cpu_offline(cpu);
	return 0;
}

/* A machine that goes to sleep has all CPUs to do so. */
static int evacuate_sleep(struct notifier_block *block, unsigned long event,
			  void *unused)
{
	switch (event) {
	case PM_HIBERNATION_PREPARE:
	case PM_SUSPEND_PREPARE:
	case PM_RESTORE_PREPARE:
		cil_wishes_sleep(true);
		break;
	case PM_POST_HIBERNATION:
	case PM_POST_SUSPEND:
	case PM_POST_RESTORE:
		cil_wishes_sleep(false);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block evacuate_sleeps = {
	.notifier_call = evacuate_sleep,
};

/**
 * cil_evacuate_init() - let CPUs be evacuated
 *
 * Context: process, may sleep; the tunables have their values.
 * Return: 0 or a negative error; then nothing is left.
 */
int cil_evacuate_init(void)
{
	int ret = cil_wishes_init();

	if (ret)
		return ret;
	ret = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN,
					"cpuidle_lab:evacuate",
					evacuate_cpu_online, evacuate_cpu_offline);
	if (ret < 0)
		goto err_wishes;
	evacuate_hotplug = ret;
	ret = register_pm_notifier(&evacuate_sleeps);
	if (ret)
		goto err_hotplug;
	cil_cooling_init();
	return 0;

err_hotplug:
	cpuhp_remove_state_nocalls(evacuate_hotplug);
err_wishes:
	cil_wishes_exit();
	return ret;
}

/**
 * cil_evacuate_exit() - every CPU is usable afterwards
 *
 * Context: process, may sleep; the files in debugfs are gone.
 */
void cil_evacuate_exit(void)
{
	cil_cooling_exit();
	unregister_pm_notifier(&evacuate_sleeps);
	cpuhp_remove_state_nocalls(evacuate_hotplug);
	cil_wishes_exit();
}

/**
 * cil_evacuate_make_files() - the files of evacuation in debugfs
 * @root: the module's folder
 *
 * Context: process, may sleep; after cil_evacuate_init().
 */
void cil_evacuate_make_files(struct dentry *root)
{
	cil_evac_files_make(root);
}
