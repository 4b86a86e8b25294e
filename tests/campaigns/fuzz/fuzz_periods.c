// SPDX-License-Identifier: GPL-2.0
/* The builder of periods and intervals, fed with any events in any order. */
#include "input.h"
#include "../../../tools/native/periods.h"

/**
 * struct seen - what came out, for the checks
 * @decisions: decisions that were taken
 * @periods: periods that came out
 * @in_intervals: periods that are in intervals
 * @answers: answers since the last interval
 * @answer_at_ns: when the last of them was given
 * @seq: number of the last period
 * @first_seq: of the last interval
 * @next_ns: no interval begins before
 * @idle_next_ns: likewise, of those by power:cpu_idle
 * @states: states of the machine, 0 while unknown
 */
struct seen {
	u64 decisions;
	u64 periods;
	u64 in_intervals;
	u64 answers;
	u64 answer_at_ns;
	u64 seq;
	u64 first_seq;
	u64 next_ns;
	u64 idle_next_ns;
	u32 states;
};

static void see_period(void *context, const struct cil_period *d)
{
	struct seen *seen = context;

	DEMAND(!seen->periods || d->seq > seen->seq);
	DEMAND(d->lost || !seen->periods || d->seq == seen->seq + 1);
	DEMAND(!seen->states || d->index < seen->states);
	if (d->out_kind == CIL_OUTCOME_NONE)
		DEMAND(!d->residency_ns && !d->out_ts && !d->out_index);
	if (d->out_kind != CIL_OUTCOME_ENTERED)
		DEMAND(!d->by_tick && !d->overslept);
	if (d->out_kind == CIL_OUTCOME_NONE)
		DEMAND(!d->interval);
	DEMAND(d->interval <= d->seq);
	if (d->by_tick)
		DEMAND(d->delta_tick_ns < d->sleep_length_ns);
	seen->seq = d->seq;
	seen->periods++;
}

static void see_any(const struct cil_interval *in, u64 *next_ns)
{
	u64 end_ns = in->start_ns + in->length_ns;

	DEMAND(in->periods > 0);
	DEMAND(in->length_ns >= 0 && in->busy_ns >= 0);
	DEMAND(in->start_ns < CIL_TIME_BELIEVED && end_ns >= in->start_ns);
	DEMAND(in->flags & CIL_INTERVAL_GAP || in->start_ns >= *next_ns);
	*next_ns = in->start_ns;
}

/* A time to a timer, or to a tick that had to go on. */
static void see_timer(s64 timer_ns)
{
	DEMAND(timer_ns >= 0 || timer_ns <= CIL_TIMER_TICK);
}

static void see_answer(void *context, const struct cil_answer *answer)
{
	struct seen *seen = context;

	see_timer(answer->timer_ns);
	DEMAND(answer->served_ns >= 0 && answer->back_ns >= 0);
	seen->answer_at_ns = answer->at_ns;
	seen->answers++;
}

static void see_interval(void *context, const struct cil_interval *in)
{
	struct seen *seen = context;

	see_any(in, &seen->next_ns);
	DEMAND(seen->states);
	DEMAND(in->index < seen->states && in->last_index < seen->states);
	DEMAND(!seen->in_intervals || in->first_seq > seen->first_seq);
	DEMAND(in->tick_phase_ns >= -1);
	see_timer(in->timer_ns);
	DEMAND(!(in->flags & CIL_INTERVAL_UNKNOWN));
	/* Each decision but the first has one, and a timer after the last tick. */
	DEMAND(seen->answers + 1 == in->periods ||
	       (seen->answers == in->periods &&
		in->flags & CIL_INTERVAL_TIMER));
	seen->answers = 0;
	seen->first_seq = in->first_seq;
	seen->in_intervals += in->periods;
}

static void see_idle(void *context, const struct cil_interval *in)
{
	struct seen *seen = context;

	see_any(in, &seen->idle_next_ns);
	DEMAND(in->flags & CIL_INTERVAL_UNKNOWN);
	DEMAND(in->timer_ns == -1 && in->latency_req_ns == -1);
}

