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
	struct wteo_cell row[CIL_STATE_MAX];
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

static u64 sum_of(const struct wteo_cell *cells, u32 columns)
{
	u64 sum = 0;
	u32 k;

	for (k = 0; k < columns; k++)
		sum += cells[k].weight;
	return sum;
}

static u32 sum_of_view(const u16 *weights, u32 columns)
{
	u32 sum = 0;
	u32 k;

	for (k = 0; k < columns; k++)
		sum += weights[k];
	return sum;
}

/* Every row sums to one before and after every update, whatever the rate. */
static void rows_sum_to_one(struct kunit *test)
{
	struct bench *b = bench_new(test, 10);
	u16 view[CIL_STATE_MAX];
	u32 rate, i, n;

	for (n = 1; n <= 10; n++) {
		machine_init(b, n);
		wteo_matrix_init(&b->wteo.matrix, &b->machine);
		for (i = 0; i < WTEO_BLOCKS * n; i++)
			KUNIT_ASSERT_EQ(test, CIL_ONE,
					sum_of(b->wteo.matrix.cells + i * n, n));
		memcpy(b->row, b->wteo.matrix.cells, sizeof(b->row));
		for (rate = 1; rate <= 500; rate++) {
			for (i = 0; i < 20; i++) {
				wteo_row_learn(b->row, n, below(b, n),
					       below(b, CIL_DURATION_MAX),
					       wteo_rate(rate));
				KUNIT_ASSERT_EQ(test, CIL_ONE,
						sum_of(b->row, n));
			}
			wteo_row_view(b->row, n, view);
			KUNIT_ASSERT_EQ(test, WTEO_VIEW_ONE,
					sum_of_view(view, n));
		}
	}
}

/* The column that happened gains the rate of what it lacks; others give it. */
static void learning_moves_the_rate(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);

	wteo_matrix_init(&b->wteo.matrix, &b->machine);
	memcpy(b->row, b->wteo.matrix.cells, sizeof(b->row));
	wteo_row_learn(b->row, 4, 2, 30 * US, wteo_rate(50));
	KUNIT_EXPECT_LT(test, b->row[2].weight, CIL_ONE / 20 + 2);
	KUNIT_EXPECT_GT(test, b->row[2].weight, CIL_ONE / 20 - 2000);
	KUNIT_EXPECT_EQ(test, CIL_ONE - b->row[2].weight, b->row[0].weight);
	wteo_row_learn(b->row, 4, 3, 30 * US, wteo_rate(500));
	KUNIT_EXPECT_LT(test, b->row[3].weight, CIL_ONE / 2 + 3);
	KUNIT_EXPECT_GT(test, b->row[3].weight, CIL_ONE / 2 - 3);
}

/* At any rate every weight can become 10000 and every other one 0. */
static void every_view_is_reached(struct kunit *test)
{
	static const u32 rates[] = { 1, 2, 3, 10, 50, 333, 500 };
	struct bench *b = bench_new(test, 10);
	u16 view[CIL_STATE_MAX];
	u32 r, k, i;

	memcpy(b->row, b->wteo.matrix.cells, sizeof(b->row));
	for (r = 0; r < ARRAY_SIZE(rates); r++) {
		for (k = 0; k < 10; k++) {
			for (i = 0; i < 20000 / rates[r] + 40; i++)
				wteo_row_learn(b->row, 10, k, US,
					       wteo_rate(rates[r]));
			wteo_row_view(b->row, 10, view);
			KUNIT_EXPECT_EQ(test, WTEO_VIEW_ONE, view[k]);
			KUNIT_EXPECT_EQ(test, 0, view[(k + 1) % 10]);
		}
	}
}

/* On the way from 0 to 10000 no value of the view is jumped over. */
static void no_view_is_skipped(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u16 view[CIL_STATE_MAX], last = 0;
	u32 skipped = 0, i;

	memcpy(b->row, b->wteo.matrix.cells, sizeof(b->row));
	/* At 1 per mille the first steps are 10 units, the last ones less. */
	for (i = 0; i < 20000; i++) {
		wteo_row_learn(b->row, 4, 3, US, wteo_rate(1));
		wteo_row_view(b->row, 4, view);
		KUNIT_ASSERT_GE(test, view[3], last);
		if (view[3] > last + 1 && view[3] > 9000)
			skipped++;
		last = view[3];
	}
	KUNIT_EXPECT_EQ(test, 0, skipped);
	KUNIT_EXPECT_EQ(test, WTEO_VIEW_ONE, last);
}

