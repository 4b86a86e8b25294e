// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of the steps to a decision of wteo, in the order of wteo.c:
 *
 * - the timer is believed first;
 * - what a condition foretells is foreseen: patterns, timeouts, timers;
 * - the mean decides;
 * - the tick is stopped where intervals are long, and not where they rarely
 *   are;
 * - polling never stops it; a stopped tick traps no CPU in a shallow state;
 * - an interval that outlasts what is known gets a deeper state;
 * - break-even points follow residencies, powers and the latency bias.
 */
#include <kunit/test.h>

#include "wteo_bench_kunit.h"

/* As long as nothing is known, the timer is believed. */
static void the_timer_comes_first(struct kunit *test)
{
	static const struct {
		s64 timer_ns;
		u32 index;
		bool stop_tick;
	} cases[] = {
		{ 1 * US, 0, false }, { 10 * US, 1, false }, { 50 * US, 2, false },
		{ 3 * MS, 3, false }, { 500 * MS, 3, true },
	};
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cil_decision d = bench_sleep(bench_new(test, 4), 1 * US,
						    cases[i].timer_ns, false);

		KUNIT_EXPECT_EQ(test, cases[i].index, d.index);
		KUNIT_EXPECT_EQ(test, cases[i].stop_tick, d.stop_tick);
	}
}

/* Number of the last 300 of 600 intervals that get their column's state. */
static u32 count_hits(struct bench *b, const u32 *pattern_us, u32 length,
		      const s64 *timers_ns)
{
	u32 hits = 0, i, k;

	for (i = 0; i < 600; i++) {
		s64 slept_ns = pattern_us[i % length] * US;
		struct cil_decision d = bench_sleep(b, slept_ns,
						  timers_ns[i % length], false);
		u32 ideal = 0;

		for (k = 1; k < b->machine.state_count; k++)
			if (b->machine.states[k].target_residency_ns <= slept_ns)
				ideal = k;
		hits += i >= 300 && d.index == ideal;
	}
	return hits;
}

/* A pattern that two intervals tell is foreseen. */
static void patterns_are_foreseen(struct kunit *test)
{
	static const u32 alternating[] = { 60, 900 };
	static const u32 of_three[] = { 60, 60, 900 };
	static const s64 timers_ns[] = { 900 * MS, 900 * MS, 900 * MS };

	KUNIT_EXPECT_GE(test, count_hits(bench_new(test, 4), alternating, 2,
					 timers_ns), 299);
	KUNIT_EXPECT_GE(test, count_hits(bench_new(test, 4), of_three, 3,
					 timers_ns), 299);
}

/* The length of a wait is foreseen by its timeout, in any order. */
static void timeouts_tell_what_is_waited_for(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 wrong = 0, i;

	for (i = 0; i < 2000; i++) {
		bool disk = bench_below(b, 2);
		struct cil_decision d = bench_sleep(b, disk ? 60 * US : 900 * US,
						  disk ? 30 * MS : 900 * MS,
						  false);

		wrong += i >= 500 && d.index != (disk ? 2 : 3);
	}
	KUNIT_EXPECT_LE(test, wrong, 15);
}

/* Where nothing but timers wakes the CPU, the timer is believed. */
static void timers_are_believed(struct kunit *test)
{
	static const s64 lengths_ns[] = { 10 * US, 50 * US, 3 * MS, 500 * MS };
	static const u8 ideal[] = { 1, 2, 3, 3 };
	struct bench *b = bench_new(test, 4);
	u32 wrong = 0, i;

	for (i = 0; i < 2000; i++) {
		u32 k = bench_below(b, 4);
		struct cil_decision d = bench_sleep(b, lengths_ns[k],
						  lengths_ns[k], k == 3);

		wrong += i >= 100 && d.index != ideal[k];
	}
	KUNIT_EXPECT_EQ(test, 0, wrong);
}

/*
 * The mean decides: two in three last 50 us, the third 20 ms, without any sign
 * before. So a deep state is right for all of them.
 */
static void the_mean_decides(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 deep = 0, i;

	/* Without a polling state and a tick in the way: plain costs. */
	b->machine.states[0].polling = false;
	b->machine.tick_ns = 1000 * MS;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	for (i = 0; i < 600; i++)
		deep += bench_sleep(b, bench_below(b, 3) ? 50 * US : 20 * MS, 900 * MS,
				  false).index == 3;
	KUNIT_EXPECT_GT(test, deep, 550);
}

