// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of teo_ng, step by step; each is stated before its case.
 *
 * - Choice: the timer where it was right, intercepts where they outweigh it.
 * - Limits: the latency request, disabled states and a near tick; a stopped
 *   tick forbids to be shallow for long. The timer is not asked in vain.
 * - Learning: hits and intercepts by bins, short idles, ticks; an eighth of all
 *   is forgotten at each idle period, and sums stay bounded.
 */
#include <kunit/test.h>

#include "teo_ng_bench_kunit.h"

static void sleep_for(struct teo_ng *teo, struct cil_decision decision,
		      s64 residency_ns)
{
	struct cil_outcome outcome = {
		.residency_ns = (u64)residency_ns,
		.index = decision.index,
	};

	teo_ng_update(teo, &skx, &outcome);
}

/* As many idle periods of the same kind as are needed to forget others. */
static void live_through(struct teo_ng *teo, s64 sleep_length_ns,
			 s64 residency_ns)
{
	int i;

	for (i = 0; i < 50; i++)
		sleep_for(teo, decide(teo, a_query(sleep_length_ns)),
			  residency_ns);
}

/* As long as timers were right, the timer alone decides. */
static void a_reliable_timer_decides(struct kunit *test)
{
	static const struct {
		s64 sleep_length_ns;
		u8 index;
		bool stop_tick;
	} cases[] = {
		{ 100 * MS, 3, true },
		{ 4 * MS, 3, true },
		{ 4 * MS - 1, 3, false },
		{ 600 * US, 3, false },
		{ 600 * US - 1, 2, false },
		{ 20 * US, 2, false },
		{ 20 * US - 1, 1, false },
		{ 2 * US - 1, 0, false },
	};
	struct cil_decision decision;
	struct teo_ng teo;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		teo_ng_init(&teo);
		live_through(&teo, 100 * MS, 101 * MS);
		decision = decide(&teo, a_query(cases[i].sleep_length_ns));
		KUNIT_EXPECT_EQ(test, decision.index, cases[i].index);
		KUNIT_EXPECT_EQ(test, decision.stop_tick, cases[i].stop_tick);
	}
}

/* Without any experience a state that pays off within a tick keeps it. */
static void the_first_decision_keeps_the_tick(struct kunit *test)
{
	struct cil_decision decision;
	struct teo_ng teo;

	teo_ng_init(&teo);
	decision = decide(&teo, a_query(100 * MS));
	KUNIT_EXPECT_EQ(test, decision.index, 3);
	KUNIT_EXPECT_FALSE(test, decision.stop_tick);
}

/* Every member of the decision is set, and no matrix row is claimed. */
static void decisions_are_complete(struct kunit *test)
{
	struct cil_decision decision;
	struct teo_ng teo;

	teo_ng_init(&teo);
	decision = decide(&teo, a_query(100 * MS));
	KUNIT_EXPECT_EQ(test, decision.row, CIL_ROW_NONE);
	KUNIT_EXPECT_EQ(test, decision.reason, CIL_REASON_TEO_DEEPEST);
	decision = decide(&teo, a_query(100 * US));
	KUNIT_EXPECT_EQ(test, decision.reason, CIL_REASON_TEO_TIMER);
}

/* Sleeping until the timer is a hit, being woken before is an intercept. */
static void hits_and_intercepts_are_told_apart(struct kunit *test)
{
	struct teo_ng teo;

	teo_ng_init(&teo);
	sleep_for(&teo, decide(&teo, a_query(10 * MS)), 10 * MS + 133 * US);
	KUNIT_EXPECT_EQ(test, teo.bins[3].hits, 1024u);
	KUNIT_EXPECT_EQ(test, teo.total, 1024u);

	teo_ng_init(&teo);
	sleep_for(&teo, decide(&teo, a_query(10 * MS)), 300 * US);
	KUNIT_EXPECT_EQ(test, teo.bins[3].hits, 0u);
	KUNIT_EXPECT_EQ(test, teo.bins[2].intercepts, 1024u);
	KUNIT_EXPECT_EQ(test, teo.tick_intercepts, 1024u);
}

