// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of the window of menu_ng and of the typical interval:
 *
 * - the window is the newest intervals, sorted, and its sums are theirs;
 * - the typical interval is what its plain definition says, whatever is left
 *   out first: shortcuts change nothing, for any tunables and any stream.
 */
#include "menu_ng_bench_kunit.h"

/* Random numbers from a seed in the source: a failure repeats. */
static u64 draw(u64 *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Streams in which ties, outliers, rejections and overflows are common. */
static u32 draw_interval(u64 *seed, u32 shape)
{
	u64 x = draw(seed);

	switch (shape) {
	case 0:
		return 1000 + x % 400;
	case 1:
		return x % 7;
	case 2:
		return x % 5 ? 500 + (x >> 8) % 20 : (x >> 8) % 9000;
	case 3:
		return x % 2 ? 50 + (x >> 8) % 4 : 3000 + (x >> 8) % 300;
	case 4:
		return x % 11 ? 800 + (x >> 8) % 500 : MENU_NG_NO_INTERVAL;
	case 5:
		return (u32)(x >> 8) >> x % 32;
	case 6:
		return x % 9 ? 0xfffff000u + (x >> 8) % 4096 : 77;
	case 7:
		return x % 3 ? 300 + (x >> 8) % 100 : 300;
	case 8:
		return x % 5 < 3 ? 500 + (x >> 8) % 30 : 4000;
	case 9:
		return x % 5 < 3 ? 4000 + (x >> 8) % 30 : 100;
	case 10:
		return 1000 + (x >> 8) % 800;
	case 11:
		return x % 90;
	default:
		return 40000 + (x >> 8) % 6000;
	}
}

#define SHAPES	13

/*
 * The definition, in the plainest way. Each round goes over all intervals and
 * leaves the farther end out, until the rest is typical or too little.
 */
static u32 plain_typical_us(const u32 *intervals,
			    const struct menu_ng_tunables *t)
{
	s64 above = -1, below = U32_MAX;

	for (;;) {
		u64 sum = 0, squares = 0, average, variance;
		u32 low = U32_MAX, high = 0, count = 0, i;
		u64 ratio = (u64)t->stddev_ratio * t->stddev_ratio;

		for (i = 0; i < t->history_size; i++) {
			u32 value = intervals[i];

			if (value <= above || value >= below)
				continue;
			count++;
			sum += value;
			squares += (u64)value * value;
			low = value < low ? value : low;
			high = value > high ? value : high;
		}
		if (!high)
			return MENU_NG_NO_INTERVAL;
		average = sum / count;
		variance = squares / count - average * average;
		if (variance <= U64_MAX / ratio &&
		    ((average * average > variance * ratio &&
		      count * 100 >= t->history_size * t->min_share) ||
		     variance <= (u64)t->stddev_us * t->stddev_us))
			return average;
		if (count * 100 <= t->history_size * t->min_share)
			return MENU_NG_NO_INTERVAL;
		if (average - low > high - average)
			above = low;
		else
			below = high;
	}
}

/* Whatever is added, the window is the newest intervals in order of length. */
static void window_is_sorted_and_summed(struct kunit *test)
{
	static const u32 sizes[] = { 2, 3, 8, 17, 64, 100, 128 };
	struct fixture *f = test->priv;
	struct menu_ng_window *w = &f->menu.window;
	u64 seed = 88172645463325252ULL;
	u32 round, i;

	for (round = 0; round < 5000; round++) {
		u64 sum = 0, squares = 0, core = 0, core_squares = 0;
		u32 valid = 0, found = 0;

		if (round % 300 == 0)
			resize(f, sizes[draw(&seed) % ARRAY_SIZE(sizes)],
			       25 + draw(&seed) % 76);
		else
			learn(f, 1, draw_interval(&seed, round / 400 % SHAPES));
		for (i = 0; i < w->size; i++) {
			u64 value = w->sorted[i];

			KUNIT_ASSERT_TRUE(test, !i || w->sorted[i - 1] <= value);
			found += value == newest_us(f);
			if (i >= w->core_first && i <= w->core_last) {
				core += value;
				core_squares += value * value;
			}
			if (value == MENU_NG_NO_INTERVAL)
				continue;
			valid++;
			sum += value;
			squares += value * value;
		}
		KUNIT_ASSERT_GT(test, found, 0u);
		KUNIT_ASSERT_EQ(test, w->valid, valid);
		KUNIT_ASSERT_EQ(test, w->sum, sum);
		KUNIT_ASSERT_EQ(test, w->square_sum, squares);
		KUNIT_ASSERT_EQ(test, w->core_sum, core);
		KUNIT_ASSERT_EQ(test, w->core_square_sum, core_squares);
	}
}

/* Shortcuts change nothing: any window, any tunables, any stream. */
static void typical_interval_follows_its_definition(struct kunit *test)
{
	static const u32 stddevs_us[] = { 20, 20, 0, 700 };
	static const u32 ratios[] = { 6, 6, 1, 13 };
	static const u32 most[] = { 7, 7, 40, 127 };
	struct fixture *f = test->priv;
	const struct menu_ng_window *w = &f->menu.window;
	struct menu_ng_tunables *t = &f->tunables;
	u32 round, shape = 0, typical = 0;
	u64 seed = 1181783497276652981ULL;

	for (round = 0; round < 200000; round++) {
		if (round % 500 == 0) {
			t->stddev_us = stddevs_us[draw(&seed) % 4];
			t->stddev_ratio = ratios[draw(&seed) % 4];
			resize(f, 2 + draw(&seed) % most[draw(&seed) % 4],
			       draw(&seed) % 3 ? 75 : 25 + draw(&seed) % 76);
			shape = draw(&seed) % SHAPES;
		}
		learn(f, 1, draw_interval(&seed, shape));
		KUNIT_ASSERT_EQ_MSG(test, typical_us(f),
				    plain_typical_us(w->sorted, t),
				    "round %u, shape %u, size %u", round, shape,
				    w->size);
		typical += typical_us(f) != MENU_NG_NO_INTERVAL;
	}
	KUNIT_EXPECT_GT(test, typical, 20000u);
	KUNIT_EXPECT_LT(test, typical, 180000u);
}

/* Equal intervals are typical, two of eight may differ, three may not. */
static void outliers_are_left_out(struct kunit *test)
{
	struct fixture *f = test->priv;

	KUNIT_EXPECT_EQ(test, typical_us(f), MENU_NG_NO_INTERVAL);
	learn(f, 8, 1000);
	KUNIT_EXPECT_EQ(test, typical_us(f), 1000u);
	learn(f, 1, 90000);
	KUNIT_EXPECT_EQ(test, typical_us(f), 1000u);
	learn(f, 1, 3);
	KUNIT_EXPECT_EQ(test, typical_us(f), 1000u);
	learn(f, 1, 7000);
	KUNIT_EXPECT_EQ(test, typical_us(f), MENU_NG_NO_INTERVAL);
}

/*
 * Intervals of minutes that agree are typical, although a sum of them is a
 * power of two whose square is nothing in 64 bits.
 */
static void long_intervals_are_not_given_up(struct kunit *test)
{
	struct fixture *f = test->priv;
	u32 i;

	resize(f, 128, 75);
	for (i = 0; i < 128; i++)
		learn(f, 1, (1 << 26) - 635 + 10 * i);
	KUNIT_EXPECT_EQ(test, typical_us(f), 1u << 26);
}

/* Where half of the window may be left out, or more, there is no core. */
static void small_shares_have_no_core(struct kunit *test)
{
	struct fixture *f = test->priv;
	const struct menu_ng_window *w = &f->menu.window;
	u32 share;

	for (share = 25; share <= 50; share += 25) {
		resize(f, 8, share);
		KUNIT_EXPECT_EQ(test, w->rest, 8 * share / 100);
		KUNIT_EXPECT_EQ(test, w->core_count, 0u);
		KUNIT_EXPECT_EQ(test, w->core_first, 0u);
		KUNIT_EXPECT_EQ(test, w->core_last, 0u);
	}
	resize(f, 8, 75);
	KUNIT_EXPECT_EQ(test, w->core_count, 4u);
	KUNIT_EXPECT_EQ(test, w->core_first, 2u);
	KUNIT_EXPECT_EQ(test, w->core_last, 5u);
}

/* A window that does not hold what it must is sorted again. */
static void a_damaged_window_is_sorted_again(struct kunit *test)
{
	static const u32 damage[] = { 0, 500, U32_MAX };
	struct fixture *f = test->priv;
	struct menu_ng_window *w = &f->menu.window;
	u32 round, i;

	for (round = 0; round < ARRAY_SIZE(damage); round++) {
		resize(f, 128, 75);
		for (i = 0; i < 128; i++)
			learn(f, 1, 1000 + i);
		for (i = 0; i < 128; i++)
			w->sorted[i] = damage[round];
		learn(f, 1, 2000);
		for (i = 0; i < 127; i++)
			KUNIT_EXPECT_EQ(test, w->sorted[i], 1001 + i);
		KUNIT_EXPECT_EQ(test, w->sorted[127], 2000u);
	}
}

static struct kunit_case menu_ng_window_cases[] = {
	KUNIT_CASE(window_is_sorted_and_summed),
	KUNIT_CASE(typical_interval_follows_its_definition),
	KUNIT_CASE(outliers_are_left_out),
	KUNIT_CASE(long_intervals_are_not_given_up),
	KUNIT_CASE(small_shares_have_no_core),
	KUNIT_CASE(a_damaged_window_is_sorted_again),
	{}
};

static struct kunit_suite menu_ng_window_suite = {
	.name = "menu_ng_window",
	.init = menu_ng_test_init,
	.test_cases = menu_ng_window_cases,
};

kunit_test_suite(menu_ng_window_suite);
