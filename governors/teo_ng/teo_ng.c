// SPDX-License-Identifier: GPL-2.0
/*
 * teo_ng - decide by the next timer, and by how often it was beaten
 */

/**
 * DOC: teo_ng
 *
 * This is the algorithm of the kernel's timer events oriented governor (TEO)
 * as of Linux 7.2. Given the same idle periods it makes the same decisions.
 *
 * **Observation.** Most idle periods end by a timer, and the time to the next
 * timer event, the *sleep length*, is known beforehand. Whatever else wakes
 * the CPU can only come earlier. But the sleep length is costly to ask for,
 * and on a CPU that is woken by interrupts or by other CPUs it says little.
 *
 * **Consequence.** It is enough to remember how often the timer was right and,
 * where it was not, how long the CPU really slept. Where short idle periods
 * are the rule, the question about the timer can be left out.
 *
 * **What is remembered.** Time is divided into bins. *Bin* k begins at the
 * target residency of idle state k and ends where bin k + 1 begins. Bin 0
 * begins at zero and the last one never ends. Every idle period that is over
 * counts as one of two things:
 *
 * - a *hit*, if the CPU slept about as long as the sleep length promised. It
 *   counts in the bin of the sleep length;
 * - an *intercept*, if it was woken before. It counts in the bin of the *idle
 *   duration*, that is the measured residency less half of the exit latency.
 *   The latency is a worst case, and half of it is a fair guess at the time
 *   that the wake-up took.
 *
 * If the sleep length was not asked for it counts as infinite, so such an idle
 * period is an intercept unless it was endless itself. If the polling state
 * gave up, something much longer may have been missed: the idle duration counts
 * as infinite.
 *
 * A wake-up by the tick says only that the tick was kept. Where ticks make up
 * more than two thirds of all wake-ups, it counts as a hit of the deepest
 * state. So the tick will be stopped. Otherwise it counts as a hit in the bin
 * of the sleep length. But if intercepts within a tick period make up two
 * thirds of all, one of them probably just missed the tick. Then it counts as
 * other wake-ups do.
 *
 * Three more numbers are kept: *tick wake-ups*, *tick intercepts* and *short
 * idles*. Tick intercepts are intercepts within a tick period. Short idles are
 * idle periods that ended within the exit latency or within
 * %CIL_RESIDENCY_THRESHOLD_NS.
 *
 * Each of these numbers is a *metric*. It loses one eighth of itself at every
 * idle period, and gains %PULSE when the event that it counts has happened. So
 * it follows the last dozen or so of periods, and never exceeds 8 * %PULSE plus
 * rounding.
 *
 * **Choosing a state.** The steps in the order of the code; each takes the
 * *candidate* over from the step before.
 *
 * 1. The candidate is the deepest enabled state. With no state enabled state 0
 *    is used and the tick is kept; with one enabled, that one is the answer.
 *    Hits and intercepts in the bins below the candidate are summed, and the
 *    *peak*, the bin with the most intercepts, is noted.
 *
 * 2. If intercepts below the candidate outweigh everything at and above it, the
 *    candidate would be too deep most of the time. The bins below are added up
 *    from the top. The new candidate is the first enabled state, not deeper
 *    than the peak, at which more than half of these intercepts are reached.
 *
 * 3. The candidate must not be deeper than the deepest enabled state whose exit
 *    latency is within the latency request. If none is, state 0 is used, even
 *    if it is disabled. Its latency is the least, and a promise about latency
 *    is kept first.
 *
 * 4. The timer need not be asked if three things hold. The candidate is
 *    shallow: state 0 or a target residency below %CIL_RESIDENCY_THRESHOLD_NS.
 *    The tick is still running and will correct an error soon. Short idles make
 *    up half of all idle periods, or the latency request is below
 *    %LATENCY_THRESHOLD_NS, which leaves nothing to choose from. Then the
 *    candidate is used and the tick is kept.
 *
 * 5. Otherwise the sleep length is read. A shallow candidate has a target
 *    residency within a tick period. If the tick is stopped and the timer is
 *    more than two tick periods away, nothing would soon correct it. The
 *    deepest state takes its place that is enabled, within the latency request
 *    and within the sleep length.
 *
 * 6. If the candidate is state 0 it is used and the tick is kept.
 *
 * 7. If the timer comes before the candidate pays off, the deepest enabled
 *    state that does pay off takes its place (or the shallowest enabled one).
 *
 * 8. The tick may be stopped if the expected idle duration is at least a tick
 *    period and the candidate does not poll. The duration expected is the sleep
 *    length. It is half a tick period if tick intercepts make up two thirds of
 *    all and the candidate pays off within a tick period. If the tick is kept,
 *    it is the first timer to come. The candidate must pay off until then,
 *    otherwise a shallower state is found as in step 7.
 *
 * The reason given with a decision names the last step that moved the
 * candidate, or step 4 where it ended the search.
 */

