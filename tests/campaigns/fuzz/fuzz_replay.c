// SPDX-License-Identifier: GPL-2.0
/*
 * The replay library: every policy, on any machine that the reader lets pass,
 * with any columns.
 */
#include "input.h"
#include "../../../tools/native/periods.h"
#include "../../../tools/native/replay/run.h"

#ifndef WILD
#define WILD		0
#endif

#define ROWS		48
#define SETS		3
#define STATES		2
#define STAYS		(3 * ROWS)

/* As many in an interval, and of all intervals. */
#define ANSWERS_MAX	4
#define ANSWERS		(ROWS * ANSWERS_MAX)

/*
 * Sorted residencies, often equal ones; latencies in any order. No more is
 * promised by the readers of traces and of columns.
 */
static void take_machine(struct input *in, struct cil_machine *m,
			 struct rp_model *model)
{
	static const s64 ticks[] = { 100000, 1000000, 4000000, 10000000, 100000000 };
	s64 residency_ns = 0;
	u32 k;

	memset(m, 0, sizeof(*m));
	memset(model, 0, sizeof(*model));
	m->tick_ns = ticks[take_below(in, 5)];
	m->state_count = 1 + take_below(in, CIL_STATE_MAX);
	for (k = 0; k < m->state_count; k++) {
		struct cil_state *s = &m->states[k];

		if (take_below(in, 3))
			residency_ns += take_time(in, 24);
		s->target_residency_ns = residency_ns;
		s->exit_latency_ns = take_time(in, take_below(in, 32) ? 22 : 44);
		s->power_uw = 1000 * take_u8(in);
		s->polling = !take_below(in, k ? 16 : 2);
		model->power_mw[k] = s->power_uw / 1e3;
		model->entry_pj[k] = take_time(in, 32);
	}
}

static void take_tunables(struct input *in, const struct cil_policy *policy,
			  u32 *values)
{
	u32 i;

	memset(values, 0, CIL_TUNABLE_MAX * sizeof(*values));
	for (i = 0; i < policy->tunable_count; i++) {
		const struct cil_tunable *t = &policy->tunables[i];
		u64 range = (u64)t->max - t->min + 1;

		switch (take_below(in, 4)) {
		case 0:
			values[i] = t->min + take_u64(in) % range;
			break;
		case 1:
			values[i] = take_u8(in) % 2 ? t->min : t->max;
			break;
		default:
			values[i] = t->def;
		}
	}
}

/* Long enough for wheels and windows to turn; more only takes longer. */
static s64 take_length(struct input *in)
{
	if (!take_below(in, 16))
		return 0;
	return 1 + (take_below(in, 16) ? take_time(in, 20) : take_time(in, 26));
}

/* The time to a timer; often one that is due, or a tick that had to go on. */
static s64 take_timer(struct input *in, s64 length_ns)
{
	switch (take_below(in, 4)) {
	case 0:
		return length_ns;
	case 1:
		return CIL_TIMER_TICK - (s64)take_time(in, 23);
	case 2:
		return take_time(in, 26);
	default:
		return take_wild(in);
	}
}

/* Later answers of the kernel, in columns. */
struct answers {
	u64 at_ns[ANSWERS];
	s64 timer_ns[ANSWERS];
	s64 served_ns[ANSWERS];
	s64 back_ns[ANSWERS];
	s64 phase_ns[ANSWERS];
};

/* Mostly in order and within the interval; else at any time. */
static u32 take_answers(struct input *in, u64 start_ns, s64 length_ns,
			struct answers *a, size_t first)
{
	u32 count = take_below(in, 2) ? 0 : take_below(in, ANSWERS_MAX + 1);
	u64 now_ns = start_ns;
	u32 i;

	for (i = 0; i < count; i++) {
		size_t k = first + i;

		now_ns += take_time(in, 24);
		a->at_ns[k] = take_below(in, 16) ? now_ns : take_wild(in);
		a->at_ns[k] &= CIL_TIME_BELIEVED - 1;
		a->timer_ns[k] = take_timer(in, length_ns);
		a->served_ns[k] = take_time(in, take_below(in, 8) ? 16 : 52);
		a->back_ns[k] = take_time(in, take_below(in, 8) ? 16 : 52);
		a->phase_ns[k] = take_below(in, 8) ? -1 : (s64)take_time(in, 26);
	}
	return count;
}

/*
 * Recorded idle periods, mostly one after the other, else at any time. However
 * they are split, all of an interval is charged, and no choice among the states
 * that are allowed costs less than the oracle's.
 */
