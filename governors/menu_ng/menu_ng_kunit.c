// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of menu_ng, step by step; each is stated before its case.
 *
 * - Prediction: a short typical interval spares the question about the timer;
 *   otherwise the timer is corrected by what it used to give.
 * - Choice: state 0 where it is certain, else the deepest that pays within the
 *   prediction and the latency request.
 * - Limits: polling is avoided; a kept tick limits the depth, a stopped one
 *   forbids to be shallow for long.
 */
#include "menu_ng_bench_kunit.h"

/* A short repeating interval: the timer is not asked, the tick is kept. */
static void short_intervals_spare_the_question(struct kunit *test)
{
	struct fixture *f = test->priv;

	learn(f, 8, 15);
	KUNIT_EXPECT_EQ(test, choose(f, &server, 50 * MS), 1u);
	KUNIT_EXPECT_EQ(test, cil_test_env_asked(), 0u);
	KUNIT_EXPECT_FALSE(test, f->decision.stop_tick);
	KUNIT_EXPECT_EQ(test, f->menu.next_timer_ns, (u64)CIL_TIME_MAX);
	KUNIT_EXPECT_EQ(test, f->menu.bucket, MENU_NG_BUCKETS - 1u);

	learn(f, 8, 16);
	choose(f, &server, 50 * MS);
	KUNIT_EXPECT_EQ(test, cil_test_env_asked(), 1u);

	learn(f, 8, 15);
	f->query.tick_stopped = true;
	choose(f, &server, 50 * MS);
	KUNIT_EXPECT_EQ(test, cil_test_env_asked(), 1u);
}

/* The time to the timer is corrected by the past share of it spent idle. */
static void timer_is_corrected(struct kunit *test)
{
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, choose(f, &server, 1 * MS), 3u);
	f->menu.factors[3] = 1024 * 8 / 2;
	KUNIT_EXPECT_EQ(test, choose(f, &server, 1 * MS), 2u);
	KUNIT_EXPECT_EQ(test, f->menu.bucket, 3u);
	/* 1.2 ms halved are 600 us, exactly what state 3 needs. */
	KUNIT_EXPECT_EQ(test, choose(f, &server, 1200 * US), 3u);
	/* Rounded to the nearest us: half a us less is too little. */
	KUNIT_EXPECT_EQ(test, choose(f, &server, 1199 * US), 3u);
	KUNIT_EXPECT_EQ(test, choose(f, &server, 1198 * US), 2u);
}

/* Each power of ten from 10 us on has a factor of its own. */
static void buckets_are_decades(struct kunit *test)
{
	static const s64 first_ns[] = {
		0, 10 * US, 100 * US, 1 * MS, 10 * MS, 100 * MS,
	};
	struct fixture *f = test->priv;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(first_ns); i++) {
		choose(f, &server, first_ns[i]);
		KUNIT_EXPECT_EQ(test, f->menu.bucket, i);
		if (!i)
			continue;
		choose(f, &server, first_ns[i] - 1);
		KUNIT_EXPECT_EQ(test, f->menu.bucket, i - 1);
	}
	choose(f, &server, 100000 * MS);
	KUNIT_EXPECT_EQ(test, f->menu.bucket, 5u);
	choose(f, &server, -5);
	KUNIT_EXPECT_EQ(test, f->menu.next_timer_ns, 0ULL);
	KUNIT_EXPECT_EQ(test, f->menu.bucket, 0u);
}

