// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of the rows of wteo: what they learn, and how they age.
 *
 * - weights sum exactly to the total of their row, and a view to 10000;
 * - the last interval weighs the learning rate; a new row averages;
 * - half of a row is left after a half-life; looking does nothing else;
 * - the tick and a polling state that gave up do not end an interval;
 * - a dump shows all that is known.
 */
#include <kunit/test.h>

#include "wteo_bench_kunit.h"

static void see(const struct wteo_cell *cells, u32 columns, u16 *view)
{
	cil_view(&cells->weight, 2, columns, view);
}

/*
 * The weights of every row sum exactly to its total, which has a limit. The
 * view of a row sums to 10000. Both hold for any rate and half-life.
 */
static void rows_sum_to_one(struct kunit *test)
{
	static const u32 rates[] = { 1, 16, 50, 100 };
	u16 view[WTEO_COLUMNS];
	u32 r, n, i, k, seen = 0;

	for (r = 0; r < ARRAY_SIZE(rates); r++) {
		for (n = 2; n <= 10; n++) {
			struct bench *b = bench_new(test, n);
			struct cil_decision d;
			struct step s;

			b->tunables.learning_rate = rates[r];
			b->tunables.half_life_ms = n % 2 ? 2000 : 0;
			wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
			for (i = 0; i < 1500; i++) {
				bench_random_step(b, &s);
				bench_decide(b, &b->wteo, &s, &d);
				bench_random_outcome(b, &s, d.index);
				wteo_policy.update(&b->wteo, &b->machine,
						   &b->tunables, &s.outcome);
			}
			for (i = 0; i < WTEO_ROWS; i++) {
				u32 total = bench_row(b, i)->total, sum = 0;

				KUNIT_ASSERT_EQ(test, total, bench_sum(b, i));
				KUNIT_ASSERT_LE(test, total, WTEO_TOTAL_MAX);
				if (!total)
					continue;
				see(bench_cells(b, i), n + 1, view);
				for (k = 0; k <= n; k++)
					sum += view[k];
				KUNIT_ASSERT_EQ(test, CIL_VIEW_ONE, sum);
				seen++;
			}
		}
	}
	KUNIT_EXPECT_GT(test, seen, 500);
}

/* In a row that has learned for long, the last interval weighs the rate. */
static void the_last_interval_weighs_the_rate(struct kunit *test)
{
	static const u32 rates[] = { 1, 5, 16, 50, 100 };
	u16 view[WTEO_COLUMNS];
	u32 r, i;

	for (r = 0; r < ARRAY_SIZE(rates); r++) {
		struct bench *b = bench_new(test, 4);

		b->tunables.learning_rate = rates[r];
		wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
		for (i = 0; i < 20000; i++)
			bench_sleep(b, 300 * US, 100 * MS, false);
		see(bench_cells(b, b->wteo.learned), 5, view);
		KUNIT_EXPECT_EQ(test, CIL_VIEW_ONE, view[3]);
		/* The same condition once more, and another end. */
		bench_sleep(b, 5 * US, 100 * MS, false);
		see(bench_cells(b, b->wteo.learned), 5, view);
		KUNIT_EXPECT_LE(test, difference(view[0], 10 * rates[r]),
				1 + rates[r] / 4);
	}
}

/* A new row averages: after n intervals each of them weighs about 1 / n. */
static void a_new_row_averages(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u16 view[WTEO_COLUMNS];
	u32 i;

	b->tunables.learning_rate = 1;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	/* The condition is always the same: two intervals in state 3. */
	for (i = 0; i < 24; i++)
		bench_sleep(b, i % 3 == 2 && i >= 12 ? 5 * US : 300 * US,
			    100 * MS, false);
	bench_sleep(b, 300 * US, 100 * MS, false);
	bench_sleep(b, 300 * US, 100 * MS, false);
	bench_sleep(b, 300 * US, 100 * MS, false);
	see(bench_cells(b, b->wteo.learned), 5, view);
	/* Thirteen ended in state 3, four while it was being entered. */
	KUNIT_EXPECT_LE(test, difference(view[0], 10000 * 4 / 17), 200);
	KUNIT_EXPECT_LE(test, difference(view[3], 10000 * 13 / 17), 200);
}

