// SPDX-License-Identifier: GPL-2.0
/*
 * The gate's base governor: one of ours, or one of the kernel's.
 */
#include <linux/module.h>
#include <linux/string.h>

#include "gate.h"
#include "registry.h"
#include "symbols.h"

/* Exactly one is set. Changed under the cpuidle lock with idle handlers off. */
static struct cil_governor *own_base = &cil_governors[0];
static struct cpuidle_governor *kernel_base;

/* Base given at load, before the kernel's governors can be looked up. */
static char boot_base[CPUIDLE_NAME_LEN];

/**
 * cil_gate_bases() - who decides under the gate
 * @own: set to the governor of ours, or NULL
 * @base: set to the kernel's governor, or NULL
 *
 * Context: cpuidle lock held.
 */
void cil_gate_bases(struct cil_governor **own, struct cpuidle_governor **base)
{
	*own = own_base;
	*base = kernel_base;
}

/**
 * cil_gate_base_name() - name of the base
 *
 * Context: any; a concurrent change may be seen or not.
 */
const char *cil_gate_base_name(void)
{
	const struct cpuidle_governor *base = READ_ONCE(kernel_base);

	return base ? base->name : READ_ONCE(own_base)->kernel.name;
}

/**
 * cil_gate_print_base() - the base as a module parameter shows it
 * @text: where to print
 * @size: room in @text
 *
 * Context: process.
 * Return: number of characters.
 */
int cil_gate_print_base(char *text, size_t size)
{
	return scnprintf(text, size, "base=%s\n", cil_gate_base_name());
}

static int look_up(const char *name, struct cil_governor **own,
		   struct cpuidle_governor **base)
{
	*own = cil_registry_find_own(name);
	*base = *own ? NULL : cil_registry_find(name);
	if (*own == &cil_gate || (!*own && !*base))
		return -EINVAL;
	return 0;
}

static void switch_devices(bool enable)
{
	struct cpuidle_device *dev;

	list_for_each_entry(dev, cil_kernel.devices, device_list) {
		if (enable)
			cpuidle_enable_device(dev);
		else
			cpuidle_disable_device(dev);
	}
}

/**
 * cil_gate_set_base() - change the base governor
 * @name: name of a registered governor; a newline at the end is ignored
 *
 * If the gate is current, the old base leaves every CPU before the new one
 * comes: governors share fields of the device.
 *
 * Context: process, may sleep.
 * Return: 0, or -EINVAL (no such governor, or the gate itself).
 */
int cil_gate_set_base(const char *name)
{
	struct cil_governor *own;
	struct cpuidle_governor *base;
	bool current_gate;
	int ret;

	cpuidle_pause_and_lock();
	ret = look_up(name, &own, &base);
	if (!ret && (own != own_base || base != kernel_base)) {
		current_gate = *cil_kernel.curr == &cil_gate.kernel;
		if (current_gate)
			switch_devices(false);
		WRITE_ONCE(own_base, own);
		WRITE_ONCE(kernel_base, base);
		if (current_gate)
			switch_devices(true);
	}
	cpuidle_resume_and_unlock();
	return ret;
}

/**
 * cil_gate_boot_base() - remember a base given at load
 * @name: name of the governor
 *
 * Context: process, before cil_gate_init().
 * Return: 0, or -EINVAL (name too long).
 */
int cil_gate_boot_base(const char *name)
{
	return strscpy(boot_base, name, sizeof(boot_base)) < 0 ? -EINVAL : 0;
}

/**
 * cil_gate_init() - the first base: as given, menu, or ours without menu
 *
 * Context: process, may sleep; before the gate is registered.
 * Return: 0, or -EINVAL (the base given at load does not exist).
 */
int cil_gate_init(void)
{
	if (!*boot_base) {
		cil_gate_set_base("menu");
		return 0;
	}
	if (cil_gate_set_base(boot_base)) {
		pr_err("gate: there is no base governor %s\n", boot_base);
		return -EINVAL;
	}
	return 0;
}