/* Where the CPU sleeps for long each time, the tick is stopped. */
static void long_intervals_stop_the_tick(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_decision d;
	u32 stopped = 0, i;

	for (i = 0; i < 100; i++) {
		d = bench_sleep(b, 20 * MS, 900 * MS, false);
		stopped += d.stop_tick && d.index == 3;
	}
	KUNIT_EXPECT_GT(test, stopped, 90);
}

/* Even where polling is all that pays, it leaves the tick running. */
static void polling_keeps_the_tick(struct kunit *test)
{
	struct bench *b = bench_new(test, 2);
	struct cil_decision d;
	u32 polled = 0, i;

	b->machine.states[1].target_residency_ns = 500 * MS;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	for (i = 0; i < 200; i++) {
		d = bench_sleep(b, 9 * MS, 900 * MS, false);
		KUNIT_ASSERT_FALSE(test, d.stop_tick && !d.index);
		polled += !d.index;
	}
	KUNIT_EXPECT_GT(test, polled, 100);
}

/*
 * An interval that outlasts its row's intervals is not taken to end at once.
 * The row knows 60 us, 20 ms have passed, a deep state follows.
 */
static void outlasting_goes_deeper(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_decision d;
	u32 i;

	for (i = 0; i < 2000; i++)
		d = bench_sleep(b, 60 * US, 900 * MS, false);
	KUNIT_EXPECT_EQ(test, 2, d.index);
	bench_own_doing(b, 20 * MS, true, false);
	d = bench_sleep(b, 1 * MS, 900 * MS, false);
	KUNIT_EXPECT_EQ(test, 3, d.index);
}

/* With the tick stopped, a state that is too shallow would trap the CPU. */
static void a_stopped_tick_traps_nobody(struct kunit *test)
{
	struct bench *b = bench_new(test, 8);
	struct cil_decision d;
	struct step s = { .sleep_length_ns = 900 * MS,
			  .delta_tick_ns = 900 * MS };
	u32 i;

	for (i = 0; i < 200; i++)
		bench_sleep(b, 30 * US, 900 * MS, false);
	s.query.now_ns = b->now_ns;
	s.query.latency_req_ns = CIL_TIME_MAX;
	s.query.tick_stopped = true;
	bench_decide(b, &b->wteo, &s, &d);
	/* 3.5 ms are a 256th of the time to the timer. */
	KUNIT_EXPECT_EQ(test, 6, d.index);
	s.query.disabled = 1u << 6;
	bench_decide(b, &b->wteo, &s, &d);
	KUNIT_EXPECT_EQ(test, 5, d.index);
}

/* A decision with the tick stopped; an interval begins with it. */
static u32 without_tick(struct bench *b, s64 timer_ns)
{
	struct cil_decision d;
	struct step s = { .sleep_length_ns = timer_ns, .delta_tick_ns = timer_ns };

	s.query.now_ns = b->now_ns;
	s.query.latency_req_ns = CIL_TIME_MAX;
	s.query.tick_stopped = true;
	bench_decide(b, &b->wteo, &s, &d);
	return d.index;
}

/* So many idle periods of 200 us each, the tick stopped and a timer far away. */
static void wake_often(struct bench *b, u32 count, s64 timer_ns)
{
	while (count--) {
		struct cil_outcome outcome = { .residency_ns = 200 * US };

		outcome.index = (u8)without_tick(b, timer_ns);
		b->now_ns += 200 * US;
		outcome.now_ns = b->now_ns;
		wteo_policy.update(&b->wteo, &b->machine, &b->tunables, &outcome);
		b->now_ns += 5 * US;
	}
}

/* A burst of interrupts, then a minute without any: the deepest state, even of 100 ms. */
static void a_burst_traps_nobody(struct kunit *test)
{
	static const u32 bursts[] = { 0, 3, 12, 100, 400 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(bursts); i++) {
		struct bench *b = bench_new(test, 4);

		b->machine.states[3].target_residency_ns = 100 * MS;
		wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
		wake_often(b, bursts[i], 60000 * MS);
		KUNIT_EXPECT_EQ(test, 3, without_tick(b, 60000 * MS));
	}
}

/* With nohz_full the tick never runs: what never happened before is not expected for ever. */
static void a_busy_cpu_without_a_tick_is_shallow(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);

	b->machine.states[3].target_residency_ns = 1 * MS;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	wake_often(b, 1000, 1000 * MS);
	KUNIT_EXPECT_EQ(test, 3, without_tick(b, 1000 * MS));
	wake_often(b, 3000, 1000 * MS);
	KUNIT_EXPECT_EQ(test, 2, without_tick(b, 1000 * MS));
	/* Once the tick has run, it may be another load. */
	b->wteo.open = false;
	bench_sleep(b, 200 * US, 1000 * MS, false);
	KUNIT_EXPECT_EQ(test, 3, without_tick(b, 1000 * MS));
	/* With the tick, too, one in so many is taken to be new. */
	wake_often(b, 20000, 1000 * MS);
	KUNIT_EXPECT_EQ(test, 1u << WTEO_UNSEEN_SHIFT, b->wteo.stopped);
	KUNIT_EXPECT_EQ(test, 2, without_tick(b, 1000 * MS));
}