/* The base row forgets within some dozen intervals. */
static void the_base_row_forgets_soon(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u16 view[WTEO_COLUMNS];
	u32 i;

	for (i = 0; i < 3000; i++)
		bench_sleep(b, 300 * US, 100 * MS, false);
	/* Every condition is new as long as every timer is another one. */
	for (i = 0; i < 54; i++)
		bench_sleep(b, 5 * US, 1LL << (13 + i % 17), false);
	see(bench_cells(b, WTEO_BASE), 5, view);
	KUNIT_EXPECT_LT(test, view[3], 2000);
	KUNIT_EXPECT_GT(test, view[0] + view[1], 8000);
	/* It remembers seventeen, the next one included. */
	KUNIT_EXPECT_LE(test, bench_row(b, WTEO_BASE)->total / 2,
			bench_row(b, WTEO_BASE)->next / 4 * 33);
	KUNIT_EXPECT_GE(test, bench_row(b, WTEO_BASE)->total / 2,
			bench_row(b, WTEO_BASE)->next / 4 * 31);
}

/* The largest remainders are rounded up, and nothing else. */
static void view_rounds_by_largest_remainder(struct kunit *test)
{
	static const struct wteo_cell thirds[] = {
		{ CIL_ONE / 3 }, { CIL_ONE / 3 + 1 }, { CIL_ONE / 3 },
	};
	static const struct wteo_cell equal[] = { { 7 }, { 7 }, { 7 } };
	static const struct wteo_cell none[3] = { { 0 } };
	u16 view[WTEO_COLUMNS];

	see(thirds, 3, view);
	KUNIT_EXPECT_EQ(test, 3333, view[0]);
	KUNIT_EXPECT_EQ(test, 3334, view[1]);
	KUNIT_EXPECT_EQ(test, 3333, view[2]);
	/* Of equal remainders the first ones are. */
	see(equal, 3, view);
	KUNIT_EXPECT_EQ(test, 3334, view[0]);
	KUNIT_EXPECT_EQ(test, 3333, view[1]);
	KUNIT_EXPECT_EQ(test, 3333, view[2]);
	see(none, 3, view);
	KUNIT_EXPECT_EQ(test, 0, view[0] + view[1] + view[2]);
}

/* A duration is from nothing to a second. */
static void durations_are_bounded(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 0, wteo_duration(-S64_MAX));
	KUNIT_EXPECT_EQ(test, 0, wteo_duration(-1));
	KUNIT_EXPECT_EQ(test, 0, wteo_duration(0));
	KUNIT_EXPECT_EQ(test, 1, wteo_duration(1));
	KUNIT_EXPECT_EQ(test, CIL_DURATION_MAX, wteo_duration(CIL_DURATION_MAX));
	KUNIT_EXPECT_EQ(test, CIL_DURATION_MAX,
			wteo_duration(CIL_DURATION_MAX + 1));
	KUNIT_EXPECT_EQ(test, CIL_DURATION_MAX, wteo_duration(S64_MAX));
}

/* Steps of age in so many ms. */
static u32 steps(u64 ms)
{
	return wteo_steps(ms * CIL_NSEC_PER_MSEC);
}

/* Total of a row that was full at first, at such an age. */
static u32 left(struct bench *b, u32 age)
{
	struct wteo_row *row = bench_row(b, WTEO_BASE);
	struct cil_outcome outcome = { .now_ns = (u64)age << WTEO_STEP_SHIFT };

	memset(row->cells, 0, 5 * sizeof(*row->cells));
	row->cells[4].weight = CIL_ONE / 2;
	row->total = CIL_ONE / 2;
	row->next = 0;
	row->learned = 0;
	/* It learns an interval without weight, as if it were a condition's. */
	b->wteo.key = 0;
	b->wteo.slot = WTEO_BASE;
	b->wteo.open = true;
	wteo_policy.update(&b->wteo, &b->machine, &b->tunables, &outcome);
	return row->total;
}

