// SPDX-License-Identifier: GPL-2.0
/*
 * wteo - TEO, corrected by what followed its choices
 */

/**
 * DOC: wteo
 *
 * **Observation.** The timer events oriented governor (TEO, here teo_ng)
 * expects what happened in the majority of recent cases. But what an idle
 * state costs is not decided by the majority. Where nine of ten idle periods
 * last 30 us and the tenth 20 ms, the tenth decides about the energy; where
 * two of three wake-ups are late, the deepest state may still be too dear.
 * And TEO does not ask how its own choices turned out: the same mistake can
 * be made for ever.
 *
 * **Consequence.** Given how often each duration follows a choice of TEO, the
 * state of least *expected* cost can be computed, shallower or deeper than
 * TEO's. The cost of state k for a duration d is E_k + P_k * d, see
 * common/energy.h. It is linear in d, so as long as the CPU sleeps through,
 * all that matters is the mean. What makes the distribution matter is that the
 * governor can be asked again: if the tick is left running and the CPU is
 * still idle when it comes, short durations are ruled out by then. Keeping the
 * tick buys this second decision and pays for one more wake-up.
 *
 * **What is learned.** An *interval* begins with a decision and ends when
 * something other than the governor's own doing wakes the CPU. The tick that
 * was left running and a polling state whose time is over are its own doing:
 * they wake the CPU only because the governor let them, and learning from them
 * would teach it its own habits. The interval then goes on with the next
 * decision, unless that comes more than %RESUME_NS after the wake-up: then a
 * task ran in between, and the tick had brought work. An interval is learned
 * once, at its end.
 *
 * The *column* of an interval is the deepest state whose target residency is
 * within its duration. As with TEO, half of the exit latency is not part of the
 * duration. The *row* of an interval is the state that TEO's logic chose at
 * the decision that began it: TEO's choice stands for all that TEO knows.
 *
 * **The data.** For n states an n x n matrix is kept for each CPU. Its cell
 * (row, column) has a *weight*, the share of the row's intervals that fit the
 * column, and a *time*, what these intervals contribute to the mean duration
 * in the row; time / weight is the mean duration in the cell. The weights of a
 * row sum to exactly one, %CIL_ONE. At the start, a row has all weight in the
 * column of the same number: TEO is right.
 *
 * - *Learning.* The column that happened gains learning_rate of what it lacks
 *   to one; each other one gives up that part of itself. So a row is a mean of
 *   its intervals in which the influence of each fades.
 * - *Aging.* A row that learns nothing relaxes to its start with half-life
 *   half_life_ms. Its present value is computed from the value at its last
 *   learning and the time since then, and written back by learning only, so
 *   that looking at it changes nothing.
 * - *Evidence* counts the intervals of a row; it ages in the same way.
 * - The *timer share* is the share of the row's intervals that ended by the
 *   timer that was known when the state was chosen. Such an interval says
 *   little about durations in general: it would have been longer with a later
 *   timer. Timers of changing lengths would look like noise without it.
 * - With row_context there is a second set of rows for each column of the
 *   interval before, the *keyed* rows. Idle intervals come in patterns, and
 *   the column before is the least that can tell where in the pattern one is.
 *
 * **Choosing a state.** The steps in the order of the code:
 *
 * 1. TEO chooses. Where it had no choice (one state enabled or none), and with
 *    selection=off, its answer is final.
 *
 * 2. The row is that of the interval in progress, or TEO's choice if this
 *    decision begins an interval.
 *
 * 3. If history_size is not 0, TEO's answer is final unless more than half of
 *    the last history_size intervals were shorter than the target residency of
 *    its choice, as in the patch of 2020: TEO is asked to err first.
 *
 * 4. With selection=sample, the answer is drawn by lot: a column by its weight
 *    in the aged row. The answer is TEO's unless the column is shallower, so
 *    this can only correct choices that are too deep. A column that must not
 *    be used counts for the next shallower one. This is what the patch of 2020
 *    meant to do.
 *
 * 5. With selection=expected, the keyed row is consulted if its evidence is at
 *    least %KEYED_EVIDENCE, else the row itself. With less evidence than
 *    %ROW_EVIDENCE TEO's answer is final.
 *
 * 6. The *outlook* is computed from the aged row: the expected time till the
 *    interval ends, how much of it is before the next tick, and the *late*
 *    share of intervals that will last beyond that. For the timer share the
 *    duration is the sleep length. If this decision resumes an interval,
 *    columns that are over by now are left out, and the time that has passed
 *    is taken off the others: the longer the CPU has been idle, the more weight
 *    the long columns have. If hardly any column is left, the interval is
 *    expected to last as long again as it has lasted already. One in
 *    four thousand is taken to last until the timer.
 *
 * 7. If TEO did without the sleep length but the outlook is not as short, the
 *    sleep length is asked for and step 6 is repeated with it.
 *
 * 8. Of the states that are enabled, within the latency request and within
 *    the sleep length, two are found: the cheapest *with the tick stopped*,
 *    and the cheapest *until the tick*, which must also pay off by then.
 *    The latter is followed, in the late share of cases, by another wake-up
 *    and the cheapest state for what is left of the interval.
 *
 * 9. The tick is stopped if the former plan is cheaper and at least one in
 *    %LATE_PART intervals is late; otherwise the tick is not in the way. A
 *    polling state never stops it. Where no state allows the better plan, TEO's
 *    answer is final. If the tick is stopped already, there is but the first
 *    plan. If that leads to a state that pays within a tick period, and the
 *    timer is more than two tick periods away, TEO's answer is final, because
 *    nothing would correct a mistake soon.
 */

