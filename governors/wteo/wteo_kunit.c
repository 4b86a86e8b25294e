// SPDX-License-Identifier: GPL-2.0
/*
 * Properties of wteo, stated before the code that checks them.
 */
#include <kunit/test.h>

#include <cil_test_env.h>

#include "wteo.h"

#define US		CIL_NSEC_PER_USEC
#define MS		CIL_NSEC_PER_MSEC

/* Everything that one policy needs to run: too large for a kernel stack. */
struct bench {
	struct cil_machine machine;
	struct wteo_tunables tunables;
	struct wteo wteo;
	struct wteo other;
	struct teo_ng teo;
	u64 random;
	u64 now_ns;
};

struct step {
	struct cil_query query;
	struct cil_outcome outcome;
	s64 sleep_length_ns;
	s64 delta_tick_ns;
};

static const s64 residencies_us[] = {
	0, 2, 20, 100, 200, 800, 800, 5000, 20000, 100000,
};

static const s64 latencies_us[] = {
	0, 2, 10, 70, 85, 124, 200, 480, 2000, 10000,
};

static void machine_init(struct bench *b, u32 states)
{
	struct cil_machine *m = &b->machine;
	u32 k;

	memset(m, 0, sizeof(*m));
	m->tick_ns = 4 * MS;
	m->state_count = states;
	for (k = 0; k < states; k++) {
		m->states[k].exit_latency_ns = latencies_us[k] * US;
		m->states[k].target_residency_ns = residencies_us[k] * US;
	}
	m->states[0].polling = true;
}

static struct bench *bench_new(struct kunit *test, u32 states)
{
	struct bench *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);
	u32 *values;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, b);
	values = (u32 *)&b->tunables;
	for (i = 0; i < wteo_policy.tunable_count; i++)
		values[i] = wteo_policy.tunables[i].def;
	machine_init(b, states);
	b->random = cil_random_seed(1, states);
	b->now_ns = 1000 * MS;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	teo_ng_init(&b->teo);
	return b;
}

static u32 below(struct bench *b, u32 limit)
{
	return ((u64)cil_random(&b->random) * limit) >> 32;
}

/* From 1 ns to about a minute, all magnitudes alike. */
static s64 any_duration(struct bench *b)
{
	u32 bits = below(b, 36);

	return (1LL << bits) + (cil_random(&b->random) & ((1LL << bits) - 1));
}

static void random_step(struct bench *b, struct step *s)
{
	memset(s, 0, sizeof(*s));
	s->query.now_ns = b->now_ns;
	s->query.latency_req_ns = below(b, 4) ? CIL_TIME_MAX :
						latencies_us[below(b, 10)] * US;
	s->query.disabled = below(b, 4) ? 0 : below(b, 1024);
	s->query.tick_stopped = !below(b, 4);
	s->sleep_length_ns = any_duration(b);
	s->delta_tick_ns = s->sleep_length_ns;
	if (!s->query.tick_stopped && s->delta_tick_ns > 4 * MS)
		s->delta_tick_ns = 1 + below(b, 4 * MS);
}

static void decide(struct bench *b, struct wteo *w, struct step *s,
		   struct cil_decision *d)
{
	cil_test_env_timer(s->sleep_length_ns, s->delta_tick_ns);
	wteo_policy.select(w, &b->machine, &b->tunables, &s->query, d);
}

static void random_outcome(struct bench *b, struct step *s, u8 index)
{
	s64 slept_ns = any_duration(b);

	s->outcome.index = index;
	s->outcome.poll_time_limit = !below(b, 16);
	if (slept_ns >= s->delta_tick_ns) {
		slept_ns = s->delta_tick_ns;
		s->outcome.tick_wakeup = below(b, 2);
	}
	s->outcome.residency_ns = slept_ns;
	b->now_ns += slept_ns + below(b, 200 * US);
	s->outcome.now_ns = b->now_ns;
}

static const struct wteo_cell *cells_of(const struct bench *b, u32 slot)
{
	return b->wteo.rows.cells + slot * (b->machine.state_count + 1);
}

static const struct wteo_row *row_of(const struct bench *b, u32 slot)
{
	return &b->wteo.rows.heads[slot];
}

static u64 sum_of(const struct bench *b, u32 slot)
{
	u64 sum = 0;
	u32 k;

	for (k = 0; k <= b->machine.state_count; k++)
		sum += cells_of(b, slot)[k].weight;
	return sum;
}

static u32 difference(u32 a, u32 b)
{
	return a > b ? a - b : b - a;
}

/* One idle period: how long, and what ended it. Returns the decision. */
static struct cil_decision sleep_for(struct bench *b, s64 slept_ns,
				     s64 sleep_length_ns, bool tick)
{
	struct cil_decision d;
	struct step s = {
		.query = {
			.now_ns = b->now_ns,
			.latency_req_ns = CIL_TIME_MAX,
		},
		.sleep_length_ns = sleep_length_ns,
		.delta_tick_ns = sleep_length_ns < 4 * MS ? sleep_length_ns :
							    4 * MS,
	};

	decide(b, &b->wteo, &s, &d);
	b->now_ns += slept_ns;
	s.outcome.now_ns = b->now_ns;
	s.outcome.index = d.index;
	s.outcome.residency_ns = slept_ns;
	s.outcome.tick_wakeup = tick;
	wteo_policy.update(&b->wteo, &b->machine, &b->tunables, &s.outcome);
	return d;
}

