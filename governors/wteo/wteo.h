/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_WTEO_H
#define CIL_WTEO_H

#include "../common/energy.h"
#include "../common/fixed.h"
#include "../common/view.h"

/* Keys of rows: an octave (bits 0 to 4), columns (bits 8 to 15), a bit that no free row has. */
#define WTEO_KEY_OCTAVE		0x1fu
#define WTEO_KEY_HISTORY	0x10000u

/*
 * The base row, and rows for conditions, an even number: neighbours share theirs.
 * With 40 mean regret is at most 0.07 points less on four tables.
 */
#define WTEO_BASE		0
#define WTEO_KEYED		24
#define WTEO_ROWS		(1 + WTEO_KEYED)

/* One column for each state, and one for "not before the timer". */
#define WTEO_COLUMNS		(CIL_STATE_MAX + 1)

/* A row is a cache line, or two. So it begins with one if the state does. */
#define WTEO_LINE		64

/*
 * A row that remembers so many intervals knows its condition; before, it may be
 * given up. With 9 mean regret is 0.01 points greater on four tables.
 */
#define WTEO_KNOWN		3

/* Ages are counted in steps of 0.5 ms: signed differences last for 13 days. */
#define WTEO_STEP_SHIFT		19

/* Times are products of a weight and a duration, in quarters of a ns. */
#define WTEO_PRODUCT_SHIFT	(30 - CIL_TIME_SHIFT)

/* No duration is as long, and a product with any share fits 32 bits. */
#define WTEO_NO_DURATION	(2 * CIL_DURATION_MAX)

/* Weight of a row's first interval: its time is exact to 16 ns, and 31 such find room. */
#define WTEO_FIRST_WEIGHT	0x1000000u

/* A row that sums to more is divided by eight: half of CIL_ONE has room for one more. */
#define WTEO_TOTAL_MAX		(CIL_ONE / 2)

/*
 * One interval in 16384 is taken to last until the timer: rows have no weight for
 * any so rare. Without it skl heavy-tail has 6.8 points more regret (ablation).
 */
#define WTEO_UNSEEN_SHIFT	14

/* Growth of weights is a share: with 20 fraction bits, 1 per mille is exact to 0.1 %. */
#define WTEO_GROWTH_ONE		0x100000u

/**
 * struct wteo_tunables - the tunables, in the order of their table
 * @learning_rate: least rate of learning, per mille
 * @half_life_ms: time in which an untouched row loses half of what it knows
 * @latency_bias: what entering and leaving a state counts beside its energy, per
 *	1024 of that
 */
struct wteo_tunables {
	u32 learning_rate;
	u32 half_life_ms;
	u32 latency_bias;
};

/**
 * struct wteo_interval - the interval in progress
 * @began_ns: time of the decision that began it
 * @decided_ns: time of the last decision in it
 * @sleep_length_ns: sleep length at the last decision
 * @key: the condition that it began with
 * @slot: the row for that
 * @open: there is one
 * @resumed: the last wake-up did not end it
 * @keeps_tick: the last decision left the tick running
 */
struct wteo_interval {
	u64 began_ns;
	u64 decided_ns;
	s64 sleep_length_ns;
	u32 key;
	u8 slot;
	bool open;
	bool resumed;
	bool keeps_tick;
};

/**
 * struct wteo_cell - one cell of a row
 * @weight: how often an interval of this row fits this column, in units of
 *	which the row has @total
 * @time: what the cell contributes to the mean interval of the row:
 *	wteo_product() of @weight and the mean interval of the cell
 */
struct wteo_cell {
	u32 weight;
	u32 time;
};

/**
 * struct wteo_row - a row
 * @key: condition that it is for, 0 for the base row and while it is free
 * @total: sum of all weights, exactly; at most CIL_ONE
 * @time: sum of the times of all cells, exactly
 * @next: weight that the next interval will have. So @total / @next is how
 *	many intervals the row remembers
 * @learned: when it learned last, in steps of 2^WTEO_STEP_SHIFT ns
 * @cells: one for each column of the machine
 */
struct wteo_row {
	u32 key;
	u32 total;
	u32 time;
	u32 next;
	u32 learned;
	struct wteo_cell cells[];
};

