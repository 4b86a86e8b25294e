// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of skeleton, step by step. Each is stated before its case.
 */
#include <kunit/test.h>

#include "cil_test_env.h"
#include "skeleton.h"

#define US	CIL_NSEC_PER_USEC
#define MS	CIL_NSEC_PER_MSEC
#define TICK	(4 * MS)
#define ALL	0xfu

/* POLL, C1, C1E, C6 as on Skylake-SP. */
static const struct cil_machine machine = {
	.tick_ns = TICK,
	.state_count = 4,
	.states = {
		{ .polling = true },
		{ .exit_latency_ns = 2 * US, .target_residency_ns = 2 * US },
		{ .exit_latency_ns = 10 * US, .target_residency_ns = 20 * US },
		{ .exit_latency_ns = 133 * US, .target_residency_ns = 600 * US },
	},
};

static const struct cil_policy *const policy = &skeleton_policy;
static const struct skeleton_tunables defaults = { .patience = 3 };

static struct cil_query a_query(void)
{
	return (struct cil_query){ .latency_req_ns = CIL_TIME_MAX };
}

static void set_timer(s64 sleep_length_ns)
{
	cil_test_env_timer(sleep_length_ns,
			   sleep_length_ns < TICK ? sleep_length_ns : TICK);
}

static struct cil_decision decide(struct skeleton *state,
				  struct cil_query query)
{
	struct cil_decision decision;

	/* Rubbish on purpose: every member must be set. */
	memset(&decision, 0x55, sizeof(decision));
	policy->select(state, &machine, &defaults, &query, &decision);
	return decision;
}

static void sleep_for(struct skeleton *state, u8 index, s64 residency_ns,
		      bool tick_wakeup)
{
	struct cil_outcome outcome = {
		.residency_ns = (u64)residency_ns,
		.index = index,
		.tick_wakeup = tick_wakeup,
	};

	policy->update(state, &machine, &defaults, &outcome);
}

static struct skeleton a_start(void)
{
	struct skeleton state;

	memset(&state, 0x55, sizeof(state));
	policy->init(&state, &machine, &defaults);
	return state;
}

/* A state is chosen if it pays off before the timer, and no deeper one does. */
static void the_timer_decides(struct kunit *test)
{
	static const struct {
		s64 sleep_length_ns;
		u8 index;
		bool stop_tick;
		u8 reason;
	} cases[] = {
		{ 100 * MS, 3, true, CIL_REASON_SKELETON_DEEPEST },
		{ TICK, 3, true, CIL_REASON_SKELETON_DEEPEST },
		{ TICK - 1, 3, false, CIL_REASON_SKELETON_DEEPEST },
		{ 600 * US, 3, false, CIL_REASON_SKELETON_DEEPEST },
		{ 600 * US - 1, 2, false, CIL_REASON_SKELETON_TIMER },
		{ 20 * US, 2, false, CIL_REASON_SKELETON_TIMER },
		{ 20 * US - 1, 1, false, CIL_REASON_SKELETON_TIMER },
		{ 2 * US, 1, false, CIL_REASON_SKELETON_TIMER },
		{ 2 * US - 1, 0, false, CIL_REASON_SKELETON_TIMER },
	};
	struct skeleton state = a_start();
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cil_decision d;

		set_timer(cases[i].sleep_length_ns);
		d = decide(&state, a_query());
		KUNIT_EXPECT_EQ(test, d.index, cases[i].index);
		KUNIT_EXPECT_EQ(test, d.stop_tick, cases[i].stop_tick);
		KUNIT_EXPECT_EQ(test, d.reason, cases[i].reason);
		KUNIT_EXPECT_EQ(test, d.row, CIL_ROW_NONE);
	}
}

/* No state is deeper than the latency request allows. */
static void the_latency_request_is_kept(struct kunit *test)
{
	struct skeleton state = a_start();
	struct cil_query query = a_query();
	struct cil_decision d;

	set_timer(100 * MS);
	query.latency_req_ns = 10 * US;
	d = decide(&state, query);
	KUNIT_EXPECT_EQ(test, d.index, 2);
	KUNIT_EXPECT_EQ(test, d.reason, CIL_REASON_SKELETON_LATENCY);
}

/* A CPU that polls keeps its tick, and need not know the next timer. */
static void polling_keeps_the_tick(struct kunit *test)
{
	struct skeleton state = a_start();
	struct cil_query query = a_query();
	struct cil_decision d;

	set_timer(100 * MS);
	query.latency_req_ns = 0;
	d = decide(&state, query);
	KUNIT_EXPECT_EQ(test, d.index, 0);
	KUNIT_EXPECT_FALSE(test, d.stop_tick);
	KUNIT_EXPECT_EQ(test, cil_test_env_asked(), 0u);
}

/* Disabled states are never chosen while another one is enabled. */
static void disabled_states_are_avoided(struct kunit *test)
{
	struct skeleton state = a_start();
	struct cil_query query = a_query();
	u32 enabled;

	set_timer(10 * US);
	for (enabled = 1; enabled <= ALL; enabled++) {
		query.disabled = ALL & ~enabled;
		KUNIT_EXPECT_FALSE(test, cil_disabled(&query, decide(&state, query).index));
	}

	query.disabled = ALL;
	KUNIT_EXPECT_EQ(test, decide(&state, query).index, 0);
	KUNIT_EXPECT_EQ(test, decide(&state, query).reason, CIL_REASON_NO_STATE);
	KUNIT_EXPECT_FALSE(test, decide(&state, query).stop_tick);
}

