// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of the weighted draw of wteo: it follows weights and seed, counts all
 * states by their number, ages, and asks TEO first if told so.
 */
#include <kunit/test.h>

#include "wteo_bench_kunit.h"

/* Plays the same intervals again; returns a hash of the decisions. */
static u64 play(struct bench *b, u32 seed, u32 cpu)
{
	struct cil_decision d;
	u64 hash = 0;
	struct step s;
	u32 i;

	b->tunables.selection = WTEO_SAMPLE;
	b->tunables.seed = seed;
	b->machine.cpu = cpu;
	b->random = 1;
	b->now_ns = 1000 * MS;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	for (i = 0; i < 3000; i++) {
		bench_random_step(b, &s);
		bench_decide(b, &b->wteo, &s, &d);
		hash = (hash ^ d.index ^ d.stop_tick << 4) *
		       0x100000001b3ULL;
		bench_random_outcome(b, &s, 0);
		wteo_policy.update(&b->wteo, &b->machine, &b->tunables,
				   &s.outcome);
	}
	return hash;
}

/* The draw depends on the seed and the CPU, and on nothing else. */
static void draws_repeat_by_seed(struct kunit *test)
{
	struct bench *b = bench_new(test, 7);
	u64 hash = play(b, 1, 0);

	KUNIT_EXPECT_EQ(test, hash, play(b, 1, 0));
	KUNIT_EXPECT_NE(test, hash, play(b, 2, 0));
	KUNIT_EXPECT_NE(test, hash, play(b, 1, 1));
}

/* Fills the row of one of TEO's choices, as if it had learned for long. */
static void fill_choice(struct bench *b, u32 choice, const u32 *weights)
{
	u32 n = b->machine.state_count;
	struct wteo_cell *cells;
	struct wteo_row *row;
	u32 slot, k;

	bench_sleep(b, 100 * MS, 100 * MS, false);
	for (slot = 1; slot < WTEO_ROWS; slot++)
		b->wteo.rows.heads[slot].key = WTEO_KEY_CHOICE | choice;
	for (slot = 1; slot < WTEO_ROWS; slot++) {
		row = &b->wteo.rows.heads[slot];
		cells = b->wteo.rows.cells + slot * (n + 1);
		row->total = 0;
		row->next = 1;
		row->learned = wteo_steps(b->now_ns);
		for (k = 0; k <= n; k++) {
			cells[k].weight = weights[k];
			row->total += weights[k];
		}
	}
}

static struct cil_decision draw(struct bench *b, u32 disabled, u64 later_ns)
{
	struct cil_decision d;
	struct step s = {
		.query = {
			.now_ns = b->now_ns + later_ns,
			.latency_req_ns = CIL_TIME_MAX,
			.disabled = disabled,
		},
		.sleep_length_ns = 100 * MS,
		.delta_tick_ns = 3 * MS,
	};

	bench_decide(b, &b->wteo, &s, &d);
	return d;
}

static const u32 some_weights[] = {
	0, CIL_ONE / 16, CIL_ONE / 8, CIL_ONE / 16, 0,
};

/* A new seed starts its sequence at the next draw, without a reset. */
static void a_new_seed_counts_at_once(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u64 expected = cil_random_seed(99, b->machine.cpu);

	b->tunables.selection = WTEO_SAMPLE;
	fill_choice(b, 3, some_weights);
	b->tunables.seed = 99;
	draw(b, 0, 0);
	cil_random(&expected);
	KUNIT_EXPECT_EQ(test, expected, b->wteo.random);
}

/* States are drawn as often as their weights say. */
static void draws_follow_weights(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 drawn[CIL_STATE_MAX] = { 0 };
	u32 i;

	b->tunables.selection = WTEO_SAMPLE;
	fill_choice(b, 3, some_weights);
	for (i = 0; i < 10000; i++) {
		struct cil_decision d = draw(b, 0, 0);

		KUNIT_ASSERT_EQ(test, CIL_REASON_WTEO_SAMPLE, d.reason);
		drawn[d.index]++;
	}
	KUNIT_EXPECT_EQ(test, 0, drawn[0]);
	KUNIT_EXPECT_LT(test, difference(drawn[1], 2500), 200);
	KUNIT_EXPECT_LT(test, difference(drawn[2], 5000), 200);
	KUNIT_EXPECT_LT(test, difference(drawn[3], 2500), 200);
}

