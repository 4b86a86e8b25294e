// SPDX-License-Identifier: GPL-2.0
/*
 * cpuidle_emul: registers a cpuidle driver with emulated idle states, for a
 * machine that has none.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/cpuidle.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/irqflags.h>
#include <linux/string.h>
#include "domains.h"
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

static char *domains;
module_param(domains, charp, 0444);
MODULE_PARM_DESC(domains, "domains that sleep if all of their CPUs do, with + between them: NAME@CPUS:power_mw[:hardware|demotes|kernel]/STATE:entry_us:exit_us:target_us:power_mw:NEED/... (default: none)");

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

/* Number of states of the machine; the driver may offer fewer of them. */
int emul_state_count;

/* Exit latency of each state, as it really is. */
s64 emul_exit_latency_ns[CPUIDLE_STATE_MAX];

/* The driver's table, and the hidden figures; equal unless the parameter real is given. */
static struct emul_machine emulated, hidden;

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

/* A core has several threads. */
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
	emul_state_count = n;
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

		emul_timer_init(ecpu);
		emul_account_init(&ecpu->account);
	}
	return 0;
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
	ret = emul_tree_grow(domains);
	if (ret)
		goto err_free;
	ret = emul_devices_register();
	if (ret)
		goto err_tree;
	ret = emul_zones_register();
	if (ret) {
		pr_err("powercap refuses the zones (error %d)\n", ret);
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
	emul_zones_unregister();
err_unregister:
	emul_devices_unregister();
err_tree:
	emul_tree_free();
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
	emul_zones_unregister();
	emul_devices_unregister();
	emul_tree_free();
	free_percpu(emul_cpus);
}
module_exit(emul_exit);

MODULE_DESCRIPTION("Emulated machine with idle states");
MODULE_AUTHOR("The cpuidle-lab authors");
MODULE_VERSION(CIL_VERSION);
MODULE_LICENSE("GPL");
