// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of the gate's two ways to keep a hint, and of the time for which a
 * task lingers:
 *
 * - a base with the policy interface gets the smaller limit;
 * - the answer of another is corrected, down to the deepest enabled state
 *   within the hint, or one state deeper where all tasks can wait;
 * - PM QoS and disabled states stand above hints;
 * - the tick is kept for a state that pays within it.
 */
#include <kunit/test.h>

#include "gate.h"

#define US	CIL_NSEC_PER_USEC
#define MS	CIL_NSEC_PER_MSEC

/* POLL, C1, C1E, C6 and one that pays off beyond a tick. */
static const struct cil_machine machine = {
	.tick_ns = 4 * MS,
	.state_count = 5,
	.states = {
		{ .polling = true },
		{ .exit_latency_ns = 2 * US, .target_residency_ns = 2 * US },
		{ .exit_latency_ns = 10 * US, .target_residency_ns = 20 * US },
		{ .exit_latency_ns = 133 * US, .target_residency_ns = 5 * MS },
		{ .exit_latency_ns = 900 * US, .target_residency_ns = 50 * MS },
	},
};

/* The state within 10 us pays off after a tick to the nanosecond. */
static const struct cil_machine one_tick = {
	.tick_ns = 4 * MS,
	.state_count = 2,
	.states = {
		{ .exit_latency_ns = 10 * US, .target_residency_ns = 4 * MS },
		{ .exit_latency_ns = 20 * US, .target_residency_ns = 9 * MS },
	},
};

static struct cil_decision clamped_on(const struct cil_machine *on, s64 hint_ns)
{
	struct cil_query query = { 0 };
	struct cil_decision decision = { .index = 1, .stop_tick = true };

	gate_clamp(on, &query, hint_ns, &decision);
	return decision;
}

static struct cil_decision clamped(u32 disabled, s64 hint_ns, u8 index)
{
	struct cil_query query = { .disabled = disabled };
	struct cil_decision decision = {
		.index = index,
		.stop_tick = true,
		.row = CIL_ROW_NONE,
		.reason = CIL_REASON_BASE,
	};

	gate_clamp(&machine, &query, hint_ns, &decision);
	return decision;
}

static const struct gate_tunables lingers = {
	.linger_ms = 500,
	.linger_max_ms = 30000,
};

/* The longest sleep of late is expected again; others let it fade by an eighth. */
static void sleep_is_expected(struct kunit *test)
{
	u64 longest_ns = gate_longest_sleep(&lingers);

	KUNIT_EXPECT_EQ(test, longest_ns, (u64)7500 * MS);
	KUNIT_EXPECT_EQ(test, gate_expect_sleep(&lingers, 0, 800 * MS), (u64)800 * MS);
	KUNIT_EXPECT_EQ(test, gate_expect_sleep(&lingers, 800 * MS, 80 * MS),
			(u64)790 * MS);
	KUNIT_EXPECT_EQ(test, gate_expect_sleep(&lingers, 800 * MS, 800 * MS),
			(u64)800 * MS);
	/* 711 + 1/9 ms: what fades leaves as much as the sleep was. */
	KUNIT_EXPECT_EQ(test, gate_expect_sleep(&lingers, 800 * MS, 712 * MS),
			(u64)712 * MS);
	KUNIT_EXPECT_EQ(test, gate_expect_sleep(&lingers, 800 * MS, 704 * MS),
			(u64)712 * MS);
	/* Never below nothing, never above the longest. */
	KUNIT_EXPECT_EQ(test, gate_expect_sleep(&lingers, 0, 30000 * MS), longest_ns);
	KUNIT_EXPECT_EQ(test, gate_expect_sleep(&lingers, 0, 30001 * MS), (u64)0);
	KUNIT_EXPECT_EQ(test, gate_expect_sleep(&lingers, longest_ns, 59992 * MS),
			(u64)1 * MS);
	KUNIT_EXPECT_EQ(test, gate_expect_sleep(&lingers, longest_ns, U64_MAX), (u64)0);
	/* Of one unknown the longest is expected. */
	KUNIT_EXPECT_EQ(test, gate_expect_sleep(&lingers, U64_MAX, 800 * MS),
			(u64)7400 * MS);
}