#include "teo_ng.h"

/*
 * Latency requests below this allow only states so shallow that the sleep
 * length would not change the choice.
 */
#define LATENCY_THRESHOLD_NS	(CIL_RESIDENCY_THRESHOLD_NS / 2)

/*
 * One idle period adds so much to a metric. The eighths taken away are exact
 * for a while, and sums over all bins, times three, stay far below 32 bits.
 */
#define PULSE		1024

/* One eighth is lost at every idle period: half is forgotten after five. */
#define DECAY_SHIFT	3

/**
 * struct candidate - the state of a search
 * @index: the idle state that will be used unless a later step disagrees
 * @reason: the step that made it the candidate
 * @enabled: number of enabled states
 * @first: shallowest enabled state
 * @limit: deepest enabled state within the latency request, else 0
 * @peak: bin with the most intercepts, the deeper one of equals; the last bin
 *	does not count, as no state has it below itself
 * @hits_below: hits in the bins below the deepest enabled state
 * @intercepts_below: intercepts in these bins
 */
struct candidate {
	u32 index;
	enum cil_reason reason;
	u32 enabled;
	u32 first;
	u32 limit;
	u32 peak;
	u32 hits_below;
	u32 intercepts_below;
};

static void move_to(struct candidate *c, u32 index, enum cil_reason reason)
{
	if (c->index == index)
		return;
	c->index = index;
	c->reason = reason;
}

static s64 teo_ng_residency(const struct cil_machine *machine, u32 index)
{
	return machine->states[index].target_residency_ns;
}

/* Step 1. */
static struct candidate survey(const struct teo_ng *teo,
			       const struct cil_machine *machine,
			       const struct cil_query *query)
{
	struct candidate c = { .reason = CIL_REASON_TEO_DEEPEST };
	u32 hits = 0, intercepts = 0, most = 0;
	u32 i;

	for (i = 0; i < machine->state_count; i++) {
		const struct teo_ng_bin *bin = &teo->bins[i];

		if (!cil_disabled(query, i)) {
			if (!c.enabled++)
				c.first = i;
			c.index = i;
			c.hits_below = hits;
			c.intercepts_below = intercepts;
			if (machine->states[i].exit_latency_ns <=
			    query->latency_req_ns)
				c.limit = i;
		}

		hits += bin->hits;
		intercepts += bin->intercepts;
		if (bin->intercepts >= most && i + 1 < machine->state_count) {
			most = bin->intercepts;
			c.peak = i;
		}
	}
	return c;
}

/* Step 2. */
static void follow_intercepts(const struct teo_ng *teo,
			      const struct cil_query *query,
			      struct candidate *c)
{
	u32 sum = 0, index = c->index;
	u32 i;

	if (2 * c->intercepts_below <= teo->total - c->hits_below)
		return;

