// SPDX-License-Identifier: GPL-2.0
/*
 * Properties that hold for every decision of wteo, whatever it has learned:
 *
 * - the state exists, is enabled, and within the latency request, or else the
 *   shallowest enabled one, for 1 to 10 states;
 * - it pays until the timer;
 * - a polling state does not stop the tick, and a stopped tick stays stopped;
 * - tables of equal residencies work;
 * - no number of 64 bits makes it overflow, divide by zero or leave its arrays.
 */
#include <kunit/test.h>

#include "wteo_bench_kunit.h"

static u32 lowest(const struct bench *b, const struct cil_query *query)
{
	u32 k;

	for (k = 0; k < b->machine.state_count; k++)
		if (!cil_disabled(query, k))
			break;
	return k;
}

static bool fits_request(const struct bench *b, const struct cil_query *query,
			 u32 index)
{
	return b->machine.states[index].exit_latency_ns <=
	       query->latency_req_ns;
}

static bool may_be_met(const struct bench *b, const struct cil_query *query)
{
	u32 k;

	for (k = 0; k < b->machine.state_count; k++)
		if (!cil_disabled(query, k) && fits_request(b, query, k))
			return true;
	return false;
}

/* Properties of every decision. */
static void check_decision(struct kunit *test, struct bench *b,
			   const struct step *s, const struct cil_decision *d)
{
	const struct cil_query *q = &s->query;
	const struct cil_state *state;

	KUNIT_ASSERT_LT(test, d->index, b->machine.state_count);
	state = &b->machine.states[d->index];
	KUNIT_ASSERT_LT(test, d->row, WTEO_ROWS);
	if (lowest(b, q) < b->machine.state_count)
		KUNIT_ASSERT_FALSE(test, cil_disabled(q, d->index));
	if (may_be_met(b, q))
		KUNIT_ASSERT_TRUE(test, fits_request(b, q, d->index));
	else if (lowest(b, q) < b->machine.state_count)
		KUNIT_ASSERT_EQ(test, lowest(b, q), d->index);
	else
		KUNIT_ASSERT_EQ(test, 0, d->index);
	if (q->tick_stopped)
		KUNIT_ASSERT_TRUE(test, d->stop_tick);
	else if (d->stop_tick)
		KUNIT_ASSERT_FALSE(test, state->polling);
	/* Times are rounded, the more the less a row weighs. */
	if (q->asked && d->index && d->index != lowest(b, q) &&
	    may_be_met(b, q) && s->sleep_length_ns > 100 * US &&
	    fits_request(b, q, 0) && !(q->disabled & 1))
		KUNIT_ASSERT_LE(test, state->target_residency_ns,
				s->sleep_length_ns + s->sleep_length_ns / 64);
}

static void run_random(struct kunit *test, struct bench *b, u32 count,
		       u32 seen[256])
{
	struct cil_decision d;
	struct step s;
	u32 i;

	for (i = 0; i < count; i++) {
		bench_random_step(b, &s);
		bench_decide(b, &b->wteo, &s, &d);
		check_decision(test, b, &s, &d);
		seen[d.reason]++;

		/* Some decisions have no outcome, and some states demote. */
		if (!bench_below(b, 10))
			continue;
		bench_random_outcome(b, &s, bench_below(b, 20) ? d.index :
					 bench_below(b, b->machine.state_count));
		wteo_policy.update(&b->wteo, &b->machine, &b->tunables,
				   &s.outcome);
		b->now_ns += bench_below(b, 5) ? 0 : bench_duration(b);
	}
}

/* Disabled states, latency requests, the timer and the tick are respected. */
static void limits_are_respected(struct kunit *test)
{
	u32 seen[256] = { 0 };
	u32 n;

	for (n = 1; n <= 10; n++) {
		struct bench *b = bench_new(test, n);

		b->tunables.half_life_ms = n % 2 ? 100000 : 0;
		b->tunables.learning_rate = n % 5 ? 16 : 100;
		run_random(test, b, 4000, seen);
	}
	KUNIT_EXPECT_GT(test, seen[CIL_REASON_WTEO_EXPECTED], 100);
	KUNIT_EXPECT_GT(test, seen[CIL_REASON_WTEO_EXPECTED_TICK], 100);
}

/* All states may need the same time to pay off. */
static void equal_residencies_work(struct kunit *test)
{
	struct bench *b = bench_new(test, 5);
	u32 seen[256] = { 0 };
	u32 k;

	for (k = 0; k < 5; k++)
		b->machine.states[k].target_residency_ns = 100 * US;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	run_random(test, b, 4000, seen);
	KUNIT_EXPECT_GT(test, seen[CIL_REASON_WTEO_EXPECTED] +
			      seen[CIL_REASON_WTEO_EXPECTED_TICK], 100);
	for (k = 1; k < 5; k++)
		KUNIT_EXPECT_LT(test, b->wteo.costs[k].power,
				b->wteo.costs[k - 1].power);
}

static const s64 extremes[] = {
	-S64_MAX, -S64_MAX / 2, -1, 0, 1, 1000, S64_MAX / 2, S64_MAX - 1, S64_MAX,
};

static s64 extreme(struct bench *b)
{
	return extremes[bench_below(b, ARRAY_SIZE(extremes))];
}

/* No input makes it overflow, divide by zero or leave its arrays. */
static void extremes_do_no_harm(struct kunit *test)
{
	struct bench *b = bench_new(test, 10);
	struct cil_decision d;
	struct step s;
	u32 i, k;

	for (i = 0; i < 60000; i++) {
		if (!(i % 100)) {
			bench_machine(b, 1 + bench_below(b, 10));
			for (k = 0; k < b->machine.state_count; k++) {
				struct cil_state *state = &b->machine.states[k];

				/* Half of the range: sums with a residency fit. */
				state->exit_latency_ns = extreme(b) &
							 S64_MAX >> 1;
				state->target_residency_ns = extreme(b);
				state->power_uw = extreme(b);
			}
			b->machine.tick_ns = 1 + bench_below(b, 10 * MS);
			b->tunables.half_life_ms = bench_below(b, 86400001);
			b->tunables.latency_bias = bench_below(b, 8193);
			wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
		}
		memset(&s, 0, sizeof(s));
		s.query.now_ns = extreme(b);
		s.query.latency_req_ns = extreme(b);
		s.query.disabled = cil_random(&b->random);
		s.query.tick_stopped = bench_below(b, 2);
		s.sleep_length_ns = extreme(b);
		s.delta_tick_ns = extreme(b);
		bench_decide(b, &b->wteo, &s, &d);
		KUNIT_ASSERT_LT(test, d.index, b->machine.state_count);
		s.outcome.now_ns = extreme(b);
		s.outcome.residency_ns = extreme(b) & S64_MAX;
		s.outcome.index = d.index;
		s.outcome.tick_wakeup = bench_below(b, 2);
		s.outcome.poll_time_limit = bench_below(b, 2);
		wteo_policy.update(&b->wteo, &b->machine, &b->tunables,
				   &s.outcome);
		KUNIT_ASSERT_EQ(test, bench_row(b, WTEO_BASE)->total,
				bench_sum(b, WTEO_BASE));
	}
}

static struct kunit_case wteo_limits_cases[] = {
	KUNIT_CASE(limits_are_respected),
	KUNIT_CASE(equal_residencies_work),
	KUNIT_CASE(extremes_do_no_harm),
	{}
};

static struct kunit_suite wteo_limits_suite = {
	.name = "wteo_limits",
	.test_cases = wteo_limits_cases,
};

kunit_test_suite(wteo_limits_suite);
