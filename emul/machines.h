/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The machines that can be emulated: named tables of idle states, and the
 * parser of a table given by hand.
 */
#ifndef EMUL_MACHINES_H
#define EMUL_MACHINES_H

#include <linux/cpuidle.h>
#include <linux/types.h>

/* States beside the polling one, in a table that has it and in one without. */
#define EMUL_STATES_MAX		CPUIDLE_STATE_MAX

/*
 * Bounds of what may be given by hand. They keep every product in 64 bits;
 * with longer exit latencies the kernel would take its CPUs for dead.
 */
#define EMUL_LATENCY_MAX_US	100000
#define EMUL_RESIDENCY_MAX_US	10000000
#define EMUL_POWER_MAX_MW	100000

/**
 * struct emul_state - one idle state of an emulated machine
 * @name: name as shown in sysfs
 * @exit_latency_us: from the wake-up event until the CPU works again
 * @target_residency_us: shortest stay that pays for entering this state
 *	instead of the next shallower one
 * @power_mw: power of one CPU in this state; 0 stands for "half of the
 *	next shallower state's"
 */
struct emul_state {
	char	name[CPUIDLE_NAME_LEN];
	u32	exit_latency_us;
	u32	target_residency_us;
	u32	power_mw;
};

/**
 * struct emul_machine - an emulated machine
 * @name: value of the module parameter "machine"
 * @poll_name: name of its polling state, always state 0; NULL: it has none
 * @busy_mw: power of one CPU that runs, also that of the polling state
 * @count: number of states in @states
 * @states: the states other than the polling one, shallowest first
 */
struct emul_machine {
	const char		*name;
	const char		*poll_name;
	u32			busy_mw;
	int			count;
	struct emul_state	states[EMUL_STATES_MAX];
};

int emul_machine_find(const char *name, struct emul_machine *machine);
int emul_machine_parse(const char *text, bool polls,
		       struct emul_machine *machine);
int emul_machine_check(struct emul_machine *machine);

#endif
