// SPDX-License-Identifier: GPL-2.0
/*
 * cpuidle_emul: registers a cpuidle driver with emulated idle states, for a
 * machine that has none.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpuidle.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/irqflags.h>
#include <linux/string.h>
#include "emul.h"
#include "machines.h"

static char *machine;
module_param(machine, charp, 0444);
MODULE_PARM_DESC(machine, "machine to emulate: skx (default), icx, spr, gnr, skl, power9");

static char *states;
module_param(states, charp, 0444);
MODULE_PARM_DESC(states, "idle states by hand, shallowest first: NAME:exit_latency_us:target_residency_us[:power_mw],... (none: the polling state alone)");

static char *real;
module_param(real, charp, 0444);
MODULE_PARM_DESC(real, "what the machine really does, where the table of the driver is wrong: as states");

static unsigned int busy_mw;
module_param(busy_mw, uint, 0444);
MODULE_PARM_DESC(busy_mw, "power of a CPU that runs or polls, in mW (default: the machine's)");

static bool thermal;
module_param(thermal, bool, 0444);
MODULE_PARM_DESC(thermal, "also emulate a thermal zone, for tests of cooling devices (default: no)");

/* The temperature of the zone, in thousandths of a degree; live changes only. */
static int set_temperature(const char *text, const struct kernel_param *kp)
{
	int mc;
	int ret = kstrtoint(text, 10, &mc);

	return ret ?: emul_thermal_set(mc);
}

static const struct kernel_param_ops temperature_ops = {
	.set = set_temperature,
};
module_param_cb(temperature_mc, &temperature_ops, NULL, 0200);
MODULE_PARM_DESC(temperature_mc, "temperature of the thermal zone, write only");

static char *poll = "told";
module_param(poll, charp, 0444);
MODULE_PARM_DESC(poll, "told (default): the driver reports that polling gave up; silent: it does not; none: no polling state");

static char *governor;
module_param(governor, charp, 0444);
MODULE_PARM_DESC(governor, "governor that the driver brings with it (default: none)");

struct emul_modes emul_modes;
module_param_named(reject, emul_modes.reject, uint, 0444);
MODULE_PARM_DESC(reject, "refuse one in so many requests for a state that halts (default: 0, never)");
module_param_named(demote, emul_modes.demote, uint, 0444);
MODULE_PARM_DESC(demote, "serve one in so many requests by the next shallower state (default: 0, never)");
module_param_named(secretly, emul_modes.secretly, bool, 0444);
MODULE_PARM_DESC(secretly, "the driver does not notice demote, as if the hardware demoted by itself (default: no)");

struct emul_cpu __percpu *emul_cpus;

/*
 * No owner. With one, every registered device would hold a reference to this
 * module, and it could never be unloaded. The function emul_cpu_offline() makes
 * the unload safe without a reference.
 */
struct cpuidle_driver emul_driver = {
	.name = KBUILD_MODNAME,
};

/* Exit latency of each state, as it really is. */
s64 emul_exit_latency_ns[CPUIDLE_STATE_MAX];

/* The driver's table, and the hidden figures; equal unless the parameter real is given. */
static struct emul_machine emulated, hidden;
static int emul_hotplug;

static const char *const poll_modes[] = { "told", "silent", "none" };

/* Returns the position in poll_modes, or -EINVAL after a log line. */
static int choose_polling(void)
{
	int mode = __sysfs_match_string(poll_modes, ARRAY_SIZE(poll_modes), poll);

	if (mode < 0)
		pr_err("poll must be told, silent or none\n");
	emul_modes.silent = mode == 1;
	return mode;
}

/* Choose what the machine really does: the names are those of the driver's table. */
static int choose_hidden(void)
{
	int ret, i;

	hidden = emulated;
	if (!real)
		return 0;
	ret = emul_machine_parse(real, emulated.poll_name, &hidden);
	if (ret)
		return ret;
	hidden.poll_name = emulated.poll_name;
	hidden.busy_mw = emulated.busy_mw;
	ret = emul_machine_check(&hidden);
	if (ret)
		return ret;
	for (i = 0; i < emulated.count; i++)
		if (hidden.count != emulated.count ||
		    strcmp(hidden.states[i].name, emulated.states[i].name)) {
			pr_err("real: the states are not those of the driver's table\n");
			return -EINVAL;
		}
	return 0;
}

/* Choose the emulated machine; afterwards the parameters show it. */
static int choose_machine(void)
{
	int mode = choose_polling();
	bool polls = mode != 2;
	int ret;

	if (mode < 0)
		return mode;

	if (machine && states) {
		pr_err("machine and states exclude each other\n");
		return -EINVAL;
	}
	ret = states ? emul_machine_parse(states, polls, &emulated) :
		       emul_machine_find(machine ?: "skx", &emulated);
	if (ret)
		return ret;
	if (!polls)
		emulated.poll_name = NULL;
	if (busy_mw)
		emulated.busy_mw = busy_mw;
	ret = emul_machine_check(&emulated);
	if (ret)
		return ret;
	ret = choose_hidden();
	if (ret)
		return ret;

	if (!machine)
		machine = (char *)emulated.name;
	busy_mw = emulated.busy_mw;
	return 0;
}

static void fill_polling_state(struct cpuidle_state *state)
{
	strscpy(state->name, emulated.poll_name, sizeof(state->name));
	strscpy(state->desc, "emulated polling", sizeof(state->desc));
	state->flags = CPUIDLE_FLAG_POLLING | CPUIDLE_FLAG_RCU_IDLE;
	state->power_usage = emulated.busy_mw;
	state->enter = emul_enter_poll;
}

