// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of steps 2 to 7 of wteo's decision, each at its edge, with a base
 * row that is made for it:
 *
 * - the row of a condition has one of two places;
 * - the mean decides, from the break-even point of a state on;
 * - of an interval that goes on, columns that are over are left out, and time
 *   that has passed is taken off the others;
 * - an interval that outlasts all columns is taken to last as long again;
 * - the tick is stopped if that is cheaper, the work included, and a stopped
 *   one is no trap;
 * - where a neighbour is disabled, costs are compared;
 * - a refused state is asked again.
 */
#include <kunit/test.h>

#include "wteo_bench_kunit.h"

/* A weight that makes the time of a cell a sixteenth of its nanoseconds. */
#define ONE	(1u << 24)

/* Begins again, with a base row that is empty. */
static struct bench *bench_empty(struct bench *b)
{
	struct wteo_row *base = bench_row(b, WTEO_BASE);

	/* The edges are at the break-even points themselves. */
	b->tunables.latency_bias = 0;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	/* Without what it begins with. */
	memset(base->cells, 0, 5 * sizeof(struct wteo_cell));
	base->total = 0;
	base->time = 0;
	base->next = 1;
	base->learned = wteo_steps(b->now_ns);
	return b;
}

/* A CPU with four states (0, 2, 20, 100 us), and a base row that is empty. */
static struct bench *bench_with_base(struct kunit *test)
{
	return bench_empty(bench_new(test, 4));
}

/* Gives the base row a column; what it had there is gone. */
static void give(struct bench *b, u32 column, u32 weight, u32 mean_ns)
{
	struct wteo_row *base = bench_row(b, WTEO_BASE);
	struct wteo_cell *cell = &base->cells[column];
	u32 time = wteo_product(weight, mean_ns);

	base->total += weight - cell->weight;
	base->time += time - cell->time;
	cell->weight = weight;
	cell->time = time;
}

/* Adds to the time of a column of the base row. */
static void give_time(struct bench *b, u32 column, u32 time)
{
	bench_cells(b, WTEO_BASE)[column].time += time;
	bench_row(b, WTEO_BASE)->time += time;
}

/* Decides about an interval that has lasted for some time, with such timers. */
static struct cil_decision ask_by_tick(struct bench *b, struct cil_query query,
				       s64 passed_ns, s64 sleep_length_ns,
				       s64 delta_tick_ns)
{
	struct cil_decision d;
	struct step s = {
		.query = query,
		.sleep_length_ns = sleep_length_ns,
		.delta_tick_ns = delta_tick_ns,
	};

	s.query.now_ns = b->now_ns;
	if (!query.latency_req_ns)
		s.query.latency_req_ns = CIL_TIME_MAX;
	b->wteo.began_ns = b->now_ns - passed_ns;
	b->wteo.open = passed_ns > 0;
	b->wteo.slot = 1;
	b->wteo.key = WTEO_KEY_HISTORY;
	bench_decide(b, &b->wteo, &s, &d);
	return d;
}

/* The same, and a tick that is running comes in 3 ms. */
static struct cil_decision ask(struct bench *b, struct cil_query query,
			       s64 passed_ns, s64 sleep_length_ns)
{
	return ask_by_tick(b, query, passed_ns, sleep_length_ns,
			   query.tick_stopped ? sleep_length_ns : 3 * MS);
}

static const struct cil_query running;
static const struct cil_query stopped = { .tick_stopped = true };

/* With the timer as near as the tick: what is unseen adds less than 200 ns. */
static u32 choose(struct bench *b, s64 passed_ns)
{
	return ask(b, running, passed_ns, 3 * MS).index;
}

