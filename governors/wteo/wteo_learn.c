// SPDX-License-Identifier: GPL-2.0
/*
 * What wteo learns from the end of an interval. See wteo.c.
 */
#include "wteo.h"

/*
 * TEO decides until the base row remembers so many intervals. A mean of fewer
 * is chance, and with more, TEO decides for longer than it is the better one.
 */
#define BASE_COUNT	3

/*
 * The base row is asked where a condition is new, so most of all when
 * everything has changed: it must forget soon. Each interval weighs a sixteenth
 * more than the one before it, so it remembers seventeen.
 */
#define BASE_GROWTH	(WTEO_GROWTH_ONE / 16)

/* While conditions are known, it learns one interval of eight. */
#define BASE_MASK	7

/*
 * A column with less than an eighth of its row's weight is a surprise. Each
 * counts two, and anything else takes one off, so rare ones, which are in the
 * nature of a row, never add up. When they do, conditions are not what they
 * were: a row that is surprised keeps a 64th of what it knows, too little to
 * be asked, until it has learned anew. So does one that is old enough to have
 * aged: nobody knows what happened since.
 */
#define SURPRISE_SHIFT	3
#define ALARM		8
#define KEPT_SHARE	(CIL_ONE / 64)

/* Tunables that are dear to take over are looked at once in so many intervals. */
#define REFRESH_MASK	63

/* An unsigned time from outside, on which signed arithmetic is safe. */
static s64 sane(u64 time_ns)
{
	return time_ns < CIL_TIME_MAX / 2 ? (s64)time_ns : CIL_TIME_MAX / 2;
}

/* Did the wake-up happen only because of what was decided? */
static noinline bool is_own_doing(const struct wteo_interval *i,
				  const struct cil_outcome *outcome)
{
	u64 woke_ns = i->decided_ns + outcome->residency_ns;

	if (outcome->now_ns - woke_ns > WTEO_RESUME_NS)
		return false;
	if (outcome->poll_time_limit)
		return true;
	return outcome->tick_wakeup && i->keeps_tick &&
	       sane(outcome->residency_ns) < i->sleep_length_ns;
}

/*
 * Exit latencies are worst cases, so what is left may be too short. That heals
 * by itself, since a shallower state tells better. To take off less would not:
 * a deep state would make intervals look long enough for itself. In 2020 it was
 * half, as in TEO.
 */
static u32 interval_duration(const struct cil_machine *machine,
			     const struct wteo_interval *i, u32 index,
			     s64 slept_ns, bool by_half)
{
	s64 latency_ns = machine->states[index].exit_latency_ns;

	slept_ns -= (slept_ns >= latency_ns ? latency_ns : slept_ns) >> by_half;
	if (i->decided_ns > i->began_ns)
		slept_ns += sane(i->decided_ns - i->began_ns);
	return wteo_duration(slept_ns);
}

static u32 column_of(const struct wteo *w, u32 states, u32 duration_ns)
{
	u32 k = states - 1;

	while (k && w->bounds_ns[k - 1] > duration_ns)
		k--;
	return k;
}

static noinline void remember(struct wteo_window *window, u32 size, u32 column)
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

/*
 * Instead of taking something from all other columns, each interval weighs more
 * than the one before it. The sum is kept, and everything is divided by eight
 * when it reaches its limit, so learning touches one cell only.
 */
static inline void learn(struct wteo *w, u32 columns, u32 slot, u32 column,
			 u32 duration_ns, u32 now, u32 growth)
{
	struct wteo_row *row = &w->rows.heads[slot];
	struct wteo_cell *cells = w->rows.cells + slot * columns;
	s32 age = (s32)(now - row->learned);
	u32 weight = row->next;

	if (age > w->aging.grain)
		wteo_row_age(row, cells, columns, &w->aging, (u32)age);
	cells[column].weight += weight;
	cells[column].time += wteo_product(weight, duration_ns);
	row->total += weight;
	row->next = weight + (u32)((u64)weight * growth >> 20);
	row->learned = now;
	if (row->total > WTEO_TOTAL_MAX) {
		row->next /= 8;
		wteo_row_shrink(row, cells, columns, CIL_ONE / 8);
	}
}