/* Half is left after one half-life, a quarter after two, in the end nothing. */
static void aging_halves(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct wteo *w = &b->wteo;
	u32 half_life, i;

	b->tunables.half_life_ms = 100000;
	wteo_policy.init(w, &b->machine, &b->tunables);
	half_life = (u32)w->half_life;
	KUNIT_EXPECT_EQ(test, half_life, steps(100000) + 1);
	for (i = 0; i < 6; i++) {
		KUNIT_EXPECT_EQ(test, CIL_ONE / 2 >> i, left(b, i * half_life));
		KUNIT_EXPECT_EQ(test, CIL_ONE / 2 >> i, left(b, (i + 1) * half_life - 1));
	}
	KUNIT_EXPECT_EQ(test, CIL_ONE / 2, left(b, (u32)-1));
	KUNIT_EXPECT_EQ(test, 0, left(b, steps(10000000)));
	KUNIT_EXPECT_EQ(test, 0, left(b, S32_MAX));
	b->tunables.half_life_ms = 0;
	wteo_policy.init(w, &b->machine, &b->tunables);
	KUNIT_EXPECT_EQ(test, CIL_ONE / 2, left(b, S32_MAX - 1));
	b->tunables.half_life_ms = 1;
	wteo_policy.init(w, &b->machine, &b->tunables);
	KUNIT_EXPECT_EQ(test, 1, left(b, 30 * (u32)w->half_life - 1));
	KUNIT_EXPECT_EQ(test, 0, left(b, 30 * (u32)w->half_life));
}

/* A look at a row ages it, and changes nothing else. */
static void looking_only_ages(struct kunit *test)
{
	struct bench *b = bench_new(test, 7);
	struct cil_decision d;
	struct step s;
	u32 i;

	for (i = 0; i < 2000; i++) {
		bench_random_step(b, &s);
		bench_decide(b, &b->wteo, &s, &d);
		bench_random_outcome(b, &s, d.index);
		wteo_policy.update(&b->wteo, &b->machine, &b->tunables,
				   &s.outcome);
	}
	b->tunables.half_life_ms = 0;
	b->other = b->wteo;
	for (i = 0; i < 100; i++) {
		bench_random_step(b, &s);
		s.query.now_ns += i * 3600000 * MS;
		bench_decide(b, &b->wteo, &s, &d);
	}
	KUNIT_EXPECT_EQ(test, 0, memcmp(b->other.rows, b->wteo.rows,
					sizeof(b->wteo.rows)));
}

/*
 * After many half-lives no old row is asked, and once learning begins anew, TEO
 * decides until the base row knows enough again.
 */
static void old_rows_are_not_asked(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_decision d;
	u32 i;

	for (i = 0; i < 100; i++)
		d = bench_sleep(b, 300 * US, 100 * MS, false);
	KUNIT_EXPECT_NE(test, WTEO_BASE, d.row);
	b->now_ns += 100ULL * b->tunables.half_life_ms * MS;
	d = bench_sleep(b, 300 * US, 100 * MS, false);
	KUNIT_EXPECT_EQ(test, WTEO_BASE, d.row);
	for (i = 0; i < 20; i++)
		d = bench_sleep(b, 300 * US, 100 * MS, false);
	KUNIT_EXPECT_NE(test, WTEO_BASE, d.row);
}

static int learned(struct bench *b)
{
	u16 view[CIL_STATE_MAX];

	return wteo_policy.row_learned(&b->wteo, &b->machine, view);
}

/* A polling state whose time is over does not end the interval. */
static void polling_times_are_merged(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u16 view[CIL_STATE_MAX];

	bench_own_doing(b, 20 * US, false, false);
	KUNIT_EXPECT_EQ(test, -1, learned(b));
	bench_sleep(b, 200 * US, 100 * MS, false);
	KUNIT_EXPECT_GT(test, learned(b), 0);
	wteo_policy.row_learned(&b->wteo, &b->machine, view);
	KUNIT_EXPECT_EQ(test, CIL_VIEW_ONE, view[3]);
}

