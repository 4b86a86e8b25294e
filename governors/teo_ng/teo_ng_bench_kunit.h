/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One CPU under teo_ng, for its test cases.
 */
#ifndef CIL_TEO_NG_BENCH_KUNIT_H
#define CIL_TEO_NG_BENCH_KUNIT_H

#include "../../kunit/include/cil_test_env.h"
#include "teo_ng.h"

#define US	CIL_NSEC_PER_USEC
#define MS	CIL_NSEC_PER_MSEC
#define TICK	(4 * MS)

/* POLL, C1, C1E, C6 as on Skylake-SP. */
static const struct cil_machine skx = {
	.tick_ns = TICK,
	.state_count = 4,
	.states = {
		{ .polling = true },
		{ .exit_latency_ns = 2 * US, .target_residency_ns = 2 * US },
		{ .exit_latency_ns = 10 * US, .target_residency_ns = 20 * US },
		{ .exit_latency_ns = 133 * US, .target_residency_ns = 600 * US },
	},
};

/**
 * a_query() - a query that nothing limits
 * @sleep_length_ns: time to the timer; the tick comes within a period
 */
static inline struct cil_query a_query(s64 sleep_length_ns)
{
	/* Marked as asked, so that the environment is not needed. */
	return (struct cil_query){
		.latency_req_ns = 2000000000LL * US,
		.asked = true,
		.sleep_length_ns = sleep_length_ns,
		.delta_tick_ns = sleep_length_ns < TICK ? sleep_length_ns : TICK,
	};
}

/**
 * decide_on() - let TEO decide
 * @machine: the idle states
 * @teo: what is remembered
 * @query: what is known
 */
static inline struct cil_decision
decide_on(const struct cil_machine *machine, struct teo_ng *teo,
	  struct cil_query query)
{
	struct cil_decision decision;

	/* Rubbish on purpose: every member must be set. */
	memset(&decision, 0x55, sizeof(decision));
	teo_ng_select(teo, machine, &query, &decision);
	return decision;
}

/**
 * decide() - let TEO decide on Skylake-SP
 * @teo: what is remembered
 * @query: what is known
 */
static inline struct cil_decision decide(struct teo_ng *teo,
					 struct cil_query query)
{
	return decide_on(&skx, teo, query);
}

#endif /* CIL_TEO_NG_BENCH_KUNIT_H */
