// SPDX-License-Identifier: GPL-2.0
/*
 * Intervals one after the other: played, or charged as they were recorded. What
 * happens within one of them is in engine.c.
 */
#include <string.h>

#include "../stay.h"
#include "run.h"

/* Flags of intervals that cannot be played, and of those that have no regret. */
#define NOT_PLAYED		(CIL_INTERVAL_CUT | CIL_INTERVAL_UNKNOWN)
#define NOT_JUDGED		(NOT_PLAYED | CIL_INTERVAL_OVERSLEPT)

static void account(struct rp_run *run, const struct rp_interval *in,
		    s64 length_ns, const struct rp_choices *c, size_t i)
{
	struct rp_totals *t = &run->totals;
	double oracle_pj = rp_cost(&run->model, in->ideal, length_ns);
	u32 length_class = rp_length_class(length_ns);

	t->idle_ns += length_ns;
	t->cost_pj += in->cost_pj;
	t->oracle_pj += oracle_pj;
	t->length_count[length_class]++;
	t->length_pj[length_class] += in->cost_pj;
	t->length_oracle_pj[length_class] += oracle_pj;
	if (!c)
		return;
	if (c->cost_pj)
		c->cost_pj[i] = in->cost_pj;
	if (c->oracle_pj)
		c->oracle_pj[i] = oracle_pj;
	if (c->decisions)
		c->decisions[i] = in->decisions;
	if (c->index)
		c->index[i] = in->first.index;
	if (c->stop_tick)
		c->stop_tick[i] = in->first.stop_tick;
	if (c->reason)
		c->reason[i] = in->first.reason;
	if (c->ideal)
		c->ideal[i] = in->ideal;
	if (c->last)
		c->last[i] = in->last;
}

/* Has the interval a cost? A selection that was aborted has none. */
static bool is_judged(const struct rp_intervals *in, size_t i)
{
	return !(in->flags[i] & NOT_JUDGED) && in->length_ns[i] > 0;
}

/* Nothing can be said of the interval. */
static void leave_out(const struct rp_choices *c, size_t i)
{
	if (!c)
		return;
	if (c->cost_pj)
		c->cost_pj[i] = 0;
	if (c->oracle_pj)
		c->oracle_pj[i] = 0;
	if (c->decisions)
		c->decisions[i] = 0;
	if (c->index)
		c->index[i] = 0;
	if (c->stop_tick)
		c->stop_tick[i] = 0;
	if (c->reason)
		c->reason[i] = 0;
	if (c->ideal)
		c->ideal[i] = 0;
	if (c->last)
		c->last[i] = 0;
}

/* Interval @i, whose answers begin at @answer. */
static struct rp_interval interval_of(const struct rp_run *run,
				      const struct rp_intervals *in, size_t i,
				      size_t answer)
{
	const struct cil_machine *m = &run->machine;
	s64 told_ns = in->timer_ns[i];
	u8 last = in->last_index[i];

	return (struct rp_interval) {
		.now_ns = in->start_ns[i],
		.charged_ns = in->start_ns[i],
		.end_ns = in->start_ns[i] + in->length_ns[i],
		.timer_ns = rp_due(in->start_ns[i], told_ns),
		.tick_ns = told_ns <= CIL_TIMER_TICK ?
			   in->start_ns[i] + (u64)(CIL_TIMER_TICK - told_ns) : 0,
		.overdue = !told_ns,
		.answers = in->answers[i],
		.at_ns = in->answer_at_ns + answer,
		.told_ns = in->answer_timer_ns + answer,
		.served_ns = in->answer_served_ns + answer,
		.back_ns = in->answer_back_ns + answer,
		.phase_ns = in->answer_phase_ns + answer,
		.by_timer = in->flags[i] & CIL_INTERVAL_TIMER,
		.latency_req_ns = in->latency_req_ns[i],
		.disabled = in->disabled[i],
		.ticked = in->flags[i] & CIL_INTERVAL_TICKED,
		.polled = last < m->state_count && m->states[last].polling,
	};
}

/* An interval that can be played. */
static void play_one(struct rp_run *run, const struct rp_intervals *in,
		     const struct rp_choices *c, size_t i, size_t answer)
{
	struct rp_interval interval = interval_of(run, in, i, answer);

	rp_tell_event(run, &interval, in->start_ns[i], in->tick_phase_ns[i]);
	run->left = !(in->flags[i] & CIL_INTERVAL_CONTINUED);
	if (!(in->flags[i] & CIL_INTERVAL_CONTINUED))
		run->tick_stopped = false;
	else if (in->flags[i] & CIL_INTERVAL_GAP)	/* no decision here has stopped it */
		run->tick_stopped = true;
	if (run->poll_disabled != interval.disabled)
		rp_set_poll_limit(run, interval.disabled);

	if (!in->length_ns[i]) {
		rp_abort(run, &interval);
		return;
	}
	run->totals.intervals++;
	while (!rp_stay(run, &interval))
		;
	account(run, &interval, in->length_ns[i], c, i);
}