/* The largest remainders are rounded up, and nothing else. */
static void view_rounds_by_largest_remainder(struct kunit *test)
{
	static const struct wteo_cell thirds[] = {
		{ CIL_ONE / 3 }, { CIL_ONE / 3 + 1 }, { CIL_ONE / 3 },
	};
	u16 view[CIL_STATE_MAX];

	KUNIT_EXPECT_EQ(test, CIL_ONE, sum_of(thirds, 3));
	wteo_row_view(thirds, 3, view);
	KUNIT_EXPECT_EQ(test, 3333, view[0]);
	KUNIT_EXPECT_EQ(test, 3334, view[1]);
	KUNIT_EXPECT_EQ(test, 3333, view[2]);
	KUNIT_EXPECT_EQ(test, 0, view[3]);
}

static u32 difference(u16 a, u16 b)
{
	return a > b ? a - b : b - a;
}

/* Aging once or in any number of parts shows the same, within one unit. */
static void aging_in_parts_is_aging(struct kunit *test)
{
	static const u32 half_lives_ms[] = { 1, 7, 1000, 60000, 86400000 };
	struct bench *b = bench_new(test, 7);
	u16 once[CIL_STATE_MAX], parts[CIL_STATE_MAX];
	struct wteo_cell split[CIL_STATE_MAX];
	struct wteo_aging aging;
	u32 h, round, part, k;

	for (h = 0; h < ARRAY_SIZE(half_lives_ms); h++) {
		wteo_aging_init(&aging, half_lives_ms[h]);
		for (round = 0; round < 200; round++) {
			u64 total_ns = 0;

			memcpy(b->row, b->wteo.matrix.cells + 14,
			       sizeof(b->row));
			for (k = 0; k < 30; k++)
				wteo_row_learn(b->row, 7, below(b, 7), US,
					       wteo_rate(200));
			memcpy(split, b->row, sizeof(split));
			for (part = 0; part < 8; part++) {
				u64 ns = half_lives_ms[h] * 1000ULL *
					 below(b, 800);

				total_ns += ns;
				wteo_row_age(split, &b->machine, 2,
					     wteo_aging_rest(&aging, ns));
				KUNIT_ASSERT_EQ(test, CIL_ONE,
						sum_of(split, 7));
			}
			wteo_row_age(b->row, &b->machine, 2,
				     wteo_aging_rest(&aging, total_ns));
			wteo_row_view(b->row, 7, once);
			wteo_row_view(split, 7, parts);
			for (k = 0; k < 7; k++)
				KUNIT_ASSERT_LE(test,
						difference(once[k], parts[k]),
						1);
		}
	}
}

/* Half is left after one half-life, a quarter after two, in the end nothing. */
static void aging_halves(struct kunit *test)
{
	struct wteo_aging aging;
	u64 second = 1000 * MS;
	u32 rest, last = CIL_ONE, i;

	wteo_aging_init(&aging, 1000);
	KUNIT_EXPECT_EQ(test, CIL_ONE, wteo_aging_rest(&aging, 0));
	for (i = 1; i < 6; i++) {
		rest = wteo_aging_rest(&aging, i * second);
		KUNIT_EXPECT_LE(test, rest, (CIL_ONE >> i) + CIL_ONE / 200000);
		KUNIT_EXPECT_GE(test, rest, (CIL_ONE >> i) - CIL_ONE / 200000);
	}
	KUNIT_EXPECT_EQ(test, 0, wteo_aging_rest(&aging, 100 * second));
	KUNIT_EXPECT_EQ(test, 0, wteo_aging_rest(&aging, U64_MAX));
	for (i = 0; i < 40000; i++) {
		rest = wteo_aging_rest(&aging, i * MS);
		KUNIT_ASSERT_LE(test, rest, last);
		last = rest;
	}
	for (i = 36; i < 64; i++)
		KUNIT_EXPECT_EQ(test, 0, wteo_aging_rest(&aging, 1ULL << i));
	/* Here a product of 64 bits would start again from 0. */
	KUNIT_EXPECT_EQ(test, 0,
			wteo_aging_rest(&aging, (U64_MAX / aging.rate + 1) <<
						aging.shift));
	wteo_aging_init(&aging, 0);
	KUNIT_EXPECT_EQ(test, CIL_ONE, wteo_aging_rest(&aging, U64_MAX));
}

