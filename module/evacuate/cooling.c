// SPDX-License-Identifier: GPL-2.0
/*
 * A cooling device of the kernel's thermal framework: its state is the number
 * of CPUs that shall be idle.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/thermal.h>

#include "evacuate/cooling.h"
#include "evacuate/wishes.h"

static struct thermal_cooling_device *cooling_device;

/* One CPU always stays. */
static int cooling_get_max_state(struct thermal_cooling_device *cooler,
				 unsigned long *state)
{
	*state = num_present_cpus() - 1;
	return 0;
}

static int cooling_get_cur_state(struct thermal_cooling_device *cooler,
				 unsigned long *state)
{
	*state = cil_wishes_cooling();
	return 0;
}

static int cooling_set_cur_state(struct thermal_cooling_device *cooler,
				 unsigned long state)
{
	if (state >= num_present_cpus())
		return -EINVAL;
	cil_wishes_set_cooling(state);
	return 0;
}

static const struct thermal_cooling_device_ops cooling_ops = {
	.get_max_state = cooling_get_max_state,
	.get_cur_state = cooling_get_cur_state,
	.set_cur_state = cooling_set_cur_state,
};

/**
 * cil_cooling_init() - register the device, or say that there is none
 *
 * Context: process, may sleep; evacuation works without it.
 */
void cil_cooling_init(void)
{
	cooling_device = thermal_cooling_device_register(KBUILD_MODNAME, NULL,
							 &cooling_ops);
	if (IS_ERR(cooling_device)) {
		pr_info("no thermal cooling device (error %ld)\n",
			PTR_ERR(cooling_device));
		cooling_device = NULL;
	}
}

/**
 * cil_cooling_exit() - take the device back
 *
 * Context: process, may sleep.
 */
void cil_cooling_exit(void)
{
	if (cooling_device)
		thermal_cooling_device_unregister(cooling_device);
	cooling_device = NULL;
}