/* Mostly such as can be; else anything. */
static void take_machine(struct input *in, struct cil_period_machine *m)
{
	bool wild = !take_below(in, 16);
	u64 residency_ns = 0;
	u32 k;

	memset(m, 0, sizeof(*m));
	m->tick_ns = wild ? take_wild(in) : 4000000;
	m->states = wild ? take_u8(in) : 1 + take_below(in, 10);
	m->polling = take_u8(in);
	for (k = 0; k < m->states && k < CIL_STATE_MAX; k++) {
		residency_ns += take_time(in, 22);
		m->exit_latency_ns[k] = wild ? take_wild(in) : take_time(in, 22);
		m->target_residency_ns[k] = wild ? take_wild(in) : residency_ns;
		m->power_mw[k] = take_u8(in);
	}
}

static const char *feed_decision(struct input *in, struct cil_periods *p,
				 u64 *seq, u64 ts)
{
	bool wild = !take_below(in, 32);
	struct cil_period d;

	take_bytes(in, &d, sizeof(d));
	*seq += take_below(in, 8) ? 1 : take_u8(in);
	d.seq = wild ? take_wild(in) : *seq;
	d.ts = ts;
	d.now_ns = wild ? take_wild(in) : ts + take_u8(in);
	d.sleep_length_ns = take_wild(in);
	d.delta_tick_ns = take_wild(in);
	if (take_below(in, 2)) {
		/* The next tick, and often nothing else. */
		d.delta_tick_ns = (s64)(4000000 - d.now_ns % 4000000);
		if (take_below(in, 2))
			d.sleep_length_ns = d.delta_tick_ns;
	}
	d.left = take_below(in, 2);
	d.governor = !take_below(in, 16);
	d.index = wild ? d.index : d.index % (p->known ? p->machine.states : 3);
	return cil_periods_decision(p, &d);
}

static const char *feed_outcome(struct input *in, struct cil_periods *p,
				u64 seq, u64 ts)
{
	bool wild = !take_below(in, 32);
	struct cil_period_outcome o;

	take_bytes(in, &o, sizeof(o));
	o.seq = wild ? take_wild(in) : seq;
	o.ts = ts;
	o.residency_ns = take_below(in, 4) ? take_time(in, 24) : take_wild(in);
	o.kind = wild ? o.kind : !take_below(in, 8);
	o.index = wild ? o.index : o.index % (p->known ? p->machine.states : 3);
	o.tick %= 4;
	o.poll_time_limit = !take_below(in, 8);
	return cil_periods_outcome(p, &o);
}

static const char *feed(struct input *in, struct cil_periods *p,
			struct seen *seen, u64 *seq, u64 ts)
{
	struct cil_period_machine machine;
	const char *error;

	switch (take_below(in, 16)) {
	case 0:
		take_machine(in, &machine);
		error = cil_periods_config(p, &machine);
		seen->states = p->known ? p->machine.states : 0;
		return error;
	case 1:
		cil_periods_lost(p);
		return NULL;
	case 2:
	case 3:
		return cil_periods_idle(p, ts, take_below(in, 9) ?
					take_below(in, 10) : (u32)take_wild(in));
	case 4:
		return cil_periods_idle(p, ts, CIL_IDLE_EXIT);
	case 5:
		/* The same machine again is no change. */
		machine = p->machine;
		return p->known ? cil_periods_config(p, &machine) : NULL;
	case 6 ... 10:
		error = feed_decision(in, p, seq, ts);
		seen->decisions += !error;
		return error;
	default:
		return feed_outcome(in, p, *seq, ts);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct input in = { data, size };
	struct seen seen = { 0 };
	struct cil_period_sink sink = {
		see_period, see_answer, see_interval, see_idle, &seen,
	};
	struct cil_period_counts counts = { 0 };
	struct cil_periods p;
	const char *error = NULL;
	u64 seq = 0, ts = 0;

	cil_periods_begin(&p, take_u8(&in), &sink, &counts);
	while (in.size && !error) {
		ts += take_below(&in, 64) ? take_time(&in, 23) : take_time(&in, 63);
		error = feed(&in, &p, &seen, &seq, ts);
	}
	if (error) {
		DEMAND(strlen(error) > 10 && !strchr(error, '\n'));
		DEMAND(strlen(error) < sizeof(p.error) - 1);
		return 0;
	}
	cil_periods_end(&p);
	DEMAND(seen.periods == seen.decisions);
	DEMAND(counts.decisions == seen.decisions);
	DEMAND(seen.in_intervals + counts.without_outcome <= seen.decisions);
	return 0;
}
