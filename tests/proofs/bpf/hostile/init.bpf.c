// SPDX-License-Identifier: GPL-2.0
/* init goes on for as long as the kernel lets it; the rest is good. */
#include "tests/proofs/bpf/hostile/hostile.h"

static void init_init(void *state, const struct cil_machine *machine, const void *tunables)
{
	volatile u64 *word = &((struct hostile *)state)->word;

	while (!cil_may_not_go)
		*word += 1;
}

static void init_select(void *state, const struct cil_machine *machine, const void *tunables,
			struct cil_query *query, struct cil_decision *decision)
{
	decision->index = 0;
	decision->stop_tick = false;
	decision->row = CIL_ROW_NONE;
	decision->reason = 0;
}

HOSTILE_POLICY(init_policy);

CIL_BPF_POLICY("init", struct hostile, init_init, init_select, hostile_update, 0);
