// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of steps 3 to 8 of wteo's decision, each at its edge, with a base
 * row that is made for it:
 *
 * - the row of a condition has one of two places;
 * - the mean decides, from the break-even point of a state on;
 * - of an interval that goes on, columns that are over are left out, and time
 *   that has passed is taken off the others; what outlasts all is taken to last
 *   as long again;
 * - the tick is stopped if a quarter is late, and a stopped one traps nobody;
 * - what is expected to be short needs no timer.
 */
#include <kunit/test.h>

#include "wteo_bench_kunit.h"

/* A weight that makes the time of a cell a sixteenth of its nanoseconds. */
#define ONE	(1u << 24)

/* A CPU with four states (0, 2, 20, 100 us), and a base row that is empty. */
static struct bench *bench_with_base(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct wteo_row *base = &b->wteo.rows.heads[WTEO_BASE];

	base->next = 1;
	base->learned = wteo_steps(b->now_ns);
	b->wteo.base_knows = true;
	b->wteo.teo_follows = false;
	return b;
}

/* Gives the base row a column; what it had there is gone. */
static void give(struct bench *b, u32 column, u32 weight, u32 mean_ns)
{
	struct wteo_cell *cell = &b->wteo.rows.cells[column];

	b->wteo.rows.heads[WTEO_BASE].total += weight - cell->weight;
	cell->weight = weight;
	cell->time = wteo_product(weight, mean_ns);
}

/* Decides about an interval that has lasted for some time, with such timers. */
static struct cil_decision ask(struct bench *b, struct cil_query query,
			       s64 passed_ns, s64 sleep_length_ns)
{
	struct cil_decision d;
	struct step s = {
		.query = query,
		.sleep_length_ns = sleep_length_ns,
		.delta_tick_ns = query.tick_stopped ? sleep_length_ns : 3 * MS,
	};

	s.query.now_ns = b->now_ns;
	if (!query.latency_req_ns)
		s.query.latency_req_ns = CIL_TIME_MAX;
	b->wteo.interval.began_ns = b->now_ns - passed_ns;
	b->wteo.interval.resumed = passed_ns > 0;
	b->wteo.interval.slot = 1;
	b->wteo.interval.key = WTEO_KEY_HISTORY;
	bench_decide(b, &b->wteo, &s, &d);
	return d;
}

static const struct cil_query running;
static const struct cil_query stopped = { .tick_stopped = true };

/* With the tick stopped, and the timer so near that it traps nobody. */
static u32 choose(struct bench *b, s64 passed_ns)
{
	return ask(b, stopped, passed_ns, 8 * MS).index;
}

