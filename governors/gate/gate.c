// SPDX-License-Identifier: GPL-2.0
/*
 * gate - latency hints over any base governor
 */

/**
 * DOC: gate
 *
 * PM QoS limits the exit latency of one CPU or of all. A user knows that a
 * *task* must be woken quickly, but not on which CPU it will sleep next. So the
 * limit ends up on all CPUs, and the whole machine pays.
 *
 * The gate moves the limit with the task. A task may carry a hint: the longest
 * exit latency that it tolerates. It is placed on the CPU where it runs or
 * waits, or ran before it went to sleep. While it is placed there, that CPU may
 * enter only idle states within the hint. All other CPUs are left alone. If
 * several hinted tasks are placed on a CPU, the smallest hint counts.
 *
 * The gate predicts nothing. It calls a base governor, in one of two ways:
 *
 * 1. A base with the policy interface gets the smaller of the PM QoS limit and
 *    the hint as its latency request. It knows the limit while it decides, and
 *    its tick policy fits the state that it chooses.
 *
 * 2. A governor of the kernel takes its latency request from PM QoS alone. The
 *    gate corrects its answer. If the state exceeds the hint, the deepest
 *    shallower one that is enabled and within the hint takes its place. If
 *    there is none, the shallowest enabled one does. The answer about the tick
 *    was made for the state that was given up. If the new state polls, the CPU
 *    needs the tick to leave it. If it pays within a tick, the CPU might stay
 *    in it for too long without one. In both cases the tick is kept.
 *
 * A task that sleeps for hours must not gate its CPU all that time. It lingers
 * for four times the longest sleep to expect of it. That is its longest sleep
 * so far, less an eighth of all the time that it has slept since. Of random
 * sleeps of up to 2 s on average, less than one in a thousand is longer. A task
 * that has had only short sleeps of late lingers for a short time. Sleeps
 * longer than the longest linger time are not expected again.
 *
 * A hint of 0 allows no exit latency at all. On most machines only the polling
 * state has none. So this hint means "as shallow as the machine can".
 *
 * A hint may say the opposite, too. Where every user task that ran lately has a
 * value above 0, a late wake-up does no harm. A governor of the kernel that
 * expects a wake-up before the next timer is then too careful. The next deeper
 * enabled state takes the place of its answer, if PM QoS allows it and it pays
 * until the next timer. With the tick kept, it must pay until the tick. A base
 * with the policy interface is left alone.
 */

#include "gate.h"

static const char *const mode_names[] = { "cap", "poll" };

const struct cil_tunable gate_tunables[GATE_TUNABLE_COUNT] = {
	{
		.name = "mode",
		.unit = "",
		.what = "A gated CPU keeps the limit, or never leaves the shallowest state.",
		.why = "A limit that suits the task costs less than polling.",
		.max = GATE_MODE_POLL,
		.def = GATE_MODE_CAP,
		.names = mode_names,
	},
	{
		.name = "linger_ms",
		.unit = "ms",
		.what = "Least time for which a task gates its CPU after it ran; 0: for ever.",
		.why = "Of wake-ups at random, ten a second, 0.7 % come later.",
		.max = 86400000,
		.def = 500,
	},
	{
		.name = "linger_max_ms",
		.unit = "ms",
		.what = "Greatest such time: four times the expected sleep; 0: linger_ms always.",
		.why = "A task that sleeps for an hour gates its CPU for less than 1 % of it.",
		.max = 86400000,
		.def = 30000,
	},
	{
		.name = "hints_per_user",
		.unit = "hints",
		.what = "Most hints that the tasks of one user may have.",
		.why = "A quarter of the room for hints.",
		.max = 16384,
		.def = 4096,
	},
};

static_assert(sizeof(struct gate_tunables) ==
	      GATE_TUNABLE_COUNT * sizeof(u32), "one member for each tunable");

/* A task lingers so many times the sleep that is to be expected of it. */
#define SLEEPS		4

/* By this part of the time slept, what is expected of a task fades. */
#define FADING_SHIFT	3

static u64 ms_to_ns(u32 ms)
{
	return (u64)ms * 1000000;
}

/**
 * gate_longest_sleep() - the longest sleep that is ever expected
 * @tunables: the gate's tunables
 *
 * Context: any.
 * Return: the sleep in ns; to be expected, too, of a task of which nothing is
 * known.
 */
u64 gate_longest_sleep(const struct gate_tunables *tunables)
{
	return ms_to_ns(tunables->linger_max_ms) / SLEEPS;
}