static void learn_base(struct wteo *w, u32 columns, u32 column, u32 duration_ns,
		       u32 now)
{
	const struct wteo_row *base = &w->rows.heads[WTEO_BASE];

	learn(w, columns, WTEO_BASE, column, duration_ns, now, BASE_GROWTH);
	w->base_knows = base->total >= (u64)base->next * BASE_COUNT;
}

/* The condition for the next interval, as far as it is known. */
static void set_history(struct wteo *w, u32 column, u32 duration_ns)
{
	bool is_short = duration_ns < CIL_RESIDENCY_THRESHOLD_NS;

	w->history = WTEO_KEY_HISTORY | column << 8 | (w->history & 0xf00) << 4;
	w->shorts = (u8)(w->shorts << 1 | is_short);
}

/* A row that is no good any more, or may be none, forgets. */
static noinline void be_surprised(struct wteo *w, u32 columns, u32 slot,
				  u32 now)
{
	struct wteo_row *row = &w->rows.heads[slot];

	w->surprises += 2;
	if (w->surprises > ALARM)
		w->surprises = ALARM;
	if (w->surprises == ALARM || (s32)(now - row->learned) > w->aging.grain)
		wteo_row_shrink(row, w->rows.cells + slot * columns, columns,
				KEPT_SHARE);
}

/* Does a row that knows its condition expect this column? */
static inline bool is_expected(struct wteo *w, u32 columns, u32 slot,
			       u32 column)
{
	const struct wteo_cell *cells = w->rows.cells + slot * columns;

	if (cells[column].weight < w->rows.heads[slot].total >> SURPRISE_SHIFT)
		return false;
	if (w->surprises)
		w->surprises--;
	return true;
}

static void end_interval(struct wteo *w, const struct cil_machine *machine,
			 const struct wteo_tunables *t,
			 const struct cil_outcome *outcome)
{
	struct wteo_interval *i = &w->interval;
	bool is_drawn = t->selection == WTEO_SAMPLE;
	u32 columns = machine->state_count + 1;
	s64 slept_ns = sane(outcome->residency_ns);
	u32 duration_ns = interval_duration(machine, i, outcome->index,
					    slept_ns, is_drawn);
	u32 column = column_of(w, machine->state_count, duration_ns);
	u32 now = wteo_steps(outcome->now_ns);
	const struct wteo_row *row = &w->rows.heads[i->slot];
	u32 learned = column;
	bool is_known = false;

	if (!(++w->intervals & REFRESH_MASK))
		wteo_refresh(w, machine, t);
	if (slept_ns >= i->sleep_length_ns)
		learned = machine->state_count;
	if (row->key == i->key ||
	    wteo_row_claim(&w->rows, columns, i->slot, i->key)) {
		if (row->total >= (u64)row->next * WTEO_KNOWN) {
			is_known = is_drawn ||
				   is_expected(w, columns, i->slot, learned);
			if (!is_known)
				be_surprised(w, columns, i->slot, now);
		}
		learn(w, columns, i->slot, learned, duration_ns, now,
		      w->growth);
		w->learned = i->slot;
	}
	if (!is_known || !w->base_knows || !(w->intervals & BASE_MASK))
		learn_base(w, columns, learned, duration_ns, now);
	if (is_drawn)
		remember(&w->window, t->history_size, column);
	set_history(w, column, duration_ns);
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

	if (w->teo_follows)
		teo_ng_update(&w->teo, machine, outcome);
	w->learned = CIL_ROW_NONE;
	if (!w->interval.open)
		return;
	w->interval.open = false;
	if ((outcome->tick_wakeup || outcome->poll_time_limit) &&
	    is_own_doing(&w->interval, outcome))
		w->interval.resumed = true;
	else
		end_interval(w, machine, tunables, outcome);
}
