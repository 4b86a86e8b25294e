// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of wteo_rfc, in the order of its DOC block:
 *
 * - a row begins with TEO's choice, sums to one exactly, and fades to TEO's
 *   choice;
 * - it follows the share of idle periods in which a state was right;
 * - the tick and the time limit of polling teach nothing;
 * - the window leaves the choice to TEO unless most of it was too short;
 * - the lot follows weights and seed, and counts all states by their number;
 * - the draw respects disabled states, latency requests, timer and tick.
 */
#include <kunit/test.h>

#include "../../../../kunit/include/cil_test_env.h"
#include "../../../../governors/common/fixed.h"
#include "../../../../governors/common/view.h"
#include "wteo_rfc.h"

#define US	CIL_NSEC_PER_USEC
#define MS	CIL_NSEC_PER_MSEC

/**
 * struct bench - one CPU under wteo_rfc
 * @machine: the idle states
 * @tunables: their defaults at first, but the window is off
 * @rfc: the policy's state
 * @query: of the next decision; a timer in 100 ms, a tick in 3 ms
 * @random: random sequence
 */
struct bench {
	struct cil_machine machine;
	struct wteo_rfc_tunables tunables;
	struct wteo_rfc rfc;
	struct cil_query query;
	u64 random;
};

static void start(struct bench *b)
{
	wteo_rfc_policy.init(&b->rfc, &b->machine, &b->tunables);
}

static struct bench *new_bench(struct kunit *test)
{
	static const s64 residencies_us[] = { 0, 2, 20, 100 };
	static const s64 latencies_us[] = { 0, 2, 10, 70 };
	struct bench *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);
	u32 *values;
	u32 k;

	KUNIT_ASSERT_NOT_NULL(test, b);
	values = (u32 *)&b->tunables;
	for (k = 0; k < wteo_rfc_policy.tunable_count; k++)
		values[k] = wteo_rfc_policy.tunables[k].def;
	b->tunables.history_size = 0;
	b->machine.tick_ns = 4 * MS;
	b->machine.state_count = 4;
	for (k = 0; k < 4; k++) {
		b->machine.states[k].exit_latency_ns = latencies_us[k] * US;
		b->machine.states[k].target_residency_ns = residencies_us[k] * US;
	}
	b->machine.states[0].polling = true;
	b->query.now_ns = 1000 * MS;
	b->query.latency_req_ns = CIL_TIME_MAX;
	b->random = cil_random_seed(1, 2);
	start(b);
	return b;
}

static struct cil_decision decide(struct bench *b, s64 timer_ns, s64 tick_ns)
{
	struct cil_query query = b->query;
	struct cil_decision d;

	cil_test_env_timer(timer_ns, tick_ns);
	wteo_rfc_policy.select(&b->rfc, &b->machine, &b->tunables, &query, &d);
	return d;
}

static void learn(struct bench *b, struct cil_outcome outcome)
{
	b->query.now_ns += outcome.residency_ns;
	outcome.now_ns = b->query.now_ns;
	wteo_rfc_policy.update(&b->rfc, &b->machine, &b->tunables, &outcome);
}

/* One idle period in the state that is chosen. */
static struct cil_decision sleep_for(struct bench *b, s64 slept_ns)
{
	struct cil_decision d = decide(b, 100 * MS, 3 * MS);

	learn(b, (struct cil_outcome){
		.residency_ns = (u64)slept_ns, .index = d.index,
	});
	return d;
}

/* Row 3, TEO's choice where no timer is near, has such weights. */
static void set_row(struct bench *b, u32 first, u32 second, u32 third)
{
	b->rfc.rows[3][0] = first;
	b->rfc.rows[3][1] = second;
	b->rfc.rows[3][2] = third;
	b->rfc.rows[3][3] = CIL_ONE - first - second - third;
	b->rfc.touched_ns[3] = b->query.now_ns;
}

/* Before anything was learned each row says what TEO says. */
static void rows_begin_with_teo(struct kunit *test)
{
	struct bench *b = new_bench(test);
	u32 i;

	for (i = 0; i < CIL_STATE_MAX; i++)
		KUNIT_EXPECT_EQ(test, CIL_ONE, b->rfc.rows[i][i]);
	KUNIT_EXPECT_EQ(test, 3, decide(b, 100 * MS, 3 * MS).index);
}