/* The memory of a bin loses one eighth at every idle period. */
static void an_eighth_is_forgotten(struct kunit *test)
{
	struct teo_ng teo;

	teo_ng_init(&teo);
	sleep_for(&teo, decide(&teo, a_query(10 * MS)), 10 * MS + 133 * US);
	sleep_for(&teo, decide(&teo, a_query(10 * MS)), 300 * US);
	KUNIT_EXPECT_EQ(test, teo.bins[3].hits, 896u);
	KUNIT_EXPECT_EQ(test, teo.bins[2].intercepts, 1024u);
	KUNIT_EXPECT_EQ(test, teo.total, 1920u);
}

/* Half of the exit latency is taken off before the bin is chosen. */
static void half_the_exit_latency_is_not_idle(struct kunit *test)
{
	struct teo_ng teo;

	teo_ng_init(&teo);
	sleep_for(&teo, decide(&teo, a_query(10 * MS)), 666500 - 1);
	KUNIT_EXPECT_EQ(test, teo.bins[2].intercepts, 1024u);

	teo_ng_init(&teo);
	sleep_for(&teo, decide(&teo, a_query(10 * MS)), 666500);
	KUNIT_EXPECT_EQ(test, teo.bins[3].intercepts, 1024u);
}

/* Many early wake-ups outweigh a distant timer, and are forgotten again. */
static void intercepts_prevail_and_are_forgotten(struct kunit *test)
{
	struct cil_decision decision;
	struct teo_ng teo;

	teo_ng_init(&teo);
	live_through(&teo, 100 * MS, 100 * US);
	decision = decide(&teo, a_query(100 * MS));
	KUNIT_EXPECT_EQ(test, decision.index, 2);
	KUNIT_EXPECT_EQ(test, decision.reason, CIL_REASON_TEO_INTERCEPTS);

	live_through(&teo, 100 * MS, 100 * MS);
	decision = decide(&teo, a_query(100 * MS));
	KUNIT_EXPECT_EQ(test, decision.index, 3);
}

/* The new candidate is not deeper than the bin with the most intercepts. */
static void the_peak_is_not_passed_over(struct kunit *test)
{
	struct teo_ng teo = {
		.bins[0].intercepts = 410,
		.bins[1].intercepts = 300,
		.bins[2].intercepts = 400,
		.total = 1110,
	};

	KUNIT_EXPECT_EQ(test, decide(&teo, a_query(100 * MS)).index, 0);
	teo.bins[0].intercepts = 290;
	teo.bins[1].intercepts = 420;
	KUNIT_EXPECT_EQ(test, decide(&teo, a_query(100 * MS)).index, 1);
}

/* Where intercepts come within a tick, the tick is kept. */
static void tick_intercepts_keep_the_tick(struct kunit *test)
{
	struct cil_decision decision;
	struct teo_ng teo;

	teo_ng_init(&teo);
	live_through(&teo, 100 * MS, 1 * MS);
	decision = decide(&teo, a_query(100 * MS));
	KUNIT_EXPECT_EQ(test, decision.index, 3);
	KUNIT_EXPECT_FALSE(test, decision.stop_tick);
}

/* A latency request is a limit, whatever the timer says. */
static void the_latency_request_is_a_limit(struct kunit *test)
{
	static const struct {
		s64 latency_req_ns;
		u8 index;
	} cases[] = {
		{ 133 * US, 3 }, { 133 * US - 1, 2 }, { 10 * US - 1, 1 },
		{ 2 * US - 1, 0 }, { 0, 0 },
	};
	struct cil_decision decision;
	struct cil_query query;
	struct teo_ng teo;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		teo_ng_init(&teo);
		query = a_query(100 * MS);
		query.latency_req_ns = cases[i].latency_req_ns;
		decision = decide(&teo, query);
		KUNIT_EXPECT_EQ(test, decision.index, cases[i].index);
	}
}

