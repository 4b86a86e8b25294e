// SPDX-License-Identifier: GPL-2.0
/* select goes on for ever. */
#include "tests/proofs/bpf/hostile/hostile.h"
#include "bpf/guard.h"

static void loops_select(void *state, const struct cil_machine *machine, const void *tunables,
		 struct cil_query *query, struct cil_decision *decision)
{
	volatile u64 *word = &((struct hostile *)state)->word;

	decision->index = 1;
	decision->stop_tick = false;
	decision->row = CIL_ROW_NONE;
	decision->reason = 0;
	while (*word || machine->state_count)
		*word += 1;
}

HOSTILE_POLICY(loops_policy);
#include "bpf/unguard.h"

CIL_BPF_POLICY("loops", struct hostile, hostile_init, loops_select, hostile_update, 0);