/*
 * Numbers count all states, disabled ones, too: with state 1 disabled its draws
 * go to state 0 and not to a neighbour in a compacted list.
 */
static void draws_skip_disabled_by_number(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 drawn[CIL_STATE_MAX] = { 0 };
	u32 i;

	b->tunables.selection = WTEO_SAMPLE;
	fill_choice(b, 3, some_weights);
	for (i = 0; i < 10000; i++)
		drawn[draw(b, 1u << 1, 0).index]++;
	KUNIT_EXPECT_LT(test, difference(drawn[0], 2500), 200);
	KUNIT_EXPECT_EQ(test, 0, drawn[1]);
	KUNIT_EXPECT_LT(test, difference(drawn[2], 5000), 200);
}

/* After many half-lives nothing is drawn: the answer is TEO's. */
static void draws_age(struct kunit *test)
{
	static const u32 always_1[] = { 0, CIL_ONE / 4, 0, 0, 0 };
	struct bench *b = bench_new(test, 4);

	b->tunables.selection = WTEO_SAMPLE;
	fill_choice(b, 3, always_1);
	KUNIT_EXPECT_EQ(test, 1, draw(b, 0, 0).index);
	KUNIT_EXPECT_EQ(test, 3, draw(b, 0, 200 * 3600000ULL * MS).index);
}

/* A window that is not mostly short leaves the answer to TEO. */
static void window_triggers(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 drawn[2] = { 0 };
	struct cil_decision d;
	u32 i, phase;

	b->tunables.selection = WTEO_SAMPLE;
	b->tunables.history_size = 8;
	for (phase = 0; phase < 2; phase++) {
		for (i = 0; i < 400; i++) {
			d = bench_sleep(b, phase && i % 3 ? 5 * US : 30 * MS,
					900 * MS, false);
			drawn[phase] += is_own(&d);
		}
	}
	KUNIT_EXPECT_EQ(test, 0, drawn[0]);
	KUNIT_EXPECT_GT(test, drawn[1], 0);
}

/*
 * TEO's choice of state 3 with the tick stopped, corrected by a row in which
 * only one column has weight.
 */
static struct cil_decision corrected(struct bench *b, u32 column,
				     const struct cil_query *query)
{
	struct cil_decision d = { .index = 3, .stop_tick = true };
	u32 n = b->machine.state_count;
	struct wteo_cell *cells = wteo_cells(&b->wteo.rows, n, 1);

	memset(cells, 0, (n + 1) * sizeof(*cells));
	cells[column].weight = 1;
	b->wteo.rows.heads[1].total = 1;
	b->wteo.interval.slot = 1;
	wteo_draw(&b->wteo, &b->machine, &b->tunables, query, &d);
	return d;
}

static struct cil_query a_query(void)
{
	return (struct cil_query){
		.latency_req_ns = CIL_TIME_MAX,
		.asked = true,
		.sleep_length_ns = 100 * MS,
		.delta_tick_ns = 3 * MS,
	};
}

/* The state of the column that was drawn, if it is shallower and usable. */
static void the_drawn_state_is_used(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_query query = a_query();
	struct cil_decision d = corrected(b, 2, &query);

	KUNIT_EXPECT_EQ(test, d.index, 2);
	KUNIT_EXPECT_EQ(test, d.row, 1);
	KUNIT_EXPECT_EQ(test, d.reason, CIL_REASON_WTEO_SAMPLE);
	KUNIT_EXPECT_FALSE(test, d.stop_tick);
	KUNIT_EXPECT_EQ(test, corrected(b, 1, &query).index, 1);
	KUNIT_EXPECT_EQ(test, corrected(b, 0, &query).index, 0);
	d = corrected(b, 3, &query);
	KUNIT_EXPECT_EQ(test, d.index, 3);
	KUNIT_EXPECT_TRUE(test, d.stop_tick);

	query.latency_req_ns = 10 * US;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 2);
	KUNIT_EXPECT_EQ(test, corrected(b, 4, &query).index, 3);
	query.latency_req_ns--;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 1);
}

