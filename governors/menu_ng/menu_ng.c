// SPDX-License-Identifier: GPL-2.0
/*
 * menu_ng - decide by repetition, and by the next timer as far as it is right
 */

/**
 * DOC: menu_ng
 *
 * This is the algorithm of the kernel's menu governor as of Linux 7.2. With its
 * tunables at their defaults it makes the same decisions, given the same idle
 * periods. With another history_size it makes those of a menu compiled for it.
 *
 * **Observation.** Two things are known about the idle period to come. It ends
 * at the next timer event at the latest, in the *sleep length*. And it is
 * likely to be like those before it. A device that interrupts at a steady rate
 * repeats itself. Where a CPU was woken halfway to the timer nine times, it
 * will be the tenth time.
 *
 * **Consequence.** Two guesses can be made, and the shorter one is safe to use.
 * One is a *typical interval*, if the last ones agree. The other is the sleep
 * length times a *correction factor*. If the typical interval is so short that
 * no sleep length could change the choice, the costly question about the timer
 * can be left out.
 *
 * **What is remembered.** An *interval* is the time in us for which the CPU
 * could have stayed idle, as it turned out:
 *
 * - the measured residency less the exit latency, as the residency includes the
 *   wake-up;
 * - half of the residency if it is below two exit latencies, as then the state
 *   was hardly reached;
 * - nine tenths of %max_interesting_us, if the tick ended the idle period
 *   although no timer was due within a tick period. To keep the tick was a
 *   mistake, and the CPU could have slept long, for an unknown time;
 * - the sleep length, if the polling state gave up, as this was a mistake, too;
 * - nothing (%MENU_NG_NO_INTERVAL), if there was no idle period.
 *
 * It is never more than the sleep length. The *window* holds the last
 * %history_size intervals; a new one is filled with zeros.
 *
 * The sleep length falls into one of six *buckets*: below 10 us, 100 us, 1 ms,
 * 10 ms, 100 ms, or longer. Each has its own correction factor, as long sleeps
 * are cut short more often. A factor starts at one. After each idle period it
 * moves by one in %decay of the way towards interval / sleep length. It moves
 * towards one if the interval reached %max_interesting_us: such a sleep is long
 * enough for any state. It is stored in units of 1 / (%UNITY * %decay), so that
 * the division truncates before it could reach zero.
 *
 * **The typical interval** is the average of the window without its outliers:
 *
 * a. The average is typical if the standard deviation of the intervals that are
 *    left is at most %stddev_us. It is also typical if it is more than
 *    %stddev_ratio times as large as that, and at least %min_share of the
 *    window is left.
 *
 * b. If no more than %min_share of the window is left, nothing is typical. Then
 *    the timer decides, so the deeper state is chosen in doubt. On many
 *    machines the CPUs that run may run faster for each that sleeps deep.
 *
 * c. The shortest or the longest interval, whichever is farther from the
 *    average, is left out with all its equals. Start again with a.
 *
 * With eight intervals this takes three rounds at most; with 128 it would be 33
 * times over 128 intervals. So the window is also kept *sorted*. The intervals
 * that are left are a range of it, given by its two ends, its sum and the sum
 * of its squares. To leave an interval out is to move an end and to subtract. A
 * newcomer is placed by two binary searches and one move of memory. The *core*
 * is summed up beside. It is the middle part of the sorted window that no round
 * can touch (half of it, if a quarter may be left out). If the core by itself
 * scatters too much for a., there is no hope, and no round is needed.
 *
 * **Choosing a state.** The steps in the order of the code.
 *
 * 1. If no idle period followed the last choice, %MENU_NG_NO_INTERVAL is added
 *    to the window.
 *
 * 2. The *prediction* is the typical interval, without limit if there is none.
 *    If it is within %CIL_RESIDENCY_THRESHOLD_NS and the tick is running, the
 *    timer is not asked. The sleep length then counts as infinite, and the tick
 *    as half a period away, which it is on average.
 *
 * 3. Otherwise the sleep length is read, and the prediction is not more than
 *    its corrected value. But with the tick stopped, a CPU that is not woken as
 *    soon as expected is stuck in a shallow state. So the prediction is the
 *    sleep length then. The prediction stands if it exceeds a tick period
 *    anyway, or if the timer comes within two and ends the mistake.
 *
 * 4. State 0 is the answer at once if no latency is allowed at all. It is, too,
 *    if it is enabled, and state 1 either cannot pay before the timer or wakes
 *    up too slowly for the latency request. The tick is kept if state 0 polls.
 *
 * 5. The enabled states are tried from the shallowest on. The deepest one is
 *    found that pays within the prediction, before the first one that is too
 *    slow for the latency request.
 *
 * 6. Where a state is the first that does not pay within the prediction:
 *
 *    - it is used instead of polling, if it pays within the sleep length and
 *      %CIL_RESIDENCY_THRESHOLD_NS, and its exit latency is within the
 *      prediction. It hardly loses, and polling burns;
 *    - if the prediction reaches a tick period and the tick is running, the
 *      tick is kept to decide again. The prediction becomes the target
 *      residency of the state that was found;
 *    - with the tick stopped, it is used if it pays until the timer and the
 *      state that was found needs less than a tick period. A shallow state
 *      would be for long.
 *
 * 7. The tick is kept, unless stopped already, if the state that was found
 *    polls or the prediction is below a tick period. Then the tick may end the
 *    idle period. If it comes before the state pays, the next shallower enabled
 *    state takes its place until one does.
 *
 * The reason given with a decision names the step. Step 4 is menu-state0. Step
 * 5 is menu-predicted or menu-latency-limit. Step 6 is menu-instead-of-polling,
 * menu-shallow-keep-tick or menu-tick-stopped. Step 7 is menu-tick-limit.
 *
 * Arithmetic is in 64 bits that wrap, as in mainline. It divides 64 bits by 64
 * bits with a plain operator, which takes a 64-bit kernel.
 */

