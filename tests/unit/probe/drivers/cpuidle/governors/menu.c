// SPDX-License-Identifier: GPL-2.0
/* A governor of a kernel tree that decides as it is told, and notes the answers. */
#include <linux/cpuidle.h>
#include <linux/tick.h>

#define PROBE_MAX	64

/* Number of decisions that keep the tick from now on, and the state chosen. */
int probe_keep;
int probe_index;

/*
 * Inputs of each decision: sleep length, with the tick, the tick stopped, and
 * the length of the last idle period.
 */
int probe_count;
long long probe_told[PROBE_MAX][4];

static int probe_select(struct cpuidle_driver *drv, struct cpuidle_device *dev,
			bool *stop_tick)
{
	ktime_t delta;
	ktime_t sleep = tick_nohz_get_sleep_length(&delta);

	if (probe_count < PROBE_MAX) {
		probe_told[probe_count][0] = sleep;
		probe_told[probe_count][1] = delta;
		probe_told[probe_count][2] = tick_nohz_tick_stopped();
		probe_told[probe_count][3] = dev->last_residency_ns;
		probe_count++;
	}
	if (probe_keep > 0) {
		probe_keep--;
		*stop_tick = false;
	}
	return probe_index;
}

static void probe_reflect(struct cpuidle_device *dev, int index)
{
}

static struct cpuidle_governor probe = {
	.name = "menu",
	.select = probe_select,
	.reflect = probe_reflect,
};

static int __init probe_init(void)
{
	return cpuidle_register_governor(&probe);
}

postcore_initcall(probe_init);
