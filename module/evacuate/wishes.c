// SPDX-License-Identifier: GPL-2.0
/*
 * Wishes for CPUs to be idle, and the set that follows from them.
 *
 * There are three kinds of wishes: the values that the administrator sets, the
 * leases of programs, and the state of the cooling device. The smallest
 * percentage counts, the largest number of CPUs, and all CPUs that are named.
 *
 * Locks, outermost first: CPU hotplug, wishes_lock.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "evacuate/events.h"
#include "evacuate/holder.h"
#include "evacuate/topology.h"
#include "evacuate/values.h"
#include "evacuate/wishes.h"

#define NO_CPU		(~0u)

static DEFINE_MUTEX(wishes_lock);

/* All below are protected by wishes_lock. */
static bool wishes_live;
static LIST_HEAD(leases);
static struct cpumask named_cpus;
static struct cpumask evacuated_cpus;
static u32 cooling;
static bool sleeping;
static struct evacuate_cpu *described;
static char event_text[CIL_EVAC_TEXT];

static u32 smallest_capacity(void)
{
	u32 pct = cil_evac_value(EVACUATE_MAX_CAPACITY);
	const struct cil_lease *lease;

	lockdep_assert_held(&wishes_lock);
	list_for_each_entry(lease, &leases, list)
		pct = min(pct, lease->max_capacity_pct);
	return pct;
}

static bool is_named(unsigned int cpu)
{
	const struct cil_lease *lease;

	lockdep_assert_held(&wishes_lock);
	list_for_each_entry(lease, &leases, list)
		if (cpumask_test_cpu(cpu, &lease->cpus))
			return true;
	return cpumask_test_cpu(cpu, &named_cpus);
}

/* The set that follows from all wishes, without a CPU that is about to go. */
static void wishes_choose(struct cpumask *chosen, unsigned int leaving)
{
	struct evacuate_wish wish = {
		.max_capacity_pct = smallest_capacity(),
		.cooling = cooling,
		.order = cil_evac_value(EVACUATE_ORDER),
	};
	unsigned int cpu;
	u32 count = 0, go;

	cpumask_clear(chosen);
	if (sleeping)
		return;
	for_each_online_cpu(cpu) {
		if (cpu == leaving)
			continue;
		cil_evac_describe(cpu, &described[count]);
		described[count].asked = is_named(cpu);
		count++;
	}
	if (!count)
		return;
	wish.boot_cpu = described[0].cpu;
	go = evacuate_choose(described, count, &wish);
	while (go-- > 0)
		cpumask_set_cpu(described[go].cpu, chosen);
}

/* Makes the set follow the wishes; CPU hotplug is locked. */
static void wishes_update(unsigned int leaving)
{
	static struct cpumask chosen;

	lockdep_assert_held(&wishes_lock);
	wishes_choose(&chosen, leaving);
	if (cpumask_equal(&chosen, &evacuated_cpus))
		return;
	cpumask_copy(&evacuated_cpus, &chosen);
	scnprintf(event_text, sizeof(event_text), "%*pbl",
		  cpumask_pr_args(&evacuated_cpus));
	trace_cil_evacuation(num_online_cpus(), event_text);
	cil_holders_set(&evacuated_cpus);
}

static void begin_change(void)
{
	cpus_read_lock();
	mutex_lock(&wishes_lock);
}

static void end_change(void)
{
	lockdep_assert_held(&wishes_lock);
	if (wishes_live)
		wishes_update(NO_CPU);
	mutex_unlock(&wishes_lock);
	cpus_read_unlock();
}

/**
 * cil_wishes_set_value() - change a tunable
 * @n: position of the tunable
 * @text: its new value
 *
 * Context: process, may sleep; also before the module has started.
 * Return: 0, or -EINVAL if it is out of range; then nothing changes.
 */
int cil_wishes_set_value(u32 n, const char *text)
{
	u32 value;
	int ret = cil_evac_parse(n, text, &value);

	if (ret)
		return ret;
	begin_change();
	cil_evac_store(n, value);
	end_change();
	return 0;
}

/**
 * cil_wishes_defaults() - give all tunables their defaults
 *
 * Context: process, may sleep.
 */
void cil_wishes_defaults(void)
{
	u32 n;

	begin_change();
	for (n = 0; n < EVACUATE_TUNABLE_COUNT; n++)
		cil_evac_store(n, evacuate_tunables[n].def);
	end_change();
}

/* Empty, or some online CPUs but not all, and no others; CPU hotplug is locked. */
static int check_cpus(const struct cpumask *cpus)
{
	if (cpumask_empty(cpus))
		return 0;
	if (!cpumask_subset(cpus, cpu_online_mask) ||
	    cpumask_subset(cpu_online_mask, cpus))
		return -EINVAL;
	return 0;
}

static int parse_cpus(const char *text, cpumask_var_t *cpus)
{
	if (!zalloc_cpumask_var(cpus, GFP_KERNEL))
		return -ENOMEM;
	if (cpulist_parse(text, *cpus)) {
		free_cpumask_var(*cpus);
		return -EINVAL;
	}
	return 0;
}

/**
 * cil_wishes_set_cpus() - name the CPUs that shall go
 * @text: a list as "4-7,9", or nothing
 *
 * Context: process, may sleep; also before the module has started.
 * Return: 0, -ENOMEM, or -EINVAL if the list has an offline CPU, or all online
 * ones; then nothing changes.
 */
int cil_wishes_set_cpus(const char *text)
{
	cpumask_var_t cpus;
	int ret = parse_cpus(text, &cpus);

	if (ret)
		return ret;
	begin_change();
	ret = check_cpus(cpus);
	if (!ret)
		cpumask_copy(&named_cpus, cpus);
	end_change();
	free_cpumask_var(cpus);
	return ret;
}

