// SPDX-License-Identifier: GPL-2.0
/*
 * wteo's way to a decision, steps 1 to 7. See wteo.c.
 */
#include "wteo.h"

/*
 * Work of stopping the tick and starting it again, as time at full power. With
 * 2 or 10 us the mean regret rises by at most 0.3 points on any table.
 */
#define STOP_NS		(5 * CIL_NSEC_PER_USEC)

/*
 * One interval in 128 is rare. If fewer are late, wake-ups by the tick cost less
 * than to compare. One that outlasts all but those of its row is of another kind.
 */
#define RARE_SHIFT	7

/*
 * Nothing corrects a mistake with the tick stopped: it is one in 256 there. Later
 * it is one in as many as began since (Laplace). Without the 256, power9 has 17
 * points more regret in its first 20,000 intervals.
 */
#define STOPPED_SHIFT	8

/**
 * struct outlook - what is expected of an interval
 * @timer_ns: time to the next timer without the tick
 * @tick_ns: time to the next timer or tick
 * @share: weight of the columns that are possible
 * @late: weight of those that last beyond the tick
 * @time: expected time to the end, as a wteo_product() with @share
 * @early_time: the part of @time before the tick
 */
struct outlook {
	u32 timer_ns;
	u32 tick_ns;
	u32 share;
	u32 late;
	u32 time;
	u32 early_time;
};

/* Step 1: enabled states within the latency request. */
static noinline u32 within_limits(const struct wteo *w,
				  const struct cil_machine *machine,
				  const struct cil_query *query)
{
	u32 enabled = ~query->disabled & w->all_states;
	u32 usable = enabled;
	u32 k;

	for (k = 0; k < machine->state_count; k++)
		if (machine->states[k].exit_latency_ns > query->latency_req_ns)
			usable &= ~(1u << k);
	/* If none meets the request, the shallowest comes nearest. */
	if (!usable)
		usable = enabled & -enabled;
	if (!usable)
		usable = 1;
	return usable;
}

/* Step 1: what there is to choose from; state 0 if nothing is enabled. */
static inline u32 find_usable(const struct wteo *w,
			      const struct cil_machine *machine,
			      const struct cil_query *query)
{
	if (!query->disabled && query->latency_req_ns >= w->greatest_latency_ns)
		return w->all_states;
	return within_limits(w, machine, query);
}

/*
 * Step 2: the row of a condition is in its place or in the neighbour's. If it is in
 * neither and both are taken, it tries for either in turn. The factor, a prime near
 * 2^32 over the golden ratio (Knuth), spreads keys.
 */
static inline void set_row(struct wteo *w, u32 key)
{
	u32 place = (u64)(key * 2654435761u) * WTEO_KEYED >> 32;
	u32 other = place ^ 1;
	u32 first = wteo_row(w, 1 + place)->key;

	if (first != key) {
		u32 second = wteo_row(w, 1 + other)->key;

		if (second == key || (first && (!second || (w->intervals & 1))))
			place = other;
	}
	w->interval.key = key;
	w->interval.slot = (u8)(1 + place);
}

/* Step 2: the octave of the time to the timer, counted from 1. */
static inline u32 octave(u32 timer_ns)
{
	return 32 - (u32)__builtin_clz(timer_ns | 1);
}

/* Step 3: the condition's row, if it knows enough. */
static inline u32 find_row(const struct wteo *w, u64 now_ns)
{
	const struct wteo_row *row = wteo_row(w, w->interval.slot);

	if (row->key == w->interval.key &&
	    wteo_evidence(w, row, wteo_steps(now_ns)) >= (u64)row->next * WTEO_KNOWN)
		return w->interval.slot;
	return WTEO_BASE;
}

/* Step 4: some weight, and what it expects, bounded by tick and timer. */
static inline void expect(struct outlook *o, u32 weight, u32 time)
{
	u32 until_tick = wteo_product(weight, o->tick_ns);
	u32 until_timer = until_tick;

	if (time <= until_tick) {
		o->early_time += time;
		o->time += time;
		return;
	}
	o->early_time += until_tick;
	if (o->timer_ns != o->tick_ns) {
		until_timer = wteo_product(weight, o->timer_ns);
		o->late += weight;
	}
	o->time += time < until_timer ? time : until_timer;
}

/* Step 4: the part of a column that is expected already goes on beyond the tick. */
static inline void expect_late(struct outlook *o, struct wteo_cell cell)
{
	o->early_time -= cell.time;
	o->time -= cell.time;
	expect(o, cell.weight, cell.time);
}

