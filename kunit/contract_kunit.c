// SPDX-License-Identifier: GPL-2.0
/*
 * Duties of every policy to its environment while it runs, whatever its
 * algorithm: the contract of governors/common/policy.h. Each property is stated
 * before its case and checked for each governor of the list.
 */
#include <kunit/test.h>

#include "include/cil_test_env.h"

#define US	CIL_NSEC_PER_USEC
#define MS	CIL_NSEC_PER_MSEC

#define PERIODS	3000

static const struct cil_policy *const policies[] = {
#define X(name, number) &name##_policy,
	CIL_TEST_GOVERNORS(X)
#undef X
};

/* The reasons that exist, by number. */
static const char *const reasons[256] = {
#define X(id, number, text) [number] = text,
	CIL_REASONS(X)
#undef X
};

/**
 * struct cpu - one CPU that lives through random idle periods
 * @policy: its governor
 * @state: the policy's memory, of the size that it asked for
 * @machine: its idle states
 * @values: the policy's tunables
 * @query: what the last decision was told
 * @decision: the last decision
 * @now_ns: the time
 * @seed: of the random numbers
 */
struct cpu {
	const struct cil_policy *policy;
	void *state;
	struct cil_machine machine;
	u32 values[CIL_TUNABLE_MAX];
	struct cil_query query;
	struct cil_decision decision;
	u64 now_ns;
	u64 seed;
};

static u64 draw(struct cpu *cpu)
{
	cpu->seed ^= cpu->seed << 13;
	cpu->seed ^= cpu->seed >> 7;
	cpu->seed ^= cpu->seed << 17;
	return cpu->seed;
}

/* A duration of any order of magnitude, up to about 18 minutes. */
static s64 draw_ns(struct cpu *cpu)
{
	return draw(cpu) >> (24 + draw(cpu) % 40);
}

static void draw_machine(struct cpu *cpu)
{
	struct cil_machine *m = &cpu->machine;
	s64 residency_ns = 0;
	u32 i;

	m->tick_ns = draw(cpu) % 2 ? 4 * MS : 1 * MS;
	m->state_count = 1 + draw(cpu) % CIL_STATE_MAX;
	for (i = 0; i < m->state_count; i++) {
		m->states[i].target_residency_ns = residency_ns;
		m->states[i].exit_latency_ns = residency_ns / 2;
		/* Some tables name a residency twice. */
		if (draw(cpu) % 4)
			residency_ns += 1 + draw(cpu) % (US << 2 * i);
	}
	m->states[0].polling = draw(cpu) % 2;
}

static struct cpu *boot(struct kunit *test, const struct cil_policy *policy,
			u8 garbage)
{
	struct cpu *cpu = kunit_kzalloc(test, sizeof(*cpu), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, cpu);
	cpu->policy = policy;
	cpu->seed = 88172645463325252ULL;
	cpu->state = kunit_kzalloc(test, policy->state_size, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, cpu->state);
	memset(cpu->state, garbage, policy->state_size);
	for (i = 0; i < policy->tunable_count; i++)
		cpu->values[i] = policy->tunables[i].def;
	draw_machine(cpu);
	policy->init(cpu->state, &cpu->machine, cpu->values);
	return cpu;
}

static void decide(struct cpu *cpu, u8 garbage)
{
	s64 sleep_length_ns = draw_ns(cpu);
	s64 tick_ns = draw(cpu) % cpu->machine.tick_ns;

	cpu->now_ns += draw_ns(cpu);
	cpu->query = (struct cil_query){
		.now_ns = cpu->now_ns,
		.latency_req_ns = draw(cpu) % 2 ? CIL_TIME_MAX : draw_ns(cpu),
		.disabled = draw(cpu) % 4 ? 0 : draw(cpu),
		.tick_stopped = draw(cpu) % 4 == 0,
		.rejected = draw(cpu) % 8 == 0,
		.left = draw(cpu) % 2,
	};
	cil_test_env_timer(sleep_length_ns, sleep_length_ns < tick_ns ?
			   sleep_length_ns : tick_ns);
	memset(&cpu->decision, garbage, sizeof(cpu->decision));
	cpu->policy->select(cpu->state, &cpu->machine, cpu->values, &cpu->query,
			    &cpu->decision);
}

