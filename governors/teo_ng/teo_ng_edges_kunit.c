// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of teo_ng at the edges: one less, equal, one more, for each
 * comparison of its steps and of its learning.
 */
#include <kunit/test.h>

#include "teo_ng_bench_kunit.h"

/* Intercepts must outweigh all else, and half of them is not yet most. */
static void half_is_not_most(struct kunit *test)
{
	struct teo_ng teo = { .bins[0].intercepts = 500, .total = 1000 };
	struct teo_ng halves = {
		.bins[0].intercepts = 250,
		.bins[1].intercepts = 250,
		.total = 500,
	};

	KUNIT_EXPECT_EQ(test, decide(&teo, a_query(100 * MS)).index, 3);
	teo.total = 999;
	KUNIT_EXPECT_EQ(test, decide(&teo, a_query(100 * MS)).index, 0);

	KUNIT_EXPECT_EQ(test, decide(&halves, a_query(100 * MS)).index, 0);
	halves.bins[1].intercepts = 251;
	KUNIT_EXPECT_EQ(test, decide(&halves, a_query(100 * MS)).index, 1);
}

/* Of equal bins the deeper one is the peak; the last bin is none. */
static void the_deeper_of_equal_peaks_counts(struct kunit *test)
{
	struct cil_machine machine = skx;
	struct cil_query query = a_query(100 * MS);
	struct teo_ng teo = {
		.bins[0].intercepts = 200,
		.bins[1].intercepts = 200,
		.bins[2].intercepts = 150,
		.total = 550,
	};

	KUNIT_EXPECT_EQ(test, decide(&teo, query).index, 1);

	/* A fifth state that is disabled, and woken from most often. */
	machine.state_count = 5;
	machine.states[4] = machine.states[3];
	machine.states[4].target_residency_ns = 1 * MS;
	teo.bins[0].intercepts = 300;
	teo.bins[1].intercepts = 210;
	teo.bins[2].intercepts = 200;
	teo.bins[4].intercepts = 301;
	teo.total = 1011;
	query.disabled = 1 << 4;
	KUNIT_EXPECT_EQ(test, decide_on(&machine, &teo, query).index, 0);
}

/* Shallow is less than 15 us; short is half of all; a limit is below 7.5 us. */
static void the_timer_is_asked_from_the_edge_on(struct kunit *test)
{
	struct cil_machine machine = skx;
	struct cil_query query = a_query(100 * MS);
	struct teo_ng teo = { .short_idles = 500, .total = 1000 };

	query.latency_req_ns = 10 * US;
	machine.states[2].target_residency_ns = 15 * US;
	KUNIT_EXPECT_NE(test, decide_on(&machine, &teo, query).reason,
			CIL_REASON_TEO_SHALLOW);
	machine.states[2].target_residency_ns = 15 * US - 1;
	KUNIT_EXPECT_EQ(test, decide_on(&machine, &teo, query).reason,
			CIL_REASON_TEO_SHALLOW);
	teo.short_idles = 499;
	KUNIT_EXPECT_NE(test, decide_on(&machine, &teo, query).reason,
			CIL_REASON_TEO_SHALLOW);

	query.latency_req_ns = 7500;
	KUNIT_EXPECT_NE(test, decide(&teo, query).reason,
			CIL_REASON_TEO_SHALLOW);
	query.latency_req_ns = 7499;
	KUNIT_EXPECT_EQ(test, decide(&teo, query).reason,
			CIL_REASON_TEO_SHALLOW);
	query.tick_stopped = true;
	KUNIT_EXPECT_NE(test, decide(&teo, query).reason,
			CIL_REASON_TEO_SHALLOW);
}

