// SPDX-License-Identifier: GPL-2.0
/*
 * Injects idle time on a CPU as powerclamp does, which needs an Intel processor:
 * 10 ms out of 200, too little to count as real-time work.
 */
#include <linux/cpumask.h>
#include <linux/idle_inject.h>
#include <linux/module.h>

#define RUN_US		190000
#define IDLE_US		10000

static unsigned int cpu = 3;
module_param(cpu, uint, 0444);
MODULE_PARM_DESC(cpu, "CPU on which idle time is injected (3)");

static struct cpumask where;
static struct idle_inject_device *device;

/* By name: kernels differ in how a module imports the namespace of these. */
static typeof(idle_inject_register) *do_register;
static typeof(idle_inject_set_duration) *set_duration;
static typeof(idle_inject_start) *start;
static typeof(idle_inject_stop) *stop;
static typeof(idle_inject_unregister) *unregister;

static int __init injects_init(void)
{
	do_register = symbol_get(idle_inject_register);
	set_duration = symbol_get(idle_inject_set_duration);
	start = symbol_get(idle_inject_start);
	stop = symbol_get(idle_inject_stop);
	unregister = symbol_get(idle_inject_unregister);
	if (!do_register || !set_duration || !start || !stop || !unregister)
		return -EOPNOTSUPP;
	cpumask_set_cpu(cpu, &where);
	device = do_register(&where);
	if (!device)
		return -EBUSY;
	set_duration(device, RUN_US, IDLE_US);
	return start(device);
}

/* The kernel itself exports the functions, so no reference to them is dropped. */
static void __exit injects_exit(void)
{
	stop(device);
	unregister(device);
}

module_init(injects_init);
module_exit(injects_exit);
MODULE_DESCRIPTION("User of idle injection, for a test");
MODULE_LICENSE("GPL");
