// SPDX-License-Identifier: GPL-2.0
/**
 * DOC: the emulated thermal zone
 *
 * A zone whose temperature is written to a file, for tests of cooling devices.
 * The zone binds the cooling device "cpuidle_lab". Above 60 degrees Celsius the
 * thermal framework raises the state of that device, by one each time that the
 * temperature rises. Below, the framework lowers the state again.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <linux/thermal.h>
#include "compat.h"
#include "emul.h"

#if EMUL_HAS_THERMAL

#define COOL_MC		40000
#define PASSIVE_MC	60000
#define PASSIVE_MS	100

/* Held while the zone comes or goes, and while its temperature is written. */
static DEFINE_MUTEX(thermal_lock);
static struct thermal_zone_device *thermal_zone;
static int temperature_mc = COOL_MC;

static int zone_temperature(struct thermal_zone_device *tz, int *mc)
{
	*mc = READ_ONCE(temperature_mc);
	return 0;
}

static bool zone_binds(struct thermal_zone_device *tz,
		       const struct thermal_trip *trip,
		       struct thermal_cooling_device *cooler,
		       struct cooling_spec *spec)
{
	return !strcmp(cooler->type, "cpuidle_lab");
}

static const struct thermal_zone_device_ops thermal_ops = {
	.should_bind = zone_binds,
	.get_temp = zone_temperature,
};

static const struct thermal_trip zone_trip = {
	.temperature = PASSIVE_MC,
	.hysteresis = 1000,
	.type = THERMAL_TRIP_PASSIVE,
};

/**
 * emul_thermal_register - register the zone
 *
 * Return: 0 or the error of the thermal framework.
 */
int emul_thermal_register(void)
{
	struct thermal_zone_device *zone;
	int ret;

	zone = thermal_zone_device_register_with_trips("cpuidle-emul",
						       &zone_trip, 1, NULL,
						       &thermal_ops, NULL,
						       PASSIVE_MS, 0);
	if (IS_ERR(zone))
		return PTR_ERR(zone);
	ret = thermal_zone_device_enable(zone);
	if (ret) {
		thermal_zone_device_unregister(zone);
		return ret;
	}
	mutex_lock(&thermal_lock);
	thermal_zone = zone;
	mutex_unlock(&thermal_lock);
	return 0;
}

/**
 * emul_thermal_unregister - take the zone away, if there is one
 */
void emul_thermal_unregister(void)
{
	struct thermal_zone_device *zone;

	mutex_lock(&thermal_lock);
	zone = thermal_zone;
	thermal_zone = NULL;
	mutex_unlock(&thermal_lock);
	if (zone)
		thermal_zone_device_unregister(zone);
}

/**
 * emul_thermal_set - change the temperature
 * @mc: in thousandths of a degree Celsius
 *
 * Return: 0, or -ENODEV without a zone.
 */
int emul_thermal_set(int mc)
{
	int ret = -ENODEV;

	mutex_lock(&thermal_lock);
	if (thermal_zone) {
		WRITE_ONCE(temperature_mc, mc);
		thermal_zone_device_update(thermal_zone, THERMAL_EVENT_UNSPECIFIED);
		ret = 0;
	}
	mutex_unlock(&thermal_lock);
	return ret;
}

#else

int emul_thermal_register(void)
{
	return -EOPNOTSUPP;
}

void emul_thermal_unregister(void)
{
}

int emul_thermal_set(int mc)
{
	return -ENODEV;
}

#endif