static void judge(struct input *in, struct rp_run *run,
		  const struct rp_intervals *intervals)
{
	u32 periods[ROWS], disabled[STAYS];
	u64 now_ns[STAYS], residency_ns[STAYS];
	u8 chosen[STAYS], index[STAYS], tick[STAYS], poll[STAYS];
	u8 ideal[STAYS], above[STAYS], below[STAYS];
	double cost_pj[STAYS], oracle_pj[ROWS], whole_pj[ROWS];
	struct rp_stays stays = {
		periods, now_ns, residency_ns, disabled, chosen, index, tick,
		poll,
	};
	struct rp_choices choices = {
		.cost_pj = whole_pj, .oracle_pj = oracle_pj,
	};
	struct rp_verdicts verdicts = { cost_pj, ideal, above, below };
	size_t i, k = 0;

	memset(cost_pj, 0, sizeof(cost_pj));
	for (i = 0; i < intervals->count; i++) {
		u64 at_ns = intervals->start_ns[i];
		size_t end;

		periods[i] = 1 + take_below(in, STAYS / ROWS);
		for (end = k + periods[i]; k < end; k++) {
			now_ns[k] = take_below(in, 16) ? at_ns :
				    take_wild(in) & (CIL_TIME_BELIEVED - 1);
			residency_ns[k] = take_time(in, 26);
			at_ns += residency_ns[k];
			disabled[k] = take_below(in, 4) ? 0 : take_u64(in);
			chosen[k] = take_below(in, run->machine.state_count);
			index[k] = take_below(in, run->machine.state_count);
			tick[k] = take_below(in, 3);
			poll[k] = !take_below(in, 8);
		}
	}
	rp_judge(run, intervals, &stays, &choices, &verdicts);
	for (i = k = 0; i < intervals->count; i++) {
		size_t end = k + periods[i];
		double sum_pj = 0;

		for (; k < end; k++)
			sum_pj += cost_pj[k];
		if (!intervals->disabled[i] &&
		    intervals->latency_req_ns[i] == S64_MAX)
			DEMAND(whole_pj[i] >= oracle_pj[i] * (1 - 1e-9));
		DEMAND(sum_pj <= whole_pj[i] * (1 + 1e-9));
		DEMAND(sum_pj >= whole_pj[i] * (1 - 1e-9));
	}
}

static void play(struct input *in, struct rp_run *run, u64 *now_ns)
{
	u64 start_ns[ROWS];
	struct answers a;
	u32 answers[ROWS];
	s64 length_ns[ROWS], timer_ns[ROWS], tick_phase_ns[ROWS];
	s64 latency_req_ns[ROWS];
	u32 disabled[ROWS], decisions[ROWS];
	u8 flags[ROWS], last_index[ROWS], index[ROWS], ideal[ROWS];
	u8 last[ROWS];
	double cost_pj[ROWS], oracle_pj[ROWS];
	struct rp_intervals intervals = {
		take_below(in, ROWS), start_ns, length_ns, timer_ns,
		tick_phase_ns, latency_req_ns, disabled, flags,
		last_index, answers, a.at_ns, a.timer_ns, a.served_ns, a.back_ns,
		a.phase_ns,
	};
	struct rp_choices choices = {
		.cost_pj = cost_pj, .oracle_pj = oracle_pj,
		.decisions = decisions, .index = index, .ideal = ideal,
		.last = last,
	};
	size_t answer = 0;
	size_t i;

	for (i = 0; i < intervals.count; i++) {
		bool jump = !i || !take_below(in, 64);

		*now_ns += jump ? take_wild(in) : take_time(in, 24);
		start_ns[i] = *now_ns &= CIL_TIME_BELIEVED - 1;
		length_ns[i] = take_length(in);
		timer_ns[i] = take_timer(in, length_ns[i]);
		answers[i] = take_answers(in, start_ns[i], length_ns[i], &a,
					  answer);
		answer += answers[i];
		tick_phase_ns[i] = take_below(in, 8) ? -1 : (s64)take_time(in, 26);
		latency_req_ns[i] = take_below(in, 2) ? S64_MAX : (s64)take_wild(in);
		disabled[i] = take_below(in, 4) ? 0 : take_u64(in);
		flags[i] = take_below(in, 2) ? 0 : take_u8(in);
		last_index[i] = take_u8(in);
	}
	if (!take_below(in, 4))
		judge(in, run, &intervals);
	rp_play(run, &intervals, take_below(in, 2) ? &choices : NULL);
	for (i = 0; i < intervals.count; i++)
		DEMAND(rp_length_class(length_ns[i]) < RP_LENGTH_CLASSES);
}

/* More bytes than the input has, so it only says which. */
static void take_noise(struct input *in, u8 *to, size_t size)
{
	u64 seed = take_u64(in) | 1;

	while (size--) {
		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		to[size] = seed >> 56;
	}
}

