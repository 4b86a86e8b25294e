// SPDX-License-Identifier: GPL-2.0
/**
 * DOC: counterfactual replay
 *
 * An exogenous interval is the time from going idle until something other than
 * the scheduler tick wakes the CPU. Intervals are what the machine and its
 * programs do; everything else follows from what the policy decides:
 *
 * - A kept tick wakes the CPU when it is due. Its handler runs, and the policy
 *   is asked again, for what is left of the interval.
 * - The kernel tells of the next timer as it did in the recording, at that time.
 *   Where it told of the tick, because the tick had to go on, the tick goes on
 *   here, too, and ends the interval. Where there is no timer, it tells of one
 *   at the end of time, as tick_nohz_get_sleep_length() does.
 * - Timers in units of the tick expire in its handler, and kernels tell that
 *   governors as a wake-up by the tick. It ends the interval all the same.
 * - The polling state gives up after its time limit, and the policy is asked
 *   again. Interrupts do not end a poll. A timer that does is served within it,
 *   so the poll is longer than the sleep length was.
 * - Leaving a state takes its exit latency, in full, of which the policy
 *   learns. The next interval begins where it was recorded: what a late CPU
 *   sets off is late by as much, so intervals keep their lengths.
 *
 * So intervals do not move, whatever is decided (open loop).
 *
 * All policies are charged for the same intervals, those of the recording: each
 * entry costs E, and every moment of an interval is charged to the state that
 * was entered last, the first moments to the first state. So waking up late
 * gains nothing, and no cost is below the oracle's.
 */
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* The way back to the next decision, where the recorder did not go it. */
#define BACK_NS			2000

/* The handler of a timer that ends a poll. */
#define POLL_SERVED_NS		500

/*
 * The handlers that wake a CPU out of its poll run within it: recorded polls that
 * did not give up, but last longer than the limit, do so by 7 to 11 us (median).
 */
#define POLL_WOKEN_NS		10000

/* A driver that refuses a state costs so much time, awake. */
#define REJECTION_NS		2000

/*
 * An end that came with the tick may have been recorded so much later: a timer
 * with the usual slack of 50 us goes off in a tick that is so near, and the way
 * there and back takes its time.
 */
#define TICK_TOLERANCE_NS	70000

/* The bounds within which the kernel's polling state stays. */
#define POLL_MIN_NS		10000

/* Class n begins at 2^(n / 4), roughly: by the two bits below the highest. */
#define CLASS_SHIFT		2

__thread struct rp_moment rp_now;

/* The environment of the policies: see policy.h. */
void cil_env_sleep_length(struct cil_query *query)
{
	query->sleep_length_ns = rp_now.sleep_length_ns;
	query->delta_tick_ns = rp_now.delta_tick_ns;
}

/* Dumps are not read here. */
void cil_env_print(struct cil_sink *sink, const char *format, ...)
{
	(void)sink;
	(void)format;
}

/**
 * rp_length_class() - class of an interval's length
 * @length_ns: the length, at least 1
 */
u32 rp_length_class(s64 length_ns)
{
	u32 high = 63 - __builtin_clzll((u64)length_ns | 1);
	u32 low = high < CLASS_SHIFT ? 0 :
		  length_ns >> (high - CLASS_SHIFT) & ((1 << CLASS_SHIFT) - 1);

	return high << CLASS_SHIFT | low;
}

/**
 * rp_best() - the state of least cost
 * @machine: the idle states
 * @model: what they cost
 * @latency_req_ns: greatest exit latency allowed
 * @disabled: bit k is set if state k must not be used
 * @length_ns: length of the idle period
 *
 * Return: its index, the shallowest of equals; if no state is allowed, 0.
 */
u32 rp_best(const struct cil_machine *machine, const struct rp_model *model,
	    s64 latency_req_ns, u32 disabled, double length_ns)
{
	double least = 0;
	u32 best = CIL_STATE_MAX;
	u32 k;

	for (k = 0; k < machine->state_count; k++) {
		double cost;

		if (disabled >> k & 1 ||
		    (k && machine->states[k].exit_latency_ns > latency_req_ns))
			continue;
		cost = rp_cost(model, k, length_ns);
		if (best == CIL_STATE_MAX || cost < least) {
			least = cost;
			best = k;
		}
	}
	return best == CIL_STATE_MAX ? 0 : best;
}