#include "wteo.h"

/*
 * A tick's handler takes some microseconds, on slow machines some tens. If the
 * next decision comes later than this, a task must have run.
 */
#define RESUME_NS	(100 * CIL_NSEC_PER_USEC)

/*
 * A row that has learned four intervals at the default rate has given up a
 * fifth of its start: enough to notice what is badly wrong, and the other four
 * fifths still vote for TEO.
 */
#define ROW_EVIDENCE	(4 * WTEO_EVIDENCE_ONE)

/* At the default rate, sixteen intervals replace more than half of a row. */
#define KEYED_EVIDENCE	(16 * WTEO_EVIDENCE_ONE)

/*
 * Stopping the tick means to program the timer twice; leaving it means to run
 * its handler. Each is taken to cost as much as two microseconds at full power.
 */
#define TICK_COST_NS	2000

/*
 * The cost model knows nothing of the work that a stopped tick makes for other
 * CPUs, so it is not stopped to avoid what is improbable anyway.
 */
#define LATE_PART	4

/*
 * As long as the tick can still be kept, one interval in four thousand is taken
 * to last until the timer whatever the row says: what happens so rarely has no
 * weight in a row, and a shallow state with the tick stopped would be a trap.
 */
#define UNSEEN_SHARE	(CIL_ONE >> 12)

/*
 * Timers end intervals that are about as long as the row knows them. One that
 * is much further away will not be waited for: four times the mean duration
 * covers bins that are a decade wide.
 */
#define TIMER_REACH	4

/*
 * An interval that outlasts all but less than one in a hundred of its row is
 * of a kind that the row does not know.
 */
#define KNOWN_SHARE	(CIL_ONE >> 7)

/* Times in an outlook are products of a share and a duration. */
#define PRODUCT_SHIFT	(30 - CIL_TIME_SHIFT)

/**
 * struct horizon - what bounds an interval
 * @elapsed_ns: how much of it is over
 * @timer_ns: time to the next timer without the tick
 * @tick_ns: time to the next timer or tick
 */
struct horizon {
	u32 elapsed_ns;
	u32 timer_ns;
	u32 tick_ns;
};

/**
 * struct outlook - what is expected of an interval
 * @share: weight of the columns that are possible, of CIL_ONE
 * @late: weight of those that last beyond the tick
 * @time: expected time to the end, in quarters of a ns, times @share
 * @early_time: the part of @time before the tick
 */
struct outlook {
	u32 share;
	u32 late;
	u32 time;
	u32 early_time;
};

/**
 * struct plan - the cheapest of some states
 * @cost: its expected cost, U64_MAX if there is none
 * @index: the state
 */
struct plan {
	u64 cost;
	u32 index;
};

static s64 target_residency(const struct cil_machine *machine, u32 index)
{
	return machine->states[index].target_residency_ns;
}

static u32 duration(s64 time_ns)
{
	return (u32)cil_clamp(time_ns, 0, CIL_DURATION_MAX);
}

/* An unsigned time from outside, on which signed arithmetic is safe. */
static s64 sane(u64 time_ns)
{
	return time_ns < CIL_TIME_MAX / 2 ? (s64)time_ns : CIL_TIME_MAX / 2;
}