/* Stuck is: shallower than a tick, and more than two ticks from the timer. */
static void stuck_has_edges(struct kunit *test)
{
	struct cil_machine machine = skx;
	struct cil_query query = a_query(2 * TICK);
	struct teo_ng teo = { .bins[1].intercepts = 1024, .total = 1024 };

	query.tick_stopped = true;
	KUNIT_EXPECT_EQ(test, decide(&teo, query).index, 1);
	query.sleep_length_ns++;
	KUNIT_EXPECT_EQ(test, decide(&teo, query).index, 3);

	/* The deeper state pays just until the timer. */
	machine.states[3].target_residency_ns = 2 * TICK + 1;
	KUNIT_EXPECT_EQ(test, decide_on(&machine, &teo, query).index, 3);
	machine.states[3].target_residency_ns++;
	KUNIT_EXPECT_EQ(test, decide_on(&machine, &teo, query).index, 2);

	query.sleep_length_ns = 100 * MS;
	machine.states[1].target_residency_ns = TICK;
	machine.states[2].target_residency_ns = TICK;
	KUNIT_EXPECT_EQ(test, decide_on(&machine, &teo, query).index, 1);
	machine.states[1].target_residency_ns--;
	KUNIT_EXPECT_EQ(test, decide_on(&machine, &teo, query).index, 3);
	KUNIT_EXPECT_EQ(test, decide_on(&machine, &teo, query).reason,
			CIL_REASON_TEO_UNSTICK);
}

/* From two thirds on, early wake-ups keep the tick for what pays within it. */
static void two_thirds_keep_the_tick(struct kunit *test)
{
	struct cil_machine machine = skx;
	struct cil_query query = a_query(100 * MS);
	struct teo_ng teo = {
		.bins[3].intercepts = 900,
		.tick_intercepts = 600,
		.total = 900,
	};

	KUNIT_EXPECT_FALSE(test, decide(&teo, query).stop_tick);
	teo.tick_intercepts = 599;
	KUNIT_EXPECT_TRUE(test, decide(&teo, query).stop_tick);

	teo.tick_intercepts = 900;
	machine.states[3].target_residency_ns = TICK;
	KUNIT_EXPECT_TRUE(test, decide_on(&machine, &teo, query).stop_tick);
	machine.states[3].target_residency_ns--;
	KUNIT_EXPECT_FALSE(test, decide_on(&machine, &teo, query).stop_tick);
}

/* The memory after one more idle period. */
static struct teo_ng after(struct teo_ng teo, s64 sleep_length_ns, u8 index,
			   s64 residency_ns, bool tick)
{
	struct cil_outcome outcome = {
		.residency_ns = (u64)residency_ns,
		.index = index,
		.tick_wakeup = tick,
	};

	teo.sleep_length_ns = sleep_length_ns;
	teo_ng_update(&teo, &skx, &outcome);
	return teo;
}

/* Short is within the exit latency, or below 15 us. */
static void short_idles_have_edges(struct kunit *test)
{
	struct teo_ng fresh = { 0 };

	KUNIT_EXPECT_EQ(test, after(fresh, 100 * MS, 3, 133 * US,
				    false).short_idles, 0u);
	KUNIT_EXPECT_EQ(test, after(fresh, 100 * MS, 3, 133 * US - 1,
				    false).short_idles, 1024u);
	KUNIT_EXPECT_EQ(test, after(fresh, 100 * MS, 0, 15 * US,
				    false).short_idles, 0u);
	KUNIT_EXPECT_EQ(test, after(fresh, 100 * MS, 0, 15 * US - 1,
				    false).short_idles, 1024u);
	/* Woken on the way in: half of the time counts. */
	KUNIT_EXPECT_EQ(test, after(fresh, 100 * MS, 3, 40 * US,
				    false).bins[2].intercepts, 1024u);
	KUNIT_EXPECT_EQ(test, after(fresh, 100 * MS, 3, 40 * US - 1,
				    false).bins[1].intercepts, 1024u);
}

