// SPDX-License-Identifier: GPL-2.0
/* From an unmodified kernel's events to decisions; see stock.h. */
#include <string.h>

#include "stay.h"
#include "stock.h"

/* The kernel's measurement and the events' differ by no more. */
#define RESIDENCY_OFF_NS	20000

/* The kind of event that the end of an idle state is, see cil_stock_seen(). */
#define KIND_LEFT_STATE	0

/* As power:cpu_idle numbers no state; an aborted selection's is not known. */
#define NO_STATE	0

/**
 * cil_stock_begin() - nothing is known of a CPU yet
 * @s: filled
 * @sink: where decisions and outcomes go
 * @counts: added to
 * @machine: the CPU's idle states
 */
void cil_stock_begin(struct cil_stock *s, const struct cil_stock_sink *sink,
		     struct cil_stock_counts *counts,
		     const struct cil_period_machine *machine)
{
	memset(s, 0, sizeof(*s));
	s->sink = *sink;
	s->counts = counts;
	s->machine = *machine;
	s->latency_req_ns = INT64_MAX;
	s->grid.phase_ns = -1;
	s->left = true;
}

/* ---- Timers that the governor did not ask for. ---- */

/* When was the CPU woken, as far as the events tell? */
static u64 woken_ns(const struct cil_stock *s, const struct cil_stock_entry *e)
{
	u64 residency_ns = e->outcome.residency_ns;
	s64 exit_ns = s->machine.exit_latency_ns[e->outcome.index];

	return e->outcome.ts - residency_ns + cil_stay_ns(residency_ns, exit_ns);
}

/*
 * Where the timers are not recorded: the first that expired on the idle CPU had
 * been armed before, since an idle CPU arms none. Else that which was known
 * before holds as long as it has not passed, and else that which is told next,
 * at @next_ns.
 */
static u64 infer_due(const struct cil_stock *s, const struct cil_stock_entry *e,
		     u64 next_ns)
{
	u64 end_ns = e->ended ? woken_ns(s, e) : e->decision.ts;

	if (e->expiry_ns)
		return e->ended && end_ns < e->expiry_ns ? end_ns : e->expiry_ns;
	if (e->before_ns > end_ns)
		return e->before_ns;
	return next_ns;
}

static s64 time_to_tick(const struct cil_stock *s,
			const struct cil_stock_entry *e)
{
	const struct cil_period *d = &e->decision;
	s64 tick_ns = s->machine.tick_ns;
	s64 delta_ns;

	if (d->flags & CIL_DECISION_TICK_STOPPED || s->grid.phase_ns < 0)
		return d->sleep_length_ns;
	delta_ns = (s->grid.phase_ns + tick_ns - (s64)(d->ts % (u64)tick_ns)) %
		   tick_ns;
	if (d->sleep_length_ns <= delta_ns + CIL_GRID_TOLERANCE_NS)
		return d->sleep_length_ns;
	return delta_ns;
}

/* As the kernel tells it: what is not armed is due at the end of time. */
static s64 time_until(u64 due_ns, u64 now_ns)
{
	if (due_ns == CIL_NEVER)
		due_ns = INT64_MAX;
	return due_ns > now_ns ? (s64)(due_ns - now_ns) : 0;
}

/* The kernel's answer, as the timers tell it. */
static void tell_timers(struct cil_stock *s, struct cil_stock_entry *e)
{
	bool stopped = e->decision.flags & CIL_DECISION_TICK_STOPPED;
	u64 any_ns;

	if (!s->has_all || cil_timers_full(&s->all))
		return;
	cil_timers_forget(&s->all, e->idle_ns);
	cil_timers_answer(&s->all, e->idle_ns, stopped, s->stopped,
			  &e->next_ns, &any_ns);
	/* Stopping the tick programs the device again. */
	if (!e->is_told)
		e->any_ns = any_ns;
	e->is_told = true;
	e->may_hold = !s->stopped && e->next_ns != e->any_ns;
}

