// SPDX-License-Identifier: GPL-2.0
/*
 * wteo_rfc - a weighted draw corrects TEO's choice
 */

/**
 * DOC: wteo_rfc
 *
 * This is the algorithm of the RFC "Weighted approach to gather and use history
 * in TEO governor" (Pratik Rajesh Sampat, 2020). Its TEO is that of Linux 7.2,
 * which is teo_ng. It is the ancestor of wteo and kept for comparison.
 *
 * **Observation.** TEO does not learn how its own choices turned out. If it
 * chooses state 3 and state 1 would have been right nine times of ten, it
 * chooses state 3 again.
 *
 * **Data structure.** A *matrix* of n rows and n columns for n idle states. Row
 * i belongs to state i as TEO's choice. Column j of it is the *weight* of state
 * j: how probable it is that state j would have been right. The *right* state
 * of an idle period is the deepest one whose target residency is within the
 * idle duration. As in TEO that is the measured residency, less half of the
 * exit latency. At first row i has all of its weight in column i: TEO is right.
 *
 * - *Learning.* After an idle period each weight of the row of TEO's choice
 *   loses the share learning_rate. The weight of the right state gains the sum
 *   of these losses. So each row sums to the same number, exactly. A state that
 *   is right in a share p of cases has a weight that approaches p.
 * - *Aging.* A row that was not used for half_life_ms has lost half of what it
 *   has learned: each weight loses half, and column i gains it. Aging is written
 *   back when the row is used next.
 * - *Window.* The right states of the last history_size idle periods.
 *
 * An idle period that the tick ended, or the time limit of polling, teaches
 * nothing: its length is the governor's own doing.
 *
 * **Choosing a state.** The steps in the order of the code:
 *
 * 1. TEO chooses.
 *
 * 2. If at most half of the window was too short for this choice, it stands. With
 *    history_size=0 this step is left out.
 *
 * 3. A state is drawn by lot with the probabilities of the row. If it is not
 *    shallower than TEO's choice, that choice stands: TEO knows the timer, and
 *    the lot does not. The drawn state may be disabled or beyond the latency
 *    request. Then the next shallower state that is neither takes its place, or
 *    else the next deeper.
 *
 * 4. If the tick is stopped and the timer is more than two ticks away, a state that
 *    pays within a tick could trap the CPU. Then TEO's choice stands.
 *
 * 5. If the tick is running and the drawn state polls or pays within a tick,
 *    the tick is kept. The state has to pay until it comes.
 *
 * Differences to the patch: its weights were whole ten-thousandths that drifted
 * up to a sum of 27000. A weight off the diagonal could not fall below its
 * start. The lot was the kernel's random number. It counted enabled states
 * only, and so named the wrong one where a state was disabled. There was no
 * aging.
 */

#include "../../../../governors/common/fixed.h"
#include "../../../../governors/common/view.h"
#include "wteo_rfc.h"

static s64 wteo_rfc_residency(const struct cil_machine *machine, u32 index)
{
	return machine->states[index].target_residency_ns;
}

static bool is_usable(const struct cil_machine *machine,
		      const struct cil_query *query, u32 index)
{
	return !cil_disabled(query, index) &&
	       machine->states[index].exit_latency_ns <= query->latency_req_ns;
}

static void set_window(struct wteo_rfc *w, u32 size)
{
	memset(&w->window, 0, sizeof(w->window));
	memset(w->window.columns, CIL_ROW_NONE, sizeof(w->window.columns));
	w->window.size = (u8)size;
}

/* Takes changed tunables over, all of them at once. */
static void prepare(struct wteo_rfc *w, const struct cil_machine *machine,
		    const struct wteo_rfc_tunables *t)
{
	if (w->tunables.seed != t->seed)
		w->random = cil_random_seed(t->seed, machine->cpu);
	if (w->tunables.history_size != t->history_size)
		set_window(w, t->history_size);
	w->tunables = *t;
	w->learning = (u32)cil_divide((u64)t->learning_rate << 30, 1000);
}

static void wteo_rfc_init(void *state, const struct cil_machine *machine,
			  const void *tunables)
{
	const struct wteo_rfc_tunables *t = tunables;
	struct wteo_rfc *w = state;
	u32 i;

	memset(w, 0, sizeof(*w));
	teo_ng_init(&w->teo);
	for (i = 0; i < CIL_STATE_MAX; i++)
		w->rows[i][i] = CIL_ONE;
	w->random = cil_random_seed(t->seed, machine->cpu);
	w->tunables.seed = t->seed;
	set_window(w, t->history_size);
	w->tunables.history_size = t->history_size;
	w->learned = CIL_ROW_NONE;
	prepare(w, machine, t);
}

