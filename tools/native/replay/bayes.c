// SPDX-License-Identifier: GPL-2.0
/**
 * DOC: bayes
 *
 * An estimate of the least modelled cost of a policy that knows only the past
 * and the timer. It is a policy, so whatever it reaches can be reached: the
 * figure is an upper estimate of that floor, not a proof of it. And it cannot
 * see the future, because it has nothing but the policy interface: queries,
 * the timer and the outcomes of its own choices.
 *
 * **Outlook.** How long the interval will last, by what was learned from those
 * before it. That is the other half of the policy: see outlook.c.
 *
 * **Choice.** The plan of least expected cost, the model's own cost, under the
 * outlook. Plans are
 *
 * - a state with the tick stopped, until the interval ends;
 * - a state with the tick kept, and after it the best of both kinds again, for
 *   %TICKS ticks;
 * - polling until the limit, and after it the best of all kinds again, %POLLS
 *   times over.
 *
 * Only the first step of the plan is taken; when asked again, it plans afresh.
 */
#include <math.h>
#include <string.h>

#include "../stay.h"
#include "limits.h"
#include "outlook.h"
#include "run.h"

/* Horizon of plans. */
#define TICKS		8
#define POLLS		16

/* The tick's handler takes this long. If much more passes, a task has run. */
#define HANDLER_NS	2000
#define RESUME_NS	5000

/* Until a poll has shown it: the least that the kernel polls for. */
#define POLL_GUESS_NS	10000

/* Nothing is taken to last longer. */
#define LONGEST_NS	(10000 * CIL_NSEC_PER_MSEC)

/* With less than this chance to have lasted so long, nothing is known. */
#define FORLORN		(1.0 / (1 << 30))

/**
 * struct bayes - the policy on one CPU
 * @forecast: what is known of it
 * @start_ns: when the present interval began
 * @decided_ns: when the last decision was made
 * @going_on: the next decision belongs to the present interval
 * @poll_limit_ns: how long polling goes on
 */
struct bayes {
	struct forecast forecast;
	u64 start_ns;
	u64 decided_ns;
	bool going_on;
	double poll_limit_ns;
};

/**
 * struct planner - what plans are made with
 * @machine: the idle states
 * @model: what they cost
 * @outlook: how long the interval will last
 * @sleeping: bit k is set if state k may be used and does not poll
 * @polling: bit k is set if it may be used and polls
 * @ticks: the tick is running and comes before the timer
 * @tick: what is to come once the next tick has woken the CPU from state k
 * @after_tick: what that will cost
 */
struct planner {
	const struct cil_machine *machine;
	const struct rp_model *model;
	const struct outlook *outlook;
	u32 sleeping;
	u32 polling;
	bool ticks;
	struct rest tick[CIL_STATE_MAX];
	double after_tick[CIL_STATE_MAX];
};

/**
 * struct plan - the first step of a plan
 * @cost: expected cost of the whole plan, not divided by the share
 * @index: idle state
 * @stop_tick: whether the tick is stopped with it
 */
struct plan {
	double cost;
	u32 index;
	bool stop_tick;
};

/* ---- Planning ---- */

static double cost_until(const struct planner *p, u32 k, struct rest from,
			 struct rest until)
{
	return p->model->entry_pj[k] * from.share +
	       p->model->power_mw[k] * (from.ns - until.ns);
}

static void take_better(struct plan *plan, double cost, u32 index,
			bool stop_tick)
{
	if (cost < plan->cost)
		*plan = (struct plan){ cost, index, stop_tick };
}

/* One state until the interval ends. */
static struct plan sleep_through(const struct planner *p, struct rest from)
{
	struct plan plan = { .cost = INFINITY };
	u32 k;

	for (k = 0; p->sleeping >> k; k++)
		if (p->sleeping >> k & 1)
			take_better(&plan, cost_until(p, k, from,
						      (struct rest){ 0 }),
				    k, true);
	return plan;
}

/* That, or one state until the next tick and what is best then. */
static struct plan sleep(const struct planner *p, struct rest from)
{
	struct plan plan = sleep_through(p, from);
	u32 k;

	for (k = 0; p->ticks && p->sleeping >> k; k++)
		if (p->sleeping >> k & 1)
			take_better(&plan, cost_until(p, k, from, p->tick[k]) +
				    p->after_tick[k], k, false);
	return plan;
}

/* Sleep through, or until the next of the ticks, from which on it costs so. */
static double cost_from(const struct planner *p, struct rest from,
			struct rest tick, double cost)
{
	struct plan plan = sleep_through(p, from);
	u32 k;

	for (k = 0; p->sleeping >> k; k++)
		if (p->sleeping >> k & 1)
			take_better(&plan, cost + cost_until(p, k, from, tick),
				    k, false);
	return plan.cost;
}

/* From the last tick in sight back to the next one, which is at @tick_ns. */
static void look_at_ticks(struct planner *p, double tick_ns)
{
	double period_ns = p->machine->tick_ns;
	struct rest later = rp_outlook_rest(p->outlook,
					    tick_ns + TICKS * period_ns);
	double cost = sleep_through(p, later).cost;
	u32 i, k;

	for (i = TICKS; --i;) {
		struct rest tick = rp_outlook_rest(p->outlook,
						   tick_ns + i * period_ns);

		cost = cost_from(p, tick, later, cost);
		later = tick;
	}
	/* Of the next tick it counts when the CPU is awake again, too. */
	for (k = 0; p->sleeping >> k; k++) {
		double awake_ns = HANDLER_NS +
				  p->machine->states[k].exit_latency_ns;

		p->tick[k] = rp_outlook_rest(p->outlook, tick_ns + awake_ns);
		p->after_tick[k] = awake_ns < period_ns ?
				   cost_from(p, p->tick[k], later, cost) :
				   sleep_through(p, p->tick[k]).cost;
	}
	p->ticks = true;
}

