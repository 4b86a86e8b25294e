/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The matrix of wteo: how it learns, ages and is looked at.
 */
#ifndef CIL_WTEO_MATRIX_H
#define CIL_WTEO_MATRIX_H

#include "../common/energy.h"
#include "../common/fixed.h"

/* The matrix itself, and one for each column that came before. */
#define WTEO_BLOCKS		(1 + CIL_STATE_MAX)
#define WTEO_ROWS		(WTEO_BLOCKS * CIL_STATE_MAX)

/* What a row of people's weights sums to. */
#define WTEO_VIEW_ONE		10000

/* One interval of evidence; the fraction lets it age in small steps. */
#define WTEO_EVIDENCE_ONE	0x100u

/* All 16 bits: every interval ended by its timer. */
#define WTEO_TIMER_ONE		0xffff

/**
 * struct wteo_cell - one cell of the matrix
 * @weight: how often an interval of this row fits this column, of CIL_ONE
 * @time: what the cell contributes to the mean interval of the row, in quarters
 *	of a nanosecond; @time / @weight is the mean interval of the cell
 */
struct wteo_cell {
	u32 weight;
	u32 time;
};

/**
 * struct wteo_aging - how fast rows relax, in a form that needs no division
 * @half_life_ms: what the rest was made for
 * @shift: turns ns into units of which a half-life has about a million
 * @rate: half-lives in one unit, 40 fraction bits
 */
struct wteo_aging {
	u32 half_life_ms;
	u32 shift;
	u32 rate;
};

/**
 * struct wteo_matrix - all rows of one CPU
 * @learned_ns: when each row learned last
 * @evidence: how many intervals each row has learned, in WTEO_EVIDENCE_ONE
 * @timer: how many of each row's intervals ended by their timer, of WTEO_TIMER_ONE
 * @cells: the cells of all rows, packed by the number of states, so that a
 *	machine with few states touches little memory
 *
 * Row r of block b has number b * states + r in all four.
 */
struct wteo_matrix {
	u64 learned_ns[WTEO_ROWS];
	u16 evidence[WTEO_ROWS];
	u16 timer[WTEO_ROWS];
	struct wteo_cell cells[WTEO_ROWS * CIL_STATE_MAX];
};

/**
 * struct wteo_lesson - an interval that has ended
 * @now_ns: when
 * @duration_ns: how long it was, at most CIL_DURATION_MAX
 * @row: the state that TEO chose for it
 * @column: the column that it fits
 * @rate: learning rate as wteo_rate() returned
 * @by_timer: the timer ended it
 */
struct wteo_lesson {
	u64 now_ns;
	u32 duration_ns;
	u32 row;
	u32 column;
	u32 rate;
	bool by_timer;
};

void wteo_matrix_init(struct wteo_matrix *matrix,
		      const struct cil_machine *machine);
void wteo_aging_init(struct wteo_aging *aging, u32 half_life_ms);
u32 wteo_aging_rest(const struct wteo_aging *aging, u64 elapsed_ns);
u32 wteo_start_time(const struct cil_machine *machine, u32 column);
void wteo_row_age(struct wteo_cell *cells, const struct cil_machine *machine,
		  u32 start, u32 rest);
void wteo_row_learn(struct wteo_cell *cells, u32 columns, u32 column,
		    u32 duration_ns, u32 rate);
void wteo_matrix_learn(struct wteo_matrix *matrix,
		       const struct cil_machine *machine,
		       const struct wteo_aging *aging, u32 block,
		       const struct wteo_lesson *lesson);
void wteo_row_view(const struct wteo_cell *cells, u32 columns,
		   u16 weights[CIL_STATE_MAX]);

/**
 * wteo_row_rest() - how much of a row is left
 * @matrix: the matrix
 * @aging: as prepared
 * @number: number of the row
 * @now_ns: time
 *
 * Return: as wteo_aging_rest(). A clock that went back ages nothing.
 */
static inline u32 wteo_row_rest(const struct wteo_matrix *matrix,
				const struct wteo_aging *aging, u32 number,
				u64 now_ns)
{
	u64 learned_ns = matrix->learned_ns[number];

	/* Most often less than one unit has passed. */
	if (now_ns <= learned_ns || !((now_ns - learned_ns) >> aging->shift))
		return CIL_ONE;
	return wteo_aging_rest(aging, now_ns - learned_ns);
}

/**
 * wteo_rate() - learning rate as a share
 * @per_mille: 0 to 1000
 *
 * Return: the rate, 20 fraction bits.
 */
static inline u32 wteo_rate(u32 per_mille)
{
	return (per_mille << 20) / 1000;
}

#endif /* CIL_WTEO_MATRIX_H */