	for (i = c->index; i-- > c->first;) {
		sum += teo->bins[i].intercepts;
		if (cil_disabled(query, i))
			continue;

		index = i;
		if (2 * sum > c->intercepts_below && i <= c->peak)
			break;
	}
	move_to(c, index, CIL_REASON_TEO_INTERCEPTS);
}

/* Step 3. */
static void limit_latency(struct candidate *c)
{
	if (c->index > c->limit)
		move_to(c, c->limit, CIL_REASON_TEO_LATENCY);
}

/* Step 4. */
static bool timer_is_irrelevant(const struct teo_ng *teo,
				const struct cil_machine *machine,
				const struct cil_query *query,
				const struct candidate *c)
{
	bool shallow = !c->index || teo_ng_residency(machine, c->index) <
				    CIL_RESIDENCY_THRESHOLD_NS;

	return shallow && !query->tick_stopped &&
	       (2 * teo->short_idles >= teo->total ||
		query->latency_req_ns < LATENCY_THRESHOLD_NS);
}

/* Step 5. */
static bool may_get_stuck(const struct cil_machine *machine,
			  const struct cil_query *query,
			  const struct candidate *c)
{
	return query->tick_stopped &&
	       query->sleep_length_ns > 2 * machine->tick_ns &&
	       teo_ng_residency(machine, c->index) < machine->tick_ns;
}

static void go_deeper(const struct cil_machine *machine,
		      const struct cil_query *query, struct candidate *c)
{
	u32 i;

	for (i = c->limit; i > c->index; i--) {
		if (cil_disabled(query, i))
			continue;
		if (teo_ng_residency(machine, i) <= query->sleep_length_ns) {
			move_to(c, i, CIL_REASON_TEO_UNSTICK);
			return;
		}
	}
}

/* Steps 7 and 8. */
static void fit_into(const struct cil_machine *machine,
		     const struct cil_query *query, s64 duration_ns,
		     enum cil_reason reason, struct candidate *c)
{
	u32 index = c->index;
	u32 i;

	if (teo_ng_residency(machine, index) <= duration_ns)
		return;

	for (i = index; i-- > 0;) {
		if (cil_disabled(query, i))
			continue;

		index = i;
		if (teo_ng_residency(machine, i) <= duration_ns)
			break;
	}
	move_to(c, index, reason);
}

/* Step 8, the expectation. */
static s64 expected_duration(const struct teo_ng *teo,
			     const struct cil_machine *machine,
			     const struct cil_query *query,
			     const struct candidate *c)
{
	if (teo_ng_residency(machine, c->index) < machine->tick_ns &&
	    3 * teo->tick_intercepts >= 2 * teo->total)
		return machine->tick_ns / 2;
	return query->sleep_length_ns;
}

/* Step 8, the consequence; also the answer if one state is enabled. */
static bool may_stop_tick(const struct cil_machine *machine,
			  const struct cil_query *query, s64 duration_ns,
			  const struct candidate *c)
{
	return query->tick_stopped ||
	       (!machine->states[c->index].polling &&
		duration_ns >= machine->tick_ns);
}

/* Steps 5 to 8. Returns whether the tick may be stopped. */
static bool search_with_timer(struct teo_ng *teo,
			      const struct cil_machine *machine,
			      struct cil_query *query, struct candidate *c)
{
	teo->sleep_length_ns = cil_sleep_length(query);

	if (may_get_stuck(machine, query, c)) {
		go_deeper(machine, query, c);
		return true;
	}

	if (!c->index)
		return false;

	fit_into(machine, query, query->sleep_length_ns,
		 CIL_REASON_TEO_TIMER, c);

	if (may_stop_tick(machine, query,
			  expected_duration(teo, machine, query, c), c))
		return true;

	fit_into(machine, query, query->delta_tick_ns, CIL_REASON_TEO_TICK, c);
	return false;
}

/* All steps. Returns whether the tick may be stopped. */
static bool search(struct teo_ng *teo, const struct cil_machine *machine,
		   struct cil_query *query, struct candidate *c)
{
	*c = survey(teo, machine, query);

