// SPDX-License-Identifier: GPL-2.0
/* From events to idle periods and exogenous intervals; see periods.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "periods.h"

/*
 * A timer or a tick came, or did not, by so much: the way into the state, and
 * back to where the outcome is noted.
 */
#define TOLERANCE_NS		20000

#define NO_SUCH_STATE	"names idle state %u, which its machine does not have"

/* The clocks of a residency and of the events may differ by 1 % and this. */
#define CLOCK_TOLERANCE_NS	1000000

static const char *refuse(struct cil_periods *p, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static const char *refuse(struct cil_periods *p, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(p->error, sizeof(p->error), format, args);
	va_end(args);
	return p->error;
}

/**
 * cil_periods_begin() - nothing is known of a CPU yet
 * @p: filled
 * @cpu: number of the CPU
 * @sink: where the rows go
 * @counts: added to
 */
void cil_periods_begin(struct cil_periods *p, u32 cpu,
		       const struct cil_period_sink *sink,
		       struct cil_period_counts *counts)
{
	memset(p, 0, sizeof(*p));
	p->sink = *sink;
	p->counts = counts;
	p->cpu = cpu;
	p->gap = true;
	p->idle_gap = true;
	p->tick_phase_ns = -1;
}

static const char *check_index(struct cil_periods *p, const char *what,
			       u64 seq, u8 index)
{
	if (index > p->deepest)
		p->deepest = index;
	if (!p->known || index < p->machine.states)
		return NULL;
	return refuse(p, "%s %llu of CPU %u " NO_SUCH_STATE,
		      what, (unsigned long long)seq, p->cpu, index);
}

/* ---- Intervals. ---- */

/*
 * Did the tick end the period? A tick beside a timer that was due did not.
 * Where a kernel governor hides it, it follows: the tick was kept, and the
 * period lasted until it was due.
 */
static bool ended_by_tick(const struct cil_period *d)
{
	if (d->delta_tick_ns >= d->sleep_length_ns)
		return false;
	if (d->tick != CIL_TICK_HIDDEN)
		return d->tick == CIL_TICK_WAKEUP;
	return !d->stop_tick && !(d->flags & CIL_FLAG_TICK_STOPPED) &&
	       (s64)d->residency_ns + TOLERANCE_NS >= d->delta_tick_ns;
}

/* The interval is over. What follows it begins at @next_ns, 0 if unknown. */
static void release_interval(struct cil_periods *p, u64 next_ns)
{
	struct cil_interval *in = &p->interval;

	if (!p->has_interval)
		return;
	if (next_ns > p->end_ns)
		in->busy_ns = next_ns - p->end_ns;
	p->sink.interval(p->sink.context, in);
	p->has_interval = false;
	p->goes_on = false;
}

/* It is not known what follows the interval. */
static void cut_interval(struct cil_periods *p)
{
	if (p->has_interval && p->goes_on)
		p->interval.flags |= CIL_INTERVAL_CUT;
	release_interval(p, 0);
	p->gap = true;
}

static void begin_interval(struct cil_periods *p, const struct cil_period *d)
{
	struct cil_interval *in = &p->interval;

	memset(in, 0, sizeof(*in));
	in->ts = d->ts;
	in->first_seq = d->seq;
	in->start_ns = d->now_ns;
	/* A timer that is overdue is due at once. */
	in->timer_ns = d->sleep_length_ns < 0 ? 0 : d->sleep_length_ns;
	in->tick_phase_ns = p->tick_phase_ns;
	in->latency_req_ns = d->latency_req_ns;
	in->hint_ns = d->hint_ns;
	in->disabled = d->disabled;
	in->index = d->index;
	in->governor = d->governor;
	if (d->flags & CIL_FLAG_TICK_STOPPED)
		in->flags |= CIL_INTERVAL_CONTINUED;
	if (p->gap || d->lost)
		in->flags |= CIL_INTERVAL_GAP;
	p->gap = false;
	p->has_interval = true;
}

/* The interval lasts until its newest period ended, less the way out of it. */
static void extend_interval(struct cil_periods *p, const struct cil_period *d)
{
	struct cil_interval *in = &p->interval;
	s64 exit_ns = p->machine.exit_latency_ns[d->out_index];
	s64 length_ns;

	p->end_ns = d->now_ns + d->residency_ns;
	length_ns = p->end_ns - in->start_ns;
	length_ns = length_ns > exit_ns ? length_ns - exit_ns : 1;
	in->length_ns = length_ns;
	in->periods++;
	in->last_index = d->out_index;
	in->flags &= ~(CIL_INTERVAL_TIMER | CIL_INTERVAL_UNCERTAIN |
		       CIL_INTERVAL_TICKED);
	if (in->timer_ns != S64_MAX && length_ns >= in->timer_ns - TOLERANCE_NS)
		in->flags |= CIL_INTERVAL_TIMER;
	if ((s64)d->residency_ns - exit_ns < exit_ns)
		in->flags |= CIL_INTERVAL_UNCERTAIN;
	p->goes_on = (ended_by_tick(d) || d->poll_time_limit) &&
		     length_ns < (s64)CIL_LENGTH_BELIEVED;
	if (!p->goes_on && d->tick == CIL_TICK_WAKEUP)
		in->flags |= CIL_INTERVAL_TICKED;
	p->due_ns = U64_MAX;
	if (d->sleep_length_ns < (s64)CIL_LENGTH_BELIEVED)
		p->due_ns = d->now_ns +
			    (d->sleep_length_ns > 0 ? d->sleep_length_ns : 0);
}

/*
 * The tick had woken the CPU, and before it could go idle again the next timer
 * was due: that timer ended the interval.
 */
static void end_by_timer(struct cil_periods *p)
{
	struct cil_interval *in = &p->interval;

	p->goes_on = false;
	in->flags |= CIL_INTERVAL_TIMER;
	if (in->length_ns < (s64)(p->due_ns - in->start_ns))
		in->length_ns = p->due_ns - in->start_ns;
	if (p->end_ns < p->due_ns)
		p->end_ns = p->due_ns;
}

static bool is_plausible(const struct cil_period *d)
{
	u64 span_ns = d->out_ts - d->ts;

	return d->out_ts >= d->ts && d->residency_ns < CIL_LENGTH_BELIEVED &&
	       span_ns < CIL_LENGTH_BELIEVED &&
	       d->residency_ns <= span_ns + span_ns / 100 + CLOCK_TOLERANCE_NS;
}

static void note_tick_phase(struct cil_periods *p, const struct cil_period *d)
{
	if (d->flags & CIL_FLAG_TICK_STOPPED ||
	    d->delta_tick_ns >= d->sleep_length_ns || d->delta_tick_ns < 0)
		return;
	p->tick_phase_ns = (d->now_ns + (u64)d->delta_tick_ns) %
			   (u64)p->machine.tick_ns;
}

/* The last decision is complete. */
static void settle(struct cil_periods *p)
{
	const struct cil_period *d = &p->pending;
	bool has_outcome = d->out_kind != CIL_KIND_NONE;
	bool usable = has_outcome && is_plausible(d);

	if (!p->is_pending)
		return;
	p->is_pending = false;
	p->counts->without_outcome += !usable;
	p->counts->implausible += has_outcome && !usable;
	p->sink.period(p->sink.context, d);
	if (!p->known) {
		p->counts->unplaced++;
		return;
	}
	note_tick_phase(p, d);
	if (!usable) {
		cut_interval(p);
	} else if (d->out_kind == CIL_KIND_ABORTED) {
		/* Something else than the tick had come. */
		p->goes_on = false;
	} else {
		if (p->goes_on && p->due_ns <= d->now_ns)
			end_by_timer(p);
		if (!p->goes_on) {
			release_interval(p, d->now_ns);
			begin_interval(p, d);
		}
		extend_interval(p, d);
	}
}

/* ---- Intervals of which only power:cpu_idle tells. ---- */

/* The idle period is over. What follows begins at @next_ns, 0 if unknown. */
static void release_idle(struct cil_periods *p, u64 next_ns)
{
	struct cil_interval *in = &p->idle;

	p->idle_gap |= !next_ns;
	if (!p->has_idle)
		return;
	if (next_ns)
		in->busy_ns = next_ns - in->start_ns - in->length_ns;
	if (in->busy_ns < 0)
		in->busy_ns = 0;
	p->sink.idle(p->sink.context, in);
	p->has_idle = false;
}

static void begin_idle(struct cil_periods *p, u64 ts, u8 state)
{
	struct cil_interval *in = &p->idle;

	release_idle(p, p->is_idle ? 0 : ts);
	memset(in, 0, sizeof(*in));
	in->ts = ts;
	in->first_seq = ++p->idle_count;
	in->periods = 1;
	in->start_ns = ts;
	in->timer_ns = -1;
	in->tick_phase_ns = -1;
	in->latency_req_ns = -1;
	in->hint_ns = -1;
	in->flags = CIL_INTERVAL_UNKNOWN;
	if (p->idle_gap)
		in->flags |= CIL_INTERVAL_GAP;
	in->index = state;
	in->last_index = state;
	in->governor = CIL_GOVERNOR_UNKNOWN;
	p->idle_gap = false;
	p->is_idle = true;
}

static void end_idle(struct cil_periods *p, u64 ts)
{
	struct cil_interval *in = &p->idle;

	if (!p->is_idle) {
		release_idle(p, 0);
		return;
	}
	in->length_ns = ts > in->start_ns ? ts - in->start_ns : 1;
	p->is_idle = false;
	p->has_idle = true;
}

/**
 * cil_periods_idle() - a power:cpu_idle event
 * @p: the CPU
 * @ts: when it was recorded
 * @state: state that is entered, or CIL_IDLE_EXIT
 *
 * Return: NULL, or what is wrong with it.
 */
const char *cil_periods_idle(struct cil_periods *p, u64 ts, u32 state)
{
	if (ts >= CIL_TIME_BELIEVED)
		return refuse(p, "power:cpu_idle of CPU %u has an impossible time",
			      p->cpu);
	if (state == CIL_IDLE_EXIT) {
		end_idle(p, ts);
		return NULL;
	}
	if (state > CIL_IDLE_DEEPEST)
		return refuse(p, "power:cpu_idle of CPU %u names the impossible idle state %u",
			      p->cpu, state);
	begin_idle(p, ts, state);
	return NULL;
}

/* ---- Events. ---- */

static bool are_times(const s64 *times_ns, u32 states)
{
	u32 k;

	for (k = 0; k < states; k++) {
		if (times_ns[k] < 0 || times_ns[k] >= CIL_STATE_TIME_BELIEVED)
			return false;
	}
	return true;
}

static bool are_sorted(const s64 *times_ns, u32 states)
{
	u32 k;

	for (k = 1; k < states; k++) {
		if (times_ns[k] < times_ns[k - 1])
			return false;
	}
	return true;
}

static const char *check_machine(struct cil_periods *p,
				 const struct cil_period_machine *m)
{
	if (!m->states || m->states > CIL_PERIODS_STATES)
		return refuse(p, "claims a machine with %u idle states",
			      m->states);
	if (!are_times(m->exit_latency_ns, m->states) ||
	    !are_times(m->target_residency_ns, m->states))
		return refuse(p, "claims idle states with impossible times");
	if (!are_sorted(m->target_residency_ns, m->states))
		return refuse(p, "claims idle states that are not sorted by target residency");
	if (m->tick_ns < CIL_TICK_SHORTEST || m->tick_ns > CIL_TICK_LONGEST)
		return refuse(p, "claims a scheduler tick of %lld ns",
			      (long long)m->tick_ns);
	return NULL;
}

/**
 * cil_periods_config() - the idle states of the CPU
 * @p: the CPU
 * @machine: its idle states; beyond the last one everything is 0
 *
 * Return: NULL, or what is wrong with them.
 */
const char *cil_periods_config(struct cil_periods *p,
			       const struct cil_period_machine *machine)
{
	const char *error = check_machine(p, machine);

	if (error)
		return error;
	if (p->known && memcmp(&p->machine, machine, sizeof(*machine)))
		return refuse(p, "the idle states of CPU %u changed while it was recorded",
			      p->cpu);
	if (p->deepest >= machine->states)
		return refuse(p, "an event of CPU %u " NO_SUCH_STATE,
			      p->cpu, p->deepest);
	if (!p->known)
		settle(p);
	p->machine = *machine;
	p->known = true;
	return NULL;
}

/* What lies between the last decision and this one? */
static void compare(struct cil_periods *p, const struct cil_period *last,
		    struct cil_period *d)
{
	bool jump = p->begun && d->seq != last->seq + 1;

	if (jump) {
		p->counts->gaps++;
		p->counts->decisions_missing += d->seq - last->seq - 1;
	}
	d->lost = p->lost || jump;
	p->lost = false;
	/* Backwards counts as a long way, too. */
	if (jump || d->governor != last->governor ||
	    d->now_ns - last->now_ns >= CIL_LENGTH_BELIEVED)
		cut_interval(p);
}

/**
 * cil_periods_decision() - a decision event
 * @p: the CPU
 * @decision: the decision; its outcome and @lost are not read
 *
 * Return: NULL, or what is wrong with it.
 */
const char *cil_periods_decision(struct cil_periods *p,
				 const struct cil_period *decision)
{
	const struct cil_period last = p->pending;
	struct cil_period *d = &p->pending;
	const char *error;

	error = check_index(p, "decision", decision->seq, decision->index);
	if (error)
		return error;
	if (p->begun && decision->seq <= last.seq)
		return refuse(p, "decision %llu of CPU %u comes after %llu (module reloaded?)",
			      (unsigned long long)decision->seq, p->cpu,
			      (unsigned long long)last.seq);
	if (decision->now_ns >= CIL_TIME_BELIEVED)
		return refuse(p, "decision %llu of CPU %u was made at an impossible time",
			      (unsigned long long)decision->seq, p->cpu);
	settle(p);
	*d = *decision;
	d->out_kind = CIL_KIND_NONE;
	d->out_ts = 0;
	d->out_now_ns = 0;
	d->residency_ns = 0;
	d->out_index = 0;
	d->tick = 0;
	d->poll_time_limit = 0;
	compare(p, &last, d);
	p->begun = true;
	p->is_pending = true;
	p->counts->decisions++;
	return NULL;
}

/**
 * cil_periods_outcome() - an outcome event
 * @p: the CPU
 * @outcome: what became of the last decision
 *
 * Return: NULL, or what is wrong with it.
 */
const char *cil_periods_outcome(struct cil_periods *p,
				const struct cil_period_outcome *outcome)
{
	const struct cil_period_outcome *o = outcome;
	struct cil_period *d = &p->pending;
	const char *error;

	error = check_index(p, "outcome", o->seq, o->index);
	if (error)
		return error;
	if (!p->is_pending || d->seq != o->seq) {
		p->counts->without_decision++;
		return NULL;
	}
	if (d->out_kind != CIL_KIND_NONE)
		return refuse(p, "outcome %llu of CPU %u occurs twice",
			      (unsigned long long)o->seq, p->cpu);
	if (o->kind != CIL_KIND_ENTERED && o->kind != CIL_KIND_ABORTED)
		return refuse(p, "outcome %llu of CPU %u is of the unknown kind %u",
			      (unsigned long long)o->seq, p->cpu, o->kind);
	d->out_kind = o->kind;
	d->out_ts = o->ts;
	d->out_now_ns = o->now_ns;
	d->residency_ns = o->residency_ns;
	d->out_index = o->index;
	d->tick = o->tick;
	d->poll_time_limit = o->poll_time_limit;
	return NULL;
}

/**
 * cil_periods_lost() - the kernel says that events are missing here
 * @p: the CPU
 */
void cil_periods_lost(struct cil_periods *p)
{
	p->lost = true;
	p->is_idle = false;
	release_idle(p, 0);
}

/**
 * cil_periods_end() - there are no more events of the CPU
 * @p: the CPU
 */
void cil_periods_end(struct cil_periods *p)
{
	settle(p);
	cut_interval(p);
	release_idle(p, 0);
}
