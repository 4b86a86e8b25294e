// SPDX-License-Identifier: GPL-2.0
/*
 * Hardware's residency counters, as a PMU like cstate_core of Intel's machines.
 *
 * The counters cN-residency count the time that a CPU really was in states whose names begin with
 * CN, in ticks of the time stamp counter. From C7 on there is one counter.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ctype.h>
#include <linux/device.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <asm/tsc.h>
#include "emul.h"

#define EMUL_DEEPEST_COUNTER	7

/* The counter of a state; 0: none. */
static int counter_of(const struct cpuidle_state *state)
{
	if (state->name[0] != 'C' || !isdigit(state->name[1]))
		return 0;
	if (isdigit(state->name[2]))
		return EMUL_DEEPEST_COUNTER;
	return min(state->name[1] - '0', EMUL_DEEPEST_COUNTER);
}

/* Ticks of the time stamp counter so far. */
static u64 counter_residency(const struct perf_event *event)
{
	struct emul_usage usage;
	u64 time_ns = 0;
	int i;

	emul_account_read(&per_cpu_ptr(emul_cpus, event->cpu)->account, &usage);
	for (i = 0; i < emul_state_count; i++)
		if (counter_of(&emul_driver.states[i]) == event->attr.config)
			time_ns += usage.time_ns[i];
	return mul_u64_u32_div(time_ns, tsc_khz, 1000000);
}

static int counter_init(struct perf_event *event)
{
	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (event->cpu < 0 || event->attr.sample_period ||
	    !event->attr.config || event->attr.config > EMUL_DEEPEST_COUNTER)
		return -EINVAL;
	return 0;
}

static void counter_read(struct perf_event *event)
{
	u64 now = counter_residency(event);
	u64 before = local64_xchg(&event->hw.prev_count, now);

	local64_add(now - before, &event->count);
}

static void counter_start(struct perf_event *event, int flags)
{
	local64_set(&event->hw.prev_count, counter_residency(event));
}

static void counter_stop(struct perf_event *event, int flags)
{
	counter_read(event);
}

static int counter_add(struct perf_event *event, int flags)
{
	if (flags & PERF_EF_START)
		counter_start(event, flags);
	return 0;
}

static void counter_del(struct perf_event *event, int flags)
{
	counter_stop(event, flags);
}

PMU_FORMAT_ATTR(event, "config:0-63");

#define EMUL_COUNTER(n)							\
	{								\
		.attr = {						\
			.attr = { .name = "c" #n "-residency",		\
				  .mode = 0444 },			\
			.show = perf_event_sysfs_show,			\
		},							\
		.event_str = "event=" #n,				\
	}

static struct perf_pmu_events_attr events[] = {
	EMUL_COUNTER(1), EMUL_COUNTER(3), EMUL_COUNTER(6), EMUL_COUNTER(7),
};

static ssize_t cpumask_show(struct device *dev, struct device_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%*pbl\n", cpumask_pr_args(cpu_online_mask));
}
static DEVICE_ATTR_RO(cpumask);

static struct attribute *format_attrs[] = { &format_attr_event.attr, NULL };
static struct attribute *cpumask_attrs[] = { &dev_attr_cpumask.attr, NULL };
static struct attribute *event_attrs[] = {
	&events[0].attr.attr, &events[1].attr.attr, &events[2].attr.attr,
	&events[3].attr.attr, NULL,
};

static const struct attribute_group format_group = {
	.name = "format", .attrs = format_attrs,
};

static const struct attribute_group event_group = {
	.name = "events", .attrs = event_attrs,
};

static const struct attribute_group cpumask_group = { .attrs = cpumask_attrs };

static const struct attribute_group *counter_groups[] = {
	&format_group, &event_group, &cpumask_group, NULL,
};

static struct pmu pmu = {
	.module		= THIS_MODULE,
	.task_ctx_nr	= perf_invalid_context,
	.capabilities	= PERF_PMU_CAP_NO_INTERRUPT | PERF_PMU_CAP_NO_EXCLUDE,
	.attr_groups	= counter_groups,
	.event_init	= counter_init,
	.add		= counter_add,
	.del		= counter_del,
	.start		= counter_start,
	.stop		= counter_stop,
	.read		= counter_read,
};

static bool is_registered;

/**
 * emul_counters_register - show the residency counters
 *
 * Without them everything else works.
 */
void emul_counters_register(void)
{
	int ret = perf_pmu_register(&pmu, "cpuidle_emul", -1);

	is_registered = !ret;
	if (ret)
		pr_info("no residency counters (error %d)\n", ret);
}

/**
 * emul_counters_unregister - take the residency counters away
 */
void emul_counters_unregister(void)
{
	if (is_registered)
		perf_pmu_unregister(&pmu);
}