	if (c->enabled == 0) {
		c->reason = CIL_REASON_NO_STATE;
		return false;
	}
	if (c->enabled == 1) {
		c->reason = CIL_REASON_ONE_STATE;
		return may_stop_tick(machine, query,
				     teo_ng_residency(machine, c->index), c);
	}

	follow_intercepts(teo, query, c);
	limit_latency(c);

	if (timer_is_irrelevant(teo, machine, query, c)) {
		c->reason = CIL_REASON_TEO_SHALLOW;
		return false;
	}
	return search_with_timer(teo, machine, query, c);
}

/**
 * teo_ng_init() - start learning afresh
 * @teo: what is remembered, in any condition
 *
 * Context: any.
 */
void teo_ng_init(struct teo_ng *teo)
{
	memset(teo, 0, sizeof(*teo));
}

/**
 * teo_ng_select() - choose an idle state
 * @teo: what is remembered
 * @machine: the idle states
 * @query: what is known
 * @decision: every member is set
 *
 * Context: any.
 */
void teo_ng_select(struct teo_ng *teo, const struct cil_machine *machine,
		   struct cil_query *query, struct cil_decision *decision)
{
	struct candidate c;

	teo->sleep_length_ns = CIL_TIME_MAX;

	decision->stop_tick = search(teo, machine, query, &c);
	decision->index = (u8)c.index;
	decision->row = CIL_ROW_NONE;
	decision->reason = (u8)c.reason;
}

static void decay(u32 *metric)
{
	u32 loss = *metric >> DECAY_SHIFT;

	/* Too small to lose an eighth: it would never reach zero. */
	*metric = loss ? *metric - loss : 0;
}

static u32 decay_bins(struct teo_ng *teo, u32 count)
{
	u32 sum = 0;
	u32 i;

	for (i = 0; i < count; i++) {
		struct teo_ng_bin *bin = &teo->bins[i];

		decay(&bin->hits);
		decay(&bin->intercepts);
		sum += bin->hits + bin->intercepts;
	}
	return sum;
}

/* The last state in the driver's order, so that any order is defined. */
static u32 bin_of(const struct cil_machine *machine, s64 duration_ns)
{
	u32 bin = 0;
	u32 i;

	for (i = 0; i < machine->state_count; i++) {
		if (teo_ng_residency(machine, i) <= duration_ns)
			bin = i;
	}
	return bin;
}

/* The idle duration; short ones are counted on the way. */
static s64 teo_ng_duration(struct teo_ng *teo, s64 exit_latency_ns,
			   const struct cil_outcome *outcome)
{
	s64 residency_ns = (s64)outcome->residency_ns;
	bool complete = residency_ns >= exit_latency_ns;
	s64 duration_ns;

	decay(&teo->short_idles);

	if (outcome->poll_time_limit)
		return CIL_TIME_MAX;

	/* Woken on the way in: how much of it was the way out is unknown. */
	duration_ns = complete ? residency_ns - exit_latency_ns / 2 :
				 residency_ns / 2;
	if (!complete || duration_ns < CIL_RESIDENCY_THRESHOLD_NS)
		teo->short_idles += PULSE;
	return duration_ns;
}

/* Was the tick to blame, and the wake-up counted as a hit for that? */
static bool count_tick(struct teo_ng *teo, const struct cil_machine *machine,
		       const struct cil_outcome *outcome, u32 timer_bin,
		       u32 old_total)
{
	decay(&teo->tick_intercepts);
	decay(&teo->tick_wakeups);
	if (!outcome->tick_wakeup)
		return false;

	teo->tick_wakeups += PULSE;
	if (3 * teo->tick_wakeups > 2 * teo->total)
		teo->bins[machine->state_count - 1].hits += PULSE;
	else if (3 * teo->tick_intercepts < 2 * old_total)
		teo->bins[timer_bin].hits += PULSE;
	else
		return false;
	return true;
}