/*
 * A recorded state: what the policy itself has learned by then. With WILD, of
 * any content, as a trace that lies has it.
 */
static void take_state(struct input *in, const struct rp_run *run,
		       const struct cil_policy *policy, u8 *state)
{
	u32 tunables[CIL_TUNABLE_MAX];
	struct rp_run *twin;
	u64 now_ns = 0;

	if (WILD) {
		take_noise(in, state, policy->state_size);
		return;
	}
	take_tunables(in, policy, tunables);
	twin = rp_open(policy, &run->machine, &run->model, tunables);
	DEMAND(twin);
	play(in, twin, &now_ns);
	memcpy(state, twin->state, policy->state_size);
	rp_close(twin);
}

static void repeat(struct input *in, struct rp_run *run,
		   const struct cil_policy *policy, u64 *now)
{
	static u8 states[STATES * CIL_STATE_SIZE_MAX];
	u32 tunables[SETS * CIL_TUNABLE_MAX];
	u64 now_ns[ROWS], out_now_ns[ROWS], residency_ns[ROWS];
	s64 latency_req_ns[ROWS], sleep_length_ns[ROWS], delta_tick_ns[ROWS];
	s64 hint_ns[ROWS];
	u32 disabled[ROWS], set[ROWS], start[ROWS];
	u8 flags[ROWS], base_index[ROWS], out_kind[ROWS], out_index[ROWS];
	u8 tick[ROWS], poll[ROWS], left[ROWS];
	u8 index[ROWS], stop_tick[ROWS], reason[ROWS], row[ROWS], asked[ROWS];
	struct rp_points points = {
		take_below(in, ROWS), now_ns, latency_req_ns, sleep_length_ns,
		delta_tick_ns, disabled, flags, set, start, left, hint_ns, base_index,
		out_kind, out_now_ns, residency_ns, out_index, tick, poll,
	};
	struct rp_answers answers = { index, stop_tick, reason, row, asked };
	/* No kernel runs a policy with more, so no trace has its state. */
	u32 recorded = policy->state_size <= CIL_STATE_SIZE_MAX ? STATES : 0;
	size_t i;

	for (i = 0; i < SETS; i++)
		take_tunables(in, policy, &tunables[i * CIL_TUNABLE_MAX]);
	for (i = 0; i < recorded; i++)
		take_state(in, run, policy, states + i * policy->state_size);
	for (i = 0; i < points.count; i++) {
		*now += take_below(in, 64) ? take_time(in, 24) : take_wild(in);
		now_ns[i] = *now;
		latency_req_ns[i] = take_wild(in);
		sleep_length_ns[i] = take_wild(in);
		delta_tick_ns[i] = take_wild(in);
		disabled[i] = take_below(in, 4) ? 0 : take_u64(in);
		flags[i] = take_u8(in);
		set[i] = take_below(in, SETS);
		start[i] = take_below(in, 8) ? RP_GO_ON :
			   RP_AFRESH + take_below(in, 1 + recorded);
		if (!take_below(in, 64))
			start[i] = RP_UNKNOWABLE;
		hint_ns[i] = take_below(in, 2) ? -1 : (s64)take_wild(in);
		base_index[i] = take_u8(in);
		out_kind[i] = take_below(in, 8) ? CIL_OUTCOME_ENTERED : take_u8(in);
		out_now_ns[i] = *now + take_wild(in);
		residency_ns[i] = take_wild(in);
		out_index[i] = take_below(in, 16) ? take_below(in, 3) : take_u8(in);
		tick[i] = take_below(in, 3);
		poll[i] = !take_below(in, 8);
		left[i] = take_below(in, 2);
		index[i] = 0;
	}
	rp_repeat(run, &points, tunables, states, &answers);
	for (i = 0; i < points.count; i++)
		DEMAND(index[i] < CIL_STATE_MAX);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct input in = { data, size };
	const struct cil_policy *policy;
	struct cil_machine machine;
	struct rp_model model;
	struct rp_totals totals;
	struct rp_checks checks;
	u32 tunables[CIL_TUNABLE_MAX];
	struct rp_run *run;
	u64 now_ns;

	policy = rp_policy(take_below(&in, rp_policy_count()));
	take_machine(&in, &machine, &model);
	take_tunables(&in, policy, tunables);
	run = rp_open(policy, &machine, &model, tunables);
	DEMAND(run);
	now_ns = take_time(&in, 50);
	do {
		if (take_below(&in, 2))
			play(&in, run, &now_ns);
		else
			repeat(&in, run, policy, &now_ns);
	} while (in.size);
	rp_totals(run, &totals);
	rp_checks(run, &checks);
	DEMAND(totals.cost_pj >= 0 && totals.oracle_pj >= 0);
	rp_close(run);
	return 0;
}
