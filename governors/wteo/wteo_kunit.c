// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of the steps to a decision of wteo, in the order of wteo.c:
 *
 * - TEO decides first, then no more;
 * - what a condition foretells is foreseen: patterns, timeouts, timers;
 * - the mean decides;
 * - the tick is stopped where intervals are long, and not where they rarely are;
 *   polling never stops it; a stopped tick traps nobody in a shallow state;
 * - an interval that outlasts what is known gets a deeper state;
 * - break-even points follow residencies, powers and the latency bias.
 */
#include <kunit/test.h>

#include "wteo_bench_kunit.h"

/* TEO decides until the base row remembers three intervals, then no more. */
static void teo_comes_first(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_decision d;
	u32 i;

	for (i = 0; i < 20; i++) {
		d = bench_sleep(b, 300 * US, 100 * MS, false);
		KUNIT_EXPECT_EQ(test, i >= 4, is_own(&d));
	}
}

/* How many of the last 300 of 600 intervals get their column's state. */
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
	static const u32 alternating[] = { 40, 900 };
	static const u32 of_three[] = { 50, 50, 900 };
	static const s64 timers_ns[] = { 900 * MS, 900 * MS, 900 * MS };

	KUNIT_EXPECT_GE(test, count_hits(bench_new(test, 4), alternating, 2,
					 timers_ns), 299);
	KUNIT_EXPECT_GE(test, count_hits(bench_new(test, 4), of_three, 3,
					 timers_ns), 299);
}