static void fill_timer(struct cil_stock *s, struct cil_stock_entry *e,
		       u64 next_ns)
{
	struct cil_period *d = &e->decision;
	u64 due_ns;

	if (d->flags & CIL_DECISION_ASKED) {
		s->counts->asked++;
		if (!e->has_delta && e->is_told)
			d->delta_tick_ns = time_until(e->any_ns, e->idle_ns);
		else if (!e->has_delta)
			d->delta_tick_ns = time_to_tick(s, e);
		return;
	}
	if (e->is_told) {
		s->counts->inferred++;
		d->flags |= CIL_DECISION_INFERRED;
		d->sleep_length_ns = time_until(e->next_ns, e->idle_ns);
		d->delta_tick_ns = time_until(e->any_ns, e->idle_ns);
		return;
	}
	due_ns = infer_due(s, e, next_ns);
	if (due_ns) {
		s->counts->inferred++;
		d->flags |= CIL_DECISION_INFERRED;
		d->sleep_length_ns = time_until(due_ns, d->ts);
	} else {
		s->counts->untold++;
		d->flags |= CIL_DECISION_UNTOLD;
		d->sleep_length_ns = time_until(CIL_NEVER, d->ts);
	}
	d->delta_tick_ns = time_to_tick(s, e);
}

/* ---- Decisions, in their order. ---- */

static const char *give(struct cil_stock *s, struct cil_stock_entry *e,
			u64 next_ns)
{
	const char *error;

	fill_timer(s, e, next_ns);
	error = s->sink.decision(s->sink.context, &e->decision);
	/* Of the last one before a loss or the end there is none. */
	if (error || (e->entered && !e->ended))
		return error;
	return s->sink.outcome(s->sink.context, &e->outcome);
}

/* The first decisions that wait get the timer due at @next_ns, 0: unknown. */
static const char *give_first(struct cil_stock *s, u32 count, u64 next_ns)
{
	const char *error = NULL;
	u32 i;

	for (i = 0; i < count && !error; i++)
		error = give(s, &s->queue[i], next_ns);
	s->waiting -= count;
	memmove(s->queue, s->queue + count, s->waiting * sizeof(*s->queue));
	return error;
}

static const char *give_waiting(struct cil_stock *s, u64 next_ns)
{
	return give_first(s, s->waiting, next_ns);
}

/*
 * The newest decision is complete. It goes on at once if its timer is known,
 * else it waits for the next answer.
 */
static const char *close_open(struct cil_stock *s, u64 now_ns)
{
	struct cil_stock_entry *e = &s->open;
	const struct cil_period *d = &e->decision;

	if (!s->has_open)
		return NULL;
	s->has_open = false;
	e->left = s->left;
	if (!e->has_fate)
		s->counts->fateless++;
	if (!e->entered) {
		e->outcome.kind = CIL_OUTCOME_ABORTED;
		e->outcome.ts = now_ns;
	} else if (e->ended && !e->told_limit &&
		   s->machine.polling >> d->index & 1) {
		/* A poll ends with work, for which the loop is left, or so. */
		e->outcome.poll_time_limit = !s->left && !e->outcome.tick;
	}
	e->outcome.now_ns = now_ns;
	e->outcome.seq = d->seq;
	e->outcome.governor = d->governor;
	if ((d->flags & CIL_DECISION_ASKED || (e->is_told && !e->may_hold)) &&
	    !s->waiting)
		return give(s, e, 0);
	s->queue[s->waiting++] = *e;
	return s->waiting == CIL_STOCK_QUEUE ? give_waiting(s, 0) : NULL;
}

static const char *open_decision(struct cil_stock *s, u64 ts)
{
	struct cil_stock_entry *e = &s->open;
	struct cil_period *d = &e->decision;
	const char *error = close_open(s, ts);

	memset(e, 0, sizeof(*e));
	d->ts = ts;
	d->now_ns = ts;
	d->seq = ++s->seq;
	d->latency_req_ns = s->latency_req_ns;
	d->hint_ns = -1;
	d->disabled = s->disabled;
	d->governor = s->governor;
	d->row = CIL_ROW_NONE;
	d->base_index = CIL_STATE_NONE;
	d->index = NO_STATE;
	d->left = s->left;
	if (s->stopped)
		d->flags |= CIL_DECISION_TICK_STOPPED;
	e->before_ns = s->due_ns > ts ? s->due_ns : 0;
	e->idle_ns = s->idle_ns && s->idle_ns < ts ? s->idle_ns : ts;
	e->seen_ns = s->seen_ns;
	e->seen_kind = s->seen_kind;
	tell_timers(s, e);
	s->left = false;
	s->has_open = true;
	return error;
}