/**
 * rp_set_poll_limit() - until the next state would have paid, as in the kernel
 * @run: the run
 * @disabled: bit k is set if state k must not be used
 */
void rp_set_poll_limit(struct rp_run *run, u32 disabled)
{
	const struct cil_machine *m = &run->machine;
	s64 limit_ns = m->tick_ns / 16;
	u32 k;

	for (k = 1; k < m->state_count; k++) {
		s64 pays_ns = m->states[k].target_residency_ns;

		if (disabled >> k & 1 || pays_ns < POLL_MIN_NS)
			continue;
		if (pays_ns < limit_ns)
			limit_ns = pays_ns;
		break;
	}
	run->poll_limit_ns = limit_ns > 0 ? limit_ns : 1;
	run->poll_disabled = disabled;
}

/**
 * rp_open() - a policy that has learned nothing yet, on one CPU
 * @policy: the policy
 * @machine: the CPU's idle states
 * @model: what they cost
 * @tunables: values of the policy's tunables, in the order of its table
 *
 * Return: the run, or NULL if there is no memory.
 */
struct rp_run *rp_open(const struct cil_policy *policy,
		       const struct cil_machine *machine,
		       const struct rp_model *model, const u32 *tunables)
{
	struct rp_run *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	run->state = calloc(1, policy->state_size ? policy->state_size : 1);
	if (!run->state) {
		free(run);
		return NULL;
	}
	run->policy = policy;
	run->machine = *machine;
	run->model = *model;
	run->grid.phase_ns = -1;
	memcpy(run->tunables, tunables,
	       policy->tunable_count * sizeof(*tunables));
	rp_set_poll_limit(run, 0);
	rp_now.model = &run->model;
	policy->init(run->state, &run->machine, run->tunables);
	return run;
}

/**
 * rp_close() - end a run
 * @run: the run, or NULL
 */
void rp_close(struct rp_run *run)
{
	if (!run)
		return;
	free(run->trail.start_ns);
	free(run->trail.end_ns);
	free(run->trail.next_ns);
	free(run->trail.index);
	free(run->state);
	free(run);
}

/**
 * rp_copy() - go on twice from here
 * @run: the run, of a policy that keeps all that it knows in its state: any
 *	but a kernel's
 *
 * Return: another run in the same condition, or NULL if there is no memory.
 */
struct rp_run *rp_copy(const struct rp_run *run)
{
	struct rp_run *copy = malloc(sizeof(*copy));
	u32 size = run->policy->state_size ? run->policy->state_size : 1;

	if (!copy)
		return NULL;
	*copy = *run;
	copy->trail = (struct rp_trail) { 0 };
	copy->state = malloc(size);
	if (!copy->state) {
		free(copy);
		return NULL;
	}
	memcpy(copy->state, run->state, size);
	return copy;
}

/**
 * rp_restore() - go on with a recorded state
 * @run: the run, of a policy that keeps all that it knows in its state
 * @state: its bytes, as many as the policy says
 */
void rp_restore(struct rp_run *run, const void *state)
{
	memcpy(run->state, state, run->policy->state_size);
}

/**
 * rp_drive() - have the driver do something else than it is told
 * @run: the run
 * @demoted: bit k: the enabled state below is entered instead of state k
 * @rejected: bit k: state k is refused
 * @every: this happens every so many times that such a state is chosen
 */
void rp_drive(struct rp_run *run, u32 demoted, u32 rejected, u32 every)
{
	run->driver = (struct rp_driver) {
		.demoted = demoted,
		.rejected = rejected,
		.every = every,
	};
}

/**
 * rp_conceal() - do not tell what a wake-up was
 * @run: the run
 *
 * From now on the governor does not learn that the tick or the end of polling
 * woke the CPU: each of them ends an interval for it.
 */
void rp_conceal(struct rp_run *run)
{
	run->conceals = true;
}

