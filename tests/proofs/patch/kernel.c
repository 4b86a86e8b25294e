// SPDX-License-Identifier: GPL-2.0
/*
 * The decisions of the kernel's form, for the periods of play.h, at boot. It is built into a kernel
 * beside wteo.c, and includes that once more, unchanged.
 */
#include <linux/init.h>
#include <linux/module.h>
#include <linux/printk.h>

/* One governor of the name is enough, and one run of its tests. */
#undef postcore_initcall
#define postcore_initcall(function)	static void *not_called __maybe_unused = &wteo_governor
#undef CONFIG_CPU_IDLE_GOV_WTEO_KUNIT_TEST
#pragma GCC diagnostic ignored "-Wunused-function"
#include "wteo.c"

#define QUERY		struct wteo_query
#define OUTCOME		struct wteo_outcome
#define DECISION	struct wteo_decision

static struct cpuidle_driver machine;
static struct wteo memory __aligned(64);

static void proof_state(u32 k, u32 latency_us, u32 residency_us, bool polling)
{
	machine.states[k].exit_latency_ns = latency_us * 1000LL;
	machine.states[k].target_residency_ns = residency_us * 1000LL;
	machine.states[k].flags = polling ? CPUIDLE_FLAG_POLLING : 0;
}

static void proof_begin(u32 states)
{
	machine.state_count = states;
	wteo_init(&memory, &machine);
}

static void proof_decide(QUERY *query, DECISION *decision)
{
	wteo_decide(&memory, &machine, query, decision);
}

static void proof_update(const OUTCOME *outcome)
{
	wteo_update(&memory, &machine, outcome);
}

static void proof_say(u32 table, u32 block, u64 hash)
{
	pr_info("wteo_proof: %u %u %016llx\n", table, block, hash);
}

#include "play.h"

static int __init wteo_proof_init(void)
{
	proof_play();
	return 0;
}

late_initcall(wteo_proof_init);