/* Early is by half of the exit latency; within a tick is up to its period. */
static void intercepts_have_edges(struct kunit *test)
{
	struct teo_ng fresh = { 0 };

	/* Half of the latency is taken off, and half of it is forgiven. */
	KUNIT_EXPECT_EQ(test, after(fresh, 10 * MS, 3, 10 * MS,
				    false).bins[3].intercepts, 1024u);
	KUNIT_EXPECT_EQ(test, after(fresh, 10 * MS, 3, 10 * MS + 1,
				    false).bins[3].hits, 1024u);
	KUNIT_EXPECT_EQ(test, after(fresh, 100 * MS, 0, TICK,
				    false).tick_intercepts, 1024u);
	KUNIT_EXPECT_EQ(test, after(fresh, 100 * MS, 0, TICK + 1,
				    false).tick_intercepts, 0u);
	/* An overdue timer is no intercept of a later bin. */
	KUNIT_EXPECT_EQ(test, after(fresh, 100 * US, 3, 10 * MS,
				    false).bins[2].hits, 1024u);
}

/*
 * Two thirds of all must be ticks for them to count as hits of the deepest
 * state. Less than two thirds must be intercepts for them to count as the
 * timer's.
 */
static void ticks_have_edges(struct kunit *test)
{
	/* An eighth less than 1170 and 2340 is 1024 and 2048. */
	struct teo_ng teo = { .bins[0].hits = 2340, .tick_wakeups = 1170 };

	KUNIT_EXPECT_EQ(test, after(teo, 30 * US, 2, TICK, true).bins[3].hits,
			0u);
	KUNIT_EXPECT_EQ(test, after(teo, 30 * US, 2, TICK, true).bins[2].hits,
			1024u);
	teo.tick_wakeups = 1171;
	KUNIT_EXPECT_EQ(test, after(teo, 30 * US, 2, TICK, true).bins[3].hits,
			1024u);

	/* An eighth less than 3510 is 3072. */
	teo.tick_wakeups = 0;
	teo.bins[0].hits = 3510;
	teo.tick_intercepts = 2340;
	KUNIT_EXPECT_EQ(test, after(teo, 100 * MS, 2, TICK, true).bins[3].hits,
			0u);
	teo.tick_intercepts = 2339;
	KUNIT_EXPECT_EQ(test, after(teo, 100 * MS, 2, TICK, true).bins[3].hits,
			1024u);
}

/* With the most states there can be, all bins fade, and nothing behind them. */
static void ten_bins_add_up(struct kunit *test)
{
	struct cil_machine machine = { .tick_ns = TICK, .state_count = 10 };
	struct teo_ng teo = { .sleep_length_ns = 100 * MS };
	struct cil_outcome outcome = { 0 };
	u32 round, i, sum;

	for (i = 0; i < 10; i++)
		machine.states[i].target_residency_ns = i * MS;
	for (round = 0; round < 40; round++) {
		outcome.residency_ns = round % 11 * MS;
		teo.sleep_length_ns = 100 * MS;
		teo_ng_update(&teo, &machine, &outcome);
		for (sum = 0, i = 0; i < 10; i++)
			sum += teo.bins[i].hits + teo.bins[i].intercepts;
		KUNIT_EXPECT_EQ(test, sum, teo.total);
	}
}

static struct kunit_case teo_ng_edges_cases[] = {
	KUNIT_CASE(half_is_not_most),
	KUNIT_CASE(the_deeper_of_equal_peaks_counts),
	KUNIT_CASE(the_timer_is_asked_from_the_edge_on),
	KUNIT_CASE(stuck_has_edges),
	KUNIT_CASE(two_thirds_keep_the_tick),
	KUNIT_CASE(short_idles_have_edges),
	KUNIT_CASE(intercepts_have_edges),
	KUNIT_CASE(ticks_have_edges),
	KUNIT_CASE(ten_bins_add_up),
	{}
};

static struct kunit_suite teo_ng_edges_suite = {
	.name = "teo_ng_edges",
	.test_cases = teo_ng_edges_cases,
};

kunit_test_suite(teo_ng_edges_suite);