/* Time until the tick is due next: never, as long as its grid is unknown. */
static s64 next_tick(const struct rp_run *run, u64 now_ns)
{
	s64 tick_ns = run->machine.tick_ns;
	s64 since_ns = (s64)(now_ns % (u64)tick_ns) - run->grid.phase_ns;

	if (run->grid.phase_ns < 0)
		return S64_MAX;
	return since_ns < 0 ? -since_ns : tick_ns - since_ns;
}

/**
 * rp_learn() - let the policy learn from the last idle period, if there is one
 * @run: the run
 * @now_ns: when; as in the module, that is when the policy is asked again
 */
void rp_learn(struct rp_run *run, u64 now_ns)
{
	if (!run->reflected)
		return;
	run->reflected = false;
	run->outcome.now_ns = now_ns;
	run->outcome.left = run->left;
	if (run->policy->update)
		run->policy->update(run->state, &run->machine, run->tunables,
				    &run->outcome);
}

/**
 * rp_due() - when a timer is due
 * @at_ns: when the kernel told of it
 * @timer_ns: in so much time, or CIL_TIMER_*
 *
 * Return: CIL_TIME_MAX if there is none, or it is the tick.
 */
u64 rp_due(u64 at_ns, s64 timer_ns)
{
	if (timer_ns < 0 || timer_ns >= CIL_TIME_MAX - (s64)at_ns)
		return CIL_TIME_MAX;
	return at_ns + timer_ns;
}

/**
 * rp_tell_event() - the kernel tells when its next event is, the tick included
 * @run: the run
 * @in: the interval
 * @at_ns: when it tells
 * @phase_ns: the time of the event modulo the period of the tick; -1: unknown
 *
 * An event off the grid is no tick, see grid.h. Governors are told of it all the
 * same, and the recording says whether it woke the CPU.
 */
void rp_tell_event(struct rp_run *run, struct rp_interval *in, u64 at_ns,
		   s64 phase_ns)
{
	u64 tick_ns = (u64)run->machine.tick_ns;

	in->event_ns = 0;
	if (phase_ns < 0)
		return;
	at_ns += ((u64)phase_ns % tick_ns + tick_ns - at_ns % tick_ns) % tick_ns;
	cil_grid_note(&run->grid, at_ns, run->machine.tick_ns);
	if (!cil_grid_meets(&run->grid, at_ns, run->machine.tick_ns))
		in->event_ns = at_ns;
}

static void next_answer(struct rp_run *run, struct rp_interval *in)
{
	u64 at_ns = *in->at_ns++;
	s64 told_ns = *in->told_ns++;

	rp_tell_event(run, in, at_ns, *in->phase_ns++);
	in->served_ns++;
	in->back_ns++;
	in->answers--;
	in->timer_ns = rp_due(at_ns, told_ns);
	in->overdue = !told_ns;
	in->tick_ns = told_ns <= CIL_TIMER_TICK ?
		      at_ns + (u64)(CIL_TIMER_TICK - told_ns) : 0;
}

/*
 * The kernel's answer now: the newest recorded answer. A timer that passed
 * without ending the interval was moved or cancelled; then the next answer
 * holds, and after the last one the timer that did end the interval. Only what
 * was overdue when it was told is told as such, until the next answer: it is
 * about to be served. The tick that had to go on is no answer where this policy
 * has stopped the tick.
 */
static void ask(struct rp_run *run, struct rp_interval *in)
{
	while (in->answers && *in->at_ns <= in->now_ns)
		next_answer(run, in);
	in->held = in->tick_ns && !run->tick_stopped;
	if (in->held) {
		cil_grid_note(&run->grid, in->tick_ns, run->machine.tick_ns);
		return;
	}
	if (in->overdue && in->timer_ns <= in->now_ns)
		return;
	while (in->answers && (in->timer_ns <= in->now_ns || in->tick_ns))
		next_answer(run, in);
	if (in->timer_ns <= in->now_ns || in->tick_ns)
		in->timer_ns = in->by_timer ? in->end_ns : CIL_TIME_MAX;
}

