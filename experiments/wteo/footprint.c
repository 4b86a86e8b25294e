// SPDX-License-Identifier: GPL-2.0
/*
 * Cache lines of a governor's own state that a decision touches: those of one call of select and
 * one of update. The compiler calls a function at each access to memory of the governors'
 * sources, which are built for ThreadSanitizer; its library is not linked.
 *
 *   cc -DPOLICY=wteo_policy …; it prints name, states, mean and most for 4 and 10 states
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "common/policy.h"

#define LINE		64
#define INTERVALS	40000
#define LEARNED		5000
#define MOST_LINES	1024

struct cil_sink;

static s64 sleep_length_ns;
static u64 random_state = 88172645463325252ull;

static char *own;
static size_t own_size;
static bool counting, touched[MOST_LINES];

static void touch(const void *where, size_t size)
{
	size_t first = (size_t)((const char *)where - own);
	size_t line;

	/* Before it, too: the difference wraps. */
	if (!counting || first >= own_size)
		return;
	for (line = first / LINE; line <= (first + size - 1) / LINE; line++)
		touched[line] = true;
}

#define ACCESS(name, size)			\
	void __tsan_##name(void *where);	\
	void __tsan_##name(void *where)		\
	{					\
		touch(where, size);		\
	}
#define SIZE(n)					\
	ACCESS(read##n, n)			\
	ACCESS(write##n, n)			\
	ACCESS(unaligned_read##n, n)		\
	ACCESS(unaligned_write##n, n)

SIZE(1)
SIZE(2)
SIZE(4)
SIZE(8)
SIZE(16)
ACCESS(func_entry, 0)

#define RANGE(name)						\
	void __tsan_##name(void *where, unsigned long size);	\
	void __tsan_##name(void *where, unsigned long size)	\
	{							\
		touch(where, size);				\
	}

RANGE(read_range)
RANGE(write_range)

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

/* The governors' environment. */
void cil_env_sleep_length(struct cil_query *query)
{
	query->sleep_length_ns = sleep_length_ns;
	query->delta_tick_ns = sleep_length_ns < 4000000 ? sleep_length_ns : 4000000;
}

void cil_env_print(struct cil_sink *sink, const char *format, ...)
{
	(void)sink;
	(void)format;
}

static u64 next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static u32 count(void)
{
	u32 found = 0, k;

	for (k = 0; k < MOST_LINES; k++)
		found += touched[k];
	memset(touched, 0, sizeof(touched));
	return found;
}

/* One idle period: a third ends within 8 ms, the others within 200 us. */
static void play(const struct cil_policy *policy, const struct cil_machine *machine,
		 const u32 *tunables, u64 *now_ns)
{
	struct cil_query query = { .now_ns = *now_ns, .latency_req_ns = 2000000000 };
	struct cil_decision decision = { 0 };
	struct cil_outcome outcome = { 0 };
	s64 end_ns = (s64)(next_random() % (next_random() % 3 ? 200000 : 8000000));

	sleep_length_ns = (s64)(next_random() % 20000000 + 1000);
	if (end_ns > sleep_length_ns)
		end_ns = sleep_length_ns;
	counting = true;
	policy->select(own, machine, tunables, &query, &decision);
	counting = false;
	outcome.index = decision.index;
	if (!decision.stop_tick && end_ns > query.delta_tick_ns && query.delta_tick_ns) {
		end_ns = query.delta_tick_ns;
		outcome.tick_wakeup = true;
	}
	outcome.residency_ns = (u64)end_ns;
	*now_ns += (u64)end_ns + 3000;
	outcome.now_ns = *now_ns;
	counting = true;
	policy->update(own, machine, tunables, &outcome);
	counting = false;
	*now_ns += outcome.tick_wakeup ? 3000 : 50000;
}

static void measure(const struct cil_policy *policy, const u32 *residency_us, u32 states)
{
	struct cil_machine machine = { .tick_ns = 4000000, .state_count = states };
	u32 tunables[CIL_TUNABLE_MAX] = { 0 };
	u64 now_ns = 1000000;
	u32 most = 0, k;
	double sum = 0;

	for (k = 0; k < states; k++) {
		machine.states[k].target_residency_ns = residency_us[k] * 1000;
		machine.states[k].exit_latency_ns = residency_us[k] * 300;
		machine.states[k].polling = !k;
	}
	for (k = 0; k < policy->tunable_count; k++)
		tunables[k] = policy->tunables[k].def;
	own_size = policy->state_size;
	own = aligned_alloc(LINE, (own_size + LINE - 1) / LINE * LINE);
	if (!own || own_size > MOST_LINES * LINE)
		exit(1);
	policy->init(own, &machine, tunables);
	for (k = 0; k < INTERVALS; k++) {
		u32 lines;

		play(policy, &machine, tunables, &now_ns);
		lines = count();
		if (k < LEARNED)
			continue;
		sum += lines;
		most = lines > most ? lines : most;
	}
	printf("%s %u %.2f %u\n", policy->name, states, sum / (INTERVALS - LEARNED), most);
	free(own);
}

extern const struct cil_policy POLICY;

int main(void)
{
	static const u32 four[] = { 0, 2, 20, 600 };
	static const u32 ten[] = { 0, 2, 20, 100, 200, 800, 900, 5000, 6000, 15000 };

	measure(&POLICY, four, 4);
	measure(&POLICY, ten, 10);
	return 0;
}
