// SPDX-License-Identifier: GPL-2.0
/*
 * The decisions of the project's form, for the periods of play.h.
 */
#include <stdio.h>
#include <string.h>
#include "wteo/wteo.h"

#define QUERY		struct cil_query
#define OUTCOME		struct cil_outcome
#define DECISION	struct cil_decision

extern const struct cil_policy wteo_policy;

static struct cil_machine machine;
static struct wteo memory __attribute__((aligned(64)));
static u32 tunables[CIL_TUNABLE_MAX];

struct cil_sink;

void cil_env_sleep_length(struct cil_query *query)
{
	(void)query;
}

void cil_env_print(struct cil_sink *sink, const char *format, ...)
{
	(void)sink;
	(void)format;
}

static void proof_state(u32 k, u32 latency_us, u32 residency_us, bool polling)
{
	machine.states[k].exit_latency_ns = latency_us * 1000LL;
	machine.states[k].target_residency_ns = residency_us * 1000LL;
	machine.states[k].polling = polling;
}

static void proof_begin(u32 states)
{
	machine.state_count = states;
	wteo_policy.init(&memory, &machine, tunables);
}

static void proof_decide(QUERY *query, DECISION *decision)
{
	wteo_policy.select(&memory, &machine, tunables, query, decision);
}

static void proof_update(const OUTCOME *outcome)
{
	wteo_policy.update(&memory, &machine, tunables, outcome);
}

static void proof_say(u32 table, u32 block, u64 hash)
{
	printf("wteo_proof: %u %u %016llx\n", table, block, (unsigned long long)hash);
}

#include "play.h"

int main(void)
{
	u32 k;

	for (k = 0; k < wteo_policy.tunable_count; k++)
		tunables[k] = wteo_policy.tunables[k].def;
	machine.tick_ns = TICK;
	proof_play();
	return 0;
}
