/* SPDX-License-Identifier: GPL-2.0 */
/* The expected length of an interval; outlook.c tells how it is found. */
#ifndef CIL_REPLAY_OUTLOOK_H
#define CIL_REPLAY_OUTLOOK_H

#include "../../../governors/common/types.h"

/* Bins: 8 linear parts of each octave, from 512 ns to 34 s. */
#define BIN_SHIFT	3
#define FIRST_OCTAVE	9
#define LAST_OCTAVE	34
#define BINS		((LAST_OCTAVE + 1 - FIRST_OCTAVE) << BIN_SHIFT)

/* As many as the table in outlook.c has. */
#define EXPERTS		16

/* Sum of the rows in that table; rp_outlook_init() would go beyond its end. */
#define ROWS		(4 + 2 * 32 + 64 + 256 + 3 * 64 + 5 * 1024)

/* Intervals that are remembered one by one. */
#define PAST		3

/* Means of the bins that are kept, the second over four times the first... */
#define LEVELS_KEPT	3

/**
 * struct row - hazards in one context
 * @key: the context, plus one; 0 if nothing was learned yet
 * @faith: probability that the context matters, that is, that this row and not
 *	the expert's parent is to be followed
 * @ended: intervals that ended in each bin, those long ago count for less
 * @reached: intervals that reached each bin, likewise
 */
struct row {
	u64 key;
	float faith;
	float ended[BINS];
	float reached[BINS];
};

/**
 * struct outlook - how long the interval will last, from its beginning
 * @share: probability of each bin
 * @at_ns: length that stands for the bin
 * @beyond: probability of this bin and those after it, the timer included
 * @beyond_ns: @beyond times the mean length there
 * @late_ns: length that stands for those after all bins: the timer, usually
 * @end: number of bins
 */
struct outlook {
	float share[BINS];
	double at_ns[BINS];
	double beyond[BINS + 1];
	double beyond_ns[BINS + 1];
	double late_ns;
	u32 end;
};

/**
 * struct forecast - what is known of one CPU, and what it makes one expect
 * @rows: rows of all experts, one expert after the other
 * @prior: hazards before anything is known
 * @first_row: first row of each expert
 * @row: row of each expert in the present context; a number, so that a copy is one
 * @key: the present context of each expert
 * @hazard: what each expert says about the present interval
 * @survival: for each bin, the probability of each expert to reach it
 * @weight: weight of each expert
 * @faith: of the present row of each expert
 * @mean_ns: mean length of the intervals in a bin
 * @learned: intervals that were learned
 * @high: end of the bins that matter, a multiple of %BLOCK
 * @outlook: the mixture
 * @timer_ns: the timer, from the beginning of the present interval
 * @past: bins of the last intervals, the latest first
 * @sides: bit n is set if the n-th last was longer than usual
 * @usual_ns: mean length
 * @level: means of the bins over 2, 8 and 32 intervals
 * @run: intervals since the last that was longer than usual
 */
struct forecast {
	struct row rows[ROWS];
	float prior[BINS];
	u32 first_row[EXPERTS];
	u32 row[EXPERTS];
	u64 key[EXPERTS];
	float hazard[EXPERTS][BINS];
	float survival[BINS + 1][EXPERTS];
	float weight[EXPERTS];
	float faith[EXPERTS];
	double mean_ns[BINS];
	u64 learned;
	u32 high;
	struct outlook outlook;
	s64 timer_ns;
	u32 past[PAST];
	u32 sides;
	double usual_ns;
	float level[LEVELS_KEPT];
	u32 run;
};

/**
 * struct rest - what is to come after some time, not divided by @share
 * @share: probability that the interval lasts longer
 * @ns: expected time that it lasts longer
 */
struct rest {
	double share;
	double ns;
};

void rp_outlook_init(struct forecast *f);
void rp_outlook_predict(struct forecast *f, s64 timer_ns);
void rp_outlook_learn(struct forecast *f, s64 length_ns);
struct rest rp_outlook_rest(const struct outlook *o, double now_ns);

#endif /* CIL_REPLAY_OUTLOOK_H */
