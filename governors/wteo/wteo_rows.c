// SPDX-License-Identifier: GPL-2.0
/*
 * The rows of wteo: how they are found, how they learn and age, and how they
 * are looked at. See wteo.c.
 */
#include "wteo_rows.h"

/* Weight of the first interval: its time is exact to 16 ns, and 31 find room. */
#define FIRST_WEIGHT	0x1000000u

/* A row that others want for themselves is given up when it knows so little. */
#define GIVEN_UP	3

/**
 * wteo_rows_init() - no row has seen anything
 * @rows: in any condition
 * @columns: number of columns
 *
 * The base row begins with one interval that lasted until the timer: as long as
 * nothing is known, the timer is believed.
 *
 * Context: any.
 */
void wteo_rows_init(struct wteo_rows *rows, u32 columns)
{
	struct wteo_row *base = &rows->heads[WTEO_BASE];

	memset(rows, 0, sizeof(*rows));
	rows->cells[columns - 1].weight = FIRST_WEIGHT;
	base->total = FIRST_WEIGHT;
	base->next = FIRST_WEIGHT;
}

/**
 * wteo_growth() - learning rate as growth of weights
 * @per_mille: 1 to 999
 *
 * If each interval weighs more than the one before it by a share g, a row that
 * has learned for long gives the last one the share g / (1 + g).
 *
 * Context: any, but rarely: it divides.
 * Return: the growth, 20 fraction bits.
 */
u32 wteo_growth(u32 per_mille)
{
	return (u32)cil_divide_by_shifts((u64)per_mille << 20, 1000 - per_mille);
}

/**
 * wteo_aging_init() - prepare for a half-life
 * @aging: the result
 * @half_life_ms: time in which a row loses half of what it knows; 0 = never
 *
 * Context: any, but rarely: it divides.
 */
void wteo_aging_init(struct wteo_aging *aging, u32 half_life_ms)
{
	u64 half_life_ns = half_life_ms * (u64)CIL_NSEC_PER_MSEC;

	aging->shift = 0;
	aging->rate = 0;
	aging->grain = S32_MAX;
	aging->dormant = S32_MAX;
	if (!half_life_ms)
		return;
	aging->grain = (s32)(half_life_ns >> (WTEO_STEP_SHIFT + 6));
	aging->dormant = (s32)(half_life_ns >> WTEO_STEP_SHIFT);
	while (half_life_ns >> aging->shift >= 1 << 21)
		aging->shift++;
	aging->rate = cil_divide_by_shifts(1ULL << 40, half_life_ns >> aging->shift);
}

static u32 rest_of(const struct wteo_aging *aging, u32 age)
{
	u64 units = (u64)age << WTEO_STEP_SHIFT >> aging->shift;

	if (!aging->rate)
		return CIL_ONE;
	/* At least 32 half-lives: nothing is left, and nothing overflows. */
	if (units >> 26)
		return 0;
	return cil_half_to_the(units * aging->rate >> 20);
}

/**
 * wteo_row_faded() - what is left of the evidence of a row that has aged
 * @row: the row
 * @aging: as prepared
 * @age: time since it learned last, in steps of 2^WTEO_STEP_SHIFT ns
 *
 * However much a row knew, nobody knows what happened since when it was
 * untouched for a half-life: what is left is too little to be asked, until some
 * more intervals agree or overrule it.
 *
 * Context: any.
 * Return: the weight, to be compared with @row->next.
 */
u32 wteo_row_faded(const struct wteo_row *row, const struct wteo_aging *aging,
		   s32 age)
{
	u32 left = cil_scale(row->total, rest_of(aging, (u32)age));
	u64 most = (u64)row->next * WTEO_DORMANT;

	return age > aging->dormant && left > most ? (u32)most : left;
}

/**
 * wteo_row_shrink() - all weights of a row shrink to a share
 * @row: the row
 * @cells: its cells
 * @columns: number of columns
 * @share: of CIL_ONE
 *
 * Context: any.
 */
void wteo_row_shrink(struct wteo_row *row, struct wteo_cell *cells, u32 columns,
		     u32 share)
{
	u32 k;

	row->total = 0;
	for (k = 0; k < columns; k++) {
		cells[k].weight = cil_scale(cells[k].weight, share);
		cells[k].time = cil_scale(cells[k].time, share);
		row->total += cells[k].weight;
	}
}

/**
 * wteo_row_age() - write the age of a row back
 * @row: the row
 * @cells: its cells
 * @columns: number of columns
 * @aging: as prepared
 * @age: time since it learned last, in steps of 2^WTEO_STEP_SHIFT ns
 *
 * The next interval keeps its weight, so it counts for more.
 *
 * Context: any, but rarely: it divides.
 */
void wteo_row_age(struct wteo_row *row, struct wteo_cell *cells, u32 columns,
		  const struct wteo_aging *aging, s32 age)
{
	u64 left = wteo_row_left(row, aging, age);

	if (row->total)
		wteo_row_shrink(row, cells, columns,
				(u32)cil_divide(left << 30, row->total));
}

/**
 * wteo_rows_forget() - all rows but the base row are free again
 * @rows: all rows
 *
 * Context: any.
 */
void wteo_rows_forget(struct wteo_rows *rows)
{
	memset(rows->heads + 1, 0, WTEO_KEYED * sizeof(*rows->heads));
}

/**
 * wteo_row_claim() - try to take a row for a condition
 * @rows: all rows
 * @columns: number of columns
 * @slot: number of the row
 * @key: the condition
 *
 * A row that is in use for another condition forgets a little instead, until
 * it knows so little that it is given up.
 *
 * Context: any.
 * Return: whether the row is for @key now, and empty.
 */
bool wteo_row_claim(struct wteo_rows *rows, u32 columns, u32 slot, u32 key)
{
	struct wteo_row *row = &rows->heads[slot];

	if (row->key && row->total >= (u64)row->next * GIVEN_UP) {
		row->next += row->next >> 3;
		return false;
	}
	memset(rows->cells + slot * columns, 0,
	       columns * sizeof(*rows->cells));
	row->key = key;
	row->total = 0;
	row->next = FIRST_WEIGHT;
	row->learned = rows->heads[WTEO_BASE].learned;
	return true;
}