/* A state is chosen from its break-even point on, if it may be used. */
static void the_mean_has_edges(struct kunit *test)
{
	static const struct cil_query limited = {
		.latency_req_ns = 10 * US,
	};
	struct cil_query tighter = limited;
	struct bench *b = bench_with_base(test);

	give(b, 2, ONE, 20 * US);
	KUNIT_EXPECT_EQ(test, 2, choose(b, 0));
	give(b, 2, ONE, 20 * US - 200);
	KUNIT_EXPECT_EQ(test, 1, choose(b, 0));
	give(b, 3, 9 * ONE, 1 * MS);
	KUNIT_EXPECT_EQ(test, 3, choose(b, 0));
	KUNIT_EXPECT_EQ(test, 2, ask(b, limited, 0, 3 * MS).index);
	tighter.latency_req_ns--;
	KUNIT_EXPECT_EQ(test, 1, ask(b, tighter, 0, 3 * MS).index);
}

/* Intervals of no length at all count with their full weight. */
static void nothing_is_over_at_the_begin(struct kunit *test)
{
	struct bench *b = bench_with_base(test);

	give(b, 0, ONE, 0);
	give(b, 2, ONE / 4, 50 * US);
	/* 10 us on average. */
	KUNIT_EXPECT_EQ(test, 1, choose(b, 0));
}

/* The bins of two states; what has passed is taken off, what is over is gone. */
static void time_that_passed_is_taken_off(struct kunit *test)
{
	struct bench *b = bench_with_base(test);

	/* 5 us are left, although the bin of 20 to 100 us is not half over. */
	give(b, 2, ONE, 50 * US);
	KUNIT_EXPECT_EQ(test, 1, choose(b, 45 * US));
	/* Its mean has passed: as long again. */
	KUNIT_EXPECT_EQ(test, 2, choose(b, 50 * US));
	KUNIT_EXPECT_EQ(test, 3, choose(b, 100 * US));
	give(b, 2, ONE, 56 * US);
	KUNIT_EXPECT_EQ(test, 1, choose(b, 45 * US));

	/* Timers end one in 1024, 3 us on average; they have no bin. */
	give(b, 4, ONE / 1024, 0);
	b->machine.states[4].target_residency_ns = 1000 * MS;
	KUNIT_EXPECT_EQ(test, 1, choose(b, 45 * US));
	give(b, 2, ONE, 64 * US);
	KUNIT_EXPECT_EQ(test, 2, choose(b, 45 * US));
}

/* A bin whose mean has passed is memoryless: 3/8 of it outlast each mean. */
static void a_mean_that_passed_is_not_the_end(struct kunit *test)
{
	struct bench *b = bench_with_base(test);

	give(b, 2, ONE, 40 * US);
	give(b, 3, ONE / 64, 400 * US);
	/* 3/8 for 40 us, 1/64 for 320 us: 51 us on average. */
	KUNIT_EXPECT_EQ(test, 2, choose(b, 80 * US - 1 * US));
	/* 9/64 for 40 us, and the same: 68 us. */
	KUNIT_EXPECT_EQ(test, 2, choose(b, 80 * US));
	/* It is over: 1/64 for 300 us. */
	KUNIT_EXPECT_EQ(test, 3, choose(b, 100 * US));
	/* The same, 1/32 for 320 us: 91 us; then 1/24 for 320 us: 104 us. */
	give(b, 3, ONE / 32, 400 * US);
	KUNIT_EXPECT_EQ(test, 2, choose(b, 80 * US));
	give(b, 3, ONE / 24, 400 * US);
	KUNIT_EXPECT_EQ(test, 3, choose(b, 80 * US));
	/* Intervals of no length are over. */
	give(b, 2, ONE, 0);
	KUNIT_EXPECT_EQ(test, 3, choose(b, 80 * US));
}

/* The last bin does not end: beyond its begin the rest stays what it was. */
static void the_last_bin_never_ends(struct kunit *test)
{
	struct bench *b = bench_with_base(test);

	give(b, 3, ONE, 1 * MS);
	KUNIT_EXPECT_EQ(test, 3, choose(b, 50 * US));
	give(b, 3, ONE, 195 * US);
	KUNIT_EXPECT_EQ(test, 3, choose(b, 90 * US));
	KUNIT_EXPECT_EQ(test, 2, choose(b, 98 * US));
	KUNIT_EXPECT_EQ(test, 2, choose(b, 190 * US));

	/* Up to the mean; then as long again. */
	give(b, 3, ONE, 150 * US);
	KUNIT_EXPECT_EQ(test, 2, choose(b, 150 * US));
	KUNIT_EXPECT_EQ(test, 3, choose(b, 150 * US + 64));
}

