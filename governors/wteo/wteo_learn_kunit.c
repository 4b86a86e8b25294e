// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of what wteo learns from one idle period, each at its edge:
 *
 * - the column of an interval: every bin edge, less the exit latency, and
 *   "never" for what the timer ended;
 * - the tick and the end of polling resume an interval, unless a task ran;
 * - the base row learns what is new, and else one interval in eight;
 * - rows age with each half-life, are divided at their limit, and are given up
 *   or asked by what they know;
 * - doubt begins, adds up and ends by the odds of the base row.
 */
#include <kunit/test.h>

#include "wteo_bench_kunit.h"

#define KEY	(WTEO_KEY_HISTORY | 5)

/* A decision for state @index was made, and row 1 is for it. */
static void begin(struct bench *b, s64 sleep_length_ns)
{
	b->wteo.began_ns = b->now_ns;
	b->wteo.decided_ns = b->now_ns;
	b->wteo.sleep_length_ns = sleep_length_ns;
	b->wteo.key = KEY;
	b->wteo.slot = 1;
	b->wteo.open = true;
	b->wteo.keeps_tick = true;
}

static void end(struct bench *b, struct cil_outcome outcome)
{
	outcome.now_ns = b->now_ns + outcome.residency_ns;
	wteo_policy.update(&b->wteo, &b->machine, &b->tunables, &outcome);
}

/* The column in which a single interval counts. */
static u32 column_of(struct bench *b, u8 index, s64 slept_ns,
		     s64 sleep_length_ns)
{
	struct cil_outcome outcome = {
		.residency_ns = slept_ns,
		.index = index,
	};
	u32 k;

	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	begin(b, sleep_length_ns);
	end(b, outcome);
	for (k = 0; !bench_cells(b, 1)[k].weight; k++)
		if (k == b->machine.state_count)
			break;
	return k;
}

/* The deepest state whose target residency is within the duration. */
static u32 bin_of(const struct bench *b, s64 duration_ns)
{
	u32 bin = 0, k;

	for (k = 1; k < b->machine.state_count; k++)
		if (b->machine.states[k].target_residency_ns <= duration_ns)
			bin = k;
	return bin;
}

/* Each bin begins at its target residency, for 1 to 10 states. */
static void bins_begin_at_residencies(struct kunit *test)
{
	u32 n, k;

	for (n = 1; n <= 10; n++) {
		struct bench *b = bench_new(test, n);

		for (k = 1; k < 10; k++) {
			s64 edge_ns = bench_residencies_us[k] * US;

			KUNIT_EXPECT_EQ(test, bin_of(b, edge_ns),
					column_of(b, 0, edge_ns, CIL_TIME_MAX));
			KUNIT_EXPECT_EQ(test, bin_of(b, edge_ns - 1),
					column_of(b, 0, edge_ns - 1,
						  CIL_TIME_MAX));
		}
	}
}

/* The exit latency is taken off, as far as there was any. */
static void the_latency_is_taken_off(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);

	KUNIT_EXPECT_EQ(test, 3, column_of(b, 3, 170 * US, CIL_TIME_MAX));
	KUNIT_EXPECT_EQ(test, 2, column_of(b, 3, 170 * US - 1, CIL_TIME_MAX));
	KUNIT_EXPECT_EQ(test, 1, column_of(b, 3, 72 * US, CIL_TIME_MAX));
	KUNIT_EXPECT_EQ(test, 0, column_of(b, 3, 72 * US - 1, CIL_TIME_MAX));
	KUNIT_EXPECT_EQ(test, 0, column_of(b, 3, 40 * US, CIL_TIME_MAX));
}

/* A column of a table that is not sorted belongs to the deepest that pays. */
static void columns_are_in_order(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);

	b->machine.states[2].target_residency_ns = 500 * US;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	KUNIT_EXPECT_EQ(test, 1, column_of(b, 0, 100 * US - 1, CIL_TIME_MAX));
	KUNIT_EXPECT_EQ(test, 3, column_of(b, 0, 100 * US, CIL_TIME_MAX));
}

/* An interval that the timer ended counts as never, none that ended before. */
static void the_timer_is_never(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);

	KUNIT_EXPECT_EQ(test, 4, column_of(b, 0, 500 * US, 500 * US));
	KUNIT_EXPECT_EQ(test, 3, column_of(b, 0, 500 * US, 500 * US + 1));
}