#include "menu_ng.h"

/* A correction factor of one, times the tunable decay. */
#define UNITY		1024

/* Intervals are kept in us: 32 bits of them reach beyond an hour. */
#define NS_PER_US	((u64)CIL_NSEC_PER_USEC)

/*
 * Intervals below this, a quarter of a second, deviate so little that count^2
 * times their variance, times 128, times any stddev_ratio^2 fits 64 bits.
 */
#define EXACT_LIMIT_US	(256u * 1024)

/* Intervals below this, minutes, can be squared and added up in 64 bits. */
#define SQUARE_LIMIT_US	(256u * 1024 * 1024)

enum { NO_STATE = -1 };

static const struct cil_tunable menu_ng_table[] = {
	{
		.name = "history_size",
		.unit = "intervals",
		.what = "Idle intervals that are searched for a typical one.",
		.why = "As mainline. More intervals resist noise, but follow a change later.",
		.min = 2, .max = MENU_NG_HISTORY_MAX, .def = 8,
	}, {
		.name = "stddev_us",
		.unit = "us",
		.what = "A standard deviation up to this makes the average typical.",
		.why = "An error of 20 us moves the choice by one shallow state at most.",
		.min = 0, .max = 1000, .def = 20,
	}, {
		.name = "stddev_ratio",
		.unit = "",
		.what = "An average of more than this many standard deviations is typical.",
		.why = "Target residencies of neighbouring states differ by more than a sixth.",
		.min = 1, .max = 16, .def = 6,
	}, {
		.name = "min_share",
		.unit = "%",
		.what = "Part of the window that must agree; the rest may be left out.",
		.why = "Two of eight intervals may be exceptions; six still make a pattern.",
		.min = 25, .max = 100, .def = 75,
	}, {
		.name = "decay",
		.unit = "idle periods",
		.what = "Idle periods over which a correction factor is averaged.",
		.why = "As long as the default window, so both predictors forget at the same pace.",
		.min = 2, .max = 64, .def = 8,
	}, {
		.name = "max_interesting_us",
		.unit = "us",
		.what = "An idle period at least this long counts as ended by the timer.",
		.why = "No idle state needs a stay of more than 50 ms to pay.",
		.min = 1000, .max = 1000000, .def = 50000,
	},
};

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

