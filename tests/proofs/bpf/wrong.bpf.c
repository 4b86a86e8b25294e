// SPDX-License-Identifier: GPL-2.0
/* teo_ng with a fault, which the proof must find: it stops the tick once in 64 decisions more. */
#include "bpf/cil_bpf.h"
#include "bpf/guard.h"
#include "governors/teo_ng/teo_ng.c"

static void wrong_select(void *state, const struct cil_machine *machine, const void *tunables,
			 struct cil_query *query, struct cil_decision *decision)
{
	teo_ng_policy_select(state, machine, tunables, query, decision);
	if (query->now_ns % 64 == 0)
		decision->stop_tick = true;
}

#include "bpf/unguard.h"

CIL_BPF_POLICY("teo_ng", struct teo_ng, teo_ng_policy_init, wrong_select, teo_ng_policy_update, 0);