static bool is_own(const struct cil_decision *d)
{
	return d->reason >= CIL_REASON_WTEO_SAMPLE;
}

/*
 * The weights of every row sum exactly to its total, which has a limit, and
 * what people see sums to 10000, whatever the rate and the half-life.
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
				random_step(b, &s);
				decide(b, &b->wteo, &s, &d);
				random_outcome(b, &s, d.index);
				wteo_policy.update(&b->wteo, &b->machine,
						   &b->tunables, &s.outcome);
			}
			for (i = 0; i < WTEO_ROWS; i++) {
				u32 total = row_of(b, i)->total, sum = 0;

				KUNIT_ASSERT_EQ(test, total, sum_of(b, i));
				KUNIT_ASSERT_LE(test, total, WTEO_TOTAL_MAX);
				if (!total)
					continue;
				wteo_row_view(cells_of(b, i), n + 1, view);
				for (k = 0; k <= n; k++)
					sum += view[k];
				KUNIT_ASSERT_EQ(test, WTEO_VIEW_ONE, sum);
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
			sleep_for(b, 300 * US, 100 * MS, false);
		wteo_row_view(cells_of(b, b->wteo.learned), 5, view);
		KUNIT_EXPECT_EQ(test, WTEO_VIEW_ONE, view[3]);
		/* The same condition once more, and another end. */
		sleep_for(b, 5 * US, 100 * MS, false);
		wteo_row_view(cells_of(b, b->wteo.learned), 5, view);
		KUNIT_EXPECT_LE(test, difference(view[1], 10 * rates[r]),
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
		sleep_for(b, i % 3 == 2 && i >= 12 ? 5 * US : 300 * US,
			  100 * MS, false);
	sleep_for(b, 300 * US, 100 * MS, false);
	sleep_for(b, 300 * US, 100 * MS, false);
	sleep_for(b, 300 * US, 100 * MS, false);
	wteo_row_view(cells_of(b, b->wteo.learned), 5, view);
	/* Thirteen ended in state 3, four in state 1. */
	KUNIT_EXPECT_LE(test, difference(view[1], 10000 * 4 / 17), 200);
	KUNIT_EXPECT_LE(test, difference(view[3], 10000 * 13 / 17), 200);
}

/* The base row forgets within some dozen intervals. */
static void the_base_row_forgets_soon(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u16 view[WTEO_COLUMNS];
	u32 i;

	for (i = 0; i < 3000; i++)
		sleep_for(b, 300 * US, 100 * MS, false);
	/* Every condition is new as long as every timer is another one. */
	for (i = 0; i < 54; i++)
		sleep_for(b, 5 * US, 1LL << (13 + i % 17), false);
	wteo_row_view(cells_of(b, WTEO_BASE), 5, view);
	KUNIT_EXPECT_LT(test, view[3], 2000);
	KUNIT_EXPECT_GT(test, view[1], 8000);
}

/* The largest remainders are rounded up, and nothing else. */
static void view_rounds_by_largest_remainder(struct kunit *test)
{
	static const struct wteo_cell thirds[] = {
		{ CIL_ONE / 3 }, { CIL_ONE / 3 + 1 }, { CIL_ONE / 3 },
	};
	static const struct wteo_cell none[3] = { { 0 } };
	u16 view[WTEO_COLUMNS];

	wteo_row_view(thirds, 3, view);
	KUNIT_EXPECT_EQ(test, 3333, view[0]);
	KUNIT_EXPECT_EQ(test, 3334, view[1]);
	KUNIT_EXPECT_EQ(test, 3333, view[2]);
	wteo_row_view(none, 3, view);
	KUNIT_EXPECT_EQ(test, 0, view[0] + view[1] + view[2]);
}

/* Steps of age in so many ms. */
static u32 steps(u64 ms)
{
	return wteo_steps(ms * CIL_NSEC_PER_MSEC);
}

/* Half is left after one half-life, a quarter after two, in the end nothing. */
static void aging_halves(struct kunit *test)
{
	struct wteo_aging aging;
	u32 left, last = CIL_ONE, i;

	wteo_aging_init(&aging, 100000);
	KUNIT_EXPECT_EQ(test, CIL_ONE, wteo_left(&aging, CIL_ONE, 0));
	for (i = 1; i < 6; i++) {
		left = wteo_left(&aging, CIL_ONE, steps(i * 100000));
		KUNIT_EXPECT_LE(test, difference(left, CIL_ONE >> i),
				(CIL_ONE >> i) / 1000);
	}
	for (i = 0; i < 100000; i++) {
		left = wteo_left(&aging, CIL_ONE, i);
		KUNIT_ASSERT_LE(test, left, last);
		last = left;
	}
	KUNIT_EXPECT_EQ(test, 0, wteo_left(&aging, CIL_ONE, steps(10000000)));
	KUNIT_EXPECT_EQ(test, 0, wteo_left(&aging, CIL_ONE, U32_MAX));
	wteo_aging_init(&aging, 0);
	KUNIT_EXPECT_EQ(test, CIL_ONE, wteo_left(&aging, CIL_ONE, U32_MAX));
	wteo_aging_init(&aging, 1);
	KUNIT_EXPECT_EQ(test, 0, wteo_left(&aging, CIL_ONE, U32_MAX));
}