/* A tunable that the state depends on was changed. */
static void update_tunables(struct menu_ng *menu,
			    const struct menu_ng_tunables *t)
{
	u32 i;

	if (menu->window.size != t->history_size ||
	    menu->window.min_share != t->min_share)
		menu_ng_window_resize(&menu->window, t->history_size,
				      t->min_share);
	if (menu->decay == t->decay)
		return;
	/* Rounded up: a factor of 0 would say that no timer is ever reached. */
	for (i = 0; i < MENU_NG_BUCKETS; i++)
		menu->factors[i] = (menu->factors[i] * t->decay +
				    menu->decay - 1) / menu->decay;
	menu->decay = t->decay;
}

static u32 bucket_of(u64 duration_ns)
{
	u64 limit_ns = 10 * NS_PER_US;
	u32 bucket = 0;

	while (bucket < MENU_NG_BUCKETS - 1 && duration_ns >= limit_ns) {
		limit_ns *= 10;
		bucket++;
	}
	return bucket;
}

/**
 * struct choice - the state of a search
 * @index: state found so far, or NO_STATE
 * @predicted_ns: idle duration expected
 * @delta_tick_ns: time to the next timer event, the tick included
 * @reason: the step that found @index
 */
struct choice {
	int index;
	u64 predicted_ns;
	s64 delta_tick_ns;
	enum cil_reason reason;
};

/* Ask for the next timer, and expect the part of it that it usually gives. */
static u64 correct_timer(struct menu_ng *menu, struct cil_query *query,
			 struct choice *c)
{
	s64 sleep_length_ns = cil_sleep_length(query);
	u64 unit = UNITY * menu->decay * NS_PER_US;

	c->delta_tick_ns = query->delta_tick_ns;
	if (sleep_length_ns < 0) {
		sleep_length_ns = 0;
		c->delta_tick_ns = 0;
	}
	menu->next_timer_ns = sleep_length_ns;
	menu->bucket = bucket_of(sleep_length_ns);
	/* To the nearest us, in the 32 bits of an interval. */
	return (u32)((unit / 2 + menu->next_timer_ns *
		      menu->factors[menu->bucket]) / unit) * NS_PER_US;
}

static void predict(struct menu_ng *menu, const struct cil_machine *machine,
		    const struct menu_ng_tunables *t, struct cil_query *query,
		    struct choice *c)
{
	u64 corrected_ns;

	c->predicted_ns = menu_ng_typical_us(&menu->window, t) * NS_PER_US;
	if (c->predicted_ns <= CIL_RESIDENCY_THRESHOLD_NS &&
	    !query->tick_stopped) {
		menu->next_timer_ns = CIL_TIME_MAX;
		menu->bucket = MENU_NG_BUCKETS - 1;
		c->delta_tick_ns = machine->tick_ns / 2;
		return;
	}

	corrected_ns = correct_timer(menu, query, c);
	if (corrected_ns < c->predicted_ns)
		c->predicted_ns = corrected_ns;
	if (query->tick_stopped && c->predicted_ns < machine->tick_ns &&
	    menu->next_timer_ns > 2 * machine->tick_ns)
		c->predicted_ns = menu->next_timer_ns;
}

static bool only_state0(const struct menu_ng *menu,
			const struct cil_machine *machine,
			const struct cil_query *query)
{
	const struct cil_state *next = &machine->states[1];

	if (!query->latency_req_ns)
		return true;
	if (machine->state_count < 2 || cil_disabled(query, 0))
		return false;
	return menu->next_timer_ns < next->target_residency_ns ||
	       query->latency_req_ns < next->exit_latency_ns;
}