/* Looking at a row changes nothing; an aged row is at its start again. */
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
	KUNIT_EXPECT_MEMEQ(test, &b->other.matrix, &b->wteo.matrix,
			   sizeof(b->wteo.matrix));
	wteo_row_age(b->wteo.matrix.cells, &b->machine, 0, 0);
	KUNIT_EXPECT_EQ(test, CIL_ONE, b->wteo.matrix.cells[0].weight);
}

static s64 latency_of(struct bench *b, u8 index)
{
	return b->machine.states[index].exit_latency_ns;
}

/* What holds for every decision that is not TEO's own. */
static void check_decision(struct kunit *test, struct bench *b,
			   const struct step *s, const struct cil_decision *d,
			   const struct cil_decision *teo)
{
	const struct cil_state *state = &b->machine.states[d->index];
	bool own = d->reason >= CIL_REASON_WTEO_SAMPLE;
	bool moved = own && d->index != teo->index;

	KUNIT_ASSERT_LT(test, d->index, b->machine.state_count);
	if (!own) {
		KUNIT_ASSERT_EQ(test, teo->index, d->index);
		KUNIT_ASSERT_EQ(test, teo->stop_tick, d->stop_tick);
		KUNIT_ASSERT_EQ(test, CIL_ROW_NONE, d->row);
		return;
	}
	KUNIT_ASSERT_LT(test, d->row, b->machine.state_count);
	if (moved) {
		KUNIT_ASSERT_FALSE(test, cil_disabled(&s->query, d->index));
		KUNIT_ASSERT_LE(test, latency_of(b, d->index),
				s->query.latency_req_ns);
	}
	if (b->tunables.selection == WTEO_EXPECTED && s->query.asked)
		KUNIT_ASSERT_LE(test, state->target_residency_ns,
				s->sleep_length_ns);
	if (b->tunables.selection == WTEO_SAMPLE)
		KUNIT_ASSERT_LE(test, d->index, teo->index);
	if (s->query.tick_stopped) {
		if (s->sleep_length_ns > 2 * b->machine.tick_ns && moved)
			KUNIT_ASSERT_GE(test, state->target_residency_ns,
					b->machine.tick_ns);
		return;
	}
	if (d->stop_tick)
		KUNIT_ASSERT_FALSE(test, state->polling);
	if (b->tunables.selection == WTEO_EXPECTED && !d->stop_tick &&
	    s->query.asked)
		KUNIT_ASSERT_LE(test, state->target_residency_ns,
				s->delta_tick_ns);
}

/* The TEO inside sees what a TEO alone would see, so it can be compared. */
static void run_random(struct kunit *test, struct bench *b, u32 steps,
		       u32 seen[256])
{
	struct cil_decision d, teo;
	struct cil_query query;
	struct step s;
	u32 i;

	for (i = 0; i < steps; i++) {
		random_step(b, &s);
		query = s.query;
		cil_test_env_timer(s.sleep_length_ns, s.delta_tick_ns);
		teo_ng_select(&b->teo, &b->machine, &query, &teo);
		decide(b, &b->wteo, &s, &d);
		check_decision(test, b, &s, &d, &teo);
		seen[d.reason]++;

		/* Some decisions have no outcome, and some states demote. */
		if (!below(b, 10))
			continue;
		random_outcome(b, &s, below(b, 20) ? d.index :
					 below(b, b->machine.state_count));
		teo_ng_update(&b->teo, &b->machine, &s.outcome);
		wteo_policy.update(&b->wteo, &b->machine, &b->tunables,
				   &s.outcome);
		b->now_ns += below(b, 5) ? 0 : any_duration(b);
	}
}

