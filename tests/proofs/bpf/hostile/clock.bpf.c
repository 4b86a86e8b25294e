// SPDX-License-Identifier: GPL-2.0
/* select calls a helper that is not allowed. */
#include "tests/proofs/bpf/hostile/hostile.h"
#include "bpf/guard.h"

static void clock_select(void *state, const struct cil_machine *machine, const void *tunables,
		 struct cil_query *query, struct cil_decision *decision)
{
	decision->index = bpf_ktime_get_ns() & 1;
	decision->stop_tick = false;
	decision->row = CIL_ROW_NONE;
	decision->reason = 0;
}

HOSTILE_POLICY(clock_policy);
#include "bpf/unguard.h"

CIL_BPF_POLICY("clock", struct hostile, hostile_init, clock_select, hostile_update, 0);