/* Looking at a row changes nothing, however old it is. */
static void looking_does_not_age(struct kunit *test)
{
	struct bench *b = bench_new(test, 7);
	struct cil_decision d;
	struct step s;
	u32 i;

	for (i = 0; i < 2000; i++) {
		random_step(b, &s);
		decide(b, &b->wteo, &s, &d);
		random_outcome(b, &s, d.index);
		wteo_policy.update(&b->wteo, &b->machine, &b->tunables,
				   &s.outcome);
	}
	b->other = b->wteo;
	for (i = 0; i < 100; i++) {
		random_step(b, &s);
		s.query.now_ns += i * 3600000 * MS;
		decide(b, &b->wteo, &s, &d);
	}
	KUNIT_EXPECT_MEMEQ(test, &b->other.rows, &b->wteo.rows,
			   sizeof(b->wteo.rows));
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
		d = sleep_for(b, 300 * US, 100 * MS, false);
	KUNIT_EXPECT_NE(test, WTEO_BASE, d.row);
	b->now_ns += 100ULL * b->tunables.half_life_ms * MS;
	d = sleep_for(b, 300 * US, 100 * MS, false);
	KUNIT_EXPECT_EQ(test, WTEO_BASE, d.row);
	for (i = 0; i < 20; i++)
		d = sleep_for(b, 300 * US, 100 * MS, false);
	KUNIT_EXPECT_TRUE(test, is_own(&d));
}

/* A row for one condition gives way to another that comes again and again. */
static void rows_give_way(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 tries = 0;
	u32 i;

	for (i = 0; i < 1000; i++)
		sleep_for(b, 300 * US, 100 * MS, false);
	i = b->wteo.learned;
	KUNIT_ASSERT_NE(test, WTEO_BASE, i);
	while (!wteo_row_claim(&b->wteo.rows, 5, i, 12345))
		KUNIT_ASSERT_LT(test, tries++, 100);
	KUNIT_EXPECT_GT(test, tries, 5);
	KUNIT_EXPECT_EQ(test, 12345, row_of(b, i)->key);
	KUNIT_EXPECT_EQ(test, 0, row_of(b, i)->total);
	KUNIT_EXPECT_EQ(test, 0, sum_of(b, i));
}

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

/* What holds for every decision that is wteo's own. */
static void check_decision(struct kunit *test, struct bench *b,
			   const struct step *s, const struct cil_decision *d)
{
	const struct cil_query *q = &s->query;
	const struct cil_state *state;

	KUNIT_ASSERT_LT(test, d->index, b->machine.state_count);
	if (!is_own(d)) {
		KUNIT_ASSERT_EQ(test, CIL_ROW_NONE, d->row);
		return;
	}
	state = &b->machine.states[d->index];
	KUNIT_ASSERT_LT(test, d->row, WTEO_ROWS);
	if (b->tunables.selection == WTEO_SAMPLE)
		return;
	KUNIT_ASSERT_FALSE(test, cil_disabled(q, d->index));
	if (may_be_met(b, q))
		KUNIT_ASSERT_TRUE(test, fits_request(b, q, d->index));
	else
		KUNIT_ASSERT_EQ(test, lowest(b, q), d->index);
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
		random_step(b, &s);
		decide(b, &b->wteo, &s, &d);
		check_decision(test, b, &s, &d);
		seen[d.reason]++;

		/* Some decisions have no outcome, and some states demote. */
		if (!below(b, 10))
			continue;
		random_outcome(b, &s, below(b, 20) ? d.index :
					 below(b, b->machine.state_count));
		wteo_policy.update(&b->wteo, &b->machine, &b->tunables,
				   &s.outcome);
		b->now_ns += below(b, 5) ? 0 : any_duration(b);
	}
}

/* Disabled states, latency requests, the timer and the tick are respected. */
static void limits_are_respected(struct kunit *test)
{
	u32 selection, n;

	for (selection = WTEO_SAMPLE; selection <= WTEO_EXPECTED; selection++) {
		u32 seen[256] = { 0 };

		for (n = 1; n <= 10; n++) {
			struct bench *b = bench_new(test, n);

			b->tunables.selection = selection;
			b->tunables.history_size = n % 3 ? 0 : 8;
			b->tunables.half_life_ms = n % 2 ? 100000 : 0;
			b->tunables.learning_rate = n % 5 ? 16 : 100;
			b->tunables.row_context = n % 4 != 0;
			run_random(test, b, 4000, seen);
		}
		KUNIT_EXPECT_GT(test, seen[CIL_REASON_NO_STATE], 0);
		KUNIT_EXPECT_GT(test, seen[CIL_REASON_ONE_STATE], 0);
		if (selection == WTEO_SAMPLE) {
			KUNIT_EXPECT_GT(test, seen[CIL_REASON_WTEO_SAMPLE], 100);
			continue;
		}
		KUNIT_EXPECT_GT(test, seen[CIL_REASON_WTEO_EXPECTED], 100);
		KUNIT_EXPECT_GT(test, seen[CIL_REASON_WTEO_EXPECTED_TICK], 100);
	}
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
		KUNIT_EXPECT_LT(test, b->wteo.energy.power[k],
				b->wteo.energy.power[k - 1]);
}

