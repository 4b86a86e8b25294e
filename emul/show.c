// SPDX-License-Identifier: GPL-2.0
/*
 * The accounts for readers: tables in debugfs.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/module.h>
#include <linux/printk.h>
#include <linux/seq_file.h>
#include "domains.h"
#include "emul.h"

static struct dentry *debugfs_dir;

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

static int domains_show(struct seq_file *file, void *unused)
{
	struct emul_domain_usage usage;
	int i, level;

	seq_printf(file, "%-15s %-15s %9s %16s %16s %12s %16s\n", "domain",
		   "state", "power_mw", "entry_nj", "time_ns", "entries",
		   "energy_uj");
	for (i = 0; i < emul_domain_count; i++) {
		struct emul_domain *domain = emul_domains[i];

		emul_domain_read(domain, &usage);
		for (level = 0; level <= domain->depth; level++)
			seq_printf(file,
				   "%-15s %-15s %9u %16llu %16llu %12llu %16llu\n",
				   domain->name,
				   level ? domain->levels[level].name : "up",
				   domain->levels[level].power.mw,
				   domain->levels[level].power.entry_nj,
				   usage.time_ns[level], usage.entries[level],
				   emul_level_energy_uj(domain, &usage, level));
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(domains);

/**
 * emul_debugfs_register - show the accounts as tables in debugfs
 *
 * Without debugfs the tables are missing and everything else works.
 */
void emul_debugfs_register(void)
{
	struct dentry *file;

	debugfs_dir = debugfs_create_dir("cpuidle_emul", NULL);
	file = debugfs_create_file("energy", 0400, debugfs_dir, NULL,
				   &energy_fops);
	if (IS_ERR(file))
		pr_info("no table in debugfs (error %ld)\n", PTR_ERR(file));
	debugfs_create_file("domains", 0400, debugfs_dir, NULL, &domains_fops);
	emul_table_register(debugfs_dir);
	emul_work_register(debugfs_dir);
}

/**
 * emul_debugfs_unregister - take the tables away
 */
void emul_debugfs_unregister(void)
{
	debugfs_remove(debugfs_dir);
}