/* One in 128 that may last so long is enough to go by. */
static void one_in_128_is_known(struct kunit *test)
{
	struct bench *b = bench_with_base(test);

	give(b, 0, ONE - ONE / 128, 1 * US);
	give(b, 3, ONE / 128, 150 * US);
	KUNIT_EXPECT_EQ(test, 3, choose(b, 50 * US));
	give(b, 0, ONE - ONE / 128 + 1, 1 * US);
	give(b, 3, ONE / 128 - 1, 150 * US);
	KUNIT_EXPECT_EQ(test, 2, choose(b, 50 * US));
}

/* An interval that ends with the tick is not late. */
static void late_is_beyond_the_tick(struct kunit *test)
{
	struct bench *b = bench_with_base(test);

	give(b, 3, ONE, 3 * MS);
	KUNIT_EXPECT_FALSE(test, ask(b, running, 0, 100 * MS).stop_tick);
	give(b, 3, ONE, 3 * MS + 100 * US);
	KUNIT_EXPECT_TRUE(test, b->wteo.keeps_tick);
	KUNIT_EXPECT_TRUE(test, ask(b, running, 0, 100 * MS).stop_tick);
	KUNIT_EXPECT_FALSE(test, b->wteo.keeps_tick);
	ask(b, stopped, 0, 100 * MS);
	KUNIT_EXPECT_FALSE(test, b->wteo.keeps_tick);
	/* A tick that comes with the timer is not told apart from it. */
	KUNIT_EXPECT_FALSE(test, ask(b, running, 0, 3 * MS).stop_tick);
}

/* To stop the tick pays from where it saves more than its own work. */
static void stopping_takes_work(struct kunit *test)
{
	struct bench *b = bench_with_base(test);
	const struct cil_cost *costs = b->wteo.costs;
	/* Else there are wake-ups to two states, and state 1 is cheapest then. */
	u32 rest_ns = (u32)cil_divide((u64)costs[0].power * 5 * US - costs[1].entry,
				      costs[1].power - costs[3].power);

	KUNIT_EXPECT_GT(test, rest_ns, 2 * US);
	KUNIT_EXPECT_LT(test, rest_ns, 20 * US);
	give(b, 3, ONE, 3 * MS + rest_ns - 200);
	KUNIT_EXPECT_FALSE(test, ask(b, running, 0, 4 * MS).stop_tick);
	give(b, 3, ONE, 3 * MS + rest_ns + 200);
	KUNIT_EXPECT_TRUE(test, ask(b, running, 0, 4 * MS).stop_tick);
}

/* Less than one late interval in 128 never stops it; one in 16384 is unseen. */
static void one_in_128_is_late(struct kunit *test)
{
	static const struct cil_query deepest = { .disabled = 0x7 };
	struct bench *b = bench_new(test, 4);
	u32 unseen = ONE >> 14;
	u32 late = (ONE + unseen) / 128 - unseen;

	/* A state whose wake-up costs milliseconds at full power. */
	b->machine.states[3].target_residency_ns = 50 * MS;
	b = bench_empty(b);
	give(b, 2, ONE - late, 90 * US);
	give(b, 3, late, 50 * MS);
	KUNIT_EXPECT_TRUE(test, ask(b, deepest, 0, 100 * MS).stop_tick);
	give(b, 2, ONE - late + 1, 90 * US);
	give(b, 3, late - 1, 50 * MS);
	KUNIT_EXPECT_FALSE(test, ask(b, deepest, 0, 100 * MS).stop_tick);
}

