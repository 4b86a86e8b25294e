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

static struct kunit_case gate_cases[] = {
	KUNIT_CASE(request_is_the_smaller),
	KUNIT_CASE(answer_within_stands),
	KUNIT_CASE(deepest_within_takes_over),
	KUNIT_CASE(tick_is_kept_for_short_states),
	KUNIT_CASE(disabled_states_are_passed_over),
	KUNIT_CASE(nothing_shallower),
	{}
};

static struct kunit_suite gate_suite = {
	.name = "gate",
	.test_cases = gate_cases,
};

kunit_test_suite(gate_suite);