static void sleep(struct cpu *cpu)
{
	struct cil_outcome outcome = {
		.residency_ns = draw_ns(cpu),
		.index = draw(cpu) % 8 ? cpu->decision.index : 0,
		.tick_wakeup = draw(cpu) % 8 == 0,
		.poll_time_limit = draw(cpu) % 4 == 0,
		.left = draw(cpu) % 2,
	};

	cpu->now_ns += outcome.residency_ns;
	outcome.now_ns = cpu->now_ns;
	if (cpu->policy->update && draw(cpu) % 8)
		cpu->policy->update(cpu->state, &cpu->machine, cpu->values,
				    &outcome);
}

static void draw_tunable(struct cpu *cpu)
{
	const struct cil_tunable *tunable;
	u32 i;

	if (!cpu->policy->tunable_count)
		return;
	i = draw(cpu) % cpu->policy->tunable_count;
	tunable = &cpu->policy->tunables[i];
	cpu->values[i] = tunable->min +
			 draw(cpu) % ((u64)tunable->max - tunable->min + 1);
}

static void expect_allowed(struct kunit *test, const struct cpu *cpu)
{
	const struct cil_decision *d = &cpu->decision;
	const struct cil_machine *m = &cpu->machine;
	const struct cil_state *chosen = &m->states[d->index];
	u32 i, shallowest = m->state_count;

	KUNIT_ASSERT_LT(test, d->index, m->state_count);
	for (i = m->state_count; i-- > 0;)
		if (!cil_disabled(&cpu->query, i))
			shallowest = i;

	/* State 0 is the way out where nothing is allowed. */
	if (d->index)
		KUNIT_EXPECT_FALSE(test, cil_disabled(&cpu->query, d->index));
	if (d->index && d->index != shallowest)
		KUNIT_EXPECT_LE(test, chosen->exit_latency_ns,
				cpu->query.latency_req_ns);
	if (chosen->polling && !cpu->query.tick_stopped)
		KUNIT_EXPECT_FALSE_MSG(test, d->stop_tick, "%s polls: %s",
				       cpu->policy->name, reasons[d->reason]);
	KUNIT_EXPECT_NOT_NULL(test, reasons[d->reason]);
	KUNIT_EXPECT_LE(test, cil_test_env_asked(), 1u);
	KUNIT_EXPECT_EQ(test, cil_test_env_asked(), (u32)cpu->query.asked);
}

static void expect_row(struct kunit *test, const struct cpu *cpu)
{
	u16 weights[CIL_STATE_MAX];
	u32 sum = 0, i;

	if (!cpu->policy->row_learned ||
	    cpu->policy->row_learned(cpu->state, &cpu->machine, weights) < 0)
		return;
	for (i = 0; i < cpu->machine.state_count; i++)
		sum += weights[i];
	KUNIT_EXPECT_EQ(test, sum, 10000u);
}

static void expect_dump(struct kunit *test, const struct cpu *cpu)
{
	struct cil_sink *sink = cil_test_env_sink();
	const char *text = cil_test_env_text();
	size_t length;

	if (!cpu->policy->dump)
		return;
	cpu->policy->dump(cpu->state, &cpu->machine, cpu->values, cpu->now_ns,
			  sink);
	length = strlen(text);
	KUNIT_ASSERT_GT(test, length, (size_t)0);
	KUNIT_EXPECT_EQ(test, text[length - 1], '\n');
}

/*
 * Any table, any query, tunables changed at any time: the state exists, is
 * enabled, and wakes up in time; a CPU that polls keeps its tick; the reason
 * is known; the sleep length is read once at most; the row that was
 * learned sums up to one; and the dump ends with a whole line.
 */
static void decisions_are_allowed(struct kunit *test)
{
	u32 p, n;

	for (p = 0; p < ARRAY_SIZE(policies); p++) {
		struct cpu *cpu = boot(test, policies[p], 0);

		for (n = 0; n < PERIODS; n++) {
			if (n % 100 == 0) {
				draw_machine(cpu);
				policies[p]->init(cpu->state, &cpu->machine,
						  cpu->values);
			}
			if (n % 10 == 0)
				draw_tunable(cpu);
			decide(cpu, 0x55);
			expect_allowed(test, cpu);
			sleep(cpu);
			expect_row(test, cpu);
			if (n % 50 == 0)
				expect_dump(test, cpu);
		}
	}
}

/*
 * A decision is a function of what was learned and asked, and nothing else:
 * not of what the memory of the state or of the decision held before.
 */