/* An interval that would outlast the timer ends with it. */
static void a_near_timer_ends_all(struct kunit *test)
{
	struct bench *b = bench_with_base(test);

	give(b, 2, ONE, 60 * US);
	KUNIT_EXPECT_EQ(test, 0, ask(b, stopped, 0, 1 * US).index);
	KUNIT_EXPECT_EQ(test, 1, ask(b, stopped, 0, 10 * US).index);
	KUNIT_EXPECT_EQ(test, 2, ask(b, stopped, 0, 30 * US).index);
	give(b, 2, ONE / 2, 60 * US);
	give(b, 3, ONE / 2, 500 * US);
	KUNIT_EXPECT_EQ(test, 1, ask(b, stopped, 0, 15 * US).index);
	/* A mean of 20 us: 10 us of a half, the timer for two quarters. */
	give(b, 1, ONE / 2, 10 * US);
	give(b, 2, ONE / 4, 60 * US);
	give(b, 3, ONE / 4, 500 * US);
	KUNIT_EXPECT_EQ(test, 1, ask(b, stopped, 0, 29900).index);
	KUNIT_EXPECT_EQ(test, 2, ask(b, stopped, 0, 30000).index);
}

/* One in four lasts, but a deep state for all costs more than to be asked again. */
static void costs_keep_the_tick(struct kunit *test)
{
	struct bench *b = bench_with_base(test);
	struct cil_decision d;

	give(b, 1, ONE / 4 * 3, 10 * US);
	give(b, 3, ONE / 4, 50 * MS);
	d = ask_by_tick(b, running, 0, 100 * MS, 15 * US);
	KUNIT_EXPECT_FALSE(test, d.stop_tick);
	KUNIT_EXPECT_EQ(test, 1, d.index);
}

/* With the tick in 30 us, each column counts once, whether it ends before or after. */
static void columns_may_end_after_the_tick(struct kunit *test)
{
	struct bench *b = bench_with_base(test);
	struct cil_decision d;

	/* A mean of 57 us. */
	give(b, 1, ONE / 16, 10 * US);
	give(b, 2, ONE / 16 * 15, 60 * US);
	d = ask_by_tick(b, running, 0, 100 * MS, 30 * US);
	KUNIT_EXPECT_TRUE(test, d.stop_tick);
	KUNIT_EXPECT_EQ(test, 2, d.index);
	/* And of 88 us, of which 56 us are in the last column. */
	give(b, 2, ONE / 16 * 10, 50 * US);
	give(b, 3, ONE / 16 * 5, 180 * US);
	d = ask_by_tick(b, running, 0, 100 * MS, 30 * US);
	KUNIT_EXPECT_TRUE(test, d.stop_tick);
	KUNIT_EXPECT_EQ(test, 2, d.index);
}

/* With the tick kept, the state has to pay in the time before it. */
static void a_kept_tick_shortens_the_mean(struct kunit *test)
{
	struct bench *b = bench_with_base(test);
	u32 unseen = ONE >> 14;
	u32 before_tick = wteo_product(unseen, 3 * MS);

	give(b, 2, ONE, 0);
	give_time(b, 2, wteo_product(ONE + unseen, 20 * US) - before_tick);
	KUNIT_EXPECT_EQ(test, 2, ask(b, running, 0, 100 * MS).index);
	KUNIT_EXPECT_FALSE(test, ask(b, running, 0, 100 * MS).stop_tick);
	give_time(b, 2, -1);
	KUNIT_EXPECT_EQ(test, 1, ask(b, running, 0, 100 * MS).index);
}

/* With the tick stopped, one in 256 is taken to last until the timer. */
static void traps_have_edges(struct kunit *test)
{
	struct bench *b = bench_with_base(test);

	give(b, 1, ONE, 5 * US);
	/* A mean of 20 us: 256 * 15 + 20 us. */
	KUNIT_EXPECT_EQ(test, 1, ask(b, stopped, 0, 3850 * US).index);
	KUNIT_EXPECT_EQ(test, 2, ask(b, stopped, 0, 3870 * US).index);
	/* And of 100 us. */
	KUNIT_EXPECT_EQ(test, 2, ask(b, stopped, 0, 24400 * US).index);
	KUNIT_EXPECT_EQ(test, 3, ask(b, stopped, 0, 24440 * US).index);
	KUNIT_EXPECT_EQ(test, 1, ask(b, running, 0, 24420 * US).index);
}

