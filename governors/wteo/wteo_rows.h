/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The rows of wteo: how they are found, how they learn and age, and how they
 * are looked at. See wteo.c.
 */
#ifndef CIL_WTEO_ROWS_H
#define CIL_WTEO_ROWS_H

#include "../common/energy.h"
#include "../common/fixed.h"
#include "../common/view.h"

/*
 * The base row, and rows for conditions. A timer octave and two columns give
 * more conditions than that, but few of them are frequent in any one hour; with
 * 40 rows, seven states fit 4 KiB.
 */
#define WTEO_BASE		0
#define WTEO_KEYED		40
#define WTEO_ROWS		(1 + WTEO_KEYED)

/* One column for each state, and one for "not before the timer". */
#define WTEO_COLUMNS		(CIL_STATE_MAX + 1)

/* A row that remembers so many intervals knows its condition. */
#define WTEO_KNOWN		6

/* What was untouched for long knows no more than so many could have told. */
#define WTEO_DORMANT		1

/* Ages are counted in steps of 17 ms, so that 32 bits last for two years. */
#define WTEO_STEP_SHIFT		24

/* Times are products of a weight and a duration, in quarters of a ns. */
#define WTEO_PRODUCT_SHIFT	(30 - CIL_TIME_SHIFT)

/* Everything is divided by eight when a row's weights sum to more. */
#define WTEO_TOTAL_MAX		(CIL_ONE / 2)

/* Growth of weights is a share with 20 fraction bits. */
#define WTEO_GROWTH_ONE		0x100000u

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
 * struct wteo_row - what belongs to a row beside its cells
 * @key: condition that it is for, 0 for the base row and while it is free
 * @total: sum of all weights, exactly; at most CIL_ONE
 * @next: weight that the next interval will have. So @total / @next is how
 *	many intervals the row remembers
 * @learned: when it learned last, in steps of 2^WTEO_STEP_SHIFT ns
 */
struct wteo_row {
	u32 key;
	u32 total;
	u32 next;
	u32 learned;
};

/**
 * struct wteo_aging - how fast rows age, in a form that needs no division
 * @shift: turns ns into units of which a half-life has about a million
 * @rate: half-lives in one unit, 40 fraction bits
 * @grain: younger rows, by a 64th of a half-life, have not aged; in steps
 * @dormant: older rows, by a half-life, begin anew; in steps
 */
struct wteo_aging {
	u32 shift;
	u32 rate;
	s32 grain;
	s32 dormant;
};

/**
 * struct wteo_rows - all rows of one CPU
 * @heads: the base row, then those of conditions
 * @cells: the cells of all rows, packed by the number of columns, so that a
 *	machine with few states touches little memory
 */
struct wteo_rows {
	struct wteo_row heads[WTEO_ROWS];
	struct wteo_cell cells[WTEO_ROWS * WTEO_COLUMNS];
};

void wteo_rows_init(struct wteo_rows *rows, u32 columns);
void wteo_aging_init(struct wteo_aging *aging, u32 half_life_ms);
u32 wteo_row_faded(const struct wteo_row *row, const struct wteo_aging *aging,
		   s32 age);
u32 wteo_growth(u32 per_mille);
void wteo_row_shrink(struct wteo_row *row, struct wteo_cell *cells, u32 columns,
		     u32 share);
void wteo_row_age(struct wteo_row *row, struct wteo_cell *cells, u32 columns,
		  const struct wteo_aging *aging, s32 age);
void wteo_rows_forget(struct wteo_rows *rows);
bool wteo_row_claim(struct wteo_rows *rows, u32 columns, u32 slot, u32 key);

/**
 * wteo_cells() - the cells of a row
 * @rows: all rows
 * @states: number of idle states; there is one more column
 * @slot: number of the row
 */
static inline struct wteo_cell *wteo_cells(struct wteo_rows *rows, u32 states,
					   u32 slot)
{
	return rows->cells + slot * (states + 1);
}

/**
 * wteo_row_view() - a row for people
 * @cells: the row
 * @columns: number of columns
 * @weights: (columns) in ten-thousandths, as of cil_view()
 */
static inline void wteo_row_view(const struct wteo_cell *cells, u32 columns,
				 u16 *weights)
{
	cil_view(&cells->weight, sizeof(*cells) / sizeof(u32), columns, weights);
}

/**
 * wteo_product() - a weight times a duration
 * @weight: at most about CIL_ONE
 * @duration_ns: at most CIL_DURATION_MAX
 *
 * Return: the time of a cell.
 */
static inline u32 wteo_product(u32 weight, u32 duration_ns)
{
	return (u64)weight * duration_ns >> WTEO_PRODUCT_SHIFT;
}

/**
 * wteo_duration() - a time as durations are kept
 * @time_ns: any time
 *
 * Return: the time, forced into 0 to CIL_DURATION_MAX.
 */
static inline u32 wteo_duration(s64 time_ns)
{
	if ((u64)time_ns <= CIL_DURATION_MAX)
		return (u32)time_ns;
	return time_ns < 0 ? 0 : CIL_DURATION_MAX;
}

/**
 * wteo_steps() - time in the unit of ages
 * @now_ns: time
 */
static inline u32 wteo_steps(u64 now_ns)
{
	return (u32)(now_ns >> WTEO_STEP_SHIFT);
}

/**
 * wteo_row_left() - what is left of a row's evidence
 * @row: the row
 * @aging: as prepared
 * @age: time since it learned last, in steps
 *
 * Return: the weight, to be compared with @row->next.
 */
static inline u32 wteo_row_left(const struct wteo_row *row,
				const struct wteo_aging *aging, s32 age)
{
	u32 left = row->total;

	if (age > aging->grain)
		left = wteo_row_faded(row, aging, age);
	return left;
}

/**
 * wteo_knows() - does a row know enough of a condition to be asked?
 * @row: the row
 * @aging: as prepared
 * @key: the condition
 * @now_ns: time; a clock that went back ages nothing
 *
 * Return: whether it is for that condition, and still remembers enough.
 */
static inline bool wteo_knows(const struct wteo_row *row,
			      const struct wteo_aging *aging, u32 key,
			      u64 now_ns)
{
	s32 age = (s32)(wteo_steps(now_ns) - row->learned);

	if (row->key != key)
		return false;
	return wteo_row_left(row, aging, age) >= (u64)row->next * WTEO_KNOWN;
}

#endif /* CIL_WTEO_ROWS_H */
