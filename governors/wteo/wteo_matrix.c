// SPDX-License-Identifier: GPL-2.0
/*
 * The matrix of wteo: how it learns, ages and is looked at. See wteo.c.
 */
#include "wteo_matrix.h"

/*
 * The deepest state's bin never ends; an interval of twice its target
 * residency is taken to be typical until one has been seen.
 */
#define OPEN_BIN_FACTOR		2

/**
 * wteo_start_time() - mean interval of a column before anything was learned
 * @machine: the idle states
 * @column: the column
 *
 * Return: the middle of the column's bin, as the time of a cell of full weight.
 */
u32 wteo_start_time(const struct cil_machine *machine, u32 column)
{
	s64 begin_ns = cil_clamp(machine->states[column].target_residency_ns,
				 0, CIL_DURATION_MAX);
	s64 end_ns = begin_ns * OPEN_BIN_FACTOR;

	if (column + 1 < machine->state_count)
		end_ns = machine->states[column + 1].target_residency_ns;
	end_ns = cil_clamp(end_ns, begin_ns, CIL_DURATION_MAX);
	return (u32)(begin_ns + end_ns) << (CIL_TIME_SHIFT - 1);
}

static void row_start(struct wteo_cell *cells,
		      const struct cil_machine *machine, u32 start)
{
	u32 k;

	for (k = 0; k < machine->state_count; k++)
		cells[k] = (struct wteo_cell){ 0 };
	cells[start].weight = CIL_ONE;
	cells[start].time = wteo_start_time(machine, start);
}

/**
 * wteo_matrix_init() - every row agrees with TEO and has seen nothing
 * @matrix: in any condition
 * @machine: the idle states
 */
void wteo_matrix_init(struct wteo_matrix *matrix,
		      const struct cil_machine *machine)
{
	u32 n = machine->state_count;
	u32 row;

	memset(matrix, 0, sizeof(*matrix));
	for (row = 0; row < WTEO_BLOCKS * n; row++)
		row_start(matrix->cells + row * n, machine, row % n);
}

/**
 * wteo_aging_init() - prepare for a half-life
 * @aging: the result
 * @half_life_ms: time in which a row loses half of what it learned; 0 = never
 */
void wteo_aging_init(struct wteo_aging *aging, u32 half_life_ms)
{
	u64 half_life_ns = half_life_ms * (u64)CIL_NSEC_PER_MSEC;

	aging->half_life_ms = half_life_ms;
	aging->shift = 0;
	aging->rate = 0;
	if (!half_life_ms)
		return;
	while (half_life_ns >> aging->shift >= 1 << 21)
		aging->shift++;
	aging->rate = cil_divide(1ULL << 40, half_life_ns >> aging->shift);
}

/**
 * wteo_aging_rest() - how much of a row is left
 * @aging: as prepared
 * @elapsed_ns: time since the row learned last
 *
 * Return: the share of what was learned that still counts, of CIL_ONE.
 */
u32 wteo_aging_rest(const struct wteo_aging *aging, u64 elapsed_ns)
{
	u64 units = elapsed_ns >> aging->shift;

	if (!aging->rate)
		return CIL_ONE;
	/* At least 32 half-lives: nothing is left, and nothing overflows. */
	if (units >> 26)
		return 0;
	return cil_half_to_the(units * aging->rate >> 20);
}

/**
 * wteo_row_age() - let a row relax towards its start
 * @cells: the row
 * @machine: the idle states
 * @start: the column that held all weight at the start
 * @rest: as wteo_aging_rest() returned
 *
 * The start column takes what the others lose, so the sum stays exact.
 */
void wteo_row_age(struct wteo_cell *cells, const struct cil_machine *machine,
		  u32 start, u32 rest)
{
	u32 sum = 0;
	u32 k;

	if (rest == CIL_ONE)
		return;
	for (k = 0; k < machine->state_count; k++) {
		cells[k].time = cil_scale(cells[k].time, rest);
		if (k == start)
			continue;
		cells[k].weight = cil_scale(cells[k].weight, rest);
		sum += cells[k].weight;
	}
	cells[start].weight = CIL_ONE - sum;
	cells[start].time += cil_scale(wteo_start_time(machine, start),
				       CIL_ONE - rest);
}

