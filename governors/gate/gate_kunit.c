// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of the gate's two ways to keep a hint.
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
}

/* A state that pays off within a tick needs the tick, a longer one does not. */
static void tick_is_kept_for_short_states(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, clamped(0, 10 * US, 4).stop_tick);
	KUNIT_EXPECT_FALSE(test, clamped(0, 0, 4).stop_tick);
	KUNIT_EXPECT_TRUE(test, clamped(0, 133 * US, 4).stop_tick);
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

/* Where nobody minds, the next deeper enabled state that pays is chosen. */
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
