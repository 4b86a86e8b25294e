// SPDX-License-Identifier: GPL-2.0
/* select calls a kfunc of another module, beside one of ours. */
#include "tests/proofs/bpf/hostile/hostile.h"

extern s64 cil_foreign_number(void) __ksym;

#include "bpf/guard.h"

static void foreign_select(void *state, const struct cil_machine *machine, const void *tunables,
			   struct cil_query *query, struct cil_decision *decision)
{
	cil_env_sleep_length(query);
	decision->index = cil_foreign_number() & 1;
	decision->stop_tick = false;
	decision->row = CIL_ROW_NONE;
	decision->reason = 0;
}

HOSTILE_POLICY(foreign_policy);
#include "bpf/unguard.h"

CIL_BPF_POLICY("foreign", struct hostile, hostile_init, foreign_select, hostile_update, 0);
