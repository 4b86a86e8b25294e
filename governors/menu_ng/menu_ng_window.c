// SPDX-License-Identifier: GPL-2.0
/*
 * menu_ng's window of intervals, and the typical one among them. See menu_ng.c.
 */
#include "menu_ng.h"

/*
 * Intervals below this, a quarter of a second, deviate so little that count^2
 * times their variance, times 128, times any stddev_ratio^2 fits 64 bits.
 */
#define EXACT_LIMIT_US	(256u * 1024)

/* Intervals below this, minutes, can be squared and added up in 64 bits. */
#define SQUARE_LIMIT_US	(256u * 1024 * 1024)

/* Position in @sorted of the first of @count intervals not below @value. */
static u32 position_of(const u32 *sorted, u32 count, u32 value)
{
	u32 first = 0;

	while (count) {
		u32 half = count / 2;

		if (sorted[first + half] < value) {
			first += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return first;
}

static u64 square(u64 value)
{
	return value * value;
}

static void account(struct menu_ng_window *window, u32 interval_us)
{
	if (interval_us == MENU_NG_NO_INTERVAL)
		return;
	window->valid++;
	window->sum += interval_us;
	window->square_sum += square(interval_us);
}

static void unaccount(struct menu_ng_window *window, u32 interval_us)
{
	if (interval_us == MENU_NG_NO_INTERVAL)
		return;
	window->valid--;
	window->sum -= interval_us;
	window->square_sum -= square(interval_us);
}

static u32 *ring_slot(struct menu_ng_window *window, u32 position)
{
	return &window->ring[position % MENU_NG_HISTORY_MAX];
}

static void place_core(struct menu_ng_window *window)
{
	u32 rest = window->size * window->min_share / 100;

	window->rest = rest;
	window->enough = (window->size * window->min_share + 99) / 100;
	window->core_count = 0;
	window->core_first = 0;
	window->core_last = 0;
	if (2 * rest <= window->size)
		return;
	window->core_count = 2 * rest - window->size;
	window->core_first = window->size - rest;
	window->core_last = rest - 1;
}

static void sum_core(struct menu_ng_window *window)
{
	u32 i;

	window->core_sum = 0;
	window->core_square_sum = 0;
	for (i = window->core_first; i <= window->core_last; i++) {
		window->core_sum += window->sorted[i];
		window->core_square_sum += square(window->sorted[i]);
	}
}

/* Move what lies between, so that the interval at @from makes room at @to. */
static void shift(u32 *sorted, u32 from, u32 to)
{
	if (from < to)
		memmove(sorted + from, sorted + from + 1,
			(to - from) * sizeof(*sorted));
	else
		memmove(sorted + to + 1, sorted + to,
			(from - to) * sizeof(*sorted));
}

/**
 * menu_ng_window_resize() - keep another number of intervals
 * @window: the window
 * @size: number of intervals, 2 to MENU_NG_HISTORY_MAX
 * @min_share: part of them that must agree, in percent
 *
 * The newest intervals stay. A longer window takes back what it knew before.
 */
void menu_ng_window_resize(struct menu_ng_window *window, u32 size,
			   u32 min_share)
{
	u32 i;

	window->size = size;
	window->min_share = min_share;
	window->valid = 0;
	window->sum = 0;
	window->square_sum = 0;
	for (i = 0; i < size; i++) {
		u32 value = *ring_slot(window, window->newest - 1 - i);
		u32 to = position_of(window->sorted, i, value);

		shift(window->sorted, i, to);
		window->sorted[to] = value;
		account(window, value);
	}
	place_core(window);
	sum_core(window);
}

/*
 * If an interval goes from @position, or has come to it, the core lost or
 * gained the nearest one within the core. Others only moved by one.
 */
static u32 core_edge(const struct menu_ng_window *window, u32 position)
{
	if (position < window->core_first)
		position = window->core_first;
	if (position > window->core_last)
		position = window->core_last;
	return window->sorted[position];
}

/**
 * menu_ng_window_add() - the newest interval takes the place of the oldest
 * @window: the window
 * @interval_us: the interval, or MENU_NG_NO_INTERVAL
 */
void menu_ng_window_add(struct menu_ng_window *window, u32 interval_us)
{
	u32 old = *ring_slot(window, window->newest - window->size);
	u32 from, to, edge;

	*ring_slot(window, window->newest++) = interval_us;
	if (interval_us == old)
		return;

	from = position_of(window->sorted, window->size, old);
	if (from == window->size || window->sorted[from] != old) {
		/* Cannot be; but memory behind the window is not ours. */
		menu_ng_window_resize(window, window->size, window->min_share);
		return;
	}
	to = position_of(window->sorted, window->size, interval_us);
	to -= from < to;

	edge = core_edge(window, from);
	window->core_sum -= edge;
	window->core_square_sum -= square(edge);
	shift(window->sorted, from, to);
	window->sorted[to] = interval_us;
	edge = core_edge(window, to);
	window->core_sum += edge;
	window->core_square_sum += square(edge);

	unaccount(window, old);
	account(window, interval_us);
}

/**
 * struct samples - the part of the sorted window that is not left out
 * @first: the shortest interval
 * @end: behind the longest interval
 * @count: number of intervals
 * @sum: their sum
 * @square_sum: sum of their squares, modulo 2^64
 */
struct samples {
	const u32 *first;
	const u32 *end;
	u64 count;
	u64 sum;
	u64 square_sum;
};

static inline void leave_out(struct samples *s, u32 value)
{
	s->count--;
	s->sum -= value;
	s->square_sum -= square(value);
}

/*
 * Is the average, rounded down, more than halfway between the shortest and the
 * longest interval?
 */
static bool shortest_is_farther(const struct samples *s)
{
	return s->sum >= s->count * (((u64)s->first[0] + s->end[-1]) / 2 + 1);
}

/* Leave the interval farthest from the average out, and all equal to it. */
static inline void leave_out_farthest(struct samples *s)
{
	u32 value;

	if (shortest_is_farther(s)) {
		value = *s->first;
		do {
			leave_out(s, value);
		} while (++s->first < s->end && *s->first == value);
	} else {
		value = s->end[-1];
		do {
			leave_out(s, value);
		} while (--s->end > s->first && s->end[-1] == value);
	}
}

/*
 * The cheap half of is_typical(), for most cases: no division. Count^2 times
 * the variance is compared with count^2 times either limit; 1 is taken off the
 * variance, as is_typical() rounds two quotients down.
 */
static inline bool is_scattered(const struct samples *s,
				const struct menu_ng_tunables *t)
{
	u64 one = square(s->count);
	u64 sum_square = square(s->sum);
	u64 scatter = s->count * s->square_sum - sum_square;

	return s->end[-1] < EXACT_LIMIT_US &&
	       scatter >= one * (square(t->stddev_us) + 1) &&
	       square(t->stddev_ratio) * (scatter - one) >= sum_square;
}

/*
 * All in 64 bits that wrap, as in mainline: for intervals of many minutes the
 * sum of the squares does.
 */
static bool is_typical(const struct samples *s,
		       const struct menu_ng_tunables *t, bool enough)
{
	u64 average_square = square(s->sum / s->count);
	u64 variance = s->square_sum / s->count - average_square;
	u64 scaled;

	if (variance <= square(t->stddev_us))
		return true;
	return enough &&
	       !__builtin_mul_overflow(variance, square(t->stddev_ratio),
				       &scaled) &&
	       average_square > scaled;
}

/*
 * Is no set of up to @most intervals typical that contains those of @s?
 *
 * Let @s be c intervals of average A that deviate by D in sum of squares, and
 * the set have n. Let the others in it have an average that is higher by x.
 * With p = (n - c) / n, the average of the set is A + p * x. Its variance is at
 * least D / n + p * (1 - p) * x^2, because other intervals that move the
 * average scatter, too. For no x is (A + p * x)^2 above r^2 times that
 * variance, if
 *
 *	(r^2 * c - (n - c)) * D >= n * c * A^2
 *
 * which is hardest to fulfil for the largest n. Below, both sides are
 * multiplied by c; c * D is count * square_sum - sum^2, and c * A is the sum.
 */
static bool scatters_any(const struct samples *s, u64 most,
			 const struct menu_ng_tunables *t)
{
	u64 weight = (square(t->stddev_ratio) + 1) * s->count;
	u64 one = s->count * most;
	u64 scatter = s->count * s->square_sum - square(s->sum);

	return s->end[-1] < EXACT_LIMIT_US && weight >= most &&
	       scatter >= one * (square(t->stddev_us) + 1) &&
	       (weight - most) * (scatter - one) >= most * square(s->sum);
}

/*
 * Whatever may be left out, can the rest not be typical? The rest contains the
 * core, but for intervals that have equals outside and would go with them.
 */
static bool is_hopeless(const struct menu_ng_window *window,
			const struct menu_ng_tunables *t)
{
	struct samples core = {
		.first = window->sorted + window->core_first,
		.end = window->sorted + window->core_last + 1,
		.count = window->core_count,
		.sum = window->core_sum,
		.square_sum = window->core_square_sum,
	};

	if (!core.count || window->valid <= window->rest ||
	    window->sorted[window->valid - 1] >= SQUARE_LIMIT_US)
		return false;
	while (core.count && *core.first == core.first[-1])
		leave_out(&core, *core.first++);
	while (core.count && core.end[-1] == *core.end)
		leave_out(&core, *--core.end);
	return core.count && scatters_any(&core, window->valid, t);
}

/**
 * menu_ng_typical_us() - the interval that repeats, if there is one
 * @window: the last intervals
 * @tunables: what counts as repeating
 *
 * Return: the typical interval in us, or MENU_NG_NO_INTERVAL.
 */
u32 menu_ng_typical_us(const struct menu_ng_window *window,
		       const struct menu_ng_tunables *tunables)
{
	struct samples s = {
		.first = window->sorted,
		.end = window->sorted + window->valid,
		.count = window->valid,
		.sum = window->sum,
		.square_sum = window->square_sum,
	};

	if (is_hopeless(window, tunables))
		return MENU_NG_NO_INTERVAL;
	/* Intervals of 0, the filling of a new window, are no pattern. */
	while (s.count && s.sum) {
		if (!is_scattered(&s, tunables) &&
		    is_typical(&s, tunables, s.count >= window->enough))
			return s.sum / s.count;
		if (s.count <= window->rest)
			break;
		leave_out_farthest(&s);
	}
	return MENU_NG_NO_INTERVAL;
}
