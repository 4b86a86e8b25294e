// SPDX-License-Identifier: GPL-2.0
/*
 * The modelled energy as powercap zones like RAPL's. The first zone is the
 * machine. With domains there are zones of its packages and cores below.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/limits.h>
#include <linux/powercap.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/topology.h>
#include "domains.h"
#include "emul.h"

/* A zone: energy of CPUs, and of domains that hold no others. */
struct energy_zone {
	struct powercap_zone	*powercap;
	struct cpumask		cpus;
	spinlock_t		lock;	/* guards last_uj */
	u64			last_uj;
};

static struct powercap_control_type *control_type;

/* Each after the one that it is a part of. */
static struct energy_zone **zones;
static int zone_count;

/* Sums of parts that are rounded, and read one after the other, may fall. */
static int get_energy_uj(struct powercap_zone *powercap, u64 *energy_uj)
{
	struct energy_zone *zone = powercap_get_zone_data(powercap);
	u64 now_uj;

	/* It is being registered. */
	if (!zone)
		return -ENODATA;
	now_uj = emul_energy_uj(&zone->cpus);
	spin_lock(&zone->lock);
	zone->last_uj = max(zone->last_uj, now_uj);
	*energy_uj = zone->last_uj;
	spin_unlock(&zone->lock);
	return 0;
}

/* The counter never wraps; what readers keep in a signed number fits. */
static int get_max_energy_range_uj(struct powercap_zone *unused, u64 *range_uj)
{
	*range_uj = S64_MAX;
	return 0;
}

/* The core frees what it allocated; it insists on the callback. */
static int zone_release(struct powercap_zone *unused)
{
	return 0;
}

static const struct powercap_zone_ops zone_ops = {
	.get_energy_uj		= get_energy_uj,
	.get_max_energy_range_uj = get_max_energy_range_uj,
	.release		= zone_release,
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

/* Add a zone right below @parent; returns it, or an error. */
static struct energy_zone *
add_zone(struct energy_zone *parent, const char *name, int number,
	 const struct cpumask *cpus)
{
	struct energy_zone *zone = kzalloc(sizeof(*zone), GFP_KERNEL);
	char text[32];

	if (!zone)
		return ERR_PTR(-ENOMEM);
	snprintf(text, sizeof(text), number < 0 ? "%s" : "%s-%d", name, number);
	cpumask_copy(&zone->cpus, cpus);
	spin_lock_init(&zone->lock);
	zone->powercap = powercap_register_zone(NULL, control_type, text,
						parent ? parent->powercap : NULL,
						&zone_ops, 0, &constraint_ops);
	if (IS_ERR(zone->powercap)) {
		int ret = PTR_ERR(zone->powercap);

		kfree(zone);
		return ERR_PTR(ret);
	}
	powercap_set_zone_data(zone->powercap, zone);
	zones[zone_count++] = zone;
	return zone;
}

static const struct cpumask *package_of(int cpu)
{
	return topology_core_cpumask(cpu);
}

static const struct cpumask *core_of(int cpu)
{
	return topology_sibling_cpumask(cpu);
}

/* Add a zone for each group among the online CPUs of @parent, but for itself. */
static int add_parts(struct energy_zone *parent, const char *name,
		     const struct cpumask *(*group_of)(int cpu))
{
	int number = 0;
	int cpu;

	for_each_cpu_and(cpu, &parent->cpus, cpu_online_mask) {
		const struct cpumask *group = group_of(cpu);
		struct energy_zone *zone;

		if (cpumask_first(group) != cpu)
			continue;
		zone = add_zone(parent, name, number++, group);
		if (IS_ERR(zone))
			return PTR_ERR(zone);
	}
	return 0;
}

static bool has_packages(void)
{
	return !cpumask_subset(cpu_online_mask,
			       package_of(cpumask_first(cpu_online_mask)));
}

/* CPU hotplug is locked, for topology and zones to be of the same CPUs. */
static int add_zones(void)
{
	bool several = has_packages();
	struct energy_zone *machine;
	int ret = 0;
	int i, packages;

	machine = add_zone(NULL, several ? "machine" : "package",
			   several ? -1 : 0, cpu_possible_mask);
	if (IS_ERR(machine))
		return PTR_ERR(machine);
	if (!emul_domain_count)
		return 0;
	if (several)
		ret = add_parts(machine, "package", package_of);
	packages = zone_count;
	for (i = several ? 1 : 0; i < packages && !ret; i++)
		ret = add_parts(zones[i], "core", core_of);
	return ret;
}

/**
 * emul_zones_register - show the energy as powercap zones
 *
 * Return: 0 or a negative error code; then nothing is registered.
 */
int emul_zones_register(void)
{
	int ret;

	/* The machine; packages and cores, at most one for each CPU. */
	zones = kcalloc(1 + 2 * nr_cpu_ids, sizeof(*zones), GFP_KERNEL);
	if (!zones)
		return -ENOMEM;
	control_type = powercap_register_control_type(NULL, "cpuidle-emul",
						      NULL);
	if (IS_ERR(control_type)) {
		kfree(zones);
		return PTR_ERR(control_type);
	}
	cpus_read_lock();
	ret = add_zones();
	cpus_read_unlock();
	if (ret)
		emul_zones_unregister();
	return ret;
}

/**
 * emul_zones_unregister - take the powercap zones away
 */
void emul_zones_unregister(void)
{
	while (zone_count) {
		struct energy_zone *zone = zones[--zone_count];

		powercap_unregister_zone(control_type, zone->powercap);
		kfree(zone);
	}
	powercap_unregister_control_type(control_type);
	kfree(zones);
}