static bool is_resumed(struct bench *b, struct cil_outcome outcome, bool left,
		       s64 sleep_length_ns, bool keeps_tick)
{
	begin(b, sleep_length_ns);
	b->wteo.keeps_tick = keeps_tick;
	outcome.residency_ns = 4 * MS;
	outcome.left = left;
	end(b, outcome);
	return b->wteo.open;
}

/* After a tick that was kept, or polling that gave up, unless a task ran. */
static void own_doings_resume(struct kunit *test)
{
	static const struct cil_outcome tick = { .tick_wakeup = true };
	static const struct cil_outcome poll = { .poll_time_limit = true };
	static const struct cil_outcome none = { 0 };
	struct bench *b = bench_new(test, 4);

	KUNIT_EXPECT_TRUE(test, is_resumed(b, tick, false, 9 * MS, true));
	KUNIT_EXPECT_FALSE(test, is_resumed(b, tick, true, 9 * MS, true));
	KUNIT_EXPECT_FALSE(test, is_resumed(b, tick, false, 9 * MS, false));
	/* The timer was due with the tick. */
	KUNIT_EXPECT_FALSE(test, is_resumed(b, tick, false, 4 * MS, true));
	KUNIT_EXPECT_TRUE(test, is_resumed(b, tick, false, 4 * MS + 1, true));
	KUNIT_EXPECT_TRUE(test, is_resumed(b, poll, false, 4 * MS, false));
	KUNIT_EXPECT_FALSE(test, is_resumed(b, poll, true, 4 * MS, true));
	KUNIT_EXPECT_FALSE(test, is_resumed(b, none, false, 9 * MS, true));
}

/* In steady state the base row learns one interval in eight. */
static void the_base_row_learns_one_in_eight(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 learned = 0, i;

	for (i = 0; i < 2000; i++)
		bench_sleep(b, 300 * US, 100 * MS, false);
	for (i = 0; i < 80; i++) {
		u32 before = bench_row(b, WTEO_BASE)->learned;
		u32 total = bench_row(b, WTEO_BASE)->total;

		bench_sleep(b, 300 * US, 100 * MS, false);
		learned += bench_row(b, WTEO_BASE)->total != total ||
			   bench_row(b, WTEO_BASE)->learned != before;
	}
	KUNIT_EXPECT_EQ(test, 10, learned);
}

/* Gives row @slot a total and the weight of its next interval. */
static void set_row(struct bench *b, u32 slot, u32 total, u32 next)
{
	struct wteo_row *row = bench_row(b, slot);

	u32 columns = b->machine.state_count + 1;
	struct wteo_cell *cells = bench_cells(b, slot);

	memset(cells, 0, columns * sizeof(*cells));
	cells->weight = total;
	row->key = slot == WTEO_BASE ? 0 : KEY;
	row->total = total;
	row->next = next;
	row->learned = wteo_steps(b->now_ns);
}

/* It learns what a row does not know that remembers less than three intervals. */
static void the_base_row_learns_what_is_new(struct kunit *test)
{
	static const struct cil_outcome outcome = { .residency_ns = 1000 };
	struct bench *b = bench_new(test, 4);
	u32 less;

	for (less = 0; less < 2; less++) {
		set_row(b, WTEO_BASE, 800000, 100000);
		set_row(b, 1, 300000 - less, 100000);
		b->wteo.intervals = 0;
		begin(b, CIL_TIME_MAX);
		end(b, outcome);
		KUNIT_EXPECT_EQ(test, less, bench_row(b, WTEO_BASE)->total !=
				800000);
	}
}

/* Half-lives of one millisecond more are longer, from the least on. */
static void half_lives_differ_by_milliseconds(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	s32 last = 0;
	u32 ms;

	for (ms = 1; ms < 30; ms++) {
		b->tunables.half_life_ms = ms;
		wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
		KUNIT_EXPECT_GT(test, b->wteo.half_life, last);
		last = b->wteo.half_life;
	}
}

/* When a row learns, it has lost half of what it knew with each half-life. */
static void old_rows_lose_half(struct kunit *test)
{
	static const struct cil_outcome outcome = { 0 };
	struct bench *b = bench_new(test, 4);
	u32 lives, less;

	KUNIT_EXPECT_EQ(test, b->wteo.half_life,
			(s32)(60000 * MS >> WTEO_STEP_SHIFT) + 1);
	b->now_ns = 10 * 3600000 * MS;
	for (lives = 0; lives < 4; lives++) {
		for (less = 0; less < 2; less++) {
			u32 halvings = less && lives ? lives - 1 : lives;

			set_row(b, 1, 1u << 20, 1000);
			bench_row(b, 1)->learned -=
				lives * (u32)b->wteo.half_life - (less && lives);
			begin(b, CIL_TIME_MAX);
			end(b, outcome);
			KUNIT_EXPECT_EQ(test, bench_row(b, 1)->total,
					((1u << 20) >> halvings) + 1000);
			KUNIT_EXPECT_EQ(test, bench_sum(b, 1),
					bench_row(b, 1)->total);
			KUNIT_EXPECT_EQ(test, bench_row(b, 1)->learned,
					wteo_steps(b->now_ns));
		}
	}
}