static int print_set(const struct cpumask *set, char *text, size_t size)
{
	int used;

	mutex_lock(&wishes_lock);
	used = scnprintf(text, size, "%*pbl", cpumask_pr_args(set));
	mutex_unlock(&wishes_lock);
	return used;
}

/**
 * cil_wishes_print_cpus() - the CPUs that the administrator named
 * @text: where to print the list
 * @size: room in @text
 *
 * Context: process, may sleep.
 * Return: number of characters.
 */
int cil_wishes_print_cpus(char *text, size_t size)
{
	return print_set(&named_cpus, text, size);
}

/**
 * cil_wishes_print_evacuated() - the CPUs that are evacuated
 * @text: where to print the list
 * @size: room in @text
 *
 * Context: process, may sleep.
 * Return: number of characters.
 */
int cil_wishes_print_evacuated(char *text, size_t size)
{
	return print_set(&evacuated_cpus, text, size);
}

/**
 * cil_lease_new() - a wish that a program makes; it asks for nothing yet
 *
 * Context: process, may sleep.
 * Return: the lease, or NULL if there is no memory.
 */
struct cil_lease *cil_lease_new(void)
{
	struct cil_lease *lease = kzalloc(sizeof(*lease), GFP_KERNEL);

	if (!lease)
		return NULL;
	lease->max_capacity_pct = 100;
	mutex_lock(&wishes_lock);
	list_add(&lease->list, &leases);
	mutex_unlock(&wishes_lock);
	return lease;
}

/**
 * cil_lease_set() - change a lease
 * @lease: the lease
 * @text: max_capacity_pct=N, or evacuate_cpus=LIST
 *
 * Context: process, may sleep.
 * Return: 0, -EINVAL or -ENOMEM; then nothing changes.
 */
int cil_lease_set(struct cil_lease *lease, const char *text)
{
	const char *value = strchr(text, '=');
	u32 pct = lease->max_capacity_pct;
	cpumask_var_t cpus;
	int ret = -EINVAL;

	if (value && str_has_prefix(text, "max_capacity_pct="))
		ret = cil_evac_parse(EVACUATE_MAX_CAPACITY, value + 1, &pct);
	else if (value && str_has_prefix(text, "evacuate_cpus="))
		ret = 0;
	if (!ret)
		ret = parse_cpus(text[0] == 'e' ? value + 1 : "", &cpus);
	if (ret)
		return ret;
	begin_change();
	ret = check_cpus(cpus);
	if (!ret && text[0] == 'e')
		cpumask_copy(&lease->cpus, cpus);
	else if (!ret)
		lease->max_capacity_pct = pct;
	end_change();
	free_cpumask_var(cpus);
	return ret;
}

/**
 * cil_lease_end() - forget a lease
 * @lease: the lease
 *
 * Context: process, may sleep.
 */
void cil_lease_end(struct cil_lease *lease)
{
	begin_change();
	list_del(&lease->list);
	end_change();
	kfree(lease);
}

/**
 * cil_wishes_set_cooling() - set the state of the cooling device
 * @cpus: number of CPUs that shall be idle; one stays in any case
 *
 * Context: process, may sleep.
 */
void cil_wishes_set_cooling(u32 cpus)
{
	begin_change();
	cooling = cpus;
	end_change();
}

/**
 * cil_wishes_cooling() - the state of the cooling device
 *
 * Context: process, may sleep.
 * Return: number of CPUs that shall be idle.
 */
u32 cil_wishes_cooling(void)
{
	u32 cpus;

	mutex_lock(&wishes_lock);
	cpus = cooling;
	mutex_unlock(&wishes_lock);
	return cpus;
}

static void wishes_update_for(unsigned int leaving)
{
	mutex_lock(&wishes_lock);
	if (wishes_live)
		wishes_update(leaving);
	mutex_unlock(&wishes_lock);
}

/**
 * cil_wishes_cpu_online() - a CPU has come online
 * @cpu: the CPU
 *
 * Context: process, CPU hotplug is locked.
 */
void cil_wishes_cpu_online(unsigned int cpu)
{
	wishes_update_for(NO_CPU);
}

/**
 * cil_wishes_cpu_offline() - a CPU is about to go offline
 * @cpu: the CPU
 *
 * Context: process, CPU hotplug is locked.
 */
void cil_wishes_cpu_offline(unsigned int cpu)
{
	wishes_update_for(cpu);
}

/**
 * cil_wishes_sleep() - the machine goes to sleep, or has woken up
 * @asleep: no CPU is to be held from now on
 *
 * Context: process, may sleep.
 */
void cil_wishes_sleep(bool asleep)
{
	begin_change();
	sleeping = asleep;
	end_change();
}

/**
 * cil_wishes_init() - let the wishes take effect
 *
 * Values from the command line of the module are in force afterwards.
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM; then no CPU is held.
 */
int cil_wishes_init(void)
{
	int ret;

	described = kcalloc(nr_cpu_ids, sizeof(*described), GFP_KERNEL);
	if (!described)
		return -ENOMEM;
	ret = cil_holders_start();
	if (ret) {
		kfree(described);
		return ret;
	}
	begin_change();
	wishes_live = true;
	end_change();
	return 0;
}

/**
 * cil_wishes_exit() - release all CPUs
 *
 * Context: process, may sleep; no wish can be made any more.
 */
void cil_wishes_exit(void)
{
	/* A parameter may be written until the module has gone. */
	begin_change();
	wishes_live = false;
	end_change();
	cil_holders_stop();
	kfree(described);
	described = NULL;
}