/* With selection=off wteo is TEO: same answers, same questions. */
static void off_is_teo(struct kunit *test)
{
	struct cil_decision d, teo;
	struct cil_query query;
	struct bench *b;
	struct step s;
	u32 n, i, asked;

	for (n = 1; n <= 10; n++) {
		b = bench_new(test, n);
		b->tunables.selection = WTEO_OFF;
		for (i = 0; i < 5000; i++) {
			random_step(b, &s);
			query = s.query;
			cil_test_env_timer(s.sleep_length_ns, s.delta_tick_ns);
			teo_ng_select(&b->teo, &b->machine, &query, &teo);
			asked = cil_test_env_asked();
			decide(b, &b->wteo, &s, &d);
			KUNIT_ASSERT_EQ(test, teo.index, d.index);
			KUNIT_ASSERT_EQ(test, teo.stop_tick, d.stop_tick);
			KUNIT_ASSERT_EQ(test, teo.reason, d.reason);
			KUNIT_ASSERT_EQ(test, CIL_ROW_NONE, d.row);
			KUNIT_ASSERT_EQ(test, asked, cil_test_env_asked());
			KUNIT_ASSERT_EQ(test, query.asked, s.query.asked);
			random_outcome(b, &s, d.index);
			teo_ng_update(&b->teo, &b->machine, &s.outcome);
			wteo_policy.update(&b->wteo, &b->machine, &b->tunables,
					   &s.outcome);
		}
	}
}

/* Plays the same intervals again; returns a hash of the decisions. */
static u64 play(struct bench *b, u32 seed, u32 cpu)
{
	struct cil_decision d;
	u64 hash = 0;
	struct step s;
	u32 i;

	b->tunables.selection = WTEO_SAMPLE;
	b->tunables.seed = seed;
	b->machine.cpu = cpu;
	b->random = 1;
	b->now_ns = 1000 * MS;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	for (i = 0; i < 3000; i++) {
		random_step(b, &s);
		decide(b, &b->wteo, &s, &d);
		hash = (hash ^ d.index ^ d.stop_tick << 4) *
		       0x100000001b3ULL;
		random_outcome(b, &s, 0);
		wteo_policy.update(&b->wteo, &b->machine, &b->tunables,
				   &s.outcome);
	}
	return hash;
}

/* The draw depends on the seed and the CPU, and on nothing else. */
static void draws_repeat_by_seed(struct kunit *test)
{
	struct bench *b = bench_new(test, 7);
	u64 hash = play(b, 1, 0);

	KUNIT_EXPECT_EQ(test, hash, play(b, 1, 0));
	KUNIT_EXPECT_NE(test, hash, play(b, 2, 0));
	KUNIT_EXPECT_NE(test, hash, play(b, 1, 1));
}

/* Fills the row of one of TEO's choices, as if it had learned for long. */
static void fill_choice(struct bench *b, u32 choice, const u32 *weights)
{
	u32 n = b->machine.state_count;
	struct wteo_cell *cells;
	struct wteo_row *row;
	u32 slot, k;

	sleep_for(b, 100 * MS, 100 * MS, false);
	for (slot = 1; slot < WTEO_ROWS; slot++)
		b->wteo.rows.heads[slot].key = WTEO_KEY_CHOICE | choice;
	for (slot = 1; slot < WTEO_ROWS; slot++) {
		row = &b->wteo.rows.heads[slot];
		cells = b->wteo.rows.cells + slot * (n + 1);
		row->total = 0;
		row->next = 1;
		row->learned = wteo_steps(b->now_ns);
		for (k = 0; k <= n; k++) {
			cells[k].weight = weights[k];
			row->total += weights[k];
		}
	}
}

static struct cil_decision draw(struct bench *b, u32 disabled, u64 later_ns)
{
	struct cil_decision d;
	struct step s = {
		.query = {
			.now_ns = b->now_ns + later_ns,
			.latency_req_ns = CIL_TIME_MAX,
			.disabled = disabled,
		},
		.sleep_length_ns = 100 * MS,
		.delta_tick_ns = 3 * MS,
	};

	decide(b, &b->wteo, &s, &d);
	return d;
}

static const u32 some_weights[] = {
	0, CIL_ONE / 16, CIL_ONE / 8, CIL_ONE / 16, 0,
};

/* A new seed starts its sequence at the next draw, without a reset. */
static void a_new_seed_counts_at_once(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u64 expected = cil_random_seed(99, b->machine.cpu);

	b->tunables.selection = WTEO_SAMPLE;
	fill_choice(b, 3, some_weights);
	b->tunables.seed = 99;
	draw(b, 0, 0);
	cil_random(&expected);
	KUNIT_EXPECT_EQ(test, expected, b->wteo.random);
}