#define SHARE	(1u << 20)

/*
 * Both rows know 64 intervals: @row or @base of them of column 2. The others
 * are of column 0 in row 1, and of column 3 in the base row. Then an interval
 * of 30 us, column 2, ends.
 */
static void tell(struct bench *b, u32 row, u32 base)
{
	static const struct cil_outcome outcome = { .residency_ns = 30000 };

	set_row(b, WTEO_BASE, 64 * SHARE, 4 * SHARE);
	bench_cells(b, WTEO_BASE)[0].weight = 0;
	bench_cells(b, WTEO_BASE)[2].weight = base * SHARE;
	bench_cells(b, WTEO_BASE)[3].weight = (64 - base) * SHARE;
	set_row(b, 1, 64 * SHARE, SHARE);
	bench_cells(b, 1)[0].weight = (64 - row) * SHARE;
	bench_cells(b, 1)[2].weight = row * SHARE;
	b->wteo.intervals = 0;
	begin(b, CIL_TIME_MAX);
	end(b, outcome);
}

static bool base_learned(const struct bench *b)
{
	return bench_row(b, WTEO_BASE)->total != 64 * SHARE;
}

/*
 * The odds are those of the shares. In the base row each of the five columns counts
 * once more; in the other, the base row counts for five intervals. An interval
 * weighs 4 of 64 in the base row, and 1 of 64 in the other.
 */
static void doubt_is_the_odds(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);

	/* Where the row has none, 69 against 5, whatever the base row has: 3.79 in bits. */
	tell(b, 0, 0);
	KUNIT_EXPECT_GE(test, b->wteo.doubt, 58);
	KUNIT_EXPECT_LE(test, b->wteo.doubt, 62);
	KUNIT_EXPECT_TRUE(test, base_learned(b));
	b->wteo.doubt = 0;
	tell(b, 0, 64);
	KUNIT_EXPECT_GE(test, b->wteo.doubt, 58);
	KUNIT_EXPECT_LE(test, b->wteo.doubt, 62);
	/* 68/84 against (8 + 5 * 68/84)/69: 4.63, 2.21 in bits. */
	b->wteo.doubt = 0;
	tell(b, 8, 64);
	KUNIT_EXPECT_GE(test, b->wteo.doubt, 33);
	KUNIT_EXPECT_LE(test, b->wteo.doubt, 37);
	/* Doubts add up. */
	b->wteo.doubt = 30;
	tell(b, 0, 64);
	KUNIT_EXPECT_GE(test, b->wteo.doubt, 88);
	KUNIT_EXPECT_LE(test, b->wteo.doubt, 92);
}

/* Doubt begins where a column has less than a quarter of the row's weight. */
static void doubt_has_a_beginning(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);

	tell(b, 16, 64);
	KUNIT_EXPECT_EQ(test, 0, b->wteo.doubt);
	KUNIT_EXPECT_FALSE(test, base_learned(b));
	tell(b, 15, 64);
	KUNIT_EXPECT_GT(test, b->wteo.doubt, 0);
	KUNIT_EXPECT_TRUE(test, base_learned(b));
	/* Once it has begun, what is expected counts, too: for and against. */
	b->wteo.doubt = 20;
	tell(b, 32, 64);
	KUNIT_EXPECT_GT(test, b->wteo.doubt, 20);
	KUNIT_EXPECT_TRUE(test, base_learned(b));
	/* 12/84 against (64 + 5 * 12/84)/69: 6.57, 2.71 in bits. */
	b->wteo.doubt = 90;
	tell(b, 64, 8);
	KUNIT_EXPECT_GE(test, b->wteo.doubt, 45);
	KUNIT_EXPECT_LE(test, b->wteo.doubt, 48);
	KUNIT_EXPECT_TRUE(test, base_learned(b));
	b->wteo.doubt = 40;
	tell(b, 64, 8);
	KUNIT_EXPECT_EQ(test, 0, b->wteo.doubt);
	KUNIT_EXPECT_FALSE(test, base_learned(b));
}