/* A state is chosen from its break-even point on, if it may be used. */
static void the_mean_has_edges(struct kunit *test)
{
	static const struct cil_query limited = {
		.tick_stopped = true,
		.latency_req_ns = 10 * US,
	};
	struct cil_query tighter = limited;
	struct bench *b = bench_with_base(test);

	give(b, 2, ONE, 20 * US);
	KUNIT_EXPECT_EQ(test, 2, choose(b, 0));
	give(b, 2, ONE, 20 * US - 16);
	KUNIT_EXPECT_EQ(test, 1, choose(b, 0));
	give(b, 3, 9 * ONE, 1 * MS);
	KUNIT_EXPECT_EQ(test, 3, choose(b, 0));
	KUNIT_EXPECT_EQ(test, 2, ask(b, limited, 0, 8 * MS).index);
	tighter.latency_req_ns--;
	KUNIT_EXPECT_EQ(test, 1, ask(b, tighter, 0, 8 * MS).index);
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
	/* More than its mean: a quarter of it is left, for 6 us. */
	KUNIT_EXPECT_EQ(test, 1, choose(b, 50 * US));
	/* It is over: as long again. */
	KUNIT_EXPECT_EQ(test, 3, choose(b, 100 * US));
	give(b, 2, ONE, 56 * US);
	KUNIT_EXPECT_EQ(test, 1, choose(b, 45 * US));

	/* Timers end one in 1024, 8 us on average; they have no bin. */
	give(b, 4, ONE / 1024, 0);
	b->machine.states[4].target_residency_ns = 1000 * MS;
	KUNIT_EXPECT_EQ(test, 1, choose(b, 45 * US));
	give(b, 2, ONE, 58 * US);
	KUNIT_EXPECT_EQ(test, 2, choose(b, 45 * US));
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

	/* Up to four times the mean; then as long again. */
	give(b, 3, ONE, 150 * US);
	KUNIT_EXPECT_EQ(test, 2, choose(b, 600 * US));
	KUNIT_EXPECT_EQ(test, 3, choose(b, 600 * US + 64));
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

/* What ends with the tick is not late. */
static void late_is_beyond_the_tick(struct kunit *test)
{
	struct bench *b = bench_with_base(test);

	give(b, 3, ONE, 3 * MS);
	KUNIT_EXPECT_FALSE(test, ask(b, running, 0, 100 * MS).stop_tick);
	give(b, 3, ONE, 3 * MS + 16);
	KUNIT_EXPECT_TRUE(test, b->wteo.interval.keeps_tick);
	KUNIT_EXPECT_TRUE(test, ask(b, running, 0, 100 * MS).stop_tick);
	KUNIT_EXPECT_FALSE(test, b->wteo.interval.keeps_tick);
	ask(b, stopped, 0, 100 * MS);
	KUNIT_EXPECT_FALSE(test, b->wteo.interval.keeps_tick);
	/* Nobody knows of a tick that comes with the timer. */
	KUNIT_EXPECT_FALSE(test, ask(b, running, 0, 3 * MS).stop_tick);
}

/* From a quarter on, late intervals stop the tick; one in 16384 is unseen. */
static void a_quarter_is_late(struct kunit *test)
{
	u32 unseen = ONE >> 14;
	u32 late = (ONE + unseen) / 4 - unseen;
	struct bench *b = bench_with_base(test);

	give(b, 1, ONE - late, 5 * US);
	give(b, 3, late, 50 * MS);
	KUNIT_EXPECT_TRUE(test, ask(b, running, 0, 100 * MS).stop_tick);
	give(b, 1, ONE - late + 1, 5 * US);
	give(b, 3, late - 1, 50 * MS);
	KUNIT_EXPECT_FALSE(test, ask(b, running, 0, 100 * MS).stop_tick);
	KUNIT_EXPECT_EQ(test, ask(b, running, 0, 100 * MS).index, 3);
}

/* With the tick kept, the state has to pay in the time before it. */
static void a_kept_tick_shortens_the_mean(struct kunit *test)
{
	struct bench *b = bench_with_base(test);
	u32 unseen = ONE >> 14;
	u32 before_tick = wteo_product(unseen, 3 * MS);

	give(b, 2, ONE, 0);
	b->wteo.rows.cells[2].time =
		wteo_product(ONE + unseen, 20 * US) - before_tick;
	KUNIT_EXPECT_EQ(test, 2, ask(b, running, 0, 100 * MS).index);
	KUNIT_EXPECT_FALSE(test, ask(b, running, 0, 100 * MS).stop_tick);
	b->wteo.rows.cells[2].time--;
	KUNIT_EXPECT_EQ(test, 1, ask(b, running, 0, 100 * MS).index);
}

/* A stopped tick and a timer two ticks away: deeper, as far as that pays. */
static void traps_have_edges(struct kunit *test)
{
	struct bench *b = bench_with_base(test);

	give(b, 1, ONE, 5 * US);
	KUNIT_EXPECT_EQ(test, 1, ask(b, stopped, 0, 8 * MS).index);
	KUNIT_EXPECT_EQ(test, 3, ask(b, stopped, 0, 8 * MS + 1).index);

	b->machine.states[3].target_residency_ns = 9 * MS;
	KUNIT_EXPECT_EQ(test, 3, ask(b, stopped, 0, 9 * MS).index);
	KUNIT_EXPECT_EQ(test, 2, ask(b, stopped, 0, 9 * MS - 1).index);

	/* What pays after a tick is deep enough. */
	b->machine.states[1].target_residency_ns = 4 * MS;
	KUNIT_EXPECT_EQ(test, 1, ask(b, stopped, 0, 9 * MS).index);
	b->machine.states[1].target_residency_ns--;
	KUNIT_EXPECT_EQ(test, 3, ask(b, stopped, 0, 9 * MS).index);
}

/* After two short intervals a mean of up to 15 us spares the question. */
static void short_means_have_an_edge(struct kunit *test)
{
	struct bench *b = bench_with_base(test);

	b->wteo.shorts = 3;
	give(b, 1, ONE, 15 * US);
	/* What the timer ended counts as a tick each, whatever it took. */
	give(b, 4, 16, 0);
	b->wteo.rows.cells[4].time = 500;
	KUNIT_EXPECT_EQ(test, 1, ask(b, running, 0, 100 * MS).index);
	KUNIT_EXPECT_EQ(test, 0, cil_test_env_asked());
	b->wteo.rows.cells[1].time++;
	ask(b, running, 0, 100 * MS);
	KUNIT_EXPECT_EQ(test, 1, cil_test_env_asked());
	b->wteo.rows.cells[1].time--;
	b->wteo.shorts = 2;
	ask(b, running, 0, 100 * MS);
	KUNIT_EXPECT_EQ(test, 1, cil_test_env_asked());
}

/* Which row is taken for the condition, with such keys in its two places? */
static u32 slot_with(struct bench *b, u32 intervals, u32 place, u32 key,
		     u32 other_key)
{
	u32 other = ((place - 1) ^ 1) + 1;

	b->wteo.rows.heads[place].key = key;
	b->wteo.rows.heads[other].key = other_key;
	b->wteo.intervals = intervals;
	ask(b, running, 0, 100 * MS);
	return b->wteo.interval.slot;
}

/* Its own place, else a free one; where both are taken, now this, now that. */
static void a_condition_has_two_places(struct kunit *test)
{
	struct bench *b = bench_with_base(test);
	u32 key, place, other, foreign = 0x1234;

	give(b, 1, ONE, 5 * US);
	ask(b, running, 0, 100 * MS);
	key = b->wteo.interval.key;
	place = b->wteo.interval.slot;
	other = ((place - 1) ^ 1) + 1;

	KUNIT_EXPECT_EQ(test, place, slot_with(b, 0, place, key, 0));
	KUNIT_EXPECT_EQ(test, place, slot_with(b, 1, place, key, foreign));
	KUNIT_EXPECT_EQ(test, other, slot_with(b, 0, place, foreign, key));
	KUNIT_EXPECT_EQ(test, other, slot_with(b, 0, place, 0, key));
	KUNIT_EXPECT_EQ(test, place, slot_with(b, 1, place, 0, foreign));
	KUNIT_EXPECT_EQ(test, other, slot_with(b, 0, place, foreign, 0));
	KUNIT_EXPECT_EQ(test, place, slot_with(b, 0, place, foreign, foreign));
	KUNIT_EXPECT_EQ(test, other, slot_with(b, 1, place, foreign, foreign));
}

static struct kunit_case wteo_outlook_cases[] = {
	KUNIT_CASE(the_mean_has_edges),
	KUNIT_CASE(nothing_is_over_at_the_begin),
	KUNIT_CASE(time_that_passed_is_taken_off),
	KUNIT_CASE(the_last_bin_never_ends),
	KUNIT_CASE(one_in_128_is_known),
	KUNIT_CASE(late_is_beyond_the_tick),
	KUNIT_CASE(a_quarter_is_late),
	KUNIT_CASE(a_kept_tick_shortens_the_mean),
	KUNIT_CASE(traps_have_edges),
	KUNIT_CASE(short_means_have_an_edge),
	KUNIT_CASE(a_condition_has_two_places),
	{}
};

static struct kunit_suite wteo_outlook_suite = {
	.name = "wteo_outlook",
	.test_cases = wteo_outlook_cases,
};

kunit_test_suite(wteo_outlook_suite);