static u32 row_number(const struct cil_machine *machine, u32 block, u32 row)
{
	return block * machine->state_count + row;
}

static bool is_usable(const struct cil_machine *machine,
		      const struct cil_query *query, u32 index)
{
	return !cil_disabled(query, index) &&
	       machine->states[index].exit_latency_ns <= query->latency_req_ns;
}

/* Would nothing soon correct a state that turns out to be too shallow? */
static bool may_get_stuck(const struct cil_machine *machine,
			  const struct cil_query *query, u32 index)
{
	return query->tick_stopped &&
	       query->sleep_length_ns > 2 * machine->tick_ns &&
	       target_residency(machine, index) < machine->tick_ns;
}

/* Step 3. */
static bool is_window_short(const struct wteo *w, u32 size, u32 choice)
{
	u32 shorter = 0;
	u32 k;

	if (!size)
		return true;
	if (size != w->window.size)
		return false;
	for (k = 0; k < choice; k++)
		shorter += w->window.count[k];
	return 2 * shorter > size;
}

/* Step 4: the state for a drawn column, at most TEO's choice. */
static u32 draw_state(const struct cil_machine *machine,
		      const struct cil_query *query,
		      const struct wteo_cell *row, u32 choice, u32 lot)
{
	u32 best = choice;
	bool found = false;
	u32 k;

	for (k = 0; k < choice; k++) {
		if (is_usable(machine, query, k)) {
			best = k;
			found = true;
		}
		if (lot < row[k].weight)
			break;
		lot -= row[k].weight;
	}
	if (k == choice)
		return choice;
	/* The column and all shallower ones are out: as shallow as possible. */
	for (; !found && k < choice; k++) {
		if (is_usable(machine, query, k)) {
			best = k;
			found = true;
		}
	}
	return best;
}

/* Step 4: the deepest state that pays until the tick, if it is kept. */
static u32 fit_into_tick(const struct cil_machine *machine,
			 const struct cil_query *query, u32 index)
{
	u32 best = index;
	u32 k;

	if (!query->asked ||
	    target_residency(machine, index) <= query->delta_tick_ns)
		return index;
	for (k = index; k-- > 0;) {
		if (!is_usable(machine, query, k))
			continue;
		best = k;
		if (target_residency(machine, k) <= query->delta_tick_ns)
			break;
	}
	return best;
}

/* Step 4. */
static void draw(struct wteo *w, const struct cil_machine *machine,
		 const struct wteo_tunables *t, const struct cil_query *query,
		 struct cil_decision *decision)
{
	u32 number = row_number(machine, 0, w->interval.row);
	struct wteo_cell row[CIL_STATE_MAX];
	u32 index;

	if (w->seed != t->seed) {
		w->seed = t->seed;
		w->random = cil_random_seed(t->seed, machine->cpu);
	}
	memcpy(row, w->matrix.cells + number * machine->state_count,
	       machine->state_count * sizeof(*row));
	wteo_row_age(row, machine, w->interval.row,
		     wteo_row_rest(&w->matrix, &w->aging, number,
				   query->now_ns));

	index = draw_state(machine, query, row, decision->index,
			   cil_random(&w->random) >> 2);
	if (may_get_stuck(machine, query, index))
		return;
	if (index != decision->index && !query->tick_stopped &&
	    (machine->states[index].polling ||
	     target_residency(machine, index) < machine->tick_ns)) {
		decision->stop_tick = false;
		index = fit_into_tick(machine, query, index);
	}
	decision->index = (u8)index;
	decision->row = w->interval.row;
	decision->reason = CIL_REASON_WTEO_SAMPLE;
}

/* Step 5: number of the row to consult; its rest, 0 if it knows too little. */
static u32 find_row(const struct wteo *w, const struct cil_machine *machine,
		    const struct wteo_tunables *t, u64 now_ns, u32 *rest)
{
	const struct wteo_matrix *m = &w->matrix;
	u32 row = w->interval.row;
	u32 number;

	if (t->row_context) {
		number = row_number(machine, 1 + w->interval.previous, row);
		*rest = wteo_row_rest(m, &w->aging, number, now_ns);
		if (cil_scale(m->evidence[number], *rest) >= KEYED_EVIDENCE)
			return number;
	}

	number = row_number(machine, 0, row);
	*rest = wteo_row_rest(m, &w->aging, number, now_ns);
	if (cil_scale(m->evidence[number], *rest) < ROW_EVIDENCE)
		*rest = 0;
	return number;
}

