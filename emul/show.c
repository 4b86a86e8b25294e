// SPDX-License-Identifier: GPL-2.0
/*
 * The modelled energy for readers: a powercap zone like RAPL's, and a table in
 * debugfs.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/powercap.h>
#include <linux/printk.h>
#include <linux/seq_file.h>
#include "emul.h"

static struct powercap_control_type *control_type;
static struct powercap_zone *energy_zone;
static struct dentry *debugfs_dir;

static int get_energy_uj(struct powercap_zone *unused, u64 *energy_uj)
{
	*energy_uj = emul_energy_uj();
	return 0;
}

/* The counter never wraps; what readers keep in a signed number fits. */
static int get_max_energy_range_uj(struct powercap_zone *unused, u64 *range_uj)
{
	*range_uj = S64_MAX;
	return 0;
}

/* The core frees what it allocated; it insists on the callback. */
static int energy_zone_release(struct powercap_zone *unused)
{
	return 0;
}

static const struct powercap_zone_ops energy_zone_ops = {
	.get_energy_uj		= get_energy_uj,
	.get_max_energy_range_uj = get_max_energy_range_uj,
	.release		= energy_zone_release,
};

/* A zone cannot do without these four, even when it has no constraint. */
static int get_constraint(struct powercap_zone *unused, int id, u64 *value)
{
	return -EOPNOTSUPP;
}

static int set_constraint(struct powercap_zone *unused, int id, u64 value)
{
	return -EOPNOTSUPP;
}

static const struct powercap_zone_constraint_ops constraint_ops = {
	.set_power_limit_uw	= set_constraint,
	.get_power_limit_uw	= get_constraint,
	.set_time_window_us	= set_constraint,
	.get_time_window_us	= get_constraint,
};

/**
 * emul_zone_register - show the energy as a powercap zone
 *
 * Return: 0 or a negative error code; then nothing is registered.
 */
int emul_zone_register(void)
{
	control_type = powercap_register_control_type(NULL, "cpuidle-emul",
						      NULL);
	if (IS_ERR(control_type))
		return PTR_ERR(control_type);

	energy_zone = powercap_register_zone(NULL, control_type, "package-0",
					     NULL, &energy_zone_ops, 0,
					     &constraint_ops);
	if (IS_ERR(energy_zone)) {
		powercap_unregister_control_type(control_type);
		return PTR_ERR(energy_zone);
	}
	return 0;
}

/**
 * emul_zone_unregister - take the powercap zone away
 */
void emul_zone_unregister(void)
{
	powercap_unregister_zone(control_type, energy_zone);
	powercap_unregister_control_type(control_type);
}

static const char *slot_name(int slot)
{
	switch (slot) {
	case EMUL_BUSY:
		return "busy";
	case EMUL_OFFLINE:
		return "offline";
	default:
		return emul_driver.states[slot].name;
	}
}

static int energy_show(struct seq_file *file, void *unused)
{
	struct emul_usage usage;
	int cpu, slot;

	seq_printf(file, "%-4s %-15s %9s %12s %16s %12s %16s\n", "cpu", "state",
		   "power_mw", "entry_nj", "time_ns", "entries", "energy_uj");
	for_each_possible_cpu(cpu) {
		emul_account_read(&per_cpu_ptr(emul_cpus, cpu)->account,
				  &usage);
		for (slot = 0; slot < EMUL_SLOTS; slot++) {
			if (slot >= emul_state_count && slot < EMUL_BUSY)
				continue;
			seq_printf(file,
				   "%-4d %-15s %9u %12llu %16llu %12llu %16llu\n",
				   cpu, slot_name(slot), emul_power[slot].mw,
				   emul_power[slot].entry_nj,
				   usage.time_ns[slot], usage.entries[slot],
				   emul_slot_energy_uj(&usage, slot));
		}
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(energy);

/**
 * emul_debugfs_register - show the account as a table in debugfs
 *
 * Without debugfs the table is missing and everything else works.
 */
void emul_debugfs_register(void)
{
	struct dentry *file;

	debugfs_dir = debugfs_create_dir("cpuidle_emul", NULL);
	file = debugfs_create_file("energy", 0400, debugfs_dir, NULL,
				   &energy_fops);
	if (IS_ERR(file))
		pr_info("no table in debugfs (error %ld)\n", PTR_ERR(file));
	emul_table_register(debugfs_dir);
	emul_work_register(debugfs_dir);
}

/**
 * emul_debugfs_unregister - take the table away
 */
void emul_debugfs_unregister(void)
{
	debugfs_remove(debugfs_dir);
}
