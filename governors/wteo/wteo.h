/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_WTEO_H
#define CIL_WTEO_H

#include "../common/energy.h"
#include "../common/fixed.h"
#include "../common/view.h"

/* Keys of rows: an octave (bits 0 to 4), columns (bits 8 to 15), a bit that no free row has. */
#define WTEO_KEY_HISTORY	0x10000u

/* The base row, and pairs of others: with 40 mean regret is at most 0.07 points less. */
#define WTEO_BASE		0
#define WTEO_KEYED		24
#define WTEO_ROWS		(1 + WTEO_KEYED)

/* One column for each state, and one for "not before the timer". */
#define WTEO_COLUMNS		(CIL_STATE_MAX + 1)

/* Bytes from row to row: two cache lines, of which few states need the first alone. */
#define WTEO_ROW_SIZE		128

/* Ages are counted in steps of 0.5 ms: signed differences last for 13 days. */
#define WTEO_STEP_SHIFT		19

/* Times are products of a weight and a duration, in quarters of a ns: the most in 32 bits. */
#define WTEO_PRODUCT_SHIFT	28

/* No duration is as long, and a product with any share fits 32 bits. */
#define WTEO_NO_DURATION	(2 * CIL_DURATION_MAX)

/* Weight of a row's first interval: its time is exact to 16 ns, and 31 such find room. */
#define WTEO_FIRST_WEIGHT	0x1000000u

/* A row that sums to more is divided by eight: 30 bits have room for one interval more. */
#define WTEO_TOTAL_MAX		0x20000000u

/* One in 16384, too rare for rows: without it skl heavy-tail has 6.8 points more regret. */
#define WTEO_UNSEEN_SHIFT	14

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
 * struct wteo_cell - one cell of a row
 * @weight: how often an interval of this row fits this column, of @total
 * @time: wteo_product() of @weight and the mean interval of the cell
 */
struct wteo_cell {
	u32 weight;
	u32 time;
};

/**
 * struct wteo_row - a row
 * @key: condition that it is for, 0 for the base row and while it is free
 * @total: sum of all weights, exactly; less than 2^30
 * @time: sum of the times of all cells, exactly
 * @next: weight of the next interval; the row remembers @total / @next of them
 * @learned: when it learned or lost half last, in steps of 2^WTEO_STEP_SHIFT ns
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
 * @rows: the base row, then those of conditions
 * @began_ns: time of the decision that began the interval in progress
 * @decided_ns: time of the last decision in it
 * @sleep_length_ns: sleep length at the last decision
 * @key: the condition that the interval began with
 * @slot: the row for that
 * @open: the interval goes on unless a task runs
 * @keeps_tick: the last decision left the tick running
 * @learned: row that the last update changed, or CIL_ROW_NONE
 * @intervals: number of intervals learned
 * @doubt: how much better the base row foresaw of late, as cil_log2() of the odds
 * @history: condition of the next interval, without the timer
 * @stopped: intervals that began since the tick was stopped, 2^WTEO_UNSEEN_SHIFT at most
 * @tunables: what the next three were prepared for
 * @growth: of weights, for the learning rate
 * @half_life: in steps of 2^WTEO_STEP_SHIFT ns, S32_MAX for never
 * @discount: share of a time that latency_bias leaves
 * @greatest_latency_ns: exit latency that no state exceeds
 * @begin_ns: least duration in each column, ascending; WTEO_NO_DURATION: none
 * @costs: cost of the states
 */
struct wteo {
	u8 rows[WTEO_ROWS * WTEO_ROW_SIZE];
	u64 began_ns;
	u64 decided_ns;
	s64 sleep_length_ns;
	u32 key;
	u8 slot;
	bool open;
	bool keeps_tick;
	u8 learned;
	u8 intervals;
	u8 doubt;
	u32 history;
	u32 stopped;
	struct wteo_tunables tunables;
	u32 growth;
	s32 half_life;
	u32 discount;
	s64 greatest_latency_ns;
	u32 begin_ns[WTEO_COLUMNS];
	struct cil_cost costs[CIL_STATE_MAX];
};

static_assert(sizeof(struct wteo_row) + WTEO_COLUMNS * sizeof(struct wteo_cell) <=
	      WTEO_ROW_SIZE, "a row has room for all columns");

/* A row by its number. */
static inline struct wteo_row *wteo_row(const struct wteo *w, u32 slot)
{
	return (struct wteo_row *)(w->rows + slot * WTEO_ROW_SIZE);
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

/* Bytes of struct wteo that are touched after init, on a machine with so many states. */
static inline u32 wteo_state_used(u32 states)
{
	u32 row = sizeof(struct wteo_row) + (states + 1) * sizeof(struct wteo_cell);

	return sizeof(struct wteo) - (row <= 64 ? WTEO_ROWS * (WTEO_ROW_SIZE - 64) : 0) -
	       (CIL_STATE_MAX - states) * (sizeof(u32) + sizeof(struct cil_cost));
}

#endif /* CIL_WTEO_H */