/* A share of a duration, as a time of the matrix or of an outlook. */
static u32 product(u32 share, u32 duration_ns)
{
	return (u64)share * duration_ns >> PRODUCT_SHIFT;
}

/* Step 6: some weight, and what it expects, bounded by timer and tick. */
static void expect(struct outlook *o, u32 weight, u32 time,
		   const struct horizon *h)
{
	u32 until_timer = product(weight, h->timer_ns);
	u32 until_tick = product(weight, h->tick_ns);

	if (time > until_timer)
		time = until_timer;
	o->share += weight;
	o->time += time;
	if (time > until_tick) {
		o->late += weight;
		time = until_tick;
	}
	o->early_time += time;
}

/*
 * Step 6: a column of an interval that has lasted for some time already. The
 * last bin never ends: what is left of it does not depend on how long it took.
 * Where more time has passed than the column's mean, few of its intervals are
 * left and they are over soon: a quarter of the weight, and an eighth of what is
 * left of the bin.
 */
static void expect_rest(struct outlook *o, const struct cil_machine *machine,
			u32 column, struct wteo_cell cell,
			const struct horizon *h)
{
	u32 begin_ns = duration(target_residency(machine, column));
	u32 over_ns = h->elapsed_ns;
	u32 end_ns = 2 * begin_ns;
	u32 over, left_ns;

	if (column + 1 < machine->state_count)
		end_ns = duration(target_residency(machine, column + 1));
	else if (over_ns > begin_ns)
		over_ns = begin_ns;
	if (over_ns >= end_ns)
		return;

	over = product(cell.weight, over_ns);
	if (cell.time > over) {
		cell.time -= over;
	} else {
		left_ns = (end_ns - over_ns) / 8;
		cell.weight /= 4;
		cell.time = product(cell.weight, left_ns);
	}
	expect(o, cell.weight, cell.time, h);
}

static struct outlook see_row(const struct wteo_cell *cells,
			      const struct cil_machine *machine,
			      const struct horizon *h)
{
	struct outlook o = { 0 };
	u32 k;

	for (k = 0; k < machine->state_count; k++) {
		if (!cells[k].weight)
			continue;
		if (h->elapsed_ns)
			expect_rest(&o, machine, k, cells[k], h);
		else
			expect(&o, cells[k].weight, cells[k].time, h);
	}
	return o;
}

/* Of a row that was aged, what it had at its start. */
static struct outlook see_start(const struct cil_machine *machine, u32 row,
				const struct horizon *h)
{
	struct wteo_cell cell = {
		.weight = CIL_ONE,
		.time = wteo_start_time(machine, row),
	};
	struct outlook o = { 0 };

	if (h->elapsed_ns)
		expect_rest(&o, machine, row, cell, h);
	else
		expect(&o, cell.weight, cell.time, h);
	return o;
}

/* Step 6: intervals that end by the timer, if it is not out of reach. */
static struct outlook see_timer(const struct wteo_cell *cells,
				const struct cil_machine *machine,
				const struct horizon *h)
{
	u64 reach_ns = (u64)h->elapsed_ns * TIMER_REACH;
	struct outlook o = { 0 };
	u32 k;

	for (k = 0; k < machine->state_count; k++)
		reach_ns += (u64)cells[k].time * TIMER_REACH >> CIL_TIME_SHIFT;
	if (reach_ns > h->timer_ns)
		reach_ns = h->timer_ns;
	expect(&o, CIL_ONE, (u32)reach_ns << CIL_TIME_SHIFT, h);
	return o;
}

static void add(struct outlook *sum, struct outlook part, u32 share)
{
	sum->share += cil_scale(part.share, share);
	sum->late += cil_scale(part.late, share);
	sum->time += cil_scale(part.time, share);
	sum->early_time += cil_scale(part.early_time, share);
}

/* Step 6: the interval of a kind that is too rare to be in a row. */
static void expect_unseen(struct outlook *o, const struct horizon *h)
{
	u32 share = cil_scale(o->share, UNSEEN_SHARE);

	/* Which state is best until the tick is no question of rare ones. */
	o->late += share;
	o->time += product(share, h->timer_ns);
}