/* The latency bias moves each break-even point up by what it says. */
static void bias_moves_break_even(struct kunit *test)
{
	static const u32 tried[] = { 0, 256, 1024, 8192 };
	struct bench *b = bench_new(test, 6);
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(tried); i++) {
		for (k = 1; k < 5; k++) {
			s64 pays_ns = bench_residencies_us[k] * (US * (1024 + tried[i]) >> 10);
			s64 more_ns = 16 + pays_ns / 256;

			b->tunables.latency_bias = tried[i];
			wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
			/* As long as nothing is known, the timer is the mean. */
			KUNIT_EXPECT_EQ(test, k - 1, without_tick(b, pays_ns - more_ns));
			b->wteo.open = false;
			KUNIT_EXPECT_EQ(test, k, without_tick(b, pays_ns + more_ns));
		}
	}
}

/* A decision sees another bias at once, also where not all states may be used. */
static void bias_counts_among_some_states(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct step s = {
		.query = { .now_ns = 1 * MS, .latency_req_ns = S64_MAX, .disabled = 1u << 2 },
		.sleep_length_ns = 150 * US,
		.delta_tick_ns = 150 * US,
	};
	struct cil_decision d;

	b->tunables.latency_bias = 0;
	bench_decide(b, &b->wteo, &s, &d);
	KUNIT_EXPECT_EQ(test, 3, d.index);
	b->tunables.latency_bias = 8192;
	bench_decide(b, &b->wteo, &s, &d);
	KUNIT_EXPECT_EQ(test, 1, d.index);
}

/* Where two states pay from the same time on, the deeper one is enough. */
static void of_equal_residencies_the_deeper_pays(struct kunit *test)
{
	struct bench *b = bench_new(test, 7);

	b->tunables.latency_bias = 0;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	/* States 5 and 6 both pay from 800 us on. */
	KUNIT_EXPECT_EQ(test, 800 * US, b->wteo.begin_ns[5]);
	KUNIT_EXPECT_EQ(test, 800 * US, b->wteo.begin_ns[6]);
	KUNIT_EXPECT_EQ(test, 6, without_tick(b, 900 * US));
}

/* States that never pay are not taken, though the timer is a minute away. */
static void others_are_passed_over(struct kunit *test)
{
	struct bench *b = bench_new(test, 7);

	b->tunables.latency_bias = 0;
	/* As dear as to be awake for a second: no interval is worth it. */
	b->machine.states[6].target_residency_ns = 1000 * MS;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	KUNIT_EXPECT_EQ(test, WTEO_NO_DURATION, b->wteo.begin_ns[6]);
	KUNIT_EXPECT_EQ(test, 5, without_tick(b, 60000 * MS));
	/* One that says to pay later than a deeper one. */
	b->machine.states[4].target_residency_ns = 900 * US;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	KUNIT_EXPECT_EQ(test, 5, without_tick(b, 850 * US));
	bench_machine(b, 1);
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	KUNIT_EXPECT_EQ(test, 0, without_tick(b, 60000 * MS));
}

static struct kunit_case wteo_cases[] = {
	KUNIT_CASE(the_timer_comes_first),
	KUNIT_CASE(patterns_are_foreseen),
	KUNIT_CASE(timeouts_tell_what_is_waited_for),
	KUNIT_CASE(timers_are_believed),
	KUNIT_CASE(the_mean_decides),
	KUNIT_CASE(long_intervals_stop_the_tick),
	KUNIT_CASE(polling_keeps_the_tick),
	KUNIT_CASE(outlasting_goes_deeper),
	KUNIT_CASE(a_stopped_tick_traps_nobody),
	KUNIT_CASE(a_burst_traps_nobody),
	KUNIT_CASE(a_busy_cpu_without_a_tick_is_shallow),
	KUNIT_CASE(bias_moves_break_even),
	KUNIT_CASE(bias_counts_among_some_states),
	KUNIT_CASE(of_equal_residencies_the_deeper_pays),
	KUNIT_CASE(others_are_passed_over),
	{}
};

static struct kunit_suite wteo_suite = {
	.name = "wteo",
	.test_cases = wteo_cases,
};

kunit_test_suite(wteo_suite);