static void count_intercept(struct teo_ng *teo,
			    const struct cil_machine *machine, u32 bin,
			    s64 duration_ns)
{
	teo->bins[bin].intercepts += PULSE;
	if (duration_ns <= machine->tick_ns)
		teo->tick_intercepts += PULSE;
}

/**
 * teo_ng_update() - learn from an idle period
 * @teo: what is remembered
 * @machine: the idle states
 * @outcome: what became of the last decision
 *
 * Context: any.
 */
void teo_ng_update(struct teo_ng *teo, const struct cil_machine *machine,
		   const struct cil_outcome *outcome)
{
	s64 exit_latency_ns = machine->states[outcome->index].exit_latency_ns;
	s64 duration_ns = teo_ng_duration(teo, exit_latency_ns, outcome);
	s64 sleep_length_ns = teo->sleep_length_ns;
	u32 timer_bin = bin_of(machine, sleep_length_ns);
	u32 bin = bin_of(machine, duration_ns < sleep_length_ns ?
				  duration_ns : sleep_length_ns);
	u32 old_total = decay_bins(teo, machine->state_count);
	s64 early_ns;

	teo->total = old_total + PULSE;

	if (count_tick(teo, machine, outcome, timer_bin, old_total))
		return;

	/* A timer may be overdue by then, so this may wrap. */
	early_ns = (s64)((u64)sleep_length_ns - (u64)duration_ns);

	if (bin == timer_bin && early_ns < exit_latency_ns / 2)
		teo->bins[timer_bin].hits += PULSE;
	else
		count_intercept(teo, machine, bin, duration_ns);
}

/**
 * teo_ng_dump() - print what is remembered
 * @teo: what is remembered
 * @machine: the idle states
 * @sink: where to
 *
 * Context: any that @sink can print in.
 */
void teo_ng_dump(const struct teo_ng *teo, const struct cil_machine *machine,
		 struct cil_sink *sink)
{
	u32 i;

	cil_env_print(sink, "state  bin begins at (ns)        hits  intercepts\n");
	for (i = 0; i < machine->state_count; i++)
		cil_env_print(sink, "%5u  %18lld  %10u  %10u\n", i,
			      (long long)teo_ng_residency(machine, i),
			      teo->bins[i].hits, teo->bins[i].intercepts);
	cil_env_print(sink, "total            %u\n", teo->total);
	cil_env_print(sink, "tick wake-ups    %u\n", teo->tick_wakeups);
	cil_env_print(sink, "tick intercepts  %u\n", teo->tick_intercepts);
	cil_env_print(sink, "short idles      %u\n", teo->short_idles);
}

static void teo_ng_policy_init(void *state, const struct cil_machine *machine,
			       const void *tunables)
{
	(void)machine;
	(void)tunables;
	teo_ng_init(state);
}

static void teo_ng_policy_select(void *state, const struct cil_machine *machine,
				 const void *tunables, struct cil_query *query,
				 struct cil_decision *decision)
{
	(void)tunables;
	teo_ng_select(state, machine, query, decision);
}

static void teo_ng_policy_update(void *state, const struct cil_machine *machine,
				 const void *tunables,
				 const struct cil_outcome *outcome)
{
	(void)tunables;
	teo_ng_update(state, machine, outcome);
}

static void teo_ng_policy_dump(const void *state,
			       const struct cil_machine *machine,
			       const void *tunables, u64 now_ns,
			       struct cil_sink *sink)
{
	(void)tunables;
	(void)now_ns;
	teo_ng_dump(state, machine, sink);
}

const struct cil_policy teo_ng_policy = {
	.name = "teo_ng",
	.state_size = sizeof(struct teo_ng),
	.init = teo_ng_policy_init,
	.select = teo_ng_policy_select,
	.update = teo_ng_policy_update,
	.dump = teo_ng_policy_dump,
};