/* All weights of a row shrink to a share; one column gains what they lose. */
static void move_weight(u32 *row, u32 states, u32 column, u32 share)
{
	u32 rest = CIL_ONE;
	u32 k;

	for (k = 0; k < states; k++) {
		row[k] = cil_scale(row[k], share);
		rest -= row[k];
	}
	row[column] += rest;
}

/* The rest of a row's evidence, a share of CIL_ONE. */
static u32 fresh_share(const struct wteo_rfc *w, u32 choice, u64 now_ns)
{
	u64 half_life_ns = w->tunables.half_life_ms * (u64)CIL_NSEC_PER_MSEC;
	u64 age_ns = now_ns - w->touched_ns[choice];
	u32 shift = age_ns >> 43 ? 10 : 0;

	/* Young rows need no division; a clock that went back ages nothing. */
	if (!half_life_ns || (s64)age_ns < (s64)(half_life_ns >> 6))
		return CIL_ONE;
	/* Half to the 32nd is none; and half_life_ms is a day at most. */
	if (age_ns >> 5 >= half_life_ns)
		return 0;
	return cil_half_to_the(cil_divide(age_ns >> shift << 20,
					  half_life_ns >> shift));
}

static void age(struct wteo_rfc *w, u32 states, u32 choice, u64 now_ns)
{
	u32 share = fresh_share(w, choice, now_ns);

	if (share == CIL_ONE)
		return;
	move_weight(w->rows[choice], states, choice, share);
	w->touched_ns[choice] = now_ns;
}

/* Step 2: was most of the window too short for TEO's choice? */
static bool is_window_short(const struct wteo_rfc_window *window, u32 choice)
{
	u32 shorter = 0;
	u32 k;

	for (k = 0; k < choice; k++)
		shorter += window->count[k];
	return !window->size || 2 * shorter > window->size;
}

/* Step 3: the column of a lot, at most @choice. */
static u32 column_of_lot(const u32 *row, u32 choice, u32 lot)
{
	u32 k;

	for (k = 0; k < choice && lot >= row[k]; k++)
		lot -= row[k];
	return k;
}

/* Step 3: the usable state next to a column, shallower ones first. */
static u32 usable_near(const struct cil_machine *machine,
		       const struct cil_query *query, u32 column, u32 choice)
{
	u32 k;

	for (k = column + 1; k-- > 0;)
		if (is_usable(machine, query, k))
			return k;
	for (k = column + 1; k < choice; k++)
		if (is_usable(machine, query, k))
			return k;
	return choice;
}

/* Step 5: the deepest state that pays until the tick, if that is known. */
static u32 fit_into_tick(const struct cil_machine *machine,
			 const struct cil_query *query, u32 index)
{
	u32 best = index;
	u32 k;

	if (!query->asked)
		return index;
	for (k = index + 1; k-- > 0;) {
		if (!is_usable(machine, query, k))
			continue;
		best = k;
		if (wteo_rfc_residency(machine, k) <= query->delta_tick_ns)
			break;
	}
	return best;
}

/* Steps 3 to 5. */
static void draw(struct wteo_rfc *w, const struct cil_machine *machine,
		 const struct cil_query *query, struct cil_decision *decision)
{
	u32 choice = decision->index;
	u32 lot = cil_scale(cil_random(&w->random) >> 2, CIL_ONE);
	u32 column = column_of_lot(w->rows[choice], choice, lot);
	u32 index = choice;
	bool is_shallow;

	if (column < choice)
		index = usable_near(machine, query, column, choice);
	is_shallow = machine->states[index].polling ||
		     wteo_rfc_residency(machine, index) < machine->tick_ns;
	if (query->tick_stopped && is_shallow &&
	    query->sleep_length_ns > 2 * machine->tick_ns)
		return;
	if (index != choice && !query->tick_stopped && is_shallow) {
		decision->stop_tick = false;
		index = fit_into_tick(machine, query, index);
	}
	decision->index = (u8)index;
	decision->row = (u8)choice;
	decision->reason = CIL_REASON_WTEO_SAMPLE;
}

static void wteo_rfc_select(void *state, const struct cil_machine *machine,
			    const void *tunables, struct cil_query *query,
			    struct cil_decision *decision)
{
	const struct wteo_rfc_tunables *t = tunables;
	struct wteo_rfc *w = state;

	if (memcmp(&w->tunables, t, sizeof(*t)))
		prepare(w, machine, t);
	teo_ng_select(&w->teo, machine, query, decision);
	w->choice = decision->index;
	if (!is_window_short(&w->window, w->choice))
		return;
	age(w, machine->state_count, w->choice, query->now_ns);
	draw(w, machine, query, decision);
}