/* A tick that was left running does not end the interval; work does. */
static void ticks_are_merged(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u16 view[CIL_STATE_MAX];

	bench_own_doing(b, 4 * MS, true, false);
	KUNIT_EXPECT_EQ(test, -1, learned(b));
	KUNIT_EXPECT_TRUE(test, b->wteo.open);
	bench_sleep(b, 10 * US, 100 * MS, false);
	wteo_policy.row_learned(&b->wteo, &b->machine, view);
	/* 4010 us in all: state 3 of 0, 2, 20, 100 us. */
	KUNIT_EXPECT_EQ(test, CIL_VIEW_ONE, view[3]);
}

/* Work that follows a tick shows in the time between: the tick brought it. */
static void a_busy_tick_ends_the_interval(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);

	bench_own_doing(b, 4 * MS, true, true);
	KUNIT_EXPECT_GT(test, learned(b), 0);
	KUNIT_EXPECT_FALSE(test, b->wteo.open);
}

/* The values derived from the tunables are those of @from. */
static bool is_derived(const struct wteo *w, const struct wteo *from)
{
	return w->growth == from->growth && w->half_life == from->half_life &&
	       w->discount == from->discount &&
	       !memcmp(&w->tunables, &from->tunables, sizeof(w->tunables));
}

/* A change of tunables counts from the next decision on, as a whole. */
static void a_change_counts_as_a_whole(struct kunit *test)
{
	static const struct wteo_tunables changes[] = {
		{ 100, 60000, 1024 }, { 16, 5000, 1024 }, { 16, 60000, 512 },
		{ 16, 60000, 0 }, { 50, 10, 8192 },
	};
	struct bench *b = bench_new(test, 4);
	u32 i;

	for (i = 0; i < ARRAY_SIZE(changes); i++) {
		b->tunables = changes[i];
		wteo_policy.init(&b->other, &b->machine, &b->tunables);
		KUNIT_EXPECT_FALSE(test, is_derived(&b->wteo, &b->other));
		bench_sleep(b, 300 * US, 100 * MS, false);
		KUNIT_EXPECT_TRUE(test, is_derived(&b->wteo, &b->other));
	}
}

/* Memory behind the states of a machine does not count. */
static void only_its_states_count(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);

	b->machine.states[4].exit_latency_ns = 900 * MS;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	KUNIT_EXPECT_EQ(test, 70 * US, b->wteo.greatest_latency_ns);
	KUNIT_EXPECT_EQ(test, WTEO_NO_DURATION, b->wteo.begin_ns[4]);
}

/* Up to 4 states touch at most 2 KiB, up to 7 4 KiB, and all of it is at most 16 KiB. */
static void state_is_small(struct kunit *test)
{
	KUNIT_EXPECT_LE(test, wteo_state_used(4), 2048);
	KUNIT_EXPECT_LE(test, wteo_state_used(7), 4096);
	KUNIT_EXPECT_LE(test, wteo_policy.state_size, 16384);
	KUNIT_EXPECT_EQ(test, wteo_state_used(CIL_STATE_MAX) / 8,
			wteo_policy.state_size / 8);
}

/* Gives a row one interval of a duration in each of some columns. */
static void fill_row(struct bench *b, u32 slot, u32 key, u32 columns)
{
	u32 n = b->machine.state_count, one = 1u << 24, k;
	struct wteo_cell *cells = bench_cells(b, slot);
	struct wteo_row *row = bench_row(b, slot);

	row->key = key;
	row->total = 0;
	row->time = 0;
	row->next = one;
	row->learned = wteo_steps(b->now_ns);
	for (k = 0; k <= n; k++) {
		if (!(columns >> k & 1))
			continue;
		cells[k].weight = one << k;
		cells[k].time = wteo_product(one << k, 32000 * (k + 1));
		row->total += one << k;
		row->time += cells[k].time;
	}
}