/* At 4096 to one all conditions are forgotten, and the base row is not. */
static void doubt_has_an_end(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 once, less;

	tell(b, 0, 64);
	once = b->wteo.doubt;
	for (less = 0; less < 2; less++) {
		struct wteo_row *other = bench_row(b, 7);

		other->key = 9;
		other->total = SHARE;
		other->next = 1;
		b->wteo.doubt = 192 - once - less;
		tell(b, 0, 64);
		KUNIT_EXPECT_EQ(test, less ? 191 : 0, b->wteo.doubt);
		KUNIT_EXPECT_EQ(test, less ? 9 : 0, other->key);
		KUNIT_EXPECT_EQ(test, KEY, bench_row(b, 1)->key);
		KUNIT_EXPECT_TRUE(test, base_learned(b));
		/* This interval is the first that is known again. */
		KUNIT_EXPECT_EQ(test, less ? 64 * SHARE : 0, bench_cells(b, 1)[0].weight);
		KUNIT_EXPECT_GT(test, bench_cells(b, 1)[2].weight, 0);
		KUNIT_EXPECT_EQ(test, bench_sum(b, 1), bench_row(b, 1)->total);
		KUNIT_EXPECT_EQ(test, bench_sum(b, WTEO_BASE),
				bench_row(b, WTEO_BASE)->total);
	}
}

/* The last row ends where the interval in progress begins. */
static void only_rows_are_forgotten(struct kunit *test)
{
	struct bench *b = bench_new(test, CIL_STATE_MAX);

	b->wteo.doubt = 191;
	tell(b, 0, 64);
	KUNIT_EXPECT_EQ(test, 0, b->wteo.doubt);
	KUNIT_EXPECT_EQ(test, b->now_ns, b->wteo.began_ns);
}

/*
 * Half of the intervals were long, and now none is. Their rows know the short
 * ones to be as frequent as before. The change is noticed all the same: one in
 * three is of a kind that was not there.
 */
static void a_new_load_is_noticed(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 deep[2] = { 0 };
	u32 i;

	for (i = 0; i < 4; i++)
		b->machine.states[i].exit_latency_ns = 0;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	for (i = 0; i < 5000; i++)
		deep[0] += bench_sleep(b, bench_below(b, 2) ? 50 * US : 2 * MS,
				       900 * MS, false).index == 3;
	KUNIT_EXPECT_GT(test, deep[0], 4900);
	for (i = 0; i < 192; i++)
		deep[1] += bench_sleep(b, bench_below(b, 3) ? 50 * US : 10 * US,
				       900 * MS, false).index == 3 && i >= 64;
	KUNIT_EXPECT_LT(test, deep[1], 10);
}

/* At the limit a total stands, beyond it all is divided by eight. */
static void totals_are_divided_at_their_limit(struct kunit *test)
{
	static const struct cil_outcome outcome = { 0 };
	struct bench *b = bench_new(test, 4);

	set_row(b, 1, WTEO_TOTAL_MAX - 800, 800);
	begin(b, CIL_TIME_MAX);
	end(b, outcome);
	KUNIT_EXPECT_EQ(test, bench_row(b, 1)->total, WTEO_TOTAL_MAX);
	set_row(b, 1, WTEO_TOTAL_MAX - 799, 800);
	begin(b, CIL_TIME_MAX);
	end(b, outcome);
	KUNIT_EXPECT_EQ(test, bench_row(b, 1)->total, WTEO_TOTAL_MAX / 8);
	KUNIT_EXPECT_EQ(test, bench_row(b, 1)->next, (800 + 800 * 16 / 984) / 8);
}

/* A row of another condition that knows less than three intervals is given up. */
static void a_row_is_given_up_below_three(struct kunit *test)
{
	static const struct cil_outcome outcome = { 0 };
	struct bench *b = bench_new(test, 4);
	u32 less;

	for (less = 0; less < 2; less++) {
		set_row(b, 1, 3000 - less, 1000);
		bench_row(b, 1)->key = KEY + 1;
		begin(b, CIL_TIME_MAX);
		end(b, outcome);
		KUNIT_EXPECT_EQ(test, bench_row(b, 1)->key, KEY + 1 - less);
		KUNIT_EXPECT_EQ(test, b->wteo.learned, less ? 1 : CIL_ROW_NONE);
	}
	/* The evidence left by now counts. */
	set_row(b, 1, 5999, 1000);
	bench_row(b, 1)->key = KEY + 1;
	b->now_ns += (u64)b->wteo.half_life << WTEO_STEP_SHIFT;
	begin(b, CIL_TIME_MAX);
	end(b, outcome);
	KUNIT_EXPECT_EQ(test, bench_row(b, 1)->key, KEY);
}