/* The policy meets it, and learns from it, but it does not count. */
static void play_aside(struct rp_run *run, const struct rp_intervals *in,
		       size_t i, size_t answer)
{
	const struct rp_totals before = run->totals;

	play_one(run, in, NULL, i, answer);
	run->totals = before;
}

static void play_any(struct rp_run *run, const struct rp_intervals *in,
		     const struct rp_choices *c, size_t i, size_t answer)
{
	bool played = !(in->flags[i] & NOT_PLAYED) && in->length_ns[i] >= 0;

	if (is_judged(in, i)) {
		play_one(run, in, c, i, answer);
		return;
	}
	if (played)
		play_aside(run, in, i, answer);
	run->totals.skipped += in->length_ns[i] != 0;
	leave_out(c, i);
}

/**
 * rp_play() - counterfactual replay of some intervals
 * @run: the run
 * @intervals: the next intervals of its CPU
 * @choices: where to put what was decided in each, or NULL
 */
void rp_play(struct rp_run *run, const struct rp_intervals *intervals,
	     const struct rp_choices *choices)
{
	size_t answer = 0;
	size_t i;

	rp_now.model = &run->model;
	for (i = 0; i < intervals->count; i++) {
		play_any(run, intervals, choices, i, answer);
		answer += intervals->answers[i];
	}
}

/* A recorded idle period: where it ended, what it came to. */
static void judge_stay(struct rp_run *run, struct rp_interval *in,
		       const struct rp_stays *s, const struct rp_verdicts *v,
		       size_t k, bool last)
{
	const struct cil_machine *m = &run->machine;
	struct rp_totals *t = &run->totals;
	u64 above = t->above, below = t->below;
	double cost_pj = in->cost_pj;
	u32 index = s->index[k];
	u32 best;

	best = rp_best(m, &run->model, in->latency_req_ns, in->disabled,
		       in->end_ns - in->charged_ns);
	if (!in->decisions++) {
		in->first.index = s->chosen[k];
		in->ideal = best;
	}
	t->decisions++;
	t->heat[s->chosen[k]][best]++;
	t->ticks += s->tick[k] == 1 && !last && !m->states[index].polling;
	t->polls += s->poll_time_limit[k];
	rp_judge_misses(run, s->disabled[k], index,
			cil_stay_ns(s->residency_ns[k],
				    m->states[index].exit_latency_ns),
			s->residency_ns[k]);
	in->now_ns = last ? in->end_ns : s->now_ns[k + 1];
	rp_charge(run, in, index);
	in->last = index;
	v->cost_pj[k] = in->cost_pj - cost_pj;
	v->ideal[k] = best;
	v->above[k] = t->above > above;
	v->below[k] = t->below > below;
}

/**
 * rp_judge() - charge recorded idle periods as played ones are charged
 * @run: the run; its policy is not asked
 * @intervals: the intervals of a CPU
 * @stays: the idle periods in them
 * @choices: where to put what each interval came to
 * @verdicts: where to put what each idle period came to; zero
 */
void rp_judge(struct rp_run *run, const struct rp_intervals *intervals,
	      const struct rp_stays *stays, const struct rp_choices *choices,
	      const struct rp_verdicts *verdicts)
{
	size_t k = 0;
	size_t i;

	for (i = 0; i < intervals->count; i++) {
		struct rp_interval in = interval_of(run, intervals, i, 0);
		size_t end = k + stays->periods[i];

		if (!is_judged(intervals, i)) {
			run->totals.skipped += intervals->length_ns[i] != 0;
			leave_out(choices, i);
			k = end;
			continue;
		}
		for (; k < end; k++)
			judge_stay(run, &in, stays, verdicts, k, k + 1 == end);
		run->totals.intervals++;
		run->totals.wakeups[in.last]++;
		account(run, &in, intervals->length_ns[i], choices, i);
	}
}

/**
 * rp_forget_totals() - count from here on
 * @run: the run
 */
void rp_forget_totals(struct rp_run *run)
{
	memset(&run->totals, 0, sizeof(run->totals));
}

/**
 * rp_totals() - what a run came to so far
 * @run: the run
 * @totals: filled
 */
void rp_totals(const struct rp_run *run, struct rp_totals *totals)
{
	*totals = run->totals;
}

/**
 * rp_breaches() - answers that no governor may give, since the run was opened
 * @run: the run
 * @breaches: filled
 */
void rp_breaches(const struct rp_run *run, struct rp_breaches *breaches)
{
	*breaches = run->breaches;
}