/* Disabled states, latency requests, sleep length and tick are respected. */
static void limits_are_respected(struct kunit *test)
{
	struct bench *b;
	u32 selection, n;

	for (selection = WTEO_SAMPLE; selection <= WTEO_EXPECTED; selection++) {
		u32 seen[256] = { 0 };

		for (n = 1; n <= 10; n++) {
			b = bench_new(test, n);
			b->tunables.selection = selection;
			b->tunables.history_size = n % 3 ? 0 : 8;
			b->tunables.half_life_ms = n % 2 ? 100 : 0;
			b->tunables.learning_rate = n % 5 ? 50 : 500;
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

/* A new seed starts its sequence at the next draw, without a reset. */
static void a_new_seed_counts_at_once(struct kunit *test)
{
	struct bench *b = bench_new(test, 7);
	u64 expected = cil_random_seed(99, b->machine.cpu);
	struct cil_decision d;
	struct step s;

	b->tunables.selection = WTEO_SAMPLE;
	b->tunables.seed = 99;
	random_step(b, &s);
	s.query.disabled = 0;
	decide(b, &b->wteo, &s, &d);
	cil_random(&expected);
	KUNIT_EXPECT_EQ(test, expected, b->wteo.random);
}

/* States are drawn as often as their weights say. */
static void draws_follow_weights(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 drawn[CIL_STATE_MAX] = { 0 };
	struct cil_decision d;
	struct step s;
	u32 i;

	b->tunables.selection = WTEO_SAMPLE;
	b->wteo.matrix.cells[12 + 1].weight = CIL_ONE / 4;
	b->wteo.matrix.cells[12 + 2].weight = CIL_ONE / 2;
	b->wteo.matrix.cells[12 + 3].weight = CIL_ONE / 4;
	for (i = 0; i < 10000; i++) {
		memset(&s, 0, sizeof(s));
		s.query.latency_req_ns = CIL_TIME_MAX;
		s.sleep_length_ns = 100 * MS;
		s.delta_tick_ns = 3 * MS;
		decide(b, &b->wteo, &s, &d);
		KUNIT_ASSERT_EQ(test, 3, d.row);
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
	struct cil_decision d;
	struct step s;
	u32 i;

	b->tunables.selection = WTEO_SAMPLE;
	b->wteo.matrix.cells[12 + 1].weight = CIL_ONE / 4;
	b->wteo.matrix.cells[12 + 2].weight = CIL_ONE / 2;
	b->wteo.matrix.cells[12 + 3].weight = CIL_ONE / 4;
	for (i = 0; i < 10000; i++) {
		memset(&s, 0, sizeof(s));
		s.query.latency_req_ns = CIL_TIME_MAX;
		s.query.disabled = 1u << 1;
		s.sleep_length_ns = 100 * MS;
		s.delta_tick_ns = 3 * MS;
		decide(b, &b->wteo, &s, &d);
		drawn[d.index]++;
	}
	KUNIT_EXPECT_LT(test, difference(drawn[0], 2500), 200);
	KUNIT_EXPECT_EQ(test, 0, drawn[1]);
	KUNIT_EXPECT_LT(test, difference(drawn[2], 5000), 200);
}

/* After many half-lives a draw has nothing but TEO's choice to draw from. */
static void draws_age(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_decision d;
	struct step s;
	u32 i;

	b->tunables.selection = WTEO_SAMPLE;
	b->tunables.half_life_ms = 1;
	b->wteo.matrix.cells[12 + 1].weight = CIL_ONE;
	b->wteo.matrix.cells[12 + 3].weight = 0;
	for (i = 0; i < 100; i++) {
		memset(&s, 0, sizeof(s));
		s.query.now_ns = i < 50 ? 0 : 1000 * MS;
		s.query.latency_req_ns = CIL_TIME_MAX;
		s.sleep_length_ns = 100 * MS;
		s.delta_tick_ns = 3 * MS;
		decide(b, &b->wteo, &s, &d);
		KUNIT_ASSERT_EQ(test, i < 50 ? 1 : 3, d.index);
	}
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

/*
 * Intervals that last longer than TEO believes are answered by a deeper state:
 * two in three last 50 us, the third 20 ms.
 */
static void expected_goes_deeper(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_decision d;
	u32 deeper = 0;
	u32 i;

	/* Without a polling state and a tick in the way: plain costs. */
	b->machine.states[0].polling = false;
	b->machine.tick_ns = 1000 * MS;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	b->tunables.row_context = 0;
	for (i = 0; i < 600; i++) {
		d = sleep_for(b, i % 3 ? 50 * US : 20 * MS, 900 * MS, false);
		if (d.reason == CIL_REASON_WTEO_EXPECTED_TICK ||
		    d.reason == CIL_REASON_WTEO_EXPECTED)
			deeper += d.index > d.row;
	}
	KUNIT_EXPECT_GT(test, deeper, 200);
}

/* Where the CPU sleeps for long each time, the tick is stopped. */
static void long_intervals_stop_the_tick(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_decision d;
	u32 stopped = 0, i;

	for (i = 0; i < 100; i++) {
		d = sleep_for(b, 20 * MS, 900 * MS, false);
		stopped += d.row != CIL_ROW_NONE && d.stop_tick &&
			   d.index == 3;
	}
	KUNIT_EXPECT_GT(test, stopped, 90);
}

/* One in eight is too rarely late for the tick to be stopped. */
static void rarely_long_intervals_keep_the_tick(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 consulted = 0, stopped = 0, i;

	b->tunables.row_context = 0;
	for (i = 0; i < 1000; i++) {
		struct cil_decision d = sleep_for(b, below(b, 8) ? 30 * US : 60 * MS,
						  900 * MS, false);

		if (i < 300 || d.row == CIL_ROW_NONE)
			continue;
		consulted++;
		stopped += d.stop_tick;
	}
	KUNIT_EXPECT_GT(test, consulted, 600);
	/* By chance, one in four are late now and then. */
	KUNIT_EXPECT_LT(test, stopped, consulted / 10);
}

/* Where TEO does without the sleep length and all is short, so does wteo. */
static void short_intervals_do_not_ask(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 asked = 0, consulted = 0, i;

	for (i = 0; i < 200; i++) {
		struct cil_decision d = sleep_for(b, 5 * US, 900 * MS, false);

		consulted += d.row != CIL_ROW_NONE;
		asked += i >= 50 && cil_test_env_asked();
	}
	KUNIT_EXPECT_GT(test, consulted, 150);
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
	for (i = 0; i < 400; i++) {
		/* A polling state that does not pay until the tick, either. */
		if (i == 200)
			b->machine.states[0].target_residency_ns = 5 * MS;
		d = sleep_for(b, 9 * MS, 900 * MS, false);
		KUNIT_ASSERT_FALSE(test, d.stop_tick && !d.index);
		polled += d.row != CIL_ROW_NONE && !d.index;
	}
	KUNIT_EXPECT_GT(test, polled, 100);
}

/* Begins an interval in row 1, woken by the tick or the end of polling. */
static void first_outcome(struct bench *b, s64 slept_ns, bool tick, s64 busy_ns)
{
	struct wteo_interval *i = &b->wteo.interval;
	struct cil_outcome outcome = {
		.now_ns = b->now_ns + slept_ns + busy_ns,
		.residency_ns = slept_ns,
		.tick_wakeup = tick,
		.poll_time_limit = !tick,
	};

	i->open = true;
	i->keeps_tick = true;
	i->row = 1;
	i->began_ns = b->now_ns;
	i->decided_ns = b->now_ns;
	i->sleep_length_ns = CIL_TIME_MAX;
	b->now_ns = outcome.now_ns;
	wteo_policy.update(&b->wteo, &b->machine, &b->tunables, &outcome);
}

/* A polling state whose time is over does not end the interval. */
static void polling_times_are_merged(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u16 view[CIL_STATE_MAX];

	first_outcome(b, 20 * US, false, 0);
	KUNIT_EXPECT_EQ(test, -1, wteo_policy.row_learned(&b->wteo,
							  &b->machine, view));
	sleep_for(b, 200 * US, 100 * MS, false);
	KUNIT_EXPECT_EQ(test, 1, wteo_policy.row_learned(&b->wteo, &b->machine,
							 view));
	KUNIT_EXPECT_EQ(test, 500, view[3]);
}

/*
 * An interval that outlasts all that its row knows is not taken to end at once:
 * the row knows 3 us, 20 ms have passed, a deep state follows.
 */
static void outlasting_goes_deeper(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	struct cil_decision d;
	u32 i;

	for (i = 0; i < 300; i++)
		wteo_row_learn(b->wteo.matrix.cells + 4, 4, 1, 3 * US,
			       wteo_rate(50));
	b->wteo.matrix.evidence[1] = 300 * 100;
	b->tunables.row_context = 0;
	first_outcome(b, 20 * MS, true, 0);
	d = sleep_for(b, 1 * MS, 900 * MS, false);
	KUNIT_EXPECT_EQ(test, 1, d.row);
	KUNIT_EXPECT_EQ(test, 3, d.index);
}

/* A tick that was left running does not end the interval; work does. */
static void ticks_are_merged(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u16 view[CIL_STATE_MAX];

	first_outcome(b, 4 * MS, true, 0);
	KUNIT_EXPECT_EQ(test, -1, wteo_policy.row_learned(&b->wteo,
							  &b->machine, view));
	KUNIT_EXPECT_TRUE(test, b->wteo.interval.resumed);
	sleep_for(b, 10 * US, 100 * MS, false);
	KUNIT_EXPECT_EQ(test, 1, wteo_policy.row_learned(&b->wteo, &b->machine,
							 view));
	/* 4010 us in the row that began it: state 3 of 0, 2, 20, 100 us. */
	KUNIT_EXPECT_EQ(test, 500, view[3]);
	KUNIT_EXPECT_EQ(test, WTEO_VIEW_ONE, sum_of_view(view, 4));
}

/* Work that follows a tick shows in the time between: the tick brought it. */
static void a_busy_tick_ends_the_interval(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u16 view[CIL_STATE_MAX];

	first_outcome(b, 4 * MS, true, 300 * US);
	KUNIT_EXPECT_EQ(test, 1, wteo_policy.row_learned(&b->wteo, &b->machine,
							 view));
	KUNIT_EXPECT_FALSE(test, b->wteo.interval.resumed);
}

/* A window that is not mostly short leaves the answer to TEO. */
static void window_triggers(struct kunit *test)
{
	struct bench *b = bench_new(test, 4);
	u32 consulted[2] = { 0 };
	struct cil_decision d;
	u32 i, phase;

	b->tunables.history_size = 8;
	for (phase = 0; phase < 2; phase++) {
		for (i = 0; i < 200; i++) {
			d = sleep_for(b, phase ? 5 * US : 30 * MS, 900 * MS,
				      false);
			consulted[phase] += d.row != CIL_ROW_NONE;
		}
	}
	KUNIT_EXPECT_EQ(test, 0, consulted[0]);
	KUNIT_EXPECT_GT(test, consulted[1], 0);
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
		KUNIT_ASSERT_EQ(test, CIL_ONE,
				sum_of(b->wteo.matrix.cells,
				       b->machine.state_count));
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

/* Up to 7 states touch at most 4 KiB, and all of it is at most 16 KiB. */
static void state_is_small(struct kunit *test)
{
	KUNIT_EXPECT_LE(test, wteo_state_used(7), 4096);
	KUNIT_EXPECT_LE(test, wteo_policy.state_size, 16384);
	KUNIT_EXPECT_EQ(test, wteo_state_used(CIL_STATE_MAX) / 8,
			wteo_policy.state_size / 8);
}

/* The dump shows the view of every row, and its age. */
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
	KUNIT_EXPECT_NOT_NULL(test, strstr(text, "\ns2 "));
	KUNIT_EXPECT_NOT_NULL(test, strstr(text, " 2500 "));
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
	KUNIT_CASE(fixed_point_is_right),
	KUNIT_CASE(random_is_even),
	KUNIT_CASE(costs_break_even),
	KUNIT_CASE(rows_sum_to_one),
	KUNIT_CASE(learning_moves_the_rate),
	KUNIT_CASE(every_view_is_reached),
	KUNIT_CASE(no_view_is_skipped),
	KUNIT_CASE(view_rounds_by_largest_remainder),
	KUNIT_CASE(aging_halves),
	KUNIT_CASE(aging_in_parts_is_aging),
	KUNIT_CASE(looking_does_not_age),
	KUNIT_CASE(off_is_teo),
	KUNIT_CASE(limits_are_respected),
	KUNIT_CASE(equal_residencies_work),
	KUNIT_CASE(draws_repeat_by_seed),
	KUNIT_CASE(a_new_seed_counts_at_once),
	KUNIT_CASE(draws_follow_weights),
	KUNIT_CASE(draws_skip_disabled_by_number),
	KUNIT_CASE(draws_age),
	KUNIT_CASE(expected_goes_deeper),
	KUNIT_CASE(long_intervals_stop_the_tick),
	KUNIT_CASE(rarely_long_intervals_keep_the_tick),
	KUNIT_CASE(short_intervals_do_not_ask),
	KUNIT_CASE(polling_keeps_the_tick),
	KUNIT_CASE(polling_times_are_merged),
	KUNIT_CASE(outlasting_goes_deeper),
	KUNIT_CASE(ticks_are_merged),
	KUNIT_CASE(a_busy_tick_ends_the_interval),
	KUNIT_CASE(window_triggers),
	KUNIT_CASE(extremes_do_no_harm),
	KUNIT_CASE(state_is_small),
	KUNIT_CASE(dump_shows_rows),
	{}
};

static struct kunit_suite wteo_suite = {
	.name = "wteo",
	.test_cases = wteo_cases,
};

kunit_test_suite(wteo_suite);