static const char *dump_at(struct bench *b, u64 now_ns)
{
	struct cil_sink *sink = cil_test_env_sink();

	wteo_policy.dump(&b->wteo, &b->machine, &b->tunables, now_ns, sink);
	return cil_test_env_text();
}

/* The dump shows each row that knows something, and nothing else. */
static void dump_shows_rows(struct kunit *test)
{
	static const char wanted[] =
	"Weights of 10000: what followed a condition\n"
	"row before     timer        s0    s1 never | evidence mean (us)\n"
	"  0 any                      0  3333  6667 |        6        85\n"
	"  1 s2 s1 <       1049 us   1429  2857  5714 |        7        77\n"
	"  3 s1 s0 <          1 us  10000     0     0 |        1        32\n";
	struct bench *b = bench_new(test, 2);

	b->now_ns = 10 * 3600000 * MS;
	fill_row(b, WTEO_BASE, 0, 0x6);
	fill_row(b, 1, WTEO_KEY_HISTORY | 2 << 12 | 1 << 8 | 20, 0x7);
	fill_row(b, 3, WTEO_KEY_HISTORY | 1 << 12 | 1, 0x1);
	KUNIT_EXPECT_STREQ(test, dump_at(b, b->now_ns), wanted);
}

/* Evidence fades; a clock may go back. */
static void dump_shows_ages(struct kunit *test)
{
	struct bench *b = bench_new(test, 3);
	u64 half_life_ns = (u64)b->wteo.half_life << WTEO_STEP_SHIFT;
	u64 step_ns = 1ULL << WTEO_STEP_SHIFT;

	/* So that a time in steps is exact. */
	b->now_ns = 1000000 * step_ns;
	fill_row(b, WTEO_BASE, 0, 0x4);
	KUNIT_EXPECT_NOT_NULL(test, strstr(dump_at(b, b->now_ns - step_ns),
					   "|        4 "));
	KUNIT_EXPECT_NOT_NULL(test, strstr(dump_at(b, b->now_ns + half_life_ns),
					   "|        2 "));
}

/* Behind the last row there is an interval that began long ago. */
static void dump_ends_with_the_last_row(struct kunit *test)
{
	struct bench *b = bench_new(test, CIL_STATE_MAX);

	fill_row(b, WTEO_ROWS - 1, WTEO_KEY_HISTORY | 1, 0x1);
	b->wteo.began_ns = 10 * 3600000 * MS;
	KUNIT_EXPECT_NOT_NULL(test, strstr(dump_at(b, b->now_ns), "\n 24 "));
	KUNIT_EXPECT_NULL(test, strstr(dump_at(b, b->now_ns), "\n 25 "));
}

static struct kunit_case wteo_rows_cases[] = {
	KUNIT_CASE(rows_sum_to_one),
	KUNIT_CASE(the_last_interval_weighs_the_rate),
	KUNIT_CASE(a_new_row_averages),
	KUNIT_CASE(the_base_row_forgets_soon),
	KUNIT_CASE(view_rounds_by_largest_remainder),
	KUNIT_CASE(durations_are_bounded),
	KUNIT_CASE(aging_halves),
	KUNIT_CASE(looking_only_ages),
	KUNIT_CASE(old_rows_are_not_asked),
	KUNIT_CASE(polling_times_are_merged),
	KUNIT_CASE(ticks_are_merged),
	KUNIT_CASE(a_busy_tick_ends_the_interval),
	KUNIT_CASE(a_change_counts_as_a_whole),
	KUNIT_CASE(only_its_states_count),
	KUNIT_CASE(state_is_small),
	KUNIT_CASE(dump_shows_rows),
	KUNIT_CASE(dump_shows_ages),
	KUNIT_CASE(dump_ends_with_the_last_row),
	{}
};

static struct kunit_suite wteo_rows_suite = {
	.name = "wteo_rows",
	.test_cases = wteo_rows_cases,
};

kunit_test_suite(wteo_rows_suite);