/* Note an answer that no governor may give. A refused index counts as state 0. */
static void check_answer(struct rp_run *run, const struct rp_interval *in,
			 struct cil_decision *decision)
{
	const struct cil_machine *m = &run->machine;
	struct rp_breaches *b = &run->breaches;
	bool enabled = false, within = false;
	u32 index = decision->index;
	u64 before = b->range + b->disabled + b->latency;
	u32 k;

	for (k = 0; k < m->state_count; k++) {
		if (in->disabled >> k & 1)
			continue;
		enabled = true;
		within |= m->states[k].exit_latency_ns <= in->latency_req_ns;
	}
	if (index >= m->state_count) {
		decision->index = 0;
		b->range++;
	} else {
		b->disabled += enabled && in->disabled >> index & 1;
		b->latency += within && m->states[index].exit_latency_ns >
					in->latency_req_ns;
	}
	if (!before && b->range + b->disabled + b->latency)
		b->first = run->totals.intervals;
}

static void decide(struct rp_run *run, struct rp_interval *in, s64 tick_due_ns,
		   struct cil_decision *decision)
{
	struct rp_totals *t = &run->totals;
	struct cil_query query = {
		.now_ns = in->now_ns,
		.latency_req_ns = in->latency_req_ns,
		.disabled = in->disabled,
		.tick_stopped = run->tick_stopped,
		.rejected = run->rejected,
		.left = run->left,
	};
	u32 best;

	run->rejected = false;
	rp_learn(run, in->now_ns);
	run->left = false;
	rp_now.sleep_length_ns = in->held ? tick_due_ns :
				 in->timer_ns <= in->now_ns ? 0 :
				 (s64)(in->timer_ns - in->now_ns);
	rp_now.delta_tick_ns = rp_now.sleep_length_ns;
	if (!run->tick_stopped && tick_due_ns < rp_now.delta_tick_ns)
		rp_now.delta_tick_ns = tick_due_ns;
	if (!run->tick_stopped && in->event_ns > in->now_ns &&
	    (s64)(in->event_ns - in->now_ns) < rp_now.delta_tick_ns)
		rp_now.delta_tick_ns = (s64)(in->event_ns - in->now_ns);
	rp_now.left_ns = in->end_ns - in->now_ns;
	rp_now.charge_ns = in->end_ns - in->charged_ns;
	rp_now.poll_limit_ns = 0;
	run->policy->select(run->state, &run->machine, run->tunables, &query,
			    decision);
	check_answer(run, in, decision);

	best = rp_best(&run->machine, &run->model, in->latency_req_ns,
		       in->disabled, rp_now.charge_ns);
	if (!in->decisions++) {
		in->first = *decision;
		in->ideal = best;
	}
	t->decisions++;
	t->asked += query.asked;
	t->reasons[decision->reason]++;
	t->heat[decision->index][best]++;
}

/**
 * rp_judge_misses() - was the state too deep or too shallow, as the kernel counts
 * @run: its totals are added to
 * @disabled: bit k is set if state k must not be used
 * @index: the state
 * @stay_ns: time in it
 * @residency_ns: the same with the way out
 */
void rp_judge_misses(struct rp_run *run, u32 disabled, u32 index, s64 stay_ns,
		     s64 residency_ns)
{
	const struct cil_machine *m = &run->machine;
	u32 k;

	if (residency_ns < m->states[index].target_residency_ns) {
		run->totals.above += (~disabled & ((1u << index) - 1)) != 0;
		return;
	}
	for (k = index + 1; k < m->state_count; k++) {
		if (disabled >> k & 1)
			continue;
		run->totals.below +=
			stay_ns >= m->states[k].target_residency_ns;
		return;
	}
}

/* Time has passed until now or the end. Returns what is to be charged of it. */
static u64 elapsed(struct rp_interval *in)
{
	u64 until_ns = in->now_ns < in->end_ns ? in->now_ns : in->end_ns;
	u64 time_ns = until_ns > in->charged_ns ? until_ns - in->charged_ns : 0;

	in->charged_ns += time_ns;
	return time_ns;
}

