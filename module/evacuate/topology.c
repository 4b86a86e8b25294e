// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's view of a CPU, for the order of evacuation.
 */
#include <linux/sched/isolation.h>
#include <linux/sched/topology.h>
#include <linux/topology.h>

#include "evacuate/topology.h"
#include "symbols.h"

/* The first CPU of a set stands for the set; a set may be empty. */
static u32 first_of(const struct cpumask *set, unsigned int cpu)
{
	unsigned int first = cpumask_first(set);

	return first < nr_cpu_ids ? first : cpu;
}

static u32 capacity_of(unsigned int cpu)
{
	if (cil_kernel.cpu_scale)
		return *per_cpu_ptr(cil_kernel.cpu_scale, cpu);
#ifdef CONFIG_X86
	return arch_scale_cpu_capacity(cpu);
#else
	return SCHED_CAPACITY_SCALE;
#endif
}

/**
 * cil_evac_describe() - all that the order of evacuation knows of a CPU
 * @cpu: an online CPU
 * @described: filled in, but for the members @key and @asked
 *
 * Context: CPU hotplug is locked.
 */
void cil_evac_describe(unsigned int cpu, struct evacuate_cpu *described)
{
	described->cpu = cpu;
	described->core = first_of(topology_sibling_cpumask(cpu), cpu);
	described->package = first_of(topology_core_cpumask(cpu), cpu);
	described->capacity = capacity_of(cpu);
	described->isolated = !housekeeping_test_cpu(cpu, HK_TYPE_DOMAIN);
}
