// SPDX-License-Identifier: GPL-2.0
/*
 * Learning from the end of an interval. See wteo.c.
 */
#include "wteo.h"

/* The base row remembers sixteen intervals, to forget an old load soon. */
#define BASE_GROWTH	(WTEO_GROWTH_ONE / 16)

/* Known conditions teach the base row, too, if their number has none of these bits. */
#define BASE_MASK	7

/* A column with less than a quarter of its row's weight begins the sum of doubt. */
#define SURPRISE_SHIFT	2

/* At odds of 4096 to one, in 16ths of a bit, all conditions are forgotten. */
#define DOUBT_MAX	(12 * CIL_LOG2_ONE)

/* An unsigned time from outside, on which signed arithmetic is safe. */
static s64 sane(u64 time_ns)
{
	return time_ns < CIL_TIME_MAX / 2 ? (s64)time_ns : CIL_TIME_MAX / 2;
}

/* Did the wake-up happen only because of what was decided? */
static noinline bool is_own_doing(const struct wteo_interval *i,
				  const struct cil_outcome *outcome)
{
	return !outcome->left &&
	       (outcome->poll_time_limit ||
		(outcome->tick_wakeup && i->keeps_tick &&
		 sane(outcome->residency_ns) < i->sleep_length_ns));
}

/*
 * Exit latencies are worst cases, so the rest may be too short. That heals by
 * itself, since a shallower state tells better. To take off less would not
 * heal: a deep state would make intervals look long enough for itself.
 */
static u32 interval_duration(const struct cil_machine *machine,
			     const struct wteo_interval *i, u32 index,
			     s64 slept_ns)
{
	s64 latency_ns = machine->states[index].exit_latency_ns;

	slept_ns -= slept_ns >= latency_ns ? latency_ns : slept_ns;
	if (i->decided_ns > i->began_ns)
		slept_ns += sane(i->decided_ns - i->began_ns);
	return wteo_duration(slept_ns);
}

static u32 column_of(const struct wteo *w, u32 states, u32 duration_ns)
{
	u32 k = states - 1;

	while (w->begin_ns[k] > duration_ns)
		k--;
	return k;
}

/* Divides what a row knows by a power of two. */
static noinline void shrink(struct wteo_row *row, u32 columns, u32 shift)
{
	u32 k;

	row->total = 0;
	row->time = 0;
	for (k = 0; k < columns; k++) {
		row->cells[k].weight >>= shift;
		row->cells[k].time >>= shift;
		row->total += row->cells[k].weight;
		row->time += row->cells[k].time;
	}
}

/* Tries to make a row that of a condition: not if another one needs it still. */
static noinline bool claim(struct wteo *w, u32 columns, u32 slot, u32 now)
{
	struct wteo_row *row = wteo_row(w, slot);

	if (row->key && row->total >= (u64)row->next * WTEO_KNOWN)
		return false;
	memset(row->cells, 0, columns * sizeof(*row->cells));
	row->key = w->interval.key;
	row->total = 0;
	row->time = 0;
	row->next = WTEO_FIRST_WEIGHT;
	row->learned = now;
	return true;
}

/* A row forgets with time. A half-life counts once, whether it learns then or not. */
static inline void grow_old(struct wteo *w, u32 columns, u32 slot, u32 now)
{
	struct wteo_row *row = wteo_row(w, slot);
	u32 halvings = wteo_half_lives(w, row, now);

	if (halvings) {
		shrink(row, columns, halvings);
		row->learned += halvings * (u32)w->half_life;
	}
}

/*
 * Each interval weighs more than the one before it, so learning touches one cell.
 * All are divided by eight when their sum reaches its limit.
 */