/* Step 6. */
static struct outlook look_ahead(const struct wteo *w,
				 const struct cil_machine *machine, u32 number,
				 u32 rest, const struct cil_query *query,
				 const struct horizon *h)
{
	const struct wteo_cell *cells =
		w->matrix.cells + number * machine->state_count;
	struct outlook o = see_row(cells, machine, h);
	u32 timer = (u32)w->matrix.timer[number] << 14;

	if (query->asked && timer) {
		struct outlook sum = { 0 };

		add(&sum, o, CIL_ONE - timer);
		add(&sum, see_timer(cells, machine, h), timer);
		o = sum;
	}
	if (rest != CIL_ONE) {
		struct outlook sum = { 0 };

		add(&sum, o, rest);
		add(&sum, see_start(machine, w->interval.row, h),
		    CIL_ONE - rest);
		o = sum;
	}
	if (o.share < KNOWN_SHARE) {
		o = (struct outlook){ 0 };
		expect(&o, CIL_ONE, h->elapsed_ns << CIL_TIME_SHIFT, h);
	}
	if (query->asked && !query->tick_stopped)
		expect_unseen(&o, h);
	return o;
}

static struct horizon find_horizon(const struct wteo *w,
				   const struct cil_machine *machine,
				   const struct cil_query *query)
{
	struct horizon h = {
		.timer_ns = CIL_DURATION_MAX,
		.tick_ns = duration(machine->tick_ns / 2),
	};

	if (query->now_ns > w->interval.began_ns)
		h.elapsed_ns = duration(sane(query->now_ns -
					     w->interval.began_ns));
	if (query->asked) {
		h.timer_ns = duration(query->sleep_length_ns);
		h.tick_ns = duration(query->delta_tick_ns);
	}
	return h;
}

/* Expected durations are compared as products, to need no division. */
static bool is_longer(const struct outlook *o, s64 duration_ns)
{
	return o->time > product(o->share, duration(duration_ns));
}

/* Two microseconds at full power, times a share. */
static u64 tick_cost(const struct wteo *w, u32 share)
{
	u32 time = product(share, TICK_COST_NS);

	return (u64)w->energy.power[0] * time << 14;
}

/*
 * Step 8: the cheapest usable state that pays within @limit_ns, if the CPU will
 * be in it with probability @share, for @time.
 */
static struct plan cheapest(const struct wteo *w,
			    const struct cil_machine *machine,
			    const struct cil_query *query, u32 share, u32 time,
			    s64 limit_ns, bool may_poll)
{
	struct plan best = { .cost = U64_MAX };
	u32 k;

	for (k = 0; k < machine->state_count; k++) {
		u64 cost;

		if (target_residency(machine, k) > limit_ns ||
		    !is_usable(machine, query, k) ||
		    (machine->states[k].polling && !may_poll))
			continue;
		cost = cil_energy_cost(&w->energy, k, share, time);
		if (cost < best.cost) {
			best.cost = cost;
			best.index = k;
		}
	}
	return best;
}

/* Step 8: the rest of a plan that leaves the tick running. */
static u64 cost_after_tick(const struct wteo *w,
			   const struct cil_machine *machine,
			   const struct cil_query *query,
			   const struct outlook *o, s64 timer_ns)
{
	struct plan after = cheapest(w, machine, query, o->late,
				     o->time - o->early_time, timer_ns, true);

	return after.cost + tick_cost(w, o->late);
}

/* Steps 8 and 9. */
static void choose(const struct wteo *w, const struct cil_machine *machine,
		   const struct cil_query *query, const struct outlook *o,
		   const struct horizon *h, struct cil_decision *decision)
{
	s64 timer_ns = query->asked ? query->sleep_length_ns : CIL_TIME_MAX;
	s64 tick_ns = timer_ns < h->tick_ns ? timer_ns : h->tick_ns;
	struct plan keep = { .cost = U64_MAX };
	struct plan stop = { .cost = U64_MAX };

	if (!query->tick_stopped)
		keep = cheapest(w, machine, query, o->share, o->early_time,
				tick_ns, true);
	if (query->tick_stopped || o->late >= o->share / LATE_PART)
		stop = cheapest(w, machine, query, o->share, o->time,
				timer_ns, query->tick_stopped);

	if (keep.cost != U64_MAX &&
	    (stop.cost == U64_MAX ||
	     keep.cost + cost_after_tick(w, machine, query, o, timer_ns) <=
	     stop.cost + tick_cost(w, o->share))) {
		decision->index = (u8)keep.index;
		decision->stop_tick = false;
		decision->reason = CIL_REASON_WTEO_EXPECTED_TICK;
	} else if (stop.cost != U64_MAX &&
		   !may_get_stuck(machine, query, stop.index)) {
		decision->index = (u8)stop.index;
		decision->stop_tick = true;
		decision->reason = CIL_REASON_WTEO_EXPECTED;
	} else {
		return;
	}
	decision->row = w->interval.row;
}