/* Rows sum to one after any history, and views of them to 10000. */
static void rows_sum_to_one(struct kunit *test)
{
	static const u32 rates[] = { 1, 100, 999, 1000 };
	u32 r, i, k;

	for (r = 0; r < ARRAY_SIZE(rates); r++) {
		struct bench *b = new_bench(test);

		b->tunables.learning_rate = rates[r];
		b->tunables.half_life_ms = 10;
		for (i = 0; i < 3000; i++)
			sleep_for(b, 1LL << (cil_random(&b->random) % 24));
		for (i = 0; i < 4; i++) {
			u16 view[CIL_STATE_MAX] = { 0 };
			u32 sum = 0, viewed = 0;

			for (k = 0; k < 4; k++)
				sum += b->rfc.rows[i][k];
			cil_view(b->rfc.rows[i], 1, 4, view);
			for (k = 0; k < 4; k++)
				viewed += view[k];
			KUNIT_EXPECT_EQ(test, CIL_ONE, sum);
			KUNIT_EXPECT_EQ(test, CIL_VIEW_ONE, viewed);
		}
	}
}

/* An idle period takes the learning rate of each weight, for its right state. */
static void a_period_weighs_the_rate(struct kunit *test)
{
	struct bench *b = new_bench(test);
	u16 view[CIL_STATE_MAX];

	set_row(b, 0, CIL_ONE / 2, 0);
	b->rfc.choice = 3;
	learn(b, (struct cil_outcome){ .residency_ns = 50 * US, .index = 1 });
	KUNIT_EXPECT_EQ(test, 3, wteo_rfc_policy.row_learned(&b->rfc, &b->machine,
							     view));
	KUNIT_EXPECT_EQ(test, 0, view[0]);
	KUNIT_EXPECT_EQ(test, 4500, view[1]);
	KUNIT_EXPECT_EQ(test, 1000, view[2]);
	KUNIT_EXPECT_EQ(test, 4500, view[3]);
}

/* A weight approaches the share of cases in which its state was right. */
static void weights_follow_shares(struct kunit *test)
{
	struct bench *b = new_bench(test);
	u32 i;

	b->tunables.learning_rate = 1;
	start(b);
	for (i = 0; i < 20000; i++) {
		b->rfc.choice = 3;
		learn(b, (struct cil_outcome){
			.residency_ns = i % 4 ? 1 * US : 5 * US,
		});
	}
	KUNIT_EXPECT_GT(test, b->rfc.rows[3][0], CIL_ONE / 100 * 73);
	KUNIT_EXPECT_LT(test, b->rfc.rows[3][0], CIL_ONE / 100 * 77);
	KUNIT_EXPECT_LT(test, b->rfc.rows[3][3], CIL_ONE / 10000);
}

/* Half of the latency is taken off; bins begin at the target residency. */
static void the_right_state_has_edges(struct kunit *test)
{
	static const struct {
		u64 slept_ns;
		u8 index, right;
	} cases[] = {
		{ 2 * US - 1, 0, 0 }, { 2 * US, 0, 1 }, { 100 * US - 1, 0, 2 },
		{ 100 * US, 0, 3 }, { 135 * US - 1, 3, 2 }, { 135 * US, 3, 3 },
		{ 36 * US, 3, 0 }, { 35 * US, 3, 1 }, { 70 * US, 3, 2 },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bench *b = new_bench(test);

		b->rfc.choice = 0;
		b->rfc.rows[0][0] = 0;
		learn(b, (struct cil_outcome){
			.residency_ns = cases[i].slept_ns,
			.index = cases[i].index,
		});
		KUNIT_EXPECT_GT(test, b->rfc.rows[0][cases[i].right], 0);
	}
}

/* The governor's own doings are no lesson. */
static void own_doings_teach_nothing(struct kunit *test)
{
	struct bench *b = new_bench(test);
	u16 view[CIL_STATE_MAX];

	b->rfc.choice = 3;
	learn(b, (struct cil_outcome){ .residency_ns = 1000, .tick_wakeup = true });
	KUNIT_EXPECT_EQ(test, CIL_ONE, b->rfc.rows[3][3]);
	learn(b, (struct cil_outcome){
		.residency_ns = 1000, .poll_time_limit = true,
	});
	KUNIT_EXPECT_EQ(test, CIL_ONE, b->rfc.rows[3][3]);
	KUNIT_EXPECT_EQ(test, -1, wteo_rfc_policy.row_learned(&b->rfc, &b->machine,
							      view));
}

