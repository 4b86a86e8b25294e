/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the hostile programs: they learn nothing. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include "bpf/cil_bpf.h"

struct hostile {
	u64 word;
};

/* The tools look for the table of tunables here. */
#define HOSTILE_POLICY(policy) \
	const struct cil_policy policy = { .name = "hostile", .state_size = 8 }

static void hostile_init(void *state, const struct cil_machine *machine, const void *tunables)
{
	((struct hostile *)state)->word = 1;
}

static void hostile_update(void *state, const struct cil_machine *machine, const void *tunables,
			   const struct cil_outcome *outcome)
{
	((struct hostile *)state)->word++;
}

#endif /* HOSTILE_H */