/* State 0 at once: no latency allowed, the timer too near, or too slow. */
static void state0_is_certain(struct kunit *test)
{
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, choose(f, &server, 1 * US), 0u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_STATE0);
	KUNIT_EXPECT_FALSE(test, f->decision.stop_tick);
	KUNIT_EXPECT_EQ(test, f->decision.row, CIL_ROW_NONE);
	KUNIT_EXPECT_EQ(test, choose(f, &client, 1 * US), 0u);
	KUNIT_EXPECT_TRUE(test, f->decision.stop_tick);

	KUNIT_EXPECT_EQ(test, choose(f, &server, 2 * US), 1u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_PREDICTED);

	f->query.latency_req_ns = 1 * US;
	KUNIT_EXPECT_EQ(test, choose(f, &server, 9 * MS), 0u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_STATE0);
	f->query.latency_req_ns = 2 * US;
	KUNIT_EXPECT_EQ(test, choose(f, &server, 9 * MS), 1u);
	f->query.latency_req_ns = 1 * US;

	/* A disabled state 0 is certain only if no latency is allowed. */
	f->query.disabled = 1;
	KUNIT_EXPECT_EQ(test, choose(f, &server, 9 * MS), 1u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_LATENCY);
	f->query.latency_req_ns = 0;
	KUNIT_EXPECT_EQ(test, choose(f, &server, 9 * MS), 0u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_STATE0);
}

/* One state: whatever lies behind the table in memory does not matter. */
static void one_state_is_enough(struct kunit *test)
{
	struct cil_machine machine = client;
	struct fixture *f = test->priv;

	machine.state_count = 1;
	machine.states[1].target_residency_ns = CIL_TIME_MAX;
	KUNIT_EXPECT_EQ(test, choose(f, &machine, 9 * MS), 0u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_PREDICTED);
	KUNIT_EXPECT_TRUE(test, f->decision.stop_tick);
	machine.states[0].polling = true;
	KUNIT_EXPECT_EQ(test, choose(f, &machine, 9 * MS), 0u);
	KUNIT_EXPECT_FALSE(test, f->decision.stop_tick);

	/* With two, the second one counts. */
	machine.state_count = 2;
	KUNIT_EXPECT_EQ(test, choose(f, &machine, 9 * MS), 0u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_STATE0);
}

/* The deepest state that pays within the prediction and the latency request. */
static void prediction_and_latency_limit_the_depth(struct kunit *test)
{
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, choose(f, &server, 599 * US), 2u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_PREDICTED);
	KUNIT_EXPECT_EQ(test, choose(f, &server, 600 * US), 3u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_PREDICTED);
	KUNIT_EXPECT_FALSE(test, f->decision.stop_tick);
	KUNIT_EXPECT_EQ(test, choose(f, &server, 4 * MS), 3u);
	KUNIT_EXPECT_TRUE(test, f->decision.stop_tick);

	f->query.latency_req_ns = 133 * US;
	KUNIT_EXPECT_EQ(test, choose(f, &server, 9 * MS), 3u);
	f->query.latency_req_ns = 132 * US;
	KUNIT_EXPECT_EQ(test, choose(f, &server, 9 * MS), 2u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_LATENCY);

	f->query.disabled = 1 << 2;
	KUNIT_EXPECT_EQ(test, choose(f, &server, 9 * MS), 1u);
	f->query.disabled = 0xf;
	KUNIT_EXPECT_EQ(test, choose(f, &server, 9 * MS), 0u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_NO_STATE);
	KUNIT_EXPECT_FALSE(test, f->decision.stop_tick);
}

/* A shallow physical state takes the place of polling where it nearly pays. */
static void polling_is_avoided(struct kunit *test)
{
	struct cil_machine machine = server;
	struct fixture *f = test->priv;

	/* Expected are 3 us: more than the exit latency, less than the stay. */
	machine.states[1].target_residency_ns = 5 * US;
	learn(f, 8, 3);
	KUNIT_EXPECT_EQ(test, choose(f, &machine, 9 * MS), 1u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_PHYSICAL);
	KUNIT_EXPECT_FALSE(test, f->decision.stop_tick);

	machine.states[1].exit_latency_ns = 3 * US;
	KUNIT_EXPECT_EQ(test, choose(f, &machine, 9 * MS), 1u);
	machine.states[1].exit_latency_ns = 4 * US;
	KUNIT_EXPECT_EQ(test, choose(f, &machine, 9 * MS), 0u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_PREDICTED);

	machine.states[1].exit_latency_ns = 2 * US;
	machine.states[1].target_residency_ns = 15 * US;
	KUNIT_EXPECT_EQ(test, choose(f, &machine, 9 * MS), 0u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_PREDICTED);

	/* State 1 disabled, and the timer before state 2 pays: polling it is. */
	f->query.disabled = 1 << 1;
	f->query.tick_stopped = true;
	machine.states[1].target_residency_ns = 2 * US;
	machine.states[2].target_residency_ns = 14 * US;
	machine.states[2].exit_latency_ns = 1 * US;
	KUNIT_EXPECT_EQ(test, choose(f, &machine, 13 * US), 0u);
	KUNIT_EXPECT_EQ(test, choose(f, &machine, 14 * US), 2u);
}

