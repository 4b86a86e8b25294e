/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_MENU_NG_H
#define CIL_MENU_NG_H

#include "../common/policy.h"

/* Most intervals that can be kept; a power of two, as a ring needs. */
#define MENU_NG_HISTORY_MAX	128

/* Classes of sleep length, each with a correction factor of its own. */
#define MENU_NG_BUCKETS		6

/* An interval that says nothing: there was no idle period. */
#define MENU_NG_NO_INTERVAL	U32_MAX

/**
 * struct menu_ng_tunables - values in the order of the table of tunables
 * @history_size: intervals in the window
 * @stddev_us: a standard deviation up to this makes the average typical
 * @stddev_ratio: so does one this many times smaller than the average
 * @min_share: part of the window that must remain, in percent
 * @decay: idle periods over which a correction factor is averaged
 * @max_interesting_us: longer idle periods count as what the timer promised
 */
struct menu_ng_tunables {
	u32 history_size;
	u32 stddev_us;
	u32 stddev_ratio;
	u32 min_share;
	u32 decay;
	u32 max_interesting_us;
};

/**
 * struct menu_ng_window - the last intervals in order of time and of length
 * @size: number of intervals in the window
 * @min_share: part of it, in percent, below which nothing is left out
 * @rest: intervals at which no more are left out
 * @enough: intervals that make a pattern, one more if @min_share falls between
 * @core_first: position in @sorted where the core begins
 * @core_last: position of its last interval
 * @core_count: intervals in the core, 0 if there is none
 * @newest: position in @ring of the next interval, counted without end
 * @valid: intervals that are not %MENU_NG_NO_INTERVAL; @sorted begins with them
 * @sum: their sum in us
 * @square_sum: the sum of their squares in us^2, modulo 2^64
 * @core_sum: as @sum, of the core
 * @core_square_sum: as @square_sum, of the core
 * @ring: every interval that may be asked for again, by time, in us
 * @sorted: those of the window, shortest first, in us
 */
struct menu_ng_window {
	u32 size;
	u32 min_share;
	u32 rest;
	u32 enough;
	u32 core_first;
	u32 core_last;
	u32 core_count;
	u32 newest;
	u32 valid;
	u64 sum;
	u64 square_sum;
	u64 core_sum;
	u64 core_square_sum;
	u32 ring[MENU_NG_HISTORY_MAX];
	u32 sorted[MENU_NG_HISTORY_MAX];
};

/**
 * struct menu_ng - what is remembered about one CPU
 * @next_timer_ns: sleep length at the last decision, %CIL_TIME_MAX if it was
 *	not asked for
 * @bucket: class of @next_timer_ns
 * @decay: the tunable as the factors were scaled
 * @factors: share of the sleep length really slept, in units of
 *	1 / (1024 * @decay)
 * @window: the last intervals
 */
struct menu_ng {
	u64 next_timer_ns;
	u32 bucket;
	u32 decay;
	u32 factors[MENU_NG_BUCKETS];
	struct menu_ng_window window;
};

void menu_ng_window_resize(struct menu_ng_window *window, u32 size,
			   u32 min_share);
void menu_ng_window_add(struct menu_ng_window *window, u32 interval_us);
u32 menu_ng_typical_us(const struct menu_ng_window *window,
		       const struct menu_ng_tunables *tunables);

#endif /* CIL_MENU_NG_H */