/* After a half-life half is left, after many nothing; 0 is for ever. */
static void rows_fade_to_teo(struct kunit *test)
{
	static const struct {
		u32 half_life_ms, age_ms, left;
	} cases[] = {
		{ 60000, 0, CIL_ONE }, { 60000, 60000, CIL_ONE / 2 },
		{ 60000, 180000, CIL_ONE / 8 }, { 60000, 86400000, 0 },
		{ 0, 86400000, CIL_ONE }, { 3600000, 10800000, CIL_ONE / 8 },
		{ 86400000, 86400000, CIL_ONE / 2 },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bench *b = new_bench(test);

		set_row(b, CIL_ONE, 0, 0);
		b->tunables.half_life_ms = cases[i].half_life_ms;
		b->query.now_ns += cases[i].age_ms * (u64)MS;
		decide(b, 100 * MS, 3 * MS);
		KUNIT_EXPECT_LE(test, b->rfc.rows[3][0], cases[i].left);
		KUNIT_EXPECT_GE(test, b->rfc.rows[3][0] + 16, cases[i].left);
		KUNIT_EXPECT_EQ(test, CIL_ONE - b->rfc.rows[3][0],
				b->rfc.rows[3][3]);
	}
}

/* A 64th of the half-life is the least age that counts. */
static void young_rows_are_left_alone(struct kunit *test)
{
	struct bench *b = new_bench(test);

	set_row(b, CIL_ONE, 0, 0);
	b->tunables.half_life_ms = 64;
	b->query.now_ns += MS - 1;
	decide(b, 100 * MS, 3 * MS);
	KUNIT_EXPECT_EQ(test, b->rfc.rows[3][0], CIL_ONE);
	b->query.now_ns++;
	decide(b, 100 * MS, 3 * MS);
	KUNIT_EXPECT_LT(test, b->rfc.rows[3][0], CIL_ONE);
}

/* More than half of the window must be shorter than TEO's choice. */
static void half_of_the_window_is_not_most(struct kunit *test)
{
	struct bench *b = new_bench(test);
	u8 *count = b->rfc.window.count;

	b->tunables.history_size = 4;
	set_row(b, 0, CIL_ONE, 0);
	KUNIT_EXPECT_EQ(test, CIL_ROW_NONE, decide(b, 100 * MS, 3 * MS).row);
	count[0] = 1;
	count[2] = 1;
	count[3] = 2;
	KUNIT_EXPECT_EQ(test, 3, decide(b, 100 * MS, 3 * MS).index);
	count[1] = 1;
	count[3] = 1;
	KUNIT_EXPECT_EQ(test, 1, decide(b, 100 * MS, 3 * MS).index);
	/* A window of another size begins anew. */
	b->tunables.history_size = 5;
	KUNIT_EXPECT_EQ(test, 3, decide(b, 100 * MS, 3 * MS).index);
	KUNIT_EXPECT_EQ(test, 0, count[0]);
}

/* The window holds the last idle periods, and no more. */
static void the_window_forgets(struct kunit *test)
{
	struct bench *b = new_bench(test);
	u32 i;

	b->tunables.history_size = 4;
	for (i = 0; i < 6; i++)
		sleep_for(b, i < 3 ? 30 * MS : 1 * US);
	KUNIT_EXPECT_EQ(test, 1, b->rfc.window.count[3]);
	KUNIT_EXPECT_EQ(test, 3, b->rfc.window.count[0]);
}

/* States are drawn as often as weights say, by their number in the table. */
static void draws_follow_weights(struct kunit *test)
{
	struct bench *b = new_bench(test);
	u32 disabled;
	u32 i;

	for (disabled = 0; disabled < 4; disabled += 2) {
		u32 drawn[CIL_STATE_MAX] = { 0 };

		b->query.disabled = disabled;
		set_row(b, 0, CIL_ONE / 4, CIL_ONE / 2);
		for (i = 0; i < 4000; i++)
			drawn[decide(b, 100 * MS, 3 * MS).index]++;
		KUNIT_EXPECT_GT(test, drawn[disabled ? 0 : 1], 900);
		KUNIT_EXPECT_LT(test, drawn[disabled ? 0 : 1], 1100);
		KUNIT_EXPECT_EQ(test, 0, drawn[disabled ? 1 : 0]);
		KUNIT_EXPECT_GT(test, drawn[2], 1850);
		KUNIT_EXPECT_LT(test, drawn[2], 2150);
	}
}