/* A task lingers four times what is expected, within both limits. */
static void linger_is_within_limits(struct kunit *test)
{
	static const struct gate_tunables fixed = { .linger_ms = 500 };
	static const struct gate_tunables crossed = {
		.linger_ms = 40000,
		.linger_max_ms = 30000,
	};

	KUNIT_EXPECT_EQ(test, gate_linger(&lingers, 0), (u64)500 * MS);
	KUNIT_EXPECT_EQ(test, gate_linger(&lingers, 125 * MS), (u64)500 * MS);
	KUNIT_EXPECT_EQ(test, gate_linger(&lingers, 126 * MS), (u64)504 * MS);
	KUNIT_EXPECT_EQ(test, gate_linger(&lingers, 7500 * MS), (u64)30000 * MS);
	KUNIT_EXPECT_EQ(test, gate_linger(&lingers, 7501 * MS), (u64)30000 * MS);
	KUNIT_EXPECT_EQ(test, gate_linger(&lingers, U64_MAX), (u64)30000 * MS);
	/* linger_max_ms = 0: always the same; the least one stands. */
	KUNIT_EXPECT_EQ(test, gate_longest_sleep(&fixed), (u64)0);
	KUNIT_EXPECT_EQ(test, gate_expect_sleep(&fixed, 0, 1), (u64)0);
	KUNIT_EXPECT_EQ(test, gate_linger(&fixed, 800 * MS), (u64)500 * MS);
	KUNIT_EXPECT_EQ(test, gate_linger(&crossed, 800 * MS), (u64)40000 * MS);
}

/* Of 100,000 random sleeps (one step in 64 wakes the task), how many are longer? */
static u32 outlast_linger(u64 mean_ns)
{
	u64 expected_ns = gate_longest_sleep(&lingers);
	u64 slept_ns = 0;
	u32 sleeps = 0;
	u32 longer = 0;
	u32 seed = 1;

	while (sleeps < 100000) {
		slept_ns += mean_ns / 64;
		seed = seed * 1664525 + 1013904223;
		if (seed >> 26)
			continue;
		longer += slept_ns > gate_linger(&lingers, expected_ns);
		expected_ns = gate_expect_sleep(&lingers, expected_ns, slept_ns);
		slept_ns = 0;
		sleeps++;
	}
	return longer;
}

/* With requests at random times, p99 is out of danger. */
static void random_sleeps_are_covered(struct kunit *test)
{
	KUNIT_EXPECT_LE(test, outlast_linger(100 * MS), 100U);
	KUNIT_EXPECT_LE(test, outlast_linger(2000 * MS), 100U);
	KUNIT_EXPECT_LE(test, outlast_linger(4400 * MS), 600U);
}

/* The request is the smaller of both limits; no hint is no limit. */
static void request_is_the_smaller(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, gate_latency_req(50 * US, CIL_HINT_NONE), 50 * US);
	KUNIT_EXPECT_EQ(test, gate_latency_req(50 * US, 20 * US), 20 * US);
	KUNIT_EXPECT_EQ(test, gate_latency_req(10 * US, 20 * US), 10 * US);
	KUNIT_EXPECT_EQ(test, gate_latency_req(10 * US, 0), 0LL);
	KUNIT_EXPECT_EQ(test, gate_latency_req(10 * US, CIL_HINT_RELAXED), 10 * US);
}

/* Without a hint, and within it, the base's answer stands as it is. */
static void answer_within_stands(struct kunit *test)
{
	struct cil_decision d = clamped(0, CIL_HINT_NONE, 4);

	KUNIT_EXPECT_EQ(test, d.index, 4);
	KUNIT_EXPECT_EQ(test, d.reason, CIL_REASON_BASE);
	d = clamped(0, 133 * US, 3);
	KUNIT_EXPECT_EQ(test, d.index, 3);
	KUNIT_EXPECT_TRUE(test, d.stop_tick);
	KUNIT_EXPECT_EQ(test, d.reason, CIL_REASON_BASE);
}

/* Otherwise the deepest state within the hint takes its place. */
static void deepest_within_takes_over(struct kunit *test)
{
	struct cil_decision d = clamped(0, 133 * US - 1, 4);

	KUNIT_EXPECT_EQ(test, d.index, 2);
	KUNIT_EXPECT_EQ(test, d.reason, CIL_REASON_HINT_CLAMP);
	KUNIT_EXPECT_EQ(test, clamped(0, 10 * US, 4).index, 2);
	KUNIT_EXPECT_EQ(test, clamped(0, 9 * US, 4).index, 1);
	KUNIT_EXPECT_EQ(test, clamped(0, 1 * US, 4).index, 0);
	KUNIT_EXPECT_EQ(test, clamped(0, 0, 1).index, 0);
}

