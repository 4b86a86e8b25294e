// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of what menu_ng learns:
 *
 * - intervals by residency, exit latency, tick and end of polling;
 * - correction factors by the time really slept;
 * - rejections say nothing;
 * - tunables take effect at once.
 */
#include "menu_ng_bench_kunit.h"

/* Rejections push intervals out and say nothing themselves. */
static void rejections_say_nothing(struct kunit *test)
{
	struct fixture *f = test->priv;
	u32 i;

	for (i = 0; i < 4; i++)
		learn(f, 2, 5000 + 600 * (i % 2));
	KUNIT_EXPECT_EQ(test, typical_us(f), 5300u);
	f->query.rejected = true;
	choose(f, &server, 9 * MS);
	choose(f, &server, 9 * MS);
	KUNIT_EXPECT_EQ(test, f->menu.window.valid, 6u);
	KUNIT_EXPECT_NE(test, typical_us(f), MENU_NG_NO_INTERVAL);
	choose(f, &server, 9 * MS);
	KUNIT_EXPECT_EQ(test, typical_us(f), MENU_NG_NO_INTERVAL);
	for (i = 0; i < 5; i++)
		choose(f, &server, 9 * MS);
	KUNIT_EXPECT_EQ(test, f->menu.window.valid, 0u);
	KUNIT_EXPECT_EQ(test, typical_us(f), MENU_NG_NO_INTERVAL);
}

/* A new size takes effect at the next decision; the newest intervals stay. */
static void resizing_keeps_the_newest(struct kunit *test)
{
	struct fixture *f = test->priv;
	const struct menu_ng_window *w = &f->menu.window;
	u32 i;

	for (i = 1; i <= 40; i++)
		learn(f, 1, i);
	f->tunables.history_size = 4;
	choose(f, &server, 9 * MS);
	KUNIT_EXPECT_EQ(test, w->size, 4u);
	KUNIT_EXPECT_EQ(test, w->sorted[0], 37u);
	KUNIT_EXPECT_EQ(test, w->sorted[3], 40u);
	KUNIT_EXPECT_EQ(test, w->sum, 37ULL + 38 + 39 + 40);

	f->tunables.history_size = 16;
	wake(f, &server, 1, 5000 * US, false, false);
	KUNIT_EXPECT_EQ(test, w->size, 16u);
	KUNIT_EXPECT_EQ(test, w->sorted[0], 26u);
	KUNIT_EXPECT_EQ(test, w->sorted[14], 40u);
	KUNIT_EXPECT_GT(test, w->sorted[15], 4000u);

	f->tunables.min_share = 100;
	choose(f, &server, 9 * MS);
	KUNIT_EXPECT_EQ(test, w->rest, 16u);
}

/* Another decay changes the scale of the factors and not what they say. */
static void decay_rescales_the_factors(struct kunit *test)
{
	struct fixture *f = test->priv;

	f->menu.factors[2] = 512 * 8;
	f->menu.factors[3] = 0;
	f->tunables.decay = 32;
	choose(f, &server, 9 * MS);
	KUNIT_EXPECT_EQ(test, f->menu.factors[0], 1024u * 32);
	KUNIT_EXPECT_EQ(test, f->menu.factors[2], 512u * 32);
	f->tunables.decay = 2;
	wake(f, &server, 1, 10 * US, false, false);
	KUNIT_EXPECT_EQ(test, f->menu.factors[2], 512u * 2);
	f->menu.factors[2] = 1;
	f->tunables.decay = 3;
	choose(f, &server, 9 * MS);
	f->tunables.decay = 2;
	choose(f, &server, 9 * MS);
	KUNIT_EXPECT_GT(test, f->menu.factors[2], 0u);
}

/* The idle duration is the residency less what the wake-up took. */
static void exit_latency_is_taken_off(struct kunit *test)
{
	struct fixture *f = test->priv;

	choose(f, &server, 9 * MS);
	wake(f, &server, 3, 1000 * US, false, false);
	KUNIT_EXPECT_EQ(test, newest_us(f), 1000u - 133);
	wake(f, &server, 3, 300 * US, false, false);
	KUNIT_EXPECT_EQ(test, newest_us(f), 300u - 133);
	wake(f, &server, 3, 200 * US, false, false);
	KUNIT_EXPECT_EQ(test, newest_us(f), 100u);
	wake(f, &server, 3, 266 * US, false, false);
	KUNIT_EXPECT_EQ(test, newest_us(f), 133u);
	wake(f, &server, 3, 50 * US, false, false);
	KUNIT_EXPECT_EQ(test, newest_us(f), 25u);
}