static void decisions_repeat(struct kunit *test)
{
	u32 p, n;

	for (p = 0; p < ARRAY_SIZE(policies); p++) {
		struct cpu *cpu = boot(test, policies[p], 0);
		struct cpu *other = boot(test, policies[p], 0xff);

		for (n = 0; n < PERIODS; n++) {
			decide(cpu, 0);
			decide(other, 0xff);
			KUNIT_ASSERT_EQ(test, cpu->decision.index,
					other->decision.index);
			KUNIT_ASSERT_EQ(test, cpu->decision.stop_tick,
					other->decision.stop_tick);
			KUNIT_ASSERT_EQ(test, cpu->decision.row,
					other->decision.row);
			KUNIT_ASSERT_EQ(test, cpu->decision.reason,
					other->decision.reason);
			sleep(cpu);
			sleep(other);
		}
	}
}

static const s64 extremes[] = {
	-S64_MAX, -S64_MAX / 2, -1, 0, 1, S64_MAX / 2, S64_MAX - 1, S64_MAX,
};

static s64 draw_extreme(struct cpu *cpu)
{
	return extremes[draw(cpu) % ARRAY_SIZE(extremes)];
}

static void draw_extreme_machine(struct cpu *cpu)
{
	struct cil_machine *m = &cpu->machine;
	u32 i;

	memset(m, 0, sizeof(*m));
	m->tick_ns = 1 + draw(cpu) % (10 * MS);
	m->state_count = 1 + draw(cpu) % CIL_STATE_MAX;
	for (i = 0; i < m->state_count; i++) {
		/* Latencies are added and halved, so they have a sign and room. */
		m->states[i].exit_latency_ns = draw_extreme(cpu) & (S64_MAX >> 2);
		m->states[i].target_residency_ns = draw_extreme(cpu);
		m->states[i].power_uw = draw(cpu);
		m->states[i].polling = draw(cpu) % 2;
	}
}

static void decide_at_extremes(struct cpu *cpu)
{
	s64 sleep_length_ns = draw_extreme(cpu);

	cpu->query = (struct cil_query){
		.now_ns = draw_extreme(cpu),
		.latency_req_ns = draw_extreme(cpu),
		.disabled = draw(cpu) % 2 ? draw(cpu) : 0,
		.tick_stopped = draw(cpu) % 2,
		.rejected = draw(cpu) % 8 == 0,
		.left = draw(cpu) % 2,
	};
	cil_test_env_timer(sleep_length_ns, draw_extreme(cpu));
	cpu->policy->select(cpu->state, &cpu->machine, cpu->values, &cpu->query,
			    &cpu->decision);
}

/*
 * No time of 64 bits, in the table, the query or the outcome, makes a policy
 * overflow, divide by zero, choose a state that there is not, or a disabled one.
 */
static void extremes_do_no_harm(struct kunit *test)
{
	u32 p, n;

	for (p = 0; p < ARRAY_SIZE(policies); p++) {
		struct cpu *cpu = boot(test, policies[p], 0);

		for (n = 0; n < 4 * PERIODS; n++) {
			struct cil_outcome outcome = { 0 };

			if (n % 50 == 0) {
				draw_extreme_machine(cpu);
				policies[p]->init(cpu->state, &cpu->machine,
						  cpu->values);
			}
			draw_tunable(cpu);
			decide_at_extremes(cpu);
			KUNIT_ASSERT_LT(test, cpu->decision.index,
					cpu->machine.state_count);
			if (cpu->decision.index)
				KUNIT_ASSERT_FALSE(test,
						   cil_disabled(&cpu->query,
								cpu->decision.index));
			KUNIT_ASSERT_NOT_NULL(test,
					      reasons[cpu->decision.reason]);
			outcome.index = cpu->decision.index;
			outcome.now_ns = draw_extreme(cpu);
			outcome.residency_ns = draw_extreme(cpu) & S64_MAX;
			outcome.tick_wakeup = draw(cpu) % 2;
			outcome.poll_time_limit = draw(cpu) % 2;
			outcome.left = draw(cpu) % 2;
			if (cpu->policy->update)
				cpu->policy->update(cpu->state, &cpu->machine,
						    cpu->values, &outcome);
			expect_row(test, cpu);
		}
	}
}

static struct kunit_case contract_cases[] = {
	KUNIT_CASE(decisions_are_allowed),
	KUNIT_CASE(decisions_repeat),
	KUNIT_CASE(extremes_do_no_harm),
	{}
};

static struct kunit_suite contract_suite = {
	.name = "contract",
	.test_cases = contract_cases,
};

kunit_test_suite(contract_suite);

MODULE_DESCRIPTION("Unit tests of the governors of cpuidle_lab");
MODULE_LICENSE("GPL");
