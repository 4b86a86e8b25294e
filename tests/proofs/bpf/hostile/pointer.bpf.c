// SPDX-License-Identifier: GPL-2.0
/* select makes a pointer of a number, on the stack of the kernel's choice. */
#include "tests/proofs/bpf/hostile/hostile.h"
#include "bpf/guard.h"

static void pointer_select(void *state, const struct cil_machine *machine, const void *tunables,
		   struct cil_query *query, struct cil_decision *decision)
{
	volatile u64 word = query->now_ns;
	const struct cil_here CIL_ARENA *here = &cil_heres[0];

	decision->index = here->turns;
	asm volatile("%0 = *(u64 *)(%1 + 0)" : "=r"(word) : "r"(query->now_ns));
	decision->row = word;
}

HOSTILE_POLICY(pointer_policy);
#include "bpf/unguard.h"

CIL_BPF_POLICY("pointer", struct hostile, hostile_init, pointer_select, hostile_update, 0);