/* Does an event belong to the newest decision, or begin another? */
static bool is_deciding(const struct cil_stock *s)
{
	return s->has_open && !s->open.entered && !s->left;
}

static u64 apart(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

/*
 * Most answers show the same lag, to the ns in the lab. Some are longer by an
 * interrupt or shorter by a branch. So another lag takes over by a majority.
 */
static void learn_lag(struct cil_stock *s, u32 kind, u64 lag_ns)
{
	if (s->lag_ns[kind] == lag_ns) {
		s->lag_votes[kind]++;
	} else if (s->lag_votes[kind]) {
		s->lag_votes[kind]--;
	} else {
		s->lag_ns[kind] = lag_ns;
		s->lag_votes[kind] = 1;
	}
}

/*
 * An answer tells the present where the timer is known that it means, which may
 * be the tick: the kernel read the clock between the last event and the answer.
 */
static void learn_present(struct cil_stock *s, struct cil_stock_entry *e,
			  u64 ts)
{
	u64 sleep_ns = e->decision.sleep_length_ns;
	u64 delta_ns = e->decision.delta_tick_ns;
	u64 now_ns[] = {
		e->any_ns - (e->has_delta ? delta_ns : sleep_ns),
		e->has_delta ? 0 : e->next_ns - sleep_ns,
	};
	u64 best_ns = 0;
	size_t i;

	for (i = 0; i < 2; i++) {
		if (now_ns[i] > e->seen_ns && now_ns[i] < ts &&
		    apart(now_ns[i], e->idle_ns) < apart(best_ns, e->idle_ns))
			best_ns = now_ns[i];
	}
	if (!best_ns || !e->seen_ns || !e->is_told)
		return;
	e->idle_ns = best_ns;
	learn_lag(s, e->seen_kind, best_ns - e->seen_ns);
}

/**
 * cil_stock_asked() - the governor asked for the next timer
 * @s: the CPU
 * @ts: when it was answered
 * @sleep_length_ns: time to the next timer event, the tick left out
 * @delta_tick_ns: time to the next timer event, the tick included
 * @has_delta: @delta_tick_ns was recorded
 *
 * Return: NULL, or what is wrong with it.
 */
const char *cil_stock_asked(struct cil_stock *s, u64 ts, s64 sleep_length_ns,
			    s64 delta_tick_ns, bool has_delta)
{
	struct cil_period *d = &s->open.decision;
	const char *error = NULL;

	if (!is_deciding(s) || s->open.has_fate)
		error = open_decision(s, ts);
	else if (d->flags & CIL_DECISION_ASKED)
		return NULL;
	d->flags |= CIL_DECISION_ASKED;
	d->sleep_length_ns = sleep_length_ns;
	d->delta_tick_ns = delta_tick_ns;
	s->open.has_delta = has_delta;
	if (sleep_length_ns > 0)
		learn_present(s, &s->open, ts);
	s->due_ns = 0;
	if (sleep_length_ns >= 0 && sleep_length_ns < (s64)CIL_LENGTH_BELIEVED)
		s->due_ns = s->open.idle_ns + sleep_length_ns;
	if (has_delta && delta_tick_ns >= 0 && delta_tick_ns < sleep_length_ns &&
	    !s->stopped)
		cil_grid_note(&s->grid, s->open.idle_ns + (u64)delta_tick_ns,
			      s->machine.tick_ns);
	if (!error && s->waiting)
		error = give_waiting(s, s->due_ns);
	return error;
}

/**
 * cil_stock_fate() - the idle loop stops the tick, or keeps it
 * @s: the CPU
 * @ts: when
 * @stop: it may be stopped, or is
 *
 * Return: NULL, or what is wrong with it.
 */
const char *cil_stock_fate(struct cil_stock *s, u64 ts, bool stop)
{
	const char *error = NULL;

	if (!is_deciding(s) || s->open.has_fate)
		error = open_decision(s, ts);
	s->open.has_fate = true;
	s->open.decision.stop_tick = stop;
	if (!stop) {
		/* A tick that is kept is running. */
		s->stopped = false;
		s->open.decision.flags &= ~CIL_DECISION_TICK_STOPPED;
	}
	return error;
}

static void leave_state(struct cil_stock *s, u64 ts)
{
	struct cil_stock_entry *e = &s->open;
	u64 entered_ns = e->outcome.ts;

	if (!s->has_open || !e->entered || e->ended)
		return;
	e->ended = true;
	e->outcome.residency_ns = ts - entered_ns;
	/* The kernel's own measurement begins after the event was recorded. */
	if (e->outcome.residency_ns > s->event_ns)
		e->outcome.residency_ns -= s->event_ns;
	e->outcome.ts = ts;
	/* An interrupt ended it, but for a poll. */
	if (s->idle_ns <= entered_ns &&
	    !(s->machine.polling >> e->outcome.index & 1))
		cil_stock_seen(s, ts, KIND_LEFT_STATE);
}

/**
 * cil_stock_idle() - a power:cpu_idle event
 * @s: the CPU
 * @ts: when
 * @state: state that is entered, or CIL_IDLE_EXIT
 *
 * Return: NULL, or what is wrong with it.
 */
const char *cil_stock_idle(struct cil_stock *s, u64 ts, u32 state)
{
	struct cil_stock_entry *e = &s->open;
	const char *error = NULL;

	if (state == CIL_IDLE_EXIT) {
		leave_state(s, ts);
		return NULL;
	}
	if (state >= s->machine.states)
		return "has a power:cpu_idle event of an idle state that the machine does not have; give another --machine";
	/*
	 * With probes, an entry without a selection is no governor's: the idle
	 * loop polls by itself, for which it starts the tick again.
	 */
	if (!is_deciding(s)) {
		if (s->has_probes) {
			error = close_open(s, ts);
			cil_stock_left(s);
			return error;
		}
		error = open_decision(s, ts);
	}
	tell_timers(s, e);
	e->entered = true;
	e->decision.index = state;
	e->outcome.index = state;
	e->outcome.kind = CIL_OUTCOME_ENTERED;
	e->outcome.ts = ts;
	return error;
}

/**
 * cil_stock_tick() - the tick came
 * @s: the CPU
 * @ts: when
 */
void cil_stock_tick(struct cil_stock *s, u64 ts)
{
	s64 phase_ns = ts % (u64)s->machine.tick_ns;
	s64 late_ns;

	if (s->has_open && s->open.entered && !s->left && !s->open.told_tick)
		s->open.outcome.tick = CIL_TICK_YES;
	s->ticked = true;
	/* Without the kernel's word the least delay is nearest to the grid. */
	late_ns = phase_ns - s->grid.phase_ns;
	if (s->grid.phase_ns < 0 ||
	    (late_ns < 0 && late_ns > -CIL_GRID_TOLERANCE_NS && !s->open.has_delta))
		s->grid.phase_ns = phase_ns;
}

/**
 * cil_stock_got_tick() - the governor asked whether the tick had come
 * @s: the CPU
 * @came: the kernel's answer, which knows of a tick that came too late for the
 *	period before
 */
void cil_stock_got_tick(struct cil_stock *s, bool came)
{
	if (!s->has_open || !s->open.entered || s->open.told_tick)
		return;
	s->open.told_tick = true;
	s->open.outcome.tick = came ? CIL_TICK_YES : CIL_TICK_NO;
}

/**
 * cil_stock_reflect() - the kernel told its own measurement of an idle period
 * @s: the CPU
 * @residency_ns: how long it lasted
 * @limited: the polling state gave up
 */
void cil_stock_reflect(struct cil_stock *s, u64 residency_ns, bool limited)
{
	struct cil_stock_entry *e = &s->open;
	u64 by_events_ns = e->outcome.residency_ns;

	if (!s->has_open || !e->ended || e->told_limit || s->left ||
	    residency_ns > by_events_ns + RESIDENCY_OFF_NS ||
	    by_events_ns > residency_ns + RESIDENCY_OFF_NS)
		return;
	e->outcome.residency_ns = residency_ns;
	if (!(s->machine.polling >> e->decision.index & 1))
		limited = false;
	e->outcome.poll_time_limit = limited;
	e->told_limit = true;
}

/**
 * cil_stock_expiry() - a timer other than the tick expired
 * @s: the CPU
 * @ts: when
 */
void cil_stock_expiry(struct cil_stock *s, u64 ts)
{
	u32 i = s->waiting;

	if (s->left)
		return;
	if (s->has_open && s->open.entered && !s->open.expiry_ns)
		s->open.expiry_ns = ts;
	/* Those before it, as long as the loop was not left, knew of it, too. */
	while (i-- && !s->queue[i].left && !s->queue[i].expiry_ns)
		s->queue[i].expiry_ns = ts;
}

/**
 * cil_stock_tick_stop() - the tick was stopped
 * @s: the CPU
 * @ts: when
 *
 * Return: NULL, or what is wrong with the decision before.
 */
const char *cil_stock_tick_stop(struct cil_stock *s, u64 ts)
{
	const char *error = NULL;

	if (!s->has_probes && !is_deciding(s))
		error = open_decision(s, ts);
	s->stopped = true;
	if (!error && s->has_all)
		error = give_waiting(s, 0);
	if (s->has_probes)
		return error;
	s->open.has_fate = true;
	s->open.decision.stop_tick = true;
	return error;
}

/**
 * cil_stock_seen() - an event after which the kernel may read the clock
 * @s: the CPU
 * @ts: when
 * @kind: kind of event, below CIL_STOCK_KINDS, not KIND_LEFT_STATE
 *
 * The kernel's present is the time when the CPU went idle, or was last
 * interrupted. The last event before that is nearest to it.
 */
void cil_stock_seen(struct cil_stock *s, u64 ts, u32 kind)
{
	u64 lag_ns = s->lag_ns[kind];

	if (is_deciding(s))
		return;
	s->idle_ns = ts + (lag_ns ? lag_ns : s->event_ns);
	s->seen_ns = ts;
	s->seen_kind = kind;
}

/**
 * cil_stock_softirq_rcu() - work for RCU is raised
 * @s: the CPU
 */
void cil_stock_softirq_rcu(struct cil_stock *s)
{
	s->holds = s->ticked;
}

/* The tick had to go on: that is what the kernel answered. */
static void hold_tick(struct cil_stock_entry *e)
{
	if (e->may_hold)
		e->next_ns = e->any_ns;
	e->may_hold = false;
}

/**
 * cil_stock_tick_told() - all is told of a tick that came
 * @s: the CPU
 *
 * If it had work for RCU, RCU kept it running since the tick before. Where there
 * are other CPUs, RCU may wait for them over some ticks. An idle CPU hands it
 * nothing new, so RCU kept the tick since the idle loop was entered. Decisions of
 * that stay therefore wait for one more tick.
 *
 * Return: NULL, or what is wrong with a decision.
 */
const char *cil_stock_tick_told(struct cil_stock *s)
{
	bool holds = s->holds;
	u32 i, settled = s->waiting;

	if (!s->ticked)
		return NULL;
	s->ticked = false;
	s->holds = false;
	if (!s->has_all)
		return NULL;
	if (holds) {
		for (i = 0; i < s->waiting; i++)
			hold_tick(&s->queue[i]);
		hold_tick(&s->open);
	} else if (s->has_others && !s->left) {
		while (settled && !s->queue[settled - 1].left)
			settled--;
	} else {
		s->open.may_hold = false;
	}
	return give_first(s, settled, 0);
}

/**
 * cil_stock_left() - the idle task gave way to another
 * @s: the CPU
 */
void cil_stock_left(struct cil_stock *s)
{
	s->left = true;
	s->stopped = false;
}

/**
 * cil_stock_exit() - the idle loop was left, if only to begin again
 * @s: the CPU
 */
void cil_stock_exit(struct cil_stock *s)
{
	s->stopped = false;
}

/**
 * cil_stock_lost() - the kernel says that events are missing here
 * @s: the CPU
 *
 * The number of the next decision jumps, so that no interval spans the loss.
 */
void cil_stock_lost(struct cil_stock *s)
{
	close_open(s, s->open.decision.ts);
	give_waiting(s, 0);
	s->seq++;
	s->left = true;
	s->away = false;
	s->stopped = false;
	s->due_ns = 0;
}

/**
 * cil_stock_end() - there are no more events of the CPU
 * @s: the CPU
 *
 * Return: NULL, or what is wrong with the last decisions.
 */
const char *cil_stock_end(struct cil_stock *s)
{
	const char *error = close_open(s, s->open.decision.ts);

	return error ? error : give_waiting(s, 0);
}