static inline void learn(struct wteo *w, u32 columns, u32 slot, u32 column,
			 u32 duration_ns, u32 now, u32 growth)
{
	struct wteo_row *row = wteo_row(w, slot);
	u32 weight = row->next;
	u32 time = wteo_product(weight, duration_ns);

	row->cells[column].weight += weight;
	row->cells[column].time += time;
	row->time += time;
	row->total += weight;
	row->next = weight + (u32)((u64)weight * growth >> 20);
	row->learned = now;
	if (row->total > WTEO_TOTAL_MAX) {
		row->next >>= 3;
		shrink(row, columns, 3);
	}
}

/*
 * Did the base row foresee a column better than the row of the condition? It is
 * that row's prior, worth one interval a column; its own is Laplace's.
 */
static noinline bool is_in_doubt(struct wteo *w, u32 columns, u32 slot, u32 column)
{
	const struct wteo_row *base = wteo_row(w, WTEO_BASE);
	const struct wteo_row *row = wteo_row(w, slot);
	u64 prior = (u64)columns * row->next;
	u64 by_base = (u64)base->cells[column].weight + base->next;
	u64 of_base = base->total + (u64)columns * base->next;
	/* Their shares of the column, each times the same. */
	s32 doubt = w->doubt + cil_log2(by_base * (row->total + prior)) -
		    cil_log2(row->cells[column].weight * of_base + prior * by_base);
	u32 k;

	if (doubt >= DOUBT_MAX) {
		for (k = 1; k < WTEO_ROWS; k++)
			wteo_row(w, k)->key = wteo_row(w, k)->total = 0;
		w->doubt = 0;
		return true;
	}
	w->doubt = doubt > 0 ? (u8)doubt : 0;
	return w->doubt;
}

static void end_interval(struct wteo *w, const struct cil_machine *machine,
			 const struct cil_outcome *outcome)
{
	const struct wteo_interval *i = &w->interval;
	u32 columns = machine->state_count + 1;
	s64 slept_ns = sane(outcome->residency_ns);
	u32 duration_ns = interval_duration(machine, i, outcome->index,
					    slept_ns);
	u32 column = column_of(w, machine->state_count, duration_ns);
	u32 now = wteo_steps(outcome->now_ns);
	const struct wteo_row *row = wteo_row(w, i->slot);
	u32 learned = column;
	bool is_known;

	w->intervals++;
	if (slept_ns >= i->sleep_length_ns)
		learned = machine->state_count;
	grow_old(w, columns, i->slot, now);
	is_known = row->key == i->key &&
		   row->total >= (u64)row->next * WTEO_KNOWN;
	if (is_known && (w->doubt ||
			 row->cells[learned].weight < row->total >> SURPRISE_SHIFT))
		is_known = !is_in_doubt(w, columns, i->slot, learned);
	if (row->key == i->key || claim(w, columns, i->slot, now)) {
		learn(w, columns, i->slot, learned, duration_ns, now,
		      w->growth);
		w->learned = i->slot;
	}
	if (!is_known || !(w->intervals & BASE_MASK)) {
		grow_old(w, columns, WTEO_BASE, now);
		learn(w, columns, WTEO_BASE, learned, duration_ns, now,
		      BASE_GROWTH);
	}
	/* The condition for the next interval, as far as it is known. */
	w->history = WTEO_KEY_HISTORY | column << 8 | (w->history & 0xf00) << 4;
}

/**
 * wteo_update() - learn from an idle period
 * @state: struct wteo
 * @machine: the idle states
 * @tunables: struct wteo_tunables
 * @outcome: what became of the last decision
 *
 * Context: any.
 */
void wteo_update(void *state, const struct cil_machine *machine,
		 const void *tunables, const struct cil_outcome *outcome)
{
	struct wteo *w = state;

	(void)tunables;
	w->learned = CIL_ROW_NONE;
	if (!w->interval.open)
		return;
	w->interval.open = false;
	if ((outcome->tick_wakeup || outcome->poll_time_limit) &&
	    is_own_doing(&w->interval, outcome))
		w->interval.resumed = true;
	else
		end_interval(w, machine, outcome);
}