/*
 * Step 5: a column of an interval that has lasted for some time already. The
 * deepest state's column has no end: its rest does not depend on the time that
 * has passed. Another one whose mean has passed is memoryless until its end: a
 * column may reach from 1 us to 10 ms.
 */
static void expect_rest(struct outlook *o, const struct cil_machine *machine,
			u32 column, struct wteo_cell cell, u32 over_ns)
{
	u32 begin_ns = wteo_duration(machine->states[column].target_residency_ns);
	u32 end_ns = 2 * begin_ns;
	u32 over, mean;

	if (column + 1 < machine->state_count)
		end_ns = wteo_duration(machine->states[column + 1].target_residency_ns);
	over = wteo_product(cell.weight, over_ns);
	if (column + 1 == machine->state_count && over_ns > begin_ns) {
		if (over > cell.time)
			return;
		over_ns = begin_ns;
		over = wteo_product(cell.weight, begin_ns);
	}
	if (over_ns >= end_ns)
		return;
	mean = cell.time;
	if (over < mean) {
		cell.time -= over;
		over = 0;
	}
	for (; over >= mean && cell.weight; over -= mean) {
		cell.weight = cell.weight / 8 * 3;
		cell.time = cell.time / 8 * 3;
	}
	o->share += cell.weight;
	expect(o, cell.weight, cell.time);
}

static noinline struct outlook see_rest(struct outlook o, const struct wteo *w,
					const struct cil_machine *machine,
					const struct cil_query *query,
					const struct wteo_row *row)
{
	u32 over_ns = wteo_duration((s64)(query->now_ns - w->interval.began_ns));
	u32 k;

	o.share = 0;
	for (k = 0; k < machine->state_count; k++)
		if (row->cells[k].weight)
			expect_rest(&o, machine, k, row->cells[k], over_ns);
	if (o.share + row->cells[k].weight < row->total >> RARE_SHIFT) {
		o.share = row->total;
		expect(&o, row->total, wteo_product(row->total, over_ns));
	}
	o.share += row->cells[k].weight;
	return o;
}

/*
 * Step 4, with the tick stopped: a timer may be a minute away. What lies beyond a
 * second counts, too.
 */
static noinline struct outlook expect_timer(struct outlook o, const struct wteo *w,
					    const struct cil_query *query, u32 total)
{
	u32 shift = 31 - (u32)__builtin_clz(w->stopped | 1u << STOPPED_SHIFT);
	u32 more = (total >> shift) - (total >> WTEO_UNSEEN_SHIFT);
	s64 beyond_ns;
	u32 time, most;

	expect(&o, more, U32_MAX);
	o.share += more;
	if (query->sleep_length_ns <= CIL_DURATION_MAX)
		return o;
	beyond_ns = query->sleep_length_ns - CIL_DURATION_MAX;
	time = wteo_product(total, wteo_duration(beyond_ns >> shift));
	most = wteo_product(o.share, CIL_DURATION_MAX);
	o.time = time < most - o.time ? o.time + time : most;
	return o;
}

/* Step 4. */
static inline struct outlook look_ahead(const struct wteo *w,
					const struct cil_machine *machine,
					const struct cil_query *query,
					const struct wteo_row *row, u32 timer_ns)
{
	u32 never = row->cells[machine->state_count].weight;
	u32 unseen = row->total >> WTEO_UNSEEN_SHIFT;
	struct outlook o = {
		.timer_ns = timer_ns,
		.tick_ns = wteo_duration(query->delta_tick_ns),
		.share = row->total,
	};
	u32 k = machine->state_count;

	if (w->interval.resumed) {
		o = see_rest(o, w, machine, query, row);
	} else {
		/* The others are over before the tick. */
		o.time = row->time - row->cells[k].time;
		o.early_time = o.time;
		while (w->begin_ns[k] > o.tick_ns)
			expect_late(&o, row->cells[--k]);
	}
	o.share += unseen;
	/* More than any timer. */
	expect(&o, never + unseen, U32_MAX);
	return o;
}

/* Below 2^63, so two may be added: a share has 30 bits, a power 16. */
static inline u64 cost(const struct wteo *w, u32 index, u32 share, u32 time)
{
	const struct cil_cost *cost = &w->costs[index];

	return (cost->entry >> 14) * share + ((u64)cost->power * time << 14);
}

/* Step 6, where not all states may be used: costs are compared. */
static noinline u32 cheapest_of(const struct wteo *w, u32 usable, u32 limit_ns,
				u32 share, u32 time)
{
	u32 best = (u32)__builtin_ctz(usable);
	u32 rest;

	for (rest = usable & (usable - 1); rest; rest &= rest - 1) {
		u32 k = (u32)__builtin_ctz(rest);

		if (w->begin_ns[k] > limit_ns)
			break;
		if (cost(w, k, share, time) <=
		    cost(w, best, share, time))
			best = k;
	}
	return best;
}