/* What follows a timeout is foreseen by the timer, in any order. */
static void timeouts_tell_what_is_waited_for(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 wrong = 0, i;

	for (i = 0; i < 2000; i++) {
		bool disk = bench_below(b, 2);
		struct cil_decision d = bench_sleep(b, disk ? 40 * US : 900 * US,
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
 * The mean decides: two in three last 50 us, the third 20 ms, and nothing tells
 * which; so a deep state is right for all of them.
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
		stopped += is_own(&d) && d.stop_tick && d.index == 3;
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
		polled += is_own(&d) && !d.index;
	}
	KUNIT_EXPECT_GT(test, polled, 100);
}

/*
 * An interval that outlasts all that its row knows is not taken to end at once:
 * the row knows 40 us, 20 ms have passed, a deep state follows.
 */
static void outlasting_goes_deeper(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_decision d;
	u32 i;

	for (i = 0; i < 2000; i++)
		d = bench_sleep(b, 40 * US, 900 * MS, false);
	KUNIT_EXPECT_EQ(test, 2, d.index);
	bench_own_doing(b, 20 * MS, true, 0);
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

/* The latency bias moves each break-even point up by what it says. */
static void bias_moves_break_even(struct kunit *test)
{
	struct bench *b = bench_new(test, 6);
	const struct wteo *w = &b->wteo;
	u32 k;

	b->tunables.latency_bias = 0;
	b->tunables.latency_margin = 0;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	for (k = 1; k < 6; k++)
		KUNIT_EXPECT_EQ(test, b->machine.states[k].target_residency_ns,
				w->pays_ns[k]);
	b->tunables.latency_bias = 1024;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	for (k = 1; k < 6; k++) {
		s64 more_ns = bench_latencies_us[k] * US - bench_latencies_us[k - 1] * US;
		u32 saved = w->energy.power[k - 1] - w->energy.power[k];
		u64 moved_ns = w->pays_ns[k] - bench_residencies_us[k] * US;

		/* A us of latency is worth a us at full power. */
		KUNIT_EXPECT_GE(test, moved_ns * saved + saved,
				more_ns * w->energy.power[0]);
		KUNIT_EXPECT_LE(test, moved_ns * saved,
				more_ns * w->energy.power[0]);
	}
}

/* Energy of an interval of d_ns in state k, as wteo sees it. */
static u64 spent(const struct wteo *w, u32 k, u64 d_ns)
{
	return w->energy.entry[k] + w->energy.power[k] * d_ns;
}

/*
 * The latency margin moves each break-even point up, by no more than its share
 * of it or 128 us, nor by more than costs half that share of the energy, and by
 * as much as that allows.
 */
static void margin_moves_break_even(struct kunit *test)
{
	struct bench *b = bench_new(test, 6);
	const struct wteo *w = &b->wteo;
	u32 by_time = 0, by_energy = 0, by_limit = 0;
	u32 m, k;

	for (k = 0; k < 6; k++)
		b->tunables.power_mw[k] = k < 3 ? 10000 - 1000 * k : 1000 - 100 * k;
	for (m = 16; m <= 1024; m *= 4) {
		b->tunables.latency_margin = m;
		wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
		for (k = 1; k < 6; k++) {
			u64 even_ns = bench_residencies_us[k] * US;
			u64 pays_ns = w->pays_ns[k];
			u64 more = spent(w, k - 1, pays_ns) - spent(w, k, pays_ns);
			u64 most = (spent(w, k, even_ns) * m) >> 11;
			u64 share_ns = even_ns * m >> 10;
			/* Of a ns, in energy. */
			u64 grain = w->energy.power[k - 1] - w->energy.power[k];

			KUNIT_EXPECT_LE(test, pays_ns, even_ns + share_ns);
			KUNIT_EXPECT_LE(test, pays_ns, even_ns + 128 * US);
			KUNIT_EXPECT_LE(test, more, most);
			if (pays_ns == even_ns + share_ns)
				by_time++;
			else if (pays_ns == even_ns + 128 * US)
				by_limit++;
			else
				by_energy += more + grain > most;
		}
	}
	/* Each limit decides somewhere, and one of them everywhere. */
	KUNIT_EXPECT_GT(test, by_time, 0);
	KUNIT_EXPECT_GT(test, by_energy, 0);
	KUNIT_EXPECT_GT(test, by_limit, 0);
	KUNIT_EXPECT_EQ(test, 4 * 5, by_time + by_energy + by_limit);
}

/* There is no margin for a state that wakes up no later than the one before. */
static void margin_is_for_latency(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	const struct wteo *w = &b->wteo;
	u32 k;

	for (k = 0; k < 4; k++)
		b->machine.states[k].exit_latency_ns = 5 * US;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	for (k = 1; k < 4; k++)
		KUNIT_EXPECT_EQ(test, b->machine.states[k].target_residency_ns,
				w->pays_ns[k]);
	b->machine.states[3].exit_latency_ns = 5 * US + 1;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	KUNIT_EXPECT_GT(test, w->pays_ns[3],
			b->machine.states[3].target_residency_ns);
}

/* Which states may be the cheapest, and what a long interval gets. */
static u32 paying_with(struct kunit *test, const u32 power_mw[5], u32 disabled,
		       u8 *index)
{
	struct bench *b = bench_new(test, 5);
	struct cil_decision d;
	struct step s;
	u32 i;

	memcpy(b->tunables.power_mw, power_mw, 5 * sizeof(*power_mw));
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	for (i = 0; i < 20; i++) {
		memset(&s, 0, sizeof(s));
		s.query.now_ns = b->now_ns;
		s.query.latency_req_ns = CIL_TIME_MAX;
		s.query.disabled = disabled;
		s.sleep_length_ns = 20 * MS;
		s.delta_tick_ns = 3 * MS;
		bench_decide(b, &b->wteo, &s, &d);
		b->now_ns += 20 * MS;
		s.outcome.now_ns = b->now_ns;
		s.outcome.index = d.index;
		s.outcome.residency_ns = 20 * MS;
		wteo_policy.update(&b->wteo, &b->machine, &b->tunables,
				   &s.outcome);
	}
	*index = d.index;
	return b->wteo.paying;
}

/* Each state pays from its target residency on, whatever powers are named. */
static void wrong_powers_block_no_state(struct kunit *test)
{
	static const u32 right[] = { 4000, 3000, 2000, 1000, 100 };
	static const u32 equal[] = { 4000, 1000, 1000, 1000, 100 };
	static const u32 rising[] = { 1000, 2000, 3000, 4000, 5000 };
	static const u32 nothing[] = { 1u << 30, 1, 1, 1, 1 };
	u8 index;

	KUNIT_EXPECT_EQ(test, 0x1f, paying_with(test, right, 0, &index));
	KUNIT_EXPECT_EQ(test, 4, index);
	KUNIT_EXPECT_EQ(test, 0x1f, paying_with(test, equal, 0, &index));
	KUNIT_EXPECT_EQ(test, 4, index);
	paying_with(test, equal, 1u << 4, &index);
	KUNIT_EXPECT_EQ(test, 3, index);
	KUNIT_EXPECT_EQ(test, 0x1f, paying_with(test, rising, 0, &index));
	KUNIT_EXPECT_EQ(test, 4, index);
	/* Less than nothing no state can draw. */
	KUNIT_EXPECT_EQ(test, 0x3, paying_with(test, nothing, 0, &index));
	KUNIT_EXPECT_EQ(test, 1, index);
}

/* Where two states pay from the same time on, the deeper one is enough. */
static void of_equal_residencies_the_deeper_pays(struct kunit *test)
{
	struct bench *b = bench_new(test, 7);

	b->tunables.latency_margin = 0;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	/* States 5 and 6 both pay from 800 us on. */
	KUNIT_EXPECT_EQ(test, 0x5f, b->wteo.paying);
	KUNIT_EXPECT_EQ(test, 800 * US, b->wteo.pays_ns[6]);
}

/* States that never pay are passed over on the way to a deeper one. */
static void others_are_passed_over(struct kunit *test)
{
	struct bench *b = bench_new(test, 7);
	const struct wteo *w = &b->wteo;

	b->tunables.latency_margin = 0;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	KUNIT_EXPECT_EQ(test, 800 * US, w->pays_ns[5]);
	KUNIT_EXPECT_EQ(test, 6, w->deepest);
	/* As dear as to be awake for a second: worth it for nobody. */
	b->machine.states[6].exit_latency_ns = 1000 * MS;
	b->tunables.latency_bias = 1024;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	KUNIT_EXPECT_EQ(test, CIL_DURATION_MAX, w->pays_ns[6]);
	bench_machine(b, 1);
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	KUNIT_EXPECT_EQ(test, 0, w->paying);
	KUNIT_EXPECT_EQ(test, 0, w->deepest);
}

static struct kunit_case wteo_cases[] = {
	KUNIT_CASE(teo_comes_first),
	KUNIT_CASE(patterns_are_foreseen),
	KUNIT_CASE(timeouts_tell_what_is_waited_for),
	KUNIT_CASE(timers_are_believed),
	KUNIT_CASE(the_mean_decides),
	KUNIT_CASE(long_intervals_stop_the_tick),
	KUNIT_CASE(polling_keeps_the_tick),
	KUNIT_CASE(outlasting_goes_deeper),
	KUNIT_CASE(a_stopped_tick_traps_nobody),
	KUNIT_CASE(bias_moves_break_even),
	KUNIT_CASE(margin_moves_break_even),
	KUNIT_CASE(margin_is_for_latency),
	KUNIT_CASE(wrong_powers_block_no_state),
	KUNIT_CASE(of_equal_residencies_the_deeper_pays),
	KUNIT_CASE(others_are_passed_over),
	{}
};

static struct kunit_suite wteo_suite = {
	.name = "wteo",
	.test_cases = wteo_cases,
};

kunit_test_suite(wteo_suite);
