// SPDX-License-Identifier: GPL-2.0
/* All calls ask what schedulers may ask; the answers must be the same for ever. */
#include "tests/proofs/bpf/hostile/hostile.h"

extern __s64 cpuidle_lab_exit_latency(__s32 cpu) __ksym;
extern __s64 cpuidle_lab_idle_end(__s32 cpu) __ksym;
extern __s64 cpuidle_lab_latency_limit(__s32 pid) __ksym;

#include "bpf/guard.h"

static bool is_told(void)
{
	return cpuidle_lab_exit_latency(0) != -1 || cpuidle_lab_idle_end(0) != -1 ||
	       cpuidle_lab_latency_limit(1) != -1;
}

static void scheduler_init(void *state, const struct cil_machine *machine, const void *tunables)
{
	((struct hostile *)state)->word = is_told();
}

/* Too long, which ends it, if there ever was an answer. */
static void scheduler_select(void *state, const struct cil_machine *machine, const void *tunables,
		  struct cil_query *query, struct cil_decision *decision)
{
	volatile u64 *word = &((struct hostile *)state)->word;

	decision->index = 1;
	decision->stop_tick = false;
	decision->row = CIL_ROW_NONE;
	decision->reason = 0;
	*word += is_told();
	while (*word)
		*word += 1;
}

static void scheduler_update(void *state, const struct cil_machine *machine, const void *tunables,
		  const struct cil_outcome *outcome)
{
	((struct hostile *)state)->word += is_told();
}

HOSTILE_POLICY(scheduler_policy);
#include "bpf/unguard.h"

CIL_BPF_POLICY("scheduler", struct hostile, scheduler_init, scheduler_select, scheduler_update, 0);