/*
 * Step 6: the cheapest usable state, if the CPU will be in it with probability
 * @share, for @time, and the timer is due by @timer_ns.
 */
static inline u32 cheapest(const struct wteo *w, u32 usable, u32 timer_ns,
			   u32 share, u32 time)
{
	u32 best = 31 - (u32)__builtin_clz(usable);

	if (usable != w->all_states)
		return cheapest_of(w, usable, timer_ns, share, time);
	while (wteo_product(share, w->begin_ns[best]) > time)
		best--;
	return best;
}

/* A time for step 6, where E_k counts once. */
static inline u32 discounted(const struct wteo *w, u32 time)
{
	return (u64)time * w->discount >> 30;
}

/* Step 7: is it cheaper to stop the tick than to be asked again by it? */
static bool is_stop_cheaper(const struct wteo *w, u32 usable,
			    const struct outlook *o, u32 stop, u32 keep)
{
	u32 late_time = o->time - o->early_time;
	u32 after = cheapest(w, usable, o->timer_ns, o->late, late_time);
	u64 work = (u64)w->costs[0].power * discounted(w, STOP_NS) * (o->share >> 14);

	return cost(w, stop, o->share, o->time) + work <
	       cost(w, keep, o->share, o->early_time) +
	       cost(w, after, o->late, late_time);
}

/* Steps 4 to 7. */
static inline void minimize(const struct wteo *w, const struct cil_machine *machine,
			    u32 slot, u32 usable, u32 timer_ns,
			    const struct cil_query *query, struct cil_decision *decision)
{
	const struct wteo_row *row = wteo_row(w, slot);
	struct outlook o = look_ahead(w, machine, query, row, timer_ns);
	u32 keep, stop;

	*decision = (struct cil_decision) {
		.row = (u8)slot,
		.reason = CIL_REASON_WTEO_EXPECTED,
		.stop_tick = true,
	};
	if (query->tick_stopped) {
		o = expect_timer(o, w, query, row->total);
		o.time = discounted(w, o.time);
		decision->index = (u8)cheapest(w, usable, o.timer_ns, o.share, o.time);
		return;
	}
	o.time = discounted(w, o.time);
	o.early_time = discounted(w, o.early_time);
	keep = cheapest(w, usable, o.timer_ns, o.share, o.early_time);
	if (o.late >= o.share >> RARE_SHIFT) {
		stop = cheapest(w, usable, o.timer_ns, o.share, o.time);
		decision->index = (u8)stop;
		if (!machine->states[stop].polling &&
		    is_stop_cheaper(w, usable, &o, stop, keep))
			return;
	}
	decision->index = (u8)keep;
	decision->stop_tick = false;
	decision->reason = CIL_REASON_WTEO_EXPECTED_TICK;
}

/* Step 2: does an interval begin, and with which condition? */
static inline void begin(struct wteo *w, const struct cil_query *query, u32 timer_ns)
{
	struct wteo_interval *i = &w->interval;

	/* The driver refused, or there was work that is done already. */
	if (i->open && !query->left)
		i->resumed = true;
	i->open = true;
	i->decided_ns = query->now_ns;
	if (i->resumed)
		return;
	i->began_ns = query->now_ns;
	w->stopped = query->tick_stopped ?
		     w->stopped + (w->stopped < 1u << WTEO_UNSEEN_SHIFT) : 0;
	set_row(w, w->history | octave(timer_ns));
}

/**
 * wteo_select() - choose an idle state
 * @state: struct wteo
 * @machine: the idle states
 * @tunables: struct wteo_tunables
 * @query: what is known
 * @decision: every member is set
 *
 * Context: any.
 */
void wteo_select(void *state, const struct cil_machine *machine,
		 const void *tunables, struct cil_query *query,
		 struct cil_decision *decision)
{
	struct wteo *w = state;
	struct wteo_interval *i = &w->interval;
	u32 usable, timer_ns;

	if (memcmp(&w->tunables, tunables, sizeof(w->tunables)))
		wteo_prepare(w, machine, tunables);
	usable = find_usable(w, machine, query);
	timer_ns = wteo_duration(cil_sleep_length(query));
	begin(w, query, timer_ns);
	minimize(w, machine, find_row(w, query->now_ns), usable, timer_ns, query,
		 decision);
	i->resumed = false;
	i->sleep_length_ns = query->sleep_length_ns;
	i->keeps_tick = !(query->tick_stopped | decision->stop_tick);
}