/* Long idle, deepest state too deep: keep the tick, decide again. */
static void tick_is_kept_to_decide_again(struct kunit *test)
{
	struct fixture *f = test->priv;

	learn(f, 8, 4000);
	KUNIT_EXPECT_EQ(test, choose(f, &client, 50 * MS), 2u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_RETAIN);
	KUNIT_EXPECT_FALSE(test, f->decision.stop_tick);

	learn(f, 8, 3999);
	KUNIT_EXPECT_EQ(test, choose(f, &client, 50 * MS), 2u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_PREDICTED);
	KUNIT_EXPECT_FALSE(test, f->decision.stop_tick);
}

/* With the tick stopped no decision follows: deeper, if the timer allows. */
static void stopped_tick_goes_deeper(struct kunit *test)
{
	struct cil_machine machine = client;
	struct fixture *f = test->priv;

	f->query.tick_stopped = true;
	learn(f, 8, 4500);
	KUNIT_EXPECT_EQ(test, choose_at(f, &client, 7 * MS, 5 * MS), 3u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_UNSTICK);
	KUNIT_EXPECT_TRUE(test, f->decision.stop_tick);

	/* The timer comes too early for the deeper state. */
	KUNIT_EXPECT_EQ(test, choose_at(f, &client, 7 * MS, 5 * MS - 1), 2u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_PREDICTED);
	KUNIT_EXPECT_TRUE(test, f->decision.stop_tick);

	/* The state found is deep enough. */
	machine.states[2].target_residency_ns = 4 * MS;
	KUNIT_EXPECT_EQ(test, choose_at(f, &machine, 7 * MS, 5 * MS), 2u);
	machine.states[2].target_residency_ns = 4 * MS - 1;
	KUNIT_EXPECT_EQ(test, choose_at(f, &machine, 7 * MS, 5 * MS), 3u);
}

/* With the tick stopped a short prediction yields to a timer far away. */
static void stopped_tick_distrusts_short_predictions(struct kunit *test)
{
	struct fixture *f = test->priv;

	f->query.tick_stopped = true;
	learn(f, 8, 30);
	KUNIT_EXPECT_EQ(test, choose(f, &client, 8 * MS), 0u);
	KUNIT_EXPECT_EQ(test, choose(f, &client, 8 * MS + 1), 3u);
	f->query.tick_stopped = false;
	KUNIT_EXPECT_EQ(test, choose(f, &client, 8 * MS + 1), 0u);

	/* A tick period is not short. */
	f->query.tick_stopped = true;
	learn(f, 8, 4000);
	KUNIT_EXPECT_EQ(test, choose(f, &client, 50 * MS), 2u);
	learn(f, 8, 3999);
	KUNIT_EXPECT_EQ(test, choose(f, &client, 50 * MS), 3u);
}

