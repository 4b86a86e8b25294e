// SPDX-License-Identifier: GPL-2.0
/* select reads and writes far outside of its state, divides by zero, answers nonsense. */
#include "tests/proofs/bpf/hostile/hostile.h"
#include "bpf/guard.h"

static void astray_select(void *state, const struct cil_machine *machine, const void *tunables,
		  struct cil_query *query, struct cil_decision *decision)
{
	volatile u32 *word = state;
	u32 far = machine->state_count * 4000000u;

	word[far] = 7;
	query->asked += word[far + 1] / (machine->state_count & 0x80000000u);
	decision->index = 200;
	decision->stop_tick = true;
	decision->row = CIL_ROW_NONE;
	decision->reason = machine->states[far].target_residency_ns;
}

HOSTILE_POLICY(astray_policy);
#include "bpf/unguard.h"

CIL_BPF_POLICY("astray", struct hostile, hostile_init, astray_select, hostile_update, 0);