/* A lot that is equal to the first weight is beyond it. */
static void weights_have_ends(struct kunit *test)
{
	struct bench *b = new_bench(test);
	u64 random = b->rfc.random;
	u32 lot = cil_scale(cil_random(&random) >> 2, CIL_ONE);

	set_row(b, lot, CIL_ONE - lot, 0);
	KUNIT_EXPECT_EQ(test, 1, decide(b, 100 * MS, 3 * MS).index);
	start(b);
	set_row(b, lot + 1, CIL_ONE - lot - 1, 0);
	KUNIT_EXPECT_EQ(test, 0, decide(b, 100 * MS, 3 * MS).index);
}

/* Sequences repeat by seed and CPU; a new seed counts at the next decision. */
static void draws_repeat_by_seed(struct kunit *test)
{
	struct bench *b = new_bench(test);
	u64 expected = cil_random_seed(99, b->machine.cpu);
	u64 first = b->rfc.random;

	start(b);
	KUNIT_EXPECT_EQ(test, first, b->rfc.random);
	b->machine.cpu = 1;
	start(b);
	KUNIT_EXPECT_NE(test, first, b->rfc.random);
	b->machine.cpu = 0;
	b->tunables.seed = 99;
	decide(b, 100 * MS, 3 * MS);
	cil_random(&expected);
	KUNIT_EXPECT_EQ(test, expected, b->rfc.random);
}

/* Unusable states give way to shallower ones, else to deeper ones. */
static void unusable_states_give_way(struct kunit *test)
{
	struct bench *b = new_bench(test);

	set_row(b, 0, CIL_ONE, 0);
	b->query.disabled = 0x3;
	KUNIT_EXPECT_EQ(test, 2, decide(b, 100 * MS, 3 * MS).index);
	b->query.disabled = 0x7;
	KUNIT_EXPECT_EQ(test, 3, decide(b, 100 * MS, 3 * MS).index);
	b->query.disabled = 0;
	set_row(b, 0, 0, CIL_ONE);
	b->rfc.rows[2][1] = CIL_ONE;
	b->rfc.rows[2][2] = 0;
	b->query.latency_req_ns = 10 * US;
	KUNIT_EXPECT_EQ(test, 1, decide(b, 100 * MS, 3 * MS).index);
	/* A latency that is equal to the request is within it. */
	b->machine.states[1].exit_latency_ns = 10 * US;
	KUNIT_EXPECT_EQ(test, 1, decide(b, 100 * MS, 3 * MS).index);
	b->machine.states[1].exit_latency_ns = 2 * US;
	b->query.latency_req_ns = 2 * US - 1;
	KUNIT_EXPECT_EQ(test, 0, decide(b, 100 * MS, 3 * MS).index);
}

/* With the tick stopped a shallow state could trap the CPU. */
static void a_stopped_tick_forbids_the_draw(struct kunit *test)
{
	struct bench *b = new_bench(test);

	set_row(b, 0, CIL_ONE, 0);
	b->query.tick_stopped = true;
	KUNIT_EXPECT_EQ(test, 1, decide(b, 8 * MS, 8 * MS).index);
	/* A stopped tick is not started again. */
	KUNIT_EXPECT_TRUE(test, decide(b, 8 * MS, 8 * MS).stop_tick);
	KUNIT_EXPECT_EQ(test, 3, decide(b, 8 * MS + 1, 8 * MS + 1).index);
	b->machine.states[1].target_residency_ns = 4 * MS;
	KUNIT_EXPECT_EQ(test, 1, decide(b, 8 * MS + 1, 8 * MS + 1).index);
}

/* A kept tick is a limit; polling keeps it. */
static void shallow_draws_keep_the_tick(struct kunit *test)
{
	struct bench *b = new_bench(test);
	struct cil_decision d;
	u32 i;

	/* TEO has seen that the timer is right, and would stop the tick. */
	for (i = 0; i < 8; i++)
		sleep_for(b, 100 * MS);
	set_row(b, 0, 0, CIL_ONE);
	d = decide(b, 100 * MS, 20 * US);
	KUNIT_EXPECT_EQ(test, 2, d.index);
	KUNIT_EXPECT_FALSE(test, d.stop_tick);
	KUNIT_EXPECT_EQ(test, 3, d.row);
	KUNIT_EXPECT_EQ(test, CIL_REASON_WTEO_SAMPLE, d.reason);
	KUNIT_EXPECT_EQ(test, 1, decide(b, 100 * MS, 20 * US - 1).index);
	KUNIT_EXPECT_EQ(test, 0, decide(b, 100 * MS, 2 * US - 1).index);
	set_row(b, CIL_ONE, 0, 0);
	KUNIT_EXPECT_FALSE(test, decide(b, 100 * MS, 3 * MS).stop_tick);
}