/* State @i is the first one that is too deep for the prediction. */
static void try_deeper(const struct menu_ng *menu,
		       const struct cil_machine *machine,
		       const struct cil_query *query, u32 i, struct choice *c)
{
	const struct cil_state *found = &machine->states[c->index];
	const struct cil_state *deeper = &machine->states[i];

	if (found->polling &&
	    deeper->target_residency_ns < CIL_RESIDENCY_THRESHOLD_NS &&
	    deeper->target_residency_ns <= menu->next_timer_ns &&
	    deeper->exit_latency_ns <= c->predicted_ns) {
		c->index = i;
		c->predicted_ns = deeper->target_residency_ns;
		c->reason = CIL_REASON_MENU_PHYSICAL;
		return;
	}
	if (c->predicted_ns < machine->tick_ns)
		return;

	if (!query->tick_stopped) {
		c->predicted_ns = found->target_residency_ns;
		c->reason = CIL_REASON_MENU_RETAIN;
	} else if (found->target_residency_ns < machine->tick_ns &&
		   deeper->target_residency_ns <= c->delta_tick_ns) {
		c->index = i;
		c->reason = CIL_REASON_MENU_UNSTICK;
	}
}

static void find_state(const struct menu_ng *menu,
		       const struct cil_machine *machine,
		       const struct cil_query *query, struct choice *c)
{
	u32 i;

	for (i = 0; i < machine->state_count; i++) {
		const struct cil_state *state = &machine->states[i];

		if (cil_disabled(query, i))
			continue;
		if (c->index == NO_STATE) {
			c->index = i;
			c->reason = CIL_REASON_MENU_PREDICTED;
		}
		if (state->exit_latency_ns > query->latency_req_ns) {
			c->reason = CIL_REASON_MENU_LATENCY;
			return;
		}
		if (state->target_residency_ns > c->predicted_ns) {
			try_deeper(menu, machine, query, i, c);
			return;
		}
		c->index = i;
	}
	if (c->index == NO_STATE)
		c->index = 0;
}

/* The tick stays and ends the idle period: the state has to pay until then. */
static void limit_to_tick(const struct cil_machine *machine,
			  const struct cil_query *query, struct choice *c)
{
	int i = c->index;

	while (machine->states[c->index].target_residency_ns >
	       c->delta_tick_ns && --i >= 0) {
		if (cil_disabled(query, i))
			continue;
		c->index = i;
		c->reason = CIL_REASON_MENU_TICK;
	}
}

static void menu_ng_select(void *state, const struct cil_machine *machine,
			   const void *tunables, struct cil_query *query,
			   struct cil_decision *decision)
{
	struct choice c = { .index = NO_STATE, .reason = CIL_REASON_NO_STATE };
	const struct cil_state *states = machine->states;
	const struct menu_ng_tunables *t = tunables;
	struct menu_ng *menu = state;

	update_tunables(menu, t);
	if (query->rejected)
		menu_ng_window_add(&menu->window, MENU_NG_NO_INTERVAL);

	predict(menu, machine, t, query, &c);
	decision->row = CIL_ROW_NONE;
	if (only_state0(menu, machine, query)) {
		decision->index = 0;
		decision->stop_tick = !states[0].polling;
		decision->reason = CIL_REASON_MENU_STATE0;
		return;
	}

	find_state(menu, machine, query, &c);
	decision->stop_tick = query->tick_stopped ||
			      (!states[c.index].polling &&
			       c.predicted_ns >= machine->tick_ns);
	if (!decision->stop_tick)
		limit_to_tick(machine, query, &c);
	decision->index = c.index;
	decision->reason = c.reason;
}

