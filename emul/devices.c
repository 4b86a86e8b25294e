// SPDX-License-Identifier: GPL-2.0
/*
 * The driver's devices: they come and go with their CPUs, and all at once with
 * another table, as those of acpi_idle do.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/debugfs.h>
#include <linux/irqflags.h>
#include <linux/mutex.h>
#include <linux/printk.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include "emul.h"

static enum cpuhp_state emul_hotplug;

/* Serialises changes of the table. */
static DEFINE_MUTEX(table_lock);

/* Changes while CPU hotplug is locked, or has no callback here. */
static bool has_driver;

static void account_this_cpu(int slot)
{
	local_irq_disable();
	emul_switch(this_cpu_ptr(emul_cpus), slot);
	local_irq_enable();
}

/* CPU hotplug is locked, as in all callbacks of it. */
static int add_device(unsigned int cpu)
{
	struct cpuidle_device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	int ret;

	if (!dev)
		return -ENOMEM;
	dev->cpu = cpu;
	ret = cpuidle_register_device(dev);
	if (ret)
		kfree(dev);
	else
		per_cpu_ptr(emul_cpus, cpu)->dev = dev;
	return ret;
}

static void remove_device(unsigned int cpu)
{
	struct emul_cpu *ecpu = per_cpu_ptr(emul_cpus, cpu);

	cpuidle_unregister_device(ecpu->dev);
	kfree(ecpu->dev);
	ecpu->dev = NULL;
}

static int emul_cpu_online(unsigned int cpu)
{
	int ret;

	account_this_cpu(EMUL_BUSY);
	ret = has_driver ? add_device(cpu) : 0;
	if (ret) {
		pr_err("no cpuidle device for CPU %u (error %d)\n", cpu, ret);
		account_this_cpu(EMUL_OFFLINE);
	}
	return ret;
}

/*
 * Runs before a CPU goes offline, and for every online CPU when the module
 * goes or fails to load. Afterwards this CPU does not execute code of this
 * module in its idle loop, and does not use its device or driver there.
 *
 * cpuidle alone does not ensure that. It waits for idle loops by
 * synchronize_rcu(), which a CPU that halts with RCU not watching does not hold
 * up. The way out of a halt can take a long exit latency. Hotplug callbacks of
 * online states ensure it: they run in a thread on the CPU concerned. The idle
 * task is never preempted, so when this function starts, the CPU's last pass
 * through its idle loop is complete. While the function blocks, cpuidle is
 * paused and the idle loop finds no driver. Once cpuidle goes on, it finds no
 * device on this CPU.
 *
 * Schedulers on other CPUs may still look at the idle state this CPU was in;
 * RCU does watch those, and cpuidle_unregister_device() waits for them.
 */
static int emul_cpu_offline(unsigned int cpu)
{
	remove_device(cpu);
	account_this_cpu(EMUL_OFFLINE);
	return 0;
}

static int register_driver(void)
{
	int ret = cpuidle_register_driver(&emul_driver);

	has_driver = !ret;
	if (ret)
		pr_err("cpuidle refuses the driver (error %d); is it switched off?\n",
		       ret);
	return ret;
}

static void unregister_driver(void)
{
	if (has_driver)
		cpuidle_unregister_driver(&emul_driver);
	has_driver = false;
}

/**
 * emul_devices_register - register the driver, and a device for each CPU
 *
 * Return: 0 or a negative error code after a log line; then nothing is
 * registered.
 */
int emul_devices_register(void)
{
	struct cpuidle_driver *active = cpuidle_get_driver();
	int ret;

	if (active) {
		pr_err("cpuidle driver %s is active; an emulated machine needs a kernel without one\n",
		       active->name);
		return -EBUSY;
	}
	ret = register_driver();
	if (ret)
		return ret;
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "cpuidle/emul:online",
				emul_cpu_online, emul_cpu_offline);
	if (ret < 0) {
		unregister_driver();
		return ret;
	}
	emul_hotplug = ret;
	return 0;
}

/**
 * emul_devices_unregister - undo emul_devices_register()
 */
void emul_devices_unregister(void)
{
	cpuhp_remove_state(emul_hotplug);
	unregister_driver();
}

static long do_nothing(void *unused)
{
	return 0;
}

/*
 * Let no CPU's idle loop use its device any more. When a work item has run on a
 * CPU, the pass through the idle loop that used the device there is complete,
 * as in emul_cpu_offline().
 */
static void disable_devices(void)
{
	unsigned int cpu;

	cpuidle_pause_and_lock();
	for_each_online_cpu(cpu) {
		work_on_cpu(cpu, do_nothing, NULL);
		cpuidle_disable_device(per_cpu_ptr(emul_cpus, cpu)->dev);
	}
	cpuidle_resume_and_unlock();
}

/*
 * As acpi_processor_power_state_has_changed() of Linux 7.2 goes about it: from
 * one CPU, and without a grace period before a device is freed. CPU hotplug is
 * locked.
 */
static int change_table(int count)
{
	unsigned int cpu;
	int ret;

	lockdep_assert_held(&table_lock);
	disable_devices();
	for_each_online_cpu(cpu)
		remove_device(cpu);
	unregister_driver();

	emul_driver.state_count = count;
	ret = register_driver();
	for_each_online_cpu(cpu)
		ret = ret ?: add_device(cpu);
	return ret;
}

static int table_get(void *unused, u64 *count)
{
	mutex_lock(&table_lock);
	*count = emul_driver.state_count;
	mutex_unlock(&table_lock);
	return 0;
}

static int table_set(void *unused, u64 count)
{
	int ret;

	if (!count || count > emul_state_count)
		return -EINVAL;
	mutex_lock(&table_lock);
	cpus_read_lock();
	ret = change_table(count);
	cpus_read_unlock();
	mutex_unlock(&table_lock);
	return ret;
}
DEFINE_DEBUGFS_ATTRIBUTE(table_fops, table_get, table_set, "%llu\n");

/**
 * emul_table_register - let the number of states change while they are in use
 * @folder: in debugfs, for the file
 */
void emul_table_register(struct dentry *folder)
{
	debugfs_create_file_unsafe("states", 0600, folder, NULL, &table_fops);
}
