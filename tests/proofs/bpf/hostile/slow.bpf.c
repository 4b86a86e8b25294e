// SPDX-License-Identifier: GPL-2.0
/* select goes on for as long as the kernel lets it, and does not count its turns. */
#include "tests/proofs/bpf/hostile/hostile.h"

static void slow_select(void *state, const struct cil_machine *machine, const void *tunables,
			struct cil_query *query, struct cil_decision *decision)
{
	volatile u64 *word = &((struct hostile *)state)->word;

	decision->index = 0;
	decision->stop_tick = false;
	decision->row = CIL_ROW_NONE;
	decision->reason = 0;
	while (!cil_may_not_go)
		*word += 1;
}

HOSTILE_POLICY(slow_policy);

CIL_BPF_POLICY("slow", struct hostile, hostile_init, slow_select, hostile_update, 0);