/* How long might the CPU have been idle, the wake-up not counted? */
static u64 menu_ng_duration(const struct menu_ng *menu,
			    const struct cil_machine *machine,
			    const struct menu_ng_tunables *t,
			    const struct cil_outcome *outcome)
{
	const struct cil_state *entered = &machine->states[outcome->index];
	u64 exit_latency_ns = entered->exit_latency_ns;

	if (outcome->tick_wakeup && menu->next_timer_ns > machine->tick_ns)
		return 9 * (t->max_interesting_us * NS_PER_US) / 10;
	if (entered->polling && outcome->poll_time_limit)
		return menu->next_timer_ns;
	if (outcome->residency_ns > 2 * exit_latency_ns)
		return outcome->residency_ns - exit_latency_ns;
	return outcome->residency_ns / 2;
}

static void menu_ng_update(void *state, const struct cil_machine *machine,
			   const void *tunables,
			   const struct cil_outcome *outcome)
{
	const struct menu_ng_tunables *t = tunables;
	struct menu_ng *menu = state;
	u64 idle_ns, share = UNITY;
	u32 *factor;

	update_tunables(menu, t);
	idle_ns = menu_ng_duration(menu, machine, t, outcome);
	if (idle_ns > menu->next_timer_ns)
		idle_ns = menu->next_timer_ns;
	if (menu->next_timer_ns && idle_ns < t->max_interesting_us * NS_PER_US)
		share = UNITY * idle_ns / menu->next_timer_ns;

	factor = &menu->factors[menu->bucket];
	*factor += share - *factor / menu->decay;
	menu_ng_window_add(&menu->window, idle_ns / NS_PER_US);
}

static void menu_ng_init(void *state, const struct cil_machine *machine,
			 const void *tunables)
{
	const struct menu_ng_tunables *t = tunables;
	struct menu_ng *menu = state;
	u32 i;

	memset(menu, 0, sizeof(*menu));
	menu_ng_window_resize(&menu->window, t->history_size, t->min_share);
	menu->decay = t->decay;
	for (i = 0; i < MENU_NG_BUCKETS; i++)
		menu->factors[i] = UNITY * t->decay;
}

static void menu_ng_dump(const void *state, const struct cil_machine *machine,
			 const void *tunables, u64 now_ns,
			 struct cil_sink *sink)
{
	static const char *const names[MENU_NG_BUCKETS] = {
		"< 10 us", "< 100 us", "< 1 ms", "< 10 ms", "< 100 ms", "longer",
	};
	const struct menu_ng *menu = state;
	const struct menu_ng_window *window = &menu->window;
	u32 typical_us = menu_ng_typical_us(window, tunables);
	u32 i;

	cil_env_print(sink, "intervals by length (us), %u of %u known:",
		      window->valid, window->size);
	for (i = 0; i < window->valid; i++)
		cil_env_print(sink, "%s%u", i % 16 ? " " : "\n  ",
			      window->sorted[i]);
	if (typical_us == MENU_NG_NO_INTERVAL)
		cil_env_print(sink, "\ntypical interval: none\n");
	else
		cil_env_print(sink, "\ntypical interval: %u us\n", typical_us);
	cil_env_print(sink, "really slept of the sleep length (per mille):\n");
	for (i = 0; i < MENU_NG_BUCKETS; i++)
		cil_env_print(sink, "  %-8s %4u\n", names[i],
			      menu->factors[i] * 1000 / (UNITY * menu->decay));
}

static_assert(sizeof(menu_ng_table) / sizeof(*menu_ng_table) ==
	      sizeof(struct menu_ng_tunables) / sizeof(u32),
	      "a description for each tunable");

const struct cil_policy menu_ng_policy = {
	.name = "menu_ng",
	.state_size = sizeof(struct menu_ng),
	.tunables = menu_ng_table,
	.tunable_count = sizeof(struct menu_ng_tunables) / sizeof(u32),
	.init = menu_ng_init,
	.select = menu_ng_select,
	.update = menu_ng_update,
	.dump = menu_ng_dump,
};