/* Where the lot says the same, TEO's answer about the tick stands. */
static void the_same_state_keeps_teos_tick(struct kunit *test)
{
	struct bench *b = new_bench(test);
	struct cil_decision d;
	u32 i;

	for (i = 0; i < 8; i++)
		sleep_for(b, 100 * MS);
	b->query.latency_req_ns = 10 * US;
	d = decide(b, 100 * MS, 3 * MS);
	KUNIT_EXPECT_EQ(test, 2, d.index);
	KUNIT_EXPECT_EQ(test, CIL_REASON_WTEO_SAMPLE, d.reason);
	KUNIT_EXPECT_TRUE(test, d.stop_tick);
}

static const s64 extremes[] = {
	-S64_MAX, -1, 0, 1, 1000, S64_MAX / 2, S64_MAX - 1, S64_MAX,
};

static s64 extreme(struct bench *b)
{
	return extremes[cil_random(&b->random) % ARRAY_SIZE(extremes)];
}

/* No number of 64 bits makes it overflow, divide by zero or leave its arrays. */
static void extremes_do_no_harm(struct kunit *test)
{
	struct bench *b = new_bench(test);
	u32 i, k, sum;

	for (i = 0; i < 20000; i++) {
		struct cil_decision d;

		b->query.now_ns = extreme(b);
		b->query.latency_req_ns = extreme(b);
		b->query.disabled = cil_random(&b->random);
		b->query.tick_stopped = cil_random(&b->random) & 1;
		b->tunables.half_life_ms = cil_random(&b->random) % 86400001;
		b->tunables.history_size = cil_random(&b->random) % 33;
		b->tunables.learning_rate = 1 + cil_random(&b->random) % 1000;
		b->machine.states[2].target_residency_ns = extreme(b);
		d = decide(b, extreme(b), extreme(b));
		KUNIT_ASSERT_LT(test, d.index, 4);
		learn(b, (struct cil_outcome){
			.residency_ns = extreme(b) & S64_MAX, .index = d.index,
		});
		for (k = 0, sum = 0; k < 4; k++)
			sum += b->rfc.rows[b->rfc.choice][k];
		KUNIT_ASSERT_EQ(test, CIL_ONE, sum);
	}
}

/* A dump has a line for each row. */
static void dump_shows_rows(struct kunit *test)
{
	struct bench *b = new_bench(test);
	struct cil_sink *sink = cil_test_env_sink();

	wteo_rfc_policy.dump(&b->rfc, &b->machine, &b->tunables, 0, sink);
	KUNIT_EXPECT_NOT_NULL(test, strstr(cil_test_env_text(),
					   "s3     0     0     0 10000\n"));
}

static struct kunit_case wteo_rfc_cases[] = {
	KUNIT_CASE(rows_begin_with_teo),
	KUNIT_CASE(rows_sum_to_one),
	KUNIT_CASE(a_period_weighs_the_rate),
	KUNIT_CASE(weights_follow_shares),
	KUNIT_CASE(the_right_state_has_edges),
	KUNIT_CASE(own_doings_teach_nothing),
	KUNIT_CASE(rows_fade_to_teo),
	KUNIT_CASE(young_rows_are_left_alone),
	KUNIT_CASE(half_of_the_window_is_not_most),
	KUNIT_CASE(the_window_forgets),
	KUNIT_CASE(draws_follow_weights),
	KUNIT_CASE(weights_have_ends),
	KUNIT_CASE(draws_repeat_by_seed),
	KUNIT_CASE(unusable_states_give_way),
	KUNIT_CASE(a_stopped_tick_forbids_the_draw),
	KUNIT_CASE(shallow_draws_keep_the_tick),
	KUNIT_CASE(the_same_state_keeps_teos_tick),
	KUNIT_CASE(extremes_do_no_harm),
	KUNIT_CASE(dump_shows_rows),
	{}
};

static struct kunit_suite wteo_rfc_suite = {
	.name = "wteo_rfc",
	.test_cases = wteo_rfc_cases,
};

kunit_test_suite(wteo_rfc_suite);