/* Whether a core has several threads. */
static bool has_siblings(void)
{
	int cpu;

	for_each_online_cpu(cpu)
		if (cpumask_weight(topology_sibling_cpumask(cpu)) > 1)
			return true;
	return false;
}

static void fill_state(struct cpuidle_state *state,
		       const struct emul_state *model)
{
	strscpy(state->name, model->name, sizeof(state->name));
	snprintf(state->desc, sizeof(state->desc), "emulated %s state",
		 emulated.name);
	state->flags = CPUIDLE_FLAG_RCU_IDLE;
	state->exit_latency = model->exit_latency_us;
	state->target_residency = model->target_residency_us;
	state->power_usage = model->power_mw;
	state->enter = has_siblings() ? emul_enter_thread : emul_enter;
}

/* Compute the driver's states and the cost of each. */
static void fill_driver(void)
{
	struct emul_power before = { .mw = emulated.busy_mw };
	int n = 0;
	int i;

	emul_power[EMUL_BUSY] = before;
	if (emulated.poll_name) {
		fill_polling_state(&emul_driver.states[n]);
		emul_power[n++] = before;
	}
	for (i = 0; i < emulated.count; i++, n++) {
		const struct emul_state *model = &hidden.states[i];

		fill_state(&emul_driver.states[n], &emulated.states[i]);
		emul_exit_latency_ns[n] =
			(s64)model->exit_latency_us * NSEC_PER_USEC;
		emul_power[n].mw = model->power_mw;
		/* mW x us = nJ */
		emul_power[n].entry_nj = before.entry_nj +
			(u64)(before.mw - model->power_mw) *
			model->target_residency_us;
		before = emul_power[n];
	}
	emul_driver.state_count = n;
	emul_driver.governor = governor;
}

static int alloc_cpus(void)
{
	int cpu;

	emul_cpus = alloc_percpu(struct emul_cpu);
	if (!emul_cpus)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		struct emul_cpu *ecpu = per_cpu_ptr(emul_cpus, cpu);

		ecpu->dev.cpu = cpu;
		emul_timer_init(ecpu);
		emul_account_init(&ecpu->account);
	}
	return 0;
}

static void account_this_cpu(int slot)
{
	local_irq_disable();
	emul_account_switch(&this_cpu_ptr(emul_cpus)->account, slot);
	local_irq_enable();
}

static int emul_cpu_online(unsigned int cpu)
{
	int ret;

	account_this_cpu(EMUL_BUSY);
	ret = cpuidle_register_device(&per_cpu_ptr(emul_cpus, cpu)->dev);
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
	cpuidle_unregister_device(&per_cpu_ptr(emul_cpus, cpu)->dev);
	account_this_cpu(EMUL_OFFLINE);
	return 0;
}

static int register_driver(void)
{
	struct cpuidle_driver *active = cpuidle_get_driver();
	int ret;

	if (active) {
		pr_err("cpuidle driver %s is active; an emulated machine needs a kernel without one\n",
		       active->name);
		return -EBUSY;
	}
	ret = cpuidle_register_driver(&emul_driver);
	if (ret) {
		pr_err("cpuidle refuses the driver (error %d); is it switched off?\n",
		       ret);
		return ret;
	}
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "cpuidle/emul:online",
				emul_cpu_online, emul_cpu_offline);
	if (ret < 0) {
		cpuidle_unregister_driver(&emul_driver);
		return ret;
	}
	emul_hotplug = ret;
	return 0;
}

static void unregister_driver(void)
{
	cpuhp_remove_state(emul_hotplug);
	cpuidle_unregister_driver(&emul_driver);
}

static int __init emul_init(void)
{
	int ret;

	if (hrtimer_resolution != 1) {
		pr_err("the kernel does not use high-resolution timers\n");
		return -ENODEV;
	}
	ret = choose_machine();
	if (ret)
		return ret;
	fill_driver();

	ret = alloc_cpus();
	if (ret)
		return ret;
	ret = register_driver();
	if (ret)
		goto err_free;
	ret = emul_zone_register();
	if (ret) {
		pr_err("powercap refuses the zone (error %d)\n", ret);
		goto err_unregister;
	}
	if (thermal) {
		ret = emul_thermal_register();
		if (ret) {
			pr_err("the kernel refuses the thermal zone (error %d)\n", ret);
			goto err_zone;
		}
	}
	emul_counters_register();
	emul_debugfs_register();
	pr_info("emulating %s: %d idle states, %u mW when busy\n",
		emulated.name, emul_driver.state_count, emulated.busy_mw);
	return 0;

err_zone:
	emul_zone_unregister();
err_unregister:
	unregister_driver();
err_free:
	free_percpu(emul_cpus);
	return ret;
}
module_init(emul_init);

static void __exit emul_exit(void)
{
	emul_debugfs_unregister();
	emul_counters_unregister();
	emul_thermal_unregister();
	emul_zone_unregister();
	unregister_driver();
	free_percpu(emul_cpus);
}
module_exit(emul_exit);

MODULE_DESCRIPTION("Emulated machine with idle states");
MODULE_AUTHOR("The cpuidle-lab authors");
MODULE_VERSION(CIL_VERSION);
MODULE_LICENSE("GPL");