/* Polls one after the other, or sleep at once. */
static struct plan poll(const struct planner *p, u32 k, double now_ns,
			double limit_ns, double last_ns)
{
	struct rest rest, next;
	struct plan plan;
	u32 i = 0;

	/* The last poll may go on beyond the tick or until the timer. */
	while (i < POLLS && now_ns + i * limit_ns < last_ns)
		i++;
	next = rp_outlook_rest(p->outlook, now_ns + i * limit_ns);
	plan = now_ns + i * limit_ns < last_ns ? sleep(p, next) :
						 sleep_through(p, next);
	while (i--) {
		double later = plan.cost;

		rest = rp_outlook_rest(p->outlook, now_ns + i * limit_ns);
		plan = sleep(p, rest);
		take_better(&plan, later + cost_until(p, k, rest, next), k,
			    false);
		next = rest;
	}
	return plan;
}

static void allow(struct planner *p, const struct cil_query *query)
{
	const struct cil_machine *m = p->machine;
	u32 k;

	for (k = 0; k < m->state_count; k++) {
		if (cil_disabled(query, k) ||
		    (k && m->states[k].exit_latency_ns > query->latency_req_ns))
			continue;
		if (m->states[k].polling)
			p->polling |= 1u << k;
		else
			p->sleeping |= 1u << k;
	}
}

/* ---- The policy ---- */

/* Times that something has made up must not overflow. */
static s64 sane(u64 ns)
{
	return ns < LONGEST_NS ? (s64)ns : LONGEST_NS;
}

/* Begin an interval, or go on with it; the timer may be another one by now. */
static double resume(struct bayes *b, struct cil_query *query)
{
	s64 timer_ns = cil_sleep_length(query);
	s64 elapsed_ns;

	b->decided_ns = query->now_ns;
	if (!b->going_on)
		b->start_ns = query->now_ns;
	elapsed_ns = sane(query->now_ns - b->start_ns);
	/* A timer that was due and did not wake the CPU tells nothing. */
	timer_ns = elapsed_ns + (timer_ns > 0 ? sane(timer_ns) : LONGEST_NS);
	if (!b->going_on || timer_ns != b->forecast.timer_ns)
		rp_outlook_predict(&b->forecast, timer_ns);
	b->going_on = false;
	return (double)elapsed_ns;
}

static struct plan make_plan(struct bayes *b, struct planner *p,
			     const struct cil_query *query, double now_ns)
{
	double last_ns = (double)b->forecast.timer_ns;
	struct rest rest = rp_outlook_rest(p->outlook, now_ns);

	if (!query->tick_stopped &&
	    query->delta_tick_ns < query->sleep_length_ns) {
		last_ns = now_ns + query->delta_tick_ns;
		look_at_ticks(p, last_ns);
	}
	/* Longer than anything known: as long again, or until the timer. */
	if (rest.share < FORLORN) {
		rest.share = 1;
		rest.ns = fmin(now_ns, b->forecast.timer_ns - now_ns);
		return sleep_through(p, rest);
	}
	if (!p->polling)
		return sleep(p, rest);
	return poll(p, __builtin_ctz(p->polling), now_ns, b->poll_limit_ns,
		    last_ns);
}

static void bayes_select(void *state, const struct cil_machine *machine,
			 const void *tunables, struct cil_query *query,
			 struct cil_decision *decision)
{
	struct bayes *b = state;
	struct planner p = {
		.machine = machine,
		.model = rp_now.model,
		.outlook = &b->forecast.outlook,
	};
	double now_ns = resume(b, query);
	struct plan plan = { 0 };

	allow(&p, query);
	if (p.sleeping)
		plan = make_plan(b, &p, query, now_ns);
	else if (p.polling)
		plan.index = __builtin_ctz(p.polling);
	decision->index = (u8)plan.index;
	decision->stop_tick = plan.stop_tick;
	decision->row = CIL_ROW_NONE;
	decision->reason = RP_REASON_BAYES;
}

static void bayes_update(void *state, const struct cil_machine *machine,
			 const void *tunables,
			 const struct cil_outcome *outcome)
{
	struct bayes *b = state;
	const struct cil_state *s = &machine->states[outcome->index];
	u64 back_ns = b->decided_ns + outcome->residency_ns;
	s64 slept_ns = cil_stay_ns(sane(outcome->residency_ns),
				   s->exit_latency_ns);

	if (slept_ns < 1)
		slept_ns = 1;
	if (outcome->poll_time_limit)
		b->poll_limit_ns = (double)slept_ns;
	b->going_on = (outcome->poll_time_limit ||
		       (outcome->tick_wakeup && !s->polling)) &&
		      outcome->now_ns - back_ns <= RESUME_NS;
	if (!b->going_on)
		rp_outlook_learn(&b->forecast,
				 sane(b->decided_ns - b->start_ns) + slept_ns);
}

static void bayes_init(void *state, const struct cil_machine *machine,
		       const void *tunables)
{
	struct bayes *b = state;

	memset(b, 0, sizeof(*b));
	rp_outlook_init(&b->forecast);
	b->poll_limit_ns = POLL_GUESS_NS;
}

const struct cil_policy bayes_policy = {
	.name = "bayes",
	.state_size = sizeof(struct bayes),
	.init = bayes_init,
	.select = bayes_select,
	.update = bayes_update,
};