/* Where neither it nor a shallower one is usable, the next deeper one is. */
static void the_drawn_state_may_be_unusable(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_query query = a_query();

	query.disabled = 0x3;
	KUNIT_EXPECT_EQ(test, corrected(b, 0, &query).index, 2);
	KUNIT_EXPECT_EQ(test, corrected(b, 1, &query).index, 2);
	query.disabled = 0x7;
	KUNIT_EXPECT_EQ(test, corrected(b, 1, &query).index, 3);
}

/* With the tick stopped TEO's choice stands, if a mistake would be for long. */
static void a_stopped_tick_forbids_the_draw(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_query query = a_query();

	query.tick_stopped = true;
	query.sleep_length_ns = 2 * b->machine.tick_ns;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 2);
	KUNIT_EXPECT_TRUE(test, corrected(b, 2, &query).stop_tick);
	query.sleep_length_ns++;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 3);
	KUNIT_EXPECT_NE(test, corrected(b, 2, &query).reason,
			CIL_REASON_WTEO_SAMPLE);
	b->machine.states[2].target_residency_ns = b->machine.tick_ns;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 2);
	b->machine.states[2].target_residency_ns--;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 3);
}

/* The tick is kept for a state that polls or pays within its period. */
static void short_draws_keep_the_tick(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_query query = a_query();

	b->machine.states[0].target_residency_ns = 5 * MS;
	KUNIT_EXPECT_FALSE(test, corrected(b, 0, &query).stop_tick);
	b->machine.states[0].polling = false;
	KUNIT_EXPECT_TRUE(test, corrected(b, 0, &query).stop_tick);
	b->machine.states[0].target_residency_ns = b->machine.tick_ns;
	KUNIT_EXPECT_TRUE(test, corrected(b, 0, &query).stop_tick);
	b->machine.states[0].target_residency_ns--;
	KUNIT_EXPECT_FALSE(test, corrected(b, 0, &query).stop_tick);
}

/* A kept tick is a limit, if it is known; the shallowest state is the last. */
static void a_near_tick_limits_the_draw(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_query query = a_query();

	query.delta_tick_ns = 20 * US;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 2);
	query.delta_tick_ns--;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 1);
	query.delta_tick_ns = 2 * US;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 1);
	query.delta_tick_ns--;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 0);
	query.delta_tick_ns = -1;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 0);
	query.disabled = 0x1;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 1);
	query.disabled = 0x3;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 2);
	query.disabled = 0;
	query.asked = false;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 2);
}

/* More than half of the window must be shorter than TEO's choice. */
static void half_of_the_window_is_not_most(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_query query = a_query();

	b->tunables.history_size = 4;
	b->wteo.window.size = 4;
	b->wteo.window.count[0] = 1;
	b->wteo.window.count[2] = 1;
	b->wteo.window.count[3] = 2;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 3);
	b->wteo.window.count[1] = 1;
	b->wteo.window.count[3] = 1;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 2);
	/* The window of another size says nothing. */
	b->tunables.history_size = 5;
	KUNIT_EXPECT_EQ(test, corrected(b, 2, &query).index, 3);
}

static struct kunit_case wteo_draw_cases[] = {
	KUNIT_CASE(draws_repeat_by_seed),
	KUNIT_CASE(a_new_seed_counts_at_once),
	KUNIT_CASE(draws_follow_weights),
	KUNIT_CASE(draws_skip_disabled_by_number),
	KUNIT_CASE(draws_age),
	KUNIT_CASE(window_triggers),
	KUNIT_CASE(the_drawn_state_is_used),
	KUNIT_CASE(the_drawn_state_may_be_unusable),
	KUNIT_CASE(a_stopped_tick_forbids_the_draw),
	KUNIT_CASE(short_draws_keep_the_tick),
	KUNIT_CASE(a_near_tick_limits_the_draw),
	KUNIT_CASE(half_of_the_window_is_not_most),
	{}
};

static struct kunit_suite wteo_draw_suite = {
	.name = "wteo_draw",
	.test_cases = wteo_draw_cases,
};

kunit_test_suite(wteo_draw_suite);