/* Steps 5 to 9. */
static void minimize(struct wteo *w, const struct cil_machine *machine,
		     const struct wteo_tunables *t, struct cil_query *query,
		     struct cil_decision *decision)
{
	struct outlook o;
	struct horizon h;
	u32 number, rest;

	number = find_row(w, machine, t, query->now_ns, &rest);
	if (!rest)
		return;

	h = find_horizon(w, machine, query);
	o = look_ahead(w, machine, number, rest, query, &h);
	if (!query->asked && is_longer(&o, CIL_RESIDENCY_THRESHOLD_NS)) {
		cil_sleep_length(query);
		h = find_horizon(w, machine, query);
		o = look_ahead(w, machine, number, rest, query, &h);
	}
	choose(w, machine, query, &o, &h, decision);
}

/* Step 2. */
static void enter_interval(struct wteo *w, u64 now_ns, u32 choice)
{
	struct wteo_interval *i = &w->interval;

	if (!i->resumed) {
		i->began_ns = now_ns;
		i->row = (u8)choice;
	}
	i->resumed = false;
	i->open = true;
	i->decided_ns = now_ns;
}

static void wteo_select(void *state, const struct cil_machine *machine,
			const void *tunables, struct cil_query *query,
			struct cil_decision *decision)
{
	const struct wteo_tunables *t = tunables;
	struct wteo *w = state;
	struct wteo_interval *i = &w->interval;

	teo_ng_select(&w->teo, machine, query, decision);
	if (t->selection == WTEO_OFF ||
	    decision->reason == CIL_REASON_NO_STATE ||
	    decision->reason == CIL_REASON_ONE_STATE) {
		i->open = false;
		i->resumed = false;
		return;
	}
	if (w->aging.half_life_ms != t->half_life_ms)
		wteo_aging_init(&w->aging, t->half_life_ms);

	enter_interval(w, query->now_ns, decision->index);
	if (is_window_short(w, t->history_size, decision->index)) {
		if (t->selection == WTEO_SAMPLE)
			draw(w, machine, t, query, decision);
		else
			minimize(w, machine, t, query, decision);
	}
	i->sleep_length_ns = query->asked ? query->sleep_length_ns :
					    CIL_TIME_MAX;
	i->keeps_tick = !query->tick_stopped && !decision->stop_tick;
}

/* Did the wake-up happen only because of what was decided? */
static bool is_own_doing(const struct wteo_interval *i,
			 const struct cil_outcome *outcome)
{
	u64 woke_ns = i->decided_ns + outcome->residency_ns;

	if (outcome->now_ns - woke_ns > RESUME_NS)
		return false;
	if (outcome->poll_time_limit)
		return true;
	return outcome->tick_wakeup && i->keeps_tick &&
	       sane(outcome->residency_ns) < i->sleep_length_ns;
}

static u32 interval_duration(const struct cil_machine *machine,
			     const struct wteo_interval *i,
			     const struct cil_outcome *outcome)
{
	s64 latency_ns = duration(machine->states[outcome->index]
				  .exit_latency_ns);
	s64 slept_ns = sane(outcome->residency_ns);

	if (slept_ns >= latency_ns)
		slept_ns -= latency_ns / 2;
	else
		slept_ns /= 2;
	if (i->decided_ns > i->began_ns)
		slept_ns += sane(i->decided_ns - i->began_ns);
	return duration(slept_ns);
}

static u32 column_of(const struct cil_machine *machine, u32 duration_ns)
{
	u32 column = 0;
	u32 k;

	for (k = 1; k < machine->state_count; k++)
		if (target_residency(machine, k) <= duration_ns)
			column = k;
	return column;
}

static void remember(struct wteo_window *window, u32 size, u32 column)
{
	u8 *oldest;

	if (window->size != size) {
		memset(window, 0, sizeof(*window));
		memset(window->columns, CIL_ROW_NONE, sizeof(window->columns));
		window->size = (u8)size;
	}
	if (!size)
		return;
	oldest = &window->columns[window->next];
	if (*oldest != CIL_ROW_NONE)
		window->count[*oldest]--;
	*oldest = (u8)column;
	window->count[column]++;
	if (++window->next == size)
		window->next = 0;
}