/**
 * struct wteo - what is remembered about one CPU
 * @rows: the base row, then those of conditions; of @lines each, so that a
 *	machine with few states touches little memory
 * @interval: the interval in progress
 * @greatest_latency_ns: exit latency that no state exceeds
 * @history: condition of the next interval, without the timer
 * @stopped: number of intervals that began since the tick was stopped, up to
 *	2^WTEO_UNSEEN_SHIFT
 * @intervals: number of intervals learned
 * @learned: row that the last update changed, or CIL_ROW_NONE
 * @doubt: how much better the base row foresaw what happened of late than rows
 *	that know, as cil_log2() of the odds
 * @all_states: bit k is set for each state k
 * @lines: cache lines of a row
 * @tunables: what the next three were prepared for
 * @growth: of weights, for the learning rate
 * @half_life: in steps of 2^WTEO_STEP_SHIFT ns, S32_MAX for never
 * @discount: share of a time that latency_bias leaves
 * @begin_ns: least duration in each column, ascending; WTEO_NO_DURATION: none
 * @costs: cost of the states
 */
struct wteo {
	u8 rows[2 * WTEO_LINE * WTEO_ROWS];
	struct wteo_interval interval;
	s64 greatest_latency_ns;
	u32 history;
	u32 stopped;
	u8 intervals;
	u8 learned;
	u8 doubt;
	u16 all_states;
	u32 lines;
	struct wteo_tunables tunables;
	u32 growth;
	s32 half_life;
	u32 discount;
	u32 begin_ns[WTEO_COLUMNS];
	struct cil_cost costs[CIL_STATE_MAX];
};

/* With four states a decision reads two lines of it, and rows. */
static_assert(offsetof(struct wteo, begin_ns[5]) - offsetof(struct wteo, interval) <=
	      2 * WTEO_LINE, "two lines have room for four states");
static_assert(sizeof(struct wteo_row) + WTEO_COLUMNS * sizeof(struct wteo_cell) <=
	      2 * WTEO_LINE, "two lines have room for all columns");

/* A row by its number. */
static inline struct wteo_row *wteo_row(const struct wteo *w, u32 slot)
{
	return (struct wteo_row *)(w->rows + slot * w->lines * WTEO_LINE);
}

/* A weight times a duration, as the time of a cell. */
static inline u32 wteo_product(u32 weight, u32 duration_ns)
{
	return (u64)weight * duration_ns >> WTEO_PRODUCT_SHIFT;
}

/* A time as durations are kept: forced into 0 to CIL_DURATION_MAX. */
static inline u32 wteo_duration(s64 time_ns)
{
	if ((u64)time_ns <= CIL_DURATION_MAX)
		return (u32)time_ns;
	return time_ns < 0 ? 0 : CIL_DURATION_MAX;
}

/* Time in the unit of ages. */
static inline u32 wteo_steps(u64 now_ns)
{
	return (u32)(now_ns >> WTEO_STEP_SHIFT);
}

/* Half-lives since a row learned; a clock that went back ages nothing. */
static inline u32 wteo_half_lives(const struct wteo *w,
				  const struct wteo_row *row, u32 now)
{
	s32 age = (s32)(now - row->learned);
	u32 count = 0;

	for (; age >= w->half_life && count < 31; age -= w->half_life)
		count++;
	return count;
}

/* The rest of a row's evidence, to be compared with the row's @next. */
static inline u32 wteo_evidence(const struct wteo *w,
				const struct wteo_row *row, u32 now)
{
	return row->total >> wteo_half_lives(w, row, now);
}

/* Cache lines of a row with so many states. */
static inline u32 wteo_lines(u32 states)
{
	return sizeof(struct wteo_row) + (states + 1) * sizeof(struct wteo_cell) >
	       WTEO_LINE ? 2 : 1;
}

/* Bytes of struct wteo that are touched after init, on a machine with so many states. */
static inline u32 wteo_state_used(u32 states)
{
	u32 unused = CIL_STATE_MAX - states;

	return sizeof(struct wteo) -
	       WTEO_ROWS * (2 - wteo_lines(states)) * WTEO_LINE -
	       unused * (sizeof(u32) + sizeof(struct cil_cost));
}

void wteo_select(void *state, const struct cil_machine *machine,
		 const void *tunables, struct cil_query *query,
		 struct cil_decision *decision);
void wteo_update(void *state, const struct cil_machine *machine,
		 const void *tunables, const struct cil_outcome *outcome);
void wteo_prepare(struct wteo *w, const struct cil_machine *machine,
		  const struct wteo_tunables *t);

#endif /* CIL_WTEO_H */
