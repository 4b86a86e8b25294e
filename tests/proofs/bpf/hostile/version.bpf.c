// SPDX-License-Identifier: GPL-2.0
/* A good program of another version of the interface. */
#include "tests/proofs/bpf/hostile/hostile.h"
#include "bpf/guard.h"

static void version_select(void *state, const struct cil_machine *machine, const void *tunables,
		   struct cil_query *query, struct cil_decision *decision)
{
	decision->index = 0;
	decision->stop_tick = false;
	decision->row = CIL_ROW_NONE;
	decision->reason = 0;
}

HOSTILE_POLICY(version_policy);
#include "bpf/unguard.h"

#undef CIL_BPF_ABI
#define CIL_BPF_ABI 99

CIL_BPF_POLICY("version", struct hostile, hostile_init, version_select, hostile_update, 0);
