// SPDX-License-Identifier: GPL-2.0
/* From events to idle periods and exogenous intervals; see periods.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "periods.h"
#include "stay.h"

/*
 * A timer or a tick came, or did not, by so much: the way into the state, and
 * back to where the outcome is noted.
 */
#define TOLERANCE_NS		20000

/*
 * Where a kernel governor hides the tick, it came if the period lasted until it was
 * due, or nearly so: the time to it was told before the way into the state.
 */
#define TICK_EARLY_NS		5000

/*
 * The kernel's present, from which it tells the next event, is older than the
 * record's by no more: a CPU of the lab may wait for its turn in between. On
 * hackbench-socket the own error is 0.34 points with 0, else 0.08.
 */
#define PRESENT_OLDER_NS	100000

/* A wake-up that is so late is not the state's doing: see docs/replay.md. */
#define OVERSLEPT_NS		100000

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
	p->grid.phase_ns = -1;
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

static s64 exit_latency(const struct cil_periods *p, const struct cil_period *d)
{
	return p->machine.exit_latency_ns[d->out_index];
}

static s64 stay_ns(const struct cil_periods *p, const struct cil_period *d)
{
	return cil_stay_ns(d->residency_ns, exit_latency(p, d));
}

static bool is_polling(const struct cil_periods *p, const struct cil_period *d)
{
	return p->machine.polling >> d->out_index & 1;
}

/*
 * Is the tick the next event, of which the kernel told? While it is running, no
 * event is later. One that seems to be is the tick: the kernel's present is older
 * than the record's.
 */
static bool is_tick_due(const struct cil_periods *p, const struct cil_period *d)
{
	u64 at_ns = d->now_ns + (u64)d->delta_tick_ns;
	s64 late_ns;

	if (cil_grid_meets(&p->grid, at_ns, p->machine.tick_ns))
		return true;
	if (p->grid.phase_ns < 0)
		return false;
	late_ns = (s64)((at_ns - (u64)p->grid.phase_ns) %
			(u64)p->machine.tick_ns);
	return late_ns <= PRESENT_OLDER_NS && late_ns < d->delta_tick_ns;
}

/*
 * Did the kernel answer with the tick, because the tick had to go on? Then the
 * two times that it told are the same, and meet the grid of the tick.
 */
static bool is_tick(const struct cil_periods *p, const struct cil_period *d)
{
	return !(d->flags & CIL_DECISION_TICK_STOPPED) &&
	       d->sleep_length_ns == d->delta_tick_ns &&
	       d->sleep_length_ns >= 0 &&
	       d->sleep_length_ns <= (s64)p->machine.tick_ns && is_tick_due(p, d);
}

/* The time to the next timer event, as intervals have it. */
static s64 timer_of(const struct cil_periods *p, const struct cil_period *d)
{
	if (is_tick(p, d))
		return CIL_TIMER_TICK - d->sleep_length_ns;
	/* A timer that is overdue is due at once. */
	return d->sleep_length_ns < 0 ? 0 : d->sleep_length_ns;
}

/* Did the period last until a hidden tick was due? */
static bool may_have_come(const struct cil_period *d, s64 due_ns)
{
	return (s64)d->residency_ns + TICK_EARLY_NS >= due_ns;
}

/*
 * Did the tick end the period? Not where a timer was due before it. Nor is it
 * the tick's doing, or the governor's, where the tick had to go on: that wakes
 * the CPU as a timer does. While the tick is stopped, its handler runs for timers
 * of the wheel. Where a kernel governor hides the tick, it follows: the tick was
 * kept, and the period lasted until it was due.
 */
static bool ended_by_tick(const struct cil_periods *p, const struct cil_period *d)
{
	if (d->delta_tick_ns >= d->sleep_length_ns || d->stop_tick ||
	    d->flags & CIL_DECISION_TICK_STOPPED)
		return false;
	if (d->tick != CIL_TICK_UNKNOWN)
		return d->tick == CIL_TICK_YES;
	return may_have_come(d, d->delta_tick_ns) && is_tick_due(p, d);
}