/* The deepest state that would have paid. */
static u32 right_state(const struct cil_machine *machine,
		       const struct cil_outcome *outcome)
{
	u64 half_ns = (u64)machine->states[outcome->index].exit_latency_ns / 2;
	u64 slept_ns = outcome->residency_ns;
	u32 k = machine->state_count - 1;

	slept_ns -= slept_ns > half_ns ? half_ns : slept_ns / 2;
	while (k && wteo_rfc_residency(machine, k) > 0 &&
	       (u64)wteo_rfc_residency(machine, k) > slept_ns)
		k--;
	return k;
}

static void update_window(struct wteo_rfc_window *window, u32 column)
{
	u8 *oldest = &window->columns[window->next];

	if (!window->size)
		return;
	if (*oldest != CIL_ROW_NONE)
		window->count[*oldest]--;
	*oldest = (u8)column;
	window->count[column]++;
	if (++window->next == window->size)
		window->next = 0;
}

static void wteo_rfc_update(void *state, const struct cil_machine *machine,
			    const void *tunables,
			    const struct cil_outcome *outcome)
{
	struct wteo_rfc *w = state;
	u32 right;

	(void)tunables;
	teo_ng_update(&w->teo, machine, outcome);
	w->learned = CIL_ROW_NONE;
	if (outcome->tick_wakeup || outcome->poll_time_limit)
		return;
	right = right_state(machine, outcome);
	age(w, machine->state_count, w->choice, outcome->now_ns);
	move_weight(w->rows[w->choice], machine->state_count, right,
		    CIL_ONE - w->learning);
	w->touched_ns[w->choice] = outcome->now_ns;
	w->learned = w->choice;
	update_window(&w->window, right);
}

static int wteo_rfc_row_learned(const void *state,
				const struct cil_machine *machine,
				u16 weights[CIL_STATE_MAX])
{
	const struct wteo_rfc *w = state;

	if (w->learned == CIL_ROW_NONE)
		return -1;
	cil_view(w->rows[w->learned], 1, machine->state_count, weights);
	return w->learned;
}

static void wteo_rfc_dump(const void *state, const struct cil_machine *machine,
			  const void *tunables, u64 now_ns,
			  struct cil_sink *sink)
{
	const struct wteo_rfc *w = state;
	u16 weights[CIL_STATE_MAX];
	u32 i, k;

	(void)tunables;
	(void)now_ns;
	cil_env_print(sink, "Weights of 10000: what was right for TEO's choice\n");
	for (i = 0; i < machine->state_count; i++) {
		cil_view(w->rows[i], 1, machine->state_count, weights);
		cil_env_print(sink, "s%u", i);
		for (k = 0; k < machine->state_count; k++)
			cil_env_print(sink, " %5u", weights[k]);
		cil_env_print(sink, "\n");
	}
	cil_env_print(sink, "\nTEO\n");
	teo_ng_dump(&w->teo, machine, sink);
}

static const struct cil_tunable wteo_rfc_tunables[] = {
	{
		.name = "learning_rate",
		.unit = "per mille",
		.what = "Share of a row that one idle period replaces.",
		.why = "A tenth, as in the RFC: a row remembers about ten idle periods.",
		.min = 1, .max = 1000, .def = 100,
	}, {
		.name = "history_size",
		.unit = "idle periods",
		.what = "Most of so many must be too short for TEO's choice; 0: always draw.",
		.why = "Eight, as the window of TEO had in 2020.",
		.min = 0, .max = WTEO_RFC_HISTORY_MAX, .def = 8,
	}, {
		.name = "half_life_ms",
		.unit = "ms",
		.what = "Time in which an unused row loses half of what it has learned; 0: never.",
		.why = "A minute, as wteo's.",
		.min = 0, .max = 86400000, .def = 60000,
	}, {
		.name = "seed",
		.unit = "",
		.what = "Seed of the draw, mixed with the number of the CPU.",
		.why = "A constant makes runs repeatable.",
		.min = 0, .max = U32_MAX, .def = 1,
	},
};

const struct cil_policy wteo_rfc_policy = {
	.name = "wteo_rfc",
	.state_size = sizeof(struct wteo_rfc),
	.tunables = wteo_rfc_tunables,
	.tunable_count = sizeof(struct wteo_rfc_tunables) / sizeof(u32),
	.init = wteo_rfc_init,
	.select = wteo_rfc_select,
	.update = wteo_rfc_update,
	.dump = wteo_rfc_dump,
	.row_learned = wteo_rfc_row_learned,
};
