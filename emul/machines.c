// SPDX-License-Identifier: GPL-2.0
/*
 * The machines that can be emulated.
 *
 * Exit latencies and target residencies are those that the kernel's own
 * drivers and the firmware of these machines state. Every power figure is
 * illustrative: of a plausible size and order, measured on nothing.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/ctype.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/printk.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "machines.h"

#define EMUL_HAND_BUSY_MW	4000

static const struct emul_machine machines[] = {
	{
		.name = "skx", .poll_name = "POLL", .busy_mw = 4000, .count = 3,
		.states = {
			{ "C1",		2,	2,	1400 },
			{ "C1E",	10,	20,	900 },
			{ "C6",		133,	600,	100 },
		},
	}, {
		.name = "icx", .poll_name = "POLL", .busy_mw = 4000, .count = 3,
		.states = {
			{ "C1",		1,	1,	1400 },
			{ "C1E",	4,	4,	900 },
			{ "C6",		170,	600,	100 },
		},
	}, {
		.name = "spr", .poll_name = "POLL", .busy_mw = 4000, .count = 3,
		.states = {
			{ "C1",		1,	1,	1400 },
			{ "C1E",	2,	4,	900 },
			{ "C6",		290,	800,	100 },
		},
	}, {
		.name = "gnr", .poll_name = "POLL", .busy_mw = 4000, .count = 4,
		.states = {
			{ "C1",		1,	1,	1400 },
			{ "C1E",	4,	4,	900 },
			{ "C6",		170,	650,	120 },
			{ "C6P",	210,	1000,	80 },
		},
	}, {
		.name = "skl", .poll_name = "POLL", .busy_mw = 3500, .count = 8,
		.states = {
			{ "C1",		2,	2,	1200 },
			{ "C1E",	10,	20,	800 },
			{ "C3",		70,	100,	500 },
			{ "C6",		85,	200,	250 },
			{ "C7s",	124,	800,	150 },
			{ "C8",		200,	800,	100 },
			{ "C9",		480,	5000,	50 },
			{ "C10",	890,	5000,	20 },
		},
	}, {
		.name = "power9", .poll_name = "snooze", .busy_mw = 5000,
		.count = 8,
		.states = {
			{ "stop0_lite",	1,	10,	3000 },
			{ "stop0",	2,	20,	2500 },
			{ "stop1",	5,	50,	2000 },
			{ "stop2",	10,	100,	1500 },
			{ "stop4",	100,	1000,	800 },
			{ "stop5",	200,	2000,	600 },
			{ "stop8",	2000,	20000,	300 },
			{ "stop11",	10000,	100000,	100 },
		},
	},
};

/**
 * emul_machine_find - look up a machine by its name
 * @name: name as in the module parameter
 * @machine: filled with a copy of the table
 *
 * Return: 0, or -EINVAL after a log line that lists the known names.
 */
int emul_machine_find(const char *name, struct emul_machine *machine)
{
	char known[64] = "";
	int i;

	for (i = 0; i < ARRAY_SIZE(machines); i++) {
		if (sysfs_streq(name, machines[i].name)) {
			*machine = machines[i];
			return 0;
		}
		strlcat(known, " ", sizeof(known));
		strlcat(known, machines[i].name, sizeof(known));
	}
	pr_err("machine '%s' is unknown; known:%s\n", name, known);
	return -EINVAL;
}

static bool name_ok(const char *name)
{
	size_t len = strlen(name);

	if (!len || len >= CPUIDLE_NAME_LEN)
		return false;
	for (; *name; name++)
		if (!isalnum(*name) && !strchr("_.-", *name))
			return false;
	return true;
}

/* Parse one NAME:exit:target[:power], taking @text apart. */
static int parse_state(char *text, struct emul_state *state)
{
	u32 *fields[] = {
		&state->exit_latency_us,
		&state->target_residency_us,
		&state->power_mw,
	};
	char *name = strsep(&text, ":");
	int i;

	if (!name_ok(name))
		return -EINVAL;
	strscpy(state->name, name, sizeof(state->name));

	for (i = 0; text && i < ARRAY_SIZE(fields); i++)
		if (kstrtou32(strsep(&text, ":"), 10, fields[i]))
			return -EINVAL;

	/* A power given as 0 must not pass for one that is not given. */
	if (text || i < 2 || (i == 3 && !state->power_mw))
		return -EINVAL;
	return 0;
}

