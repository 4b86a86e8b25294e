// SPDX-License-Identifier: GPL-2.0
/*
 * The gate's base governor: one of ours, or one of the kernel's.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/string.h>

#include "base.h"
#include "state.h"
#include "symbols.h"

/*
 * Name of the base, as given at load until cil_base_init(). Changed under the
 * cpuidle lock. The governor is looked up each time: its module may have gone
 * while the gate was not current.
 */
static char base[CPUIDLE_NAME_LEN];

/* A governor of the kernel's list. */
static struct cpuidle_governor *find_foreign(const char *name)
{
	struct cpuidle_governor *g;

	list_for_each_entry(g, cil_kernel.governors, governor_list)
		if (cil_governor_is_named(g, name))
			return g;
	return NULL;
}

/* Ours may not be registered yet. */
static struct cpuidle_governor *find_base(const char *name)
{
	struct cil_governor *own = cil_governor_find(name);

	if (own == &cil_gate)
		return NULL;
	return own ? &own->kernel : find_foreign(name);
}

/**
 * cil_base_get() - the governor that decides under the gate
 *
 * Context: the cpuidle lock is held.
 * Return: a governor of the kernel's list, which may be one of ours; the first of
 * ours if the base is not registered any more.
 */
struct cpuidle_governor *cil_base_get(void)
{
	return find_base(base) ?: &cil_governors[0].kernel;
}

static void disable_devices(void)
{
	struct cpuidle_device *dev;

	list_for_each_entry(dev, cil_kernel.devices, device_list)
		cpuidle_disable_device(dev);
}

static int enable_devices(void)
{
	struct cpuidle_device *dev;
	int ret = 0;

	list_for_each_entry(dev, cil_kernel.devices, device_list) {
		int error = cpuidle_enable_device(dev);

		if (!error)
			continue;
		pr_err("gate: CPU %u is without idle states, error %d\n",
		       dev->cpu, error);
		ret = error;
	}
	return ret;
}

/**
 * cil_base_print() - the base's name, registered or not
 * @text: where to print
 * @size: room in @text
 *
 * Context: any; with a concurrent change, parts of both names may be seen.
 * Return: number of characters.
 */
int cil_base_print(char *text, size_t size)
{
	return scnprintf(text, size, "%s", *base ? base : cil_governors[0].kernel.name);
}

/**
 * cil_base_set() - change the base governor
 * @name: name of a registered governor; a newline at the end is ignored
 *
 * If the gate is current, the old base leaves every CPU before the new one
 * comes: governors share fields of the device.
 *
 * Context: process, may sleep.
 * Return: 0, -EINVAL (no such governor, or the gate itself), or an error of the
 * kernel. With the latter a CPU could not be enabled again, and one log line
 * says so.
 */
int cil_base_set(const char *name)
{
	struct cpuidle_governor *found;
	int ret = 0;

	cpuidle_pause_and_lock();
	found = find_base(name);
	if (!found) {
		ret = -EINVAL;
	} else if (*cil_kernel.curr == &cil_gate.kernel) {
		/* Also for the same name: its module may have been away. */
		disable_devices();
		strscpy(base, found->name, sizeof(base));
		ret = enable_devices();
	} else {
		strscpy(base, found->name, sizeof(base));
	}
	cpuidle_resume_and_unlock();
	return ret;
}

/**
 * cil_base_set_boot() - remember a base given at load
 * @name: name of the governor
 *
 * Context: process, before cil_base_init().
 * Return: 0, or -EINVAL (name too long).
 */
int cil_base_set_boot(const char *name)
{
	return strscpy(base, name, sizeof(base)) < 0 ? -EINVAL : 0;
}

/**
 * cil_base_init() - the first base: as given, menu, or ours without menu
 *
 * Context: process, may sleep; before the gate is registered.
 * Return: 0, or -EINVAL (the base given at load does not exist).
 */
int cil_base_init(void)
{
	if (!*base) {
		cil_base_set("menu");
		return 0;
	}
	if (cil_base_set(base)) {
		pr_err("gate: there is no base governor %*pE\n",
		       (int)strlen(base), base);
		return -EINVAL;
	}
	return 0;
}
