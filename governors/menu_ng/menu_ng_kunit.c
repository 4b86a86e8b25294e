// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of menu_ng: of its window, its typical interval, and step by step.
 * Each is stated before its case.
 */
#include <kunit/test.h>

#include "../../kunit/include/cil_test_env.h"
#include "menu_ng.h"

#define US	CIL_NSEC_PER_USEC
#define MS	CIL_NSEC_PER_MSEC

/* A server: polling, and three states of which the second one is shallow. */
static const struct cil_machine server = {
	.tick_ns = 4 * MS,
	.state_count = 4,
	.states = {
		{ 0, 0, 0, true },
		{ 2 * US, 2 * US, 0, false },
		{ 10 * US, 20 * US, 0, false },
		{ 133 * US, 600 * US, 0, false },
	},
};

/* A machine that does not poll, with a state that pays only after a tick. */
static const struct cil_machine client = {
	.tick_ns = 4 * MS,
	.state_count = 4,
	.states = {
		{ 2 * US, 2 * US, 0, false },
		{ 85 * US, 200 * US, 0, false },
		{ 200 * US, 800 * US, 0, false },
		{ 890 * US, 5 * MS, 0, false },
	},
};

/**
 * struct fixture - one CPU under menu_ng
 * @menu: its state
 * @tunables: values, the defaults at first
 * @query: what the next decision is told
 * @decision: the last decision
 */
struct fixture {
	struct menu_ng menu;
	struct menu_ng_tunables tunables;
	struct cil_query query;
	struct cil_decision decision;
};

static int menu_ng_test_init(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	u32 i;

	if (!f)
		return -1;
	for (i = 0; i < menu_ng_policy.tunable_count; i++)
		((u32 *)&f->tunables)[i] = menu_ng_policy.tunables[i].def;
	f->query.latency_req_ns = CIL_TIME_MAX;
	menu_ng_policy.init(&f->menu, &server, &f->tunables);
	test->priv = f;
	return 0;
}

static void learn(struct fixture *f, u32 count, u32 interval_us)
{
	while (count--)
		menu_ng_window_add(&f->menu.window, interval_us);
}

static u32 typical_us(struct fixture *f)
{
	return menu_ng_typical_us(&f->menu.window, &f->tunables);
}

static void resize(struct fixture *f, u32 size, u32 min_share)
{
	f->tunables.history_size = size;
	f->tunables.min_share = min_share;
	menu_ng_window_resize(&f->menu.window, size, min_share);
}

/* Choose with the next timer in @sleep_length_ns, the tick in @delta_tick_ns. */
static u32 choose_at(struct fixture *f, const struct cil_machine *machine,
		     s64 sleep_length_ns, s64 delta_tick_ns)
{
	cil_test_env_timer(sleep_length_ns, delta_tick_ns);
	f->query.asked = false;
	memset(&f->decision, 0xaa, sizeof(f->decision));
	menu_ng_policy.select(&f->menu, machine, &f->tunables, &f->query,
			      &f->decision);
	return f->decision.index;
}

/* Choose with the next timer in @sleep_length_ns, the tick in half a period. */
static u32 choose(struct fixture *f, const struct cil_machine *machine,
		  s64 sleep_length_ns)
{
	s64 tick_ns = machine->tick_ns / 2;

	return choose_at(f, machine, sleep_length_ns,
			 sleep_length_ns < tick_ns ? sleep_length_ns : tick_ns);
}

static void wake(struct fixture *f, const struct cil_machine *machine,
		 u32 index, u64 residency_ns, bool tick, bool poll_limit)
{
	struct cil_outcome outcome = {
		.residency_ns = residency_ns,
		.index = index,
		.tick_wakeup = tick,
		.poll_time_limit = poll_limit,
	};

	menu_ng_policy.update(&f->menu, machine, &f->tunables, &outcome);
}

static u32 newest_us(const struct fixture *f)
{
	const struct menu_ng_window *w = &f->menu.window;

	return w->ring[(w->newest - 1) % MENU_NG_HISTORY_MAX];
}

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
 * The definition, in the plainest way: go over all intervals in each round,
 * and leave the farther end out until what remains is typical or too little.
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

/* What the timer promises is corrected by what it used to give. */
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

/* With the tick stopped nobody decides again: deeper, if the timer allows. */
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

	/* Nobody asked: the timer is beyond what an interval can hold. */
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
	KUNIT_CASE(window_is_sorted_and_summed),
	KUNIT_CASE(typical_interval_follows_its_definition),
	KUNIT_CASE(outliers_are_left_out),
	KUNIT_CASE(rejections_say_nothing),
	KUNIT_CASE(resizing_keeps_the_newest),
	KUNIT_CASE(decay_rescales_the_factors),
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
	KUNIT_CASE(exit_latency_is_taken_off),
	KUNIT_CASE(tick_wakeups_count_as_long),
	KUNIT_CASE(poll_limit_counts_as_the_timer),
	KUNIT_CASE(factor_follows_the_share),
	KUNIT_CASE(init_forgets),
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