/* Parse the whole list, taking @text apart. */
static int parse_states(char *text, struct emul_machine *machine)
{
	const int most = EMUL_STATES_MAX - !!machine->poll_name;
	char shown[48];
	char *part;

	/* A machine whose only state polls. */
	if (!strcmp(text, "none"))
		return 0;
	while ((part = strsep(&text, ","))) {
		if (machine->count == most) {
			pr_err("states: more than %d states%s\n", most,
			       machine->poll_name ? " beside POLL" : "");
			return -EINVAL;
		}
		strscpy(shown, part, sizeof(shown));
		if (parse_state(part, &machine->states[machine->count])) {
			pr_err("states: '%s' is not NAME:exit_latency_us:target_residency_us[:power_mw]\n",
			       shown);
			return -EINVAL;
		}
		machine->count++;
	}
	return 0;
}

/**
 * emul_machine_parse - read a table of idle states given by hand
 * @text: comma-separated NAME:exit_latency_us:target_residency_us[:power_mw],
 *	or "none"
 * @polls: the machine has a polling state beside these
 * @machine: filled with the table
 *
 * Return: 0; -ENOMEM; -EINVAL after a log line that shows the faulty part.
 */
int emul_machine_parse(const char *text, bool polls,
		       struct emul_machine *machine)
{
	char *copy = kstrdup(text, GFP_KERNEL);
	int ret;

	if (!copy)
		return -ENOMEM;
	*machine = (struct emul_machine) {
		.name = "custom",
		.poll_name = polls ? "POLL" : NULL,
		.busy_mw = EMUL_HAND_BUSY_MW,
	};
	ret = parse_states(strim(copy), machine);
	kfree(copy);
	return ret;
}

/* Return the fault of @state after its shallower neighbour, NULL if none. */
static const char *state_fault(const struct emul_machine *machine, int index)
{
	static const struct emul_state polling;
	const struct emul_state *state = &machine->states[index];
	const struct emul_state *before = index ? state - 1 : &polling;
	u32 power_before = index ? before->power_mw : machine->busy_mw;
	int i;

	if (!state->exit_latency_us ||
	    state->exit_latency_us > EMUL_LATENCY_MAX_US)
		return "exit latency must be 1 to 100000 us";
	if (state->target_residency_us > EMUL_RESIDENCY_MAX_US)
		return "target residency above 10000000 us";
	if (state->target_residency_us < state->exit_latency_us)
		return "target residency below exit latency";
	if (state->exit_latency_us < before->exit_latency_us ||
	    state->target_residency_us < before->target_residency_us)
		return "times below those of the state before it";
	if (state->power_mw > power_before)
		return "power above that of the state before it (busy_mw for the first)";
	for (i = 0; i < index; i++)
		if (!strcmp(state->name, machine->states[i].name))
			return "name occurs twice";
	if (machine->poll_name && !strcmp(state->name, machine->poll_name))
		return "name is that of the polling state";
	return NULL;
}

/**
 * emul_machine_check - fill in powers not given and check a table
 * @machine: the table, with its busy power settled
 *
 * Return: 0, or -EINVAL after a log line that names the fault.
 */
int emul_machine_check(struct emul_machine *machine)
{
	u32 power = machine->busy_mw;
	int i;

	if (!power || power > EMUL_POWER_MAX_MW) {
		pr_err("busy_mw must be 1 to %d\n", EMUL_POWER_MAX_MW);
		return -EINVAL;
	}
	if (!machine->count && !machine->poll_name) {
		pr_err("states=none and poll=none leave no idle state\n");
		return -EINVAL;
	}
	for (i = 0; i < machine->count; i++) {
		struct emul_state *state = &machine->states[i];
		const char *fault;

		if (!state->power_mw)
			state->power_mw = max(power / 2, 1u);
		power = state->power_mw;

		fault = state_fault(machine, i);
		if (fault) {
			pr_err("state %s: %s\n", state->name, fault);
			return -EINVAL;
		}
	}
	return 0;
}