/* States are drawn as often as their weights say. */
static void draws_follow_weights(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 drawn[CIL_STATE_MAX] = { 0 };
	u32 i;

	b->tunables.selection = WTEO_SAMPLE;
	fill_choice(b, 3, some_weights);
	for (i = 0; i < 10000; i++) {
		struct cil_decision d = draw(b, 0, 0);

		KUNIT_ASSERT_EQ(test, CIL_REASON_WTEO_SAMPLE, d.reason);
		drawn[d.index]++;
	}
	KUNIT_EXPECT_EQ(test, 0, drawn[0]);
	KUNIT_EXPECT_LT(test, difference(drawn[1], 2500), 200);
	KUNIT_EXPECT_LT(test, difference(drawn[2], 5000), 200);
	KUNIT_EXPECT_LT(test, difference(drawn[3], 2500), 200);
}

/*
 * Numbers count all states, disabled ones, too: with state 1 disabled its draws
 * go to state 0 and not to a neighbour in a compacted list.
 */
static void draws_skip_disabled_by_number(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 drawn[CIL_STATE_MAX] = { 0 };
	u32 i;

	b->tunables.selection = WTEO_SAMPLE;
	fill_choice(b, 3, some_weights);
	for (i = 0; i < 10000; i++)
		drawn[draw(b, 1u << 1, 0).index]++;
	KUNIT_EXPECT_LT(test, difference(drawn[0], 2500), 200);
	KUNIT_EXPECT_EQ(test, 0, drawn[1]);
	KUNIT_EXPECT_LT(test, difference(drawn[2], 5000), 200);
}

/* After many half-lives nothing is drawn: the answer is TEO's. */
static void draws_age(struct kunit *test)
{
	static const u32 always_1[] = { 0, CIL_ONE / 4, 0, 0, 0 };
	struct bench *b = bench_new(test, 4);

	b->tunables.selection = WTEO_SAMPLE;
	fill_choice(b, 3, always_1);
	KUNIT_EXPECT_EQ(test, 1, draw(b, 0, 0).index);
	KUNIT_EXPECT_EQ(test, 3, draw(b, 0, 200 * 3600000ULL * MS).index);
}