static void wteo_update(void *state, const struct cil_machine *machine,
			const void *tunables, const struct cil_outcome *outcome)
{
	const struct wteo_tunables *t = tunables;
	struct wteo *w = state;
	struct wteo_interval *i = &w->interval;
	struct wteo_lesson lesson;

	teo_ng_update(&w->teo, machine, outcome);
	w->learned = CIL_ROW_NONE;
	if (!i->open)
		return;
	if (is_own_doing(i, outcome)) {
		i->resumed = true;
		return;
	}

	lesson.now_ns = outcome->now_ns;
	lesson.duration_ns = interval_duration(machine, i, outcome);
	lesson.row = i->row;
	lesson.column = column_of(machine, lesson.duration_ns);
	lesson.rate = wteo_rate(t->learning_rate);
	lesson.by_timer = sane(outcome->residency_ns) >= i->sleep_length_ns;

	wteo_matrix_learn(&w->matrix, machine, &w->aging, 0, &lesson);
	if (t->row_context)
		wteo_matrix_learn(&w->matrix, machine, &w->aging,
				  1 + i->previous, &lesson);
	remember(&w->window, t->history_size, lesson.column);
	w->learned = i->row;
	i->previous = (u8)lesson.column;
	i->open = false;
}

static void wteo_init(void *state, const struct cil_machine *machine,
		      const void *tunables)
{
	const struct wteo_tunables *t = tunables;
	struct wteo *w = state;

	memset(w, 0, sizeof(*w));
	teo_ng_init(&w->teo);
	cil_energy_init(&w->energy, machine);
	wteo_aging_init(&w->aging, t->half_life_ms);
	wteo_matrix_init(&w->matrix, machine);
	w->seed = t->seed;
	w->random = cil_random_seed(t->seed, machine->cpu);
	w->learned = CIL_ROW_NONE;
}

static int wteo_row_learned(const void *state,
			    const struct cil_machine *machine,
			    u16 weights[CIL_STATE_MAX])
{
	const struct wteo *w = state;

	if (w->learned == CIL_ROW_NONE)
		return -1;
	wteo_row_view(w->matrix.cells + w->learned * machine->state_count,
		      machine->state_count, weights);
	return w->learned;
}

/* Mean durations of a row in us, "-" where nothing has weight. */
static void dump_means(const struct wteo_cell *cells, u32 columns,
		       struct cil_sink *sink)
{
	u32 k;

	for (k = 0; k < columns; k++) {
		u64 mean_ns = 0;

		if (cells[k].weight)
			mean_ns = cil_divide((u64)cells[k].time <<
						     PRODUCT_SHIFT,
					     cells[k].weight);
		if (mean_ns)
			cil_env_print(sink, " %9llu",
				      (unsigned long long)
				      cil_divide(mean_ns,
						 CIL_NSEC_PER_USEC));
		else
			cil_env_print(sink, " %9s", "-");
	}
}

static void dump_row(const struct wteo *w, const struct cil_machine *machine,
		     u32 number, u64 now_ns, struct cil_sink *sink)
{
	u32 n = machine->state_count;
	u32 rest = wteo_row_rest(&w->matrix, &w->aging, number, now_ns);
	u64 learned_ns = w->matrix.learned_ns[number];
	struct wteo_cell row[CIL_STATE_MAX];
	u16 weights[CIL_STATE_MAX];
	u64 age_ns = 0;
	u32 k;

	if (now_ns > learned_ns && w->matrix.evidence[number])
		age_ns = now_ns - learned_ns;
	memcpy(row, w->matrix.cells + number * n, n * sizeof(*row));
	wteo_row_age(row, machine, number % n, rest);
	wteo_row_view(row, n, weights);

	cil_env_print(sink, "s%-3u", number % n);
	for (k = 0; k < n; k++)
		cil_env_print(sink, " %5u", weights[k]);
	cil_env_print(sink, " | %8u %9llu %5llu |",
		      cil_scale(w->matrix.evidence[number], rest) /
			      WTEO_EVIDENCE_ONE,
		      (unsigned long long)cil_divide(age_ns, CIL_NSEC_PER_MSEC),
		      (unsigned long long)
		      cil_divide((u64)cil_scale(w->matrix.timer[number], rest) *
				 WTEO_VIEW_ONE, WTEO_TIMER_ONE));
	dump_means(row, n, sink);
	cil_env_print(sink, "\n");
}