/* A state that pays off within a tick needs the tick, a longer one does not. */
static void tick_is_kept_for_short_states(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, clamped(0, 10 * US, 4).stop_tick);
	KUNIT_EXPECT_FALSE(test, clamped(0, 0, 4).stop_tick);
	KUNIT_EXPECT_TRUE(test, clamped(0, 133 * US, 4).stop_tick);
	KUNIT_EXPECT_TRUE(test, clamped_on(&one_tick, 10 * US).stop_tick);
}

/* A disabled state is never chosen, whatever the hint. */
static void disabled_states_are_passed_over(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, clamped(1u << 2, 10 * US, 4).index, 1);
	KUNIT_EXPECT_EQ(test, clamped(1u << 0, 0, 4).index, 1);
	KUNIT_EXPECT_EQ(test, clamped(3u << 0, 0, 4).index, 2);
}

/* If nothing shallower is enabled, the answer stands. */
static void nothing_shallower(struct kunit *test)
{
	struct cil_decision d = clamped(0x0f, 0, 4);

	KUNIT_EXPECT_EQ(test, d.index, 4);
	KUNIT_EXPECT_TRUE(test, d.stop_tick);
	KUNIT_EXPECT_EQ(test, d.reason, CIL_REASON_BASE);
}

/* An answer of the base for CPUs whose tasks do not mind waiting. */
static struct cil_decision deepened(struct cil_query query, u8 index,
				    bool stop_tick)
{
	struct cil_decision decision = {
		.index = index,
		.stop_tick = stop_tick,
		.row = CIL_ROW_NONE,
		.reason = CIL_REASON_BASE,
	};

	query.asked = true;
	gate_clamp(&machine, &query, CIL_HINT_RELAXED, &decision);
	return decision;
}

/* Where all tasks can wait, the next deeper enabled state that pays is chosen. */
static void relaxed_goes_one_deeper(struct kunit *test)
{
	struct cil_query query = {
		.latency_req_ns = CIL_TIME_MAX,
		.sleep_length_ns = 6 * MS,
		.delta_tick_ns = 1 * MS,
	};
	struct cil_decision d = deepened(query, 1, true);

	KUNIT_EXPECT_EQ(test, d.index, 2);
	KUNIT_EXPECT_EQ(test, d.reason, CIL_REASON_HINT_DEEPER);
	KUNIT_EXPECT_TRUE(test, d.stop_tick);
	KUNIT_EXPECT_EQ(test, deepened(query, 2, true).index, 3);
	KUNIT_EXPECT_EQ(test, deepened(query, 3, true).index, 3);
	KUNIT_EXPECT_EQ(test, deepened(query, 4, true).index, 4);
	query.disabled = 1u << 2;
	KUNIT_EXPECT_EQ(test, deepened(query, 1, true).index, 3);
	query.sleep_length_ns = 5 * MS;
	KUNIT_EXPECT_EQ(test, deepened(query, 2, true).index, 3);
	query.sleep_length_ns--;
	KUNIT_EXPECT_EQ(test, deepened(query, 2, true).index, 2);
}

/* PM QoS stands above it, and so does a tick that the base keeps. */
static void relaxed_keeps_limits(struct kunit *test)
{
	struct cil_query query = {
		.latency_req_ns = 133 * US - 1,
		.sleep_length_ns = 6 * MS,
		.delta_tick_ns = 1 * MS,
	};

	KUNIT_EXPECT_EQ(test, deepened(query, 2, true).index, 2);
	query.latency_req_ns = 133 * US;
	KUNIT_EXPECT_EQ(test, deepened(query, 2, true).index, 3);
	KUNIT_EXPECT_EQ(test, deepened(query, 2, false).index, 2);
	query.tick_stopped = true;
	KUNIT_EXPECT_EQ(test, deepened(query, 2, false).index, 3);
}

static struct kunit_case gate_cases[] = {
	KUNIT_CASE(sleep_is_expected),
	KUNIT_CASE(linger_is_within_limits),
	KUNIT_CASE(random_sleeps_are_covered),
	KUNIT_CASE(request_is_the_smaller),
	KUNIT_CASE(answer_within_stands),
	KUNIT_CASE(deepest_within_takes_over),
	KUNIT_CASE(tick_is_kept_for_short_states),
	KUNIT_CASE(disabled_states_are_passed_over),
	KUNIT_CASE(nothing_shallower),
	KUNIT_CASE(relaxed_goes_one_deeper),
	KUNIT_CASE(relaxed_keeps_limits),
	{}
};

static struct kunit_suite gate_suite = {
	.name = "gate",
	.test_cases = gate_cases,
};

kunit_test_suite(gate_suite);