/* TEO decides until the base row remembers three intervals, then no more. */
static void teo_comes_first(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_decision d;
	u32 i;

	for (i = 0; i < 20; i++) {
		d = sleep_for(b, 300 * US, 100 * MS, false);
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
		struct cil_decision d = sleep_for(b, slept_ns,
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
	static const u32 alternating[] = { 30, 900 };
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
		bool disk = below(b, 2);
		struct cil_decision d = sleep_for(b, disk ? 30 * US : 900 * US,
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
		u32 k = below(b, 4);
		struct cil_decision d = sleep_for(b, lengths_ns[k],
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
		deep += sleep_for(b, below(b, 3) ? 50 * US : 20 * MS, 900 * MS,
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
		d = sleep_for(b, 20 * MS, 900 * MS, false);
		stopped += is_own(&d) && d.stop_tick && d.index == 3;
	}
	KUNIT_EXPECT_GT(test, stopped, 90);
}

/* One in eight is too rarely late for the tick to be stopped. */
static void rarely_long_intervals_keep_the_tick(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 stopped = 0, i;

	for (i = 0; i < 3000; i++)
		stopped += sleep_for(b, below(b, 8) ? 30 * US : 60 * MS,
				     900 * MS, false).stop_tick && i >= 1000;
	/* By chance, one in four are late now and then. */
	KUNIT_EXPECT_LT(test, stopped, 200);
}

/* Where all is short, nobody asks for the sleep length. */
static void short_intervals_do_not_ask(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 asked = 0, own = 0, i;

	for (i = 0; i < 400; i++) {
		struct cil_decision d = sleep_for(b, 5 * US, 900 * MS, false);

		own += is_own(&d);
		asked += i >= 200 && cil_test_env_asked();
	}
	KUNIT_EXPECT_GT(test, own, 390);
	KUNIT_EXPECT_EQ(test, 0, asked);
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
		d = sleep_for(b, 9 * MS, 900 * MS, false);
		KUNIT_ASSERT_FALSE(test, d.stop_tick && !d.index);
		polled += is_own(&d) && !d.index;
	}
	KUNIT_EXPECT_GT(test, polled, 100);
}

/* An idle period that the tick or the end of polling ends. */
static void first_outcome(struct bench *b, s64 slept_ns, bool tick, s64 busy_ns)
{
	struct cil_outcome outcome = {
		.now_ns = b->now_ns + slept_ns + busy_ns,
		.residency_ns = slept_ns,
		.tick_wakeup = tick,
		.poll_time_limit = !tick,
	};
	struct cil_decision d;
	struct step s = {
		.query = {
			.now_ns = b->now_ns,
			.latency_req_ns = CIL_TIME_MAX,
		},
		.sleep_length_ns = 900 * MS,
		.delta_tick_ns = slept_ns,
	};

	decide(b, &b->wteo, &s, &d);
	b->wteo.interval.keeps_tick = true;
	b->now_ns = outcome.now_ns;
	wteo_policy.update(&b->wteo, &b->machine, &b->tunables, &outcome);
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

	first_outcome(b, 20 * US, false, 0);
	KUNIT_EXPECT_EQ(test, -1, learned(b));
	sleep_for(b, 200 * US, 100 * MS, false);
	KUNIT_EXPECT_GT(test, learned(b), 0);
	wteo_policy.row_learned(&b->wteo, &b->machine, view);
	KUNIT_EXPECT_EQ(test, WTEO_VIEW_ONE, view[3]);
}

/* A tick that was left running does not end the interval; work does. */
static void ticks_are_merged(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u16 view[CIL_STATE_MAX];

	first_outcome(b, 4 * MS, true, 0);
	KUNIT_EXPECT_EQ(test, -1, learned(b));
	KUNIT_EXPECT_TRUE(test, b->wteo.interval.resumed);
	sleep_for(b, 10 * US, 100 * MS, false);
	wteo_policy.row_learned(&b->wteo, &b->machine, view);
	/* 4010 us in all: state 3 of 0, 2, 20, 100 us. */
	KUNIT_EXPECT_EQ(test, WTEO_VIEW_ONE, view[3]);
}

/* Work that follows a tick shows in the time between: the tick brought it. */
static void a_busy_tick_ends_the_interval(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);

	first_outcome(b, 4 * MS, true, 300 * US);
	KUNIT_EXPECT_GT(test, learned(b), 0);
	KUNIT_EXPECT_FALSE(test, b->wteo.interval.resumed);
}

/*
 * An interval that outlasts all that its row knows is not taken to end at once:
 * the row knows 30 us, 20 ms have passed, a deep state follows.
 */
static void outlasting_goes_deeper(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_decision d;
	u32 i;

	for (i = 0; i < 2000; i++)
		d = sleep_for(b, 30 * US, 900 * MS, false);
	KUNIT_EXPECT_EQ(test, 2, d.index);
	first_outcome(b, 20 * MS, true, 0);
	d = sleep_for(b, 1 * MS, 900 * MS, false);
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
		sleep_for(b, 30 * US, 900 * MS, false);
	s.query.now_ns = b->now_ns;
	s.query.latency_req_ns = CIL_TIME_MAX;
	s.query.tick_stopped = true;
	decide(b, &b->wteo, &s, &d);
	KUNIT_EXPECT_EQ(test, 7, d.index);
	s.query.disabled = 1u << 7;
	decide(b, &b->wteo, &s, &d);
	KUNIT_EXPECT_EQ(test, 6, d.index);
}

/* A window that is not mostly short leaves the answer to TEO. */
static void window_triggers(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 drawn[2] = { 0 };
	struct cil_decision d;
	u32 i, phase;

	b->tunables.selection = WTEO_SAMPLE;
	b->tunables.history_size = 8;
	for (phase = 0; phase < 2; phase++) {
		for (i = 0; i < 400; i++) {
			d = sleep_for(b, phase && i % 3 ? 5 * US : 30 * MS,
				      900 * MS, false);
			drawn[phase] += is_own(&d);
		}
	}
	KUNIT_EXPECT_EQ(test, 0, drawn[0]);
	KUNIT_EXPECT_GT(test, drawn[1], 0);
}

static const s64 extremes[] = {
	-S64_MAX, -S64_MAX / 2, -1, 0, 1, 1000, S64_MAX / 2, S64_MAX - 1, S64_MAX,
};

static s64 extreme(struct bench *b)
{
	return extremes[below(b, ARRAY_SIZE(extremes))];
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
			machine_init(b, 1 + below(b, 10));
			for (k = 0; k < b->machine.state_count; k++) {
				struct cil_state *state = &b->machine.states[k];

				/* TEO halves latencies, so they have a sign. */
				state->exit_latency_ns = extreme(b) &
							 S64_MAX >> 1;
				state->target_residency_ns = extreme(b);
				state->power_mw = extreme(b);
			}
			b->machine.tick_ns = 1 + below(b, 10 * MS);
			b->tunables.selection = below(b, 3);
			b->tunables.half_life_ms = below(b, 86400001);
			b->tunables.history_size = below(b, 33);
			b->tunables.row_context = below(b, 2);
			b->tunables.latency_bias = below(b, 65537);
			for (k = 0; k < CIL_STATE_MAX; k++)
				b->tunables.power_mw[k] =
					below(b, 1000001);
			wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
		}
		memset(&s, 0, sizeof(s));
		s.query.now_ns = extreme(b);
		s.query.latency_req_ns = extreme(b);
		s.query.disabled = cil_random(&b->random);
		s.query.tick_stopped = below(b, 2);
		s.sleep_length_ns = extreme(b);
		s.delta_tick_ns = extreme(b);
		decide(b, &b->wteo, &s, &d);
		KUNIT_ASSERT_LT(test, d.index, b->machine.state_count);
		s.outcome.now_ns = extreme(b);
		s.outcome.residency_ns = extreme(b) & S64_MAX;
		s.outcome.index = d.index;
		s.outcome.tick_wakeup = below(b, 2);
		s.outcome.poll_time_limit = below(b, 2);
		wteo_policy.update(&b->wteo, &b->machine, &b->tunables,
				   &s.outcome);
		KUNIT_ASSERT_EQ(test, row_of(b, WTEO_BASE)->total,
				sum_of(b, WTEO_BASE));
	}
}