/* A row loses half in a half-life, however often another condition meets it. */
static void a_row_ages_once_in_a_half_life(struct kunit *test)
{
	static const struct cil_outcome outcome = { 0 };
	struct bench *b = bench_new(test, 4);
	u32 n;

	set_row(b, 1, 60000, 1000);
	bench_row(b, 1)->key = KEY + 1;
	b->now_ns += (u64)b->wteo.half_life << WTEO_STEP_SHIFT;
	for (n = 0; n < 3; n++) {
		begin(b, CIL_TIME_MAX);
		end(b, outcome);
		KUNIT_EXPECT_EQ(test, bench_row(b, 1)->key, KEY + 1);
		KUNIT_EXPECT_EQ(test, bench_row(b, 1)->total, 30000);
	}
	b->now_ns += (u64)b->wteo.half_life << WTEO_STEP_SHIFT;
	begin(b, CIL_TIME_MAX);
	end(b, outcome);
	KUNIT_EXPECT_EQ(test, bench_row(b, 1)->total, 15000);
}

/* The row that is asked in state 0 of a sleep length of 10 to 16 ns. */
static u32 asked(struct bench *b)
{
	struct cil_decision d;
	struct step s = {
		.query = { .now_ns = b->now_ns, .latency_req_ns = CIL_TIME_MAX },
		.sleep_length_ns = 12,
		.delta_tick_ns = 12,
	};

	b->wteo.open = false;
	b->wteo.history = WTEO_KEY_HISTORY;
	bench_decide(b, &b->wteo, &s, &d);
	return d.row;
}

/* A row is asked for its own key, if it knows three intervals after its age. */
static void a_row_is_asked_from_three_on(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct wteo_row *row;
	u32 slot;

	b->now_ns = 10 * 3600000 * MS;
	asked(b);
	slot = b->wteo.slot;
	row = bench_row(b, slot);
	set_row(b, slot, 3000, 1000);
	row->key = WTEO_KEY_HISTORY | 4;
	KUNIT_EXPECT_EQ(test, slot, asked(b));
	row->learned -= (u32)b->wteo.half_life - 1;
	KUNIT_EXPECT_EQ(test, slot, asked(b));
	row->learned--;
	KUNIT_EXPECT_EQ(test, WTEO_BASE, asked(b));
	/* It has lost half for good. A clock that went back ages nothing. */
	KUNIT_EXPECT_EQ(test, 1500, row->total);
	set_row(b, slot, 3000, 1000);
	row->key = WTEO_KEY_HISTORY | 4;
	row->learned = wteo_steps(b->now_ns) + 1000;
	KUNIT_EXPECT_EQ(test, slot, asked(b));
	row->total = 2999;
	KUNIT_EXPECT_EQ(test, WTEO_BASE, asked(b));
	row->total = 3000;
	row->key++;
	KUNIT_EXPECT_EQ(test, WTEO_BASE, asked(b));
}

static struct kunit_case wteo_learn_cases[] = {
	KUNIT_CASE(bins_begin_at_residencies),
	KUNIT_CASE(the_latency_is_taken_off),
	KUNIT_CASE(columns_are_in_order),
	KUNIT_CASE(the_timer_is_never),
	KUNIT_CASE(own_doings_resume),
	KUNIT_CASE(the_base_row_learns_one_in_eight),
	KUNIT_CASE(the_base_row_learns_what_is_new),
	KUNIT_CASE(half_lives_differ_by_milliseconds),
	KUNIT_CASE(old_rows_lose_half),
	KUNIT_CASE(doubt_is_the_odds),
	KUNIT_CASE(doubt_has_a_beginning),
	KUNIT_CASE(doubt_has_an_end),
	KUNIT_CASE(only_rows_are_forgotten),
	KUNIT_CASE(a_new_load_is_noticed),
	KUNIT_CASE(totals_are_divided_at_their_limit),
	KUNIT_CASE(a_row_is_given_up_below_three),
	KUNIT_CASE(a_row_ages_once_in_a_half_life),
	KUNIT_CASE(a_row_is_asked_from_three_on),
	{}
};

static struct kunit_suite wteo_learn_suite = {
	.name = "wteo_learn",
	.test_cases = wteo_learn_cases,
};

kunit_test_suite(wteo_learn_suite);