/*
 * Was the CPU woken by nothing of its own? Its next event is the timer, or the
 * tick where that goes on. Interrupts do not end a poll.
 */
static bool has_overslept(const struct cil_periods *p, const struct cil_period *d)
{
	bool stopped = d->stop_tick || d->flags & CIL_DECISION_TICK_STOPPED;
	s64 next_ns = stopped ? d->sleep_length_ns : d->delta_tick_ns;

	if (is_polling(p, d) || next_ns >= (s64)CIL_LENGTH_BELIEVED)
		return false;
	if (next_ns < 0)
		next_ns = 0;
	return (s64)d->residency_ns >
	       next_ns + exit_latency(p, d) + p->domains_exit_ns + OVERSLEPT_NS;
}

/*
 * Where a kernel governor hides the tick: did its handler serve the timer? It serves
 * those of the wheel, which are due on its grid, also while it is stopped.
 */
static bool tick_served(const struct cil_periods *p, const struct cil_period *d)
{
	u64 due_ns = d->now_ns + (u64)d->sleep_length_ns;

	return may_have_come(d, d->sleep_length_ns) &&
	       (is_tick(p, d) ||
		cil_grid_meets(&p->grid, due_ns, p->machine.tick_ns));
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

/*
 * The idle loop was not left before the decision. Where a tick that was stopped
 * runs again all the same, it was, if only to find nothing to run.
 */
static bool is_continued(const struct cil_periods *p, const struct cil_period *d)
{
	const struct cil_period *last = &p->last;
	bool stopped = last->flags & CIL_DECISION_TICK_STOPPED ||
		       (last->stop_tick && p->last_timer_ns > CIL_TIMER_TICK);

	if (d->flags & CIL_DECISION_TICK_STOPPED)
		return true;
	return !d->left && !p->gap && !d->lost && !stopped;
}

static void begin_interval(struct cil_periods *p, const struct cil_period *d)
{
	struct cil_interval *in = &p->interval;

	memset(in, 0, sizeof(*in));
	in->ts = d->ts;
	in->first_seq = d->seq;
	in->start_ns = d->now_ns;
	in->timer_ns = timer_of(p, d);
	in->tick_phase_ns = p->told_phase_ns;
	in->latency_req_ns = d->latency_req_ns;
	in->hint_ns = d->hint_ns;
	in->disabled = d->disabled;
	in->index = d->index;
	in->governor = d->governor;
	if (is_continued(p, d))
		in->flags |= CIL_INTERVAL_CONTINUED;
	if (p->gap || d->lost)
		in->flags |= CIL_INTERVAL_GAP;
	p->gap = false;
	p->has_interval = true;
}

/*
 * The interval lasts until its newest period ended, less the way out of it. That
 * is when the CPU was woken, as its governor was told: less the way into the
 * state, and with what the driver counts of the interrupt.
 */
static void end_interval(struct cil_periods *p, const struct cil_period *d)
{
	struct cil_interval *in = &p->interval;
	s64 stayed_ns = stay_ns(p, d);
	bool due = stayed_ns + TOLERANCE_NS >= d->sleep_length_ns;
	bool ticked = d->tick == CIL_TICK_UNKNOWN ? tick_served(p, d) :
						    d->tick == CIL_TICK_YES;
	s64 length_ns;

	if (!p->goes_on && ticked)
		in->flags |= CIL_INTERVAL_TICKED;
	if (!p->goes_on && !is_tick(p, d) && d->sleep_length_ns > 0 && due)
		in->flags |= CIL_INTERVAL_TIMER;
	p->end_ns = d->now_ns + d->residency_ns;
	length_ns = (s64)(d->now_ns - in->start_ns) + stayed_ns;
	in->length_ns = length_ns > 0 ? length_ns : 1;
}

/*
 * The kernel's answer at a decision would have been the same at the wake-up
 * before it: at the tick, where that woke the CPU.
 */
static void tell_answer(struct cil_periods *p, u64 now_ns, s64 timer_ns)
{
	const struct cil_period *last = &p->last;
	u64 left_ns = last->now_ns + stay_ns(p, last);
	u64 at_ns = left_ns < now_ns ? left_ns : now_ns;
	struct cil_answer answer;
	s64 earlier_ns;

	if (last->by_tick && last->now_ns + (u64)last->delta_tick_ns < at_ns)
		at_ns = last->now_ns + last->delta_tick_ns;
	earlier_ns = now_ns - at_ns;
	/* The time to a tick that had to go on counts down from -2. */
	if (timer_ns < 0)
		timer_ns -= earlier_ns;
	else if (timer_ns < (s64)CIL_LENGTH_BELIEVED)
		timer_ns += earlier_ns;
	answer.at_ns = at_ns;
	answer.timer_ns = timer_ns;
	answer.served_ns = left_ns - at_ns;
	answer.back_ns = now_ns > p->end_ns ? now_ns - p->end_ns : 0;
	answer.tick_phase_ns = p->told_phase_ns;
	p->sink.answer(p->sink.context, &answer);
}

static void extend_interval(struct cil_periods *p, struct cil_period *d)
{
	struct cil_interval *in = &p->interval;

	if (in->periods++)
		tell_answer(p, d->now_ns, timer_of(p, d));
	in->last_index = d->out_index;
	in->flags &= ~(CIL_INTERVAL_TIMER | CIL_INTERVAL_UNCERTAIN |
		       CIL_INTERVAL_TICKED);
	if (cil_is_short(d->residency_ns, exit_latency(p, d)))
		in->flags |= CIL_INTERVAL_UNCERTAIN;
	d->interval = in->first_seq;
	d->by_tick = ended_by_tick(p, d);
	d->overslept = has_overslept(p, d);
	if (d->overslept)
		in->flags |= CIL_INTERVAL_OVERSLEPT;
	p->goes_on = (d->by_tick || d->poll_time_limit) &&
		     d->now_ns - in->start_ns + d->residency_ns <
			     CIL_LENGTH_BELIEVED;
	end_interval(p, d);
	p->last = *d;
	p->last_timer_ns = timer_of(p, d);
}

/* No idle period followed the decision: its interval has no length. */
static void abort_interval(struct cil_periods *p, struct cil_period *d)
{
	p->interval.periods = 1;
	p->interval.last_index = d->out_index;
	p->interval.length_ns = 0;
	p->end_ns = d->now_ns;
	d->interval = d->seq;
	p->last = *d;
	p->last_timer_ns = timer_of(p, d);
}

/*
 * The timer that the last period knew of: has it come since the CPU woke up, or
 * while it polled? One that passed before that had been moved or cancelled.
 */
static bool timer_came(const struct cil_periods *p, const struct cil_period *d,
		       u64 *due_ns)
{
	const struct cil_period *last = &p->last;
	u64 woken_ns = last->now_ns + stay_ns(p, last);
	s64 timer_ns = p->last_timer_ns;

	if (timer_ns < 0 || timer_ns >= (s64)CIL_LENGTH_BELIEVED)
		return false;
	*due_ns = last->now_ns + timer_ns;
	if (!is_polling(p, last) && *due_ns + TOLERANCE_NS < woken_ns)
		return false;
	return *due_ns <= d->now_ns;
}

/*
 * The tick, or the end of polling, had ended the last period. Did the interval
 * end before the next decision? It did if another task ran, or if the timer
 * came.
 */
static void look_between(struct cil_periods *p, const struct cil_period *d)
{
	struct cil_interval *in = &p->interval;
	u64 due_ns;

	if (timer_came(p, d, &due_ns)) {
		if (p->last.by_tick)
			tell_answer(p, p->end_ns,
				    due_ns > p->end_ns ?
				    (s64)(due_ns - p->end_ns) : 0);
		p->goes_on = false;
		in->flags |= CIL_INTERVAL_TIMER;
		if (p->last.by_tick && d->left)
			in->flags |= CIL_INTERVAL_TICKED;
		if (in->length_ns < (s64)(due_ns - in->start_ns))
			in->length_ns = due_ns - in->start_ns;
		if (p->end_ns < due_ns)
			p->end_ns = due_ns;
	} else if (d->left) {
		p->goes_on = false;
		if (p->last.by_tick)
			in->flags |= CIL_INTERVAL_TICKED;
	}
}

static bool is_plausible(const struct cil_period *d)
{
	u64 span_ns = d->out_ts - d->ts;

	return d->out_ts >= d->ts && d->residency_ns < CIL_LENGTH_BELIEVED &&
	       span_ns < CIL_LENGTH_BELIEVED &&
	       d->residency_ns <= span_ns + span_ns / 100 + CLOCK_TOLERANCE_NS;
}

/*
 * The kernel tells the grid of the tick where the tick comes before the timer. As
 * long as it has not, a tick that woke the CPU when the next event was due tells.
 */
static void note_tick_phase(struct cil_periods *p, const struct cil_period *d)
{
	bool told = d->delta_tick_ns < d->sleep_length_ns;
	bool came = p->grid.phase_ns < 0 && d->out_kind == CIL_OUTCOME_ENTERED &&
		    d->tick == CIL_TICK_YES && !d->stop_tick &&
		    (s64)d->residency_ns >= d->delta_tick_ns;
	u64 at_ns = d->now_ns + (u64)d->delta_tick_ns;

	p->told_phase_ns = p->grid.phase_ns;
	if (d->flags & CIL_DECISION_TICK_STOPPED || d->delta_tick_ns < 0 ||
	    !(told || came))
		return;
	cil_grid_note(&p->grid, at_ns, p->machine.tick_ns);
	p->told_phase_ns = (s64)(at_ns % p->machine.tick_ns);
}

/* The period joins the last interval, or begins one. */
static void place(struct cil_periods *p, struct cil_period *d, bool usable)
{
	note_tick_phase(p, d);
	if (!usable) {
		cut_interval(p);
		return;
	}
	if (p->goes_on)
		look_between(p, d);
	/* Something else than the tick had come, and sent the CPU back to work. */
	if (d->out_kind == CIL_OUTCOME_ABORTED)
		p->goes_on = false;
	if (!p->goes_on) {
		release_interval(p, d->now_ns);
		begin_interval(p, d);
	}
	if (d->out_kind == CIL_OUTCOME_ABORTED)
		abort_interval(p, d);
	else
		extend_interval(p, d);
}

/* The last decision is complete. */
static void settle(struct cil_periods *p)
{
	struct cil_period *d = &p->pending;
	bool has_outcome = d->out_kind != CIL_OUTCOME_NONE;
	bool usable = has_outcome && is_plausible(d);

	if (!p->is_pending)
		return;
	p->is_pending = false;
	p->counts->without_outcome += !usable;
	p->counts->implausible += has_outcome && !usable;
	if (p->known)
		place(p, d, usable);
	else
		p->counts->unplaced++;
	p->sink.period(p->sink.context, d);
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
	if (!m->states || m->states > CIL_STATE_MAX)
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

/* Finds a gap between the last decision and this one, and cuts the interval there. */
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
	d->out_kind = CIL_OUTCOME_NONE;
	d->out_ts = 0;
	d->out_now_ns = 0;
	d->residency_ns = 0;
	d->out_index = 0;
	d->tick = 0;
	d->poll_time_limit = 0;
	d->by_tick = 0;
	d->overslept = 0;
	d->interval = 0;
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
	if (d->out_kind != CIL_OUTCOME_NONE)
		return refuse(p, "outcome %llu of CPU %u occurs twice",
			      (unsigned long long)o->seq, p->cpu);
	if (o->kind != CIL_OUTCOME_ENTERED && o->kind != CIL_OUTCOME_ABORTED)
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