/* A tick tells nothing but that there was time, if no timer was near. */
static void tick_wakeups_count_as_long(struct kunit *test)
{
	struct fixture *f = test->priv;

	choose(f, &server, 80 * MS);
	wake(f, &server, 3, 2 * MS, true, false);
	KUNIT_EXPECT_EQ(test, newest_us(f), 45000u);
	choose(f, &server, 20 * MS);
	wake(f, &server, 3, 2 * MS, true, false);
	KUNIT_EXPECT_EQ(test, newest_us(f), 20000u);
	choose(f, &server, 4 * MS);
	wake(f, &server, 2, 2 * MS, true, false);
	KUNIT_EXPECT_EQ(test, newest_us(f), 1990u);
	f->tunables.max_interesting_us = 10000;
	choose(f, &server, 80 * MS);
	wake(f, &server, 3, 2 * MS, true, false);
	KUNIT_EXPECT_EQ(test, newest_us(f), 9000u);
}

/* Polling that gave up would have lasted until the timer; others never do. */
static void poll_limit_counts_as_the_timer(struct kunit *test)
{
	struct fixture *f = test->priv;

	choose(f, &server, 3 * MS);
	wake(f, &server, 0, 200 * US, false, true);
	KUNIT_EXPECT_EQ(test, newest_us(f), 3000u);
	wake(f, &server, 1, 200 * US, false, true);
	KUNIT_EXPECT_EQ(test, newest_us(f), 198u);
	wake(f, &server, 0, 200 * US, false, false);
	KUNIT_EXPECT_EQ(test, newest_us(f), 200u);

	/* Without a question for it: the timer is beyond what an interval can hold. */
	learn(f, 8, 5);
	choose(f, &server, 3 * MS);
	wake(f, &server, 0, 200 * US, false, true);
	KUNIT_EXPECT_EQ(test, newest_us(f), (u32)(CIL_TIME_MAX / US));
}

/* The factor moves an eighth of the way to the share that was really slept. */
static void factor_follows_the_share(struct kunit *test)
{
	struct fixture *f = test->priv;
	u32 i;

	choose(f, &server, 2 * MS);
	wake(f, &server, 0, 1 * MS, false, false);
	KUNIT_EXPECT_EQ(test, f->menu.factors[3], 8192u - 1024 + 512);
	for (i = 0; i < 200; i++)
		wake(f, &server, 0, 1 * MS, false, false);
	KUNIT_EXPECT_LE(test, f->menu.factors[3], 4096u + 7);
	KUNIT_EXPECT_GE(test, f->menu.factors[3], 4096u);

	/* More than was promised, or very long, is as good as promised. */
	f->menu.factors[3] = 800;
	wake(f, &server, 0, 5 * MS, false, false);
	KUNIT_EXPECT_EQ(test, f->menu.factors[3], 800u - 100 + 1024);
	KUNIT_EXPECT_EQ(test, newest_us(f), 2000u);
	choose(f, &server, 500 * MS);
	f->menu.factors[5] = 800;
	wake(f, &server, 0, 50 * MS, false, false);
	KUNIT_EXPECT_EQ(test, f->menu.factors[5], 800u - 100 + 1024);
	f->menu.factors[5] = 800;
	wake(f, &server, 0, 50 * MS - 1, false, false);
	KUNIT_EXPECT_EQ(test, f->menu.factors[5], 800u - 100 + 102);

	/* No time to divide by. */
	choose(f, &server, 0);
	f->menu.factors[0] = 800;
	wake(f, &server, 0, 50, false, false);
	KUNIT_EXPECT_EQ(test, f->menu.factors[0], 800u - 100 + 1024);
	KUNIT_EXPECT_EQ(test, newest_us(f), 0u);
}

/* Whatever was in memory: nothing is known, and the timer is believed. */
static void init_forgets(struct kunit *test)
{
	struct fixture *f = test->priv;
	u32 i;

	memset(&f->menu, 0x5a, sizeof(f->menu));
	menu_ng_policy.init(&f->menu, &server, &f->tunables);
	KUNIT_EXPECT_EQ(test, typical_us(f), MENU_NG_NO_INTERVAL);
	KUNIT_EXPECT_EQ(test, f->menu.window.valid, 8u);
	KUNIT_EXPECT_EQ(test, f->menu.next_timer_ns, 0ULL);
	resize(f, MENU_NG_HISTORY_MAX, 75);
	KUNIT_EXPECT_EQ(test, f->menu.window.sum, 0ULL);
	for (i = 0; i < MENU_NG_BUCKETS; i++)
		KUNIT_EXPECT_EQ(test, f->menu.factors[i], 8192u);
}

static struct kunit_case menu_ng_learn_cases[] = {
	KUNIT_CASE(rejections_say_nothing),
	KUNIT_CASE(resizing_keeps_the_newest),
	KUNIT_CASE(decay_rescales_the_factors),
	KUNIT_CASE(exit_latency_is_taken_off),
	KUNIT_CASE(tick_wakeups_count_as_long),
	KUNIT_CASE(poll_limit_counts_as_the_timer),
	KUNIT_CASE(factor_follows_the_share),
	KUNIT_CASE(init_forgets),
	{}
};

static struct kunit_suite menu_ng_learn_suite = {
	.name = "menu_ng_learn",
	.init = menu_ng_test_init,
	.test_cases = menu_ng_learn_cases,
};

kunit_test_suite(menu_ng_learn_suite);
