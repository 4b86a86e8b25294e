// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the @name governor, included by @name.c: what holds for every
 * decision, whatever was learned before.
 */
#include <kunit/test.h>

/**
 * struct @name_bench - a CPU that is not there
 * @drv: its states
 * @cpu: what the governor knows about it
 * @now_ns: its clock
 * @random: state of the random numbers
 */
struct @name_bench {
	struct cpuidle_driver drv;
	struct @name_cpu cpu;
	u64 now_ns;
	u64 random;
};

static u32 bench_below(struct @name_bench *b, u32 limit)
{
	b->random = b->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)(b->random >> 33) % limit;
}

/* A duration of any octave from 1 us to 1 s. */
static s64 bench_duration(struct @name_bench *b)
{
	return NSEC_PER_USEC << bench_below(b, 20) | bench_below(b, 1024);
}

static struct @name_bench *bench_new(struct kunit *test, int states)
{
	struct @name_bench *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);
	struct cpuidle_driver *drv;
	struct @name_cpu *cpu;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, b);
	drv = &b->drv;
	cpu = &b->cpu;
	drv->state_count = states;
	for (i = 1; i < states; i++) {
		drv->states[i].exit_latency_ns = NSEC_PER_USEC << 2 * i;
		drv->states[i].target_residency_ns = 3 * NSEC_PER_USEC << 2 * i;
	}
	drv->states[0].flags = CPUIDLE_FLAG_POLLING;
	/* Memory need not be clean. */
	memset(cpu, 0x5a, sizeof(*cpu));
	@init();
	return b;
}

static struct @name_decision bench_decide(struct @name_bench *b, u32 disabled,
					  s64 latency_req_ns,
					  s64 sleep_length_ns,
					  bool tick_stopped)
{
	s64 tick_ns = tick_stopped ? sleep_length_ns : TICK_NSEC;
	struct cpuidle_driver *drv = &b->drv;
	struct @name_cpu *cpu = &b->cpu;
	struct @name_query query = {
		.now_ns = b->now_ns, //query.now_ns
		.latency_req_ns = latency_req_ns, //query.latency_req_ns
		.disabled = disabled, //query.disabled
		.tick_stopped = tick_stopped, //query.tick_stopped
		.asked = true, //query.asked
		.sleep_length_ns = sleep_length_ns, //query.sleep_length_ns
		.delta_tick_ns = min(tick_ns, sleep_length_ns), //query.delta_tick_ns
	};
	struct @name_decision decision;

	@select();
	return decision;
}

/* The CPU sleeps in a state, and something else than the tick wakes it. */
static void bench_sleep(struct @name_bench *b, u8 index, s64 slept_ns)
{
	struct cpuidle_driver *drv = &b->drv;
	struct @name_cpu *cpu = &b->cpu;

	b->now_ns += slept_ns + NSEC_PER_USEC;
	cpu->outcome = (struct @name_outcome) {
		.now_ns = b->now_ns, //outcome.now_ns
		.residency_ns = slept_ns, //outcome.residency_ns
		.index = index, //outcome.index
		.left = true, //outcome.left
	};
	@update();
}

static bool is_usable(const struct @name_bench *b, u32 index, u32 disabled,
		      s64 latency_req_ns)
{
	return !(disabled & BIT(index)) &&
	       b->drv.states[index].exit_latency_ns <= latency_req_ns;
}

/* Disabled states, the latency request and the tick, for 1 to 10 states. */
static void limits_are_respected(struct kunit *test)
{
	int states, i, k;

	for (states = 1; states <= CPUIDLE_STATE_MAX; states++) {
		struct @name_bench *b = bench_new(test, states);

		for (i = 0; i < 2000; i++) {
			u32 disabled = bench_below(b, 4) ? 0 : bench_below(b, BIT(states));
			s64 request_ns = bench_below(b, 4) ? KTIME_MAX : bench_duration(b);
			bool stopped = !bench_below(b, 8);
			struct @name_decision d;

			d = bench_decide(b, disabled, request_ns, bench_duration(b),
					 stopped);
			KUNIT_ASSERT_LT(test, (int)d.index, states);
			for (k = 0; k < states; k++)
				if (is_usable(b, k, disabled, request_ns))
					break;
			if (k < states)
				KUNIT_ASSERT_TRUE(test, is_usable(b, d.index, disabled,
								  request_ns));
			if (!stopped && !d.index)
				KUNIT_ASSERT_FALSE(test, d.stop_tick);
			bench_sleep(b, d.index, bench_duration(b));
		}
	}
}

/* What was learned depends on nothing but the inputs. */
static void decisions_are_repeated(struct kunit *test)
{
	struct @name_bench *a = bench_new(test, 4);
	struct @name_bench *b = bench_new(test, 4);
	int i;

	for (i = 0; i < 2000; i++) {
		s64 timer_ns = bench_duration(a), slept_ns = bench_duration(a);
		struct @name_decision one, other;

		slept_ns = min(slept_ns, timer_ns);
		one = bench_decide(a, 0, KTIME_MAX, timer_ns, false);
		other = bench_decide(b, 0, KTIME_MAX, timer_ns, false);
		KUNIT_ASSERT_EQ(test, one.index, other.index);
		KUNIT_ASSERT_EQ(test, one.stop_tick, other.stop_tick);
		bench_sleep(a, one.index, slept_ns);
		bench_sleep(b, other.index, slept_ns);
	}
}

/* Where a CPU always sleeps for long, it does so in the deepest state. */
static void long_sleeps_are_deep(struct kunit *test)
{
	struct @name_bench *b = bench_new(test, 4);
	int deep = 0, i;

	for (i = 0; i < 200; i++) {
		struct @name_decision d;

		d = bench_decide(b, 0, KTIME_MAX, NSEC_PER_SEC, false);
		bench_sleep(b, d.index, 100 * NSEC_PER_MSEC);
		deep += d.index == 3 && d.stop_tick;
	}
	KUNIT_EXPECT_GT(test, deep, 150);
}

static struct kunit_case @name_test_cases[] = {
	KUNIT_CASE(limits_are_respected),
	KUNIT_CASE(decisions_are_repeated),
	KUNIT_CASE(long_sleeps_are_deep),
	{}
};

static struct kunit_suite @name_test_suite = {
	.name = "cpuidle-@name",
	.test_cases = @name_test_cases,
};

kunit_test_suite(@name_test_suite);