/**
 * wteo_row_learn() - an interval has happened
 * @cells: the row
 * @columns: number of columns
 * @column: the column that the interval fits
 * @duration_ns: its duration, at most CIL_DURATION_MAX
 * @rate: as wteo_rate() returned
 *
 * Every column but @column loses the same part of its weight, and @column gains
 * exactly what they lost. The times follow in the same way.
 */
void wteo_row_learn(struct wteo_cell *cells, u32 columns, u32 column,
		    u32 duration_ns, u32 rate)
{
	u32 sum = 0;
	u32 k;

	for (k = 0; k < columns; k++) {
		cells[k].time -= ((u64)cells[k].time * rate + (1 << 19)) >> 20;
		cells[k].weight -= (u64)cells[k].weight * rate >> 20;
		sum += cells[k].weight;
	}
	cells[column].weight += CIL_ONE - sum;
	cells[column].time += (u64)duration_ns * rate >>
			      (20 - CIL_TIME_SHIFT);
}

/* One step of a running share towards 0 or 1, exact at both ends. */
static u32 learn_timer(u32 timer, bool by_timer, u32 rate)
{
	u32 distance = by_timer ? WTEO_TIMER_ONE - timer : timer;
	u32 step = ((u64)distance * rate + (1 << 20) - 1) >> 20;

	return by_timer ? timer + step : timer - step;
}

/**
 * wteo_matrix_learn() - an interval of a row has ended
 * @matrix: the matrix
 * @machine: the idle states
 * @aging: as prepared
 * @block: block of the row that learns
 * @lesson: the interval
 *
 * This alone writes the age of a row back.
 */
void wteo_matrix_learn(struct wteo_matrix *matrix,
		       const struct cil_machine *machine,
		       const struct wteo_aging *aging, u32 block,
		       const struct wteo_lesson *lesson)
{
	u32 n = machine->state_count;
	u32 number = block * n + lesson->row;
	struct wteo_cell *cells = matrix->cells + number * n;
	u32 rest = wteo_row_rest(matrix, aging, number, lesson->now_ns);
	u32 evidence = cil_scale(matrix->evidence[number], rest) +
		       WTEO_EVIDENCE_ONE;

	wteo_row_age(cells, machine, lesson->row, rest);
	wteo_row_learn(cells, n, lesson->column, lesson->duration_ns,
		       lesson->rate);
	matrix->timer[number] = (u16)
		learn_timer(cil_scale(matrix->timer[number], rest),
			    lesson->by_timer, lesson->rate);
	matrix->evidence[number] = (u16)(evidence > 0xffff ? 0xffff : evidence);
	matrix->learned_ns[number] = lesson->now_ns;
}

/**
 * wteo_row_view() - a row for people
 * @cells: the row
 * @columns: number of columns
 * @weights: in ten thousandths that sum to 10000; 0 beyond @columns
 *
 * Every weight is rounded down, then the largest remainders are rounded up
 * until the sum is right.
 */
void wteo_row_view(const struct wteo_cell *cells, u32 columns,
		   u16 weights[CIL_STATE_MAX])
{
	u32 remainder[CIL_STATE_MAX];
	u32 missing = WTEO_VIEW_ONE;
	u32 i, k;

	memset(weights, 0, CIL_STATE_MAX * sizeof(*weights));
	for (k = 0; k < columns; k++) {
		u64 exact = (u64)cells[k].weight * WTEO_VIEW_ONE;

		weights[k] = exact >> 30;
		/* One more than the remainder, so that 0 marks "rounded up". */
		remainder[k] = (exact & (CIL_ONE - 1)) + 1;
		missing -= weights[k];
	}
	/* Fewer than there are columns, as each lost less than one. */
	for (i = 0; missing && i < columns; i++, missing--) {
		u32 largest = 0;

		for (k = 1; k < columns; k++)
			if (remainder[k] > remainder[largest])
				largest = k;
		weights[largest]++;
		remainder[largest] = 0;
	}
}