/**
 * rp_charge() - the state was entered, and time has passed
 * @run: its totals are added to
 * @in: the interval; its time stands where the state was left
 * @index: the state
 */
void rp_charge(struct rp_run *run, struct rp_interval *in, u32 index)
{
	struct rp_totals *t = &run->totals;
	u64 start_ns = in->charged_ns;
	u64 time_ns = elapsed(in);
	double cost_pj = rp_cost(&run->model, index, time_ns);

	if (run->trail.room && time_ns)
		rp_note_stay(run, start_ns, in, index);

	in->cost_pj += cost_pj;
	t->entries[index]++;
	t->state_ns[index] += time_ns;
	t->state_pj[index] += cost_pj;
}

/* End of an idle period: its length, and the way back. */
struct wake {
	s64 stay_ns;
	s64 served_ns;
	s64 back_ns;
};

/*
 * The answer that the recorder got when it woke up in @stay_ns and went on; the
 * number of answers if there is none.
 */
static u32 answer_after(const struct rp_interval *in, s64 stay_ns)
{
	u32 i;

	for (i = 0; i < in->answers; i++) {
		s64 at_ns = (s64)(in->at_ns[i] - in->now_ns);

		if (at_ns > stay_ns + CIL_GRID_TOLERANCE_NS)
			break;
		if (at_ns > 0 && at_ns >= stay_ns - CIL_GRID_TOLERANCE_NS)
			return i;
	}
	return in->answers;
}

/*
 * Something wakes the CPU in @wake->stay_ns without ending the interval. Where it
 * woke the recorder, too, the moment is known, and the way back to the next
 * decision. Its first part is of the state: the handler of the tick may run before
 * the CPU has left it.
 */
static void way_back(const struct rp_interval *in, struct wake *wake)
{
	u32 i = answer_after(in, wake->stay_ns);

	wake->served_ns = 0;
	wake->back_ns = BACK_NS;
	if (i == in->answers)
		return;
	wake->stay_ns = (s64)(in->at_ns[i] - in->now_ns);
	wake->served_ns = in->served_ns[i];
	wake->back_ns = in->back_ns[i];
}

/*
 * A poll lasts until its timer is due, and has been served. Where the recorder
 * polled, too, the recorded end comes after that, or something else woke it.
 */
static s64 served_in_poll_ns(const struct rp_interval *in)
{
	s64 due_ns = (s64)(in->timer_ns - in->end_ns);

	/* Where there is no timer, it is due at the end of time. */
	if (due_ns > CIL_GRID_TOLERANCE_NS - POLL_SERVED_NS)
		return 0;
	return due_ns > -POLL_SERVED_NS ? due_ns + POLL_SERVED_NS : 0;
}

/* The driver may change the decision. Returns whether it enters a state. */
static bool driver_enters(struct rp_run *run, u32 disabled, u32 *index)
{
	struct rp_driver *driver = &run->driver;
	u32 k = *index;

	if (!((driver->demoted | driver->rejected) >> k & 1) ||
	    ++driver->count % driver->every)
		return true;
	if (driver->rejected >> k & 1)
		return false;
	while (k-- > 0) {
		if (disabled >> k & 1)
			continue;
		*index = k;
		break;
	}
	return true;
}

/*
 * The driver refused: there is no outcome, the CPU stays awake for a moment,
 * and the policy is asked again. Returns whether the interval is over.
 */
static bool stay_awake(struct rp_run *run, struct rp_interval *in)
{
	run->rejected = true;
	in->now_ns += REJECTION_NS;
	in->cost_pj += run->model.power_mw[0] * elapsed(in);
	in->last = 0;
	if (in->now_ns < in->end_ns)
		return false;
	run->totals.wakeups[0]++;
	return true;
}

/*
 * Is the tick the one that came with the end? That is the last one before it. A
 * timer of a task goes off with it if it is near: within its slack from where the
 * CPU has left its state, which is the last time that it looks. Where the recorder
 * went on from this tick, the one that came with the end came after the wake-up,
 * on the way out of the state.
 */
