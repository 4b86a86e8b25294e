// SPDX-License-Identifier: GPL-2.0
/*
 * One CPU under wteo, for the cases of all its files.
 */
#include <kunit/test.h>

#include "wteo_bench_kunit.h"

const s64 bench_residencies_us[] = {
	0, 2, 20, 100, 200, 800, 800, 5000, 20000, 100000,
};

const s64 bench_latencies_us[] = {
	0, 2, 10, 70, 85, 124, 200, 480, 2000, 10000,
};

/**
 * bench_machine() - a machine of some of ten states
 * @b: its bench
 * @states: number of states, 1 to 10
 */
void bench_machine(struct bench *b, u32 states)
{
	struct cil_machine *m = &b->machine;
	u32 k;

	memset(m, 0, sizeof(*m));
	m->tick_ns = 4 * MS;
	m->state_count = states;
	for (k = 0; k < states; k++) {
		m->states[k].exit_latency_ns = bench_latencies_us[k] * US;
		m->states[k].target_residency_ns = bench_residencies_us[k] * US;
	}
	m->states[0].polling = true;
}

/**
 * bench_new() - a CPU with its defaults, a second after boot
 * @test: fails if there is no memory
 * @states: number of states, 1 to 10
 *
 * Return: the bench, for as long as the test runs.
 */
struct bench *bench_new(struct kunit *test, u32 states)
{
	struct bench *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);
	u32 *values;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, b);
	values = (u32 *)&b->tunables;
	for (i = 0; i < wteo_policy.tunable_count; i++)
		values[i] = wteo_policy.tunables[i].def;
	bench_machine(b, states);
	b->random = cil_random_seed(1, states);
	b->now_ns = 1000 * MS;
	wteo_policy.init(&b->wteo, &b->machine, &b->tunables);
	return b;
}

/**
 * bench_below() - a random number
 * @b: the bench; its numbers repeat
 * @limit: above all of them
 */
u32 bench_below(struct bench *b, u32 limit)
{
	return ((u64)cil_random(&b->random) * limit) >> 32;
}

/**
 * bench_duration() - a random time
 * @b: the bench
 *
 * Return: 1 ns to about a minute, all magnitudes alike.
 */
s64 bench_duration(struct bench *b)
{
	u32 bits = bench_below(b, 36);

	return (1LL << bits) + (cil_random(&b->random) & ((1LL << bits) - 1));
}

/**
 * bench_random_step() - a random query
 * @b: the bench
 * @s: what is asked; its outcome is empty
 */
void bench_random_step(struct bench *b, struct step *s)
{
	memset(s, 0, sizeof(*s));
	s->query.now_ns = b->now_ns;
	s->query.latency_req_ns = bench_below(b, 4) ? CIL_TIME_MAX :
						bench_latencies_us[bench_below(b, 10)] * US;
	s->query.disabled = bench_below(b, 4) ? 0 : bench_below(b, 1024);
	s->query.tick_stopped = !bench_below(b, 4);
	s->sleep_length_ns = bench_duration(b);
	s->delta_tick_ns = s->sleep_length_ns;
	if (!s->query.tick_stopped && s->delta_tick_ns > 4 * MS)
		s->delta_tick_ns = 1 + bench_below(b, 4 * MS);
}

/**
 * bench_decide() - let a policy decide
 * @b: the bench
 * @w: the state of the policy
 * @s: what is asked
 * @d: the decision
 */
void bench_decide(struct bench *b, struct wteo *w, struct step *s,
		  struct cil_decision *d)
{
	cil_test_env_timer(s->sleep_length_ns, s->delta_tick_ns);
	wteo_policy.select(w, &b->machine, &b->tunables, &s->query, d);
}

/**
 * bench_random_outcome() - a random end of the idle period
 * @b: the bench; its time goes on
 * @s: what was asked, and the outcome
 * @index: state that was entered
 */
void bench_random_outcome(struct bench *b, struct step *s, u8 index)
{
	s64 slept_ns = bench_duration(b);

	s->outcome.index = index;
	s->outcome.poll_time_limit = !bench_below(b, 16);
	if (slept_ns >= s->delta_tick_ns) {
		slept_ns = s->delta_tick_ns;
		s->outcome.tick_wakeup = bench_below(b, 2);
	}
	s->outcome.residency_ns = slept_ns;
	b->now_ns += slept_ns + bench_below(b, 200 * US);
	s->outcome.now_ns = b->now_ns;
}

/**
 * bench_sum() - sum of the weights of a row
 * @b: the bench
 * @slot: number of the row
 */
u64 bench_sum(const struct bench *b, u32 slot)
{
	u64 sum = 0;
	u32 k;

	for (k = 0; k <= b->machine.state_count; k++)
		sum += bench_cells(b, slot)[k].weight;
	return sum;
}

/**
 * bench_sleep() - one idle period
 * @b: the bench; its time goes on
 * @slept_ns: how long it lasts
 * @sleep_length_ns: time to the timer
 * @tick: the tick ends it
 *
 * Return: the decision.
 */
struct cil_decision bench_sleep(struct bench *b, s64 slept_ns,
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

	bench_decide(b, &b->wteo, &s, &d);
	b->now_ns += slept_ns;
	s.outcome.now_ns = b->now_ns;
	s.outcome.index = d.index;
	s.outcome.residency_ns = slept_ns;
	s.outcome.tick_wakeup = tick;
	wteo_policy.update(&b->wteo, &b->machine, &b->tunables, &s.outcome);
	return d;
}

/**
 * bench_own_doing() - an idle period that the tick or the end of polling ends
 * @b: the bench; its time goes on
 * @slept_ns: how long it lasts
 * @tick: the tick ends it, which was left running; else the end of polling
 * @left: a task ran after it
 */
void bench_own_doing(struct bench *b, s64 slept_ns, bool tick, bool left)
{
	struct cil_outcome outcome = {
		.now_ns = b->now_ns + slept_ns,
		.residency_ns = slept_ns,
		.tick_wakeup = tick,
		.poll_time_limit = !tick,
		.left = left,
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

	bench_decide(b, &b->wteo, &s, &d);
	b->wteo.keeps_tick = true;
	b->now_ns = outcome.now_ns;
	wteo_policy.update(&b->wteo, &b->machine, &b->tunables, &outcome);
}