/* After short idle periods the timer is not asked for a shallow state. */
static void the_timer_is_not_asked_in_vain(struct kunit *test)
{
	struct cil_decision decision;
	struct teo_ng teo;

	teo_ng_init(&teo);
	live_through(&teo, 100 * MS, 4 * US);
	decision = decide(&teo, a_query(100 * MS));
	KUNIT_EXPECT_EQ(test, decision.index, 1);
	KUNIT_EXPECT_FALSE(test, decision.stop_tick);
	KUNIT_EXPECT_EQ(test, decision.reason, CIL_REASON_TEO_SHALLOW);
	KUNIT_EXPECT_EQ(test, teo.sleep_length_ns, CIL_TIME_MAX);
}

/* With the tick stopped and no timer near, a shallow choice is corrected. */
static void a_stopped_tick_forbids_shallow_states(struct kunit *test)
{
	struct cil_query query = a_query(100 * MS);
	struct cil_decision decision;
	struct teo_ng teo;

	teo_ng_init(&teo);
	live_through(&teo, 100 * MS, 4 * US);
	query.tick_stopped = true;
	decision = decide(&teo, query);
	KUNIT_EXPECT_EQ(test, decision.index, 3);
	KUNIT_EXPECT_TRUE(test, decision.stop_tick);
	KUNIT_EXPECT_EQ(test, decision.reason, CIL_REASON_TEO_UNSTICK);
}

/* A kept tick is a timer, too: the state must pay off before it. */
static void a_near_tick_limits_the_state(struct kunit *test)
{
	struct cil_query query = a_query(100 * MS);
	struct cil_decision decision;
	struct teo_ng teo;

	teo_ng_init(&teo);
	live_through(&teo, 100 * MS, 1 * MS);
	query.delta_tick_ns = 50 * US;
	decision = decide(&teo, query);
	KUNIT_EXPECT_EQ(test, decision.index, 2);
	KUNIT_EXPECT_FALSE(test, decision.stop_tick);
	KUNIT_EXPECT_EQ(test, decision.reason, CIL_REASON_TEO_TICK);
}

/* Disabled states are skipped; with one or none left there is no search. */
static void disabled_states_are_not_chosen(struct kunit *test)
{
	struct cil_query query = a_query(100 * MS);
	struct cil_decision decision;
	struct teo_ng teo;

	teo_ng_init(&teo);
	query.disabled = 0x8;
	KUNIT_EXPECT_EQ(test, decide(&teo, query).index, 2);

	query.disabled = 0xb;
	decision = decide(&teo, query);
	KUNIT_EXPECT_EQ(test, decision.index, 2);
	KUNIT_EXPECT_FALSE(test, decision.stop_tick);
	KUNIT_EXPECT_EQ(test, decision.reason, CIL_REASON_ONE_STATE);

	query.disabled = 0xf;
	decision = decide(&teo, query);
	KUNIT_EXPECT_EQ(test, decision.index, 0);
	KUNIT_EXPECT_FALSE(test, decision.stop_tick);
	KUNIT_EXPECT_EQ(test, decision.reason, CIL_REASON_NO_STATE);
}

/* A polling state that gave up counts as endless, not as short. */
static void a_poll_time_out_is_no_short_idle(struct kunit *test)
{
	struct cil_outcome outcome = {
		.residency_ns = 2 * US,
		.poll_time_limit = true,
	};
	struct teo_ng teo;

	teo_ng_init(&teo);
	decide(&teo, a_query(100 * MS));
	teo_ng_update(&teo, &skx, &outcome);
	KUNIT_EXPECT_EQ(test, teo.bins[3].hits, 1024u);
	KUNIT_EXPECT_EQ(test, teo.short_idles, 0u);
}