static bool brings_end(const struct rp_run *run, const struct rp_interval *in,
		       s64 tick_due_ns, s64 latency_ns)
{
	s64 near_ns = in->by_timer ? latency_ns + TICK_TOLERANCE_NS :
		      run->machine.tick_ns - CIL_GRID_TOLERANCE_NS;

	return in->ticked &&
	       tick_due_ns + near_ns >= (s64)(in->end_ns - in->now_ns) &&
	       (in->by_timer || answer_after(in, tick_due_ns) == in->answers);
}

/**
 * rp_abort() - a selection that no idle period follows: there was work to do
 * @run: the run
 * @in: the interval, which has no length
 */
void rp_abort(struct rp_run *run, struct rp_interval *in)
{
	struct cil_decision decision;

	ask(run, in);
	decide(run, in, next_tick(run, in->now_ns), &decision);
	run->rejected = true;
}

/**
 * rp_stay() - one idle period
 * @run: the run
 * @in: the interval
 *
 * Return: whether it ended the interval.
 */
bool rp_stay(struct rp_run *run, struct rp_interval *in)
{
	struct rp_totals *t = &run->totals;
	s64 left_ns = in->end_ns - in->now_ns;
	struct wake wake = { .stay_ns = left_ns };
	s64 tick_due_ns, latency_ns, poll_ns;
	struct cil_outcome outcome = { 0 };
	struct cil_decision decision;
	bool polling, ended;
	u32 index;

	ask(run, in);
	tick_due_ns = next_tick(run, in->now_ns);
	/* Of a timer and a tick so near to it the recording tells the order. */
	if (in->by_timer && !in->ticked && tick_due_ns <= left_ns &&
	    tick_due_ns + CIL_GRID_TOLERANCE_NS > left_ns)
		tick_due_ns = left_ns + 1;
	decide(run, in, tick_due_ns, &decision);
	index = decision.index;
	if (decision.stop_tick && !in->held)
		run->tick_stopped = true;
	in->due_ns = in->timer_ns;
	if (!run->tick_stopped && in->now_ns + tick_due_ns < in->due_ns)
		in->due_ns = in->now_ns + tick_due_ns;
	if (!driver_enters(run, in->disabled, &index))
		return stay_awake(run, in);
	polling = run->machine.states[index].polling;
	latency_ns = run->machine.states[index].exit_latency_ns;

	poll_ns = rp_now.poll_limit_ns ? rp_now.poll_limit_ns :
					 run->poll_limit_ns;
	if (polling && poll_ns + POLL_WOKEN_NS < wake.stay_ns &&
	    !(in->by_timer && in->timer_ns <= in->now_ns + poll_ns)) {
		wake.stay_ns = poll_ns;
		outcome.poll_time_limit = true;
	}
	ended = wake.stay_ns == left_ns;
	if (!run->tick_stopped && tick_due_ns < wake.stay_ns) {
		outcome.tick_wakeup = true;
		ended = brings_end(run, in, tick_due_ns, latency_ns);
		if (!polling && !(ended && !in->by_timer))
			wake.stay_ns = tick_due_ns;
	}

	t->ticks += outcome.tick_wakeup && !polling && !ended;
	outcome.tick_wakeup |= ended && in->ticked;
	outcome.index = index;
	if (outcome.tick_wakeup && wake.stay_ns < left_ns)
		way_back(in, &wake);
	if (polling && ended && in->by_timer && !in->polled)
		wake.served_ns = served_in_poll_ns(in);
	outcome.residency_ns = wake.stay_ns + wake.served_ns + latency_ns;
	t->polls += outcome.poll_time_limit;
	rp_judge_misses(run, in->disabled, index, wake.stay_ns,
			outcome.residency_ns);

	run->outcome = outcome;
	run->outcome.tick_wakeup &= !run->conceals;
	run->outcome.poll_time_limit &= !run->conceals;
	run->reflected = true;
	in->now_ns += outcome.residency_ns + wake.back_ns;
	if (ended && in->now_ns < in->end_ns)
		in->now_ns = in->end_ns;
	rp_charge(run, in, index);
	if (!ended && in->now_ns < in->end_ns)
		return false;
	t->wakeups[index]++;
	in->last = index;
	return true;
}
