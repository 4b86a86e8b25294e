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

/* Estimate of the time that the CPU was idle, the wake-up not counted. */
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