/* A kept tick ends the idle period: the state must pay until then. */
static void kept_tick_limits_the_depth(struct kunit *test)
{
	struct fixture *f = test->priv;

	learn(f, 8, 900);
	KUNIT_EXPECT_EQ(test, choose(f, &client, 9 * MS), 2u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_PREDICTED);

	KUNIT_EXPECT_EQ(test, choose_at(f, &client, 9 * MS, 200 * US), 1u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_TICK);
	KUNIT_EXPECT_EQ(test, choose_at(f, &client, 9 * MS, 199 * US), 0u);

	/* The shallowest enabled state is the best there is. */
	f->query.disabled = 1;
	KUNIT_EXPECT_EQ(test, choose_at(f, &client, 9 * MS, 199 * US), 1u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_TICK);
}

/* A timer that is just due leaves the tick as it is, an overdue one does not. */
static void an_overdue_timer_hides_the_tick(struct kunit *test)
{
	struct cil_machine machine = client;
	struct fixture *f = test->priv;

	machine.states[0].target_residency_ns = 0;
	machine.states[1].target_residency_ns = 0;
	KUNIT_EXPECT_EQ(test, choose_at(f, &machine, 0, -5), 0u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_TICK);
	KUNIT_EXPECT_EQ(test, choose_at(f, &machine, -5, -5), 1u);
	KUNIT_EXPECT_EQ(test, f->decision.reason, CIL_REASON_MENU_PREDICTED);
}

/* The dump shows the window by length, and the factors by bucket. */
static void dump_is_readable(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct cil_sink *sink = cil_test_env_sink();
	u32 i;

	for (i = 8; i > 1; i--)
		learn(f, 1, i * 100);
	learn(f, 1, MENU_NG_NO_INTERVAL);
	f->menu.factors[1] = 4096;
	menu_ng_policy.dump(&f->menu, &server, &f->tunables, 0, sink);
	KUNIT_EXPECT_STREQ(test, cil_test_env_text(),
			   "intervals by length (us), 7 of 8 known:\n"
			   "  200 300 400 500 600 700 800\n"
			   "typical interval: none\n"
			   "really slept of the sleep length (per mille):\n"
			   "  < 10 us  1000\n"
			   "  < 100 us  500\n"
			   "  < 1 ms   1000\n"
			   "  < 10 ms  1000\n"
			   "  < 100 ms 1000\n"
			   "  longer   1000\n");

	sink = cil_test_env_sink();
	resize(f, 20, 75);
	learn(f, 20, 42);
	menu_ng_policy.dump(&f->menu, &server, &f->tunables, 0, sink);
	KUNIT_EXPECT_NOT_NULL(test, strstr(cil_test_env_text(),
					   "42 42\n  42 42 42 42\n"
					   "typical interval: 42 us\n"));
}

/* The table of tunables fits the struct, and the state fits a page. */
static void tables_fit(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, menu_ng_policy.tunable_count * sizeof(u32),
			sizeof(struct menu_ng_tunables));
	KUNIT_EXPECT_LE(test, menu_ng_policy.state_size, 4096u);
	KUNIT_EXPECT_STREQ(test, menu_ng_policy.tunables[0].name,
			   "history_size");
}

static struct kunit_case menu_ng_cases[] = {
	KUNIT_CASE(short_intervals_spare_the_question),
	KUNIT_CASE(timer_is_corrected),
	KUNIT_CASE(buckets_are_decades),
	KUNIT_CASE(state0_is_certain),
	KUNIT_CASE(one_state_is_enough),
	KUNIT_CASE(prediction_and_latency_limit_the_depth),
	KUNIT_CASE(polling_is_avoided),
	KUNIT_CASE(tick_is_kept_to_decide_again),
	KUNIT_CASE(stopped_tick_goes_deeper),
	KUNIT_CASE(stopped_tick_distrusts_short_predictions),
	KUNIT_CASE(kept_tick_limits_the_depth),
	KUNIT_CASE(an_overdue_timer_hides_the_tick),
	KUNIT_CASE(dump_is_readable),
	KUNIT_CASE(tables_fit),
	{}
};

static struct kunit_suite menu_ng_suite = {
	.name = "menu_ng",
	.init = menu_ng_test_init,
	.test_cases = menu_ng_cases,
};

kunit_test_suite(menu_ng_suite);