/* Where only the tick ends idle periods, it is stopped in the end. */
static void lonely_ticks_are_stopped(struct kunit *test)
{
	struct cil_outcome outcome = {
		.residency_ns = TICK,
		.index = 2,
		.tick_wakeup = true,
	};
	struct cil_decision decision;
	struct teo_ng teo;
	int i;

	teo_ng_init(&teo);
	live_through(&teo, 100 * MS, 100 * US);
	for (i = 0; i < 20; i++) {
		decide(&teo, a_query(100 * MS));
		teo_ng_update(&teo, &skx, &outcome);
	}
	KUNIT_EXPECT_GT(test, teo.bins[3].hits, 6 * 1024u);
	decision = decide(&teo, a_query(100 * MS));
	KUNIT_EXPECT_EQ(test, decision.index, 3);
	KUNIT_EXPECT_TRUE(test, decision.stop_tick);
}

/* The total is the sum of all bins, and all metrics stay bounded. */
static void metrics_are_bounded_and_add_up(struct kunit *test)
{
	struct cil_decision decision;
	u32 i, bin, sum, seed = 1;
	struct teo_ng teo;

	teo_ng_init(&teo);
	for (i = 0; i < 2000; i++) {
		seed = seed * 1664525 + 1013904223;
		decision = decide(&teo, a_query((seed >> 8) * 10LL));
		sleep_for(&teo, decision, (seed >> 16) * 100LL);
		for (sum = 0, bin = 0; bin < skx.state_count; bin++)
			sum += teo.bins[bin].hits + teo.bins[bin].intercepts;
		if (sum != teo.total || sum > 9 * 1024)
			break;
	}
	KUNIT_EXPECT_EQ(test, i, 2000u);
}

/* A reset leaves nothing of what was learned. */
static void init_forgets_everything(struct kunit *test)
{
	struct teo_ng teo, fresh;

	memset(&teo, 0xff, sizeof(teo));
	memset(&fresh, 0, sizeof(fresh));
	teo_ng_init(&teo);
	KUNIT_EXPECT_EQ(test, memcmp(&teo, &fresh, sizeof(teo)), 0);
}

/* The dump has a row for each state, with its bin. */
static void the_dump_is_a_table(struct kunit *test)
{
	static const char wanted[] =
		"    2               20000           0           0\n"
		"    3              600000        1024           0\n"
		"total            1024\n";
	struct cil_sink *sink = cil_test_env_sink();
	struct teo_ng teo;

	teo_ng_init(&teo);
	sleep_for(&teo, decide(&teo, a_query(10 * MS)), 10 * MS + 133 * US);
	teo_ng_dump(&teo, &skx, sink);
	KUNIT_EXPECT_NOT_NULL(test, strstr(cil_test_env_text(), wanted));
}

static struct kunit_case teo_ng_cases[] = {
	KUNIT_CASE(a_reliable_timer_decides),
	KUNIT_CASE(the_first_decision_keeps_the_tick),
	KUNIT_CASE(decisions_are_complete),
	KUNIT_CASE(hits_and_intercepts_are_told_apart),
	KUNIT_CASE(an_eighth_is_forgotten),
	KUNIT_CASE(half_the_exit_latency_is_not_idle),
	KUNIT_CASE(intercepts_prevail_and_are_forgotten),
	KUNIT_CASE(the_peak_is_not_passed_over),
	KUNIT_CASE(tick_intercepts_keep_the_tick),
	KUNIT_CASE(the_latency_request_is_a_limit),
	KUNIT_CASE(the_timer_is_not_asked_in_vain),
	KUNIT_CASE(a_stopped_tick_forbids_shallow_states),
	KUNIT_CASE(a_near_tick_limits_the_state),
	KUNIT_CASE(disabled_states_are_not_chosen),
	KUNIT_CASE(a_poll_time_out_is_no_short_idle),
	KUNIT_CASE(lonely_ticks_are_stopped),
	KUNIT_CASE(metrics_are_bounded_and_add_up),
	KUNIT_CASE(init_forgets_everything),
	KUNIT_CASE(the_dump_is_a_table),
	{}
};

static struct kunit_suite teo_ng_suite = {
	.name = "teo_ng",
	.test_cases = teo_ng_cases,
};

kunit_test_suite(teo_ng_suite);