static void dump_block(const struct wteo *w, const struct cil_machine *machine,
		       u32 block, u64 now_ns, struct cil_sink *sink)
{
	u32 k;

	cil_env_print(sink, "row ");
	for (k = 0; k < machine->state_count; k++)
		cil_env_print(sink, "    s%u", k);
	cil_env_print(sink, " | evidence  age (ms) timer | mean interval (us)\n");
	for (k = 0; k < machine->state_count; k++)
		dump_row(w, machine, row_number(machine, block, k), now_ns,
			 sink);
}

static bool knows_block(const struct wteo *w, const struct cil_machine *machine,
			u32 block)
{
	u32 k;

	for (k = 0; k < machine->state_count; k++)
		if (w->matrix.evidence[row_number(machine, block, k)])
			return true;
	return false;
}

static void wteo_dump(const void *state, const struct cil_machine *machine,
		      const void *tunables, u64 now_ns, struct cil_sink *sink)
{
	const struct wteo *w = state;
	u32 k;

	(void)tunables;
	cil_env_print(sink, "target residency (us):");
	for (k = 0; k < machine->state_count; k++)
		cil_env_print(sink, " s%u=%llu", k,
			      (unsigned long long)
			      cil_divide(duration(target_residency(machine, k)),
					 CIL_NSEC_PER_USEC));
	cil_env_print(sink, "\n\nOf 10000; row: TEO's choice, column: what the interval fitted\n");
	dump_block(w, machine, 0, now_ns, sink);
	for (k = 0; k < machine->state_count; k++) {
		if (!knows_block(w, machine, 1 + k))
			continue;
		cil_env_print(sink, "\nThe same after an interval that fitted s%u\n",
			      k);
		dump_block(w, machine, 1 + k, now_ns, sink);
	}
	cil_env_print(sink, "\nTEO\n");
	teo_ng_dump(&w->teo, machine, sink);
}

static const char *const selection_names[] = {
	[WTEO_OFF] = "off",
	[WTEO_SAMPLE] = "sample",
	[WTEO_EXPECTED] = "expected",
};

static const char *const context_names[] = { "off", "previous" };

static const struct cil_tunable wteo_tunables[] = {
	{
		.name = "learning_rate",
		.unit = "per mille",
		.what = "Part of what it lacks to one that the column that happened gains.",
		.why = "Half of a row is 14 intervals: one in ten shows, a change does soon.",
		.min = 1, .max = 500, .def = 50,
	}, {
		.name = "half_life_ms",
		.unit = "ms",
		.what = "Time in which an untouched row loses half of what it learned; 0: never.",
		.why = "An hour: a load finds its rows again after a pause, not the next day.",
		.min = 0, .max = 86400000, .def = 3600000,
	}, {
		.name = "history_size",
		.unit = "intervals",
		.what = "Most of so many must be too short for TEO's choice; 0: always ask rows.",
		.why = "Rows correct choices that are too shallow, too; those have no sign.",
		.min = 0, .max = WTEO_HISTORY_MAX, .def = 0,
	}, {
		.name = "selection",
		.unit = "",
		.what = "Plain TEO, a weighted draw of equal or shallower, or least expected cost.",
		.why = "Least expected cost costs least on every table that was simulated.",
		.min = WTEO_OFF, .max = WTEO_EXPECTED, .def = WTEO_EXPECTED,
		.names = selection_names,
	}, {
		.name = "row_context",
		.unit = "",
		.what = "Rows are kept for each column of the interval before, too.",
		.why = "Patterns of short and long intervals are common, the price is small.",
		.min = 0, .max = 1, .def = 1,
		.names = context_names,
	}, {
		.name = "seed",
		.unit = "",
		.what = "Seed of the weighted draw, mixed with the number of the CPU.",
		.why = "Any will do; a constant one makes runs repeatable.",
		.min = 0, .max = U32_MAX, .def = 1,
	},
};

static_assert(sizeof(wteo_tunables) / sizeof(*wteo_tunables) ==
	      sizeof(struct wteo_tunables) / sizeof(u32),
	      "a description for each tunable");

const struct cil_policy wteo_policy = {
	.name = "wteo",
	.state_size = sizeof(struct wteo),
	.tunables = wteo_tunables,
	.tunable_count = sizeof(struct wteo_tunables) / sizeof(u32),
	.init = wteo_init,
	.select = wteo_select,
	.update = wteo_update,
	.dump = wteo_dump,
	.row_learned = wteo_row_learned,
};
