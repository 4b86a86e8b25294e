// SPDX-License-Identifier: GPL-2.0
/* select calls a kfunc of the kernel. */
#include "tests/proofs/bpf/hostile/hostile.h"

extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

#include "bpf/guard.h"

static void kernel_select(void *state, const struct cil_machine *machine, const void *tunables,
		  struct cil_query *query, struct cil_decision *decision)
{
	bpf_rcu_read_lock();
	bpf_rcu_read_unlock();
	decision->index = 0;
	decision->stop_tick = false;
	decision->row = CIL_ROW_NONE;
	decision->reason = 0;
}

HOSTILE_POLICY(kernel_policy);
#include "bpf/unguard.h"

CIL_BPF_POLICY("kernel", struct hostile, hostile_init, kernel_select, hostile_update, 0);