/* The time beyond a second counts by as much. */
static void distant_timers_count(struct kunit *test)
{
	struct bench *b = bench_empty(bench_new(test, CIL_STATE_MAX));

	memset(bench_cells(b, WTEO_BASE), 0,
	       WTEO_COLUMNS * sizeof(struct wteo_cell));
	give(b, 1, ONE, 5 * US);
	/* A mean of 5 ms: 256 * 4995 + 5 us. */
	KUNIT_EXPECT_EQ(test, 6, ask(b, stopped, 0, 1270 * MS).index);
	KUNIT_EXPECT_EQ(test, 7, ask(b, stopped, 0, 1290 * MS).index);
}

/* Nothing came before timers of 30 us: nothing comes before one of 1 ms either. */
static void timers_are_believed(struct kunit *test)
{
	struct bench *b = bench_with_base(test);

	/* Each eighth of the time is of an interval that had no length. */
	give(b, 0, ONE / 7, 0);
	give(b, 4, ONE, 28 * US);
	KUNIT_EXPECT_EQ(test, 3, choose(b, 0));
	/* A state that the timer cuts short is not taken. */
	KUNIT_EXPECT_EQ(test, 2, ask(b, stopped, 0, 99 * US).index);
}

/* Without state 2, state 3 is taken from where it costs less than state 1. */
static void costs_decide_without_a_neighbour(struct kunit *test)
{
	static const struct cil_query without = { .disabled = 1u << 2 };
	struct bench *b = bench_with_base(test);
	const struct cil_cost *costs = b->wteo.costs;
	s64 edge_ns = (s64)cil_divide(costs[3].entry - costs[1].entry,
				      costs[1].power - costs[3].power);

	KUNIT_EXPECT_LT(test, edge_ns, 90 * US);
	give(b, 2, ONE, edge_ns - 300);
	KUNIT_EXPECT_EQ(test, 1, ask(b, without, 0, 3 * MS).index);
	give(b, 2, ONE, edge_ns + 300);
	KUNIT_EXPECT_EQ(test, 3, ask(b, without, 0, 3 * MS).index);
	/* Never if the timer is due sooner than it pays. */
	KUNIT_EXPECT_EQ(test, 1, ask(b, without, 0, 99 * US).index);
	KUNIT_EXPECT_EQ(test, 3, ask(b, without, 0, 100 * US).index);
}

/* The column of the timer is not over when all others are. */
static void the_timer_outlasts_all(struct kunit *test)
{
	struct bench *b = bench_with_base(test);

	give(b, 0, ONE, 1 * US);
	give(b, 4, ONE, 0);
	KUNIT_EXPECT_EQ(test, 3, ask(b, running, 50 * US, 120 * US).index);
}

/* A refused state does not end the interval, a task that ran does. */
static void refusals_go_on(struct kunit *test)
{
	struct bench *b = bench_with_base(test);
	u64 began_ns = b->now_ns;
	struct cil_decision d;
	struct step s = {
		.query = { .latency_req_ns = CIL_TIME_MAX },
		.sleep_length_ns = 3 * MS,
		.delta_tick_ns = 3 * MS,
	};

	give(b, 2, ONE, 50 * US);
	ask(b, running, 0, 3 * MS);
	s.query.now_ns = began_ns + 100 * US;
	bench_decide(b, &b->wteo, &s, &d);
	KUNIT_EXPECT_EQ(test, began_ns, b->wteo.began_ns);
	s.query.now_ns += 1;
	s.query.left = true;
	bench_decide(b, &b->wteo, &s, &d);
	KUNIT_EXPECT_EQ(test, s.query.now_ns, b->wteo.began_ns);
}

/* The row for such a timer, with what is in them now. */
static u32 slot_for(struct bench *b, s64 sleep_length_ns)
{
	ask(b, running, 0, sleep_length_ns);
	return b->wteo.slot;
}

/* The row taken for the condition, with such keys in its two places. */
static u32 slot_with(struct bench *b, u32 intervals, const u32 *places, u32 key,
		     u32 other_key)
{
	bench_row(b, places[0])->key = key;
	bench_row(b, places[1])->key = other_key;
	b->wteo.intervals = intervals;
	return slot_for(b, 100 * MS);
}