/* Each state breaks even with the next shallower one where it should. */
static void costs_break_even(struct kunit *test)
{
	struct bench *b = bench_new(test, 10);
	struct cil_energy *e = &b->wteo.energy;
	u32 known, k;

	for (known = 0; known < 2; known++) {
		for (k = 0; known && k < 10; k++)
			b->machine.states[k].power_mw = 5000 - 400 * k;
		cil_energy_init(e, &b->machine);
		KUNIT_EXPECT_EQ(test, 0, e->entry[0]);
		KUNIT_EXPECT_EQ(test, 65536, e->power[0]);
		for (k = 1; k < 10; k++) {
			s64 pays_ns = b->machine.states[k].target_residency_ns;

			KUNIT_EXPECT_LT(test, e->power[k], e->power[k - 1]);
			KUNIT_EXPECT_EQ(test,
					e->entry[k] + e->power[k] * pays_ns,
					e->entry[k - 1] +
						e->power[k - 1] * pays_ns);
		}
	}
}

/* The latency bias moves each break-even point up by what it says. */
static void bias_moves_break_even(struct kunit *test)
{
	struct bench *b = bench_new(test, 6);
	const struct wteo *w = &b->wteo;
	u32 k;

	b->tunables.latency_bias = 0;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	for (k = 1; k < 6; k++)
		KUNIT_EXPECT_EQ(test, b->machine.states[k].target_residency_ns,
				w->pays_ns[k]);
	b->tunables.latency_bias = 1024;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	for (k = 1; k < 6; k++) {
		s64 more_ns = latencies_us[k] * US - latencies_us[k - 1] * US;
		u32 saved = w->energy.power[k - 1] - w->energy.power[k];
		u64 moved_ns = w->pays_ns[k] - residencies_us[k] * US;

		/* A us of latency is worth a us at full power. */
		KUNIT_EXPECT_GE(test, moved_ns * saved + saved,
				more_ns * w->energy.power[0]);
		KUNIT_EXPECT_LE(test, moved_ns * saved,
				more_ns * w->energy.power[0]);
	}
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
		decide(b, &b->wteo, &s, &d);
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

/*
 * A state that draws no less than a shallower one never pays, and stands in
 * nobody's way; but it is better than nothing where deeper ones are disabled.
 */
static void wrong_powers_block_no_state(struct kunit *test)
{
	static const u32 right[] = { 4000, 3000, 2000, 1000, 100 };
	static const u32 equal[] = { 4000, 1000, 1000, 1000, 100 };
	static const u32 rising[] = { 1000, 2000, 3000, 4000, 5000 };
	u8 index;

	KUNIT_EXPECT_EQ(test, 0x1f, paying_with(test, right, 0, &index));
	KUNIT_EXPECT_EQ(test, 4, index);
	KUNIT_EXPECT_EQ(test, 0x13, paying_with(test, equal, 0, &index));
	KUNIT_EXPECT_EQ(test, 4, index);
	paying_with(test, equal, 1u << 4, &index);
	KUNIT_EXPECT_EQ(test, 3, index);
	KUNIT_EXPECT_EQ(test, 1, paying_with(test, rising, 0, &index));
	KUNIT_EXPECT_EQ(test, 0, index);
}

/* Powers, bias, rate and half-life count soon after they are changed. */
static void changes_are_taken_over(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 i;

	b->tunables.latency_bias = 512;
	b->tunables.half_life_ms = 5000;
	b->tunables.learning_rate = 100;
	for (i = 0; i < 4; i++)
		b->tunables.power_mw[i] = 4000 - 1000 * i;
	for (i = 0; i < 64; i++)
		sleep_for(b, 300 * US, 100 * MS, false);
	KUNIT_EXPECT_EQ(test, 512, b->wteo.latency_bias);
	KUNIT_EXPECT_EQ(test, 5000, b->wteo.aging.half_life_ms);
	KUNIT_EXPECT_EQ(test, wteo_growth(100), b->wteo.growth);
	KUNIT_EXPECT_EQ(test, 65536 / 4, b->wteo.energy.power[3]);
	/* If one is unknown, all are derived, and the shape is another. */
	b->tunables.power_mw[2] = 0;
	for (i = 0; i < 64; i++)
		sleep_for(b, 300 * US, 100 * MS, false);
	KUNIT_EXPECT_NE(test, 65536 / 4, b->wteo.energy.power[3]);
}

/* Up to 7 states touch at most 4 KiB, and all of it is at most 16 KiB. */
static void state_is_small(struct kunit *test)
{
	KUNIT_EXPECT_LE(test, wteo_state_used(7), 4096);
	KUNIT_EXPECT_LE(test, wteo_policy.state_size, 16384);
	KUNIT_EXPECT_EQ(test, wteo_state_used(CIL_STATE_MAX) / 8,
			wteo_policy.state_size / 8);
}

/* The dump shows the view of every row in use, and its age. */
static void dump_shows_rows(struct kunit *test)
{
	struct bench *b = bench_new(test, 3);
	struct cil_sink *sink = cil_test_env_sink();
	const char *text = cil_test_env_text();
	u32 i;

	for (i = 0; i < 30; i++)
		sleep_for(b, 30 * US, 100 * MS, false);
	wteo_policy.dump(&b->wteo, &b->machine, &b->tunables,
			 b->now_ns + 2500 * MS, sink);
	KUNIT_EXPECT_NOT_NULL(test, strstr(text, "s0=0 s1=2 s2=20"));
	KUNIT_EXPECT_NOT_NULL(test, strstr(text, "\n  0 any "));
	KUNIT_EXPECT_NOT_NULL(test, strstr(text, " s2 s2 < "));
	KUNIT_EXPECT_NOT_NULL(test, strstr(text, " 10000 "));
}

/* A seed starts where cil_random_seed() says, and streams differ. */
static void random_is_even(struct kunit *test)
{
	u64 state = cil_random_seed(7, 3);
	u32 high = 0, i;

	KUNIT_EXPECT_NE(test, state, cil_random_seed(7, 4));
	KUNIT_EXPECT_NE(test, state, cil_random_seed(8, 3));
	for (i = 0; i < 10000; i++)
		high += cil_random(&state) >> 31;
	KUNIT_EXPECT_LT(test, difference(high, 5000), 200);
}

/* The helpers agree with what the machine would compute. */
static void fixed_point_is_right(struct kunit *test)
{
	u64 state = 1;
	u32 i;

	for (i = 0; i < 2000; i++) {
		u64 a = (u64)cil_random(&state) << 32 | cil_random(&state);
		u64 c = cil_random(&state) >> (i % 32);
		u64 root;

		a >>= i % 63;
		if (!c)
			c = 1;
		KUNIT_ASSERT_EQ(test, cil_divide(a, c) * c +
				(a - cil_divide(a, c) * c), a);
		KUNIT_ASSERT_LT(test, a - cil_divide(a, c) * c, c);
		root = cil_square_root(a);
		KUNIT_ASSERT_LE(test, root * root, a);
		if (root < U32_MAX)
			KUNIT_ASSERT_GT(test, (root + 1) * (root + 1), a);
	}
	KUNIT_EXPECT_EQ(test, CIL_ONE, cil_half_to_the(0));
	KUNIT_EXPECT_EQ(test, CIL_ONE / 2, cil_half_to_the(1 << 20));
	KUNIT_EXPECT_EQ(test, 0, cil_half_to_the(U64_MAX));
}

static struct kunit_case wteo_cases[] = {
	KUNIT_CASE(rows_sum_to_one),
	KUNIT_CASE(the_last_interval_weighs_the_rate),
	KUNIT_CASE(a_new_row_averages),
	KUNIT_CASE(the_base_row_forgets_soon),
	KUNIT_CASE(view_rounds_by_largest_remainder),
	KUNIT_CASE(aging_halves),
	KUNIT_CASE(looking_does_not_age),
	KUNIT_CASE(old_rows_are_not_asked),
	KUNIT_CASE(rows_give_way),
	KUNIT_CASE(limits_are_respected),
	KUNIT_CASE(equal_residencies_work),
	KUNIT_CASE(off_is_teo),
	KUNIT_CASE(draws_repeat_by_seed),
	KUNIT_CASE(a_new_seed_counts_at_once),
	KUNIT_CASE(draws_follow_weights),
	KUNIT_CASE(draws_skip_disabled_by_number),
	KUNIT_CASE(draws_age),
	KUNIT_CASE(teo_comes_first),
	KUNIT_CASE(patterns_are_foreseen),
	KUNIT_CASE(timeouts_tell_what_is_waited_for),
	KUNIT_CASE(timers_are_believed),
	KUNIT_CASE(the_mean_decides),
	KUNIT_CASE(long_intervals_stop_the_tick),
	KUNIT_CASE(rarely_long_intervals_keep_the_tick),
	KUNIT_CASE(short_intervals_do_not_ask),
	KUNIT_CASE(polling_keeps_the_tick),
	KUNIT_CASE(polling_times_are_merged),
	KUNIT_CASE(ticks_are_merged),
	KUNIT_CASE(a_busy_tick_ends_the_interval),
	KUNIT_CASE(outlasting_goes_deeper),
	KUNIT_CASE(a_stopped_tick_traps_nobody),
	KUNIT_CASE(window_triggers),
	KUNIT_CASE(extremes_do_no_harm),
	KUNIT_CASE(costs_break_even),
	KUNIT_CASE(bias_moves_break_even),
	KUNIT_CASE(wrong_powers_block_no_state),
	KUNIT_CASE(changes_are_taken_over),
	KUNIT_CASE(state_is_small),
	KUNIT_CASE(dump_shows_rows),
	KUNIT_CASE(random_is_even),
	KUNIT_CASE(fixed_point_is_right),
	{}
};

static struct kunit_suite wteo_suite = {
	.name = "wteo",
	.test_cases = wteo_cases,
};

kunit_test_suite(wteo_suite);