/**
 * gate_expect_sleep() - a task has slept; for how long may it the next time?
 * @tunables: the gate's tunables
 * @expected_ns: what was expected
 * @slept_ns: for how long it slept
 *
 * Context: any.
 * Return: the longest sleep to expect in ns.
 */
u64 gate_expect_sleep(const struct gate_tunables *tunables, u64 expected_ns,
		      u64 slept_ns)
{
	u64 longest_ns = gate_longest_sleep(tunables);
	u64 fading_ns = slept_ns >> FADING_SHIFT;

	if (expected_ns > longest_ns)
		expected_ns = longest_ns;
	expected_ns -= fading_ns < expected_ns ? fading_ns : expected_ns;
	/* The task would not have lingered to the end of this one. */
	if (slept_ns > ms_to_ns(tunables->linger_max_ms))
		return expected_ns;
	if (slept_ns > longest_ns)
		slept_ns = longest_ns;
	return slept_ns > expected_ns ? slept_ns : expected_ns;
}

/**
 * gate_linger() - for how long does a task gate its CPU after it last ran?
 * @tunables: the gate's tunables; of linger_ms and linger_max_ms, 0 gives none
 * @expected_ns: the longest sleep to expect of it
 *
 * Context: any.
 * Return: the time in ns.
 */
u64 gate_linger(const struct gate_tunables *tunables, u64 expected_ns)
{
	u64 least_ns = ms_to_ns(tunables->linger_ms);
	u64 linger_ns = ms_to_ns(tunables->linger_max_ms);

	if (expected_ns < gate_longest_sleep(tunables))
		linger_ns = SLEEPS * expected_ns;
	return linger_ns > least_ns ? linger_ns : least_ns;
}

/**
 * gate_latency_req() - the latency request of a base that can be told
 * @latency_req_ns: limit by PM QoS
 * @hint_ns: limit by hints, negative if there is none
 *
 * Context: any.
 * Return: the limit for the base governor in ns.
 */
s64 gate_latency_req(s64 latency_req_ns, s64 hint_ns)
{
	if (hint_ns >= 0 && hint_ns < latency_req_ns)
		return hint_ns;
	return latency_req_ns;
}

static int deepest_within(const struct cil_machine *machine,
			  const struct cil_query *query, u32 index, s64 limit_ns)
{
	int shallowest = -1;
	int i;

	for (i = (int)index; i >= 0; i--) {
		if (cil_disabled(query, (u32)i))
			continue;
		if (machine->states[i].exit_latency_ns <= limit_ns)
			return i;
		shallowest = i;
	}
	return shallowest;
}

static u32 next_deeper(const struct cil_machine *machine,
		       const struct cil_query *query, u32 index)
{
	do
		index++;
	while (index < machine->state_count && cil_disabled(query, index));
	return index;
}

/* With the tick kept, the CPU sleeps until the tick at most. */
static void deepen(const struct cil_machine *machine, struct cil_query *query,
		   struct cil_decision *decision)
{
	u32 index = next_deeper(machine, query, decision->index);
	const struct cil_state *state = &machine->states[index];
	s64 length_ns;

	if (index >= machine->state_count ||
	    state->exit_latency_ns > query->latency_req_ns)
		return;
	length_ns = cil_sleep_length(query);
	if (!decision->stop_tick && !query->tick_stopped)
		length_ns = query->delta_tick_ns;
	if (length_ns < state->target_residency_ns)
		return;
	decision->index = (u8)index;
	decision->reason = CIL_REASON_HINT_DEEPER;
}

/**
 * gate_clamp() - correct the answer of a base that cannot be told
 * @machine: the idle states
 * @query: what was known at the decision; the next timer may be asked for
 * @hint_ns: limit by hints, CIL_HINT_NONE if there is none, CIL_HINT_RELAXED
 *	if deeper states are welcome
 * @decision: the answer of the base; index, stop_tick and reason are
 *	corrected if the state exceeds the hint
 *
 * Context: any.
 */
void gate_clamp(const struct cil_machine *machine,
		struct cil_query *query, s64 hint_ns,
		struct cil_decision *decision)
{
	const struct cil_state *state = &machine->states[decision->index];
	int index;

	if (hint_ns == CIL_HINT_RELAXED)
		deepen(machine, query, decision);
	if (hint_ns < 0 || state->exit_latency_ns <= hint_ns)
		return;

	index = deepest_within(machine, query, decision->index, hint_ns);
	if (index < 0 || index == decision->index)
		return;

	state = &machine->states[index];
	decision->index = (u8)index;
	decision->reason = CIL_REASON_HINT_CLAMP;
	if (state->polling || state->target_residency_ns < machine->tick_ns)
		decision->stop_tick = false;
}