/* Its own place, else a free one; where both are taken, now this, now that. */
static void a_condition_has_two_places(struct kunit *test)
{
	struct bench *b = bench_with_base(test);
	u32 key, foreign = 0x1234;
	u32 places[2];

	give(b, 1, ONE, 5 * US);
	places[0] = slot_for(b, 100 * MS);
	key = b->wteo.key;
	bench_row(b, places[0])->key = foreign;
	places[1] = slot_for(b, 100 * MS);
	KUNIT_ASSERT_NE(test, places[0], places[1]);

	KUNIT_EXPECT_EQ(test, places[0], slot_with(b, 0, places, key, 0));
	KUNIT_EXPECT_EQ(test, places[0], slot_with(b, 1, places, key, foreign));
	KUNIT_EXPECT_EQ(test, places[1], slot_with(b, 0, places, foreign, key));
	KUNIT_EXPECT_EQ(test, places[1], slot_with(b, 0, places, 0, key));
	KUNIT_EXPECT_EQ(test, places[0], slot_with(b, 1, places, 0, foreign));
	KUNIT_EXPECT_EQ(test, places[1], slot_with(b, 0, places, foreign, 0));
	KUNIT_EXPECT_EQ(test, places[0],
			slot_with(b, 0, places, foreign, foreign));
	KUNIT_EXPECT_EQ(test, places[1],
			slot_with(b, 1, places, foreign, foreign));
}

/* Places of keys are spread over all rows, and the other place is the neighbour's. */
static void places_are_spread(struct kunit *test)
{
	struct bench *b = bench_with_base(test);
	u64 first = 0, second = 0;
	u32 i;

	give(b, 1, ONE, 5 * US);
	b->wteo.intervals = 0;
	for (i = 0; i < 30 * 16; i++) {
		u32 slot, other;

		b->wteo.history = WTEO_KEY_HISTORY | (i / 30 % 4) << 8 |
				  (i / 120) << 12;
		slot = slot_for(b, (1LL << (i % 30)));
		bench_row(b, slot)->key = 0x1234;
		other = slot_for(b, (1LL << (i % 30)));
		bench_row(b, slot)->key = 0;
		first |= 1ULL << slot;
		second |= 1ULL << other;
		KUNIT_EXPECT_EQ(test, (slot - 1) ^ 1, other - 1);
	}
	KUNIT_EXPECT_EQ(test, ((1ULL << WTEO_KEYED) - 1) << 1, first);
	KUNIT_EXPECT_EQ(test, ((1ULL << WTEO_KEYED) - 1) << 1, second);
}

static struct kunit_case wteo_outlook_cases[] = {
	KUNIT_CASE(the_mean_has_edges),
	KUNIT_CASE(nothing_is_over_at_the_begin),
	KUNIT_CASE(time_that_passed_is_taken_off),
	KUNIT_CASE(a_mean_that_passed_is_not_the_end),
	KUNIT_CASE(the_last_bin_never_ends),
	KUNIT_CASE(one_in_128_is_known),
	KUNIT_CASE(late_is_beyond_the_tick),
	KUNIT_CASE(stopping_takes_work),
	KUNIT_CASE(one_in_128_is_late),
	KUNIT_CASE(a_near_timer_ends_all),
	KUNIT_CASE(costs_keep_the_tick),
	KUNIT_CASE(columns_may_end_after_the_tick),
	KUNIT_CASE(a_kept_tick_shortens_the_mean),
	KUNIT_CASE(traps_have_edges),
	KUNIT_CASE(distant_timers_count),
	KUNIT_CASE(timers_are_believed),
	KUNIT_CASE(costs_decide_without_a_neighbour),
	KUNIT_CASE(the_timer_outlasts_all),
	KUNIT_CASE(refusals_go_on),
	KUNIT_CASE(a_condition_has_two_places),
	KUNIT_CASE(places_are_spread),
	{}
};

static struct kunit_suite wteo_outlook_suite = {
	.name = "wteo_outlook",
	.test_cases = wteo_outlook_cases,
};

kunit_test_suite(wteo_outlook_suite);