/* A tick that is kept is the first timer: the state must pay off before it. */
static void the_tick_limits_the_state(struct kunit *test)
{
	struct skeleton state = a_start();
	struct cil_decision d;

	cil_test_env_timer(TICK - 1, 100 * US);
	d = decide(&state, a_query());
	KUNIT_EXPECT_EQ(test, d.index, 2);
	KUNIT_EXPECT_EQ(test, d.reason, CIL_REASON_SKELETON_TICK);
	KUNIT_EXPECT_FALSE(test, d.stop_tick);
}

/* After a few early wake-ups in a row the state is one shallower. */
static void early_wake_ups_make_cautious(struct kunit *test)
{
	struct skeleton state = a_start();
	struct cil_decision d;
	u32 i;

	set_timer(100 * MS);
	for (i = 0; i < defaults.patience; i++) {
		KUNIT_EXPECT_EQ(test, decide(&state, a_query()).index, 3);
		sleep_for(&state, 3, 599 * US, false);
	}
	d = decide(&state, a_query());
	KUNIT_EXPECT_EQ(test, d.index, 2);
	KUNIT_EXPECT_EQ(test, d.reason, CIL_REASON_SKELETON_EARLY);

	/* One period that pays off, and all is forgotten. */
	sleep_for(&state, 2, 20 * US, false);
	KUNIT_EXPECT_EQ(test, decide(&state, a_query()).index, 3);
}

/* Caution may lead to polling, which keeps the tick however far the timer. */
static void caution_may_end_in_polling(struct kunit *test)
{
	struct skeleton state = { .cut_short = 3 };
	struct cil_query query = a_query();
	struct cil_decision d;

	set_timer(100 * MS);
	query.latency_req_ns = 2 * US;
	d = decide(&state, query);
	KUNIT_EXPECT_EQ(test, d.index, 0);
	KUNIT_EXPECT_FALSE(test, d.stop_tick);
}

/* With the tick stopped nothing would correct a state that is too shallow. */
static void a_stopped_tick_forbids_caution(struct kunit *test)
{
	struct skeleton state = { .cut_short = U32_MAX };
	struct cil_query query = a_query();
	struct cil_decision d;

	set_timer(100 * MS);
	query.tick_stopped = true;
	d = decide(&state, query);
	KUNIT_EXPECT_EQ(test, d.index, 3);
	KUNIT_EXPECT_TRUE(test, d.stop_tick);
}

/* A tick that is stopped stays stopped: it is not the first timer to come. */
static void a_stopped_tick_stays_stopped(struct kunit *test)
{
	struct skeleton state = a_start();
	struct cil_query query = a_query();
	struct cil_decision d;

	cil_test_env_timer(TICK - 1, 0);
	query.tick_stopped = true;
	d = decide(&state, query);
	KUNIT_EXPECT_EQ(test, d.index, 3);
	KUNIT_EXPECT_TRUE(test, d.stop_tick);
}

/* The tick woke the CPU because we kept it: nothing is learned from that. */
static void a_tick_wake_up_proves_nothing(struct kunit *test)
{
	struct skeleton state = { .cut_short = 2 };

	sleep_for(&state, 3, 10 * US, true);
	sleep_for(&state, 3, 10 * MS, true);
	KUNIT_EXPECT_EQ(test, state.cut_short, 2u);
}

/* The count never wraps around. */
static void the_count_saturates(struct kunit *test)
{
	struct skeleton state = { .cut_short = U32_MAX };

	sleep_for(&state, 3, 10 * US, false);
	KUNIT_EXPECT_EQ(test, state.cut_short, U32_MAX);
}

/* The tunables' table and struct agree, and the dump shows the number. */
static void people_see_what_is_there(struct kunit *test)
{
	struct skeleton state = { .cut_short = 42 };

	KUNIT_EXPECT_EQ(test, policy->tunable_count * sizeof(u32), sizeof(defaults));
	KUNIT_EXPECT_EQ(test, policy->tunables[0].def, defaults.patience);
	policy->dump(&state, &machine, &defaults, 0, cil_test_env_sink());
	KUNIT_EXPECT_STREQ(test, cil_test_env_text(),
			   "idle periods in a row that were cut short: 42\n");
}

static struct kunit_case skeleton_cases[] = {
	KUNIT_CASE(the_timer_decides),
	KUNIT_CASE(the_latency_request_is_kept),
	KUNIT_CASE(polling_keeps_the_tick),
	KUNIT_CASE(disabled_states_are_avoided),
	KUNIT_CASE(the_tick_limits_the_state),
	KUNIT_CASE(early_wake_ups_make_cautious),
	KUNIT_CASE(caution_may_end_in_polling),
	KUNIT_CASE(a_stopped_tick_forbids_caution),
	KUNIT_CASE(a_stopped_tick_stays_stopped),
	KUNIT_CASE(a_tick_wake_up_proves_nothing),
	KUNIT_CASE(the_count_saturates),
	KUNIT_CASE(people_see_what_is_there),
	{}
};

static struct kunit_suite skeleton_suite = {
	.name = "skeleton",
	.test_cases = skeleton_cases,
};

kunit_test_suite(skeleton_suite);
